"""Which of two trials is better, by how much, and in which order variants stand. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cmp_to_key

from inferometer.tune.goal import Goal
from inferometer.tune.metrics import BY_TAG
from inferometer.tune.trial import Trial, pooled

Goals = Sequence[Goal]
"""One per part of a trial, in the same order."""


def violation(goals: Goals, trial: Trial) -> float:
    """How far the trial is from keeping all constraints, in percent; what was not measured violates nothing."""
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
    """Above 0 when the first is better. Relative, so objectives in any unit can be weighed against each other."""
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
    """A trial that keeps the constraints beats one that does not; otherwise the objectives decide."""
    mine, other = passes(goals, first), passes(goals, second)
    return score(goals, first, second) > 0 if mine == other else mine


def best_first(goals: Goals, trials: Sequence[Trial]) -> list[Trial]:
    """All passing trials from best to worst, then all failing ones from best to worst."""

    def order(first: tuple[bool, Trial], second: tuple[bool, Trial]) -> int:
        if first[0] != second[0]:
            return -1 if first[0] else 1
        return -_sign(score(goals, first[1], second[1]))

    pairs = sorted(((passes(goals, trial), trial) for trial in trials), key=cmp_to_key(order))
    return [trial for _, trial in pairs]


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def gain(goals: Goals, trial: Trial, other: Trial, *, is_least: bool = False) -> float:
    """By how many percent the trial's objectives are better, weighted; where asked, the least their intervals allow."""
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
    """One end of the interval of a figure; the figure itself where it has none."""
    found = trial.parts[part].figures.estimate(tag)
    end = None if found is None else found.low if is_low else found.high
    return trial.value(tag, part) if end is None else end


@dataclass(frozen=True, slots=True)
class Ranked:
    """A variant with its trials, repeats pooled, best first; `best` stands for it."""

    name: str
    trials: tuple[Trial, ...]
    does_pass: bool

    @property
    def best(self) -> Trial:
        return self.trials[0]


def rank(goals: Goals, trials: Sequence[Trial]) -> tuple[Ranked, ...]:
    """Variants from best to worst: those that keep the constraints somewhere come first."""
    by_name: dict[str, list[Trial]] = {}
    for trial in pool(trials):
        by_name.setdefault(trial.name, []).append(trial)
    rows = []
    for name, found in by_name.items():
        ordered = tuple(best_first(goals, found))
        rows.append(Ranked(name, ordered, passes(goals, ordered[0])))
    order = {trial.name: place for place, trial in enumerate(best_first(goals, [row.best for row in rows]))}
    return tuple(sorted(rows, key=lambda row: order[row.name]))


def pool(trials: Sequence[Trial]) -> list[Trial]:
    """Measured trials with repeats of the same one pooled, in the order they were first measured."""
    groups: dict[tuple[object, ...], list[Trial]] = {}
    for trial in trials:
        if trial.is_measured:
            groups.setdefault((trial.name, trial.loads), []).append(trial)
    return [pooled(group) for group in groups.values()]
