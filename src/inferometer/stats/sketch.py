"""Very many durations in little memory: a histogram whose bins are all as wide in proportion.

A bin holds the values that share their first twelve binary digits, so none is wider than 1/2048 of its values: 0.05 %.
Whole numbers below 4096 have a bin each. That is how floating point numbers are written, so the bin of a value is the
front of its bits. Only bins that hold something are kept. Count, sum, squares, least and greatest are exact.
"""

from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

Durations = NDArray[np.int64]

DIGITS = 11  # of a value after its first one
_SHIFT = 52 - DIGITS  # bits of a 64-bit floating point number that are left out


@dataclass(frozen=True, slots=True)
class Sketch:
    """Of at least one value, none below zero."""

    count: int
    total: int
    squares: float  # of the distances to the mean
    least: int
    greatest: int
    bins: NDArray[np.int32]  # in order
    counts: Durations  # in each of them

    def at(self, index: int) -> int:
        """The value of this rank, from 0: within its bin, as if those in it were spread evenly."""
        place, before = self._find(index)
        low, high = self._edges(place)
        part = (index - before + 0.5) / int(self.counts[place])
        return min(max(round(low + part * (high - low)), self.least), self.greatest)

    def around(self, index: int) -> tuple[int, int]:
        """Between which two values the one of this rank lies."""
        low, high = self._edges(self._find(index)[0])
        return max(low, self.least), min(high, self.greatest)

    def up_to(self, value: int) -> int:
        """How many lie in the bin of this value and in those below."""
        place = int(np.searchsorted(self.bins, _bins(np.array([value]))[0], side="right"))
        return int(self.counts[:place].sum())

    def values(self) -> Durations:
        """The least whole number of each bin."""
        return _lowest(self.bins)

    def _find(self, index: int) -> tuple[int, int]:
        """The place of the bin that holds this rank, and how many values are in those before."""
        ranks = np.cumsum(self.counts)
        place = int(np.searchsorted(ranks, index, side="right"))
        return place, int(ranks[place] - self.counts[place])

    def _edges(self, place: int) -> tuple[int, int]:
        """The least and the greatest whole number of a bin."""
        low, after = _lowest(self.bins[place] + np.arange(2, dtype=np.int32)).tolist()
        return low, max(after - 1, low)


def sketch(values: Durations) -> Sketch:
    """Of at least one value."""
    found = _bins(values)
    first = int(found.min())
    counts = np.bincount(found - first)
    used = np.flatnonzero(counts)
    distances = values - values.mean()
    return Sketch(
        count=len(values),
        total=int(values.sum()),
        squares=float(distances @ distances),
        least=int(values.min()),
        greatest=int(values.max()),
        bins=(used + first).astype(np.int32),
        counts=counts[used],
    )


def join(parts: list[Sketch]) -> Sketch:
    """Of the values of all parts, at least one."""
    if len(parts) == 1:
        return parts[0]
    first = min(int(part.bins[0]) for part in parts)
    counts = np.zeros(max(int(part.bins[-1]) for part in parts) - first + 1, dtype=np.int64)
    for part in parts:
        counts[part.bins - first] += part.counts
    used = np.flatnonzero(counts)
    count, _, squares = reduce(_join_squares, ((part.count, part.total, part.squares) for part in parts))
    return Sketch(
        count=count,
        total=sum(part.total for part in parts),
        squares=squares,
        least=min(part.least for part in parts),
        greatest=max(part.greatest for part in parts),
        bins=(used + first).astype(np.int32),
        counts=counts[used],
    )


_Moments = tuple[int, int, float]  # count, sum, squares


def _join_squares(one: _Moments, other: _Moments) -> _Moments:
    count = one[0] + other[0]
    apart = one[1] / one[0] - other[1] / other[0]
    return count, one[1] + other[1], one[2] + other[2] + apart * apart * one[0] * other[0] / count


def _bins(values: Durations) -> Durations:
    return np.maximum(values, 0).astype(np.float64).view(np.int64) >> _SHIFT


def _lowest(bins: NDArray[np.int32]) -> Durations:
    """The least whole number of each bin; narrow bins hold only one, or none."""
    return np.ceil((bins.astype(np.int64) << _SHIFT).view(np.float64)).astype(np.int64)
