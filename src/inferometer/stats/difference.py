"""Whether two measurements differ: the relative difference with its 95 % interval."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from inferometer.stats.intervals import FEWEST_SECTIONS, MOST_SECTIONS, margin, mean_estimate
from inferometer.stats.measurement import Estimate


class Direction(Enum):
    """What can be said of the second figure against the first."""

    HIGHER = "higher"
    LOWER = "lower"
    NONE_SHOWN = "no difference shown"
    UNKNOWN = "too few samples to tell"


@dataclass(frozen=True, slots=True)
class RelativeDifference:
    """Of a figure against an earlier one, as shares of the earlier: 0.1 is ten percent more."""

    relative: float
    low: float | None  # of the 95 % interval; None when one of the figures has none
    high: float | None
    change: Direction


def difference(before: Estimate, after: Estimate) -> RelativeDifference:
    """Of two figures that were measured apart from each other, each with its interval.

    Each side's distance to the end of its interval adds up in squares, on the scale of ratios, so that lopsided
    intervals count as they are and swapping the two turns the answer round.
    """
    if before.value <= 0 or after.value <= 0:
        return RelativeDifference(
            0.0 if before.value == after.value else math.inf, None, None, Direction.UNKNOWN
        )
    relative = after.value / before.value - 1
    down, up = _distances(before), _distances(after)
    if down is None or up is None:
        return RelativeDifference(relative, None, None, Direction.UNKNOWN)
    ratio = math.log(after.value / before.value)
    low = math.expm1(ratio - math.hypot(up[0], down[1]))
    high = math.expm1(ratio + math.hypot(up[1], down[0]))
    return RelativeDifference(relative, low, high, _change(low, high))


def difference_of_samples(before: Sequence[float], after: Sequence[float]) -> RelativeDifference:
    """Of the means of two series, such as the same figure of each window; eight values or more each."""
    return difference(estimate_of_samples(before), estimate_of_samples(after))


def estimate_of_samples(samples: Sequence[float]) -> Estimate:
    """The mean of a series with its interval, neighbours being alike or not; without one when there are too few."""
    values = np.asarray(samples, dtype=np.float64)
    if not len(values):
        return Estimate(0.0)
    count = MOST_SECTIONS
    while count > len(values):
        count //= 2
    if count < FEWEST_SECTIONS:
        return Estimate(float(values.mean()))
    sections = np.array([part.mean() for part in np.array_split(values, count)])
    return mean_estimate(float(values.mean()), margin(sections))


def _distances(estimate: Estimate) -> tuple[float, float] | None:
    """From the value down to the low end and up to the high end, as logarithms of ratios."""
    if estimate.low is None or estimate.high is None:
        return None
    down = math.inf if estimate.low <= 0 else math.log(estimate.value / estimate.low)
    return down, math.log(estimate.high / estimate.value)


def _change(low: float, high: float) -> Direction:
    if low > 0:
        return Direction.HIGHER
    return Direction.LOWER if high < 0 else Direction.NONE_SHOWN
