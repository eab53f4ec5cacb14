"""A series of figures as a line of small bars."""

from collections.abc import Sequence

import numpy as np

BARS = "▁▂▃▄▅▆▇█"
MOST_BARS = 40


def sparkline(values: Sequence[float]) -> str:
    """From the lowest to the highest; long series are averaged down to what fits."""
    if not len(values):
        return ""
    parts = np.array_split(np.asarray(values, dtype=np.float64), min(len(values), MOST_BARS))
    points = np.array([part.mean() for part in parts])
    spread = float(points.max() - points.min())
    if spread == 0:
        return BARS[0] * len(points)
    return "".join(BARS[round(float(point - points.min()) / spread * (len(BARS) - 1))] for point in points)
