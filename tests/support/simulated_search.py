"""Quality of searches on simulated servers, for any part of their time.

    python -m tests.support.simulated_search [LANDSCAPES]

By default, a hundred landscapes, with loading times of 0.1, 1 and 15 measurements. The output has the share of
landscapes in which a search with part of the time reaches at least 85 % of the final answer, and the mean answer.
"""

import random
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

from inferometer.tune import model_config
from inferometer.tune.scoring import Constraint, Goal, rank
from inferometer.tune.search import candidates
from inferometer.tune.search.search import ModelProblem, SearchProblem
from inferometer.tune.search.smart import smart
from inferometer.tune.settings import SearchSettings
from inferometer.tune.space import SearchBounds, automatic
from inferometer.tune.variant import VariantNames
from tests.support.landscape import Landscape, SimulatedTrials, driven

LOADINGS = (0.1, 1.0, 15.0)  # time to load a configuration, in measurements
PARTS = (0.125, 0.25, 0.5, 1.0)  # shares of the time that the search takes without a budget

BASE = model_config.parse_text(
    """name: "m" max_batch_size: 8 dynamic_batching { } instance_group { count: 1 kind: KIND_CPU }
    input { name: "I" data_type: TYPE_FP32 dims: [1] }""",
    "config.pbtxt",
)


def scope_of(seed: int, limit_ms: float | None = None, **settings) -> SearchProblem:
    draw = random.Random(seed)
    bounds = settings.pop("bounds", None) or SearchBounds(
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
    """Draw a limit from all latencies of the landscape (or none), and return the best throughput that meets it."""
    space = candidates.make(scope_of(seed, **settings), VariantNames(), per_doubling=4)
    truth = [landscape.truth(space.configurations[number].variants[0], load) for number, load in space.rows]
    draw = random.Random(-seed - 1)
    limit_ms = None
    if draw.random() < 0.75:
        # A user's limit does not equal the latency of a candidate exactly.
        limit_ms = sorted(p99 for _, p99 in truth)[int(len(truth) * draw.uniform(0.1, 0.7))] * draw.uniform(
            1, 1.1
        )
    return limit_ms, max(rate for rate, p99 in truth if limit_ms is None or p99 <= limit_ms)


class Stopped(Exception):
    """Raised after the given number of trials."""


def search(scope: SearchProblem, simulated: SimulatedTrials, *, known=(), stop_after=None):
    """Trials until the search ends or `stop_after` were made; `known` trials are replayed, as from a journal."""
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


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers of a search on one landscape as shares of the best possible: without a budget, and with each part of its
    time. 0 if the answer violates the limit."""

    seed: int
    whole: float
    parts: tuple[float, ...]


def answers(seed: int, loading: float, parts: Sequence[float] = PARTS) -> Answers:
    landscape = Landscape.varied(seed)
    limit_ms, best = exhaustive(landscape, seed)

    def found(budget_s: float | None) -> tuple[float, float]:
        scope = scope_of(seed, limit_ms, budget_s=budget_s)
        trials, names, _ = search(scope, SimulatedTrials(landscape, seed, loading=loading))
        leader = rank(scope.goals, trials)[0]
        rate, p99 = landscape.truth(names.known[leader.name], leader.best.load)
        is_kept = limit_ms is None or p99 <= 1.05 * limit_ms
        return rate / best if is_kept else 0.0, sum(trial.cost_s for trial in trials)

    whole, spent_s = found(None)
    return Answers(seed, whole, tuple(found(part * spent_s)[0] for part in parts))


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    for loading in LOADINGS:
        with ProcessPoolExecutor() as pool:
            rows = list(pool.map(partial(answers, loading=loading), range(count)))
        near = sum(row.whole >= 0.95 for row in rows) / count
        mean = sum(row.whole for row in rows) / count
        print(
            f"loading {loading:g}: the whole search is within 5 % of the best in {near:.0%}, mean {mean:.3f}"
        )
        for number, part in enumerate(PARTS):
            good = [row.parts[number] >= 0.85 * row.whole for row in rows]
            mean = sum(row.parts[number] for row in rows) / count
            print(f"  {part:5.3f} of its time: {sum(good) / count:.0%} have 85 %, mean {mean:.3f}")


if __name__ == "__main__":
    main()
