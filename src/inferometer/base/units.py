"""The clock, units of time, and parsing and formatting of durations and shares."""

import math
import re
import time
from collections.abc import Callable

from inferometer.base.errors import UsageError

Clock = Callable[[], int]
"""A monotonic clock in integer nanoseconds, passed in wherever time is read."""

monotonic_ns: Clock = time.monotonic_ns

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000
NS_PER_US = 1_000
INFERENCES, REQUESTS = "infer/s", "requests/s"  # units of throughput
UNITS = ((1, "ns"), (NS_PER_US, "µs"), (NS_PER_MS, "ms"), (NS_PER_S, "s"))  # in nanoseconds

_DURATION = re.compile(r"(?P<number>\d+(?:\.\d*)?|\.\d+) ?(?P<unit>[a-zµ]*) ?")
_CLOCK = re.compile(r"(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)")
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_UNIT_NAMES = {
    1e-9: ("ns", "nsec", "nanosecond"),
    1e-6: ("us", "µs", "usec", "microsecond"),
    1e-3: ("ms", "msec", "millisecond"),
    1.0: ("s", "sec", "second"),
    60.0: ("m", "min", "minute"),
    3600.0: ("h", "hr", "hour"),
}
SECONDS = {
    form: scale
    for scale, names in _UNIT_NAMES.items()
    for name in names
    for form in ((name, f"{name}s") if (name.isascii() and len(name) > 2) or name == "hr" else (name,))
}
"""Seconds per unit, by every name of the unit."""


def parse_duration_ns(text: str, option: str) -> int:
    """Return the nanoseconds of `90`, `90s`, `1.5m`, `250ms`, `1m30s` or `10 sec`; a bare number means seconds."""
    seconds = _maybe_seconds(text)
    if seconds is None:
        remedy = "write a number and a unit, such as 500ms, 10s, 2m or 1m30s"
        raise UsageError(
            f"{option} needs a duration, but got '{text}'", remedy=_meant_duration(text, option) or remedy
        )
    return round(seconds * NS_PER_S)


def is_duration(text: str) -> bool:
    """Return whether a word is a duration."""
    return _maybe_seconds(text) is not None


def _maybe_seconds(text: str) -> float | None:
    body = text.strip()
    # An upper-case M is ambiguous.
    word, total, last = body if re.search(r"\dM$", body) else body.lower(), 0.0, math.inf
    while word:
        match = _DURATION.match(word)
        if match is None or (not match["unit"] and (total or match.end() < len(word))):
            return None
        scale = SECONDS.get(match["unit"] or "s")
        if scale is None or scale >= last:  # 30s1m is more likely a slip than 90 s
            return None
        total, last, word = total + float(match["number"]) * scale, scale, word[match.end() :]
    return total if body else None


def _meant_duration(text: str, option: str) -> str:
    """Suggest the intended duration if it can be guessed."""
    clock = _CLOCK.fullmatch(text.strip())
    if clock is not None:
        hours, minutes, seconds = clock[1], clock[2], clock[3]
        units = (hours, "h"), (minutes, "m"), (seconds, "s")
        words = "".join(f"{part.lstrip('0')}{unit}" for part, unit in units if part and part.strip("0."))
        return f"write {option} {words or '10s'}"
    for changed in (text.replace(",", "."), text.lower()):
        if changed != text and _maybe_seconds(changed) is not None:
            return f"write {option} {changed}"
    return ""


def parse_share(text: str, option: str) -> float:
    """Return the fraction written as `2%` or `0.02`."""
    body = text.strip()
    try:
        share = float(body[:-1]) / 100 if body.endswith("%") else float(body)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise UsageError(
            f"{option} needs a share from 0 to 1, but got '{text}'", remedy="write it as 2% or 0.02"
        )
    return share


def duration(ns: float) -> str:
    """Format with three digits and a unit: `456 µs`, `1.23 ms`, `12.0 s`."""
    if ns < 0.9995 * NS_PER_US:
        return f"{ns:.0f} ns"
    for scale, unit in UNITS[1:]:
        if ns < 999.5 * scale:
            return f"{_three_digits(ns / scale)} {unit}"
    return f"{ns / NS_PER_S:,.0f} s"


def quantity(value: float) -> str:
    """Format with three digits, or as a whole number: `0.25`, `0.0021`, `49.9`, `12,345`."""
    return "0" if value == 0 else _three_digits(value)


def rough(value: float) -> str:
    """Format with two digits, or as a whole number, without trailing zeros: `7.9`, `8`, `64`, `1,024`."""
    return significant(value, 2)


def significant(value: float, digits: int) -> str:
    """Format with this many digits, or as a whole number, without trailing zeros or powers of ten."""
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])  # of the rounded value
    text = f"{value:,.{max(0, digits - 1 - exponent)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def small(value: float) -> str:
    """Format a difference like a quantity, or as `1.2·10⁻⁷` if that would show only zeros."""
    if not 0 < abs(value) < 0.0001:
        return quantity(value)
    digits, _, exponent = f"{value:.1e}".partition("e")
    return f"{digits}·10{str(int(exponent)).translate(_RAISED)}"


def _three_digits(value: float) -> str:
    size = abs(value)
    if 0 < size < 0.0995:
        return f"{value:.{1 - math.floor(math.log10(size))}f}"
    places = 2 if size < 9.995 else 1 if size < 99.95 else 0
    return f"{value:,.{places}f}"


def plain_number(value: float) -> str:
    """Format without trailing zeros or powers of ten: `0.25`, `40`, `12,500`."""
    return f"{value:,.0f}" if abs(value) >= 1000 else significant(value, 6)


def share(part: float) -> str:
    """Format a fraction in percent: `0 %`, `0.15 %`, `4.2 %`, `87 %`; `0 %` and `100 %` are exact."""
    percent = part * 100
    if percent == 0:
        return "0 %"
    if percent < 0.005:
        return "<0.01 %"
    if 99.5 <= percent < 100:
        return f"{math.floor(percent * 100) / 100:g} %"
    places = 2 if percent < 0.995 else 1 if percent < 9.95 else 0
    return f"{percent:,.{places}f} %"
