"""How sure a figure is: 95 % intervals that allow for correlated requests.

Neighbouring requests share queues and stalls, so the textbook interval of independent values is far too narrow. Here
the measured time is cut into sections of equal length, and the spread between sections gives the interval of their
mean (Student's t). Neighbouring sections that still resemble each other are too short: then half as many, twice as
long, are taken; what likeness remains widens the interval as in a series of which each value remembers the last.

A percentile is not a mean, but the share of requests below a duration is. So the interval of that share is found at
the percentile itself, and the two percentiles at its ends are the interval: lopsided where the tail is. When the
share's interval reaches beyond all requests there are too few for this percentile, and no interval is given.
"""

import math

import numpy as np
from numpy.typing import NDArray

from inferometer.measure.measurement import Estimate
from inferometer.measure.quantiles import Durations, percentile, rank

MOST_SECTIONS = 64
FEWEST_SECTIONS = 8
LEAST_VALUES = 2  # in a section
LEAST_ENDS = 4  # in a section of time, so that where its border falls hardly matters
ALIKE = 0.3  # correlation of neighbouring sections above which they count as too short
MOST_ALIKE = 0.8  # what is allowed for when they cannot be made longer
SAMPLE = 1 << 17  # values that are enough to know where a percentile lies

# 97.5 % points of Student's t by degrees of freedom.
_T = {7: 2.365, 15: 2.131, 31: 2.040, 63: 1.998}

Sections = NDArray[np.float64]
"""A figure in each section; the number of sections is a power of two."""


def margin(sections: Sections) -> float:
    """Half the width of the 95 % interval of the mean of figures that follow each other."""
    while True:
        deviations = sections - sections.mean()
        squares = float(deviations @ deviations)
        count = len(sections)
        if squares == 0:
            return 0.0
        alike = (
            float(deviations[:-1] @ deviations[1:]) / squares + 1 / count
        )  # the estimate is too low by as much
        if alike <= ALIKE or count == FEWEST_SECTIONS:
            break
        sections = sections.reshape(-1, 2).mean(axis=1)
    alike = min(max(alike, 0.0), MOST_ALIKE)
    error = math.sqrt(squares / (count - 1) / count * (1 + alike) / (1 - alike))
    return _T[count - 1] * error


def mean_margin(durations: Durations) -> float | None:
    """Of the mean of durations that are in the order of their ends; None when there are too few."""
    count = _section_count(len(durations), LEAST_VALUES)
    if count is None:
        return None
    starts, sizes = _sections(len(durations), count)
    return margin(np.add.reduceat(durations, starts) / sizes)


def percentile_margin(durations: Durations, p: float) -> float | None:
    """Of the share of durations up to percentile `p`, which is near p/100."""
    count = _section_count(len(durations), LEAST_VALUES)
    if count is None:
        return None
    border = percentile(durations[:: len(durations) // SAMPLE + 1], p)
    is_below = durations <= border
    starts, sizes = _sections(len(durations), count)
    parts = zip(starts.tolist(), sizes.tolist(), strict=True)
    below = [np.count_nonzero(is_below[start : start + size]) for start, size in parts]
    return margin(np.array(below) / sizes)


def mean_estimate(value: float, width: float | None) -> Estimate:
    """The mean with its interval."""
    return Estimate(value) if width is None else Estimate(value, max(0.0, value - width), value + width)


def percentile_estimate(ordered: Durations, p: float, width: float | None) -> Estimate:
    """The percentile with its interval, out of all durations, sorted."""
    last = len(ordered) - 1
    value = float(ordered[rank(p, last + 1)])
    if width is None:
        return Estimate(value)
    reach = width + 0.5 / (last + 1)
    low, high = p / 100 - reach, p / 100 + reach
    if low < 0 or high > 1:
        return Estimate(value)
    return Estimate(value, float(ordered[math.floor(low * last)]), float(ordered[math.ceil(high * last)]))


def rate_interval(value: float, ended_us: NDArray[np.uint32], span_us: int) -> Estimate:
    """Of ends per second within `span_us`; `value` may be in another unit, the interval scales with it."""
    total = len(ended_us)
    count = _section_count(total, LEAST_ENDS)
    if count is None:
        return Estimate(value)
    width = margin(np.diff(_ended_by(np.linspace(0, span_us, count + 1), ended_us, span_us)))
    return mean_estimate(value, value * width / (total / count))


def _ended_by(edges: Sections, ended_us: NDArray[np.uint32], span_us: int) -> Sections:
    """How many had ended at each time. Between two ends the count grows evenly: a steady server has no spread."""
    after = np.searchsorted(ended_us, edges, side="right")
    last = len(ended_us) - 1
    before_us = np.where(after > 0, ended_us[np.maximum(after - 1, 0)], 0).astype(np.float64)
    next_us = np.where(after <= last, ended_us[np.minimum(after, last)], span_us).astype(np.float64)
    part = np.divide(
        edges - before_us, next_us - before_us, out=np.zeros_like(edges), where=next_us > before_us
    )
    counts: Sections = after + np.where(after <= last, part, 0.0)
    counts[0], counts[-1] = 0.0, last + 1
    return counts


def _sections(values: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where sections of as good as equal size begin, and their sizes."""
    sizes = np.full(count, values // count)
    sizes[: values % count] += 1
    return np.cumsum(sizes) - sizes, sizes


def _section_count(values: int, least: int) -> int | None:
    """How many sections to cut so many values into; None when there are too few for any."""
    count = MOST_SECTIONS
    while count * least > values:
        count //= 2
        if count < FEWEST_SECTIONS:
            return None
    return count
