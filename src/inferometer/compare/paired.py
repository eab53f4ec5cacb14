"""How far two variants differ, from figures taken in turns.

Both variants were measured in every round, in the one order and then in the other, so what the machine does meanwhile
meets both alike. In each round the logarithm of the ratio of their figures is taken; the interval comes from the
spread of those over the rounds. Four choices:

* A drift of the machine adds to one order what it takes from the other. The half difference of both orders is
  that drift, and is taken out.
* A stall of the machine spoils a round whole. So the mean is trimmed, a fifth at either end, and the interval is the
  one that belongs to a trimmed mean (Yuen 1974: the spread of the values with those ends pulled in).
* Neighbouring rounds may resemble each other; then they tell less than their number says, and the interval widens.
* Who looks at many figures sees a chance difference in one of them. So every interval is wide enough for all of them
  to hold together (Bonferroni): the share of wrong ones is divided among them.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from inferometer.stats.difference import difference
from inferometer.stats.intervals import student_t
from inferometer.stats.measurement import Estimate

CONFIDENCE = 0.98  # of all intervals of a comparison together
TRIMMED = 0.2  # share cut off at either end
TRIMMED_FROM = 10
MOST_ALIKE = 0.8  # correlation of neighbouring pairs that is allowed for
_ENDLESS = 20.0
FEWEST = 4  # pairs without which nothing is said

Logs = NDArray[np.float64]


def paired_percent(base: Sequence[float], other: Sequence[float], looks: int) -> Estimate:
    """The difference in percent; pair n was measured in the one order where n is even, in the other where it is odd.

    `looks` is the number of intervals that shall hold together.
    """
    ratios = np.log(np.asarray(other, dtype=np.float64) / np.asarray(base, dtype=np.float64))
    count = len(ratios)
    if count < FEWEST:
        return Estimate(_percent(float(np.median(ratios))))
    ratios = _without_drift(ratios)
    cut = _cut(count)
    ordered = np.sort(ratios)
    centre = float(ordered[cut : count - cut].mean())
    kept = count - 2 * cut
    pulled_in = np.clip(ratios, ordered[cut], ordered[count - cut - 1])
    error = float(pulled_in.std(ddof=1)) * math.sqrt((count - 1) / (kept * (kept - 1))) * _likeness(pulled_in)
    margin = student_t(1 - (1 - CONFIDENCE) / looks / 2, kept - 2) * error
    return Estimate(_percent(centre), _percent(centre - margin), _percent(centre + margin))


def _without_drift(ratios: Logs) -> Logs:
    even, odd = ratios[::2], ratios[1::2]
    drift = (_trimmed_mean(even) - _trimmed_mean(odd)) / 2
    return ratios - drift * np.where(np.arange(len(ratios)) % 2, -1.0, 1.0)


def _trimmed_mean(values: Logs) -> float:
    cut = _cut(len(values))
    return float(np.sort(values)[cut : len(values) - cut].mean())


def _likeness(ratios: Logs) -> float:
    """How much wider the interval must be as neighbouring pairs resemble each other."""
    deviations = ratios - ratios.mean()
    squares = float(deviations @ deviations)
    alike = float(deviations[:-1] @ deviations[1:]) / squares if squares > 0 else 0.0
    alike = min(max(alike, 0.0), MOST_ALIKE)
    return math.sqrt((1 + alike) / (1 - alike))


def _cut(count: int) -> int:
    """How many to leave out at either end; of few, every one is needed."""
    return int(TRIMMED * count) if count >= TRIMMED_FROM else 0


def _percent(ratio: float) -> float:
    """Of the logarithm of a ratio; where an interval has no end to speak of, one that can be written."""
    return math.expm1(min(ratio, _ENDLESS)) * 100


def unpaired_percent(base: Estimate, other: Estimate, looks: int) -> Estimate:
    """The difference in percent of two figures that were measured apart, from their own 95 % intervals."""
    found = difference(base, other)
    value = found.relative * 100
    if found.low is None or found.high is None or found.low <= -1 or math.isinf(found.high):
        return Estimate(value)
    # How many sections the intervals came from is not in the file; eight are the fewest.
    wider = student_t(1 - (1 - CONFIDENCE) / looks / 2, 7) / student_t(0.975, 7)
    centre, low, high = (math.log1p(part) for part in (found.relative, found.low, found.high))
    return Estimate(
        value, _percent(centre - wider * (centre - low)), _percent(centre + wider * (high - centre))
    )
