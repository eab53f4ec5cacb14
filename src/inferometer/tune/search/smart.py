"""Few measurements, each where it tells most.

1. A look at the default, then at the corners of the space: they fix the queueing model.
2. Measure where the expected gain over the best so far, times the chance to keep the constraints, per second of cost
   is largest: loading another configuration costs more than another load on the one that is there. Learn, repeat,
   until no candidate is expected to gain half a per cent.
3. Race: the leaders and whatever their intervals overlap with are measured again, longer, until one is ahead or
   they do not differ by what matters. Who cannot win any more drops out.

A budget is counted in the cost of the trials told, not by a clock, so that a resumed search decides the same.
"""

from collections.abc import Generator

import numpy as np
from numpy.typing import NDArray

from inferometer.tune.client_load import ClientLoad
from inferometer.tune.metrics import THROUGHPUT
from inferometer.tune.scoring import passes, pool
from inferometer.tune.search import candidates as all_candidates
from inferometer.tune.search.fluid import Array
from inferometer.tune.search.forecast import Forecaster, chance, expected_gain, together, utility
from inferometer.tune.search.race import WORTH, who_runs
from inferometer.tune.search.scope import Scope
from inferometer.tune.search.search import Effort, Proposal, Skip, Step, Steps
from inferometer.tune.search.seen import (
    HOLD,
    Seen,
    is_over,
    measure,
    predicted,
    race_cost,
    row_of,
    standing_of,
)
from inferometer.tune.trial import Trial
from inferometer.tune.variant import Names

LOOK = Effort(1.0, 0.05)
MOST_RUNS = 24  # of a race
FEWEST = 14
MOST = 60
PATIENCE = 3
MOST_GROUPS = 6  # numbers of instances that are looked at first
LOAD_COST = 3.0  # of a look at another configuration, in looks at the one that is loaded
MOST_SKIPS = 200
ROUNDS = 6
REOPEN = 0.01  # expected gain for which a race is broken off
DEFAULT_LOOKS = 3
SPENT = "the budget is spent"


def smart(scope: Scope, names: Names) -> Steps:
    candidates = all_candidates.make(scope, names)
    seen = Seen(scope, candidates, Forecaster(candidates, scope.goals, scope.seed))
    for row in _opening(seen):
        if is_over(seen, left_for=0.1):
            break
        yield from measure(seen, row, LOOK)
    if not seen.trials:
        return "nothing could be measured"
    yield from _look_around(seen)
    reason = ""
    for _ in range(ROUNDS):
        reason = yield from _explore(seen)
        reason = (yield from _race(seen)) or reason
        # A leader that fell in the race may leave the field to configurations that were given up because of it.
        gain, _ = _next(seen)
        if reason == SPENT or gain < REOPEN:
            break
    yield from _settle_default(seen)
    yield from _report_rest(seen)
    return reason


# --- 1. the opening


def _opening(seen: Seen) -> list[int]:
    """The default where it is busy and where it is idle, then the corners of the space."""
    spots = seen.candidates.spots
    which = seen.candidates.which

    def nearest(configuration: int, load: float) -> int:
        own = np.flatnonzero(which == configuration)
        return int(own[np.abs(np.log(np.maximum(spots.load[own], 1e-9) / max(load, 1e-9))).argmin()])

    def busy(configuration: int) -> int:
        first = np.flatnonzero(which == configuration)[0]
        top = 2 * spots.instances[first] * spots.batch[first]
        return nearest(configuration, float(top if not spots.by_rate else spots.load.max() / 8))

    order = range(1, len(seen.candidates.configurations))
    chosen = [busy(0), nearest(0, float(spots.load.min()))]
    if order:
        chosen.append(busy(max(order, key=lambda number: _size(seen, number))))
    return list(dict.fromkeys(chosen))


def _look_around(seen: Seen) -> Generator[Step, Trial | None, None]:
    """The most promising candidate for each number of instances: where cores run out, throughput has a kink."""
    which = seen.candidates.which
    for group in _by_instances(seen, list(range(1, len(seen.candidates.configurations)))):
        if is_over(seen, left_for=race_cost(seen)):
            return
        _, gain = _gains(seen)
        gain = np.where(np.isin(which, group), gain, -1.0)
        row = int(gain.argmax())
        if gain[row] >= 0:
            yield from measure(seen, row, LOOK)


def _by_instances(seen: Seen, order: list[int]) -> list[list[int]]:
    groups: dict[float, list[int]] = {}
    for number in order:
        groups.setdefault(_size(seen, number)[0], []).append(number)
    found = [groups[size] for size in sorted(groups)]
    if len(found) <= MOST_GROUPS:
        return found
    picked = sorted({round(step * (len(found) - 1) / (MOST_GROUPS - 1)) for step in range(MOST_GROUPS)})
    return [found[place] for place in picked]


def _size(seen: Seen, number: int) -> tuple[float, float]:
    place = seen.candidates.configurations[number].place
    return place[0], place[1]


# --- 2. exploring


def _explore(seen: Seen) -> Generator[Step, Trial | None, str]:
    patience = 0
    while len(seen.trials) < MOST:
        if is_over(seen, left_for=race_cost(seen)):
            return SPENT
        gains, row = _next(seen)
        if row is None or (gains < WORTH and len(seen.trials) >= FEWEST):
            patience += 1
            if row is None or patience >= PATIENCE:
                return "no configuration is expected to be better"
        else:
            patience = 0
        yield from measure(seen, row, LOOK)
    return f"{MOST} measurements were made"


def _next(seen: Seen) -> tuple[float, int | None]:
    """The expected gain of the best candidate, and which is worth most for its cost."""
    which, gain = _gains(seen)
    if gain.max() < 0:
        return 0.0, None
    cost = np.where(which == seen.loaded, 1.0, LOAD_COST)
    return float(gain.max()), int((gain / cost).argmax())


def _gains(seen: Seen) -> tuple[NDArray[np.int64], Array]:
    """Of every candidate: its configuration, and the gain that is expected of it; -1 where nothing is to be gained."""
    goals = seen.scope.goals
    seen.beliefs = seen.forecaster.beliefs(seen.rows, seen.trials)
    batches = seen.candidates.batches
    value = utility(goals, seen.beliefs, batches)
    feasible = chance(goals, seen.beliefs, batches)
    which = seen.candidates.which
    kinds = seen.candidates.kinds
    is_open = ~np.isin(kinds, kinds[seen.rows])  # what cannot differ from a measured one tells nothing new
    if seen.broken:
        is_open &= ~np.isin(which, list(seen.broken))
    good = _incumbents(seen, feasible)
    if good:
        gain = expected_gain(value, float(value.mean[good].max())) * feasible
    else:
        gain = feasible * (1.0 + np.exp(np.clip(value.mean - value.mean.max(), -5, 0)))
    return which, np.where(is_open, gain, -1.0)


def _incumbents(seen: Seen, feasible: Array) -> list[int]:
    """Measured candidates that keep the constraints: before a race as believed, since one run of them is noisy; after
    it as measured, since the answer is given by that."""
    rows = list(dict.fromkeys(seen.rows))
    if not seen.has_raced:
        return [row for row in rows if feasible[row] >= 0.5]
    return [
        row
        for trial in pool(seen.trials)
        if passes(seen.scope.goals, trial) and (row := row_of(seen, trial)) is not None
    ]


# --- 3. the race


def _race(seen: Seen) -> Generator[Step, Trial | None, str]:
    """Leaders are measured again until it is clear who is ahead."""
    seen.has_raced = True
    for _ in range(MOST_RUNS):
        ranked = standing_of(seen)
        runner = who_runs(seen, ranked)
        if runner is None:
            break
        if is_over(seen, left_for=HOLD.duration_s):
            return SPENT
        yield from measure(seen, runner, HOLD)
        if len(seen.trials) < MOST and _next(seen)[0] > REOPEN:
            return ""
    return ""


def _settle_default(seen: Seen) -> Generator[Step, Trial | None, None]:
    """The gain is said over the default at its own best load, so that is looked for too."""
    which = seen.candidates.which
    goals = seen.scope.goals
    batches = seen.candidates.batches
    for _ in range(DEFAULT_LOOKS):
        if 0 in seen.broken or is_over(seen, left_for=HOLD.duration_s):
            return
        seen.beliefs = seen.forecaster.beliefs(seen.rows, seen.trials)
        own = np.flatnonzero((which == 0) & (chance(goals, seen.beliefs, batches) > 0.5))
        if not len(own):
            return
        best = int(own[utility(goals, seen.beliefs, batches).mean[own].argmax()])
        if best in seen.rows:
            return
        yield from measure(seen, best, HOLD)


# --- what was not done


def _report_rest(seen: Seen) -> Generator[Step, Trial | None, None]:
    """Every configuration that was never measured, with what it could have reached at best."""
    if not seen.beliefs:
        return
    measured = {seen.candidates.rows[row][0] for row in seen.rows} | seen.broken
    speed = together(seen.beliefs)
    standing = standing_of(seen)
    best = standing[0].combined(THROUGHPUT) or 0.0
    reached = f"{standing[0].name} reached {best:.1f}"
    which = seen.candidates.which
    goals = seen.scope.goals
    batches = seen.candidates.batches
    feasible = chance(goals, seen.beliefs, batches) > 0.05
    said = 0
    for number, configuration in enumerate(seen.candidates.configurations):
        if number in measured or said >= MOST_SKIPS:
            continue
        own = np.flatnonzero((which == number) & feasible)
        said += 1
        if not len(own):
            row = int(np.flatnonzero(which == number)[0])
            reason = "not expected to keep the constraints at any load"
        else:
            high = speed.mean[own] + 2 * speed.deviation[own] + np.log(batches[own])
            row = int(own[high.argmax()])
            most, likely = np.exp(high.max()), np.exp(speed.mean[row]) * batches[row]
            reason = f"expected to reach at most {most:.1f} infer/s, and {reached}"
            if most > best:
                reason = f"the search ended first: expected to reach {likely:.1f} infer/s, at most {most:.1f}"
        load: ClientLoad = seen.candidates.rows[row][1]
        yield Skip(
            Proposal(
                tuple((variant, load) for variant in configuration.variants), predicted=predicted(seen, row)
            ),
            reason,
        )
