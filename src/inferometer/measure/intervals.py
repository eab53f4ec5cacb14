"""How sure a figure is: 95 % intervals that allow for correlated requests.

Neighbouring requests share queues and stalls, so the textbook interval of independent values is far too narrow.
Here the measured time is cut into sections; the figure is computed in each; sections that are long enough are nearly
independent of each other, and the spread between them gives the interval (Student's t). If neighbouring sections
still resemble each other they are too short: then half as many, twice as long, are tried.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from inferometer.measure.measurement import Estimate
from inferometer.measure.quantiles import Durations, percentile

MOST_SECTIONS = 32
FEWEST_SECTIONS = 4
ALIKE = 0.3  # correlation of neighbouring sections above which they count as too short

# 97.5 % points of Student's t by degrees of freedom.
_T = {3: 3.182, 7: 2.365, 15: 2.131, 31: 2.040}


Sections = NDArray[np.float64]
"""A figure in each section of the measured time; empty when there are too few values for any."""


def mean_sections(durations: Durations) -> Sections:
    """Means of durations that are in the order of their ends."""
    return _sections(durations, need=2, figure=lambda part: float(part.mean()))


def percentile_sections(durations: Durations, p: float) -> Sections:
    """Percentiles. Each section must hold enough values for that percentile to exist in it."""
    need = math.ceil(2 * 100 / min(p, 100 - p))
    return _sections(durations, need=need, figure=lambda part: float(percentile(part, p)))


def estimate(value: float, sections: Sections) -> Estimate:
    """The value of the whole with the interval that its sections give."""
    count = len(sections)
    if count == 0:
        return Estimate(value)
    deviations = sections - value  # around the figure of the whole, so that bias of the sections counts too
    error = math.sqrt(float(deviations @ deviations) / (count - 1) / count)
    margin = _T[count - 1] * error
    return Estimate(value, max(0.0, value - margin), value + margin)


def rate_interval(value: float, ended_us: NDArray[np.uint32], span_us: int) -> Estimate:
    """Of ends per second within `span_us`; `value` may be in another unit, the interval scales with it."""
    count = len(ended_us)
    for sections in _section_counts(count, need=2):
        edges = np.linspace(0, span_us, sections + 1)
        values = np.diff(np.searchsorted(ended_us, edges[1:-1]), prepend=0, append=count).astype(np.float64)
        if sections == FEWEST_SECTIONS or not _alike(values):
            return estimate(value, values * (value / (count / sections)))
    return Estimate(value)


def _sections(durations: Durations, need: int, figure: Callable[[Durations], float]) -> Sections:
    for sections in _section_counts(len(durations), need):
        values = np.array([figure(part) for part in np.array_split(durations, sections)])
        if sections == FEWEST_SECTIONS or not _alike(values):
            return values
    return np.empty(0)


def _section_counts(count: int, need: int) -> list[int]:
    """How many sections to try, most first; none when there are too few values for any."""
    counts = (MOST_SECTIONS >> shift for shift in range(MOST_SECTIONS.bit_length()))
    return [sections for sections in counts if sections >= FEWEST_SECTIONS and sections * need <= count]


def _alike(values: NDArray[np.float64]) -> bool:
    deviations = values - values.mean()
    spread = float(deviations @ deviations)
    return spread > 0 and float(deviations[:-1] @ deviations[1:]) / spread > ALIKE
