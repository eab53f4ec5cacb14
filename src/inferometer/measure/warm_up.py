"""Warm-up by detection: how many windows at the start are unlike all that follow.

The second half is taken for what the server does when it is warm. Windows at the start count as cold up to the first
one that could belong to it (99.9 % of such a series, by Student's t). When all of the first half stands out, or what
is left still goes up or down, there is no steady part: that is drift, and nothing is left out.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from inferometer.measure.doubts import drift
from inferometer.measure.measurement import WindowFigures

FEWEST_WINDOWS = 6
FAR_SHARE = 0.05  # of the mean: less is no warm-up worth the name

# 99.95 % points of Student's t by degrees of freedom; more than ten change little.
_T = {2: 31.6, 3: 12.9, 4: 8.61, 5: 6.87, 6: 5.96, 7: 5.41, 8: 5.04, 9: 4.78}
_T_MANY = 4.59


def cold_windows(windows: Sequence[WindowFigures]) -> int:
    """How many of the first windows to leave out. Windows with failures are never left out."""
    rates = steady_from(np.array([window.infer_per_s for window in windows]))
    latencies = steady_from(np.array([float(window.latency_ns) for window in windows]))
    cold = max(rates, latencies)
    return 0 if any(window.failed_count for window in windows[:cold]) else cold


def steady_from(values: NDArray[np.float64]) -> int:
    """Where the steady part begins; 0 when nothing at the start stands out, or nothing is steady."""
    if len(values) < FEWEST_WINDOWS:
        return 0
    half = len(values) // 2
    warm = values[half:]
    centre, count = float(warm.mean()), len(warm)
    far = _T.get(count - 1, _T_MANY) * float(warm.std(ddof=1)) * (1 + 1 / count) ** 0.5
    is_like = np.abs(values[:half] - centre) <= max(far, FAR_SHARE * centre)
    if not is_like.any():
        return 0
    start = int(np.argmax(is_like))
    return start if drift(values[start:].tolist()) is None else 0
