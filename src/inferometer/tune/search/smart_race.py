"""The end of a smart search: leaders are measured again until one is ahead, then the winner against the default."""

import numpy as np

from inferometer.stats.figures import THROUGHPUT
from inferometer.tune.scoring import gain_of_runs, passes, score
from inferometer.tune.search.search import SearchSteps
from inferometer.tune.search.smart_gains import REOPEN, WORTH, best_next, gains, may_use, worth
from inferometer.tune.search.smart_state import SmartState, measure, standing_of, wait, wait_for_all
from inferometer.tune.trial import Trial

MOST = 60  # trials that are not repeats
KEPT_SHARE = 0.3  # maximum share of the budget for race and confirmation
MANY = 40  # configuration loads that must fit into a budget for the whole share
PAIRS = 4  # runs of the winner and of the default, alternating
CLEAR = 0.75  # certain share of the gain from which half of these runs are enough
MOST_RUNS = 24  # of a race
DEFAULT_LOOKS = 3
ENOUGH = 0.02  # leaders closer than this need not be distinguished
FEWEST_RUNS = 2
REPEATS = 3
CLOSE = 0.08  # relative distance to a limit


def kept_s(state: SmartState) -> float:
    """Return the seconds reserved for race and confirmation: less if only a few configurations can be loaded."""
    budget_s = state.clock.budget_s
    if budget_s is None:
        return 0.0
    count = len(state.slots)
    loading_s = float(state.clock.loading_s(state.candidates.points.instances[:1])[0])
    turn_s = 2 * loading_s + 2 * float(state.costs(state.hold)[state.rows[-1]])
    most_s = KEPT_SHARE * budget_s * min(1.0, budget_s / (MANY * loading_s / count + turn_s))
    return min(-(-PAIRS // count) * turn_s, most_s)


def race(state: SmartState) -> SearchSteps[None]:
    """Measure leaders again until it is clear which is ahead."""
    state.has_raced = True
    for _ in range(MOST_RUNS):
        runner = _runner(state, standing_of(state))
        while runner is None or not state.fits(runner, state.hold, kept_s(state) / 2):
            if not state.pending:
                return
            spare = _load_of_default(state)  # instead of an idle server
            yield from wait(state) if spare is None else measure(state, spare, state.look)
            runner = _runner(state, standing_of(state))
        yield from measure(state, runner, state.hold)
        if len(state.trials) + len(state.pending) < MOST and best_next(state)[0] > worth(state):
            return


def _runner(state: SmartState, standing: list[Trial]) -> int | None:
    """Return the candidate to measure next: the leader until it has enough runs, then one that could still be ahead of
    it."""
    leader, which, held = standing[0], state.candidates.which, state.held
    if lacks_runs(state, leader) and which[state.row_of(leader)] not in held:
        return state.row_of(leader)
    return max(_rivals(state, standing), default=(0.0, None), key=lambda pair: pair[0])[1]


def lacks_runs(state: SmartState, trial: Trial) -> bool:
    return state.repeats[state.row_of(trial)] < needed(state, trial)


def needed(state: SmartState, trial: Trial) -> int:
    """Return the number of runs that a candidate needs: more if it is close to a limit, where chance decides."""
    for number, goal in enumerate(state.problem.goals):
        for constraint in goal.constraints:
            value = trial.value(constraint.tag, number)
            limit = constraint.high if constraint.high is not None else constraint.low
            if value is not None and limit and abs(value - limit) / limit < CLOSE:
                return 3 * REPEATS if abs(value - limit) / limit < CLOSE / 3 else REPEATS + 1
    return FEWEST_RUNS


def _rivals(state: SmartState, standing: list[Trial]) -> list[tuple[float, int]]:
    """Return candidates that could still be ahead of the leader, each with the value of another run."""
    leader, held = standing[0], state.held
    goals, feasible, kinds = state.problem.goals, state.feasible, state.candidates.kinds
    found = []
    for trial in standing[1:]:
        row = state.row_of(trial)
        if not lacks_runs(state, trial) or state.candidates.which[row] in held:
            continue
        ahead = score(goals, trial, leader)
        if not passes(goals, trial):
            value = ahead * float(feasible[row])  # weighted by the forecast, which includes its neighbours
            if value > 2 * WORTH:
                found.append((value, row))
        elif kinds[row] != kinds[state.row_of(leader)] and ahead > -_room(trial, leader):
            found.append((ahead + _room(trial, leader), row))
    return found


def _room(trial: Trial, leader: Trial) -> float:
    """Return how far behind the leader a trial can be and still be better; less between two loads of one
    configuration."""
    if trial.name == leader.name:
        return ENOUGH
    widths = [
        row.relative_half_width
        for one in (trial, leader)
        for part in one.parts
        if (row := part.figures.estimate(THROUGHPUT)) is not None
    ]
    return max(ENOUGH, sum(width or 0.05 for width in widths))


# --- the confirmation


def confirm(state: SmartState) -> SearchSteps[None]:
    """Measure the winner and the default at its best load alternately, within the budget."""
    yield from _settle_default(state)
    yield from wait_for_all(state)
    yield from _in_turns(state) if len(state.slots) == 1 else _side_by_side(state)


def _in_turns(state: SmartState) -> SearchSteps[None]:
    """Measure in the order A B B A."""
    for number in range(2 * PAIRS):
        found = _winner_and_default(state)
        if found is None or (number == PAIRS and _is_clear(state, *found)):
            return
        row = state.row_of(found[(number + 1) // 2 % 2 == 0])
        if not state.fits(row, state.hold):
            return
        yield from measure(state, row, state.hold)
        yield from refine(state)


def _side_by_side(state: SmartState) -> SearchSteps[None]:
    """Measure A on one half of the servers and B on the other at the same time, then vice versa, so that differences
    between servers affect both."""
    count = len(state.slots)
    first: set[int] = set()  # where the winner is measured first: it may be loaded there
    for done in range(0, 2 * PAIRS, count):
        found = _winner_and_default(state)
        if found is None or (done >= PAIRS and _is_clear(state, *found)):
            break
        rows = [state.row_of(trial) for trial in found]
        if not first:
            numbers = [slot.loaded != state.candidates.which[rows[0]] for slot in state.slots]
            first.update(sorted(range(count), key=numbers.__getitem__)[: (count + 1) // 2])
        is_swapped = (done // count + 1) // 2 % 2 == 1
        for place in range(min(count, 2 * PAIRS - done)):
            while state.slots[place].running is not None:
                yield from wait(state)
            row = rows[(place in first) == is_swapped]
            if not state.fits(row, state.hold):
                break
            yield from measure(state, row, state.hold, place)
        if not state.is_slow_to_load:
            yield from wait_for_all(state)
    yield from wait_for_all(state)


def _winner_and_default(state: SmartState) -> tuple[Trial, Trial] | None:
    """Return the winner and the default; None if there is no gain to confirm."""
    winner, *others = standing_of(state)
    own = next((trial for trial in others if state.candidates.which[state.row_of(trial)] == 0), None)
    if state.candidates.which[state.row_of(winner)] == 0 or own is None:
        return None
    return (winner, own) if passes(state.problem.goals, own) else None


def refine(state: SmartState) -> SearchSteps[bool]:
    """Measure another load of a loaded configuration if one is likely to be better: that is cheap, and the machine
    may have been slower during earlier measurements. Return whether a load was measured."""
    gain = np.where(np.isin(state.candidates.which, state.loaded), gains(state), -1.0)
    row = int(gain.argmax())
    if gain[row] <= REOPEN or not state.fits(row, state.look):
        return False
    yield from measure(state, row, state.look)
    return True


def _is_clear(state: SmartState, winner: Trial, own: Trial) -> bool:
    """Return whether the gain is many times its uncertainty. If loading is slow, the answer is always no: runs of one
    load follow each other and may share an unknown bias."""
    if state.is_slow_to_load:
        return False
    found = gain_of_runs(state.problem.goals, state.trials, winner, own)
    return found.limits is not None and found.limits[0] > CLEAR * found.value > 0


def _settle_default(state: SmartState) -> SearchSteps[None]:
    """Find the best load of the default as well: the gain is reported relative to it."""
    for _ in range(DEFAULT_LOOKS):
        row = _load_of_default(state)
        if row is None:
            return
        yield from measure(state, row, state.look)
        yield from wait_for_all(state)


def _load_of_default(state: SmartState) -> int | None:
    """Return the load with the best forecast for the default; None if already tried or impossible."""
    if 0 in state.broken or 0 in state.held:
        return None
    state.forecast()
    own = np.flatnonzero((state.candidates.which == 0) & (state.feasible > 0.5) & may_use(state))
    if not len(own):
        return None
    best = int(own[state.utility.mean[own].argmax()])
    is_tried = best in (*state.rows, *state.pending)
    is_breaking = state.candidates.points.load[best] >= state.breaking.get(0, np.inf)
    return None if is_tried or is_breaking or not state.fits(best, state.look) else best
