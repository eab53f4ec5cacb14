"""Hill climbing: measure around a home point, step where it gets better, until home is the best place.

Every model has an axis of batch sizes (doubling) and one of instances; an ensemble's own model has none, a BLS model's
has instances only. The load belongs to the point: twice as many requests as fit into all instances.
"""

import itertools
import math
from collections.abc import Generator
from dataclasses import dataclass, field

from inferometer.tune.scoring import is_better, passes, rank, score, violation
from inferometer.tune.search.points import Knob, default_proposal, knobs, proposal_at
from inferometer.tune.search.scope import Scope
from inferometer.tune.search.search import Proposal, Say, Step, Steps
from inferometer.tune.search.sweep import closing_in
from inferometer.tune.trial import Trial
from inferometer.tune.variant import Names, Variant

RADIUS = 3.0
FEWEST_NEIGHBOURS = 3
STEPS = ((1.0, 3), (0.3, 2), (0.09, 1))
MOST_VISITS = 2

Place = tuple[int, ...]


@dataclass(slots=True)
class _Climb:
    scope: Scope
    names: Names
    knobs: tuple[Knob, ...]
    seen: dict[Place, Trial] = field(default_factory=dict)
    variants: dict[str, tuple[Variant, ...]] = field(default_factory=dict)
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


def quick(scope: Scope, names: Names) -> Steps:
    climb = _Climb(scope, names, knobs(scope))
    first = default_proposal(scope, names)
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
            best != home and not passes(scope.goals, trial) and passes(scope.goals, climb.seen[best])
        ):
            step = _toward(home, best)
            if step == home:
                reason = "no neighbour is better"
                break
            home, is_slow = step, True
            continue
        if climb.seen[best] is trial or is_better(scope.goals, trial, climb.seen[best]):
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
    if scope.sweep_after and not scope.by_rate:
        yield from _sweep(climb, trials, first.variants)
    return reason


def _ask(climb: _Climb, proposal: Proposal) -> Generator[Step, Trial | None, Trial]:
    trial = yield proposal
    assert trial is not None
    climb.variants[trial.name] = proposal.variants
    return trial


def _at(climb: _Climb, place: Place) -> Generator[Step, Trial | None, Trial]:
    if place not in climb.seen:
        proposal = proposal_at(climb.scope, climb.names, climb.knobs, place)
        climb.seen[place] = yield from _ask(climb, proposal)
    return climb.seen[place]


def _explore(climb: _Climb, home: Place) -> Generator[Step, Trial | None, None]:
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


def _adjacent(climb: _Climb, home: Place) -> Generator[Step, Trial | None, None]:
    for place in climb.neighbours(home):
        if sum(abs(value - here) for value, here in zip(place, home, strict=True)) == 1:
            yield from _at(climb, place)


def _best_adjacent(climb: _Climb, home: Place) -> Place:
    near = [
        place
        for place in climb.measured(climb.neighbours(home))
        if sum(abs(value - here) for value, here in zip(place, home, strict=True)) == 1
    ]
    good = [place for place in near if passes(climb.scope.goals, climb.seen[place])] or near
    best = home
    for place in good:
        if is_better(climb.scope.goals, climb.seen[place], climb.seen[best]):
            best = place
    return best


def _disagree(climb: _Climb, home: Place) -> bool:
    near = climb.measured(climb.neighbours(home))
    return len({passes(climb.scope.goals, climb.seen[place]) for place in [home, *near]}) > 1


def _step(climb: _Climb, home: Place) -> Place:
    """Along the slope, further where it is steep."""
    near = climb.measured(climb.neighbours(home))
    goals = climb.scope.goals
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
    climb: _Climb, trials: list[Trial], default: tuple[Variant, ...]
) -> Generator[Step, Trial | None, None]:
    """Loads for the best variants and the default."""
    scope = climb.scope
    names = [row.name for row in rank(scope.goals, trials)][: scope.top]
    default_name = ",".join(variant.name for variant in default)
    for name in dict.fromkeys((*names, default_name)):
        if name in climb.variants:
            yield from closing_in(scope, climb.variants[name])
    yield Say("Done gathering concurrency sweep measurements for reports")
