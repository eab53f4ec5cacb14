"""Rank configurations by objectives, constraints and weights. Pure."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, cmp_to_key, partial

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.units import plain_number
from inferometer.stats.estimate import Estimate
from inferometer.stats.figures import BY_TAG, OLD_LATENCY, THROUGHPUT, known_tag
from inferometer.stats.intervals import student_t
from inferometer.tune.trial import Figures, Setting, Trial, TrialPart, counted, pooled

LISTED_WEIGHT = 10.0
# Of the throughput, between runs of one reloaded configuration; observed on several machines.
USUAL_SPREAD = 0.04
USUAL_FREEDOM = 3  # its weight in degrees of freedom, next to the repeats of a study


@frozen
class Constraint:
    """A metric and its bound, which is inclusive."""

    tag: str
    low: float | None = None
    high: float | None = None

    def violation(self, value: float) -> float:
        """Return the relative violation of the bound; 0 if it is met."""
        if self.low is not None and value < self.low:
            return (self.low - value) / self.low
        if self.high is not None and value > self.high:
            return (value - self.high) / self.high if self.high else float("inf")
        return 0.0


@frozen
class Goal:
    """The objectives and constraints of one model."""

    model: str
    objectives: tuple[tuple[str, float], ...] = ((THROUGHPUT, LISTED_WEIGHT),)
    constraints: tuple[Constraint, ...] = ()
    weight: float = 1.0

    @property
    def shares(self) -> tuple[tuple[str, float], ...]:
        """Objectives with weights that sum to 1."""
        total = sum(weight for _, weight in self.objectives)
        return tuple((tag, weight / total) for tag, weight in self.objectives)

    def limit(self, tag: str) -> float | None:
        """The upper bound of a metric, if it has one."""
        return next((row.high for row in self.constraints if row.tag == tag), None)


def objectives(given: Mapping[str, float] | Sequence[str], where: str) -> tuple[tuple[str, float], ...]:
    """Return weights by tag; members of a list have equal weights."""
    rows = (
        [(str(tag), float(weight)) for tag, weight in given.items()]
        if isinstance(given, Mapping)
        else [(str(tag), LISTED_WEIGHT) for tag in given]
    )
    for tag, weight in rows:
        if tag not in BY_TAG and tag != OLD_LATENCY:
            raise UsageError(f"{where}.{tag} is not a metric", remedy=f"the metrics are {', '.join(BY_TAG)}")
        if weight <= 0:
            raise UsageError(
                f"{where}.{tag} has the weight {plain_number(weight)}", remedy="give a weight above 0"
            )
    if not rows:
        raise UsageError(f"{where} is empty", remedy=f"name a metric, such as {THROUGHPUT}")
    return tuple((known_tag(tag), weight) for tag, weight in rows)


def constraints(given: Mapping[str, object], where: str) -> tuple[Constraint, ...]:
    """Parse `{metric: {min: n}}` and `{metric: {max: n}}`."""
    return tuple(_constraint(str(tag), bounds, f"{where}.{tag}") for tag, bounds in given.items())


def _constraint(tag: str, bounds: object, where: str) -> Constraint:
    metric = BY_TAG.get(known_tag(tag))
    if metric is None or not (metric.may_min or metric.may_max):
        allowed = ", ".join(row.tag for row in BY_TAG.values() if row.may_min or row.may_max)
        raise UsageError(
            f"{where} is not a metric with a limit", remedy=f"the metrics with limits are {allowed}"
        )
    allowed_bound = "min" if metric.may_min else "max"
    if not isinstance(bounds, Mapping) or set(bounds) != {allowed_bound}:
        raise UsageError(f"{where} is {bounds!r}", remedy=f"write {{{allowed_bound}: NUMBER}}")
    value = bounds[allowed_bound]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
        raise UsageError(f"{where}.{allowed_bound} is {value!r}", remedy="give a number, 0 or more")
    low, high = (float(value), None) if allowed_bound == "min" else (None, float(value))
    return Constraint(metric.tag, low, high)


def with_limit(rows: Sequence[Constraint], added: Constraint) -> tuple[Constraint, ...]:
    """Add a constraint, replacing any other on the same metric."""
    return (*(row for row in rows if row.tag != added.tag), added)


Goals = Sequence[Goal]
"""One goal per part of a trial, in the same order."""


def violation(goals: Goals, trial: Trial) -> float:
    """Return by how much the trial violates the constraints, in percent; unmeasured metrics do not count."""
    total = 0.0
    for number, goal in enumerate(goals):
        for constraint in goal.constraints:
            value = trial.value(constraint.tag, number)
            if value is not None:
                total += constraint.violation(value)
    return total * 100


def passes(goals: Goals, trial: Trial) -> bool:
    return violation(goals, trial) == 0


def score(goals: Goals, first: Trial, second: Trial) -> float:
    """Return a score above 0 if the first trial is better. It is relative, so that objectives in any unit can be
    weighed."""
    total_weight = sum(goal.weight for goal in goals)
    return sum(
        goal.weight / total_weight * _model_score(goal, number, first, second)
        for number, goal in enumerate(goals)
    )


def _model_score(goal: Goal, part: int, first: Trial, second: Trial) -> float:
    rows = [
        (BY_TAG[tag], share, first.value(tag, part), second.value(tag, part)) for tag, share in goal.shares
    ]
    known = [row for row in rows if row[2] is not None or row[3] is not None]
    total = sum(share for _, share, _, _ in known)
    found = 0.0
    for metric, share, mine, other in known:
        if mine is None or other is None:
            return -1.0 if mine is None else 1.0
        mean = (mine + other) / 2
        if mean:
            sign = 1 if metric.is_higher_better else -1
            found += share / total * sign * (mine - other) / mean
    return found


def is_better(goals: Goals, first: Trial, second: Trial) -> bool:
    """A trial that meets the constraints beats one that does not; otherwise the objectives decide."""
    mine, other = passes(goals, first), passes(goals, second)
    return score(goals, first, second) > 0 if mine == other else mine


def best_first(
    goals: Goals, trials: Sequence[Trial], luck: Callable[[Trial], float] = lambda _: 0.0
) -> list[Trial]:
    """Return all passing trials from best to worst, then all failing ones; `luck` is the discount on a score."""

    def order(first: Trial, second: Trial) -> int:
        gained = score(goals, first, second) - luck(first) + luck(second)
        return (gained < 0) - (gained > 0)

    split: dict[bool, list[Trial]] = {True: [], False: []}
    for trial in trials:
        split[passes(goals, trial)].append(trial)
    return [trial for group in split.values() for trial in sorted(group, key=cmp_to_key(order))]


def gain(goals: Goals, trial: Trial, other: Trial, *, is_least: bool = False) -> float:
    """Return the weighted gain in the trial's objectives in percent; with `is_least`, the lower bound from the
    intervals."""
    total_weight = sum(goal.weight for goal in goals)
    found = 0.0
    for number, goal in enumerate(goals):
        for tag, share in goal.shares:
            is_high = BY_TAG[tag].is_higher_better
            mine = _end(trial, tag, number, is_low=is_high) if is_least else trial.value(tag, number)
            base = _end(other, tag, number, is_low=not is_high) if is_least else other.value(tag, number)
            if mine is not None and base is not None and (base if is_high else mine):
                step = (mine - base) / base if is_high else (base - mine) / mine
                found += goal.weight / total_weight * share * step * 100
    return found


def _end(trial: Trial, tag: str, part: int, *, is_low: bool) -> float | None:
    """Return one end of the interval of a figure, or the figure itself if it has no interval."""
    found = trial.parts[part].figures.estimate(tag)
    end = None if found is None else found.low if is_low else found.high
    return trial.value(tag, part) if end is None else end


@frozen
class RankedVariant:
    """A variant with its trials, repeats pooled, best first; `best` represents it."""

    name: str
    trials: tuple[Trial, ...]
    does_pass: bool

    @property
    def best(self) -> Trial:
        return self.trials[0]


def rank(goals: Goals, trials: Sequence[Trial]) -> tuple[RankedVariant, ...]:
    """Rank variants from best to worst, starting with those that meet the constraints at some load.

    The best of many individual runs is partly the result of luck. It therefore ranks behind repeated trials, unless it
    leads by more than repeats differ. The interval of a throughput is that of another run.
    """
    variance, _ = spread_of_runs(goals, trials)
    measured = groups(trials)
    runs = {group[0].setting: len(group) for group in measured}
    spread = cache(partial(_spread_of_rates, [counted(group) for group in measured]))

    def luck(trial: Trial) -> float:
        count = runs[trial.setting]
        # Of three or more runs, the first no longer counts.
        return math.sqrt(variance) / count if count < 3 else 0.0

    by_name: dict[str, list[Trial]] = {}
    for group in measured:
        trial = pooled(group)
        by_name.setdefault(trial.name, []).append(
            _with_room_for_another_run(trial, spread, len(counted(group)))
        )
    ordered = {name: tuple(best_first(goals, found, luck)) for name, found in by_name.items()}
    return tuple(
        RankedVariant(best.name, ordered[best.name], passes(goals, best))
        for best in best_first(goals, [found[0] for found in ordered.values()], luck)
    )


def spread_of_runs(goals: Goals, trials: Sequence[Trial]) -> tuple[float, int]:
    """Return the variance of the scores of all repeats, which are nearly differences of logarithms, and its degrees of
    freedom; 0 and 0 without repeats."""
    repeated = [group for group in map(counted, groups(trials)) if len(group) > 1]
    freedom = sum(len(group) - 1 for group in repeated)
    squares = sum(score(goals, run, pooled(group)) ** 2 for group in repeated for run in group)
    return squares / max(1, freedom), freedom


def gain_of_runs(goals: Goals, trials: Sequence[Trial], best: Trial, base: Trial) -> Estimate:
    """Return the gain in percent. Runs of a configuration differ by more than the windows of one run, so the interval
    is based on the spread of repeats and on the usual spread, weighted as for a throughput. A single run counts with
    its own interval if that is wider."""
    found = gain(goals, best, base)
    runs = {group[0].setting: group for group in groups(trials)}
    own = [runs[trial.setting] for trial in (best, base)]
    least = gain(goals, *map(pooled, own), is_least=True)
    if found <= -100:
        return Estimate(found, least, 2 * found - least)
    measured, freedom = spread_of_runs(goals, trials)
    squares = USUAL_FREEDOM * USUAL_SPREAD**2 + freedom * measured
    freedom += USUAL_FREEDOM
    share = sum(1 / len(counted(group)) for group in own)
    margin = student_t(0.975, freedom) * math.sqrt(squares / freedom * share)
    low, high = (math.expm1(math.log1p(found / 100) + sign * margin) * 100 for sign in (-1, 1))
    if any(len(group) == 1 for group in own):
        low, high = min(low, least), max(high, 2 * found - least)
    return Estimate(found, low, high)


SpreadOfRates = tuple[float, int]
"""Sum of squares of logarithms, and its degrees of freedom."""


def _with_room_for_another_run(trial: Trial, spread: Callable[[int], SpreadOfRates], count: int) -> Trial:
    """Widen the intervals of a trial measured `count` times to those of another run: an SLO must hold later, on a
    restarted server."""
    parts = tuple(_widened(part, partial(spread, number), count) for number, part in enumerate(trial.parts))
    return replace(trial, parts=parts)


def _spread_of_rates(runs: Sequence[Sequence[Trial]], number: int) -> SpreadOfRates:
    """Return the spread of one model's throughput over repeats."""
    squares, freedom = USUAL_FREEDOM * USUAL_SPREAD**2, USUAL_FREEDOM
    for group in runs:
        rates = [rate for run in group if (rate := run.value(THROUGHPUT, number))]
        if len(rates) > 1:
            mean = math.exp(sum(map(math.log, rates)) / len(rates))
            squares += sum(math.log(rate / mean) ** 2 for rate in rates)
            freedom += len(rates) - 1
    return squares, freedom


def _widened(part: TrialPart, spread: Callable[[], SpreadOfRates], count: int) -> TrialPart:
    found = part.figures.estimate(THROUGHPUT)
    if found is None or found.value <= 0:
        return part
    squares, freedom = spread()
    margin = student_t(0.975, freedom) * math.sqrt(squares / freedom * (1 + 1 / count))
    low, high = (found.value * math.exp(sign * margin) for sign in (-1, 1))
    wide = Estimate(
        found.value,
        low if found.low is None else min(low, found.low),
        high if found.high is None else max(high, found.high),
    )
    values = tuple(
        (tag, wide if known_tag(tag) == known_tag(THROUGHPUT) else value)
        for tag, value in part.figures.values
    )
    return replace(part, figures=Figures(values))


def groups(trials: Sequence[Trial]) -> list[list[Trial]]:
    """Group repeats of measured trials, in the order they were first measured."""
    found: dict[Setting, list[Trial]] = {}
    for trial in trials:
        if trial.is_measured:
            found.setdefault(trial.setting, []).append(trial)
    return list(found.values())


def pool(trials: Sequence[Trial]) -> list[Trial]:
    """Return measured trials with repeats pooled."""
    return [pooled(group) for group in groups(trials)]
