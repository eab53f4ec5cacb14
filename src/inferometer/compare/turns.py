"""Variants measured in turns: A B, B A, A B, so that what the machine does meanwhile meets all alike."""

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from inferometer.base.errors import LocalError
from inferometer.base.notes import Note, Remark
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.compare.comparison import Turn
from inferometer.load.plan import Closed, Periodic, Plan
from inferometer.measure.conclusion import is_capped
from inferometer.measure.instrument import Instrument, LevelSettings, LoadPoint
from inferometer.measure.level import measure_level_windows
from inferometer.measure.remarks import client_remarks
from inferometer.stats.measurement import Level, WindowFigures
from inferometer.stats.merge import Subject, measurement
from inferometer.stats.series import joined
from inferometer.stats.stopping import Precision
from inferometer.stats.watcher import Watcher
from inferometer.stats.windows import Window, figures

ROUNDS = 100  # short ones: the closer both turns, the more alike the machine is in both
FEWEST_ROUNDS = 10
PERCENTILES = (50, 95, 99)  # compared whatever was asked for
SHORTEST_TURN_NS = 100 * NS_PER_MS  # to aim at: a few times what changing over costs
PATIENCE_NS = 10 * NS_PER_MS  # the end of a turn is seen after so long
LEAST_PER_SLOT = 4  # requests in a turn
ABOUT = 4  # factor up to which two speeds at first look, which may have met a stall, are about the same
LONGEST_LOOK_NS = 60 * NS_PER_S  # in which something must be answered
_OF_MOST_TURNS = (Note.OVERLOADED, Note.NOT_OFFERED)  # in a single one a short stall is enough
# Of a single turn: it was never meant to be precise or stable by itself, and the whole level is judged anew.
_OF_A_TURN = (Note.NOT_PRECISE, Note.NOT_STABLE, Note.CLIENT_LIMITED)


@dataclass(slots=True)
class Lane:
    """A variant with everything that is needed to measure it. `steps` is the number of its different requests."""

    name: str
    instrument: Instrument
    level_settings: LevelSettings
    steps: int = 1
    is_alone: bool = True  # no other lane shares its server counters


@dataclass(slots=True)
class Course:
    """What one lane did at one level, turn by turn."""

    lane: Lane
    windows: list[tuple[Window, ...]] = field(default_factory=list)  # of each turn
    places: list[int] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    is_cut_short: bool = False

    def requests(self, turn: int) -> int:
        return sum(window.count for window in self.windows[turn])

    def infer_per_s(self, turn: int) -> float:
        windows = self.windows[turn]
        span_ns = windows[-1].end_ns - windows[0].start_ns
        return self.requests(turn) * self.lane.level_settings.batch * NS_PER_S / span_ns


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a comparison may take: time for each variant at each level, or a number of requests."""

    duration_ns: int
    request_count: int = 0

    @property
    def rounds(self) -> int:
        """The most that make sense in that time: an even number, so that both orders come as often."""
        return max(FEWEST_ROUNDS, min(ROUNDS, self.duration_ns // SHORTEST_TURN_NS) // 2 * 2)


@dataclass(frozen=True, slots=True)
class Look:
    """What a lane did when it was first looked at."""

    per_s: float  # requests
    latency_ns: float


def with_count(plan: Plan, count: int | None) -> Plan:
    """The plan with so many requests, where it can have a number of them."""
    return plan if isinstance(plan, Periodic) else replace(plan, count=count)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Rounds, and what a turn is: a number of requests, or a time where requests are sent by rate."""

    rounds: int
    count: int | None = None
    turn_ns: int | None = None

    def point(self, point: LoadPoint) -> LoadPoint:
        return replace(point, plan=with_count(point.plan, self.count))

    def level_settings(self, level_settings: LevelSettings) -> LevelSettings:
        return replace(
            level_settings,
            rule=Precision(0.0, self.turn_ns or 1),
            window_ns=self.turn_ns,
            window_count=self.count,
            is_whole=self.count is not None,
            patience_ns=PATIENCE_NS,
        )


def schedules(point: LoadPoint, pace: Pace, looks: Sequence[Look], steps: int) -> tuple[Schedule, ...]:
    """For each lane, from what it did at first look: as many rounds as the time allows.

    A closed loop counts requests out: the time they take is then in proportion to the speed, wherever the last one
    falls. Lanes about as fast as the baseline get the same number, so that even the ends of their turns are alike.
    """
    if not isinstance(point.plan, Closed):
        return (_timed(pace, max(looks, key=lambda look: look.latency_ns)),) * len(looks)
    per_s = [look.per_s for look in looks]
    base = per_s[0]
    near = [speed for speed in per_s if base / ABOUT <= speed <= base * ABOUT]
    common = statistics.geometric_mean(near)
    speeds = [common if speed in near else speed for speed in per_s]
    totals = [pace.request_count or math.ceil(speed * pace.duration_ns / NS_PER_S) for speed in speeds]
    least = LEAST_PER_SLOT * point.plan.concurrency
    rounds = max(FEWEST_ROUNDS, min(pace.rounds, min(totals) // least) // 2 * 2)
    return tuple(
        Schedule(rounds, count=_count(max(least, math.ceil(total / rounds)), steps)) for total in totals
    )


def _timed(pace: Pace, slowest: Look) -> Schedule:
    """By rate: turns long enough for a few requests, and for replies to come back."""
    least_ns = round(LEAST_PER_SLOT * max(slowest.latency_ns, NS_PER_S / slowest.per_s))
    rounds = max(FEWEST_ROUNDS, min(pace.rounds, pace.duration_ns // least_ns) // 2 * 2)
    return Schedule(rounds, turn_ns=max(pace.duration_ns // rounds, least_ns))


def _count(count: int, steps: int) -> int:
    """Whole passes through the different requests where there is more than one, so that every turn is alike."""
    return math.ceil(count / steps) * steps if count > steps else count


def measure_point(
    lanes: Sequence[Lane], point: LoadPoint, pace: Pace, watcher: Watcher
) -> tuple[Course, ...]:
    """All turns at one level; the first look at each lane warms it up and is not counted."""
    watcher.level_started(point.mode, point.value)
    courses = tuple(Course(lane) for lane in lanes)
    looks = [_first_look(course, point, pace) for course in courses]
    if any(course.is_cut_short for course in courses) or watcher.is_interrupted():
        return courses
    plans = schedules(point, pace, looks, steps=max(lane.steps for lane in lanes))
    entries = tuple(zip(courses, plans, strict=True))
    rounds = plans[0].rounds
    for number in range(rounds):
        if watcher.is_interrupted():
            return courses
        for place, (course, plan) in enumerate(entries if number % 2 == 0 else entries[::-1]):
            _take_turn(course, plan, point, place)
        if watcher.is_interrupted():
            _drop_half_round(courses, number)
            return courses
        if any(course.is_cut_short for course in courses):
            return courses
        told = tuple((course.lane.name, course.infer_per_s(number)) for course in courses)
        watcher.round_finished(number + 1, rounds, told)
    return courses


def _drop_half_round(courses: Sequence[Course], number: int) -> None:
    """The round in which the user stopped was cut somewhere."""
    for course in courses:
        del course.windows[number:], course.places[number:]
        course.remarks = [remark for remark in course.remarks if remark.note is not Note.NO_REPLY]
        course.is_cut_short = False


def _first_look(course: Course, point: LoadPoint, pace: Pace) -> Look:
    """It gets longer until something was answered."""
    lane = course.lane
    endless = replace(point, plan=with_count(point.plan, None))
    turn_ns = pace.duration_ns // pace.rounds
    while True:
        look = Course(lane)
        level = _measure(look, Schedule(1, turn_ns=turn_ns), endless)
        found = level.measurement
        if found is not None and found.request_count:
            return Look(found.request_count * NS_PER_S / found.duration_ns, found.latency.mean_ns)
        is_failing = found is not None and found.failed_count > 0
        if (
            is_failing
            or level.is_cut_short
            or lane.instrument.watcher.is_interrupted()
            or turn_ns >= LONGEST_LOOK_NS
        ):
            course.remarks, course.is_cut_short = look.remarks, True
            if found is not None:  # the failures are what there is to report
                course.windows.append(look.windows[0])
                course.places.append(0)
            return Look(0.0, 0)
        turn_ns *= 4


def _take_turn(course: Course, plan: Schedule, point: LoadPoint, place: int) -> None:
    _measure(course, plan, plan.point(point))
    course.places.append(place)


def _measure(course: Course, plan: Schedule, point: LoadPoint) -> Level:
    lane = course.lane
    level, windows = measure_level_windows(lane.instrument, plan.level_settings(lane.level_settings), point)
    course.windows.append(windows)
    course.remarks += [remark for remark in level.remarks if remark.note not in _OF_A_TURN]
    try:
        lane.instrument.load.apply(
            Closed(0)
        )  # nothing of it is left in the server when the next one has its turn
    except LocalError as error:
        course.remarks.append(Remark(Note.WORKER_LOST, str(error)))
        course.is_cut_short = True
    answered = level.measurement is not None and level.measurement.request_count > 0
    course.is_cut_short |= level.is_cut_short or not answered
    return level


# --- what came of it


def turns(course: Course, start_ns: int) -> tuple[Turn, ...]:
    return tuple(
        Turn(
            number=number,
            place=place,
            start_s=(windows[0].start_ns - start_ns) / NS_PER_S,
            request_count=course.requests(number),
            infer_per_s=course.infer_per_s(number),
            percentiles=_percentiles(windows),
        )
        for number, (windows, place) in enumerate(zip(course.windows, course.places, strict=True))
    )


def _percentiles(windows: Sequence[Window]) -> tuple[tuple[float, int], ...]:
    latency = joined([window.latency_ns for window in windows])
    return tuple((float(p), latency.percentile(p)) for p in PERCENTILES) if latency.count else ()


def _remarks(course: Course) -> list[Remark]:
    """Each kind once."""
    counts = Counter(remark.note for remark in course.remarks)
    first = {remark.note: remark for remark in reversed(course.remarks)}
    return [
        remark
        for note, remark in first.items()
        if note not in _OF_MOST_TURNS or 2 * counts[note] > len(course.windows)
    ]


def merged(course: Course, point: LoadPoint) -> Level:
    """All turns of a lane as one level, as if they had followed each other without a gap."""
    lane, level_settings = course.lane, course.lane.level_settings
    windows = list(itertools.chain.from_iterable(course.windows))
    if not windows:
        said = (*_remarks(course), Remark(Note.NO_REPLY, "no request finished"))
        return Level(point.mode, point.value, None, (), is_stable=False, is_over_limit=False, remarks=said)
    start_ns = windows[0].start_ns
    subject = Subject(
        model=level_settings.model,
        batch=level_settings.batch,
        percentile=level_settings.percentile,
        level_start_ns=start_ns,
        examples=lane.instrument.load.examples(),
        samples=tuple(sample for window in windows for sample in window.samples)
        if lane.instrument.metrics is not None
        else None,
    )
    found = measurement(_without_gaps(windows, is_alone=lane.is_alone), subject)
    remarks = [*_remarks(course), *client_remarks(found, is_capped=is_capped(level_settings, point.plan))]
    return Level(
        mode=point.mode,
        value=float(point.value),
        measurement=found,
        windows=tuple(_figures(window, start_ns, level_settings) for window in windows),
        is_stable=not course.is_cut_short,
        is_over_limit=False,
        remarks=tuple(remarks),
    )


def _figures(window: Window, start_ns: int, level_settings: LevelSettings) -> WindowFigures:
    return figures(
        window, level_start_ns=start_ns, batch=level_settings.batch, chosen=level_settings.percentile
    )


def _without_gaps(windows: Sequence[Window], *, is_alone: bool) -> list[Window]:
    shifted = []
    end_ns = windows[0].start_ns
    for window in windows:
        start_ns, end_ns = end_ns, end_ns + window.duration_ns
        shifted.append(replace(window, start_ns=start_ns, end_ns=end_ns))
    if not is_alone:  # the counters also hold what the others did in between
        shifted[0] = replace(shifted[0], before=None)
    return shifted
