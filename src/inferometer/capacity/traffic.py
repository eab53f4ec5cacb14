"""Expected traffic: how many requests arrive, and when.

    200/s, 12000/m       a constant rate
    trace.jsonl          individual request times, in any format that `measure --replay` reads
    curve.csv            a daily curve with a header row naming the columns time and rate (requests per second)

`class_traffic` reads the classes of a scenario.

Traffic is cut into stretches, each of which must meet the SLO. Individual requests arrive at the times in the trace,
including bursts; otherwise arrivals are Poisson at the rate of their stretch.
"""

import csv
import math
import re
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_S
from inferometer.dataset.dataset import read_bytes, split_lines
from inferometer.dataset.replay import Trace, parse_trace
from inferometer.dataset.trace_tokens import cacheable_in_blocks
from inferometer.options.names import option_name
from inferometer.options.values import plain_rate

Times = NDArray[np.float64]

STRETCH_S = 300.0
PER_STRETCH = 1000  # mean requests of a trace per stretch without --stretch, enough to estimate a p99
RATE_S = 3600.0  # length of the stretch of a constant rate
MOST_STRETCHES = 10_000
DAY_S = 24 * 3600.0
_RATE = re.compile(r"(?P<number>\d+(?:\.\d+)?|\.\d+)(?:/(?P<unit>s|m|min|h|d|day))?")
_PER_S = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": DAY_S, "day": DAY_S}
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?")
FORMS = (
    "give a rate such as 200/s, a trace that `inferometer measure --replay` reads, a CSV file with the columns time "
    "and rate, or a scenario that ends in .yaml"
)


@frozen
class Stretch:
    """A period of time with its mean rate."""

    start_s: float
    length_s: float
    rate: float  # requests per second

    @property
    def end_s(self) -> float:
        return self.start_s + self.length_s

    @property
    def requests(self) -> float:
        return self.rate * self.length_s


@frozen
class ExpectedTraffic:
    """Traffic by stretches; `times_s` are the ascending times of individual requests, or None if only rates are
    known."""

    name: str
    form: str  # rate, trace, daily curve or scenario
    stretches: tuple[Stretch, ...]
    times_s: Times | None = None
    pairs: tuple[tuple[int, int], ...] | None = None  # tokens of prompt and answer of each individual request
    reusable: float = 0.0  # share of the prompt tokens that an earlier request of the trace began with

    @property
    def peak(self) -> int:
        """Index of the stretch with the highest rate."""
        return max(range(len(self.stretches)), key=lambda number: self.stretches[number].rate)

    def numbers(self, place: int) -> tuple[int, int]:
        """Return the range of indices of the individual requests in a stretch; the end is exclusive."""
        if self.times_s is None:
            return 0, 0
        starts = [row.start_s for row in self.stretches[place : place + 2]]
        cuts = np.searchsorted(self.times_s, starts).tolist()
        return (cuts[0], cuts[1]) if len(cuts) == 2 else (cuts[0], len(self.times_s))

    @property
    def span_s(self) -> float:
        return self.stretches[-1].end_s - self.stretches[0].start_s

    @property
    def requests(self) -> float:
        return sum(row.requests for row in self.stretches)


def read_traffic(given: str, stretch_s: float | None = None) -> ExpectedTraffic:
    """Read a rate, a trace or a daily curve, detecting which of them was given."""
    if _RATE.fullmatch(given.strip()):
        return of_rate(given)
    if not Path(given).exists() and _RATE.fullmatch(plain_rate(given)):
        return replace(of_rate(plain_rate(given)), name=given.strip())
    if not Path(given).exists():
        raise UsageError(
            f"{option_name('--traffic')} is '{given}', which is neither a rate nor a file", remedy=FORMS
        )
    data = read_bytes(given)
    return of_curve(given, data) if _is_curve(data) else of_trace(given, data, stretch_s)


def of_rate(given: str) -> ExpectedTraffic:
    """Parse a constant rate: `200/s`, `200`, `12000/m`."""
    found = _RATE.fullmatch(given.strip())
    if found is None:
        raise UsageError(f"'{given}' is not a rate", remedy="write it like 200/s or 12000/m")
    rate = float(found["number"]) / _PER_S[found["unit"] or "s"]
    if rate <= 0:
        raise UsageError(f"the rate '{given}' is not above 0", remedy="give a rate such as 200/s")
    return ExpectedTraffic(given.strip(), "rate", (Stretch(0.0, RATE_S, rate),))


def of_trace(path: str, data: bytes, stretch_s: float | None = None) -> ExpectedTraffic:
    """Parse a trace of individual request times."""
    trace = parse_trace(path, data)
    entries = trace.entries
    times = np.array([entry.time_ns for entry in entries], dtype=np.float64) / NS_PER_S
    if len(times) < 2 or times[-1] <= 0:
        raise UsageError(
            f"the trace '{path}' has fewer than two distinct request times", remedy="give a longer trace"
        )
    # Count a mean gap after the last request as well.
    span_s = float(times[-1]) * len(times) / (len(times) - 1)
    usual_s = max(STRETCH_S, span_s * PER_STRETCH / len(times))
    number = max(1, math.floor(span_s / (usual_s if stretch_s is None else stretch_s) + 1e-9))
    if number > MOST_STRETCHES:
        raise UsageError(
            f"'{path}' would have {number:,} stretches",
            remedy=f"the maximum is {MOST_STRETCHES:,}: give a longer {option_name('--stretch')}",
        )
    length_s = span_s / number
    starts = np.arange(number) * length_s
    counts = np.diff(np.searchsorted(times, starts), append=len(times))
    rows = tuple(
        Stretch(start_s, length_s, count / length_s)
        for start_s, count in zip(starts.tolist(), counts.tolist(), strict=True)
    )
    pairs, reusable = _token_lengths(trace)
    return ExpectedTraffic(Path(path).name, "trace", rows, times, pairs, reusable)


def _token_lengths(trace: Trace) -> tuple[tuple[tuple[int, int], ...] | None, float]:
    """Return the lengths of all requests if the trace has them, and the share of the prompts that repeats."""
    found = [entry.tokens for entry in trace.entries if entry.tokens is not None]
    if len(found) < len(trace.entries) or any(row.output is None for row in found):
        return None, 0.0
    pairs = tuple((row.input, max(1, row.output or 0)) for row in found)
    return pairs, cacheable_in_blocks(found) / sum(pair[0] for pair in pairs)


def of_curve(path: str, data: bytes) -> ExpectedTraffic:
    """Parse a daily curve, with one row for each change of the rate. The last row lasts as long as the previous row,
    but for times within one day it ends no later than 24 hours after the first row. A row at that moment, such as
    24:00, only marks the end."""
    lines = [line for line in split_lines(data, path) if line.strip()]
    header = _header(lines[0])
    rows = [_curve_row(path, number, line, header) for number, line in enumerate(lines[1:], start=2)]
    if not rows:
        raise UsageError(
            f"the curve '{path}' has no rows", remedy="write one row per time, such as 08:00,120"
        )
    starts = _ascending(path, [time for time, _ in rows])
    lengths = [after - before for before, after in pairwise(starts)]
    day_left_s = starts[0] + DAY_S - starts[-1]
    if day_left_s == 0:
        del rows[-1], starts[-1]
    else:
        last_s = lengths[-1] if lengths else RATE_S
        lengths.append(min(last_s, day_left_s) if day_left_s > 0 else last_s)
    if not any(rate for _, rate in rows):
        raise UsageError(f"the curve '{path}' has no traffic", remedy="give at least one row a rate above 0")
    stretches = tuple(
        Stretch(start, length, rate) for start, length, (_, rate) in zip(starts, lengths, rows, strict=True)
    )
    return ExpectedTraffic(Path(path).name, "daily curve", stretches)


# --- rows of a curve


def _is_curve(data: bytes) -> bool:
    return {"time", "rate"} <= set(_header(data.partition(b"\n")[0].removesuffix(b"\r")))


def _header(line: bytes) -> list[str]:
    return [cell.strip().lower() for cell in _cells(line)]


def _cells(line: bytes) -> list[str]:
    try:
        return next(csv.reader([line.decode("utf-8-sig", "replace")]), [])
    except csv.Error:
        return []


def _curve_row(path: str, number: int, line: bytes, header: list[str]) -> tuple[float, float]:
    where, cells = f"line {number} of '{path}'", _cells(line)
    if len(cells) != len(header):
        raise UsageError(
            f"{where} has {len(cells)} cells, but the header has {len(header)} columns",
            remedy="check that the file is complete",
        )
    time, rate = cells[header.index("time")].strip(), cells[header.index("rate")].strip()
    try:
        per_s = float(rate)
    except ValueError:
        per_s = -1.0
    if not 0 <= per_s < 1e9:
        raise UsageError(
            f"{where}: the rate '{rate}' is not valid", remedy="write requests per second, 0 or more"
        )
    return _seconds(where, time), per_s


def _seconds(where: str, text: str) -> float:
    """Parse a time of day, a date with a time, or a number of seconds."""
    if clock := _CLOCK.fullmatch(text):
        return int(clock[1]) * 3600 + int(clock[2]) * 60 + float(clock[3] or 0)
    try:
        found = float(text)
    except ValueError:
        pass
    else:
        if math.isfinite(found):
            return found
    try:
        return (datetime.fromisoformat(text).replace(tzinfo=None) - datetime(1970, 1, 1)) / timedelta(
            seconds=1
        )
    except ValueError:
        raise UsageError(
            f"{where}: the time '{text}' is not valid",
            remedy="write a time of day such as 08:30, a date with a time, or a number of seconds",
        ) from None


def _ascending(path: str, times: list[float]) -> list[float]:
    """Check that times ascend; shift times outside the first day so that they start within it."""
    for number, (before, after) in enumerate(pairwise(times), start=3):
        if after <= before:
            raise UsageError(
                f"line {number} of '{path}' is not later than the line before it",
                remedy="sort the rows by time",
            )
    start = times[0] if 0 <= times[0] < DAY_S else math.fmod(times[0], DAY_S)
    return [time - times[0] + start for time in times]
