"""Hill climbing: measure around a home point, step where it gets better, until home is the best place.

Every model has an axis of batch sizes (doubling) and one of instances; an ensemble's own model has none, a BLS model's
has instances only. The load belongs to the point: twice as many requests as fit into all instances.
"""

import itertools
import math
from collections.abc import Generator
from dataclasses import dataclass, field

from inferometer.base.errors import UsageError
from inferometer.tune import model_config
from inferometer.tune.model_config import Fields
from inferometer.tune.scoring import is_better, passes, rank, score, violation
from inferometer.tune.search.search import (
    ModelProblem,
    Proposal,
    SearchEvent,
    SearchMessage,
    SearchProblem,
    SearchSteps,
    changed_variant,
    closing_in,
    default_proposal,
    load_for,
)
from inferometer.tune.space import BATCH, BATCHING, INSTANCES, Space, doubling
from inferometer.tune.trial import Trial
from inferometer.tune.variant import ModelVariant, VariantNames


@dataclass(frozen=True, slots=True)
class Knob:
    """One thing to turn: the batch size or the instances of one model."""

    model: str
    field: str
    values: tuple[int, ...]


def knobs(problem: SearchProblem) -> tuple[Knob, ...]:
    """An ensemble's own model has none; its members and all others have both where they batch."""
    found: list[Knob] = []
    for task in problem.tasks:
        for part in task.tunable:
            found += _knobs_of(problem, part)
    return tuple(found)


def _knobs_of(problem: SearchProblem, task: ModelProblem) -> list[Knob]:
    found = []
    if model_config.max_batch_size(task.space.base):
        found.append(Knob(task.model, BATCH, tuple(doubling(*problem.settings.bounds.batch))))
    low, high = problem.settings.bounds.instances
    counts = _listed_counts(task.space) or tuple(range(low, high + 1))
    found.append(Knob(task.model, INSTANCES, counts))
    return found


def _listed_counts(space: Space) -> tuple[int, ...]:
    """Instance counts a user listed for a member: powers of two, or numbers that follow each other."""
    rows = [row for row in space.parameters if row.field == INSTANCES] if space.is_manual else []
    if not rows:
        return ()
    counts = sorted({int(choice[0].get("count", 1)) for choice in rows[0].choices if choice})
    if not counts:
        return ()
    if all(count & (count - 1) == 0 for count in counts):
        return tuple(doubling(counts[0], counts[-1]))
    if counts == list(range(counts[0], counts[-1] + 1)):
        return tuple(counts)
    raise UsageError(
        f"the instance counts {counts} of '{space.model}' are neither powers of two nor in a row",
        remedy="list for example 1, 2, 4, 8 or 1, 2, 3",
    )


def proposal_at(
    problem: SearchProblem, names: VariantNames, knobs: tuple[Knob, ...], place: tuple[int, ...]
) -> Proposal:
    chosen = {(knob.model, knob.field): knob.values[step] for knob, step in zip(knobs, place, strict=True)}
    parts = []
    for task in problem.tasks:
        variant = changed_variant(task, names, lambda part: _overrides(part, chosen))
        parts.append((variant, load_for(problem, variant)))
    return Proposal(tuple(parts))


def _overrides(task: ModelProblem, chosen: dict[tuple[str, str], int]) -> Fields:
    """What the knobs of one model change, on top of the one combination a user may have given."""
    if task.is_ensemble and task.members:
        return {}
    base = task.space.base
    found: dict[str, object] = {}
    count = chosen.get((task.model, INSTANCES))
    if count is not None:
        kind = "KIND_CPU" if task.space.cpu_only else "KIND_GPU"
        found[INSTANCES] = [{"count": count, "kind": _given_kind(task.space) or kind}]
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


def _given_kind(space: Space) -> str | None:
    if not space.is_manual:
        return None
    for row in space.parameters:
        if row.field == INSTANCES and row.choices[0]:
            kind = row.choices[0][0].get("kind")
            return None if kind is None else str(kind)
    return None


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
    variants: dict[str, tuple[ModelVariant, ...]] = field(default_factory=dict)
    visits: dict[Place, int] = field(default_factory=dict)

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


def quick(problem: SearchProblem, names: VariantNames) -> SearchSteps:
    climb = _Climb(problem, names, knobs(problem))
    first = default_proposal(problem, names)
    trials: list[Trial] = [(yield from _ask(climb, first))]
    home = tuple(0 for _ in climb.knobs)
    best = home
    is_slow = False
    reason = "nothing was left to measure"
    while True:
        trial = yield from _at(climb, home)
        climb.visits[home] = climb.visits.get(home, 0) + 1
        if climb.visits[home] > MOST_VISITS:
            reason = "the search came back to where it was"
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
            yield from _adjacent(climb, home)
            fresh = _best_adjacent(climb, home)
            is_slow = False
        else:
            fresh = climb.clamp(_step(climb, home))
        if fresh == home:
            reason = "no neighbour is better"
            break
        home = fresh
    trials += climb.seen.values()
    if problem.settings.sweep_after and not problem.settings.by_rate:
        yield from _sweep(climb, trials, first.variants)
    return reason


def _ask(climb: _Climb, proposal: Proposal) -> Generator[SearchEvent, Trial | None, Trial]:
    trial = yield proposal
    assert trial is not None
    climb.variants[trial.name] = proposal.variants
    return trial


def _at(climb: _Climb, place: Place) -> Generator[SearchEvent, Trial | None, Trial]:
    if place not in climb.seen:
        proposal = proposal_at(climb.problem, climb.names, climb.knobs, place)
        climb.seen[place] = yield from _ask(climb, proposal)
    return climb.seen[place]


def _explore(climb: _Climb, home: Place) -> Generator[SearchEvent, Trial | None, None]:
    """Enough neighbours with figures to know the slope, each covering as many unseen values as it can."""
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
                    -sum(abs(value - here) for value, here in zip(place, home, strict=True)),
                ),
            ),
        )


def _adjacent(climb: _Climb, home: Place) -> Generator[SearchEvent, Trial | None, None]:
    for place in climb.neighbours(home):
        if sum(abs(value - here) for value, here in zip(place, home, strict=True)) == 1:
            yield from _at(climb, place)


def _best_adjacent(climb: _Climb, home: Place) -> Place:
    near = [
        place
        for place in climb.measured(climb.neighbours(home))
        if sum(abs(value - here) for value, here in zip(place, home, strict=True)) == 1
    ]
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
    """Along the slope, further where it is steep."""
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


def _sweep(
    climb: _Climb, trials: list[Trial], default: tuple[ModelVariant, ...]
) -> Generator[SearchEvent, Trial | None, None]:
    """Loads for the best variants and the default."""
    problem = climb.problem
    names = [row.name for row in rank(problem.goals, trials)][: problem.settings.top]
    default_name = ",".join(variant.name for variant in default)
    for name in dict.fromkeys((*names, default_name)):
        if name in climb.variants:
            yield from closing_in(problem, climb.variants[name])
    yield SearchMessage("Done gathering concurrency sweep measurements for reports")
