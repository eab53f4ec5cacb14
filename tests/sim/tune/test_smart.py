"""The smart search on simulated servers: as good as an exhaustive one, in few trials; resumed as if never stopped."""

import math
import random

import pytest

from inferometer.tune import model_config
from inferometer.tune.scoring import Constraint, Goal, rank
from inferometer.tune.search import candidates
from inferometer.tune.search.search import SPENT, ModelProblem, SearchProblem, SkippedProposal
from inferometer.tune.search.smart import smart
from inferometer.tune.settings import SearchSettings
from inferometer.tune.space import SearchBounds, automatic
from inferometer.tune.trial import Status
from inferometer.tune.variant import VariantNames
from tests.support.landscape import Landscape, SimulatedTrials, driven

BASE = model_config.parse_text(
    """name: "m" max_batch_size: 8 dynamic_batching { } instance_group { count: 1 kind: KIND_CPU }
    input { name: "I" data_type: TYPE_FP32 dims: [1] }""",
    "config.pbtxt",
)


def scope_of(seed: int, limit_ms: float | None = None, **settings) -> SearchProblem:
    draw = random.Random(seed)
    bounds = SearchBounds(
        instances=(1, draw.choice((3, 4, 5))),
        batch=(1, draw.choice((8, 16))),
        concurrency=(1, draw.choice((64, 128))),
        request_rate=(16, 8192),
        delays_us=draw.choice(((), (), (500,))),
    )
    constraints = () if limit_ms is None else (Constraint("perf_latency_p99", high=limit_ms),)
    task = ModelProblem(automatic("m", BASE, bounds, cpu_only=True), Goal("m", constraints=constraints))
    return SearchProblem((task,), SearchSettings(bounds=bounds, **settings), seed)


def exhaustive(landscape: Landscape, seed: int, **settings) -> tuple[float | None, float]:
    """A limit drawn from all the latencies there are (or none), and the best throughput that keeps it."""
    space = candidates.make(scope_of(seed, **settings), VariantNames(), per_doubling=4)
    truth = [landscape.truth(space.configurations[number].variants[0], load) for number, load in space.rows]
    draw = random.Random(-seed - 1)
    limit_ms = None
    if draw.random() < 0.75:
        # A user's limit is not to the digit what one of the candidates has.
        limit_ms = sorted(p99 for _, p99 in truth)[int(len(truth) * draw.uniform(0.1, 0.7))] * draw.uniform(
            1, 1.1
        )
    return limit_ms, max(rate for rate, p99 in truth if limit_ms is None or p99 <= limit_ms)


class Stopped(Exception):
    """So many trials were made."""


def search(scope: SearchProblem, simulated: SimulatedTrials, *, known=(), stop_after=None):
    """Trials until the search ends, or until so many were made; `known` ones are told again, as a journal does."""
    trials, names = [], VariantNames()
    by_key = {trial.key: trial for trial in known}

    def measure(proposal):
        trial = by_key.get(proposal.key)
        if trial is None:
            if stop_after is not None and simulated.count >= stop_after:
                raise Stopped
            trial = simulated.answer(proposal)
        trials.append(trial)
        return trial

    try:
        _, ended = driven(smart(scope, names), measure)
    except Stopped:
        ended = "stopped"
    return trials, names, ended


@pytest.mark.parametrize(("by_rate", "count"), [(False, 100), (True, 6)], ids=["concurrency", "rate"])
def test_smart_is_within_five_per_cent_of_the_best_in_95_of_100_landscapes(by_rate, count):
    missed = []
    for seed in range(count):
        landscape = Landscape.drawn(seed)
        limit_ms, best = exhaustive(landscape, seed, by_rate=by_rate)
        scope = scope_of(seed, limit_ms, by_rate=by_rate)
        trials, names, _ = search(scope, SimulatedTrials(landscape, seed))
        found = rank(scope.goals, trials)[0]
        rate, p99 = landscape.truth(names.known[found.name], found.best.load)
        if rate < 0.95 * best or (limit_ms is not None and p99 > 1.05 * limit_ms):
            missed.append(seed)
    assert len(missed) <= max(1, 0.05 * count), missed


@pytest.mark.parametrize("after", [0, 1, 5, 12])
def test_a_resumed_search_ends_as_if_it_had_never_stopped(after):
    seed = 11
    landscape = Landscape.drawn(seed)
    scope = scope_of(seed, exhaustive(landscape, seed)[0])
    whole, _, ended = search(scope, SimulatedTrials(landscape, seed))
    before, _, stopped = search(scope, SimulatedTrials(landscape, seed), stop_after=after)
    again, _, ended_again = search(scope, SimulatedTrials(landscape, seed, loaded="nothing"), known=before)
    assert stopped == "stopped"
    assert ended_again == ended
    assert [(trial.name, trial.load) for trial in again] == [(trial.name, trial.load) for trial in whole]
    assert rank(scope.goals, again)[0].name == rank(scope.goals, whole)[0].name


@pytest.mark.parametrize("budget_s", [5.0, 15.0, 40.0])
def test_a_budget_is_kept_and_the_best_so_far_named(budget_s):
    seed = 4
    scope = scope_of(seed, budget_s=budget_s)
    trials, _, ended = search(scope, SimulatedTrials(Landscape.drawn(seed), seed))
    assert sum(trial.cost_s for trial in trials) <= budget_s
    assert rank(scope.goals, trials)
    assert ended == SPENT


def test_configurations_that_cannot_be_loaded_are_left_out():
    seed = 7
    scope = scope_of(seed)
    plain, _, _ = search(scope, SimulatedTrials(Landscape.drawn(seed), seed))
    best = rank(scope.goals, plain)[0].name
    trials, _, _ = search(scope, SimulatedTrials(Landscape.drawn(seed), seed, fails=(best,)))
    failed = [trial for trial in trials if trial.status is Status.FAILED]
    assert {trial.name for trial in failed} <= {best}
    assert len(failed) <= 1
    assert rank(scope.goals, trials)[0].name != best


def test_what_was_not_measured_has_a_reason_each():
    seed = 2
    scope = scope_of(seed)
    names = VariantNames()
    simulated = SimulatedTrials(Landscape.drawn(seed), seed)
    measured = set()

    def measure(proposal):
        trial = simulated.answer(proposal)
        measured.add(trial.name)
        return trial

    events, _ = driven(smart(scope, names), measure)
    skipped = [event for event in events if isinstance(event, SkippedProposal)]
    left = {skip.proposal.variants[0].name: skip.reason for skip in skipped}
    everything = {row.variants[0].name for row in candidates.make(scope, names).configurations}
    assert set(left) == everything - measured
    assert all("expected" in reason for reason in left.values())


def test_several_objectives_are_weighed():
    seed = 3
    landscape = Landscape.drawn(seed)
    scope = scope_of(seed)
    calm = Goal("m", objectives=(("perf_latency_p99", 10), ("perf_throughput", 1)))
    quiet = SearchProblem((ModelProblem(scope.tasks[0].space, calm),), scope.settings, seed)
    fast, _, _ = search(scope, SimulatedTrials(landscape, seed))
    slow, _, _ = search(quiet, SimulatedTrials(landscape, seed))
    fastest = rank(scope.goals, fast)[0].best.value("perf_latency_p99")
    calmest = rank(quiet.goals, slow)[0].best.value("perf_latency_p99")
    assert calmest < fastest


def pair_of(seed: int, limit_ms: float | None = None) -> SearchProblem:
    """Two models that are loaded together: the first counts most, the second has a limit."""
    bounds = SearchBounds(instances=(1, 2), batch=(1, 8), concurrency=(1, 64))
    limits = () if limit_ms is None else (Constraint("perf_latency_p99", high=limit_ms),)
    goals = (Goal("m", weight=5), Goal("n", constraints=limits))
    spaces = [automatic(goal.model, {**BASE, "name": goal.model}, bounds, cpu_only=True) for goal in goals]
    return SearchProblem(tuple(map(ModelProblem, spaces, goals)), SearchSettings(bounds=bounds), seed)


def test_models_together_are_weighed_and_each_keeps_its_own_limit():
    seed = 0
    landscape = Landscape.drawn(seed)

    def truth(variants, load) -> tuple[float, float]:
        (first, _), (second, p99) = (landscape.truth(variant, load) for variant in variants)
        return (5 * math.log(first) + math.log(second)) / 6, p99

    space = candidates.make(pair_of(seed), VariantNames(), per_doubling=4)
    rows = [truth(space.configurations[number].variants, load) for number, load in space.rows]
    limit_ms = 1.05 * sorted(p99 for _, p99 in rows)[len(rows) // 6]
    scope = pair_of(seed, limit_ms)
    trials, names, _ = search(scope, SimulatedTrials(landscape, seed))
    best = rank(scope.goals, trials)[0].best
    found, p99 = truth([names.known[part.variant] for part in best.parts], best.load)
    step = 0.13  # of the loads: the best one is within two per cent of the limit, where chance decides
    assert found > max(value for value, slow in rows if slow <= limit_ms) - step
    assert p99 <= 1.05 * limit_ms
