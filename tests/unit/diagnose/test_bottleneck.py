"""Figures -> verdict, one row per kind of limit; suggestions follow from the same figures."""

import math
import random
import re
from dataclasses import replace

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as some

from inferometer.diagnose.bottleneck import conclude
from inferometer.diagnose.diagnosis import (
    BATCHING,
    CLIENT,
    CLIENT_BATCH,
    COMPUTE,
    CONCURRENCY,
    CPU,
    DYNAMIC_BATCHING,
    GPU,
    INSTANCES,
    LIGHT,
    NETWORK,
    OVERHEAD,
    QUEUE,
    THREADS,
    TRANSPORT,
    UNKNOWN,
)
from inferometer.diagnose.observation import Observation, Step, StepSetup
from inferometer.diagnose.suggest import Circumstances
from inferometer.observe.statistics import Executions
from inferometer.stats.machine_figures import CoreUse, GpuFigures, HostUse

HERE = Circumstances("top", max_batch=0, cores=2.0, is_local=True)


def step(name, ms, *, wait_ms=0.0, batch=1.0, calls=1.0, **setup):
    return Step(name, calls, ms / 1e3, ms / 1e3, wait_ms / 1e3, batch, StepSetup(**setup))


def row(concurrency, throughput, *steps, latency_ms=None, server_ms=None, host=None, items=1, client=0.1):
    latency_s = concurrency * items / throughput if latency_ms is None else latency_ms / 1e3
    server_s = latency_s if server_ms is None else server_ms / 1e3
    return Observation(concurrency, items, throughput, latency_s, steps, server_s, client, 0.0001, host)


def host(busy, server, **models):
    return HostUse(2, busy, server, {name: CoreUse(*use) for name, use in models.items()})


ASLEEP = host(0.2, 0.1, slow=(0.02, 0.0), other=(0.01, 0.0))
SLOW_STEP = (
    row(1, 15.0, step("slow", 60), step("other", 5), host=ASLEEP),
    row(8, 16.5, step("slow", 60, wait_ms=410), step("other", 5), host=ASLEEP),
)
SPINNING = (
    row(1, 48.0, step("slow", 20, instances=4), host=host(1.0, 1.0, slow=(0.96, 0.0))),
    row(8, 98.0, step("slow", 40, wait_ms=40, instances=4), host=host(2.0, 1.95, slow=(1.9, 1.9))),
)
ONE_BY_ONE = (
    row(1, 24.0, step("slow", 40, max_batch=8), host=ASLEEP),
    row(8, 24.8, step("slow", 40, wait_ms=280, max_batch=8), host=ASLEEP),
)
EIGHT_AT_ONCE = row(1, 145.0, step("slow", 54, batch=8.0, max_batch=8), items=8, host=ASLEEP)
FAR_AWAY = (
    row(1, 90.0, step("slow", 1), latency_ms=11, server_ms=1.2),
    row(8, 720.0, step("slow", 1, wait_ms=0.1), latency_ms=11, server_ms=1.3),
)
BUSY_SERVER = (
    row(1, 90.0, step("slow", 1), latency_ms=11, server_ms=10.5),
    row(16, 700.0, step("slow", 1), latency_ms=22, server_ms=21),
)
DELAYED = (
    row(1, 90.0, step("slow", 1, wait_ms=9.5, max_batch=8, is_batching=True, delay_s=0.01), latency_ms=11),
    row(4, 360.0, step("slow", 1, wait_ms=9.5, max_batch=8, is_batching=True, delay_s=0.01), latency_ms=11),
)
UNUSED = (
    row(1, 9.0, step("slow", 100, instances=8), latency_ms=110),
    row(4, 36.0, step("slow", 100, instances=8), latency_ms=110),
)


def test_a_server_without_a_model_has_a_throughput_in_requests():
    found = conclude((replace(row(8, 100.0), rate_unit="requests/s"),), HERE, ()).verdict
    assert "100 requests/s at concurrency 8" in found.sentence


@pytest.mark.parametrize(
    ("rows", "extra", "kind", "culprit"),
    [
        pytest.param(SLOW_STEP, (), COMPUTE, "slow", id="one slow step"),
        pytest.param(SPINNING, (), CPU, "slow", id="more busy instances than cores"),
        pytest.param(ONE_BY_ONE, (EIGHT_AT_ONCE,), BATCHING, "slow", id="batches would be cheap"),
        pytest.param(FAR_AWAY, (), NETWORK, None, id="a slow network"),
        pytest.param(BUSY_SERVER, (), OVERHEAD, None, id="a server busy with itself"),
        pytest.param(DELAYED, (), QUEUE, "slow", id="a queue delay without need"),
        pytest.param(UNUSED, (), LIGHT, "slow", id="too little load"),
        pytest.param((row(8, 100.0),), (), UNKNOWN, None, id="no statistics"),
        pytest.param((replace(SLOW_STEP[1], client_share=0.97),), (), CLIENT, None, id="our own limit"),
    ],
)
def test_each_kind_of_limit_is_named(rows, extra, kind, culprit):
    found = conclude(rows, HERE, extra).verdict
    assert (found.kind, found.step) == (kind, culprit)
    assert found.sentence.endswith(".")


@pytest.mark.parametrize(
    ("trip_s", "words"),
    [
        (None, "the network and its buffers."),
        (0.009, "the network and its buffers."),
        (0.001, "the network's round trip of 1.00 ms explains only 10 % of it"),
    ],
)
def test_the_network_is_blamed_only_for_its_round_trips(trip_s, words):
    rows = tuple(replace(one, trip_s=trip_s) for one in FAR_AWAY)
    assert words in conclude(rows, HERE, ()).verdict.sentence


def test_batches_that_cost_as_much_as_their_parts_are_not_blamed():
    dear = row(1, 25.0, step("slow", 320, batch=8.0, max_batch=8), items=8, host=ASLEEP)
    found = conclude(ONE_BY_ONE, HERE, (dear,))
    assert found.verdict.kind == COMPUTE
    assert DYNAMIC_BATCHING not in kinds(found)


@pytest.mark.parametrize("waited", [(0.25, 0.9), None], ids=["it waited for a core", "nobody knows"])
def test_no_step_is_blamed_when_others_hold_the_cores(waited):
    models = {} if waited is None else {"slow": waited}
    for sweep in (SPINNING, SLOW_STEP, DELAYED, UNUSED):
        found = conclude(tuple(replace(seen, host=host(2.0, 0.3, **models)) for seen in sweep), HERE)
        assert (found.verdict.kind, found.verdict.step, found.suggestions) == (CPU, None, ())
        assert "other programs: they use 1.7 of its 2 cores, the server uses 0.3" in found.verdict.sentence
        assert "slow" not in found.verdict.sentence
        assert found.table, "the times are shown all the same"


def test_other_programs_that_leave_a_core_free_do_not_affect_the_steps():
    rows = tuple(replace(found, host=host(1.4, 0.3, slow=(0.25, 0.0))) for found in SLOW_STEP)
    assert conclude(rows, HERE).verdict.step == "slow"


def test_a_sleeping_step_is_blamed_even_on_a_full_machine():
    crowded = host(2.0, 0.05, slow=(0.01, 0.03), other=(0.01, 0.02))
    rows = tuple(replace(found, host=crowded) for found in SLOW_STEP)
    assert conclude(rows, HERE).verdict.kind == COMPUTE


def slots(load, *, taken, ours=0.0, cores=0.15, is_seen=True, stretch=1.0):
    """Eight instances that share two slots, on a machine whose cores other programs or this tool keep busy."""
    held, throughput = min(load, 8), min(load, 2) / (0.04 * stretch)
    use = CoreUse(cores, 0.02 * held)
    seen = HostUse(2, 2.0, 2.0 - taken - ours, {"slow": use} if is_seen else {}, ours=CoreUse(ours, 0.0))
    slow = step("slow", 1e3 * held / throughput, instances=8)
    return row(load, throughput, slow, host=seen)


@pytest.mark.parametrize(
    ("used", "words"),
    [
        ({"taken": 1.6}, "all its 8 instances are busy"),
        ({"taken": 0.5, "cores": 0.2}, "all its 8 instances are busy"),
        ({"taken": 0.0, "ours": 1.7}, "all its 8 instances are busy"),
        ({"taken": 1.6, "is_seen": False}, "they use 1.6 of its 2 cores, the server uses 0.4."),
        ({"taken": 0.0, "ours": 1.7, "is_seen": False}, "the server uses 0.3, this tool 1.7. The step times"),
        ({"taken": 0.2, "cores": 1.7}, "slow uses 1.7 of them"),
        ({"taken": 0.2, "is_seen": False}, "the server uses 1.8. slow is the busiest step"),
    ],
)
def test_a_step_is_blamed_for_the_cores_only_if_it_uses_them(used, words):
    """The lightest load took longer too, so that executions do not look as if they waited for each other."""
    rows = [slots(load, stretch=3.0 if load == 1 else 1.0, **used) for load in (1, 4, 8)]
    found = conclude(rows, HERE).verdict
    assert words in found.sentence
    is_user = "slow uses" in words or "busiest" in words
    assert (found.kind == CPU and found.step == "slow") == is_user


def test_a_machine_that_was_not_observed_is_not_called_exhausted():
    rows = [replace(slots(load, taken=0.0), host=None) for load in (1, 4, 8)]
    found = conclude(rows, HERE).verdict
    assert found.kind == COMPUTE
    assert "they share the server's cores, or something else, such as a lock" in found.sentence


def test_a_server_limited_to_some_cores_is_described_by_them():
    limited = replace(host(1.2, 0.99, slow=(0.97, 2.9)), cores=8, server_cores=1)
    rows = [replace(seen, host=limited) for seen in SPINNING]
    found = conclude(rows, replace(HERE, cores=1.0)).verdict
    assert found.kind == CPU
    assert "the server may run on 1 of 8 cores and uses 0.99. slow uses 0.97 of them" in found.sentence


def test_the_table_weights_steps_by_their_calls():
    table = conclude((row(4, 20.0, step("a", 10, calls=3.0), step("b", 10)),), HERE).table
    assert [found.compute_share for found in table] == pytest.approx([0.75, 0.25])
    assert [found.utilisation for found in table] == pytest.approx([0.6, 0.2])
    assert [found.bound for found in table] == pytest.approx([100 / 3, 100.0])


def test_a_caller_is_distinguished_from_the_steps_it_calls():
    inner = step("inner", 30)
    caller = Step("caller", 1.0, 0.040, 0.010, 0.0, 1.0, StepSetup(), (inner,))
    table = conclude((row(1, 24.0, caller), row(8, 25.0, caller)), HERE).table
    assert [(found.name, found.depth) for found in table] == [("caller", 0), ("inner", 1)]
    assert [found.compute_share for found in table] == pytest.approx([0.25, 0.75])
    assert [found.utilisation for found in table] == pytest.approx([1.0, 0.75])


# --- suggestions


def kinds(conclusion):
    return [found.change.kind for found in conclusion.suggestions]


@pytest.mark.parametrize(
    ("rows", "extra", "circumstances", "kind"),
    [
        pytest.param(SLOW_STEP, (), HERE, INSTANCES, id="instances of the slow step"),
        pytest.param(ONE_BY_ONE, (EIGHT_AT_ONCE,), HERE, DYNAMIC_BATCHING, id="batches"),
        pytest.param(
            ONE_BY_ONE, (EIGHT_AT_ONCE,), replace(HERE, max_batch=8), CLIENT_BATCH, id="larger requests"
        ),
        pytest.param(FAR_AWAY, (), replace(HERE, is_json=True), TRANSPORT, id="binary instead of JSON"),
        pytest.param(FAR_AWAY, (), replace(HERE, transfer_s=0.004), TRANSPORT, id="shared memory"),
        pytest.param(BUSY_SERVER, (), HERE, THREADS, id="threads of the server"),
        pytest.param(UNUSED, (), HERE, CONCURRENCY, id="more load"),
    ],
)
def test_helpful_changes_are_suggested(rows, extra, circumstances, kind):
    found = conclude(rows, circumstances, extra)
    assert kind in kinds(found)
    gains = [round(row.gain, 2) for row in found.suggestions]
    assert gains == sorted(gains, reverse=True)


def test_the_prediction_starts_from_the_measurement():
    best = conclude(SLOW_STEP, HERE).suggestions[0]
    top = SLOW_STEP[-1]
    assert best.throughput == pytest.approx(top.throughput * (1 + best.gain))
    assert best.latency_ns < top.latency_s * 1e9


def test_no_more_busy_instances_than_cores_are_suggested():
    busy = (
        row(1, 48.0, step("slow", 20), host=host(1.0, 1.0, slow=(0.96, 0.0))),
        row(8, 49.0, step("slow", 20, wait_ms=140), host=host(1.0, 1.0, slow=(0.98, 0.0))),
    )
    best = conclude(busy, HERE).suggestions[0]
    assert (best.change.kind, best.change.after) == (INSTANCES, "2")
    assert best.throughput == pytest.approx(2 * 49.0, rel=0.1)


def test_instances_beyond_exhausted_cores_are_suggested_for_removal():
    found = conclude(SPINNING, HERE).suggestions
    fewer = next(row for row in found if row.change.kind == INSTANCES)
    assert (fewer.change.before, fewer.change.after) == ("4", "2")
    assert abs(fewer.gain) < 0.05


def test_an_unmeasured_batch_cost_is_marked_as_such():
    found = conclude(ONE_BY_ONE, HERE).suggestions
    batching = next(row for row in found if row.change.kind == DYNAMIC_BATCHING)
    assert "(not measured)" in batching.why


def test_sequences_are_never_batched():
    rows = tuple(
        replace(
            found, steps=(replace(found.steps[0], setup=replace(found.steps[0].setup, is_sequence=True)),)
        )
        for found in ONE_BY_ONE
    )
    assert DYNAMIC_BATCHING not in kinds(conclude(rows, HERE, (EIGHT_AT_ONCE,)))


def test_a_caller_without_its_own_work_does_not_keep_the_gpu_busy():
    gpus = (GpuFigures("g", 0.75, 100.0, 10, 100, 0.5, 1000.0),)
    member = step("member", 10, device="gpu")
    caller = replace(step("caller", 10, device="gpu"), own_s=0.0, members=(member,))
    rows = [replace(row(load, 98.0, caller), gpus=gpus) for load in (1, 8)]
    found = conclude(rows, HERE).verdict
    assert (found.kind, found.step) == (GPU, "member")


# --- bounds

_sizes = some.tuples(some.sampled_from((1, 2, 4, 8)), some.integers(1, 500), some.floats(0.01, 200))
_steps = some.builds(
    lambda ms, batch, calls, sizes, setup: replace(
        step("s", ms, batch=batch, calls=calls, **setup),
        sizes=tuple(Executions(size, count, 0.0, ms * 1e6, 0.0) for size, count, ms in sizes),
    ),
    some.floats(0.01, 200),
    some.floats(1, 8),
    some.floats(0.1, 3),
    some.lists(_sizes, max_size=3, unique_by=lambda size: size[0]),
    some.fixed_dictionaries(
        {
            "instances": some.integers(1, 6),
            "device": some.sampled_from(("cpu", "gpu")),
            "max_batch": some.sampled_from((0, 1, 8)),
            "is_batching": some.booleans(),
        }
    ),
)
_gpus = some.builds(
    lambda share, used: (GpuFigures("g", share, 100.0, used, 100, 0.5, 1000.0),),
    some.none() | some.floats(0, 1),
    some.none() | some.integers(0, 100),
)


@settings(max_examples=8, deadline=None, phases=(Phase.generate,))
@given(
    some.lists(_steps, min_size=1, max_size=3),
    some.lists(some.floats(0.5, 20_000), min_size=1, max_size=3),
    some.just(()) | _gpus,
)
def test_no_bound_is_below_the_measured_throughput(steps, throughputs, gpus):
    """Whatever the server counts, and however little it agrees with our measurement."""
    named = tuple(replace(row, name=f"s{number}") for number, row in enumerate(steps))
    rows = [replace(row(2**n, value, *named), gpus=gpus) for n, value in enumerate(throughputs)]
    found = conclude(rows, HERE)
    most = max(throughputs)
    assert all(figures.bound >= most for figures in found.table)
    for words in re.findall(r"at most ([\d,.e+]+) infer/s", found.verdict.sentence):
        assert float(words.replace(",", "")) >= most


@pytest.mark.parametrize("seed", range(20))
def test_growth_with_the_load_is_claimed_only_from_intervals(seed):
    """Nothing is busy, and throughput at the last load differs from the one before by any amount and noise."""
    chance = random.Random(seed)
    growth, noise = chance.uniform(-0.1, 0.4), chance.choice((0.0, 0.01, 0.05, 0.3))
    rates = (100.0, 100.0 * (1 + growth))
    rows = [
        replace(row(load, rate, step("slow", 15, instances=8), latency_ms=16), noise=noise)
        for load, rate in zip((1, 2), rates, strict=True)
    ]
    found = conclude(rows, HERE).verdict
    assert found.kind == LIGHT
    low, high = ((1 + growth) * math.exp(sign * math.sqrt(2) * noise) - 1 for sign in (-1.15, 1.15))
    assert ("still grows" in found.sentence) <= (noise > 0 and growth > 0)
    assert ("no longer grows" in found.sentence) <= (noise > 0 and growth < 0.1)
    if noise and low > 0:
        assert "still grows" in found.sentence
    if noise and low < 0 and high > 0.12:
        assert "grows" not in found.sentence
    assert ("still grows" in found.sentence) == ("would grow with more load" in found.sentence)
    assert ("grows" not in found.sentence) == ("may raise throughput" in found.sentence)


def test_one_load_does_not_show_whether_throughput_grows():
    idle = replace(row(8, 100.0, step("slow", 15, instances=8), latency_ms=16), noise=0.01)
    found = conclude([idle], HERE).verdict
    assert found.kind == LIGHT
    assert "grows" not in found.sentence


@pytest.mark.parametrize("ours_ms", [12, 4])
def test_a_client_that_waits_for_a_core_is_not_called_the_network(ours_ms):
    """The client shares its core with another program, on a machine that is not full."""
    seen = replace(
        row(1, 1000 / (10 + ours_ms), step("slow", 9.5), server_ms=10, host=ASLEEP),
        client_limit="client-limited: this tool waited in the run queue for a core 50 % of the time",
    )
    found = conclude([seen], replace(HERE, is_json=True))
    assert (found.verdict.kind == CLIENT) == (ours_ms > 10)
    assert TRANSPORT not in {row.change.kind for row in found.suggestions}
    told = conclude([replace(seen, client_limit="")], replace(HERE, is_json=True))
    assert (told.verdict.kind == NETWORK) == (ours_ms > 10)
