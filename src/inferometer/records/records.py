"""Requests as numpy columns, ordered by end."""

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
    """Outcome of each request; times are `time.monotonic_ns`, and 0 if an event never happened."""

    due_ns: Column
    sent_ns: Column
    wrote_ns: Column  # the request was sent: see SendCost in load/link.py for the duration
    first_ns: Column  # first byte of the reply; for a stream, the first response
    end_ns: Column
    status: Column
    step: Column  # number of the request in the dataset
    received: Column  # bytes of the reply
    responses: Column  # responses that carried data
    sequence: Column  # sequence id; 0 if none
    sequence_started_ns: Column  # last request of a sequence: due time of the first one; otherwise 0
    tokens: Column  # of the answer, as counted by the server; 0 if unknown
    prompt_tokens: Column
    reasoning_tokens: Column  # part of `tokens`, as reported by the server
    cached_tokens: Column  # part of `prompt_tokens` found in the server's cache
    answer_at: Column  # index in its `times` of the first response after reasoning; `stamps` if there is none
    tool_at: (
        Column  # position in its `times`, from 1, of the first response of a tool call; 0 if there is none
    )
    checked: Column  # verdict of --check on the answer: `status.UNCHECKED`, `RIGHT` or `FALSE`
    stamps: Column  # number of `times` that belong to the request
    times: Column  # of streamed responses, request by request; not a column of a row
    # A request with several choices has the times of each choice in turn. Within a choice times never decrease; from
    # one choice to the next they always do.

    def __len__(self) -> int:
        return len(self.end_ns)

    def where(self, chosen: NDArray[np.bool_] | slice) -> "Records":
        # Indexing by number is twice as fast.
        times, places = self.times, chosen if isinstance(chosen, slice) else chosen.nonzero()[0]
        if len(times):
            mask = np.zeros(len(self), dtype=np.bool_)
            mask[places] = True
            times = times[np.repeat(mask, self.stamps)]
        return Records(*[getattr(self, name)[places] for name in COLUMNS] + [times])

    def cut(self, count: int) -> "tuple[Records, Records]":
        """Split into the first `count` records and the others."""
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
        """Whether the server answered each request, successfully or not."""
        found = np.ones(len(self), dtype=np.bool_)
        for code in status.NO_ANSWER:  # far faster than np.isin for few records, which is the common case
            found &= self.status != code
        return found

    @property
    def failed(self) -> "Records":
        if not self.status.any():
            return EMPTY
        found = np.ones(len(self), dtype=np.bool_)
        for code in status.NEUTRAL:
            found &= self.status != code
        return self._chosen(found)

    @property
    def requests(self) -> "Records":
        """The records without the rows that end tasks written in Python."""
        is_end = self.status == status.TASK_END
        return self.where(~is_end) if is_end.any() else self

    @property
    def withdrawn(self) -> "Records":
        """Requests that the client cancelled on request."""
        return self._chosen(self.status == status.WITHDRAWN)

    def _chosen(self, chosen: NDArray[np.bool_]) -> "Records":
        return self.where(chosen) if chosen.any() else EMPTY


COLUMNS = tuple(field.name for field in fields(Records))[:-1]
_PARTS = {
    "reasoning_tokens": "tokens",
    "cached_tokens": "prompt_tokens",
    "answer_at": "responses",
    "tool_at": "step",
    "checked": "status",
}  # stored in the upper half of these cells
_CELLS = tuple(name for name in COLUMNS if name not in _PARTS)
_END = COLUMNS.index("end_ns")


def from_rows(rows: NDArray[np.int64], times: Column = NO_TIMES) -> Records:
    """Build records from a block with a row of `COLUMNS` each, sorted by end; both arguments are copied."""
    return _sorted([rows[:, column].copy() for column in range(len(COLUMNS))], times.copy())


def _from_ring(rows: NDArray[np.int64], times: Column) -> Records:
    """Build records from rows in ring format."""
    cells = {name: rows[:, place] for place, name in enumerate(_CELLS)}
    columns = {name: cells[name].copy() for name in _CELLS}
    for part, whole in _PARTS.items():
        columns[part] = cells[whole] >> PART
        columns[whole] &= (1 << PART) - 1
    return _sorted([columns[name] for name in COLUMNS], times.copy())


def from_cells(rows: "array[int]", times: "array[int]") -> Records:
    """Build records from rows received in a message."""
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
    # Many columns have one value throughout, and need no sorting.
    return Records(
        *[column if (column == column[0]).all() else column[order] for column in columns] + [times]
    )


EMPTY = from_rows(np.empty((0, len(COLUMNS)), dtype=np.int64))


def join(parts: list[Records]) -> Records:
    """Join several blocks into one, sorted by end."""
    if len(parts) <= 1:
        return parts[0] if parts else EMPTY
    columns = [np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS]
    return _sorted(columns, np.concatenate([part.times for part in parts]))


class RingReader:
    """Controller side of a ring: takes the records written since the last call."""

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
    """Return the part of a ring between two counts; it does not change until it is marked as read."""
    if start == stop:
        return ring[:0]
    assert start < stop <= start + len(ring), (start, stop)
    first, last = start % len(ring), stop % len(ring)
    if first < last:
        return ring[first:last]
    return np.concatenate((ring[first:], ring[:last]))


@frozen
class Totals:
    """All requests of a load by outcome, since the load began, over all its workers."""

    sent: int = 0  # started, as counted by the workers
    good: int = 0
    failed: int = 0
    withdrawn: int = 0  # cancelled by the client on request
    cut_off: int = 0  # still in flight at the end, and cancelled
    unsent: int = 0  # of all failed or dropped: nothing was sent, because no connection was made
    resent: int = 0  # repeated sends because the server had closed the connection or refused the request
    steps: Column = field(
        default_factory=NO_TIMES.copy, compare=False, repr=False
    )  # number of ended requests by dataset step

    def __add__(self, other: "Totals") -> "Totals":
        counts = {name: getattr(self, name) + getattr(other, name) for name in _COUNTS}
        return Totals(**counts, steps=_summed(self.steps, other.steps))

    def and_records(self, records: Records) -> "Totals":
        records = records.requests
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
    """Add counts by index, extending the shorter array."""
    found = np.zeros(max(len(one), len(other)), dtype=np.int64)
    found[: len(one)] += one
    found[: len(other)] += other
    return found
