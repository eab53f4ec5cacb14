"""Smart search: few measurements, each the most informative per second, so that the best so far is good at any time.

1. Climb: the unchanged model, under loads that grow fourfold until throughput stops growing or a limit is violated. It
   is already loaded, and the climb shows the knee, the cost of an execution, and how that grows with the batch. A
   launched server whose defaults are not known begins with the values in the middle of their ranges, under a middle
   load: of the values at the ends, which are often listed first, most are bad.
2. Explore: measure where the expected gain over the best so far, times the probability of meeting the constraints, per
   second of cost is largest. The costs of loading and measuring are learned from the trials. Repeat until no candidate
   is expected to gain half a per cent. Loads far beyond the knee, and beyond the capacity of a configuration, are left
   out.
3. Race: the leaders and candidates whose intervals overlap theirs are measured again, longer, until one is ahead
   or the differences no longer matter. Candidates that can no longer win drop out.
4. Confirm: the winner and the default alternately, so that the gain has an interval.

The budget counts the cost of the trials that this run measures; those in its journal are free. Part of it is reserved
for race and confirmation; the smaller the budget, the smaller the part.

A resumed search first repeats its decisions, answered from the journal. As soon as it measures something new, it adds
the rest of the journal, including repeats.

With several servers, the same phases start several trials at once. The search only waits for pending trials at the end
of a phase, which must not be decided by forecasts.
"""

import numpy as np
from numpy.typing import NDArray

from inferometer.base.units import quantity
from inferometer.stats.figures import THROUGHPUT
from inferometer.tune.scoring import passes
from inferometer.tune.search import candidates as all_candidates
from inferometer.tune.search.clock import SearchClock
from inferometer.tune.search.forecast import Forecaster, together
from inferometer.tune.search.search import (
    SPENT,
    Proposal,
    SearchMessage,
    SearchProblem,
    SearchSteps,
    SkippedProposal,
)
from inferometer.tune.search.smart_gains import GROWTH, STRIDE, best_next, may_use, of_new_count, worth
from inferometer.tune.search.smart_race import (
    FEWEST_RUNS,
    MOST,
    confirm,
    kept_s,
    lacks_runs,
    needed,
    race,
    refine,
)
from inferometer.tune.search.smart_state import (
    Slot,
    SmartState,
    measure,
    predicted,
    standing_of,
    wait,
    wait_for_all,
)
from inferometer.tune.variant import VariantNames

FEWEST = 14
PATIENCE = 3
USUAL_LOADS, USUAL_LOOKS, USUAL_HOLDS = 15, 20, 15  # of a search without a budget
SPEED_UP = 0.75  # exponent of the speed-up with the number of servers, in simulations
MOST_SKIPS = 200
SPARE_STARTS = 12  # configurations of a launched server that are tried until one starts
ROUNDS = 6
LIKELY = 0.1  # expected gain of another configuration at which the leader is likely to change
ENDED = "no configuration is expected to be better"


def smart(problem: SearchProblem, names: VariantNames) -> SearchSteps[str]:
    candidates = all_candidates.make(problem, names)
    forecaster = Forecaster(candidates, problem.goals, problem.seed)
    slots = tuple(Slot() for _ in range(problem.servers))
    clock = SearchClock(problem.settings.budget_s)
    if candidates.is_launched:
        clock.most_waiting_s = problem.settings.patience_s
    state = SmartState(problem, candidates, forecaster, clock, slots)
    yield from _climb(state)
    while not state.trials and state.pending:
        yield from wait(state)
    if not state.trials:
        return "no configuration could be measured"
    if problem.settings.budget_s is None:
        yield _forecast_of_time(state)
    reason = ""
    for _ in range(ROUNDS):
        reason = yield from _explore(state)
        yield from race(state)
        # If the leader falls back in the race, configurations that were ruled out because of it are open again.
        gain, row = best_next(state)
        if row is None or gain < worth(state):
            break
    yield from confirm(state)
    if problem.settings.budget_s is not None:
        while (yield from refine(state)):
            pass
    yield from wait_for_all(state)
    yield from _report_rest(state)
    return reason


def _forecast_of_time(state: SmartState) -> SearchMessage:
    """Estimate the duration of a search without a budget from typical searches."""
    state.forecast()
    loading_s = float(np.median(state.clock.loading_s(state.candidates.points.instances)))
    look_s = float(np.median(state.costs(state.look)[np.isin(state.candidates.which, state.loaded)]))
    count = min(USUAL_LOADS, len(state.candidates.configurations))
    left_s = (
        count * loading_s
        + USUAL_LOOKS * look_s
        + USUAL_HOLDS * (look_s + state.hold.duration_s - state.look.duration_s)
    )
    left_s /= len(state.slots) ** SPEED_UP
    costs = f"loading takes {loading_s:.1f} s, a measurement {look_s:.1f} s"
    return SearchMessage(
        f"This will take about {left_s:.0f} s ({costs}); --budget sets a limit", left_s=left_s
    )


# --- 1. the climb


def _climb(state: SmartState) -> SearchSteps[None]:
    """Measure the default under growing load, up to the knee; if it cannot be loaded, another configuration. Meanwhile
    each further server climbs with its own configuration, as different from the others as possible."""
    first, others = 0, iter(range(1, len(state.candidates.configurations)))
    if state.candidates.is_launched:
        first = 0 if state.problem.tasks[0].space.knows_default else state.candidates.middle
        # What broke the first one may break its neighbours.
        others = iter(_unlike(state, first, min(SPARE_STARTS, len(state.candidates.configurations) - 1)))
    climbers = [first, *_unlike(state, first, len(state.slots) - 1)]  # by server; -1 if ended
    loads = [0.0] * len(climbers)
    while climbers[0] >= 0:
        for place, slot in enumerate(state.slots):
            if climbers[0] < 0 or climbers[place] < 0 or slot.running is not None:
                continue
            if climbers[place] in state.broken:
                climbers[place], loads[place] = (-1 if place else next(others, -1)), 0.0
            row = _higher(state, climbers[place], loads[place])
            if row is None:
                climbers[place] = -1
                continue
            loads[place] = float(state.candidates.points.load[row])
            yield from measure(state, row, state.look, place)
        if climbers[0] >= 0 and state.slots[0].running is not None:
            yield from wait(state)


def _higher(state: SmartState, number: int, load: float) -> int | None:
    """Return the row of a configuration's next load to climb to; None if its climb has ended."""
    if number < 0 or number in state.breaking or (load and not _is_climbing(state, number)):
        return None
    points = state.candidates.points
    own = np.flatnonzero(state.candidates.which == number)
    least = load * STRIDE if load else _first_load(state, own)
    further = own[points.load[own] >= least]
    row = int(further[points.load[further].argmin()]) if len(further) else None
    if row is None or not may_use(state)[row] or (state.trials and not state.fits(row, state.look)):
        return None
    return row


def _first_load(state: SmartState, own: NDArray[np.int64]) -> float:
    """Return the load at which a climb begins: the lowest, or the middle one on a launched server, which has to warm
    up for each load."""
    loads = state.candidates.points.load[own]
    is_launched = state.candidates.is_launched and not state.candidates.points.by_rate
    return float((loads.min() * loads.max()) ** 0.5 if is_launched else loads.min())


def _is_climbing(state: SmartState, number: int) -> bool:
    """Return whether the last trial is within the limits and has a higher throughput than those before."""
    which = state.candidates.which
    *before, last = [
        trial for row, trial in zip(state.rows, state.trials, strict=True) if which[row] == number
    ]
    if not passes(state.problem.goals, last):
        return False
    rates = [trial.combined(THROUGHPUT) or 0.0 for trial in before]
    return (last.combined(THROUGHPUT) or 0.0) > GROWTH * max(rates, default=0.0)


def _unlike(state: SmartState, first: int, count: int) -> list[int]:
    """Return `count` configurations as far as possible from the first one and from each other."""
    places = np.array([configuration.place for configuration in state.candidates.configurations])
    chosen = [first]
    while len(chosen) <= count:
        apart = np.linalg.norm(places[:, None] - places[None, chosen], axis=2).min(axis=1)
        chosen.append(int(apart.argmax()))
    return chosen[1:]


# --- 2. exploring


def _explore(state: SmartState) -> SearchSteps[str]:
    patience = 0
    while state.tried < MOST:
        left_for_s = 0.0 if state.has_raced else kept_s(state)
        gain, row = best_next(state, left_for_s=left_for_s)
        if row is None:
            if state.pending:
                yield from wait(state)
                continue
            return SPENT if state.clock.budget_s is not None else ENDED
        if gain < worth(state):
            fresh = of_new_count(state, left_for_s=left_for_s)
            row = row if fresh is None else fresh
            patience += len(state.trials) + len(state.pending) >= FEWEST
            if patience > PATIENCE and state.pending:
                yield from wait(state)
                continue
            if patience > PATIENCE:
                return ENDED
        else:
            patience = 0
        if gain < LIKELY:
            yield from _settle_leader(state, row)
        yield from measure(state, row, state.look)
    return f"the maximum of {MOST} measurements was reached"


def _settle_leader(state: SmartState, following: int) -> SearchSteps[None]:
    """Before another configuration is loaded, repeat a loaded leader if loading it again later would cost more than
    measuring it now."""
    which, cost_s = state.candidates.which, float(state.costs(state.hold)[following])
    while which[following] not in state.loaded and cost_s > 2 * state.hold.duration_s:
        leader = standing_of(state)[0]
        row = state.row_of(leader)
        is_close = needed(state, leader) > FEWEST_RUNS
        held = state.slots[state.slot_for(int(which[following]))].loaded
        if which[row] == 0 or which[row] != held or not is_close or not lacks_runs(state, leader):
            return
        if not state.fits(row, state.hold, cost_s):
            return
        yield from measure(state, row, state.hold)


# --- unmeasured configurations


def _report_rest(state: SmartState) -> SearchSteps[None]:
    """Report every configuration that was never measured, with its highest expected throughput."""
    if not state.forecasts:
        return
    measured = {state.candidates.rows[row][0] for row in state.rows} | set(state.broken)
    speed = together(state.forecasts)
    standing = standing_of(state)
    best = standing[0].combined(THROUGHPUT) or 0.0
    reached = f"{standing[0].name} reached {quantity(best)}"
    which, batches = state.candidates.which, state.candidates.batches
    feasible = state.feasible > 0.05
    said = 0
    for number in range(len(state.candidates.configurations)):
        if number in measured or said >= MOST_SKIPS:
            continue
        own = np.flatnonzero((which == number) & feasible)
        said += 1
        if number in state.ruled_out:
            row = int(np.flatnonzero(which == number)[0])
            reason = state.ruled_out[number]
        elif not len(own):
            row = int(np.flatnonzero(which == number)[0])
            reason = "not expected to meet the constraints at any load"
        else:
            high = speed.mean[own] + 2 * speed.deviation[own] + np.log(batches[own])
            row = int(own[high.argmax()])
            most, likely = np.exp(high.max()), np.exp(speed.mean[row]) * batches[row]
            reason = f"expected to reach at most {quantity(most)} per second; {reached}"
            if most > best:
                reach = f"{quantity(likely)} per second, at most {quantity(most)}"
                reason = f"the search ended first: expected to reach {reach}"
        parts = state.candidates.parts(row)
        yield SkippedProposal(Proposal(parts, predicted=predicted(state, row)), reason)
