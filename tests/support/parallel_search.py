"""Searches on several simulated servers at once, compared with one server.

    python -m tests.support.parallel_search [LANDSCAPES] [SERVERS]

By default, a hundred landscapes and four servers, with loading times of 0.1, 1 and 15 measurements. The output has
the mean answers as shares of the best possible, and the time of several servers as a share of the time of one.
"""

import statistics
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

from inferometer.tune.scoring import rank
from inferometer.tune.search.search import Proposal, SearchProblem, Wait
from inferometer.tune.search.smart import smart
from inferometer.tune.trial import Trial
from inferometer.tune.variant import VariantNames
from tests.support.landscape import Landscape, SimulatedTrials
from tests.support.simulated_search import LOADINGS, exhaustive, scope_of


def search_in_parallel(
    scope: SearchProblem, simulated: Sequence[Callable[[Proposal], Trial]]
) -> tuple[list[Trial], VariantNames, str, float]:
    """Run a search; return the trials in the order in which they end, the reason for the end, and its time."""
    names = VariantNames()
    steps = smart(replace(scope, servers=len(simulated)), names)
    now_s, free_s = 0.0, [0.0] * len(simulated)
    running: dict[int, tuple[float, Trial]] = {}
    trials: list[Trial] = []
    told = None
    while True:
        try:
            event = steps.send(told)
        except StopIteration as stop:
            return trials, names, stop.value, now_s
        told = None
        if isinstance(event, Proposal):
            assert event.server not in running
            trial = simulated[event.server](event)
            trial = replace(trial, server=event.server + 1, waited_s=now_s - free_s[event.server])
            free_s[event.server] = now_s + trial.cost_s
            running[event.server] = now_s + trial.cost_s, trial
        elif isinstance(event, Wait):
            place = min(running, key=lambda place: running[place][0])
            now_s, told = running.pop(place)
            trials.append(told)


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer of a search as a share of the best possible (0 if it violates the limit), and the time it took."""

    share: float
    spent_s: float
    count: int


def answer(seed: int, loading: float, servers: int, budget_s: float | None = None) -> Answer:
    landscape = Landscape.varied(seed)
    limit_ms, best = exhaustive(landscape, seed)
    scope = scope_of(seed, limit_ms, budget_s=budget_s)
    simulated = [SimulatedTrials(landscape, seed, loading=loading).answer for _ in range(servers)]
    trials, names, _, spent_s = search_in_parallel(scope, simulated)
    leader = rank(scope.goals, trials)[0]
    rate, p99 = landscape.truth(names.known[leader.name], leader.best.load)
    is_kept = limit_ms is None or p99 <= 1.05 * limit_ms
    return Answer(rate / best if is_kept else 0.0, spent_s, len(trials))


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    servers = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    for loading in LOADINGS:
        with ProcessPoolExecutor() as pool:
            one = list(pool.map(partial(answer, loading=loading, servers=1), range(count)))
            many = list(pool.map(partial(answer, loading=loading, servers=servers), range(count)))
        means = [statistics.mean(row.share for row in rows) for rows in (one, many)]
        parts = sorted(after.spent_s / before.spent_s for before, after in zip(one, many, strict=True))
        total = sum(row.spent_s for row in many) / sum(row.spent_s for row in one)
        worse = sum(after.share < before.share - 0.02 for before, after in zip(one, many, strict=True))
        better = sum(after.share > before.share + 0.02 for before, after in zip(one, many, strict=True))
        trials = [statistics.mean(row.count for row in rows) for rows in (one, many)]
        print(
            f"loading {loading:g}: answers {means[0]:.4f} and {means[1]:.4f} with {servers} servers ({worse} of "
            f"{count} worse by more than 2 %, {better} better), in {total:.3f} of the time "
            f"(median {statistics.median(parts):.3f}, 90 % below {parts[int(0.9 * count)]:.3f}), "
            f"{trials[0]:.1f} and {trials[1]:.1f} trials",
            flush=True,
        )


if __name__ == "__main__":
    main()
