"""Axes of times and loads, in units people read at a glance."""

from collections.abc import Callable, Sequence

from inferometer.base.units import NS_PER_MS, NS_PER_S, NS_PER_US
from inferometer.report.document import ChartAxis, Spread

LOG_RATIO = 30  # from slowest to fastest, above which a linear axis would hide the fast ones
RATE = "throughput (infer/s)"

_UNITS = ((NS_PER_S, "s"), (NS_PER_MS, "ms"), (NS_PER_US, "µs"), (1, "ns"))


def time_axis(title: str, times_ns: Sequence[float]) -> ChartAxis:
    """One unit for the whole axis; or, where the times are far apart, each tick with its own."""
    positive = [ns for ns in times_ns if ns > 0]
    most, least = max(positive, default=1.0), min(positive, default=1.0)
    if most / least > LOG_RATIO:
        return ChartAxis(f"{title} (log scale)", _with_unit, Spread.LOG)
    scale, unit = next((row for row in _UNITS[:2] if most >= row[0]), _UNITS[2])
    return ChartAxis(f"{title} ({unit})", _in(scale))


def _in(scale: int) -> Callable[[float], str]:
    return lambda ns: plain_number(ns / scale)


def _with_unit(ns: float) -> str:
    scale, unit = next((row for row in _UNITS if ns >= row[0] * (1 - 1e-9)), _UNITS[-1])
    return f"{plain_number(ns / scale)} {unit}"


def rate_axis() -> ChartAxis:
    return ChartAxis(RATE, plain_number)


def plain_number(value: float) -> str:
    """Without needless digits, and never in powers of ten: `0.25`, `40`, `12,500`."""
    text = f"{value:,.6g}" if abs(value) < 1000 else f"{value:,.0f}"
    return text if "e" not in text else f"{value:,.6f}".rstrip("0").rstrip(".")
