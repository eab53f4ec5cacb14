"""Whether arrivals are Poisson: the Kolmogorov-Smirnov test of their gaps against the exponential distribution."""

import math
from collections.abc import Sequence

import numpy as np


def distance(gaps_s: Sequence[float], rate: float) -> float:
    """The largest difference between the shares of gaps below any length, found and expected."""
    ordered = np.sort(np.asarray(gaps_s))
    expected = 1 - np.exp(-rate * ordered)
    steps = np.arange(len(ordered) + 1) / len(ordered)
    return float(max((steps[1:] - expected).max(), (expected - steps[:-1]).max()))


def p_value(found: float, count: int) -> float:
    """How often true Poisson arrivals would be at least so far off (Kolmogorov's series, Stephens' correction)."""
    root = math.sqrt(count)
    scaled = (root + 0.12 + 0.11 / root) * found
    if scaled < 0.2:
        return 1.0  # the series converges too slowly there, and its value is 1 to twelve digits
    terms = [math.exp(-2 * (k * scaled) ** 2) for k in range(1, 101)]
    return min(max(2 * (sum(terms[::2]) - sum(terms[1::2])), 0.0), 1.0)
