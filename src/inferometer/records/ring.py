"""Transport of records from a worker to the controller: a ring of rows in shared memory.

One writer, one reader. A row is fourteen 64-bit integers, the columns of `Records`; special tokens share the cell of
the total (`of_which`), so that requests without tokens cost no more. The header holds the total numbers of rows written
and read; both only grow, and each is stored by one side alone. The writer fills rows first and then advances WRITTEN in
one store: `pack_into` would clear the cell first, and the reader would see an empty ring. The content of the ring
survives the death of the worker.

Requests with streamed responses have a time for each: these are in a second ring behind the rows, in row order, as many
for each request as its row says.
"""

import contextlib
import mmap
import os
from collections.abc import Sequence
from struct import Struct
from typing import Final

from inferometer.base.system import unnamed_file

ROW: Final = 14  # integers
WRITTEN: Final = 0
READ: Final = 1
STAMPS_READ: Final = 2
HEADER: Final = ROW  # cells before the first row
CAPACITY: Final = 1 << 16  # rows: 7 MiB, more than half a second at 100 000 requests per second
FIRST_BYTE: Final = HEADER * 8
ROW_BYTES: Final = ROW * 8
STAMPS: Final = HEADER + CAPACITY * ROW  # cell of the first stamp
STAMP_CAPACITY: Final = 1 << 19
MOST_STAMPS: Final = STAMP_CAPACITY // 8  # of one request; the times of later responses are dropped
CELLS: Final = STAMPS + STAMP_CAPACITY

POPULATE: Final = 23  # MADV_POPULATE_WRITE, which mmap does not define

PART: Final = 32  # bits of a number of tokens; the number of special tokens is above them


def of_which(tokens: int, part: int) -> int:
    """Pack a number of tokens and how many of them are special into one cell."""
    return tokens | part << PART


pack_row = Struct(f"={ROW}q").pack_into
"""pack_row(cells, position, due_ns, sent_ns, ...) writes a whole row in one call."""


def create_ring() -> int:
    """Return the descriptor of new shared memory for one ring; a worker can inherit it."""
    fd = unnamed_file("inferometer-records")
    os.ftruncate(fd, CELLS * 8)
    return fd


class RingWriter:
    """Worker side of a ring. The engine packs rows itself; this object keeps the counts."""

    __slots__ = ("_stamped", "cells", "end", "has_stamps", "position", "stop", "written")

    def __init__(self, cells: memoryview) -> None:
        self.cells = cells
        self.written = 0
        self.position = FIRST_BYTE  # of the next row, in bytes
        self.end = STAMPS * 8
        self.stop = self.end  # position at which the engine is called: the end, or before it
        self.has_stamps = False  # times were stored, possibly many per row
        self._stamped = 0

    def publish(self) -> None:
        self.cells[WRITTEN] = self.written

    def stamp(self, times: Sequence[int]) -> int:
        """Store the times of a request's responses before its row is published; return how many were stored."""
        self.has_stamps = True
        kept = times[:MOST_STAMPS]
        for time in kept:
            self.cells[STAMPS + self._stamped % STAMP_CAPACITY] = time
            self._stamped += 1
        return len(kept)

    @property
    def crowded(self) -> bool:
        """Whether too little space is left for another round of the loop, so that the reader must catch up first."""
        cells = self.cells
        return (
            self.written - cells[READ] > CAPACITY // 2
            or self._stamped - cells[STAMPS_READ] > STAMP_CAPACITY // 2
        )


def map_ring(fd: int) -> memoryview:
    """Map the ring's cells as 64-bit integers. Their memory is populated now rather than page by page under load."""
    memory = mmap.mmap(fd, 0)
    with contextlib.suppress(OSError):  # not supported before Linux 5.14
        memory.madvise(POPULATE, 0, STAMPS * 8)
    return memoryview(memory).cast("q")
