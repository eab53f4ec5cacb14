"""Binomial distribution: tail probabilities, and the interval of a share."""

import math
from collections.abc import Callable

import numpy as np

from inferometer.stats.estimate import Estimate

SIDE = 0.025  # probability of a true share beyond either end of an interval


def share_estimate(count: int, total: int) -> Estimate:
    """Return a share with its exact interval (Clopper and Pearson 1934)."""
    if 2 * count > total:  # the rarer outcome is cheaper to sum
        rest = share_estimate(total - count, total)
        assert rest.limits is not None
        return Estimate(count / total, 1 - rest.limits[1], 1 - rest.limits[0])
    value = count / total
    low = 0.0 if count == 0 else _where(lambda share: at_least(count, total, share) < SIDE, 0.0, value)
    high = _where(lambda share: at_most(count, total, share) >= SIDE, value, 1.0)
    return Estimate(value, low, high)


def _where(is_before: Callable[[float], bool], low: float, high: float) -> float:
    """Find the share between both up to which the condition holds."""
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if is_before(middle) else (low, middle)
    return low


def at_most(successes: float, trials: float, share: float) -> float:
    """Return the probability of at most this many successes; fractional numbers are interpolated."""
    if successes >= trials:
        return 1.0
    count, total = math.floor(successes), math.floor(trials)
    fraction = successes - count
    return float(_below(count, total, share) ** (1 - fraction) * _below(count + 1, total, share) ** fraction)


def at_least(successes: float, trials: float, share: float) -> float:
    if successes < 1:
        return 1.0
    count, total = math.floor(successes), math.ceil(trials)
    fraction = successes - count
    more, fewer = (max(0.0, 1 - _below(number, total, share)) for number in (count, count - 1))
    return float(fewer ** (1 - fraction) * more**fraction)


_EXACT = 20_000  # terms of the sum; beyond, the normal approximation is as good


def _below(count: int, total: int, share: float) -> float:
    if share <= 0 or count >= total:
        return 1.0
    if count > _EXACT:
        spread = math.sqrt(total * share * (1 - share))
        return 0.5 * math.erfc((total * share - count - 0.5) / spread / math.sqrt(2))
    numbers = np.arange(1, count + 1)
    ratios = np.log((total - numbers + 1) / numbers * share / (1 - share))
    logarithms = total * math.log1p(-share) + np.concatenate(([0.0], np.cumsum(ratios)))
    return min(1.0, float(np.exp(logarithms).sum()))
