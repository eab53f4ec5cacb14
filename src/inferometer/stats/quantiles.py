"""Percentiles and other figures of a set of durations; one definition everywhere."""

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from inferometer.stats.measurement import Distribution

PERCENTILES = (1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99)
BINS_PER_OCTAVE = 16  # of a histogram: bounds 4 % apart

Durations = NDArray[np.int64]


def rank(p: float, count: int) -> int:
    """Index of percentile `p` among `count` sorted values: the nearest one to p/100 of the way."""
    return math.floor(p / 100 * (count - 1) + 0.5)


def percentile(durations: Durations, p: float) -> int:
    index = rank(p, len(durations))
    return int(np.partition(durations, index)[index])


def mean(durations: Durations) -> int:
    return int(durations.sum()) // len(durations) if len(durations) else 0


def deviation(durations: Durations) -> int:
    """Sample standard deviation, whole nanoseconds; 0 for fewer than two values."""
    if len(durations) < 2:
        return 0
    return math.isqrt(_square_sum(durations, mean(durations)) // (len(durations) - 1))


def _square_sum(durations: Durations, centre: int) -> int:
    total = 0.0
    for start in range(0, len(durations), 1 << 20):  # in blocks: a long run must not be held three times
        block = (durations[start : start + (1 << 20)] - centre).astype(np.float64)
        total += float(block @ block)
    return int(total)


def distribution(durations: Durations, more: Iterable[float] = ()) -> Distribution:
    """All figures of a set."""
    count = len(durations)
    if count == 0:
        return Distribution(0, 0, 0, 0, 0, ())
    ordered = np.sort(durations)
    return Distribution(
        count=count,
        mean_ns=mean(durations),
        std_ns=deviation(durations),
        min_ns=int(ordered[0]),
        max_ns=int(ordered[-1]),
        percentiles=tuple((p, int(ordered[rank(p, count)])) for p in sorted({*PERCENTILES, *more})),
        histogram=histogram(ordered),
    )


def histogram(ordered: Durations, counts: Durations | None = None) -> tuple[tuple[int, int], ...]:
    """Counts below bounds that grow by a constant factor, empty ones left out; `counts` of each value, if not one."""
    low, high = max(int(ordered[0]), 1), max(int(ordered[-1]), 1)
    first = math.floor(math.log2(low) * BINS_PER_OCTAVE)
    last = math.ceil(math.log2(high) * BINS_PER_OCTAVE) + 1
    bounds = np.ceil(2.0 ** (np.arange(first, last + 1) / BINS_PER_OCTAVE)).astype(np.int64)
    below = np.searchsorted(ordered, bounds, side="left")
    if counts is not None:
        below = np.concatenate(([0], np.cumsum(counts)))[below]
    within = np.diff(below, prepend=0)
    return tuple((int(bound), int(count)) for bound, count in zip(bounds, within, strict=True) if count)
