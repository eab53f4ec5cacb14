"""How a plan that ends by itself was kept: when its requests were due, sent and answered."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from inferometer.base.notes import Note
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.records.records import Column, Records
from inferometer.stats.series import Series, joined
from inferometer.stats.windows import Window

SLACK = 0.02  # share of the plan's time by which requests may be late at its end
LEAST_NS = 50 * NS_PER_MS
SLOWER = 3  # times a quick request's service that is no sign of a growing queue
LAST = 0.1  # of the requests show how it ended
FEWEST = 5


@dataclass(slots=True)
class _Span:
    count: int = 0
    first_ns: int = 0
    last_ns: int = 0

    def add(self, times: Column) -> None:
        if not len(times):
            return
        first_ns, last_ns = int(times.min()), int(times.max())
        self.first_ns = min(self.first_ns, first_ns) if self.count else first_ns
        self.last_ns = max(self.last_ns, last_ns)
        self.count += len(times)

    @property
    def length_ns(self) -> int:
        return self.last_ns - self.first_ns

    @property
    def per_s(self) -> float:
        """Between the first and the last; 0 when there is no time between them."""
        return (self.count - 1) * NS_PER_S / self.length_ns if self.length_ns else 0.0


@dataclass(slots=True)
class ScheduleTiming:
    """Fed with the records of the level as they come."""

    _due: _Span = field(default_factory=_Span)
    _sent: _Span = field(default_factory=_Span)

    def add(self, records: Records) -> None:
        self._due.add(records.due_ns)
        self._sent.add(records.sent_ns[records.sent_ns > 0])

    @property
    def sent_per_s(self) -> float:
        return self._sent.per_s

    def pressed(self, windows: Sequence[Window]) -> Note | None:
        """Whether the requests at the end were still sent when due, and answered as fast as others."""
        service = joined([window.service_ns for window in windows])
        lags = [window.lag_ns for window in windows if window.lag_ns is not None]
        if not service.count or not lags:
            return None
        room_ns = max(SLACK * self._due.length_ns, LEAST_NS)
        if _at_the_end(service) > SLOWER * service.percentile(25) + room_ns:
            return Note.OVERLOADED
        return Note.NOT_OFFERED if _at_the_end(joined(lags)) > room_ns else None


def _at_the_end(durations: Series) -> float:
    """The median of the last ones; `durations` in the order of ends."""
    return durations.last(max(FEWEST, round(LAST * durations.count))).percentile(50)
