"""Requests as numpy columns, in the order in which they ended."""

from array import array
from dataclasses import field, fields, replace

import numpy as np
from numpy.typing import NDArray

from inferometer.base import status
from inferometer.base.frozen import frozen
from inferometer.records.ring import CAPACITY, HEADER, PART, READ, ROW, STAMPS, STAMPS_READ, WRITTEN

Column = NDArray[np.int64]

NO_TIMES: Column = np.empty(0, dtype=np.int64)


@frozen
class Records:
    """What happened to each request; times are `time.monotonic_ns`, and a time that never came is 0."""

    due_ns: Column
    sent_ns: Column
    wrote_ns: Column  # the request was sent: see SendCost in load/link.py for how long that took
    first_ns: Column  # the first byte of the reply; of a stream the first response
    end_ns: Column
    status: Column
    step: Column  # which request of the dataset
    received: Column  # bytes of the reply
    responses: Column  # that carried data
    sequence: Column  # id of its sequence; 0 without
    sequence_started_ns: Column  # of the last request of a sequence: when the first one was due; else 0
    tokens: Column  # of the answer, as the server counts them; 0 where it does not say
    prompt_tokens: Column
    reasoning_tokens: Column  # of `tokens`, as the server tells
    cached_tokens: Column  # of `prompt_tokens`, which the server had in its cache
    answer_at: (
        Column  # which of its `times` is the first of the answer after reasoning; `stamps` where none is
    )
    stamps: Column  # how many of `times` belong to the request
    times: Column  # of the responses of streams, request after request; not a column of a row
    # A request with several choices has the times of one choice after those of another. Within a choice times never
    # drop; from one choice to the next they always do.

    def __len__(self) -> int:
        return len(self.end_ns)

    def where(self, chosen: NDArray[np.bool_] | slice) -> "Records":
        # By number is twice as quick.
        times, places = self.times, chosen if isinstance(chosen, slice) else chosen.nonzero()[0]
        if len(times):
            mask = np.zeros(len(self), dtype=np.bool_)
            mask[places] = True
            times = times[np.repeat(mask, self.stamps)]
        return Records(*[getattr(self, name)[places] for name in COLUMNS] + [times])

    def cut(self, count: int) -> "tuple[Records, Records]":
        """The first `count`, and the others."""
        if count >= len(self):
            return self, EMPTY
        if count <= 0:
            return EMPTY, self
        return self.where(slice(None, count)), self.where(slice(count, None))

    @property
    def good(self) -> "Records":
        chosen = self.status == status.OK
        return self if chosen.all() else self.where(chosen)

    @property
    def is_answered(self) -> NDArray[np.bool_]:
        """Of each, whether the server said anything, good or bad."""
        found = np.ones(len(self), dtype=np.bool_)
        for code in status.NO_ANSWER:  # far quicker than np.isin where there are few records, which is often
            found &= self.status != code
        return found

    @property
    def failed(self) -> "Records":
        return self._chosen((self.status != status.OK) & (self.status != status.WITHDRAWN))

    @property
    def withdrawn(self) -> "Records":
        """Those that the client cancelled because it was asked to."""
        return self._chosen(self.status == status.WITHDRAWN)

    def _chosen(self, chosen: NDArray[np.bool_]) -> "Records":
        return self.where(chosen) if chosen.any() else EMPTY


COLUMNS = tuple(field.name for field in fields(Records))[:-1]
_PARTS = {
    "reasoning_tokens": "tokens",
    "cached_tokens": "prompt_tokens",
    "answer_at": "responses",
}  # in the upper half of whose cell they are
_CELLS = tuple(name for name in COLUMNS if name not in _PARTS)
_END = COLUMNS.index("end_ns")


def from_rows(rows: NDArray[np.int64], times: Column = NO_TIMES) -> Records:
    """Records of a block with a row of `COLUMNS` for each, sorted by end; both arguments are copied."""
    return _sorted([rows[:, column].copy() for column in range(len(COLUMNS))], times.copy())


def _from_ring(rows: NDArray[np.int64], times: Column) -> Records:
    """The same of rows as they lie in a ring."""
    cells = {name: rows[:, place] for place, name in enumerate(_CELLS)}
    columns = {name: cells[name].copy() for name in _CELLS}
    for part, whole in _PARTS.items():
        columns[part] = cells[whole] >> PART
        columns[whole] &= (1 << PART) - 1
    return _sorted([columns[name] for name in COLUMNS], times.copy())


def from_cells(rows: "array[int]", times: "array[int]") -> Records:
    """The same of rows that came in a message."""
    cells = np.frombuffer(rows, dtype=np.int64).reshape(-1, ROW)
    return _from_ring(cells, np.frombuffer(times, dtype=np.int64)) if len(cells) else EMPTY


def _sorted(columns: list[Column], times: Column) -> Records:
    ends, stamps = columns[_END], columns[-1]
    if (ends[1:] >= ends[:-1]).all():
        return Records(*[*columns, times])
    order = np.argsort(ends, kind="stable")
    if len(times):
        starts = np.cumsum(stamps) - stamps
        times = np.concatenate([times[starts[row] : starts[row] + stamps[row]] for row in order])
    # Many columns have one value throughout, and need no order.
    return Records(
        *[column if (column == column[0]).all() else column[order] for column in columns] + [times]
    )


EMPTY = from_rows(np.empty((0, len(COLUMNS)), dtype=np.int64))


def join(parts: list[Records]) -> Records:
    """Several blocks as one, sorted by end."""
    if len(parts) <= 1:
        return parts[0] if parts else EMPTY
    columns = [np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS]
    return _sorted(columns, np.concatenate([part.times for part in parts]))


class RingReader:
    """The controller's side of a ring: takes what has been written since the last time."""

    __slots__ = ("_header", "_rows", "_stamps")

    def __init__(self, cells: memoryview) -> None:
        whole = np.frombuffer(cells, dtype=np.int64)
        self._header = whole[:HEADER]
        self._rows = whole[HEADER:STAMPS].reshape(CAPACITY, ROW)
        self._stamps = whole[STAMPS:]

    def take(self) -> Records:
        read, written = int(self._header[READ]), int(self._header[WRITTEN])
        if read == written:
            return EMPTY
        rows = _between(self._rows, read, written)
        stamps_read = int(self._header[STAMPS_READ])
        stamped = stamps_read + int(rows[:, -1].sum())
        taken = _from_ring(rows, _between(self._stamps, stamps_read, stamped))
        self._header[STAMPS_READ] = stamped
        self._header[READ] = written
        return taken


def _between(ring: Column, start: int, stop: int) -> Column:
    """What lies between two counts of a ring; as long as it has not been marked as read, it does not change."""
    if start == stop:
        return ring[:0]
    assert start < stop <= start + len(ring), (start, stop)
    first, last = start % len(ring), stop % len(ring)
    if first < last:
        return ring[first:last]
    return np.concatenate((ring[first:], ring[:last]))


@frozen
class Totals:
    """Every request of a load, counted by how it ended: since the load began, over all workers it ever had."""

    sent: int = 0  # begun, as the workers count them
    good: int = 0
    failed: int = 0
    withdrawn: int = 0  # cancelled by the client because it was asked to
    cut_off: int = 0  # still running at the end, and cancelled
    unsent: int = 0  # of those that failed or were cut off: no byte went out, since no connection was made
    resent: int = 0  # times a request was sent again: the server had closed the connection or refused it
    steps: Column = field(
        default_factory=NO_TIMES.copy, compare=False, repr=False
    )  # how often each request of the dataset ended

    def __add__(self, other: "Totals") -> "Totals":
        counts = {name: getattr(self, name) + getattr(other, name) for name in _COUNTS}
        return Totals(**counts, steps=_summed(self.steps, other.steps))

    def and_records(self, records: Records) -> "Totals":
        good = int(np.count_nonzero(records.status == status.OK))
        cut_off = int(np.count_nonzero(records.status == status.CANCELLED))
        withdrawn = int(np.count_nonzero(records.status == status.WITHDRAWN))
        return replace(
            self,
            good=self.good + good,
            failed=self.failed + len(records) - good - withdrawn - cut_off,
            withdrawn=self.withdrawn + withdrawn,
            cut_off=self.cut_off + cut_off,
            unsent=self.unsent + int(np.count_nonzero(records.sent_ns == 0)),
            steps=_summed(self.steps, np.bincount(records.step)),
        )


_COUNTS = tuple(each.name for each in fields(Totals) if each.name != "steps")


def _summed(one: Column, other: Column) -> Column:
    """Counts by number; the shorter one has none of the rest."""
    found = np.zeros(max(len(one), len(other)), dtype=np.int64)
    found[: len(one)] += one
    found[: len(other)] += other
    return found
