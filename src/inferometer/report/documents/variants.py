"""The variants of a comparison in the same charts: throughput against latency, distribution, rounds."""

from collections.abc import Iterator

from inferometer.compare.comparison import Comparison, Turn, Variant
from inferometer.report.document import Chart, ChartAxis, ChartLine, ChartPoint, Section, Spread
from inferometer.report.documents.distribution import SHOWN, curve, percent
from inferometer.report.documents.throughput import limits
from inferometer.report.format import duration, interval, level_label, level_value, quantity
from inferometer.report.units import plain_number, rate_axis, time_axis
from inferometer.report.verdict import measured
from inferometer.stats.measurement import Distribution

COLOURS = ("blue", "orange", "green", "purple", "red", "grey")
CHOSEN = 99


def colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def throughput_section(comparison: Comparison) -> Section | None:
    """One line for each variant, over its levels."""
    rows = [(variant, measured(variant.result)) for variant in comparison.variants]
    if not any(found for _, found in rows):
        return None
    times = [row.latency.percentile_ns(CHOSEN) for _, found in rows for _, row in found]
    chart = Chart(
        title=f"p{CHOSEN} latency against throughput, one line for each variant",
        x=rate_axis(),
        y=time_axis(f"p{CHOSEN} latency", times),
        series=tuple(
            ChartLine(variant.name, (tuple(_points(variant)),), colour(number))
            for number, (variant, _) in enumerate(rows)
        ),
        note="The numbers are the load; bars are 95 % intervals.",
    )
    return Section("throughput", "Throughput and latency", "", (chart,))


def _points(variant: Variant) -> Iterator[ChartPoint]:
    for level, found in measured(variant.result):
        latency_ns = found.latency.percentile_ns(CHOSEN)
        estimate = dict(found.latency_intervals).get(f"p{CHOSEN}")
        yield ChartPoint(
            x=found.infer_per_s.value,
            y=float(latency_ns),
            tip=f"{variant.name}, {level_label(level.mode, level.value)}: {quantity(found.infer_per_s.value)} infer/s "
            f"{interval(found.infer_per_s)}, p{CHOSEN} {duration(latency_ns)}",
            label=level_value(level.mode, level.value),
            x_limits=limits(found.infer_per_s),
            y_limits=None if estimate is None else limits(estimate),
            is_doubtful=not level.is_as_asked,
        )


def distribution_section(comparison: Comparison) -> Section | None:
    """The percentile curves at the heaviest load that every variant was measured at."""
    found = [
        {level.value: (level, row) for level, row in measured(each.result)} for each in comparison.variants
    ]
    common = set.intersection(*(set(rows) for rows in found)) if found else set()
    if not common:
        return None
    load = max(common)
    level = found[0][load][0]
    whole = [rows[load][1].latency for rows in found]
    if not all(latency.percentiles for latency in whole):
        return None
    chart = Chart(
        title=f"Share of requests answered within a latency, at {level_label(level.mode, level.value)}",
        x=ChartAxis("share of requests", percent, Spread.TAIL),
        y=time_axis("latency", [ns for row in whole for ns in (row.min_ns, row.max_ns)]),
        series=tuple(
            ChartLine(variant.name, (_curve(variant.name, latency),), colour(number))
            for number, (variant, latency) in enumerate(zip(comparison.variants, whole, strict=True))
        ),
    )
    return Section("distribution", "Latency distribution", "", (chart,))


def _curve(name: str, latency: Distribution) -> tuple[ChartPoint, ...]:
    exact = {p / 100 for p in SHOWN}
    return tuple(
        ChartPoint(part, ns, f"{name}: {percent(part)} within {duration(ns)}" if part in exact else "")
        for part, ns in curve(latency)
    )


def turns_section(comparison: Comparison) -> Section | None:
    """Throughput of each variant in each round; drift shows as lines that move together."""
    if not any(turns for variant in comparison.variants for turns in variant.turns):
        return None
    chart = Chart(
        title="Throughput of each turn",
        x=ChartAxis("seconds", plain_number),
        y=rate_axis(),
        series=tuple(
            ChartLine(
                variant.name, tuple(_run(variant.name, turns) for turns in variant.turns), colour(number)
            )
            for number, variant in enumerate(comparison.variants)
        ),
        height=270,
    )
    lead = "The variants took turns, so what the machine does meanwhile meets all of them."
    return Section("turns", "Round by round", lead, (chart,))


def _run(name: str, turns: tuple[Turn, ...]) -> tuple[ChartPoint, ...]:
    return tuple(
        ChartPoint(
            turn.start_s,
            turn.infer_per_s,
            f"{name}, round {turn.number + 1}: {quantity(turn.infer_per_s)} infer/s, {turn.request_count} requests",
        )
        for turn in turns
    )
