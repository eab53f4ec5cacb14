"""Stopping rules of a level, and detection of its warm-up. Pure: windows in, a decision out.

Two rules. **Stability**, the classic one: the last three windows agree within a percentage. **Precision**: the 95 %
intervals of throughput and latency are as narrow as requested, or the time is spent.

**Warm-up** detection finds the windows at the start that are slower than all that follow. The second half is assumed
to show the warm server. Windows at the start count as cold up to the first one that could belong to it (99.9 % of such
a series, by Student's t). Cold means slower: fewer requests answered, or each taking longer. A start with a longer
latency because more requests were answered is a heavier load, not a cold server. A start that is faster than the rest
is never excluded: the server got slower, which is part of the figures. If all of the first half stands out, or the
rest still goes up or down, there is no steady part: that is drift, and nothing is excluded.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from inferometer.base.frozen import frozen
from inferometer.base.notes import Note, Remark
from inferometer.base.units import INFERENCES, NS_PER_MS, duration, plain_number, quantity, share
from inferometer.stats.doubts import FEWEST_WINDOWS, courses, drift, sparkline
from inferometer.stats.estimate import Estimate
from inferometer.stats.measurement import Doubt, WindowFigures

MERGED = 3  # windows that the stability rule compares and a report merges
SHORTEST = 0.5  # minimum share of the given time that the precision rule uses


@frozen
class Stability:
    """Stop when the last three windows agree, one is over the latency limit, or `max_trials` is reached."""

    percentage: float
    max_trials: int
    latency_limit_ms: int
    is_lenient: bool  # asynchronous: an unstable latency only causes a warning
    rate_unit: str = INFERENCES


class StopDecision(NamedTuple):
    """Decision after a window."""

    is_done: bool
    is_stable: bool
    remark: Remark | None = None


GO_ON = StopDecision(is_done=False, is_stable=False)


def judge_stability(rule: Stability, windows: Sequence[WindowFigures]) -> StopDecision:
    """Decide after the last of `windows`."""
    recent = windows[-MERGED:]
    is_full = len(recent) == MERGED
    rates = is_full and _agree([window.infer_per_s for window in recent], rule.percentage)
    # By rate, the wait before the send grows without bound if the sender cannot keep up; the service may be steady.
    if rates and _agree([window.service_ns for window in recent], rule.percentage):
        return StopDecision(is_done=True, is_stable=True)
    is_slow = is_full and any(is_over(window.latency_ns, rule.latency_limit_ms) for window in recent)
    if not is_slow and len(windows) < rule.max_trials:
        return GO_ON
    is_stable = rates and rule.is_lenient and not is_slow
    return StopDecision(is_done=True, is_stable=is_stable, remark=_unstable(recent, rule))


def is_over(latency_ns: int, limit_ms: int) -> bool:
    """Return whether latency exceeds the limit, in whole milliseconds as in the classic tool."""
    return limit_ms > 0 and latency_ns // NS_PER_MS >= limit_ms


def _agree(values: Sequence[float], percentage: float) -> bool:
    return min(values) > 0 and max(values) / min(values) <= 1 + percentage / 100


def _unstable(recent: Sequence[WindowFigures], rule: Stability) -> Remark:
    if len(recent) < MERGED:
        return Remark(
            Note.NOT_STABLE,
            f"only {len(recent)} of the {MERGED} windows needed for a comparison were measured",
        )
    bare = sum(not window.request_count for window in recent)
    if bare:
        return Remark(Note.NOT_STABLE, f"{bare} of the last {MERGED} windows had no successful answer")
    rates = [window.infer_per_s for window in recent]
    latencies = [window.service_ns for window in recent]
    apart = []
    if not _agree(rates, rule.percentage):
        apart.append(
            f"throughput ranged from {quantity(min(rates))} to {quantity(max(rates))} {rule.rate_unit}"
        )
    if not _agree(latencies, rule.percentage):
        apart.append(f"latency ranged from {duration(min(latencies))} to {duration(max(latencies))}")
    words = " and ".join(apart)
    return Remark(
        Note.NOT_STABLE,
        f"in the last {MERGED} windows {words}: more than {plain_number(rule.percentage)} % apart",
    )


@frozen
class Precision:
    """Stop when the intervals are within `precision` of their values, or after `duration_ns`.

    `is_enough`, called after each window, decides instead of the intervals if given.
    """

    precision: float
    duration_ns: int
    is_enough: Callable[[], bool] | None = None
    least_ns: int | None = None  # minimum regardless of precision; None: half of the time

    @property
    def shortest_ns(self) -> float:
        return SHORTEST * self.duration_ns if self.least_ns is None else self.least_ns


def judge_precision(
    rule: Precision, elapsed_ns: int, estimates: Sequence[tuple[str, Estimate]]
) -> StopDecision:
    """Decide so far; once the time is spent the level is done, with a remark if figures are not precise enough."""
    widths = [(name, estimate.relative_half_width) for name, estimate in estimates]
    if all(width is not None and width <= rule.precision for _, width in widths):
        return StopDecision(is_done=True, is_stable=True)
    if elapsed_ns < rule.duration_ns:
        return GO_ON
    loose = ", ".join(
        f"{name} ±{share(width)}" if width is not None else f"{name} has too few samples for an interval"
        for name, width in widths
        if width is None or width > rule.precision
    )
    return StopDecision(
        is_done=True,
        is_stable=True,
        remark=Remark(Note.NOT_PRECISE, f"requested ±{share(rule.precision)}: {loose}"),
    )


# --- warm-up

FAR_SHARE = 0.05  # of the mean: a smaller effect does not count as warm-up

# 99.95 % quantiles of Student's t by degrees of freedom; beyond ten they change little.
_T = {2: 31.6, 3: 12.9, 4: 8.61, 5: 6.87, 6: 5.96, 7: 5.41, 8: 5.04, 9: 4.78}
_T_MANY = 4.59


def cold_windows(windows: Sequence[WindowFigures]) -> int:
    """Return the number of windows to exclude at the start. Windows with failures are never excluded."""
    (_, rates), *rest = courses(windows)
    slow = [-np.array(rates), *(np.array(latencies) for _, latencies in rest)]
    # Up to the first window that is better than the warm state by either figure.
    cold = min(max(map(steady_from, slow)), *(_first_high(-figures) for figures in slow))
    return 0 if any(window.failed_count for window in windows[:cold]) else cold


def fast_start(windows: Sequence[WindowFigures], rate_unit: str) -> Doubt | None:
    """Return a doubt if the level began faster than it continued: such a start is part of the figures."""
    name, rates = courses(windows)[0]
    count = steady_from(np.array(rates))
    if not count:
        return None
    start = duration(sum(window.duration_ns for window in windows[:count]))
    early, later = (float(np.mean(part)) for part in (rates[:count], rates[count:]))
    unit = rate_unit if name == "throughput" else name
    text = (
        f"the first {start} had {quantity(early)} {unit}, the rest {quantity(later)}: the server got slower"
    )
    return Doubt("faster start", text, name, sparkline(rates))


def steady_from(values: NDArray[np.float64]) -> int:
    """Return the index from which values are no longer too high; 0 if they never were, or if no part is steady."""
    if len(values) < FEWEST_WINDOWS:
        return 0
    is_high = _is_high(values)
    if is_high.all():
        return 0
    start = int(np.argmin(is_high))
    return start if drift(np.abs(values[start:]).tolist()) is None else 0


def _first_high(values: NDArray[np.float64]) -> int:
    """Return the first window of the first half that is too high; their number if there is none."""
    is_high = _is_high(values)
    return int(np.argmax(is_high)) if is_high.any() else len(values)


def _is_high(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which values of the first half exceed the plausible range of the second half."""
    half = len(values) // 2
    warm = values[half:]
    count = len(warm)
    if count < 2:
        return np.zeros(half, dtype=np.bool_)
    centre = float(warm.mean())
    far = _T.get(count - 1, _T_MANY) * float(warm.std(ddof=1)) * (1 + 1 / count) ** 0.5
    found: NDArray[np.bool_] = values[:half] - centre > max(far, FAR_SHARE * abs(centre))
    return found
