"""Detection of a shift for the worse in a history, up to and including its newest runs.

A change too small for a single run can be shown by several. Every split of the history into earlier and recent runs is
examined; the strongest difference of their means counts if random orders of the same runs hardly ever show one as
strong (permutation test). This holds for noise of any shape, as long as runs are independent. A slow drift is a strong
split as well.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from inferometer.stats.estimate import Estimate
from inferometer.stats.intervals import student_t
from inferometer.stats.trend import SURE, Logs, pulled_in

FEWEST_BEFORE = 6
FEWEST_RECENT = 2
_BACK = 0.25  # share of a change within which new runs count as back at the old level
_ORDERS = 20  # expected number of equally strong random orders at the tested rate
_MOST_ORDERS = 50_000


class LevelShift(NamedTuple):
    """A shift from run number `start` on: the change in percent, and the probability of one as strong by chance.

    `is_clear` if the new runs are closer to the new level than to the old one.
    """

    start: int
    percent: Estimate
    chance: float
    is_clear: bool


def level_shift(logs: Sequence[float], new: int, *, sign: int, rate: float) -> LevelShift | None:
    """Return the strongest change for the worse that includes the last `new` runs; None if there is none.

    `sign` is 1 if higher is worse. `rate` is the smallest probability that must be resolved.
    """
    values = pulled_in(np.asarray(logs, dtype=np.float64)) * sign
    splits = np.arange(FEWEST_BEFORE, len(values) - max(new, FEWEST_RECENT - 1))
    if not len(splits) or not np.ptp(values) > 0:
        return None
    strengths = _strengths(values[None], splits)[0]
    place = int(strengths.argmax())
    split, strongest = int(splits[place]), float(strengths[place])
    before, after = values[:split], values[split:]
    size = float(after.mean() - before.mean())
    worse = float(values[-new:].mean() - before.mean())
    if size <= 0 or worse < size * _BACK:
        return None
    chance = _chance(values, splits, strongest, rate)
    return LevelShift(split, _percent(before, after, sign), chance, worse >= size / 2)


def _strengths(rows: Logs, splits: NDArray[np.int64]) -> Logs:
    """Return Student's t of the recent against the earlier runs, for each row at each split."""
    count = rows.shape[1]
    centred = rows - rows.mean(axis=1, keepdims=True)
    sums = np.cumsum(centred, axis=1)[:, splits - 1]
    between = -sums * np.sqrt(count / (splits * (count - splits)))
    squares = (centred**2).sum(axis=1, keepdims=True)
    left = np.maximum(squares - between**2, 1e-12 * squares)
    found: Logs = between / np.sqrt(left / (count - 2))
    return found


def _chance(values: Logs, splits: NDArray[np.int64], strongest: float, rate: float) -> float:
    """Return the probability of a change as strong by chance. Equal histories get equal random orders."""
    orders = min(_MOST_ORDERS, math.ceil(_ORDERS / rate))
    rows = np.random.default_rng(len(values)).permuted(np.tile(values, (orders, 1)), axis=1)
    as_strong = int((_strengths(rows, splits).max(axis=1) >= strongest * (1 - 1e-9)).sum())
    return (as_strong + 1) / (orders + 1)


def _percent(before: Logs, after: Logs, sign: int) -> Estimate:
    freedom = len(before) + len(after) - 2
    squares = sum(float(((part - part.mean()) ** 2).sum()) for part in (before, after))
    error = math.sqrt(squares / freedom * (1 / len(before) + 1 / len(after)))
    margin = student_t((1 + SURE) / 2, freedom) * error
    size = sign * float(after.mean() - before.mean())
    return Estimate(*(math.expm1(size + part) * 100 for part in (0.0, -margin, margin)))
