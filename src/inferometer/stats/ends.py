"""End times of requests and their slowest latencies: per request while they are few, then per group.

A group is a number of consecutive requests; the end of its last one is stored. With tens of thousands of groups, a run
of any length takes little memory, and the count of ends at any time is still known to a tiny part of a section
(`stats.intervals`).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from inferometer.base.frozen import frozen
from inferometer.stats.series import EXACT, PIECES, Durations

_GROUPS = 1 << 16
_MANY = 256  # arrays waiting to be concatenated


@frozen
class Groups:
    """Groups of one or more requests, ordered by end."""

    last_us: NDArray[np.int64]  # end of the last request of each group
    counts: NDArray[np.int64]
    slowest_ns: Durations

    def __len__(self) -> int:
        return len(self.last_us)

    @property
    def is_exact(self) -> bool:
        """Whether every request is a group."""
        return bool((self.counts == 1).all())

    def thinned(self, size: int) -> "Groups":
        """Merge every `size` groups from the start; the last group takes the rest."""
        if size == 1 or not len(self):
            return self
        starts = np.arange(0, len(self), size)
        return Groups(
            self.last_us[np.append(starts[1:], len(self)) - 1],
            np.add.reduceat(self.counts, starts),
            np.maximum.reduceat(self.slowest_ns, starts),
        )

    def cut(self, start: int, end: int) -> "Groups":
        return Groups(self.last_us[start:end], self.counts[start:end], self.slowest_ns[start:end])

    def later(self, shift_us: int) -> "Groups":
        return Groups(self.last_us + shift_us, self.counts, self.slowest_ns)


NONE = Groups(*(np.empty(0, dtype=np.int64) for _ in range(3)))


class Ends:
    """End times of a window, collected while it fills."""

    __slots__ = ("_done", "_size", "_waiting", "held")

    def __init__(self) -> None:
        self._done = NONE  # groups of `_size` requests each
        self._size = 1
        self._waiting: list[Groups] = []  # individual requests
        self.held = 0  # requests stored individually

    @property
    def is_exact(self) -> bool:
        return self._size == 1

    @property
    def count(self) -> int:
        """Number of appended requests."""
        return int(self._done.counts.sum()) + sum(int(part.counts.sum()) for part in self._waiting)

    def append(self, ended_us: NDArray[np.int64], latency_ns: Durations) -> None:
        if not len(ended_us):
            return
        self._waiting.append(Groups(ended_us, np.ones(len(ended_us), dtype=np.int64), latency_ns))
        self.held += len(ended_us)
        if self.held > (EXACT if self.is_exact else max(_GROUPS, 2 * self._size)):
            self._fold(_GROUPS)
        elif len(self._waiting) > _MANY:
            self._waiting = [join_groups(self._waiting)]

    def condense(self, pieces: int) -> None:
        """Keep only groups, fewer of them for fewer `pieces` of a series."""
        most = max(_GROUPS // PIECES * pieces, 1)
        if self.held > self._size or len(self._done) > most:
            self._fold(most)

    def _fold(self, most: int) -> None:
        fresh = join_groups(self._waiting)
        whole = len(fresh) // self._size * self._size
        self._done = join_groups([self._done, fresh.cut(0, whole).thinned(self._size)])
        while len(self._done) > most:
            self._done, self._size = self._done.thinned(2), 2 * self._size
        self._waiting = [fresh.cut(whole, len(fresh))]
        self.held = len(fresh) - whole

    def begin_later(self, shift_us: int) -> None:
        """Shift the origin of all times forward."""
        self._done = self._done.later(-shift_us)
        self._waiting = [part.later(-shift_us) for part in self._waiting]

    def groups(self) -> Groups:
        return join_groups([self._done, *self._waiting])


def join_groups(parts: Sequence[Groups]) -> Groups:
    """Concatenate groups."""
    if not parts:
        return NONE
    return Groups(
        np.concatenate([part.last_us for part in parts]),
        np.concatenate([part.counts for part in parts]),
        np.concatenate([part.slowest_ns for part in parts]),
    )


def join_ends(parts: Sequence[tuple[Ends, int]]) -> Ends:
    """Concatenate end times, shifting each part by its microseconds."""
    whole = Ends()
    whole._size = max(ends._size for ends, _ in parts)
    found = join_groups([ends.groups().later(shift_us) for ends, shift_us in parts])
    if whole._size == 1:
        whole._waiting, whole.held = [found], len(found)
    else:
        whole._done = found
    return whole
