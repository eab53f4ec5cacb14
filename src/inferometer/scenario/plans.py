"""Load plans of a scenario: the load of each class in each phase."""

from collections.abc import Sequence

from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_S
from inferometer.load.plan import (
    REGULAR,
    Closed,
    Constant,
    Excerpt,
    Gaps,
    Joint,
    Open,
    Ramps,
    Renewal,
    Schedule,
    Stairs,
    from_mid_period,
)
from inferometer.measure.instrument import LoadPoint
from inferometer.measure.points import Agenda
from inferometer.scenario.spec import PhaseSpec
from inferometer.stats.measurement import PHASE

LONGER_NS = 3600 * NS_PER_S  # after a ramp, the rate stays until the next phase begins
MOST_STEPS = 200  # per ramp of concurrency

ClassPlan = Closed | Open | Stairs


@frozen
class ClassLoad:
    """The load of a class before phases change it: a concurrency, a rate or an agenda."""

    name: str
    concurrency: int | None = None
    rate: float | None = None
    agenda: Agenda | None = None  # a shape or a trace, over the whole scenario
    gaps: Gaps = REGULAR  # between arrivals at a rate
    seed: int = 0
    cap: int | None = None  # maximum requests outstanding


@frozen
class PlannedPhase:
    """A phase with its start, its length, and the load of every class."""

    spec: PhaseSpec
    start_ns: int
    length_ns: int
    point: LoadPoint


def phase_points(
    phases: Sequence[PhaseSpec], loads: Sequence[ClassLoad], *, pace: float = 1.0
) -> tuple[PlannedPhase, ...]:
    """Return all phases. A pace of 2 halves the time of phases and shapes; rates stay the same."""
    found, start_ns = [], 0
    for number, phase in enumerate(phases):
        length_ns = round(phase.seconds * NS_PER_S / pace)
        slot = _Slot(phase, number, start_ns, length_ns, pace)
        plans = [_class_plan(load, slot) for load in loads]
        points = tuple(_point(load, slot, *planned) for load, planned in zip(loads, plans, strict=True))
        asked = [point.asked_per_s for point in points]
        joint = Joint(tuple(plan for plan, _ in plans))
        found.append(
            PlannedPhase(
                phase,
                start_ns,
                length_ns,
                LoadPoint(
                    mode=f"{PHASE}{phase.name}",
                    value=float(number + 1),
                    plan=joint,
                    asked_per_s=None if None in asked else sum(rate or 0.0 for rate in asked),
                    name=phase.name,
                    classes=points,
                ),
            )
        )
        start_ns += length_ns
    return tuple(found)


@frozen
class _Slot:
    """A phase with its position and timing."""

    phase: PhaseSpec
    number: int
    start_ns: int
    length_ns: int
    pace: float


def _point(load: ClassLoad, slot: _Slot, plan: ClassPlan, value: float) -> LoadPoint:
    is_rate = load.concurrency is None
    # The statistics of a changing concurrency use its maximum.
    own = Closed(max(height for _, height in plan.steps)) if isinstance(plan, Stairs) else plan
    mode = "request_rate" if is_rate else "concurrency"
    return LoadPoint(mode, value, own, value if is_rate else None, name=slot.phase.name)


def _class_plan(load: ClassLoad, slot: _Slot) -> tuple[ClassPlan, float]:
    """Return the plan and the average load."""
    phase = slot.phase
    change = phase.classes.get(load.name)
    factors = phase.load if change is None or change.load is None else change.load
    rate, concurrency = load.rate, load.concurrency
    if change is not None and change.rate is not None:
        rate, factors = change.rate, (1.0, 1.0)
    if change is not None and change.concurrency is not None:
        concurrency, factors = change.concurrency, (1.0, 1.0)
    if load.agenda is not None:
        return _agenda_plan(load, load.agenda, slot)
    if concurrency is not None:
        return _concurrency(concurrency, factors, slot.length_ns)
    assert rate is not None
    return _rate(load, rate, factors, slot)


def _rate(load: ClassLoad, rate: float, factors: tuple[float, float], slot: _Slot) -> tuple[ClassPlan, float]:
    first, last = (rate * factor for factor in factors)
    if not first and not last:
        return Closed(0), 0.0
    if first == last and load.gaps.distribution != "constant":
        schedule = Renewal(first, load.seed + slot.number, slot.length_ns, load.gaps)
        return Open(schedule, cap=load.cap), first
    pieces = [(slot.length_ns, first, last), *([(LONGER_NS, last, last)] if last else [])]
    steady: Schedule = Constant(first) if first == last else Ramps(tuple(pieces))
    part = from_mid_period(steady, max(first, last), slot.length_ns)
    return Open(part, cap=load.cap), (first + last) / 2


def _concurrency(concurrency: int, factors: tuple[float, float], length_ns: int) -> tuple[ClassPlan, float]:
    # Unless the factor is 0, at least one request is in flight.
    first, last = (max(1, round(concurrency * factor)) if factor else 0 for factor in factors)
    if first == last == 0:
        return Closed(0), 0.0
    steps = min(abs(last - first), MOST_STEPS)
    rows = [
        (length_ns * step // (steps + 1), first + round((last - first) * step / max(1, steps)))
        for step in range(steps + 1)
    ]
    return Stairs((*rows, (length_ns, 0))), (first + last) / 2  # nothing is sent between phases


def _agenda_plan(load: ClassLoad, agenda: Agenda, slot: _Slot) -> tuple[ClassPlan, float]:
    """Return the part of the shape or trace that lies in this phase."""
    schedule, length_ns = agenda.schedule, slot.length_ns
    if isinstance(schedule, Ramps) and slot.pace != 1:
        pieces = schedule.pieces
        schedule = Ramps(tuple((round(time_ns / slot.pace), first, last) for time_ns, first, last in pieces))
    part = Excerpt(schedule, slot.start_ns, slot.start_ns + length_ns)
    steps = None if agenda.steps is None else agenda.steps[part.first :]
    due = part.count
    if not due:
        return Closed(0), 0.0
    return Open(part, cap=load.cap, steps=steps), due * NS_PER_S / length_ns
