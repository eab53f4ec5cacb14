"""The latency distribution as percentile curves whose axis stretches the tail."""

from inferometer.report.document import (
    Chart,
    ChartAxis,
    ChartLine,
    ChartPoint,
    Column,
    Section,
    Spread,
    Table,
)
from inferometer.report.format import duration, level_label, level_value
from inferometer.report.units import time_axis
from inferometer.report.verdict import measured
from inferometer.stats.measurement import Distribution, Level, Measurement
from inferometer.stats.result import Result

CURVES = 5
SHOWN = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99)


def distribution_section(result: Result) -> Section | None:
    """A curve for each of a few levels; the table has all."""
    rows = tuple(row for row in measured(result) if row[1].latency.percentiles)
    if not rows:
        return None
    drawn = _few(rows)
    curves = [(level, curve(found.latency)) for level, found in drawn]
    times = [ns for _, points in curves for _, ns in points]
    chart = Chart(
        title="Share of requests answered within a latency",
        x=ChartAxis("share of requests", percent, Spread.TAIL),
        y=time_axis("latency", times),
        series=tuple(
            _series(level, found.latency, number, len(drawn)) for number, (level, found) in enumerate(drawn)
        ),
        note="Each step to the right leaves out nine of ten of the remaining requests: 90 %, 99 %, 99.9 % ..."
        + (f" {CURVES} of the levels are drawn; the table has all." if len(drawn) < len(rows) else ""),
    )
    return Section("distribution", "Latency distribution", "", (chart, _table(rows)))


def _few(rows: tuple[tuple[Level, Measurement], ...]) -> tuple[tuple[Level, Measurement], ...]:
    if len(rows) <= CURVES:
        return rows
    last = len(rows) - 1
    return tuple(rows[round(number * last / (CURVES - 1))] for number in range(CURVES))


def percent(part: float) -> str:
    return f"{part * 100:.6g} %"


def curve(latency: Distribution) -> tuple[tuple[float, float], ...]:
    """(share of requests, ns that so many were within), rising, up to what so many requests can tell."""
    count = max(1, latency.count)
    last = 1 - 1 / count
    ends = {0.0: float(latency.min_ns), last: float(latency.max_ns)}
    exact = {p / 100: float(ns) for p, ns in latency.percentiles if p / 100 < last}
    known = sorted({**exact, **ends}.items())
    points = dict(known)
    below = 0
    for bound, number in latency.histogram:
        below += number
        if 0 < below / count < last:
            points.setdefault(below / count, _between(known, below / count, float(bound)))
    return tuple(sorted(points.items()))


def _between(known: list[tuple[float, float]], part: float, ns: float) -> float:
    """A bound of the histogram is up to 4 % off; the exact percentiles on both sides say how far it may be."""
    low = max(value for share, value in known if share <= part)
    high = min(value for share, value in known if share >= part)
    return min(max(ns, low), high)


def _series(level: Level, latency: Distribution, number: int, of: int) -> ChartLine:
    label = level_label(level.mode, level.value)
    shown = {p / 100 for p in SHOWN}
    points = tuple(
        ChartPoint(part, ns, f"{label}: {percent(part)} within {duration(ns)}" if part in shown else "")
        for part, ns in curve(latency)
    )
    shade = 5 if of == 1 else 1 + round(number * 4 / (of - 1))
    return ChartLine(label, (points,), f"load-{shade}")


def _table(rows: tuple[tuple[Level, Measurement], ...]) -> Table:
    shown = tuple(
        p for p in SHOWN if any(found.latency.count * (1 - p / 100) >= 1 for _, found in rows) or p <= 99
    )
    lines = []
    for level, found in rows:
        known = dict(found.latency.percentiles)
        cells = (duration(known[p]) if p in known else "-" for p in shown)
        ends = duration(found.latency.min_ns), duration(found.latency.max_ns)
        lines.append((level_value(level.mode, level.value), ends[0], *cells, ends[1]))
    is_rate = rows[0][0].mode != "concurrency"
    names = ("Fastest", *(f"p{p:g}" for p in shown), "Slowest")
    columns = (Column("Request rate" if is_rate else "Concurrency"), *map(Column, names))
    return Table("Latency distribution", columns, tuple(lines), is_folded=True)
