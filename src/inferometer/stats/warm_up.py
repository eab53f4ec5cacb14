"""Warm-up by detection: how many windows at the start are slower than all that follow.

The second half is taken for what the server does when it is warm. Windows at the start count as cold up to the first
one that could belong to it (99.9 % of such a series, by Student's t). Cold means slower: fewer requests answered, or
each taking longer. A start with a longer latency because more was answered is a heavier load, not a cold server. A
start that is faster than the rest is never left out: the server got slower, and that belongs to the figures. When all
of the first half stands out, or what is left still goes up or down, there is no steady part: that is drift, and nothing
is left out.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from inferometer.base.units import NS_PER_S
from inferometer.stats.doubts import drift, sparkline
from inferometer.stats.measurement import Doubt, WindowFigures

FEWEST_WINDOWS = 6
FAR_SHARE = 0.05  # of the mean: less is no warm-up worth the name

# 99.95 % points of Student's t by degrees of freedom; more than ten change little.
_T = {2: 31.6, 3: 12.9, 4: 8.61, 5: 6.87, 6: 5.96, 7: 5.41, 8: 5.04, 9: 4.78}
_T_MANY = 4.59


def cold_windows(windows: Sequence[WindowFigures]) -> int:
    """How many of the first windows to leave out. Windows with failures are never left out."""
    rates = np.array([window.infer_per_s for window in windows])
    latencies = np.array([float(window.latency_ns) for window in windows])
    slower = max(steady_from(-rates), steady_from(latencies))
    # Up to the first window that is better than when warm by either figure.
    cold = min(slower, _first_high(rates), _first_high(-latencies))
    return 0 if any(window.failed_count for window in windows[:cold]) else cold


def fast_start(windows: Sequence[WindowFigures]) -> Doubt | None:
    """Whether the level began faster than it went on: such a start is part of the figures, and is named."""
    rates = [window.infer_per_s for window in windows]
    count = steady_from(np.array(rates))
    if not count:
        return None
    seconds = sum(window.duration_ns for window in windows[:count]) / NS_PER_S
    early, later = (float(np.mean(part)) for part in (rates[:count], rates[count:]))
    text = f"the first {seconds:.3g} s had {early:.4g} infer/s, the rest {later:.4g}: the server got slower"
    return Doubt("faster start", text, "throughput", sparkline(rates))


def steady_from(values: NDArray[np.float64]) -> int:
    """Where values are no longer too high; 0 when they are not at the start either, or when nothing is steady."""
    if len(values) < FEWEST_WINDOWS:
        return 0
    is_high = _is_high(values)
    if is_high.all():
        return 0
    start = int(np.argmin(is_high))
    return start if drift(np.abs(values[start:]).tolist()) is None else 0


def _first_high(values: NDArray[np.float64]) -> int:
    """The first window of the first half that is too high; their number when there is none."""
    is_high = _is_high(values)
    return int(np.argmax(is_high)) if is_high.any() else len(values)


def _is_high(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Of the first half, what lies above all that the second half may be."""
    half = len(values) // 2
    warm = values[half:]
    count = len(warm)
    if count < 2:
        return np.zeros(half, dtype=np.bool_)
    centre = float(warm.mean())
    far = _T.get(count - 1, _T_MANY) * float(warm.std(ddof=1)) * (1 + 1 / count) ** 0.5
    found: NDArray[np.bool_] = values[:half] - centre > max(far, FAR_SHARE * abs(centre))
    return found
