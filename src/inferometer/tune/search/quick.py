"""Hill climbing: measure around a home point and step towards improvement, until home is the best place.

Every model has an axis of batch sizes (doubling) and one of instances; an ensemble itself has none, a BLS model has
instances only. The load depends on the point: twice as many requests as fit into all instances.
"""

import itertools
import math
from dataclasses import dataclass, field
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.tune import model_config
from inferometer.tune.model_config import Fields
from inferometer.tune.scoring import is_better, passes, score, violation
from inferometer.tune.search.search import (
    Knob,
    ModelProblem,
    Proposal,
    SearchMessage,
    SearchProblem,
    SearchSteps,
    ask,
    changed_variant,
    default_proposal,
    load_for,
    sweep_best,
)
from inferometer.tune.space import BATCH, BATCHING, INSTANCES, Space, doubling
from inferometer.tune.trial import Trial
from inferometer.tune.variant import VariantNames


def knobs(problem: SearchProblem) -> tuple[Knob, ...]:
    """Return the axes. An ensemble itself has none; its members and all other models have both if they batch."""
    found: list[Knob] = []
    low, high = problem.settings.bounds.instances
    for part in problem.tunable:
        if model_config.max_batch_size(part.space.base):
            found.append(Knob(part.model, BATCH, tuple(doubling(*problem.settings.bounds.batch))))
        counts = _listed_counts(part.space) or tuple(range(low, high + 1))
        found.append(Knob(part.model, INSTANCES, counts))
    return tuple(found)


def _listed(space: Space) -> tuple[Any, ...]:
    """Return the instance groups listed by the user; None leaves them unchanged."""
    rows = [row.choices for row in space.parameters if row.field == INSTANCES] if space.is_manual else []
    return tuple(choice[0] if choice else None for choices in rows for choice in choices)


def _listed_counts(space: Space) -> tuple[int, ...]:
    """Return the instance counts listed by the user for a member: powers of two, or consecutive numbers."""
    counts = sorted({int(group.get("count", 1)) for group in _listed(space) if group})
    if not counts:
        return ()
    if all(count & (count - 1) == 0 for count in counts):
        return tuple(doubling(counts[0], counts[-1]))
    if counts == list(range(counts[0], counts[-1] + 1)):
        return tuple(counts)
    raise UsageError(
        f"the instance counts {counts} of '{space.model}' are neither powers of two nor consecutive",
        remedy="use, for example, 1, 2, 4, 8 or 1, 2, 3",
    )


def _overrides(task: ModelProblem, chosen: dict[tuple[str, str], int]) -> Fields:
    """Return the changes made by one model's axes, in addition to a combination given by the user."""
    base = task.space.base
    found: dict[str, object] = {}
    count = chosen.get((task.model, INSTANCES))
    if count is not None:
        kind = "KIND_CPU" if task.space.cpu_only else "KIND_GPU"
        given = next(iter(_listed(task.space)), None) or {}
        found[INSTANCES] = [{"count": count, "kind": given.get("kind", kind)}]
    size = chosen.get((task.model, BATCH))
    if size is not None:
        if not model_config.is_sequence(base):
            found[BATCHING] = {}
        found[BATCH] = size
    if task.space.is_manual:
        for row in task.space.parameters:
            if row.field not in (INSTANCES, BATCH) and row.choices[0] is not None:
                found[row.field] = row.choices[0]
    return found


RADIUS = 3.0
FEWEST_NEIGHBOURS = 3
STEPS = ((1.0, 3), (0.3, 2), (0.09, 1))
MOST_VISITS = 2

Place = tuple[int, ...]


@dataclass(slots=True)
class _Climb:
    problem: SearchProblem
    names: VariantNames
    knobs: tuple[Knob, ...]
    seen: dict[Place, Trial] = field(default_factory=dict)
    visits: dict[Place, int] = field(default_factory=dict)

    def proposal(self, place: Place) -> Proposal:
        steps = zip(self.knobs, place, strict=True)
        chosen = {(knob.model, knob.field): knob.values[step] for knob, step in steps}
        overrides = {part.model: _overrides(part, chosen) for part in self.problem.tunable}
        variants = [changed_variant(task, self.names, overrides) for task in self.problem.tasks]
        return Proposal(tuple((variant, load_for(self.problem, variant)) for variant in variants))

    def clamp(self, place: Place) -> Place:
        return tuple(
            min(max(step, 0), len(knob.values) - 1) for step, knob in zip(place, self.knobs, strict=True)
        )

    def neighbours(self, home: Place) -> list[Place]:
        reach = range(-int(RADIUS), int(RADIUS) + 1)
        found = []
        for offset in itertools.product(reach, repeat=len(home)):
            place = tuple(here + step for here, step in zip(home, offset, strict=True))
            if place != home and math.hypot(*offset) <= RADIUS and place == self.clamp(place):
                found.append(place)
        return found

    def measured(self, places: list[Place]) -> list[Place]:
        return [place for place in places if place in self.seen and self.seen[place].is_measured]


def quick(problem: SearchProblem, names: VariantNames) -> SearchSteps[str]:
    climb = _Climb(problem, names, knobs(problem))
    default = yield from ask(default_proposal(problem, names))
    home = tuple(0 for _ in climb.knobs)
    best = home
    is_slow = False
    while True:
        trial = yield from _at(climb, home)
        climb.visits[home] = climb.visits.get(home, 0) + 1
        if climb.visits[home] > MOST_VISITS:
            reason = "the search returned to a previous configuration"
            break
        if not trial.is_measured or (
            best != home and not passes(problem.goals, trial) and passes(problem.goals, climb.seen[best])
        ):
            step = _toward(home, best)
            if step == home:
                reason = "no neighbour is better"
                break
            home, is_slow = step, True
            continue
        if climb.seen[best] is trial or is_better(problem.goals, trial, climb.seen[best]):
            best = home
        yield from _explore(climb, home)
        is_slow = is_slow or _disagree(climb, home)
        if is_slow:
            fresh = yield from _best_adjacent(climb, home)
            is_slow = False
        else:
            fresh = climb.clamp(_step(climb, home))
        if fresh == home:
            reason = "no neighbour is better"
            break
        home = fresh
    if problem.settings.sweep_after and not problem.settings.by_rate:
        yield from sweep_best(problem, [default, *climb.seen.values()], names)
        yield SearchMessage("Done gathering concurrency sweep measurements for reports")
    return reason


def _at(climb: _Climb, place: Place) -> SearchSteps[Trial]:
    if place not in climb.seen:
        climb.seen[place] = yield from ask(climb.proposal(place))
    return climb.seen[place]


def _explore(climb: _Climb, home: Place) -> SearchSteps[None]:
    """Measure enough neighbours to estimate the slope, each covering as many unseen values as possible."""
    places = climb.neighbours(home)
    while len(climb.measured(places)) < FEWEST_NEIGHBOURS:
        open_places = [place for place in places if place not in climb.seen]
        if not open_places:
            return
        known = [home, *climb.measured(places)]
        seen = [{place[axis] for place in known} for axis in range(len(home))]
        yield from _at(
            climb,
            max(
                open_places,
                key=lambda place: (
                    sum(value not in row for value, row in zip(place, seen, strict=True)),
                    -_distance(place, home),
                ),
            ),
        )


def _distance(place: Place, home: Place) -> int:
    return sum(abs(value - here) for value, here in zip(place, home, strict=True))


def _best_adjacent(climb: _Climb, home: Place) -> SearchSteps[Place]:
    """Measure all places one step away, and return the best of them and home."""
    near = [place for place in climb.neighbours(home) if _distance(place, home) == 1]
    for place in near:
        yield from _at(climb, place)
    near = climb.measured(near)
    good = [place for place in near if passes(climb.problem.goals, climb.seen[place])] or near
    best = home
    for place in good:
        if is_better(climb.problem.goals, climb.seen[place], climb.seen[best]):
            best = place
    return best


def _disagree(climb: _Climb, home: Place) -> bool:
    near = climb.measured(climb.neighbours(home))
    return len({passes(climb.problem.goals, climb.seen[place]) for place in [home, *near]}) > 1


def _step(climb: _Climb, home: Place) -> Place:
    """Step along the slope, further if it is steep."""
    near = climb.measured(climb.neighbours(home))
    goals = climb.problem.goals
    all_fail = not any(passes(goals, climb.seen[place]) for place in [home, *near])
    sums = [0.0] * len(home)
    weights = [0.0] * len(home)
    for place in near:
        if all_fail:
            gain = (violation(goals, climb.seen[home]) - violation(goals, climb.seen[place])) / 100
        else:
            gain = score(goals, climb.seen[place], climb.seen[home])
        for axis, (value, here) in enumerate(zip(place, home, strict=True)):
            if value != here:
                sums[axis] += gain if value > here else -gain
                weights[axis] += abs(value - here)
    return tuple(
        here + _stride(total / weight if weight else 0.0)
        for here, total, weight in zip(home, sums, weights, strict=True)
    )


def _stride(slope: float) -> int:
    size = next((size for limit, size in STEPS if abs(slope) > limit), 0)
    return size if slope > 0 else -size


def _toward(home: Place, best: Place) -> Place:
    return tuple(here + (goal > here) - (goal < here) for here, goal in zip(home, best, strict=True))
