"""Requests as numpy columns, in the order in which they ended."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inferometer.records import status
from inferometer.records.ring import CAPACITY, HEADER, READ, ROW, WRITTEN

Column = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Records:
    """What happened to each request; times are `time.monotonic_ns`, and a time that never came is 0."""

    due_ns: Column
    sent_ns: Column
    wrote_ns: Column  # the last byte of the request was handed to the system
    first_ns: Column  # the first byte of the reply
    end_ns: Column
    status: Column
    step: Column  # which request of the dataset
    received: Column  # bytes of the reply

    def __len__(self) -> int:
        return len(self.end_ns)

    def where(self, chosen: NDArray[np.bool_] | NDArray[np.int64] | slice) -> "Records":
        return Records(*(column[chosen] for column in self._columns()))

    def _columns(self) -> tuple[Column, ...]:
        return (
            self.due_ns,
            self.sent_ns,
            self.wrote_ns,
            self.first_ns,
            self.end_ns,
            self.status,
            self.step,
            self.received,
        )

    @property
    def good(self) -> "Records":
        return self.where(self.status == status.OK)

    @property
    def failed(self) -> "Records":
        return self.where(self.status != status.OK)


def from_rows(rows: NDArray[np.int64]) -> Records:
    """Records of an (n, 8) block, sorted by end."""
    order = np.argsort(rows[:, 4], kind="stable")
    return Records(*(rows[order, column] for column in range(ROW)))


EMPTY = from_rows(np.empty((0, ROW), dtype=np.int64))


def join(parts: list[Records]) -> Records:
    """Several blocks as one, sorted by end."""
    if len(parts) <= 1:
        return parts[0] if parts else EMPTY
    rows = [np.column_stack(part._columns()) for part in parts if len(part)]
    return from_rows(np.concatenate(rows)) if rows else EMPTY


class RingReader:
    """The controller's side of a ring: takes what has been written since the last time."""

    __slots__ = ("_cells", "_header", "_rows")

    def __init__(self, cells: memoryview) -> None:
        self._cells = cells
        whole = np.frombuffer(cells, dtype=np.int64)
        self._header = whole[:HEADER]
        self._rows = whole[HEADER:].reshape(CAPACITY, ROW)

    def take(self) -> NDArray[np.int64]:
        read, written = int(self._header[READ]), int(self._header[WRITTEN])
        start, stop = read % CAPACITY, written % CAPACITY
        if read == written:
            return self._rows[:0].copy()
        rows = (
            self._rows[start:stop]
            if start < stop
            else np.concatenate((self._rows[start:], self._rows[:stop]))
        )
        taken = rows.copy()
        self._header[READ] = written
        return taken
