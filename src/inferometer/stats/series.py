"""Durations in the order of their ends: each of them while they are few, sketches of pieces when they are very many.

Memory must not grow with the length of a run. Up to `EXACT` values are kept as they are. Of more, each piece of values
that follow each other becomes a sketch (`stats.sketch`); when there are too many pieces, neighbours are joined.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from inferometer.stats import quantiles
from inferometer.stats.measurement import Distribution
from inferometer.stats.sketch import Durations, Sketch, join, sketch

EXACT = 1 << 19  # values of a series that are kept as they are
PIECES = 256  # most sketches of a series whose order matters
_LEAST = 1 << 12  # values of a piece
_WAITING = 1 << 15  # values that become sketches at a time
_MANY = 256  # arrays that wait to be put together

Places = NDArray[np.int64]


class Series:
    """Grows at its end. Where the order does not matter, one piece is enough."""

    __slots__ = ("_most", "_raw", "_size", "_sketches", "held")

    def __init__(self, values: Durations | None = None, *, pieces: int = 1) -> None:
        self._most = pieces
        self._size = _LEAST  # of a piece
        self._raw: list[Durations] = []
        self._sketches: list[Sketch] = []
        self.held = 0  # values that are kept as they are; they come after those of the sketches
        if values is not None:
            self.append(values)

    def append(self, values: Durations) -> None:
        if not len(values):
            return
        self._raw.append(
            values if values.base is None else values.copy()
        )  # a view would keep all of its table
        self.held += len(values)
        if self.held > (_WAITING if self._sketches else EXACT):
            self._fold()
        elif len(self._raw) > _MANY:
            self.values()

    def condense(self, pieces: int) -> None:
        """Keep sketches only, and so many at most."""
        self._most = min(self._most, pieces)
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
            self._size *= 2
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
        """Those that are kept as they are."""
        if len(self._raw) != 1:
            self._raw = [np.concatenate(self._raw) if self._raw else np.empty(0, dtype=np.int64)]
        return self._raw[0]

    def pieces(self) -> list[Sketch]:
        """All values, as sketches."""
        return [*self._sketches, *([sketch(self.values())] if self.held else [])]

    def sorted(self) -> "Sorted":
        """For reading values by their rank; of at least one value."""
        return Ordered(np.sort(self.values())) if self.is_exact else join(self.pieces())

    @property
    def total(self) -> int:
        return int(self.values().sum()) + sum(part.total for part in self._sketches)

    @property
    def mean(self) -> int:
        return self.total // self.count if self.count else 0

    @property
    def deviation(self) -> int:
        """Sample standard deviation; 0 for fewer than two values."""
        if self.is_exact:
            return quantiles.deviation(self.values())
        return _deviation(join(self.pieces()))

    def percentile(self, p: float) -> int:
        """0 when there are no values."""
        if self.is_exact:
            return quantiles.percentile(self.values(), p) if self.held else 0
        whole = join(self.pieces())
        return whole.at(quantiles.rank(p, whole.count))

    def last(self, count: int) -> "Series":
        """The last values, this many of them, or a few more where there are only sketches."""
        found = Series(pieces=self._most)
        if self.is_exact:
            found.append(self.values()[-count:])
            return found
        pieces = self.pieces()
        after = np.cumsum([part.count for part in reversed(pieces)])
        found._sketches = pieces[-1 - int(np.searchsorted(after, count)) :]
        return found

    def distribution(self, more: Iterable[float] = ()) -> Distribution:
        if self.is_exact:
            return quantiles.distribution(self.values(), more)
        whole = join(self.pieces())
        percentiles = sorted({*quantiles.PERCENTILES, *more})
        return Distribution(
            count=whole.count,
            mean_ns=whole.total // whole.count,
            std_ns=_deviation(whole),
            min_ns=whole.least,
            max_ns=whole.greatest,
            percentiles=tuple((p, whole.at(quantiles.rank(p, whole.count))) for p in percentiles),
            histogram=quantiles.histogram(whole.values(), whole.counts),
        )


class Ordered:
    """Values in order, by their rank: what a sketch is, exactly."""

    __slots__ = ("_values", "count")

    def __init__(self, ordered: Durations) -> None:
        self._values = ordered
        self.count = len(ordered)

    def at(self, index: int) -> int:
        return int(self._values[index])

    def around(self, index: int) -> tuple[int, int]:
        return self.at(index), self.at(index)


Sorted = Ordered | Sketch


def joined(parts: Sequence[Series]) -> Series:
    """One after the other, as one series; the parts stay as they are."""
    if len(parts) == 1:
        return parts[0]
    whole = Series(pieces=PIECES)
    if all(part.is_exact for part in parts):
        whole._raw = [part.values() for part in parts if part.held]
        whole.held = sum(part.held for part in parts)
    else:
        whole._sketches = [piece for part in parts for piece in part.pieces()]
    return whole


def _deviation(whole: Sketch) -> int:
    return math.isqrt(int(whole.squares) // (whole.count - 1)) if whole.count > 1 else 0
