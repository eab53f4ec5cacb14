"""The clock, units of time, and how people write durations and shares."""

import re
import time
from collections.abc import Callable

from inferometer.base.errors import UsageError

Clock = Callable[[], int]
"""One monotonic clock in integer nanoseconds, passed in wherever time is read."""

monotonic_ns: Clock = time.monotonic_ns

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000
NS_PER_US = 1_000

_DURATION = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>us|ms|s|m|h)?")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration_ns(text: str, option: str) -> int:
    """Nanoseconds of `90`, `90s`, `1.5m`, `250ms`; a bare number means seconds."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"{option} needs a duration, but got '{text}'",
            remedy="write a number and a unit, such as 500ms, 10s or 2m",
        )
    return round(float(match["number"]) * _SECONDS[match["unit"] or "s"] * NS_PER_S)


def parse_share(text: str, option: str) -> float:
    """The fraction meant by `2%` or `0.02`."""
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
