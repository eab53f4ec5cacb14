"""The expected gain of measuring a candidate, and the choice of the next one."""

import numpy as np
from numpy.typing import NDArray

from inferometer.stats.figures import THROUGHPUT, TOKENS
from inferometer.tune.scoring import passes, pool
from inferometer.tune.search.forecast import MEAN, expected_gain, start_chance
from inferometer.tune.search.smart_state import SmartState
from inferometer.tune.search.throughput_model import Array

Mask = NDArray[np.bool_]

STRIDE = 4  # largest load, relative to the knee
GROWTH = 1.1  # throughput ratio over smaller loads from which a load is not beyond the knee
WORTH = 0.004  # relative gain below which another run is not worthwhile
REOPEN = 0.01  # expected gain for which a race is interrupted
LATE_REOPEN = 0.04  # the same if the time is needed for the confirmation
GROWING = (THROUGHPUT, TOKENS)  # hardly decrease with the load
MISSED = 1.3  # ratio to a limit from which higher loads certainly violate it


def may_use(state: SmartState) -> Mask:
    """Return the candidates whose load is neither far beyond the knee nor beyond the capacity of the configuration.

    Little's law: the useful requests are those that all instances can execute, as many again that queue, and those in
    transit, which are the rate times the latency of an idle server.
    """
    points = state.candidates.points
    smallest = points.load <= points.load.min()
    if points.by_rate or not state.trials:
        return np.ones(len(points.load), bool)
    if state.candidates.is_launched:
        return _may_use_by_configuration(state)
    rates, loads = _rates(state), points.load[state.rows]
    knee = loads[rates * GROWTH >= rates.max()].min()
    idle_s = min((trial.combined(MEAN) or np.inf) / 1000 for trial in state.trials)
    away = rates.max() * idle_s if np.isfinite(idle_s) else np.inf
    useful = 2 * (state.candidates.room + away)
    return np.asarray(smallest | (points.load <= np.minimum(STRIDE * knee, useful)))


def _rates(state: SmartState) -> Array:
    """Return the requests per second of each trial."""
    return np.array([(trial.combined(THROUGHPUT) or 0.0) / trial.load.batch for trial in state.trials])


def _may_use_by_configuration(state: SmartState) -> Mask:
    """Return the candidates of a launched server whose load is not far beyond the knee of their own configuration: a
    value such as the number of slots can move the knee anywhere."""
    points, which = state.candidates.points, state.candidates.which
    rates, tried = _rates(state), which[state.rows]
    found = np.ones(len(points.load), bool)
    for number in np.unique(tried):
        own, loads = rates[tried == number], points.load[state.rows][tried == number]
        knee = loads[own * GROWTH >= own.max()].min()
        found &= (which != number) | (points.load <= STRIDE * knee)
    return found


def of_new_count(state: SmartState, left_for_s: float) -> int | None:
    """Return the most promising candidate with an unmeasured number of instances, since only a measurement shows
    where the cores run out and throughput has a kink."""
    counts = state.candidates.points.instances
    gain = np.where(np.isin(counts, counts[state.rows + state.pending]), -1.0, gains(state))
    gain = np.where(state.costs(state.look) <= state.clock.left_s - left_for_s, gain, -1.0)
    return int(gain.argmax()) if gain.max() >= 0 else None


def best_next(state: SmartState, left_for_s: float = 0.0) -> tuple[float, int | None]:
    """Return the largest expected gain, and the candidate with the largest expected gain per second.

    If only one more configuration can be loaded, it is the one with the largest expected gain. Measurements of loaded
    configurations must leave enough time for it; on a launched server that starts slowly, for all that still fit.
    """
    gain, cost_s = gains(state), state.costs(state.look)
    left_s = state.clock.left_s - left_for_s
    gain = np.where(cost_s <= left_s, gain, -1.0)
    if gain.max() < 0:
        return 0.0, None
    is_fresh = state.must_start
    value = gain / cost_s
    last = int(np.where(is_fresh, gain, -1.0).argmax())
    if is_fresh[last] and gain[last] > WORTH and np.isfinite(left_s):
        start_s = float(cost_s[last])
        starts = left_s // start_s
        if starts < 2 or (state.candidates.is_launched and state.is_slow_to_load):
            is_dear = (left_s - cost_s) // start_s < starts  # one start fewer fits afterwards
            value = np.where(is_fresh | is_dear, gain / start_s, value)
    return float(gain.max()), int(value.argmax())


def gains(state: SmartState) -> Array:
    """Return the expected gain of every candidate; -1 if measuring it adds no information."""
    state.forecast()
    value, feasible = state.utility, state.feasible
    kinds = state.candidates.kinds
    # Candidates equivalent to a measured one are closed.
    is_open = ~np.isin(kinds, kinds[state.rows + state.pending])
    is_open &= may_use(state) & ~_is_missed(state)
    is_open &= ~np.isin(state.candidates.which, [*state.broken, *state.ruled_out, *state.held])
    if state.candidates.is_launched:
        is_open &= ~_is_surpassed(state)
    for number, load in state.breaking.items():
        is_open &= (state.candidates.which != number) | (state.candidates.points.load < load)
    good = _incumbents(state, feasible)
    if good:
        gain = expected_gain(value, float(value.mean[good].max())) * feasible
    else:
        gain = feasible * (1.0 + np.exp(np.clip(value.mean - value.mean.max(), -5, 0)))
    return np.where(is_open, gain * _start_chance(state), -1.0)


def _start_chance(state: SmartState) -> Array | float:
    """Return the probability that the launched server of each candidate starts."""
    if not state.candidates.is_launched or not state.broken:
        return 1.0
    places = np.array([row.place for row in state.candidates.configurations])
    working = sorted(set(state.candidates.which[state.rows].tolist()))
    found = start_chance(places, places[working], places[sorted(state.broken)])
    return np.asarray(found[state.candidates.which])


def _is_missed(state: SmartState) -> Mask:
    """Return the loads above one at which the same configuration clearly violated an upper limit."""
    points, which = state.candidates.points, state.candidates.which
    found = np.zeros(len(which), bool)
    for row, trial in zip(state.rows, state.trials, strict=True):
        for number, goal in enumerate(state.problem.goals):
            for limit in goal.constraints:
                value = trial.value(limit.tag, number)
                if limit.high is not None and value is not None and value > MISSED * limit.high:
                    found |= (which == which[row]) & (points.load >= points.load[row])
    return found


def _is_surpassed(state: SmartState) -> Mask:
    """Return the loads below one at which the same configuration met the constraints, if only throughput counts."""
    points, which = state.candidates.points, state.candidates.which
    found = np.zeros(len(which), bool)
    if any(tag not in GROWING for goal in state.problem.goals for tag, _ in goal.objectives):
        return found
    for row, trial in zip(state.rows, state.trials, strict=True):
        if passes(state.problem.goals, trial):
            found |= (which == which[row]) & (points.load < points.load[row])
    return found


def _incumbents(state: SmartState, feasible: Array) -> list[int]:
    """Return measured candidates that meet the constraints: by forecast before a race, because one run is noisy; by
    their figures after it, because those decide the result."""
    if not state.has_raced:
        return [row for row in dict.fromkeys(state.rows) if feasible[row] >= 0.5]
    return [state.row_of(trial) for trial in pool(state.trials) if passes(state.problem.goals, trial)]


def worth(state: SmartState) -> float:
    """Return the expected gain for which the search continues: after a race only a considerable one."""
    if not state.has_raced:
        return WORTH
    return REOPEN if state.clock.budget_s is None else LATE_REOPEN
