"""The limit of the time per token, from the times themselves.

The time per token of an answer is a mean over many tokens: within a narrow range of loads it goes from always within
the limit to always beyond it. So the share of answers beyond the limit says little before it says everything, while
the times themselves approach the limit steadily. In a batching engine a step takes longer for each answer in progress,
and answers in progress are the load times how long an answer takes. It follows that tokens per second of an answer
fall linearly with the rate of requests, and that the time per token grows linearly with the requests in flight. If many
answers are slow for another reason, such as pauses, shares are used after all.

A line is fitted to the times of all loads, mostly near the limit. The distribution around the line is taken to be the
same at all loads; where its quantile crosses the limit is the load that just meets the SLO. Answers at the same time
are slow together, so the error is that of resampled blocks of time, which also leave the spread of answers uncertain.
If loads deviate from the line by more than that, it is increased (Birge ratio).
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from inferometer.base.frozen import frozen
from inferometer.find.fit import Posterior

Floats = NDArray[np.float64]

LEAST_ANSWERS = 40
LEAST_BLOCKS = 6
LEAST_RATIO = 1.15  # of the highest load to the lowest
NEARBY = 0.3  # logarithm of the load from the limit at which answers count half
CURVE_ERROR = 0.02  # relative error of the limit, because the line is not exact,
BEYOND_ERROR = 0.3  # and its increase per logarithm of the load beyond the loads measured
RESAMPLES = 200
SPREAD_DEGREES = 2  # degrees of freedom of the spread of answers for each block
POINTS = 240
OUTLIER = 4.0  # standard deviations from the line, estimated robustly,
RARE = 0.2  # and the most answers that far away, relative to those allowed beyond the limit
NORMAL = 1.4826  # standard deviation of a normal distribution relative to the median deviation
REACH = 4.0  # factor beyond the loads measured within which the limit is searched


@frozen
class Paced:
    """The times per token of a run relative to the limit, in blocks that are independent of each other."""

    load: float
    blocks: tuple[Floats, ...]
    is_open: bool

    @property
    def heights(self) -> list[Floats]:
        """Return what changes linearly with the load, and grows with the time per token."""
        return [-1 / block if self.is_open else block for block in self.blocks]


def pace_limit(share: float, runs: Sequence[Paced]) -> Posterior | None:
    """Fit the load at which this share of the answers is beyond the limit; None if there are too few answers, or the
    loads are too close to each other to show how the time per token grows."""
    blocks = [block for run in runs for block in run.heights]
    loads = np.repeat([run.load for run in runs], [len(run.blocks) for run in runs])
    if len(blocks) < LEAST_BLOCKS or loads.max() < LEAST_RATIO * loads.min():
        return None
    if sum(map(len, blocks)) < LEAST_ANSWERS:
        return None
    limit = -1.0 if runs[0].is_open else 1.0
    middle = math.sqrt(loads.min() * loads.max())
    for _ in range(3):
        line = _Line(loads, blocks, middle)
        middle = line.crossing(share, limit)
    if line.has_heavy_tail(share):
        return None
    lines = line.at(loads)
    rests = [block - height for block, height in zip(blocks, lines, strict=True)]
    source, degrees = np.random.default_rng(0), SPREAD_DEGREES * (len(blocks) - 2)
    found = []
    for spread in np.sqrt(degrees / source.chisquare(degrees, size=RESAMPLES)):
        drawn = [rests[number] for number in source.integers(len(rests), size=len(rests))]
        again = _Line(loads, [height + rest for height, rest in zip(lines, drawn, strict=True)], middle)
        found.append(again.crossing(share, limit, spread))
    logs = math.log(middle) + (np.log(found) - math.log(middle)) * line.birge(rests)
    outside = max(0.0, math.log(middle / loads.max()), math.log(loads.min() / middle))
    return _posterior(logs, math.hypot(CURVE_ERROR, BEYOND_ERROR * outside))


class _Line:
    """The weighted least-squares line through the means of blocks, and the distribution around it."""

    def __init__(self, loads: Floats, blocks: Sequence[Floats], middle: float) -> None:
        self.loads = loads
        self.weights = 1 / (1 + (np.log(loads / middle) / NEARBY) ** 2)
        self.weights /= self.weights.sum()
        means = np.array([block.mean() for block in blocks])
        self.centre = float(self.weights @ loads)
        away = self.weights * (loads - self.centre)
        self.level, self.slope = float(self.weights @ means), float(away @ means / (away @ loads))
        sizes = [len(block) for block in blocks]
        spread = math.sqrt(len(blocks) / (len(blocks) - 2))  # lost by fitting the line to them
        self.rests = spread * (np.concatenate(blocks) - np.repeat(self.at(loads), sizes))
        self.shares = np.repeat(self.weights / sizes, sizes)

    def at(self, loads: Floats) -> Floats:
        found: Floats = self.level + self.slope * (loads - self.centre)
        return found

    def crossing(self, share: float, limit: float, spread: float = 1.0) -> float:
        """Return the load at which this share is beyond the limit, with answers spread this much more widely."""
        order = np.argsort(self.rests)
        below = np.cumsum(self.shares[order]) - self.shares[order] / 2
        rise = limit - self.level - spread * float(np.interp(1 - share, below, self.rests[order]))
        low, high = self.loads.min() / REACH, self.loads.max() * REACH
        if self.slope <= 0:
            return float(high if rise > 0 else low)
        return float(np.clip(self.centre + rise / self.slope, low, high))

    def has_heavy_tail(self, share: float) -> bool:
        """Return whether answers are slow for another reason than the load, such as pauses."""
        spread = NORMAL * float(np.median(np.abs(self.rests)))
        return float(self.shares[self.rests > OUTLIER * spread].sum()) > RARE * share

    def birge(self, rests: Sequence[Floats]) -> float:
        """Return how far loads deviate from the line, relative to what blocks explain; at least 1."""
        means = np.array([rest.mean() for rest in rests])
        whole, runs = np.unique(self.loads, return_inverse=True)
        if len(whole) < 3:
            return 1.0
        weights = np.bincount(runs, self.weights)
        away = np.bincount(runs, self.weights * means) / weights
        within = means - away[runs]
        degrees = len(means) - len(whole)
        variance = float(within @ within) / degrees if degrees else 0.0
        between = float(np.bincount(runs) @ away**2) / (len(whole) - 2)
        return math.sqrt(max(1.0, between / variance)) if variance else 1.0


def _posterior(logs: Floats, error: float) -> Posterior:
    """Return the distribution of these logarithms of the limit, each with a normal error."""
    places = np.linspace(logs.min() - 4 * error, logs.max() + 4 * error, POINTS)
    away = (places[:, None] - logs[None, :]) / error
    weights = np.exp(-away * away / 2).sum(axis=1)
    return Posterior(places, weights / weights.sum())
