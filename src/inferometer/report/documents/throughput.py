"""Throughput against latency: the curve that says how much load is worth it."""

from inferometer.report.document import Chart, ChartLine, ChartPoint, Section
from inferometer.report.format import duration, interval, level_label, level_value, quantity, share
from inferometer.report.units import rate_axis, time_axis
from inferometer.report.verdict import NEAR, best, enough, measured
from inferometer.stats.measurement import Estimate, Level, Measurement
from inferometer.stats.result import Result

COLOURS = {50: "blue", 99: "orange"}
MORE = "green"


def throughput_section(result: Result) -> Section | None:
    """One line for p50, one for p99, one for a percentile that was asked for."""
    rows = measured(result)
    if not rows:
        return None
    chosen = result.effective.get("percentile")
    shown = tuple(sorted({50, 99, *(() if chosen is None else (int(chosen),))}))
    latencies = [found.latency.percentile_ns(p) for _, found in rows for p in shown]
    chart = Chart(
        title="Latency against throughput, one point for each level",
        x=rate_axis(),
        y=time_axis("latency", latencies),
        series=tuple(_series(rows, p, is_named=p == shown[-1]) for p in shown),
        note=_note(rows),
    )
    return Section("throughput", "Throughput and latency", _lead(result), (chart,))


def _lead(result: Result) -> str:
    light, top = enough(result), best(result)
    if light is None or top is None:
        return ""
    return (
        f"More load than {level_label(light.mode, light.value)} brings little: it already gives more than "
        f"{share(1 - NEAR)} of the highest throughput."
    )


def _note(rows: tuple[tuple[Level, Measurement], ...]) -> str:
    name = "request rate" if rows[0][0].mode != "concurrency" else "concurrency"
    words = f"The numbers are the {name}; bars are 95 % intervals."
    if not all(level.is_as_asked for level, _ in rows):
        words += " Hollow points are levels whose load was not applied or not answered as asked."
    return words


def _series(rows: tuple[tuple[Level, Measurement], ...], p: int, *, is_named: bool) -> ChartLine:
    points = tuple(_point(level, found, p, is_named=is_named) for level, found in rows)
    return ChartLine(f"p{p} latency", (points,), COLOURS.get(p, MORE))


def _point(level: Level, found: Measurement, p: int, *, is_named: bool) -> ChartPoint:
    rate = found.infer_per_s
    latency_ns = found.latency.percentile_ns(p)
    estimate = dict(found.latency_intervals).get(f"p{p}")
    spread = "" if estimate is None else interval(estimate)
    return ChartPoint(
        x=rate.value,
        y=float(latency_ns),
        tip=f"{level_label(level.mode, level.value)}: {quantity(rate.value)} infer/s {interval(rate)}, "
        f"p{p} {duration(latency_ns)} {spread}".strip(),
        label=level_value(level.mode, level.value) if is_named else "",
        x_limits=limits(rate),
        y_limits=None if estimate is None else limits(estimate),
        is_doubtful=not level.is_as_asked,
    )


def limits(estimate: Estimate) -> tuple[float, float] | None:
    """Of the error bar; None where no interval is known."""
    if estimate.low is None or estimate.high is None:
        return None
    return max(0.0, estimate.low), estimate.high
