"""Charts of a capacity plan: the traffic, and the replicas that serve it."""

import math
from collections.abc import Callable, Iterator, Sequence

from inferometer.base.units import NS_PER_S
from inferometer.capacity.autoscaling import ScalingStep
from inferometer.capacity.plan import CapacityPlan, PlannedOption
from inferometer.report.document import Chart, ChartAxis, ChartLine, ChartPoint, ChartRule, Span
from inferometer.report.format import duration, plain_number, plural, quantity, share, time_span

MINUTES_FROM_S = 600.0  # traffic from this length on has an axis in minutes
HOURS_FROM_S = 6 * 3600.0
DAY_S = 24 * 3600.0
QUARTER_H = 6.0  # a quarter of a day
COLOURS = ("blue", "green", "orange", "purple")
MORE, MORE_TIMES = 3, 1.5  # replicas drawn beyond the plan
MOST_COUNTS = 30  # points in one line


def clock(plan: CapacityPlan, seconds: float) -> str:
    """A time in the traffic: the time of day in a daily curve, else the time since the start."""
    if plan.form == "daily curve":
        whole = round(seconds) % round(DAY_S)
        text = f"{whole // 3600:02}:{whole // 60 % 60:02}"
        return text if whole % 60 == 0 else f"{text}:{whole % 60:02}"
    return time_span(seconds) if seconds >= 60 else duration(seconds * NS_PER_S)


def day_charts(plan: CapacityPlan, chosen: PlannedOption) -> Iterator[Chart]:
    """Requests per second, and below it the replicas, over the same time."""
    unit, scale = _unit(plan.span_s)
    end_s = plan.stretches[-1].end_s
    is_day = plan.form == "daily curve"
    axis = ChartAxis(
        f"time of day ({unit})" if is_day else f"time ({unit})",
        is_from_zero=False,
        step=QUARTER_H if is_day and unit == "h" else None,
    )
    rates = [(row.start_s, row.end_s, row.rate) for row in plan.stretches]
    yield Chart(
        "Requests per second",
        axis,
        ChartAxis("requests/s"),
        (_stairs("requests/s", "blue", rates, scale, lambda value: f"{quantity(value)} requests/s"),),
        rules=(ChartRule(_mean(plan), f"mean {quantity(_mean(plan))}/s"),),
    )
    needed = [
        (row.start_s, row.end_s, float(number))
        for row, number in zip(plan.stretches, chosen.over_time, strict=True)
    ]
    lines = [_stairs(_needed_name(plan), "green", needed, scale, _replicas)]
    spans: tuple[Span, ...] = ()
    if chosen.autoscaling is not None:
        steps = _ends(chosen.autoscaling.steps, end_s)
        lines.append(_stairs("ready with an autoscaler", "orange", steps, scale, _replicas))
        ends = {row.start_s: row.end_s for row in plan.stretches}
        spans = tuple(
            Span(start_s / scale, ends.get(start_s, start_s) / scale, "", is_faded=True)
            for start_s in chosen.autoscaling.broken
        )
    yield Chart(
        f"Replicas of {chosen.name}",
        axis,
        ChartAxis("replicas", is_whole=True),
        tuple(lines),
        spans=spans,
        rules=(ChartRule(float(chosen.replicas), f"always {chosen.replicas}"),),
        note="Shaded: the autoscaler violates the SLO." if spans else "",
    )


def replica_chart(plan: CapacityPlan) -> Chart:
    """Utilisation of each replica by their number, for constant traffic."""
    rate = plan.stretches[plan.peak].rate
    lines = [
        ChartLine(option.name, (tuple(_replica_points(plan, option, rate)),), COLOURS[number % len(COLOURS)])
        for number, option in enumerate(option for option in plan.options if option.fewest is not None)
    ]
    has_fewer = any(point.is_doubtful for line in lines for point in line.runs[0])
    fewer = (
        "Hollow: fewer replicas than the SLO needs, according to the measured figures. " if has_fewer else ""
    )
    return Chart(
        f"Utilisation of each replica at {quantity(rate)} requests/s",
        ChartAxis("replicas", is_whole=True),
        ChartAxis("utilisation", share),
        tuple(lines),
        rules=(ChartRule(1.0, "saturated"),),
        height=280,
        note=f"{fewer}The labelled point is the plan.",
    )


def _replica_points(plan: CapacityPlan, option: PlannedOption, rate: float) -> Iterator[ChartPoint]:
    """Points from the number of replicas that is saturated to a few more than planned."""
    most, fewest, planned = option.replica.most_per_s.value, option.fewest, option.replicas
    assert fewest is not None
    first = max(1, math.floor(rate / most))
    last = max(planned + MORE, round(planned * MORE_TIMES))
    step = -(-(last - first + 1) // MOST_COUNTS)
    for count in sorted({*range(first, last + 1, step), fewest.replicas, planned}):
        used = rate / count / most
        tip = f"{option.name}, {plural(count, 'replica')}: each {share(used)} busy"
        label = str(count) if count == planned else ""
        yield ChartPoint(float(count), used, tip, label, is_doubtful=count < fewest.replicas)


def _needed_name(plan: CapacityPlan) -> str:
    return f"needed, with {plan.spare} spare" if plan.spare else "needed"


def _mean(plan: CapacityPlan) -> float:
    return sum(row.requests for row in plan.stretches) / sum(row.length_s for row in plan.stretches)


def _unit(span_s: float) -> tuple[str, float]:
    if span_s >= HOURS_FROM_S:
        return "h", 3600.0
    return ("min", 60.0) if span_s >= MINUTES_FROM_S else ("s", 1.0)


def _replicas(value: float) -> str:
    return plural(round(value), "replica")


def _ends(steps: Sequence[ScalingStep], end_s: float) -> list[tuple[float, float, float]]:
    starts = [*(step.start_s for step in steps), end_s]
    return [
        (start, end, float(step.ready)) for step, start, end in zip(steps, starts, starts[1:], strict=False)
    ]


Rows = Sequence[tuple[float, float, float]]
"""(start, end, value) of each step."""


def _stairs(name: str, colour: str, rows: Rows, scale: float, text: Callable[[float], str]) -> ChartLine:
    """A line of values that are constant between two times."""
    points = tuple(
        ChartPoint(at_s / scale, value, f"{plain_number(round(at_s / scale, 2))}: {text(value)}")
        for start_s, end_s, value in rows
        for at_s in (start_s, end_s)
    )
    return ChartLine(name, (points,), colour, has_marks=False)
