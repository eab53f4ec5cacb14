"""Few measurements, each where it tells most per second, so that the best so far is good at any time.

1. Climb: the model as it is, under loads that grow fourfold until throughput stops growing or a limit is missed. It is
   loaded already, and the climb shows the knee, the cost of an execution, and how that grows with the batch.
2. Explore: measure where the expected gain over the best so far, times the chance to keep the constraints, per second
   of cost is largest. What loading and measuring cost is learned from the trials. Repeat until no candidate is expected
   to gain half a per cent. Loads far beyond the knee, and beyond what a configuration could use, are left out.
3. Race: the leaders and candidates whose intervals overlap theirs are measured again, longer, until one is ahead
   or the differences no longer matter. Candidates that can no longer win drop out.
4. Confirm: the winner and the default in turns, so that the gain has an interval.

A budget is counted in the cost of the trials, not by a clock, so that a resumed search decides the same. A part of it
is kept for race and confirmation, the smaller the smaller the budget is.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from inferometer.base.units import quantity
from inferometer.stats.figures import BY_TAG, THROUGHPUT
from inferometer.tune.scoring import best_first, gain_of_runs, passes, pool, score
from inferometer.tune.search import candidates as all_candidates
from inferometer.tune.search.candidates import BATCH_PLACE, INSTANCES_PLACE, WIDTH, Candidates
from inferometer.tune.search.clock import SearchClock
from inferometer.tune.search.forecast import (
    MEAN,
    Forecast,
    Forecaster,
    Forecasts,
    chance,
    expected_gain,
    together,
    utility,
)
from inferometer.tune.search.search import (
    SPENT,
    Proposal,
    SearchMessage,
    SearchProblem,
    SearchSteps,
    SkippedProposal,
    ask,
)
from inferometer.tune.search.throughput_model import Array
from inferometer.tune.settings import Effort
from inferometer.tune.trial import Setting, Trial
from inferometer.tune.variant import VariantNames

Mask = NDArray[np.bool_]

LOOK_S, USUAL_LOOK_S, SHORTEST_LOOK_S = 1.0, 0.85, 0.5
HOLD_S, LONGEST_HOLD_S = 2.0, 3.0
RUN_SHARE = 1 / 40  # of the budget, for one look or one run of the race
KEPT_SHARE = 0.3  # of the budget, for race and confirmation at the most
MANY = 40  # loads of configurations that must fit into a budget for the whole share
PAIRS = 4  # runs of the winner and of the default, in turns
SLOW_LOADING_S = 4.0
CLEAR = 0.75  # of the gain is certain: half of these runs are enough
MOST_RUNS = 24  # of a race
FEWEST = 14
MOST = 60
PATIENCE = 3
STRIDE = 4  # a load may be so many times the knee
GROWTH = 1.1  # a load that gives so many times the throughput of smaller ones is not beyond the knee
USUAL_LOADS, USUAL_LOOKS, USUAL_HOLDS = 15, 20, 15  # of a search without a budget
MOST_SKIPS = 200
ROUNDS = 6
REOPEN = 0.01  # expected gain for which a race is interrupted
LIKELY = 0.1  # expected gain of another configuration with which the leader will hardly stay
LATE_REOPEN = 0.04  # the same where the time is needed for the confirmation
DEFAULT_LOOKS = 3
ENOUGH = 0.02  # leaders closer than this need not be told apart
FEWEST_RUNS = 2
REPEATS = 3
CLOSE = 0.08  # to a limit, as a share of it
ENDED = "no configuration is expected to be better"
MEMORY = ("gpu_used_memory", "cpu_used_ram")
ABOVE = 1.02  # times a limit of the memory: other runs would not be below it
MISSED = 1.3  # times a limit: at higher loads it is missed for sure
WORTH = 0.004  # relative gain below which another run is not worth it


@dataclass(slots=True)
class SmartState:
    """Trials so far by candidate, their cost, and the forecast for all candidates."""

    problem: SearchProblem
    candidates: Candidates
    forecaster: Forecaster
    clock: SearchClock
    rows: list[int] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)
    broken: set[int] = field(default_factory=set)  # configurations that gave no figures
    too_large: dict[int, str] = field(default_factory=dict)  # by number: one no larger that did not fit
    breaking: dict[int, float] = field(
        default_factory=dict
    )  # of others, by configuration, a load that gave none
    loaded: int = -1
    has_raced: bool = False
    repeats: dict[int, int] = field(default_factory=dict)
    row_by_setting: dict[Setting, int] = field(default_factory=dict)
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

    @property
    def look(self) -> Effort:
        """A first run of a candidate: where time is short, more of them tell more than longer ones."""
        budget_s = self.clock.budget_s
        if budget_s is None:
            return Effort(USUAL_LOOK_S, 0.05)
        return Effort(float(np.clip(budget_s * RUN_SHARE, SHORTEST_LOOK_S, LOOK_S)), 0.05)

    @property
    def hold(self) -> Effort:
        """A run of the race, shorter where the budget is small; a second more matters little where loading is slow."""
        longest_s = LONGEST_HOLD_S if self.is_slow_to_load else HOLD_S
        if self.clock.budget_s is None:
            return Effort(longest_s, 0.02)
        return Effort(float(np.clip(self.clock.budget_s * RUN_SHARE, LOOK_S, longest_s)), 0.02)

    @property
    def is_slow_to_load(self) -> bool:
        return float(self.clock.loading_s(self.candidates.points.instances[:1])[0]) > SLOW_LOADING_S

    def row_of(self, trial: Trial) -> int:
        return self.row_by_setting[trial.setting]

    def costs(self, effort: Effort) -> Array:
        """What a trial of each candidate would take, in seconds."""
        points, which = self.candidates.points, self.candidates.which
        latency_s = np.zeros(len(which))
        if self.forecasts and not points.by_rate:
            latency_s = points.load / np.exp(together(self.forecasts).mean)
        first = np.array(
            [np.searchsorted(which, number) for number in range(len(self.candidates.configurations))]
        )
        loading_s = self.clock.loading_s(points.instances[first])[which]
        fresh_s = np.where(which == self.loaded, 0.0, loading_s)
        return np.asarray(self.clock.measuring_s(effort, latency_s) + fresh_s)


def measure(state: SmartState, row: int, effort: Effort) -> SearchSteps[None]:
    number, _ = state.candidates.rows[row]
    if number in state.broken:
        return
    repeat = state.repeats.get(row, 0)
    proposal = Proposal(state.candidates.parts(row), repeat, effort, predicted(state, row))
    trial = yield from ask(proposal)
    waited_s = (trial.combined(MEAN) or 0.0) / 1000
    state.clock.add(trial, float(state.candidates.points.instances[row]), effort, waited_s)
    state.loaded = number
    state.repeats[row] = repeat + 1
    if not trial.is_measured:
        load = float(state.candidates.points.load[row])
        if repeat == 0 and any(state.candidates.which[known] == number for known in state.rows):
            state.breaking[number] = min(load, state.breaking.get(number, load))
            text = f"{trial.name} is not tried at {trial.load} or more: {trial.reason}"
        else:
            state.broken.add(number)
            if trial.lacks_memory:
                _leave_larger(state, number, trial.name)
            text = f"{trial.name} is left out: {trial.reason}"
        yield SearchMessage(text, is_warning=True)
        return
    if _needs_too_much(state, trial):
        state.too_large[number] = trial.name
        _leave_larger(state, number, trial.name)
    state.rows.append(row)
    state.trials.append(trial)
    state.row_by_setting.setdefault(trial.setting, row)


def _needs_too_much(state: SmartState, trial: Trial) -> bool:
    """Clearly more memory than it may: that is so under any load."""
    return any(
        limit.tag in MEMORY
        and limit.high is not None
        and (trial.value(limit.tag, number) or 0.0) > limit.high * ABOVE
        for number, goal in enumerate(state.problem.goals)
        for limit in goal.constraints
    )


def _leave_larger(state: SmartState, number: int, name: str) -> None:
    """Configurations with no fewer instances and no smaller batches need no less memory."""
    places = np.array([configuration.place for configuration in state.candidates.configurations])
    sizes = np.hstack([places[:, place::WIDTH] for place in (INSTANCES_PLACE, BATCH_PLACE)])
    for other in np.flatnonzero((sizes >= sizes[number]).all(axis=1)).tolist():
        if other != number and not np.isin(other, state.candidates.which[state.rows]):
            state.too_large.setdefault(other, name)


def predicted(state: SmartState, row: int) -> tuple[tuple[str, float], ...]:
    load = state.candidates.rows[row][1]
    found: dict[str, list[float]] = {}
    for own in state.forecasts:
        for tag, forecast in own.items():
            value = float(np.exp(forecast.mean[row])) * (load.batch if tag == THROUGHPUT else 1)
            found.setdefault(tag, []).append(value)
    return tuple((tag, BY_TAG[tag].combine(values)) for tag, values in found.items())


def standing_of(state: SmartState) -> list[Trial]:
    """Candidates from best to worst, repeats pooled."""
    return best_first(state.problem.goals, pool(state.trials))


def smart(problem: SearchProblem, names: VariantNames) -> SearchSteps[str]:
    candidates = all_candidates.make(problem, names)
    forecaster = Forecaster(candidates, problem.goals, problem.seed)
    state = SmartState(problem, candidates, forecaster, SearchClock(problem.settings.budget_s))
    yield from _climb(state)
    if not state.trials:
        return "nothing could be measured"
    if problem.settings.budget_s is None:
        yield _forecast_of_time(state)
    reason = ""
    for _ in range(ROUNDS):
        reason = yield from _explore(state)
        yield from _race(state)
        # When the leader drops in the race, configurations that were ruled out because of it are open again.
        gain, row = _next(state)
        if row is None or gain < _worth(state):
            break
    yield from _confirm(state)
    if problem.settings.budget_s is not None:
        while (yield from _refine(state)):
            pass
    yield from _report_rest(state)
    return reason


def _forecast_of_time(state: SmartState) -> SearchMessage:
    """Of a search without a budget, from what it usually takes."""
    state.forecast()
    loading_s = float(np.median(state.clock.loading_s(state.candidates.points.instances)))
    look_s = float(np.median(state.costs(state.look)[state.candidates.which == state.loaded]))
    count = min(USUAL_LOADS, len(state.candidates.configurations))
    left_s = (
        count * loading_s
        + USUAL_LOOKS * look_s
        + USUAL_HOLDS * (look_s + state.hold.duration_s - state.look.duration_s)
    )
    costs = f"loading takes {loading_s:.1f} s, a measurement {look_s:.1f} s"
    return SearchMessage(
        f"This will take about {left_s:.0f} s ({costs}); --budget sets a limit", left_s=left_s
    )


# --- 1. the climb


def _climb(state: SmartState) -> SearchSteps[None]:
    """The default under growing load, to the knee. Another configuration where it cannot be loaded."""
    points, which = state.candidates.points, state.candidates.which
    for number in range(len(state.candidates.configurations)):
        own = np.flatnonzero(which == number)
        load = 0.0
        while True:
            further = own[points.load[own] >= load * STRIDE] if load else own
            row = int(further[points.load[further].argmin()]) if len(further) else None
            if (
                row is None
                or not _may_use(state)[row]
                or (state.trials and not _fits(state, row, state.look, 0.0))
            ):
                return
            yield from measure(state, row, state.look)
            if number in state.breaking:
                return
            if number in state.broken:
                break
            load = float(points.load[row])
            if not _is_climbing(state):
                return


def _is_climbing(state: SmartState) -> bool:
    """The last trial keeps the limits, and gives more than those before."""
    *before, last = state.trials
    if not passes(state.problem.goals, last):
        return False
    rates = [trial.combined(THROUGHPUT) or 0.0 for trial in before]
    return (last.combined(THROUGHPUT) or 0.0) > GROWTH * max(rates, default=0.0)


def _may_use(state: SmartState) -> Mask:
    """Candidates whose load is not far beyond the knee, nor beyond what the configuration could use.

    Little's law: at most so many requests are useful as all instances can execute, as many again that wait to
    be next, and those that are on their way, which are the rate times the time that a request takes when idle.
    """
    points = state.candidates.points
    smallest = points.load <= points.load.min()
    if points.by_rate or not state.trials:
        return np.ones(len(points.load), bool)
    rates = np.array([(trial.combined(THROUGHPUT) or 0.0) / trial.load.batch for trial in state.trials])
    loads = points.load[state.rows]
    knee = loads[rates * GROWTH >= rates.max()].min()
    idle_s = min((trial.combined(MEAN) or np.inf) / 1000 for trial in state.trials)
    away = rates.max() * idle_s if np.isfinite(idle_s) else np.inf
    useful = 2 * (state.candidates.room + away)
    return np.asarray(smallest | (points.load <= np.minimum(STRIDE * knee, useful)))


def _fits(state: SmartState, row: int, effort: Effort, left_for_s: float) -> bool:
    return not state.clock.is_over(float(state.costs(effort)[row]), left_for_s)


# --- 2. exploring


def _kept_s(state: SmartState) -> float:
    """Seconds to keep for the race and the confirmation: less where only a few configurations can be loaded."""
    budget_s = state.clock.budget_s
    if budget_s is None:
        return 0.0
    loading_s = float(state.clock.loading_s(state.candidates.points.instances[:1])[0])
    turn_s = 2 * loading_s + 2 * float(state.costs(state.hold)[state.rows[-1]])
    return min(PAIRS * turn_s, KEPT_SHARE * budget_s * min(1.0, budget_s / (MANY * loading_s + turn_s)))


def _explore(state: SmartState) -> SearchSteps[str]:
    patience = 0
    while len(state.trials) + len(state.broken) < MOST:
        kept_s = 0.0 if state.has_raced else _kept_s(state)
        gain, row = _next(state, left_for_s=kept_s)
        if row is None:
            return SPENT if state.clock.budget_s is not None else ENDED
        if gain < _worth(state):
            fresh = _of_new_count(state, left_for_s=kept_s)
            row = row if fresh is None else fresh
            patience += len(state.trials) >= FEWEST
            if patience > PATIENCE:
                return ENDED
        else:
            patience = 0
        if gain < LIKELY:
            yield from _settle_leader(state, row)
        yield from measure(state, row, state.look)
    return f"{MOST} measurements were tried"


def _settle_leader(state: SmartState, following: int) -> SearchSteps[None]:
    """Before another configuration is loaded: further runs of a leader that is loaded, where it would cost more to load
    it again than to measure it now."""
    which, cost_s = state.candidates.which, float(state.costs(state.hold)[following])
    while which[following] != state.loaded and cost_s > 2 * state.hold.duration_s:
        leader = standing_of(state)[0]
        row = state.row_of(leader)
        is_close = _needed(state, leader) > FEWEST_RUNS
        if which[row] == 0 or which[row] != state.loaded or not is_close or not _lacks_runs(state, leader):
            return
        if not _fits(state, row, state.hold, cost_s):
            return
        yield from measure(state, row, state.hold)


def _of_new_count(state: SmartState, left_for_s: float) -> int | None:
    """The most promising candidate with a number of instances that was never measured: throughput has a kink where
    cores run out, and nothing but a look shows where."""
    counts = state.candidates.points.instances
    gain = np.where(np.isin(counts, counts[state.rows]), -1.0, _gains(state))
    gain = np.where(state.costs(state.look) <= state.clock.left_s - left_for_s, gain, -1.0)
    return int(gain.argmax()) if gain.max() >= 0 else None


def _next(state: SmartState, left_for_s: float = 0.0) -> tuple[float, int | None]:
    """The largest expected gain, and the candidate with the most expected gain per second.

    Where only one more configuration can be loaded, it is the one with the most expected gain, and loads on what is
    loaded must leave the time for it.
    """
    gain, cost_s = _gains(state), state.costs(state.look)
    left_s = state.clock.left_s - left_for_s
    gain = np.where(cost_s <= left_s, gain, -1.0)
    if gain.max() < 0:
        return 0.0, None
    is_fresh = state.candidates.which != state.loaded
    value = gain / cost_s
    last = int(np.where(is_fresh, gain, -1.0).argmax())
    if is_fresh[last] and gain[last] > WORTH and left_s < 2 * cost_s[last]:
        value = np.where(is_fresh | (cost_s + cost_s[last] > left_s), gain / cost_s[last], value)
    return float(gain.max()), int(value.argmax())


def _gains(state: SmartState) -> Array:
    """The expected gain of every candidate; -1 where measuring it tells nothing."""
    state.forecast()
    value, feasible = state.utility, state.feasible
    kinds = state.candidates.kinds
    is_open = ~np.isin(kinds, kinds[state.rows])  # those that cannot differ from a measured one are closed
    is_open &= _may_use(state) & ~_is_missed(state)
    is_open &= ~np.isin(state.candidates.which, [*state.broken, *state.too_large])
    for number, load in state.breaking.items():
        is_open &= (state.candidates.which != number) | (state.candidates.points.load < load)
    good = _incumbents(state, feasible)
    if good:
        gain = expected_gain(value, float(value.mean[good].max())) * feasible
    else:
        gain = feasible * (1.0 + np.exp(np.clip(value.mean - value.mean.max(), -5, 0)))
    return np.where(is_open, gain, -1.0)


def _is_missed(state: SmartState) -> Mask:
    """Loads above one at which the same configuration clearly missed a limit of the latency."""
    points, which = state.candidates.points, state.candidates.which
    found = np.zeros(len(which), bool)
    for row, trial in zip(state.rows, state.trials, strict=True):
        for number, goal in enumerate(state.problem.goals):
            for limit in goal.constraints:
                value = trial.value(limit.tag, number)
                if limit.high is not None and value is not None and value > MISSED * limit.high:
                    found |= (which == which[row]) & (points.load >= points.load[row])
    return found


def _incumbents(state: SmartState, feasible: Array) -> list[int]:
    """Measured candidates that keep the constraints: before a race by the forecast, since one run is noisy; after it
    by their figures, since those decide the result."""
    if not state.has_raced:
        return [row for row in dict.fromkeys(state.rows) if feasible[row] >= 0.5]
    return [state.row_of(trial) for trial in pool(state.trials) if passes(state.problem.goals, trial)]


# --- 3. the race


def _race(state: SmartState) -> SearchSteps[None]:
    """Measure leaders again until it is clear which is ahead."""
    state.has_raced = True
    for _ in range(MOST_RUNS):
        runner = _runner(state, standing_of(state))
        if runner is None or not _fits(state, runner, state.hold, _kept_s(state) / 2):
            return
        yield from measure(state, runner, state.hold)
        if len(state.trials) < MOST and _next(state)[0] > _worth(state):
            return


def _worth(state: SmartState) -> float:
    """The expected gain for which the search goes on: after a race only a considerable one."""
    if not state.has_raced:
        return WORTH
    return REOPEN if state.clock.budget_s is None else LATE_REOPEN


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
                return 3 * REPEATS if abs(value - limit) / limit < CLOSE / 3 else REPEATS + 1
    return FEWEST_RUNS


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


# --- 4. the confirmation


def _confirm(state: SmartState) -> SearchSteps[None]:
    """The winner and the default at its best load, in the order A B B A, as far as the budget goes."""
    yield from _settle_default(state)
    for number in range(2 * PAIRS):
        standing = standing_of(state)
        own = next((trial for trial in standing if state.candidates.which[state.row_of(trial)] == 0), None)
        if own is None or own is standing[0] or not passes(state.problem.goals, own):
            return  # there is no gain to confirm
        if number == PAIRS and _is_clear(state, standing[0], own):
            return
        row = state.row_of(own if (number + 1) // 2 % 2 == 0 else standing[0])
        if not _fits(state, row, state.hold, 0.0):
            return
        yield from measure(state, row, state.hold)
        yield from _refine(state)


def _refine(state: SmartState) -> SearchSteps[bool]:
    """Another load of what is loaded, if it may well be better: that costs little, and the machine may have been slower
    when its neighbours were measured. Whether there was one."""
    gain = np.where(state.candidates.which == state.loaded, _gains(state), -1.0)
    row = int(gain.argmax())
    if gain[row] <= REOPEN or not _fits(state, row, state.look, 0.0):
        return False
    yield from measure(state, row, state.look)
    return True


def _is_clear(state: SmartState, winner: Trial, own: Trial) -> bool:
    """The gain is many times larger than what is not known of it. Where loading is slow, runs of one load follow each
    other, and what they have in common is not known: there it never is."""
    if state.is_slow_to_load:
        return False
    found = gain_of_runs(state.problem.goals, state.trials, winner, own)
    return found.limits is not None and found.limits[0] > CLEAR * found.value > 0


def _settle_default(state: SmartState) -> SearchSteps[None]:
    """Find the best load of the default too: the gain is reported over that."""
    points_load = state.candidates.points.load
    for _ in range(DEFAULT_LOOKS):
        if 0 in state.broken:
            return
        state.forecast()
        own = np.flatnonzero((state.candidates.which == 0) & (state.feasible > 0.5) & _may_use(state))
        if not len(own):
            return
        best = int(own[state.utility.mean[own].argmax()])
        is_tried = best in state.rows or points_load[best] >= state.breaking.get(0, np.inf)
        if is_tried or not _fits(state, best, state.look, 0.0):
            return
        yield from measure(state, best, state.look)


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
        if number in state.too_large:
            row = int(np.flatnonzero(which == number)[0])
            reason = f"no smaller than {state.too_large[number]}, which did not fit the memory"
        elif not len(own):
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
