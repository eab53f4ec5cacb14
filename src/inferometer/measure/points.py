"""Levels of a run: from options to load points."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING

from inferometer.base.confined import check_path
from inferometer.base.drawn_times import ThinkTime, parse_time
from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.notes import CLIENT_LIMITS
from inferometer.base.reading import DESCRIPTION, read_text
from inferometer.base.text import is_digits
from inferometer.base.units import NS_PER_MS, NS_PER_S, NS_PER_US
from inferometer.dataset.dataset import Dataset
from inferometer.load.plan import (
    Closed,
    Gaps,
    Intervals,
    Listed,
    Open,
    Periodic,
    Schedule,
    parse_shape,
    schedule_at,
)
from inferometer.measure.checks import LOAD_MODES
from inferometer.measure.instrument import LoadPoint
from inferometer.measure.saturation import Tried, next_load
from inferometer.options.names import option_name
from inferometer.options.options import Options
from inferometer.options.values import Range

if TYPE_CHECKING:
    from inferometer.dataset.replay import Trace
from inferometer.stats.measurement import Level

THREADS = 16  # sender threads of the classic tool by concurrency, unless there is one per request
RATE_THREADS = 4  # by rate: the most outstanding requests in synchronous mode

_WITHOUT_TIMES = ("concurrency", "periodic_concurrency", "session_concurrency")


@frozen
class Agenda:
    """A load that ends by itself: a schedule with a request count, and the data step of each request.

    `before` is the warm-up; for a fixed schedule, its first requests.
    """

    schedule: Schedule
    count: int
    steps: tuple[int, ...] | None = None
    before: "Agenda | None" = None

    @property
    def length_ns(self) -> int:
        """Time from the start to the last request."""
        return self.schedule.due_ns(self.count - 1)

    @property
    def per_s(self) -> float:
        """Mean rate between the first and the last request; 0 for a single request, or for all at once."""
        span_ns = self.length_ns - self.schedule.due_ns(0)
        return (self.count - 1) * NS_PER_S / span_ns if span_ns else 0.0

    def plan(self, cap: int | None) -> Open:
        return Open(self.schedule, cap=cap, count=self.count, steps=self.steps)


@dataclass(slots=True)
class LastOutcome:
    """Outcome of the levels so far, updated by the code that measures them."""

    passed: bool = True  # whether the last level passed
    tried: list[Tried] = field(default_factory=list)
    left_ns: float = math.inf  # for the remaining levels of a sweep

    def add(self, level: Level) -> None:
        self.passed = level.is_stable and not level.is_over_limit
        found = level.measurement
        if found is None or not found.request_count:
            is_unanswered = found is None or not found.ended_count
            self.tried.append(Tried(int(level.value), 0.0, is_unanswered=is_unanswered))
            return
        per_s = found.infer_per_s.value
        if found.tokens is not None and found.tokens.output:
            per_s = found.tokens.output_per_s
        latency_ns = float(found.latency.percentile_ns(50))
        is_client_limited = level.has_remark(*CLIENT_LIMITS)
        self.tried.append(
            Tried(
                int(level.value),
                per_s,
                latency_ns,
                found.failed_share,
                is_client_limited=is_client_limited,
            )
        )


def load_mode(options: Options) -> str:
    """Return the load mode that the options select; concurrency by default."""
    return next((mode for mode in LOAD_MODES[1:] if getattr(options, mode)), "concurrency")


def is_rate(options: Options) -> bool:
    """Return whether requests have due times."""
    return load_mode(options) not in _WITHOUT_TIMES


def points(
    options: Options, last: float | None, outcome: LastOutcome, agenda: Agenda | None = None
) -> Iterator[LoadPoint]:
    """Yield load points one by one, each chosen after the outcome of the previous one; `last` is the end of the
    range."""
    cap, think = options.max_outstanding, _maybe_think(options)
    if agenda is not None:
        before = None if agenda.before is None else agenda.before.plan(cap)
        yield LoadPoint("request_rate", round(agenda.per_s, 3), agenda.plan(cap), agenda.per_s, before)
    elif options.periodic_concurrency is not None:
        span = options.periodic_concurrency
        ramp = Periodic(int(span.start), int(span.last), int(span.step), options.request_period)
        # The classic tool exports 1.
        yield LoadPoint("concurrency", 1, ramp, before=Closed(ramp.start, options.warmup_request_count))
    elif options.session_concurrency is not None:
        yield LoadPoint(
            "concurrency", options.session_concurrency, Closed(options.session_concurrency, think=think)
        )
    elif options.request_intervals is not None:
        times_ns = read_intervals(options.request_intervals)
        plan = Open(Intervals(times_ns), cap=cap, count=options.request_count or None)
        asked = len(times_ns) * NS_PER_S / times_ns[-1]
        yield LoadPoint("request_rate", float(int(asked)), plan, asked)
    elif options.sweep:
        while (load := next_load(outcome.tried, outcome.left_ns)) is not None:
            yield LoadPoint("concurrency", load, Closed(load, think=think))
    else:
        yield from _range_points(options, last, outcome)


def level_count(options: Options, last: float | None) -> int | None:
    """Return the number of levels if each one passes; None if it depends on their outcome."""
    if options.sweep:
        return None
    span = options.request_rate if is_rate(options) else options.concurrency
    if load_mode(options) not in ("concurrency", "request_rate") or span is None:
        return 1
    if options.binary_search or last is None:
        return None
    if span.listed:
        return len(span.listed)
    return max(1, int((last - span.start) / span.step + 1e-9) + 1)


def _maybe_think(options: Options) -> ThinkTime | None:
    """Return the think times of users; None if they send the next request at once."""
    if options.think_time is None:
        return None
    return ThinkTime(parse_time(options.think_time), options.data.seed)


def _range_points(options: Options, last: float | None, outcome: LastOutcome) -> Iterator[LoadPoint]:
    rate, count = options.request_rate, options.request_count or None
    span = rate or options.concurrency or Range(1)
    values: Iterator[float]
    if options.binary_search and last is not None:
        values = _binary(span.start, last, span.step, outcome, is_whole=rate is None)
    elif span.listed:
        values = (value for number, value in enumerate(span.listed) if not number or outcome.passed)
    else:
        values = _linear(span.start, last, span.step, outcome)
    for value in values:
        if rate is None:
            yield LoadPoint("concurrency", value, Closed(int(value), count, think=_maybe_think(options)))
        else:
            plan = Open(rate_schedule(options, value), cap=options.max_outstanding, count=count)
            yield LoadPoint("request_rate", value, plan, value)


def most_streams(options: Options, *, has_sequences: bool) -> int:
    """Return the number of streams that requests share, one per sender of the classic tool; 0 means one per request in
    a periodic plan, or one per live sequence.

    Two sequences on one stream could block each other: Triton answers the requests of a stream in order, so one that is
    waiting for a sequence slot would hold back the answers that the other needs to continue.
    """
    if not options.streaming or options.periodic_concurrency is not None or has_sequences:
        return 0
    return options.max_threads or (RATE_THREADS if is_rate(options) else THREADS)


def _linear(start: float, end: float | None, step: float, outcome: LastOutcome) -> Iterator[float]:
    """Yield start, start + step ... up to `end` (None: unbounded) while each one passes; always yield the first."""
    number = 0
    while True:
        value = start + number * step
        if number and (not outcome.passed or (end is not None and value > end)):
            return
        yield value
        number += 1


def _binary(
    start: float, end: float, step: float, outcome: LastOutcome, *, is_whole: bool
) -> Iterator[float]:
    """Yield both ends, then the middle between the highest that passed and the lowest that failed."""
    yield start
    if not outcome.passed:
        return
    yield end
    if outcome.passed:
        return
    low, high = start, end
    while high - low > step:
        middle = (low + high) // 2 if is_whole else (low + high) / 2
        yield middle
        low, high = (middle, high) if outcome.passed else (low, middle)


def rate_schedule(options: Options, rate: float) -> Schedule:
    """Return the schedule of a rate with the arrivals of these options."""
    return schedule_at(rate, options.data.seed, Gaps(options.request_distribution, options.burstiness))


def read_intervals(path: str) -> tuple[int, ...]:
    """Return the times of one round from a file of gaps in microseconds."""
    check_path(path)
    lines = read_text(
        path, DESCRIPTION, "the file of request intervals", remedy="give a file of whole numbers"
    ).split()
    if not lines:
        raise UsageError(f"file '{path}' is empty", remedy="write one interval per line, in microseconds")
    for number, line in enumerate(lines, start=1):
        if not is_digits(line):
            raise UsageError(
                f"entry {number} of '{path}' is '{line}'",
                remedy="write intervals as whole microseconds, one per line",
            )
    times = tuple(accumulate(int(line) * NS_PER_US for line in lines))
    if times[-1] == 0:
        raise UsageError(f"all intervals in '{path}' are 0", remedy="make at least one greater than 0")
    return times


# --- loads that end by themselves


def maybe_agenda(
    options: Options, dataset: Dataset, trace: "Trace | None", numbers: tuple[int, ...] | None
) -> Agenda | None:
    """Return the agenda; None if the load continues until it has been measured."""
    if options.shape_load is not None:
        shape = parse_shape(options.shape_load)
        return _with_warm_up(Agenda(shape, shape.count), options)
    if trace is not None:
        times = tuple(entry.time_ns for entry in trace.entries)
        return _with_warm_up(Agenda(Listed(times), len(times), numbers), options)
    if dataset.times_ms is not None:
        return _fixed(dataset.times_ms, options.warmup_request_count)
    return None


def _with_warm_up(agenda: Agenda, options: Options) -> Agenda:
    """Add a warm-up that plays the beginning of the schedule."""
    count = min(options.warmup_request_count, agenda.count)
    return replace(agenda, before=replace(agenda, count=count)) if count else agenda


def _fixed(times_ms: tuple[float, ...], warm_up: int) -> Agenda:
    if warm_up >= len(times_ms):
        raise UsageError(
            f"the fixed schedule has {len(times_ms)} steps, too few for a warm-up of {warm_up} requests",
            remedy=f"add steps, or lower {option_name('warmup_request_count')}",
        )
    order = tuple(sorted(range(len(times_ms)), key=lambda step: times_ms[step]))
    times = tuple(round(times_ms[step] * NS_PER_MS) for step in order)
    if not warm_up:
        return Agenda(Listed(times), len(times), order)
    # The rest follows the warm-up with the same offset as in the file.
    rest = tuple(time - times[warm_up - 1] for time in times[warm_up:])
    before = Agenda(Listed(times[:warm_up]), warm_up, order[:warm_up])
    return Agenda(Listed(rest), len(rest), order[warm_up:], before)
