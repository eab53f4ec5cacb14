"""Records on their way from a worker to the controller: a ring of rows in shared memory.

One writer, one reader. A row is fourteen 64-bit integers, the columns of `Records`; a part of the tokens shares the
cell of the whole (`of_which`), so that requests without tokens cost no more. The header holds how many rows were
written and how many read, ever; both only grow, and each is stored by one side alone. The writer fills rows first and
moves WRITTEN afterwards, in one store: `pack_into` would clear the cell before, and the reader see a ring of nothing.
What is in the ring survives the death of the worker.

Requests with a stream of responses have a time for each: these lie in a second ring behind the rows, in the
order of the rows, as many for each as its row says.
"""

import contextlib
import mmap
import os
from collections.abc import Sequence
from struct import Struct
from typing import Final

ROW: Final = 14  # numbers
WRITTEN: Final = 0
READ: Final = 1
STAMPS_READ: Final = 2
HEADER: Final = ROW  # cells before the first row
CAPACITY: Final = 1 << 16  # rows: 7 MiB, more than half a second at 100 000 requests per second
FIRST_BYTE: Final = HEADER * 8
ROW_BYTES: Final = ROW * 8
STAMPS: Final = HEADER + CAPACITY * ROW  # the first stamp's cell
STAMP_CAPACITY: Final = 1 << 19
MOST_STAMPS: Final = STAMP_CAPACITY // 8  # of one request; of later ones the times are not kept
CELLS: Final = STAMPS + STAMP_CAPACITY

POPULATE: Final = 23  # MADV_POPULATE_WRITE, which mmap has no name for

PART: Final = (
    32  # bits that a number of tokens may have; above them are those of which something more is known
)


def of_which(tokens: int, part: int) -> int:
    """A cell for a number of tokens, and how many of them are special."""
    return tokens | part << PART


pack_row = Struct(f"={ROW}q").pack_into
"""pack_row(cells, position, due_ns, sent_ns, ...): a whole row in one call."""


def create_ring() -> int:
    """A file descriptor of fresh shared memory for one ring; inheritable by a worker."""
    fd = os.memfd_create("inferometer-records")
    os.ftruncate(fd, CELLS * 8)
    return fd


class RingWriter:
    """The worker's side. The engine packs rows itself; this keeps the counts."""

    __slots__ = ("_stamped", "cells", "end", "has_stamps", "position", "written")

    def __init__(self, cells: memoryview) -> None:
        self.cells = cells
        self.written = 0
        self.position = FIRST_BYTE  # where the next row goes, in bytes
        self.end = STAMPS * 8
        self.has_stamps = False  # times were kept, of which many may belong to one row
        self._stamped = 0

    def publish(self) -> None:
        self.cells[WRITTEN] = self.written

    def stamp(self, times: Sequence[int]) -> int:
        """Keep the times of a request's responses, before its row is published; how many were kept."""
        self.has_stamps = True
        kept = times[:MOST_STAMPS]
        for time in kept:
            self.cells[STAMPS + self._stamped % STAMP_CAPACITY] = time
            self._stamped += 1
        return len(kept)

    @property
    def crowded(self) -> bool:
        """Too little room is left for one more round of the loop: the reader must catch up first."""
        cells = self.cells
        return (
            self.written - cells[READ] > CAPACITY // 2
            or self._stamped - cells[STAMPS_READ] > STAMP_CAPACITY // 2
        )


def map_ring(fd: int) -> memoryview:
    """The ring's cells, as 64-bit integers. Rows are in memory from the start, rather than page by page while the load
    goes on."""
    memory = mmap.mmap(fd, 0)
    with contextlib.suppress(OSError):  # kernels before 5.14 do not know it
        memory.madvise(POPULATE, 0, STAMPS * 8)
    return memoryview(memory).cast("q")
