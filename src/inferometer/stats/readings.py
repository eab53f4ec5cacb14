"""The server's counters beside our own: how many requests of ours had ended when they were read.

A reading was made somewhere between the moment it was asked for and the moment it came. What we know of our own
requests at both moments bounds what the server can have counted of them.
"""

from dataclasses import dataclass, field

import numpy as np

from inferometer.base import status
from inferometer.observe.statistics import Snapshot
from inferometer.records.records import Column


@dataclass(slots=True)
class CounterReading:
    """Counters, and our requests since the level began."""

    counters: Snapshot
    asked_ns: int
    answered_ns: int
    ended: int  # when it was asked for
    ended_after: int  # when it came
    failed: int  # of `ended_after`
    outstanding: int = 0  # at most, until it came

    @property
    def span_ns(self) -> int:
        return self.answered_ns - self.asked_ns

    @property
    def middle_ns(self) -> int:
        return (self.asked_ns + self.answered_ns) // 2


def bounds(before: CounterReading, after: CounterReading) -> tuple[int, int]:
    """The fewest and the most requests of ours that the server can have counted between two readings.

    A failed request may be counted or not; one that is outstanding may be, one that has just ended may not yet.
    """
    slack = before.outstanding + after.outstanding
    fewest = after.ended - before.ended_after - (after.failed - before.failed) - slack
    return max(0, fewest), after.ended_after - before.ended + slack


def waiting(before: CounterReading | None, after: CounterReading | None) -> float | None:
    """Requests in the server's queues between two readings, on average: by Little's law, the time that all of them
    waited over the time that passed. None where it was not read, or where its counters began anew."""
    if before is None or after is None or after.middle_ns <= before.middle_ns:
        return None
    queued_ns = sum(row.queue_ns for row in after.counters.values())
    queued_ns -= sum(row.queue_ns for row in before.counters.values())
    return None if queued_ns < 0 else queued_ns / (after.middle_ns - before.middle_ns)


@dataclass(slots=True)
class CounterReadings:
    """Counts our requests of a level for readings that were just made."""

    _ended: int = 0
    _failed: int = 0
    _outstanding: int = 0
    # Of these, requests that ended before they came may still be missing.
    _fresh: list[CounterReading] = field(default_factory=list)

    def begin(self, counters: Snapshot, asked_ns: int, answered_ns: int) -> CounterReading:
        """A new one. All requests that were added ended before it was asked for."""
        reading = CounterReading(
            counters, asked_ns, answered_ns, self._ended, self._ended, self._failed, self._outstanding
        )
        self._fresh.append(reading)
        return reading

    def add(self, ends_ns: Column, statuses: Column, seen_ns: int, outstanding: int) -> None:
        """All requests that ended up to `seen_ns` and were not added before."""
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
