"""Comparison of the server's counters with our own: how many of our requests had ended when they were read.

A reading happened at some time between its request and its reply. The number of our requests at both times bounds what
the server can have counted.
"""

from dataclasses import dataclass, field

import numpy as np

from inferometer.base import status
from inferometer.observe.statistics import Snapshot
from inferometer.records.records import Column


@dataclass(slots=True)
class CounterReading:
    """A reading of the counters, with our own counts since the level began."""

    counters: Snapshot
    asked_ns: int
    answered_ns: int
    ended: int  # when it was requested
    ended_after: int  # when it arrived
    failed: int  # of `ended_after`
    outstanding: int = 0  # largest number until it arrived

    @property
    def span_ns(self) -> int:
        return self.answered_ns - self.asked_ns

    @property
    def middle_ns(self) -> int:
        return (self.asked_ns + self.answered_ns) // 2


def bounds(before: CounterReading, after: CounterReading) -> tuple[int, int]:
    """Return the fewest and the most of our requests that the server can have counted between two readings.

    A failed or outstanding request may be counted or not; one that has just ended may not be counted yet.
    """
    slack = before.outstanding + after.outstanding
    fewest = after.ended - before.ended_after - (after.failed - before.failed) - slack
    return max(0, fewest), after.ended_after - before.ended + slack


def waiting(before: CounterReading | None, after: CounterReading | None) -> float | None:
    """Return the mean number of requests in the server's queues between two readings, by Little's law: total waiting
    time over elapsed time. The result is None if the counters were not read, or were reset."""
    if before is None or after is None or after.middle_ns <= before.middle_ns:
        return None
    queued_ns = sum(row.queue_ns for row in after.counters.values())
    queued_ns -= sum(row.queue_ns for row in before.counters.values())
    return None if queued_ns < 0 else queued_ns / (after.middle_ns - before.middle_ns)


@dataclass(slots=True)
class CounterReadings:
    """Counts our requests of a level for recent readings."""

    _ended: int = 0
    _failed: int = 0
    _outstanding: int = 0
    # Requests that ended before these readings arrived may still be missing.
    _fresh: list[CounterReading] = field(default_factory=list)

    def begin(self, counters: Snapshot, asked_ns: int, answered_ns: int) -> CounterReading:
        """Start a reading. All requests added so far ended before it was requested."""
        reading = CounterReading(
            counters, asked_ns, answered_ns, self._ended, self._ended, self._failed, self._outstanding
        )
        self._fresh.append(reading)
        return reading

    def add(self, ends_ns: Column, statuses: Column, seen_ns: int, outstanding: int) -> None:
        """Add all requests that ended up to `seen_ns` since the last call."""
        is_failed = statuses != status.OK
        self._outstanding = max(self._outstanding, outstanding)
        for reading in self._fresh:
            has_come = ends_ns <= reading.answered_ns
            reading.ended += int(np.count_nonzero(ends_ns <= reading.asked_ns))
            reading.ended_after += int(np.count_nonzero(has_come))
            reading.failed += int(np.count_nonzero(is_failed & has_come))
            reading.outstanding = self._outstanding
        self._fresh = [reading for reading in self._fresh if reading.answered_ns > seen_ns]
        self._ended += len(ends_ns)
        self._failed += int(np.count_nonzero(is_failed))
