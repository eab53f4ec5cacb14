"""Durations in the order of their ends: stored individually while they are few, as sketches of pieces when they are
many.

Memory must not grow with the length of a run. Up to `EXACT` values are stored individually. Beyond that, each piece of
consecutive values becomes a sketch; if there are too many pieces, neighbours are merged.

A sketch is a histogram whose bins have the same relative width. A bin holds the values that share their first twelve
binary digits, so none is wider than 1/2048 of its values: 0.05 %. Whole numbers below 4096 have a bin each. Floating
point numbers are encoded in the same way, so the bin of a value is given by its leading bits. Only non-empty bins are
stored. Count, sum, squares, minimum and maximum are exact.

Percentiles have one definition everywhere: the value nearest to p/100 of the way (`rank`).
"""

import math
from collections.abc import Iterable, Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from inferometer.base.frozen import frozen
from inferometer.base.slo import PERCENTILES
from inferometer.stats.estimate import Distribution

Durations = NDArray[np.int64]

BINS_PER_OCTAVE = 16  # of a histogram: bounds 4 % apart
WIDE = 1 << 16  # bins between the first and the last
DIGITS = 11  # binary digits of a value after the first
_SHIFT = 52 - DIGITS  # dropped bits of a 64-bit floating point number


def rank(p: float, count: int) -> int:
    """Return the index of percentile `p` among `count` sorted values: the one nearest to p/100 of the way."""
    return math.floor(p / 100 * (count - 1) + 0.5)


def percentile(durations: Durations, p: float) -> int:
    index = rank(p, len(durations))
    return int(np.partition(durations, index)[index])


@frozen
class Sketch:
    """Histogram of at least one value, none negative."""

    count: int
    total: int
    squares: float  # of the distances to the mean
    least: int
    greatest: int
    bins: NDArray[np.int32]  # in order
    counts: Durations  # in each of them

    def at(self, index: int) -> int:
        """Return the value of this rank, counted from 0, interpolated within its bin."""
        place, before = self._find(index)
        low, high = self._edges(place)
        part = (index - before + 0.5) / int(self.counts[place])
        return min(max(round(low + part * (high - low)), self.least), self.greatest)

    def around(self, index: int) -> tuple[int, int]:
        """Return the bounds of the value of this rank."""
        low, high = self._edges(self._find(index)[0])
        return max(low, self.least), min(high, self.greatest)

    def up_to(self, value: int) -> int:
        """Count the values in the bin of this value and in those below."""
        place = int(np.searchsorted(self.bins, _bins(np.array([value]))[0], side="right"))
        return int(self.counts[:place].sum())

    def histogram(self) -> tuple[tuple[int, int], ...]:
        return _histogram(_lowest(self.bins), self.counts)

    def _find(self, index: int) -> tuple[int, int]:
        """Return the position of the bin that holds this rank, and the number of values before it."""
        ranks = np.cumsum(self.counts)
        place = int(np.searchsorted(ranks, index, side="right"))
        return place, int(ranks[place] - self.counts[place])

    def _edges(self, place: int) -> tuple[int, int]:
        """Return the smallest and the largest whole number of a bin."""
        low, after = _lowest(self.bins[place] + np.arange(2, dtype=np.int32)).tolist()
        return low, max(after - 1, low)


def sketch(values: Durations) -> Sketch:
    """Build the sketch of at least one value."""
    bins, counts = _counted(_bins(values))
    distances = values - values.mean()
    return Sketch(
        count=len(values),
        total=int(values.sum()),
        squares=float(distances @ distances),
        least=int(values.min()),
        greatest=int(values.max()),
        bins=bins,
        counts=counts,
    )


def _counted(found: Durations, weights: Durations | None = None) -> tuple[NDArray[np.int32], Durations]:
    """Return the bins in order with their counts.

    In a wide range, such as one with a single 0, the values are sorted instead of counted bin by bin."""
    first, last = int(found.min()), int(found.max())
    if last - first > WIDE:
        used, places = np.unique(found, return_inverse=True)
        counts = np.bincount(places, weights).astype(np.int64)
        return used.astype(np.int32), counts
    counts = np.bincount(found - first, weights).astype(np.int64)
    used = np.flatnonzero(counts)
    return (used + first).astype(np.int32), counts[used]


def join(parts: list[Sketch]) -> Sketch:
    """Merge at least one sketch."""
    if len(parts) == 1:
        return parts[0]
    bins, counts = _counted(
        np.concatenate([part.bins for part in parts]).astype(np.int64),
        np.concatenate([part.counts for part in parts]),
    )
    count, _, squares = reduce(_join_squares, ((part.count, part.total, part.squares) for part in parts))
    return Sketch(
        count=count,
        total=sum(part.total for part in parts),
        squares=squares,
        least=min(part.least for part in parts),
        greatest=max(part.greatest for part in parts),
        bins=bins,
        counts=counts,
    )


_Moments = tuple[int, int, float]  # count, sum, squares


def _join_squares(one: _Moments, other: _Moments) -> _Moments:
    count = one[0] + other[0]
    apart = one[1] / one[0] - other[1] / other[0]
    return count, one[1] + other[1], one[2] + other[2] + apart * apart * one[0] * other[0] / count


def _bins(values: Durations) -> Durations:
    return np.maximum(values, 0).astype(np.float64).view(np.int64) >> _SHIFT


def _lowest(bins: NDArray[np.int32]) -> Durations:
    """Return the smallest whole number in each bin; narrow bins contain only one, or none."""
    return np.ceil((bins.astype(np.int64) << _SHIFT).view(np.float64)).astype(np.int64)


EXACT = 1 << 19  # values of a series that are stored individually
PIECES = 256  # most sketches of a series whose order matters
_LEAST = 1 << 12  # values of a piece
_ALL = 1 << 62  # size of a piece if one is enough
_WAITING = 1 << 15  # values converted to sketches at a time
_MANY = 256  # arrays waiting to be concatenated


class Series:
    """A series that grows at its end. One piece is enough if the order does not matter."""

    __slots__ = ("_most", "_raw", "_size", "_sketches", "held")

    def __init__(self, values: Durations | None = None, *, pieces: int = 1) -> None:
        self._most = pieces
        self._size = _LEAST if pieces > 1 else _ALL  # of a piece
        self._raw: list[Durations] = []
        self._sketches: list[Sketch] = []
        self.held = 0  # values stored individually, after those of the sketches
        if values is not None:
            self.append(values)

    def append(self, values: Durations) -> None:
        if not len(values):
            return
        # A view would keep its whole table alive.
        self._raw.append(values if values.base is None else values.copy())
        self.held += len(values)
        if self.held > (_WAITING if self._sketches else EXACT):
            self._fold()
        elif len(self._raw) > _MANY:
            self.values()

    def condense(self, pieces: int) -> None:
        """Keep only sketches, at most `pieces` of them."""
        self._most = min(self._most, pieces)
        if self._most == 1:
            self._size = _ALL
        if self.held:
            self._fold()
        self._join_neighbours()

    def _fold(self) -> None:
        values = self.values()
        self._raw, self.held = [], 0
        while len(values):
            room = max(self._size - self._sketches[-1].count, 0) if self._sketches else 0
            fresh, values = values[: room or self._size], values[room or self._size :]
            if room > 0:
                self._sketches[-1] = join([self._sketches[-1], sketch(fresh)])
            else:
                self._sketches.append(sketch(fresh))
        self._join_neighbours()

    def _join_neighbours(self) -> None:
        while len(self._sketches) > self._most:
            self._size = min(2 * self._size, _ALL)
            parts = self._sketches
            self._sketches = [join(parts[start : start + 2]) for start in range(0, len(parts), 2)]

    # --- reading

    @property
    def count(self) -> int:
        return self.held + sum(part.count for part in self._sketches)

    @property
    def is_exact(self) -> bool:
        return not self._sketches

    def values(self) -> Durations:
        """Return the values stored individually."""
        if len(self._raw) != 1:
            self._raw = [np.concatenate(self._raw) if self._raw else np.empty(0, dtype=np.int64)]
        return self._raw[0]

    def pieces(self) -> list[Sketch]:
        """Return all values as sketches."""
        return [*self._sketches, *([sketch(self.values())] if self.held else [])]

    def sorted(self) -> "Sorted":
        """Return at least one value sorted, for access by rank."""
        return Ordered(np.sort(self.values())) if self.is_exact else join(self.pieces())

    @property
    def total(self) -> int:
        return int(self.values().sum()) + sum(part.total for part in self._sketches)

    @property
    def mean(self) -> int:
        return self.total // self.count if self.count else 0

    @property
    def deviation(self) -> int:
        """Sample standard deviation, in whole nanoseconds; 0 for fewer than two values."""
        if self.count < 2:
            return 0
        squares = _squares(self.values(), self.mean) if self.is_exact else join(self.pieces()).squares
        return math.isqrt(int(squares) // (self.count - 1))

    def percentile(self, p: float) -> int:
        """Return a percentile; 0 without values."""
        if self.is_exact:
            return percentile(self.values(), p) if self.held else 0
        return join(self.pieces()).at(rank(p, self.count))

    def last(self, count: int) -> "Series":
        """Return the last `count` values, or a few more if there are only sketches."""
        found = Series(pieces=self._most)
        if self.is_exact:
            found.append(self.values()[-count:])
            return found
        pieces = self.pieces()
        after = np.cumsum([part.count for part in reversed(pieces)])
        found._sketches = pieces[-1 - int(np.searchsorted(after, count)) :]
        return found

    def distribution(self, more: Iterable[float] = ()) -> Distribution:
        """Compute all figures, with these percentiles besides the usual ones."""
        if not self.count:
            return Distribution(0, 0, 0, 0, 0, ())
        whole = self.sorted()
        return Distribution(
            count=whole.count,
            mean_ns=self.mean,
            std_ns=self.deviation,
            min_ns=whole.least,
            max_ns=whole.greatest,
            percentiles=tuple((p, whole.at(rank(p, whole.count))) for p in sorted({*PERCENTILES, *more})),
            histogram=whole.histogram(),
        )


class Ordered:
    """The values of a series in order, at least one: the exact counterpart of a sketch."""

    __slots__ = ("_values", "count", "greatest", "least")

    def __init__(self, ordered: Durations) -> None:
        self._values = ordered
        self.count = len(ordered)
        self.least, self.greatest = int(ordered[0]), int(ordered[-1])

    def at(self, index: int) -> int:
        return int(self._values[index])

    def around(self, index: int) -> tuple[int, int]:
        return self.at(index), self.at(index)

    def histogram(self) -> tuple[tuple[int, int], ...]:
        return _histogram(self._values)


Sorted = Ordered | Sketch


def joined(parts: Sequence[Series]) -> Series:
    """Concatenate series into one; the parts are not modified."""
    if len(parts) == 1:
        return parts[0]
    whole = Series(pieces=PIECES)
    if all(part.is_exact for part in parts):
        whole._raw = [part.values() for part in parts if part.held]
        whole.held = sum(part.held for part in parts)
    else:
        whole._sketches = [piece for part in parts for piece in part.pieces()]
    return whole


def _squares(durations: Durations, centre: int) -> float:
    """Sum the squared distances to the centre."""
    total = 0.0
    for start in range(0, len(durations), 1 << 20):  # in blocks: a long run must not be in memory three times
        block = (durations[start : start + (1 << 20)] - centre).astype(np.float64)
        total += float(block @ block)
    return total


def _histogram(ordered: Durations, counts: Durations | None = None) -> tuple[tuple[int, int], ...]:
    """Count values below bounds that grow by a constant factor, without empty bins; `counts` weights each value."""
    low, high = max(int(ordered[0]), 1), max(int(ordered[-1]), 1)
    first = math.floor(math.log2(low) * BINS_PER_OCTAVE)
    last = math.ceil(math.log2(high) * BINS_PER_OCTAVE) + 1
    bounds = np.ceil(2.0 ** (np.arange(first, last + 1) / BINS_PER_OCTAVE)).astype(np.int64)
    below = np.searchsorted(ordered, bounds, side="left")
    if counts is not None:
        below = np.concatenate(([0], np.cumsum(counts)))[below]
    within = np.diff(below, prepend=0)
    return tuple((int(bound), int(count)) for bound, count in zip(bounds, within, strict=True) if count)
