"""Few measurements, each where it is most informative.

1. Measure the default and the corners of the space: they determine the throughput model.
2. Measure where the expected gain over the best so far, times the chance to keep the constraints, per second of cost
   is largest: loading another configuration costs more than another load on the loaded one. Update the forecast,
   repeat, until no candidate is expected to gain half a per cent.
3. Race: the leaders and candidates whose intervals overlap theirs are measured again, longer, until one is ahead
   or the differences no longer matter. Candidates that can no longer win drop out.

A budget is counted in the cost of the trials, not by a clock, so that a resumed search decides the same.
"""

from dataclasses import dataclass, field

import numpy as np

from inferometer.base.units import quantity
from inferometer.stats.figures import BY_TAG, THROUGHPUT
from inferometer.tune.scoring import best_first, passes, pool, score
from inferometer.tune.search import candidates as all_candidates
from inferometer.tune.search.candidates import Candidates
from inferometer.tune.search.forecast import (
    Forecast,
    Forecaster,
    Forecasts,
    chance,
    expected_gain,
    together,
    utility,
)
from inferometer.tune.search.search import (
    Proposal,
    SearchMessage,
    SearchProblem,
    SearchSteps,
    SkippedProposal,
    ask,
)
from inferometer.tune.search.throughput_model import Array
from inferometer.tune.settings import Effort
from inferometer.tune.trial import ClientLoad, Trial
from inferometer.tune.variant import VariantNames

LOOK = Effort(1.0, 0.05)
HOLD = Effort(3.0, 0.02)
MOST_RUNS = 24  # of a race
FEWEST = 14
MOST = 60
PATIENCE = 3
MOST_GROUPS = 6  # instance counts that are measured first
LOAD_COST = 3.0  # of measuring another configuration, relative to another load on the loaded one
MOST_SKIPS = 200
ROUNDS = 6
REOPEN = 0.01  # expected gain for which a race is interrupted
DEFAULT_LOOKS = 3
SPENT = "the budget is spent"
ENOUGH = 0.02  # leaders closer than this need not be told apart
REPEATS = 3
CLOSE = 0.08  # to a limit, as a share of it
WORTH = 0.004  # relative gain below which another run is not worth it


@dataclass(slots=True)
class SmartState:
    """Trials so far by candidate, their cost, and the forecast for all candidates."""

    problem: SearchProblem
    candidates: Candidates
    forecaster: Forecaster
    rows: list[int] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)
    broken: set[int] = field(default_factory=set)  # configurations that gave no figures
    loaded: int = -1
    spent_s: float = 0.0
    has_raced: bool = False
    repeats: dict[int, int] = field(default_factory=dict)
    row_by_name: dict[tuple[str, tuple[ClientLoad, ...]], int] = field(default_factory=dict)
    costs: list[tuple[bool, float]] = field(default_factory=list)  # (was loaded for it, seconds)
    forecasts: Forecasts = ()

    def forecast(self) -> None:
        """Anew, from all trials so far."""
        self.forecasts = self.forecaster.forecasts(self.rows, self.trials)

    @property
    def utility(self) -> Forecast:
        return utility(self.problem.goals, self.forecasts, self.candidates.batches)

    @property
    def feasible(self) -> Array:
        """How likely each candidate is to keep the constraints."""
        return chance(self.problem.goals, self.forecasts, self.candidates.batches)

    def row_of(self, trial: Trial) -> int:
        return self.row_by_name[trial.name, trial.loads]


def measure(state: SmartState, row: int, effort: Effort) -> SearchSteps[None]:
    number, _ = state.candidates.rows[row]
    if number in state.broken:
        return
    repeat = state.repeats.get(row, 0)
    proposal = Proposal(state.candidates.parts(row), repeat, effort, predicted(state, row))
    trial = yield from ask(proposal)
    state.spent_s += trial.cost_s
    state.costs.append((state.loaded != number, trial.cost_s))
    state.loaded = number
    state.repeats[row] = repeat + 1
    if not trial.is_measured:
        state.broken.add(number)
        yield SearchMessage(f"{trial.name} is left out: {trial.reason}", is_warning=True)
        return
    state.rows.append(row)
    state.trials.append(trial)
    state.row_by_name.setdefault((trial.name, trial.loads), row)


def predicted(state: SmartState, row: int) -> tuple[tuple[str, float], ...]:
    load = state.candidates.rows[row][1]
    found: dict[str, list[float]] = {}
    for own in state.forecasts:
        for tag, forecast in own.items():
            value = float(np.exp(forecast.mean[row])) * (load.batch if tag == THROUGHPUT else 1)
            found.setdefault(tag, []).append(value)
    return tuple((tag, BY_TAG[tag].combine(values)) for tag, values in found.items())


def is_over(state: SmartState, *, left_for: float) -> bool:
    if state.problem.settings.budget_s is None:
        return False
    next_s = max((cost for _, cost in state.costs[-5:]), default=3.0)
    return state.spent_s + next_s + left_for > state.problem.settings.budget_s


def race_cost(state: SmartState) -> float:
    """Seconds to reserve for the race: two runs of the leader, and one or two rivals."""
    if state.problem.settings.budget_s is None:
        return 0.0
    fresh = [cost for is_fresh, cost in state.costs if is_fresh]
    return min(2 * HOLD.duration_s + 2 * max(fresh, default=3.0), state.problem.settings.budget_s / 3)


def standing_of(state: SmartState) -> list[Trial]:
    """Candidates from best to worst, repeats pooled."""
    return best_first(state.problem.goals, pool(state.trials))


def smart(problem: SearchProblem, names: VariantNames) -> SearchSteps[str]:
    candidates = all_candidates.make(problem, names)
    state = SmartState(problem, candidates, Forecaster(candidates, problem.goals, problem.seed))
    for row in _opening(state):
        if is_over(state, left_for=0.1):
            break
        yield from measure(state, row, LOOK)
    if not state.trials:
        return "nothing could be measured"
    yield from _look_around(state)
    reason = ""
    for _ in range(ROUNDS):
        reason = yield from _explore(state)
        reason = (yield from _race(state)) or reason
        # When the leader drops in the race, configurations that were ruled out because of it are open again.
        gain, _ = _next(state)
        if reason == SPENT or gain < REOPEN:
            break
    yield from _settle_default(state)
    yield from _report_rest(state)
    return reason


# --- 1. the opening


def _opening(state: SmartState) -> list[int]:
    """The default under heavy and under light load, then the largest configuration under heavy load."""
    points = state.candidates.points
    which = state.candidates.which

    def nearest(configuration: int, load: float) -> int:
        own = np.flatnonzero(which == configuration)
        return int(own[np.abs(np.log(np.maximum(points.load[own], 1e-9) / max(load, 1e-9))).argmin()])

    def busy(configuration: int) -> int:
        first = np.flatnonzero(which == configuration)[0]
        top = 2 * points.instances[first] * points.batch[first]
        return nearest(configuration, float(top if not points.by_rate else points.load.max() / 8))

    order = range(1, len(state.candidates.configurations))
    chosen = [busy(0), nearest(0, float(points.load.min()))]
    if order:
        chosen.append(busy(max(order, key=lambda number: _size(state, number))))
    return list(dict.fromkeys(chosen))


def _look_around(state: SmartState) -> SearchSteps[None]:
    """The most promising candidate for each number of instances: throughput has a kink where cores run out."""
    which = state.candidates.which
    for group in _by_instances(state):
        if is_over(state, left_for=race_cost(state)):
            return
        gain = np.where(np.isin(which, group), _gains(state), -1.0)
        row = int(gain.argmax())
        if gain[row] >= 0:
            yield from measure(state, row, LOOK)


def _by_instances(state: SmartState) -> list[list[int]]:
    """All configurations but the default, by their number of instances; of many numbers only some."""
    groups: dict[float, list[int]] = {}
    for number in range(1, len(state.candidates.configurations)):
        groups.setdefault(_size(state, number)[0], []).append(number)
    found = [groups[size] for size in sorted(groups)]
    if len(found) <= MOST_GROUPS:
        return found
    picked = sorted({round(step * (len(found) - 1) / (MOST_GROUPS - 1)) for step in range(MOST_GROUPS)})
    return [found[place] for place in picked]


def _size(state: SmartState, number: int) -> tuple[float, ...]:
    """Instances and batch of the first model."""
    return state.candidates.configurations[number].place[:2]


# --- 2. exploring


def _explore(state: SmartState) -> SearchSteps[str]:
    patience = 0
    while len(state.trials) < MOST:
        if is_over(state, left_for=race_cost(state)):
            return SPENT
        gains, row = _next(state)
        if row is None or (gains < WORTH and len(state.trials) >= FEWEST):
            patience += 1
            if row is None or patience >= PATIENCE:
                return "no configuration is expected to be better"
        else:
            patience = 0
        yield from measure(state, row, LOOK)
    return f"{MOST} measurements were made"


def _next(state: SmartState) -> tuple[float, int | None]:
    """The largest expected gain, and the candidate with the most expected gain for its cost."""
    gain = _gains(state)
    if gain.max() < 0:
        return 0.0, None
    cost = np.where(state.candidates.which == state.loaded, 1.0, LOAD_COST)
    return float(gain.max()), int((gain / cost).argmax())


def _gains(state: SmartState) -> Array:
    """The expected gain of every candidate; -1 where measuring it tells nothing."""
    state.forecast()
    value, feasible = state.utility, state.feasible
    kinds = state.candidates.kinds
    is_open = ~np.isin(kinds, kinds[state.rows])  # those that cannot differ from a measured one are closed
    if state.broken:
        is_open &= ~np.isin(state.candidates.which, list(state.broken))
    good = _incumbents(state, feasible)
    if good:
        gain = expected_gain(value, float(value.mean[good].max())) * feasible
    else:
        gain = feasible * (1.0 + np.exp(np.clip(value.mean - value.mean.max(), -5, 0)))
    return np.where(is_open, gain, -1.0)


def _incumbents(state: SmartState, feasible: Array) -> list[int]:
    """Measured candidates that keep the constraints: before a race by the forecast, since one run is noisy; after it
    by their figures, since those decide the result."""
    if not state.has_raced:
        return [row for row in dict.fromkeys(state.rows) if feasible[row] >= 0.5]
    return [state.row_of(trial) for trial in pool(state.trials) if passes(state.problem.goals, trial)]


# --- 3. the race


def _race(state: SmartState) -> SearchSteps[str]:
    """Measure leaders again until it is clear which is ahead."""
    state.has_raced = True
    for _ in range(MOST_RUNS):
        runner = _runner(state, standing_of(state))
        if runner is None:
            break
        if is_over(state, left_for=HOLD.duration_s):
            return SPENT
        yield from measure(state, runner, HOLD)
        if len(state.trials) < MOST and _next(state)[0] > REOPEN:
            return ""
    return ""


def _runner(state: SmartState, standing: list[Trial]) -> int | None:
    """The candidate to measure next: the leader until it has enough runs, then one that could still be ahead of it."""
    leader = standing[0]
    if _lacks_runs(state, leader):
        return state.row_of(leader)
    return max(_rivals(state, standing), default=(0.0, None), key=lambda pair: pair[0])[1]


def _lacks_runs(state: SmartState, trial: Trial) -> bool:
    return state.repeats[state.row_of(trial)] < _needed(state, trial)


def _needed(state: SmartState, trial: Trial) -> int:
    """Runs that a candidate needs: more for one close to a limit, where chance decides."""
    for number, goal in enumerate(state.problem.goals):
        for constraint in goal.constraints:
            value = trial.value(constraint.tag, number)
            limit = constraint.high if constraint.high is not None else constraint.low
            if value is not None and limit and abs(value - limit) / limit < CLOSE:
                return 2 * REPEATS if abs(value - limit) / limit < CLOSE / 2 else REPEATS + 1
    return 2


def _rivals(state: SmartState, standing: list[Trial]) -> list[tuple[float, int]]:
    """Those that could still be ahead of the leader, each with how much another run of it is worth."""
    leader = standing[0]
    goals, feasible, kinds = state.problem.goals, state.feasible, state.candidates.kinds
    found = []
    for trial in standing[1:]:
        if not _lacks_runs(state, trial):
            continue
        row = state.row_of(trial)
        ahead = score(goals, trial, leader)
        if not passes(goals, trial):
            worth = ahead * float(feasible[row])  # weighed by the forecast, which knows its neighbours
            if worth > 2 * WORTH:
                found.append((worth, row))
        elif kinds[row] != kinds[state.row_of(leader)] and ahead > -_room(trial, leader):
            found.append((ahead + _room(trial, leader), row))
    return found


def _room(trial: Trial, leader: Trial) -> float:
    """How far behind the leader a trial can be and still be better in truth; between two loads of one configuration
    the choice matters less."""
    if trial.name == leader.name:
        return ENOUGH
    widths = [
        row.relative_half_width
        for one in (trial, leader)
        for part in one.parts
        if (row := part.figures.estimate(THROUGHPUT)) is not None
    ]
    return max(ENOUGH, sum(width or 0.05 for width in widths))


def _settle_default(state: SmartState) -> SearchSteps[None]:
    """Find the best load of the default too: the gain is reported over that."""
    for _ in range(DEFAULT_LOOKS):
        if 0 in state.broken or is_over(state, left_for=HOLD.duration_s):
            return
        state.forecast()
        own = np.flatnonzero((state.candidates.which == 0) & (state.feasible > 0.5))
        if not len(own):
            return
        best = int(own[state.utility.mean[own].argmax()])
        if best in state.rows:
            return
        yield from measure(state, best, HOLD)


# --- what was not done


def _report_rest(state: SmartState) -> SearchSteps[None]:
    """Every configuration that was never measured, with what it could have reached at best."""
    if not state.forecasts:
        return
    measured = {state.candidates.rows[row][0] for row in state.rows} | state.broken
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
        if not len(own):
            row = int(np.flatnonzero(which == number)[0])
            reason = "not expected to keep the constraints at any load"
        else:
            high = speed.mean[own] + 2 * speed.deviation[own] + np.log(batches[own])
            row = int(own[high.argmax()])
            most, likely = np.exp(high.max()), np.exp(speed.mean[row]) * batches[row]
            reason = f"expected to reach at most {quantity(most)} infer/s, and {reached}"
            if most > best:
                reach = f"{quantity(likely)} infer/s, at most {quantity(most)}"
                reason = f"the search ended first: expected to reach {reach}"
        parts = state.candidates.parts(row)
        yield SkippedProposal(Proposal(parts, predicted=predicted(state, row)), reason)
