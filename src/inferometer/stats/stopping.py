"""When a level has been measured enough. Pure: windows in, a decision out.

Two rules. **Stability**, the classic one: the last three windows agree within a percentage. **Precision**: the 95 %
intervals of throughput and latency are as narrow as asked, or the time is spent.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from inferometer.base.notes import Note, Remark
from inferometer.base.units import NS_PER_MS
from inferometer.stats.measurement import Estimate, WindowFigures

MERGED = 3  # windows the stability rule looks at and a report merges


@dataclass(frozen=True, slots=True)
class Stability:
    """Stop when the last three windows agree, one is over the latency limit, or there were `max_trials`."""

    percentage: float
    max_trials: int
    latency_limit_ms: int
    is_lenient: bool  # asynchronous: a latency that keeps moving is only worth a warning


@dataclass(frozen=True, slots=True)
class StopDecision:
    """What to do after a window."""

    is_done: bool
    is_stable: bool
    remark: Remark | None = None


GO_ON = StopDecision(is_done=False, is_stable=False)


def judge_stability(rule: Stability, windows: Sequence[WindowFigures]) -> StopDecision:
    """The decision after the last of `windows`."""
    recent = windows[-MERGED:]
    if len(recent) == MERGED:
        rates = _agree([window.infer_per_s for window in recent], rule.percentage)
        # By rate the wait before the send grows for ever once the sender cannot keep up; the service may be steady.
        latencies = _agree([window.service_ns for window in recent], rule.percentage)
        if rates and latencies:
            return StopDecision(is_done=True, is_stable=True)
        if any(is_over(window.latency_ns, rule.latency_limit_ms) for window in recent):
            return StopDecision(is_done=True, is_stable=False, remark=_unstable(recent, rule))
        if len(windows) >= rule.max_trials and rates and rule.is_lenient:
            return StopDecision(is_done=True, is_stable=True, remark=_unstable(recent, rule))
    if len(windows) >= rule.max_trials:
        return StopDecision(is_done=True, is_stable=False, remark=_unstable(recent, rule))
    return GO_ON


def is_over(latency_ns: int, limit_ms: int) -> bool:
    """The limit holds in whole milliseconds, as the classic tool has it."""
    return limit_ms > 0 and latency_ns // NS_PER_MS >= limit_ms


def _agree(values: Sequence[float], percentage: float) -> bool:
    return min(values) > 0 and max(values) / min(values) <= 1 + percentage / 100


def _unstable(recent: Sequence[WindowFigures], rule: Stability) -> Remark:
    if len(recent) < MERGED:
        return Remark(
            Note.NOT_STABLE, f"{len(recent)} of the {MERGED} windows that are compared were measured"
        )
    bare = sum(not window.request_count for window in recent)
    if bare:
        return Remark(Note.NOT_STABLE, f"{bare} of the last {MERGED} windows had no good answer")
    rates = [window.infer_per_s for window in recent]
    latencies = [window.service_ns for window in recent]
    apart = []
    if not _agree(rates, rule.percentage):
        apart.append(f"throughput went from {min(rates):g} to {max(rates):g} infer/sec")
    if not _agree(latencies, rule.percentage):
        apart.append(f"latency went from {min(latencies) / 1000:g} to {max(latencies) / 1000:g} usec")
    words = " and ".join(apart)
    return Remark(
        Note.NOT_STABLE, f"in the last {MERGED} windows {words}, more than {rule.percentage:g} % apart"
    )


@dataclass(frozen=True, slots=True)
class Precision:
    """Stop when the intervals are within `precision` of their values, at the latest after `duration_ns`.

    With `is_enough`, which is asked after each window, that decides instead of the intervals.
    """

    precision: float
    duration_ns: int
    is_enough: Callable[[], bool] | None = None


def judge_precision(
    rule: Precision, elapsed_ns: int, estimates: Sequence[tuple[str, Estimate]]
) -> StopDecision:
    """The decision so far; after the time is spent there is always an answer, with the reason when it is not tight."""
    widths = [(name, estimate.relative_half_width) for name, estimate in estimates]
    if all(width is not None and width <= rule.precision for _, width in widths):
        return StopDecision(is_done=True, is_stable=True)
    if elapsed_ns < rule.duration_ns:
        return GO_ON
    loose = ", ".join(
        f"{name} ±{width:.1%}" if width is not None else f"{name} has too few samples for an interval"
        for name, width in widths
        if width is None or width > rule.precision
    )
    return StopDecision(
        is_done=True,
        is_stable=True,
        remark=Remark(Note.NOT_PRECISE, f"asked for ±{rule.precision:.1%}: {loose}"),
    )
