"""Axes: in which unit they count, where a value lies on a drawing, and which values are worth a tick."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from inferometer.base.units import NS_PER_MS, NS_PER_S, NS_PER_US
from inferometer.report.document import ChartAxis, Spread

TAIL_TICKS = (0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999)
LEAST_RANGE = 1e-9  # less than that is nothing
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
LOG_RATIO = 30  # from slowest to fastest, above which a linear axis would hide the fast ones
RATE = "throughput (infer/s)"

_UNITS = ((NS_PER_S, "s"), (NS_PER_MS, "ms"), (NS_PER_US, "µs"), (1, "ns"))


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to pixels, along one axis."""

    spread: Spread
    low: float  # as laid out: of a log axis the logarithm
    high: float
    start: float  # pixels
    end: float
    ticks: tuple[float, ...]

    def place(self, value: float) -> float:
        """Where the value lies; what a log axis has no place for lies at its low end."""
        if self.spread is Spread.LOG:
            value = max(value, 10**self.low)
        part = (laid_out(self.spread, value) - self.low) / (self.high - self.low)
        return self.start + part * (self.end - self.start)


def laid_out(spread: Spread, value: float) -> float:
    """A value as its axis counts it."""
    if spread is Spread.LOG:
        return math.log10(value)
    if spread is Spread.TAIL:
        return -math.log10(1 - value)
    return value


def scale(axis: ChartAxis, values: Sequence[float], *, start: float, end: float, ticks: int) -> Scale:
    """An axis around the values, with about so many ticks. A linear one begins at 0."""
    if axis.spread is Spread.LOG:
        low, high, marks = _log_range([value for value in values if value > 0], ticks)
    elif axis.spread is Spread.TAIL:
        high = max((laid_out(axis.spread, value) for value in values), default=1.0)
        low, high, marks = 0.0, max(high, 1.0), TAIL_TICKS
    else:
        low, high, marks = _linear_range(values, ticks, 1.0 if axis.is_whole else 0.0)
    shown = tuple(mark for mark in marks if low <= laid_out(axis.spread, mark) <= high + 1e-9)
    return Scale(axis.spread, low, high, start, end, shown)


def _linear_range(
    values: Sequence[float], ticks: int, least: float
) -> tuple[float, float, tuple[float, ...]]:
    low, high = min(0.0, *values, 0.0), max(0.0, *values, 0.0)
    if high - low < LEAST_RANGE:
        high = low + 1.0
    step = nice_step(max((high - low) / ticks, least))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    marks = tuple(float(f"{number * step:.12g}") for number in range(first, last + 1))
    return marks[0], marks[-1], marks


def nice_step(rough: float) -> float:
    """The next of 1, 2, 2.5 and 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(step * power for step in _STEPS if step * power >= rough * (1 - 1e-9))


def _log_range(values: Sequence[float], ticks: int) -> tuple[float, float, tuple[float, ...]]:
    low, high = (min(values), max(values)) if values else (1.0, 10.0)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    last = max(last, first + 1)
    for digits in ((1, 2, 5), (1, 3), (1,)):
        marks = tuple(digit * 10.0**power for power in range(first, last + 1) for digit in digits)
        below = max((mark for mark in marks if mark <= low * (1 + 1e-9)), default=low)
        above = min((mark for mark in marks if mark >= high * (1 - 1e-9)), default=high)
        marks = tuple(mark for mark in marks if below <= mark <= above)
        if len(marks) <= ticks + 2:
            break
    if above <= below:
        above = below * 10
        marks = (below, above)
    return math.log10(below), math.log10(above), marks


# --- axes of times and loads, in units people read at a glance


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
