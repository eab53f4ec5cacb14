"""The levels a run visits: options -> load points."""

from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path

from inferometer.base.errors import UsageError
from inferometer.base.units import NS_PER_S, NS_PER_US
from inferometer.load.plan import Closed, Constant, Intervals, Open, Poisson, Schedule
from inferometer.profile.level import Point
from inferometer.profile.options import Options, Range
from inferometer.profile.search import Verdicts, binary, linear

RATE_THREADS = (
    4  # the classic tool's senders by rate: in synchronous mode so many requests can be outstanding
)


def is_rate(options: Options) -> bool:
    return options.request_rate is not None or options.request_intervals is not None


def points(options: Options, last: float | None, verdicts: Verdicts) -> Iterator[Point]:
    """One after the other, each chosen after the verdict on the one before; `last` is the end of the range."""
    count = options.request_count or None
    make: Callable[[float], Point]
    if options.request_intervals is not None:
        times_ns = read_intervals(options.request_intervals)
        rate = len(times_ns) * NS_PER_S // times_ns[-1]
        yield Point("request_rate", float(rate), Open(Intervals(times_ns), cap=_cap(options), count=count))
        return
    if options.request_rate is not None:
        span = options.request_rate

        def make(value: float) -> Point:
            return Point(
                "request_rate", value, Open(_schedule(options, value), cap=_cap(options), count=count)
            )
    else:
        span = options.concurrency or Range(1)

        def make(value: float) -> Point:
            return Point("concurrency", value, Closed(int(value), count))

    if options.binary_search and last is not None:
        values = binary(span.start, last, span.step, verdicts, is_whole=options.request_rate is None)
    else:
        values = linear(span.start, last, span.step, verdicts)
    yield from map(make, values)


def _cap(options: Options) -> int | None:
    """Synchronous callers wait for their answer, so no more can be outstanding than there are of them."""
    return None if options.asynchronous else options.max_threads or RATE_THREADS


def _schedule(options: Options, rate: float) -> Schedule:
    if options.request_distribution == "poisson":
        return Poisson(rate, options.data.seed)
    return Constant(rate)


def read_intervals(path: str) -> tuple[int, ...]:
    """The times of one round, from a file of gaps in microseconds."""
    try:
        lines = Path(path).read_text().split()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the file '{path}' cannot be read: {error}", remedy="give a file of whole numbers"
        ) from error
    if not lines:
        raise UsageError(f"file '{path}' is empty", remedy="write one gap per line, in microseconds")
    for number, line in enumerate(lines, start=1):
        if not line.isdigit():
            raise UsageError(
                f"entry {number} of '{path}' is '{line}'",
                remedy="gaps are whole numbers of microseconds, one per line",
            )
    times = tuple(accumulate(int(line) * NS_PER_US for line in lines))
    if times[-1] == 0:
        raise UsageError(f"all gaps in '{path}' are 0", remedy="at least one must be above 0")
    return times
