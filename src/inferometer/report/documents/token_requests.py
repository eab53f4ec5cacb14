"""Single requests of servers that make text: how their times and lengths are distributed, and the course of some."""

from collections.abc import Callable, Iterator

from inferometer.base.units import NS_PER_S
from inferometer.report.document import Chart, ChartAxis, ChartLine, ChartPoint, Section
from inferometer.report.documents.levels import (
    CURVES,
    Rows,
    best,
    distribution_chart,
    few,
    percentile_curve,
)
from inferometer.report.documents.tokens import token_rows
from inferometer.report.format import duration, level_label, plural, share
from inferometer.stats.measurement import Distribution, Lane, Measurement
from inferometer.stats.result import Result

LANES = 40  # that are drawn
LANE_HEIGHT = 10  # pixels
PHASES = (("waits since it was due", "grey"), ("to the first token", "orange"), ("tokens", "blue"))


def token_times_section(result: Result) -> Section | None:
    """How long first tokens and the gaps after them took, and how long prompts and answers were."""
    rows = few(token_rows(result), CURVES)
    charts = (
        _curves(
            "Share of requests whose first token came within a time", "time to the first token", rows, _first
        ),
        _curves("Share of gaps between tokens within a time", "time between tokens", rows, _gaps),
        _lengths(result),
    )
    drawn = tuple(chart for chart in charts if chart is not None)
    return Section("token-times", "Tokens of single requests", "", drawn, is_detail=True) if drawn else None


def _first(found: Measurement) -> Distribution | None:
    return None if found.streaming is None else found.streaming.first


def _gaps(found: Measurement) -> Distribution | None:
    """Every single one."""
    return None if found.streaming is None else found.streaming.gaps


def _curves(
    title: str, what: str, rows: Rows, get: Callable[[Measurement], Distribution | None]
) -> Chart | None:
    known = [
        (level, times) for level, found in rows if (times := get(found)) is not None and times.percentiles
    ]
    if not known:
        return None
    curves = []
    for number, (level, times) in enumerate(known):
        shade = 5 if len(known) == 1 else 1 + round(number * 4 / (len(known) - 1))
        curves.append((level_label(level.mode, level.value), times, f"load-{shade}"))
    return distribution_chart(title, curves, what=what)


def _lengths(result: Result) -> Chart | None:
    """Of the level that stands for all."""
    found = best(result)
    if found is None or (tokens := found[1].tokens) is None:
        return None
    lines = tuple(
        ChartLine(name, (tuple(_length_points(name, spread)),), colour)
        for name, spread, colour in (
            ("prompts", tokens.per_prompt, "orange"),
            ("answers", tokens.per_answer, "blue"),
        )
        if spread.count and spread.min_ns < spread.max_ns
    )
    if not lines:
        return None
    where = level_label(found[0].mode, found[0].value)
    return Chart(
        title=f"Lengths of prompts and answers, at {where}",
        x=ChartAxis("tokens", is_whole=True),
        y=ChartAxis("share that is no longer", share),
        series=lines,
        height=250,
    )


def _length_points(name: str, spread: Distribution) -> Iterator[ChartPoint]:
    for part, tokens in percentile_curve(spread):
        yield ChartPoint(
            tokens, part, f"{share(part)} of the {name} have at most {plural(round(tokens), 'token')}"
        )


# --- the course of some requests


def lanes_section(result: Result) -> Section | None:
    """When each of some requests was due, sent, answered first and ended, below each other; None without streams."""
    found = best(result)
    if found is None or len(found[1].lanes) < 2:
        return None
    level, lanes = found[0], sorted(found[1].lanes[-LANES:], key=lambda lane: (lane.due_ns, lane.sent_ns))
    start_ns = min(lane.due_ns for lane in lanes)
    lines = tuple(
        ChartLine(name, runs, colour, is_thick=True)
        for number, (name, colour) in enumerate(PHASES)
        if (runs := tuple(_runs(lanes, number, start_ns)))
    )
    chart = Chart(
        title=f"The last {len(lanes)} streamed requests, at {level_label(level.mode, level.value)}",
        x=ChartAxis("seconds"),
        y=ChartAxis("request, in the order they were due", is_whole=True),
        series=lines,
        height=90 + LANE_HEIGHT * len(lanes),
        note="A line for each request. What stands above each other was in the server at the same time.",
    )
    return Section("lanes", "Requests", "", (chart,), is_detail=True)


def _runs(lanes: list[Lane], phase: int, start_ns: int) -> Iterator[tuple[ChartPoint, ...]]:
    """The piece of each request in this phase, where it has one; only its first point can be pointed at."""
    for number, lane in enumerate(lanes, start=1):
        times = (lane.due_ns, lane.sent_ns, lane.first_ns, lane.end_ns)
        begin_ns, end_ns = times[phase], times[phase + 1]
        if end_ns > begin_ns:
            begin, end = ((ns - start_ns) / NS_PER_S for ns in (begin_ns, end_ns))
            yield (ChartPoint(begin, number, _tip(number, lane)), ChartPoint(end, number, ""))


def _tip(number: int, lane: Lane) -> str:
    words = [f"request {number}: {duration(lane.first_ns - lane.sent_ns)} to the first token"]
    if lane.sent_ns > lane.due_ns:
        words.insert(1, f"sent {duration(lane.sent_ns - lane.due_ns)} after it was due")
    words.append(f"{plural(lane.output_tokens, 'token')} in {duration(lane.end_ns - lane.first_ns)}")
    if lane.prompt_tokens:
        words.append(f"prompt of {plural(lane.prompt_tokens, 'token')}")
    return ", ".join(words)
