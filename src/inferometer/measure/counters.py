"""Server counters during a level: of all traffic classes together, and at the ends of windows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from inferometer.base.deadline import End, ending, within
from inferometer.base.errors import PeerError
from inferometer.base.units import NS_PER_MS, NS_PER_S, Clock, monotonic_ns
from inferometer.load.workers import Collected
from inferometer.measure.class_windows import ClassCourses, of_class
from inferometer.measure.instrument import Instrument
from inferometer.observe.statistics import Counters, Snapshot, snapshot
from inferometer.records.records import Records
from inferometer.stats.readings import CounterReading, CounterReadings, waiting

if TYPE_CHECKING:
    from inferometer.measure.prepare import Setup

LONGEST_READ_S = 5.0  # the load goes on meanwhile, and a longer reading describes no moment of it
AGAIN_NS = 5 * NS_PER_S  # pause before asking again after a failed read,
REST = 10  # or this many times its duration, so that a server that hangs costs a tenth of the time
LONGEST_LEAD_NS = 5 * NS_PER_MS
READS = 3  # at a level's start, until one is quick
QUICK_NS = NS_PER_MS
BUSY_NS = 200 * NS_PER_MS  # a server that takes this long is not asked again


@dataclass(slots=True)
class BoundedReading:
    """Reads the counters with a time limit, which `end` shortens.

    After a failure, readings fail at once until `REST` times its duration has passed.
    """

    read: Callable[[], Snapshot | None]
    end: End
    clock: Clock = monotonic_ns
    _error: PeerError | None = None
    _again_ns: int = 0

    def __call__(self) -> Snapshot | None:
        asked_ns = self.clock()
        if self._error is not None and asked_ns < self._again_ns:
            raise self._error
        try:
            with ending(self.end), within(LONGEST_READ_S):
                return self.read()
        except PeerError as error:
            failed_ns = self.clock()
            self._error, self._again_ns = error, failed_ns + REST * (failed_ns - asked_ns)
            raise


@dataclass(slots=True)
class ClassCounters:
    """Reads the counters of every class; a failure leaves out only that class."""

    setups: "Sequence[Setup]"
    clock: Clock = monotonic_ns
    _resting: dict[int, int] = field(default_factory=dict)  # time of the next attempt, by class
    _of_parts: "dict[int, ClassCounters]" = field(default_factory=dict)  # by class, if it has parts

    def __call__(self) -> Snapshot | None:
        found: dict[tuple[str, str], Counters] = {}
        for number, setup in enumerate(self.setups):
            asked_ns = self.clock()
            if not setup.has_statistics or self._resting.get(number, 0) > asked_ns:
                continue
            try:
                found |= of_class(number, self._read(number, setup) or {})
            except PeerError:
                failed_ns = self.clock()
                self._resting[number] = failed_ns + max(AGAIN_NS, REST * (failed_ns - asked_ns))
        return found or None

    def _read(self, number: int, setup: "Setup") -> Snapshot | None:
        """Read the counters of a class; those of its addresses, or of the steps of its visits, one by one."""
        if not setup.parts:
            return snapshot(setup.service.statistics(setup.model))
        if number not in self._of_parts:
            self._of_parts[number] = ClassCounters(_counted_apart(setup.parts), self.clock)
        return self._of_parts[number]()


def _counted_apart(parts: "Sequence[Setup]") -> "list[Setup]":
    """Leave out the statistics of models that several parts call at the same server, which counts them together."""
    models = [(part.result.server["url"], part.model.name) for part in parts]
    return [
        part if models.count(model) == 1 else replace(part, has_statistics=False)
        for part, model in zip(parts, models, strict=True)
    ]


@dataclass(slots=True)
class LevelCounters:
    """Readings of the counters before and after the current window of a level."""

    instrument: Instrument
    classes: ClassCourses
    before: CounterReading | None = None
    after: CounterReading | None = None
    is_read: bool = False  # whether the reading after the window was attempted
    lead_ns: int = (
        0  # time before a window's end to ask: half the duration of the call, unless that is a stall
    )
    waiting: float | None = None  # requests in the server's queue during the last closed window
    error: PeerError | None = None
    _readings: CounterReadings = field(default_factory=CounterReadings)

    def read(self) -> CounterReading | None:
        if self.error is not None:
            return None  # one failure may have used up its time limit while the load continues
        asked_ns = self.instrument.clock()
        try:
            counters = self.instrument.read_counters()
        except PeerError as error:
            self.error = error
            return None  # the server is unreachable; the client's figures remain
        if counters is None:
            return None
        answered_ns = self.instrument.clock()
        self.lead_ns = min((answered_ns - asked_ns) // 2, LONGEST_LEAD_NS)
        reading = self._readings.begin(counters, asked_ns, answered_ns)
        self.classes.read(reading)
        return reading

    def read_closely(self) -> CounterReading | None:
        """Read the counters at the start of the first window as precisely as possible."""
        best = None
        for _ in range(READS):
            reading = self.read()
            if reading is None:
                return None
            best = reading if best is None or reading.span_ns < best.span_ns else best
            if best.span_ns <= QUICK_NS or reading.span_ns >= BUSY_NS:
                break
        return best

    def add(self, records: Records, collected: Collected) -> None:
        """Add requests that have ended since the last call."""
        seen_ns, outstanding = collected.seen_ns, collected.outstanding
        self._readings.add(records.end_ns, records.status, seen_ns, outstanding)
        self.classes.add(records, seen_ns, outstanding)

    def close(self) -> CounterReading | None:
        """Return the reading after the window, and expect the next one."""
        after, self.after, self.is_read = self.after, None, False
        self.waiting = waiting(self.before, after)
        return after
