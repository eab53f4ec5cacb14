"""One unit of time for a whole axis, so its ticks can be compared at a glance."""

from collections.abc import Callable

from inferometer.base.units import NS_PER_MS, NS_PER_S, NS_PER_US


def time_unit(most_ns: float) -> tuple[str, Callable[[float], str]]:
    """The unit that suits the largest value, and how nanoseconds are written in it."""
    scale, name = next(
        (row for row in ((NS_PER_S, "s"), (NS_PER_MS, "ms")) if most_ns >= row[0]), (NS_PER_US, "µs")
    )
    return name, lambda ns: plain_number(ns / scale)


def plain_number(value: float) -> str:
    """Without needless digits, and never in powers of ten: `0.25`, `40`, `12,500`."""
    text = f"{value:,.6g}" if abs(value) < 1000 else f"{value:,.0f}"
    return text if "e" not in text else f"{value:,.6f}".rstrip("0").rstrip(".")
