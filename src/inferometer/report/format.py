"""Number formats: those of the classic tool, and those for readers."""

import math
import re
from collections.abc import Sequence

from inferometer.base import units
from inferometer.base.text import printable
from inferometer.base.units import NS_PER_US
from inferometer.options.effective import Effective
from inferometer.stats import verdict
from inferometer.stats.doubts import BARS
from inferometer.stats.estimate import Distribution, Estimate
from inferometer.stats.measurement import PHASE, UNSTATED, Level

GIB = 1024**3
NONE = "-"  # a figure that does not exist
BAR_WIDTH = 24
NO_BREAK = "\u00a0"
_UNIT = r"(?<=\d) (?=(?:ns|µs|ms|s|%|infer/s|requests/s|GiB)(?![\w/]))|(?<=concurrency) (?=\d)|(?<=request rate) (?=\d)"
STANDARD_PERCENTILES = (50, 90, 95, 99)
# Shared with the sentences of lower packages.
duration, quantity, plain_number, share = units.duration, units.quantity, units.plain_number, units.share
significant, small = units.significant, units.small
difference, signed = verdict.percent_words, verdict.signed


def decimal(value: float) -> str:
    """Six significant digits without trailing zeros, as C++ streams print by default."""
    return f"{value:g}"


def whole_us(ns: int) -> int:
    """Microseconds, truncated."""
    return ns // NS_PER_US


# Modes in reports for levels whose load changes: their value is only the mean or the first one.
SCHEDULED, RISING = "schedule", "rising concurrency"


def level_value(mode: str, value: float) -> str:
    if mode == UNSTATED:
        return NONE
    if mode.startswith(PHASE):
        return mode.removeprefix(PHASE)
    if mode == SCHEDULED:
        return quantity(value)
    return f"{int(value):,}" if mode == "concurrency" else plain_number(value)


def classic_level(mode: str, value: float) -> str:
    """Format a level as the classic tool does."""
    return str(int(value)) if mode == "concurrency" else decimal(value)


def has_schedule(effective: Effective) -> bool:
    """Whether the load was a schedule with an end."""
    return effective.mode in ("fixed_schedule", "replay", "shape_load")


def is_periodic(effective: Effective) -> bool:
    return effective.mode == "periodic_concurrency"


def classic_value(effective: Effective, level: Level) -> str:
    """The level in the classic tool's summary and CSV, where a fixed schedule is rate 1."""
    return "1" if effective.mode == "fixed_schedule" else classic_level(level.mode, level.value)


def level_label(mode: str, value: float) -> str:
    if mode == SCHEDULED:
        return "the scheduled rates"
    if mode == RISING:
        return RISING
    if mode.startswith(PHASE):
        return mode
    if mode == UNSTATED:
        return "an unstated load"
    return f"{load_name(mode)} {level_value(mode, value)}"


def load_name(mode: str) -> str:
    if mode == UNSTATED:
        return "load"
    if mode.startswith(PHASE):
        return PHASE.strip()
    return "concurrency" if mode == "concurrency" else "request rate"


def percentiles(chosen: int | None) -> tuple[int, ...]:
    """The percentiles that every report shows, including the chosen one."""
    return tuple(sorted({*STANDARD_PERCENTILES, *(() if chosen is None else (chosen,))}))


def headline_ns(latency: Distribution, chosen: int | None) -> int:
    """The representative latency: the chosen percentile, or the mean."""
    return latency.mean_ns if chosen is None else latency.percentile_ns(chosen)


def average(whole: Distribution) -> str:
    """The mean duration; a dash if there are none."""
    return duration(whole.mean_ns) if whole.count else NONE


def at_percentile(whole: Distribution, p: float) -> str:
    """A percentile of durations; a dash if it is unknown."""
    ns = whole.maybe_percentile_ns(p)
    return NONE if ns is None else duration(ns)


def exact_share(part: float) -> str:
    """A percentage with two decimals, without the sign: `0.50`, `100.00`; rounding never reaches 0 or 100."""
    percent = part * 100
    if 0 < percent < 0.005:
        return "<0.01"
    return f"{percent if percent in (0, 100) else min(percent, 99.99):.2f}"


def change_text(part: float) -> str:
    """A change in percent, with its sign: `+87 %`, `−4.2 %`."""
    return f"{'−' if part < 0 else '+'}{share(abs(part))}"


def interval(estimate: Estimate) -> str:
    """`±1.4 %`; empty if no interval is known."""
    half = estimate.relative_half_width
    return "" if half is None else f"±{share(half)}"


def rate(per_s: Estimate, unit: str) -> str:
    """`12,345 infer/s ±1.4 %`."""
    return f"{quantity(per_s.value)} {unit} {interval(per_s)}".rstrip()


def size(count: int) -> str:
    """A number of bytes in three digits: `12 B`, `3.40 MB`."""
    for scale, unit in ((1, "B"), (10**3, "kB"), (10**6, "MB"), (10**9, "GB")):
        if count < 999.5 * scale:
            return f"{quantity(count / scale) if scale > 1 else count} {unit}"
    return f"{quantity(count / 10**12)} TB"


def plural(count: int, noun: str, *, separator: str = ",") -> str:
    """`1 request`, `12,345 requests`."""
    return f"{count:{separator}} {noun}" if count == 1 else f"{count:{separator}} {noun}s"


def glued(text: str, glue: str = NO_BREAK) -> str:
    """Join numbers and their units, so that no line breaks between them."""
    return re.sub(_UNIT, glue, text)


def first_line(text: str, limit: int = 200) -> str:
    """The first line of a peer's message, safe for a terminal."""
    lines = text.strip().splitlines()
    line = printable(lines[0]) if lines else ""
    return line if len(line) <= limit else line[: limit - 1] + "…"


def bar(part: float) -> str:
    """A share as a bar of text."""
    filled = min(BAR_WIDTH, round(BAR_WIDTH * part))
    return "█" * filled if filled else "▏" if part > 0 else ""


def curve(values: Sequence[float | None], width: int) -> str:
    """The last values as a line of bars from 0; a space for a missing value."""
    shown = list(values)[-width:]
    most = max((value for value in shown if value is not None), default=0) or 1
    return "".join(
        " " if value is None else BARS[min(len(BARS) - 1, int(value / most * len(BARS)))] for value in shown
    )


def time_span(seconds: float) -> str:
    """A duration for readers: `3 s`, `1 min 20 s`, `2 h 5 min`."""
    whole = math.ceil(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    parts = ((f"{hours:,} h", hours), (f"{minutes} min", minutes), (f"{rest} s", rest and not hours))
    return " ".join(text for text, count in parts if count) or "0 s"


def when(started_at: str) -> str:
    """A timestamp for readers."""
    return started_at.replace("T", " ").replace("+00:00", " UTC").replace("Z", " UTC")
