"""Latency against throughput, and the latency distribution: of the levels of a result, or of several results."""

from collections.abc import Iterable, Sequence

from inferometer.report.axes import rate_axis, time_axis
from inferometer.report.document import (
    Chart,
    ChartAxis,
    ChartLine,
    ChartPoint,
    Column,
    Depth,
    Section,
    Spread,
    Table,
)
from inferometer.report.documents.levels import NEAR, best, enough, load_column, measured
from inferometer.report.format import duration, interval, level_label, level_value, quantity, share
from inferometer.stats.measurement import Distribution, Estimate, Level, Measurement
from inferometer.stats.result import Result

COLOURS = ("blue", "orange", "green", "purple", "red", "grey")
CURVES = 5
SHOWN = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99)
_OF_PERCENTILES = {50: "blue", 99: "orange"}

Rows = Sequence[tuple[Level, Measurement]]


def line_colour(number: int) -> str:
    """Of the line with this number."""
    return COLOURS[number % len(COLOURS)]


# --- latency against throughput


def throughput_section(result: Result) -> Section | None:
    """One line for p50, one for p99, one for a percentile that was asked for."""
    rows = measured(result)
    if not rows:
        return None
    chosen = result.effective.percentile
    shown = tuple(sorted({50, 99, *(() if chosen is None else (int(chosen),))}))
    name = "request rate" if rows[0][0].mode != "concurrency" else "concurrency"
    note = f"The numbers are the {name}; bars are 95 % intervals."
    if not all(level.is_as_asked for level, _ in rows):
        note += " Hollow points are levels whose load was not applied or not answered as asked."
    lines = [
        ChartLine(
            f"p{p} latency",
            (load_points(rows, p, is_named=p == shown[-1]),),
            _OF_PERCENTILES.get(p, "green"),
        )
        for p in shown
    ]
    chart = throughput_chart("Latency against throughput, one point for each level", "latency", lines, note)
    return Section("throughput", "Throughput and latency", _lead(result), (chart,))


def _lead(result: Result) -> str:
    light = enough(result)
    if light is None or best(result) is None:
        return ""
    return (
        f"More load than {level_label(light.mode, light.value)} brings little: it already gives more than "
        f"{share(1 - NEAR)} of the highest throughput."
    )


def throughput_chart(title: str, latency: str, lines: Sequence[ChartLine], note: str) -> Chart:
    times = [point.y for line in lines for run in line.runs for point in run]
    return Chart(title, rate_axis(), time_axis(latency, times), tuple(lines), note=note)


def load_points(rows: Rows, p: int | None, *, of: str = "", is_named: bool = True) -> tuple[ChartPoint, ...]:
    """Throughput and a percentile of the latency (or its mean) at each level."""
    points = []
    name = "mean" if p is None else f"p{p}"
    for level, found in rows:
        rate = found.infer_per_s
        latency_ns = found.latency.mean_ns if p is None else found.latency.percentile_ns(p)
        estimate = dict(found.latency_intervals).get(name, Estimate(latency_ns))
        where = ", ".join(word for word in (of, level_label(level.mode, level.value)) if word)
        tip = f"{where}: {quantity(rate.value)} infer/s {interval(rate)}".rstrip()
        points.append(
            ChartPoint(
                x=rate.value,
                y=float(latency_ns),
                tip=f"{tip}, {name} {duration(latency_ns)} {interval(estimate)}".strip(),
                label=level_value(level.mode, level.value) if is_named else "",
                x_limits=_limits(rate),
                y_limits=_limits(estimate),
                is_doubtful=not level.is_as_asked,
            )
        )
    return tuple(points)


def _limits(estimate: Estimate) -> tuple[float, float] | None:
    """Of the error bar; None where no interval is known."""
    if estimate.low is None or estimate.high is None:
        return None
    return max(0.0, estimate.low), estimate.high


# --- the distribution, on an axis that stretches the tail


def distribution_section(result: Result) -> Section | None:
    """A curve for each of a few levels; the table has all."""
    rows = tuple(row for row in measured(result) if row[1].latency.percentiles)
    if not rows:
        return None
    drawn = few(rows, CURVES)
    note = "Each step to the right leaves out nine of ten of the remaining requests: 90 %, 99 %, 99.9 % ..."
    if len(drawn) < len(rows):
        note += f" {CURVES} of the levels are drawn; the table has all."
    curves = []
    for number, (level, found) in enumerate(drawn):
        shade = 5 if len(drawn) == 1 else 1 + round(number * 4 / (len(drawn) - 1))
        curves.append((level_label(level.mode, level.value), found.latency, f"load-{shade}"))
    chart = distribution_chart("Share of requests answered within a latency", curves, note)
    return Section("distribution", "Latency distribution", "", (chart, _table(rows)), is_detail=True)


def few(rows: Rows, most: int) -> Rows:
    """All, or so many that they fit, evenly chosen with both ends."""
    if len(rows) <= most:
        return rows
    last = len(rows) - 1
    return tuple(rows[round(number * last / (most - 1))] for number in range(most))


def distribution_chart(title: str, curves: Iterable[tuple[str, Distribution, str]], note: str = "") -> Chart:
    """A curve for each (name, distribution, colour)."""
    exact = {p / 100 for p in SHOWN}
    lines = []
    for name, latency, its_colour in curves:
        points = tuple(
            ChartPoint(part, ns, f"{name}: {_percent(part)} within {duration(ns)}" if part in exact else "")
            for part, ns in percentile_curve(latency)
        )
        lines.append(ChartLine(name, (points,), its_colour))
    times = [point.y for line in lines for point in line.runs[0]]
    x = ChartAxis("share of requests", _percent, Spread.TAIL)
    return Chart(title, x, time_axis("latency", times), tuple(lines), note=note)


def _percent(part: float) -> str:
    return f"{part * 100:.6g} %"


def percentile_curve(latency: Distribution) -> tuple[tuple[float, float], ...]:
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


def _table(rows: Rows) -> Table:
    shown = tuple(
        p for p in SHOWN if any(found.latency.count * (1 - p / 100) >= 1 for _, found in rows) or p <= 99
    )
    lines = []
    for level, found in rows:
        known = dict(found.latency.percentiles)
        cells = (duration(known[p]) if p in known else "-" for p in shown)
        ends = duration(found.latency.min_ns), duration(found.latency.max_ns)
        lines.append((level_value(level.mode, level.value), ends[0], *cells, ends[1]))
    names = ("Fastest", *(f"p{p:g}" for p in shown), "Slowest")
    columns = (load_column(rows[0][0]), *map(Column, names))
    return Table("Latency distribution", columns, tuple(lines), Depth.DETAIL)
