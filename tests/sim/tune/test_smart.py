"""The smart search on simulated servers: as good as an exhaustive one, in few trials; resumed as if never stopped."""

import random

import pytest

from inferometer.testing.landscape import Landscape, SimulatedTrials
from inferometer.tune import model_config
from inferometer.tune.goal import Constraint, Goal
from inferometer.tune.scoring import rank
from inferometer.tune.search import candidates
from inferometer.tune.search.scope import Scope, Task
from inferometer.tune.search.search import Search
from inferometer.tune.search.smart import smart
from inferometer.tune.space import Bounds, automatic
from inferometer.tune.variant import Names

BASE = model_config.parse_text(
    """name: "m" max_batch_size: 8 dynamic_batching { } instance_group { count: 1 kind: KIND_CPU }
    input { name: "I" data_type: TYPE_FP32 dims: [1] }""",
    "config.pbtxt",
)


def scope_of(seed: int, limit_ms: float | None = None, **settings) -> Scope:
    draw = random.Random(seed)
    bounds = Bounds(
        instances=(1, draw.choice((3, 4, 5))),
        batch=(1, draw.choice((8, 32))),
        concurrency=(1, draw.choice((64, 256))),
        delays_us=draw.choice(((), (), (500,))),
    )
    constraints = () if limit_ms is None else (Constraint("perf_latency_p99", high=limit_ms),)
    task = Task(automatic("m", BASE, bounds, cpu_only=True), Goal("m", constraints=constraints))
    return Scope((task,), bounds, seed=seed, **settings)


def exhaustive(landscape: Landscape, seed: int) -> tuple[float | None, float]:
    """A limit drawn from all the latencies there are (or none), and the best throughput that keeps it."""
    space = candidates.make(scope_of(seed), Names(), per_doubling=4)
    truth = [landscape.truth(space.configurations[number].variants[0], load) for number, load in space.rows]
    draw = random.Random(-seed - 1)
    limit_ms = None
    if draw.random() < 0.75:
        limit_ms = sorted(p99 for _, p99 in truth)[int(len(truth) * draw.uniform(0.1, 0.7))]
    return limit_ms, max(rate for rate, p99 in truth if limit_ms is None or p99 <= limit_ms)


def search(scope: Scope, simulated: SimulatedTrials, *, known=(), stop_after=None):
    """Trials until the search ends, or until so many were made; `known` ones are told again, as a journal does."""
    asked, trials, names = None, [], Names()
    running = Search(smart(scope, names))
    by_key = {trial.key: trial for trial in known}
    made = 0
    while (asked := running.ask()) is not None:
        trial = by_key.get(asked.key)
        if trial is None:
            if stop_after is not None and made >= stop_after:
                return trials, names, "stopped"
            trial = simulated.answer(asked)
            made += 1
        trials.append(trial)
        running.tell(trial)
    return trials, names, running.ended


@pytest.mark.parametrize("tens", range(10))
def test_smart_is_within_five_per_cent_of_the_best_nearly_always(tens, record_property):
    # All 100 together must lose at most 5; a group of ten may lose one, and two groups' worth of luck is allowed for.
    missed = []
    for seed in range(10 * tens, 10 * tens + 10):
        landscape = Landscape.drawn(seed)
        limit_ms, best = exhaustive(landscape, seed)
        scope = scope_of(seed, limit_ms)
        trials, names, _ = search(scope, SimulatedTrials(landscape, seed))
        found = rank(scope.goals, trials)[0]
        rate, p99 = landscape.truth(names.known[found.name], found.best.load)
        if rate < 0.95 * best or (limit_ms is not None and p99 > 1.05 * limit_ms):
            missed.append(seed)
    record_property("missed", missed)
    assert len(missed) <= MOST_MISSED[tens], missed


# Seeded, so exact: which groups of ten lose one. Five in all is the bar.
MOST_MISSED = (1, 1, 1, 1, 1, 0, 0, 0, 0, 0)
