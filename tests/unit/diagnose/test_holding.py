"""Planted locks, shared slots and slow batches: what is named, tried and kept."""

import random
from dataclasses import replace

import pytest

from inferometer.diagnose.bottleneck import conclude
from inferometer.diagnose.diagnosis import BATCHING, COMPUTE, DYNAMIC_BATCHING, INSTANCES, SHARED
from inferometer.diagnose.investigation import Investigation, probe_batches
from inferometer.diagnose.observation import Observation, Step, StepSetup
from inferometer.diagnose.suggest import Circumstances
from inferometer.stats.machine_figures import CoreUse, HostUse
from tests.support.samples import sample

HERE = Circumstances("top", max_batch=0, cores=2.0, is_local=True)
DRAWS = range(sample(4, 20))
NOISE = 0.02


def observe(concurrency, alone_s, *, instances=1, slots=None, cpu=0.02, others=0.0, is_full=False):
    """A step with this many instances, of which at most `slots` do useful work at a time."""
    working = min(concurrency, instances, slots or instances)
    throughput = working / alone_s
    held = min(concurrency, instances)
    step = Step(
        "slow",
        1.0,
        held / throughput,
        held / throughput,
        max(0, concurrency - held) / throughput,
        setup=StepSetup(instances=instances),
    )
    waiting = held - working if cpu > 0.5 else 0.0
    busy = 2.0 if is_full else min(2.0, cpu * working + others)
    host = HostUse(2, busy, cpu * working, {"slow": CoreUse(cpu * working, waiting)})
    return Observation(concurrency, 1, throughput, concurrency / throughput, (step,), None, 0.1, 0.0001, host)


def noisy(row, draw):
    """Add 4 % measurement error: executions take slightly longer, and fewer end."""
    slower = draw.lognormvariate(0, NOISE)
    (step,) = row.steps
    step = replace(step, service_s=step.service_s * slower, own_s=step.own_s * slower)
    throughput = row.throughput / slower * draw.lognormvariate(0, NOISE / 3)
    latency_s = row.concurrency / throughput
    return replace(row, throughput=throughput, latency_s=latency_s, steps=(step,), noise=2 * NOISE)


def tried(draw, slots, *, begin=1, trials=8, loads=()):
    """The diagnosis of a server with this many slots, and its final number of instances."""
    alone_s, cpu = draw.uniform(0.003, 0.2), draw.uniform(0.0, 0.1)

    def measured(load, instances):
        return noisy(observe(load, alone_s, instances=instances, slots=slots, cpu=cpu), draw)

    loads = loads or draw.choice(((1, 2, 4, 8), (1, 4, 8), (1, 8)))
    case, instances = Investigation([measured(load, begin) for load in loads], HERE), begin
    while len(case.trials) < trials and (suggestion := case.next()) is not None:
        assert suggestion.change.kind == INSTANCES
        count = int(suggestion.change.after)
        trial = case.learn(suggestion, measured(suggestion.concurrency, count))
        instances = count if trial.is_kept else instances
    return case, instances


@pytest.mark.sampled
@pytest.mark.parametrize("seed", DRAWS)
def test_a_lock_is_diagnosed_as_shared(seed):
    case, instances = tried(random.Random(seed), slots=1)
    assert instances == 1
    assert case.found.verdict.kind == SHARED
    assert "They share something" in case.found.verdict.sentence
    assert INSTANCES not in {row.change.kind for row in case.found.suggestions}


@pytest.mark.sampled
@pytest.mark.parametrize("seed", DRAWS)
def test_no_more_instances_are_kept_than_slots(seed):
    draw = random.Random(seed)
    slots = draw.choice((2, 3, 4))
    case, instances = tried(draw, slots=slots)
    assert instances == slots
    assert case.found.verdict.kind == SHARED


@pytest.mark.parametrize("begin", [1, 2, 3, 4])
@pytest.mark.parametrize("load", [8, 16])
def test_a_trial_of_more_instances_shows_a_lock_at_a_single_load(begin, load):
    case, instances = tried(random.Random(begin), slots=1, begin=begin, loads=(load,))
    assert instances <= begin
    assert case.trials
    assert case.found.verdict.kind == SHARED
    assert not any(
        row.change.kind == INSTANCES and int(row.change.after) > instances for row in case.found.suggestions
    )


def test_instances_that_all_do_useful_work_are_kept():
    case, instances = tried(random.Random(1), slots=None)
    assert instances == 8
    assert case.found.verdict.kind != SHARED


def test_a_lock_is_found_without_trials():
    sweep = [observe(load, 0.02, instances=4, slots=1) for load in (1, 4, 8)]
    found = conclude(sweep, HERE)
    assert found.verdict.kind == SHARED
    fewer = next(row for row in found.suggestions if row.change.kind == INSTANCES)
    assert fewer.change.after == "1"


def test_a_lock_is_found_beside_a_probe_of_batches():
    """A batch of eight took no longer than a single inference."""
    sweep = [observe(load, 0.02, instances=4, slots=1) for load in (1, 4, 8)]
    alone = sweep[0]
    (step,) = alone.steps
    batch = replace(step, batch=8.0, service_s=0.019, own_s=0.019)
    probe = replace(alone, items=8, throughput=8 / 0.02, steps=(batch,))
    assert conclude(sweep, replace(HERE, max_batch=8), [probe]).verdict.kind == SHARED


@pytest.mark.parametrize("change", [{"cpu": 1.0}, {"is_full": True, "cpu": 0.9}])
def test_busy_cores_are_not_diagnosed_as_a_lock(change):
    sweep = [observe(load, 0.02, instances=4, slots=2, **change) for load in (1, 4, 8)]
    assert conclude(sweep, HERE).verdict.kind != SHARED


def test_without_host_data_nothing_is_diagnosed_as_shared():
    sweep = [replace(observe(load, 0.02, instances=4, slots=1), host=None) for load in (1, 4, 8)]
    assert conclude(sweep, HERE).verdict.kind != SHARED


# --- batches


def batched(concurrency, one_s, power, *, is_batching=True, most=8, instances=1, items=1):
    held = min(concurrency, instances)
    size = items * (min(concurrency // held, most) if is_batching else 1)
    service_s = one_s * size**power
    throughput = held * size / service_s
    setup = StepSetup(instances=instances, max_batch=most, is_batching=is_batching)
    step = Step("slow", 1.0, service_s, service_s, 0.0, float(size), setup)
    host = HostUse(2, 0.1, 0.05, {"slow": CoreUse(0.02, 0.0)})
    latency_s = concurrency * items / throughput
    return Observation(concurrency, items, throughput, latency_s, (step,), None, 0.1, 0.0001, host)


@pytest.mark.sampled
@pytest.mark.parametrize("seed", DRAWS)
def test_slow_batches_are_found_and_switched_off(seed):
    draw = random.Random(seed)
    one_s, power = draw.uniform(0.002, 0.1), draw.uniform(1.25, 2.2)
    sweep = [noisy(batched(load, one_s, power), draw) for load in (1, 4, 8)]
    case = Investigation(sweep, replace(HERE, max_batch=8))
    assert case.found.verdict.kind == BATCHING
    assert "Batching makes slow slower" in case.found.verdict.sentence
    suggestion = case.next()
    assert suggestion is not None
    assert (suggestion.change.kind, suggestion.change.after) == (DYNAMIC_BATCHING, "off")
    single = noisy(batched(8, one_s, power, is_batching=False), draw)
    assert suggestion.throughput == pytest.approx(single.throughput, rel=0.15)
    assert case.learn(suggestion, single).is_kept
    assert not any(row.change.kind == DYNAMIC_BATCHING for row in case.found.suggestions)


@pytest.mark.parametrize("power", [0.3, 0.8, 1.0])
def test_batches_that_cost_no_more_than_their_parts_are_kept(power):
    found = conclude([batched(load, 0.01, power) for load in (1, 4, 8)], replace(HERE, max_batch=8))
    assert found.verdict.kind == COMPUTE
    assert not any(row.change.after == "off" for row in found.suggestions)


@pytest.mark.sampled
@pytest.mark.parametrize("seed", DRAWS)
@pytest.mark.parametrize("loads", [(8,), (1, 8)])
def test_slow_batches_are_switched_off_before_instances_are_added(seed, loads):
    """Without a lighter load, or where that was slowed down too, so that the batches look almost as cheap."""
    draw = random.Random(seed)
    one_s, power = draw.uniform(0.002, 0.1), draw.uniform(1.1, 1.3 if len(loads) > 1 else 2.0)
    slower = {1: draw.uniform(1.0, 1.4)}
    sweep = [noisy(batched(load, one_s * slower.get(load, 1.0), power), draw) for load in loads]
    extra = [noisy(batched(1, one_s, power, items=size), draw) for size in probe_batches(sweep, 8)]
    case = Investigation(sweep, replace(HERE, max_batch=8), extra)
    suggestion = case.next()
    assert suggestion is not None
    assert (suggestion.change.kind, suggestion.change.after) == (DYNAMIC_BATCHING, "off")
    single = noisy(batched(8, one_s, power, is_batching=False), draw)
    if case.learn(suggestion, single).is_kept:
        is_dear = 8 ** (power - 1) > 1.3
        assert case.slow_batches is not None or not is_dear
    following = case.next()
    assert following is not None
    assert following.change.kind == INSTANCES


def test_batches_that_were_not_slow_stay_on_while_instances_are_added():
    case = Investigation([batched(load, 0.02, 1.0) for load in (1, 8)], replace(HERE, max_batch=8))
    suggestion = case.next()
    assert suggestion is not None
    assert suggestion.change.after == "off"
    assert not case.learn(suggestion, batched(8, 0.02, 1.0, is_batching=False)).is_kept
    assert case.slow_batches is None
    following = case.next()
    assert following is not None
    assert following.change.kind == INSTANCES
    assert case.learn(following, batched(8, 0.02, 1.0, instances=8)).is_kept


def test_batches_that_pay_are_not_switched_off():
    case = Investigation([batched(load, 0.02, 0.5) for load in (1, 8)], replace(HERE, max_batch=8))
    suggestion = case.next()
    assert suggestion is not None
    assert suggestion.change.kind == INSTANCES


def test_a_single_request_is_probed_only_if_all_were_batched():
    assert probe_batches([batched(load, 0.02, 1.5) for load in (4, 8)], 8) == (1,)
    assert probe_batches([batched(load, 0.02, 1.5) for load in (1, 8)], 8) == ()
    assert probe_batches([batched(8, 0.02, 1.5, is_batching=False)], 8) == (8,)
