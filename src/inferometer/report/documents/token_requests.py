"""Individual requests of LLM servers: distributions of their times and lengths, and timelines of some requests."""

from collections.abc import Iterator, Sequence

from inferometer.base.units import NS_PER_S
from inferometer.report.document import Chart, ChartAxis, ChartLine, ChartPoint, Section
from inferometer.report.documents.levels import (
    CURVES,
    EXACT,
    Timed,
    distribution_chart,
    few,
    load_curves,
    percentile_curve,
)
from inferometer.report.documents.tokens import token_rows
from inferometer.report.format import duration, level_label, plural, share
from inferometer.stats.estimate import Distribution
from inferometer.stats.measurement import Level
from inferometer.stats.result import Result, best
from inferometer.stats.text_figures import Lane

LANES = 40  # most lanes drawn
LANE_HEIGHT = 10  # pixels
NEGLIGIBLE = 20  # gaps this many times below the median are not drawn
PHASES = (("waiting since due", "grey"), ("to the first token", "orange"), ("tokens", "blue"))


def token_times_section(result: Result) -> Section | None:
    """Times to the first token, gaps between tokens, and lengths of prompts and answers."""
    rows = few(token_rows(result), CURVES)
    charts = (
        _first_tokens(
            [(level, found.streaming.first) for level, found in rows if found.streaming is not None]
        ),
        _gaps([(level, found.streaming.gaps) for level, found in rows if found.streaming is not None]),
        _lengths(result),
    )
    drawn = tuple(chart for chart in charts if chart is not None)
    return (
        Section("token-times", "Tokens of individual requests", "", drawn, is_detail=True) if drawn else None
    )


def _first_tokens(rows: Sequence[tuple[Level, Distribution]]) -> Chart | None:
    curves = tuple(load_curves([row for row in rows if row[1].percentiles]))
    title = "Share of requests whose first token came within a time"
    return distribution_chart(title, curves, timed=Timed("time to the first token")) if curves else None


def _gaps(rows: Sequence[tuple[Level, Distribution]]) -> Chart | None:
    """Distribution of all gaps. Gaps of tokens that arrive together are near 0 and would leave no room for the
    others."""
    known = [row for row in rows if row[1].maybe_percentile_ns(50) is not None]
    if not known:
        return None
    least_ns = min(times.percentile_ns(50) for _, times in known) / NEGLIGIBLE
    is_cut = any((times.min_ns or 0) < least_ns for _, times in known)
    note = f"Gaps below {duration(least_ns)} are not drawn: those tokens arrived together." if is_cut else ""
    timed = Timed("time between tokens", "gaps", least_ns)
    return distribution_chart("Share of gaps between tokens within a time", load_curves(known), note, timed)


def _lengths(result: Result) -> Chart | None:
    """Length distributions at the best level."""
    found = best(result)
    if found is None or (tokens := found[1].tokens) is None:
        return None
    lines = tuple(
        ChartLine(name, (tuple(_length_points(name, spread)),), colour)
        for name, spread, colour in (
            ("prompts", tokens.per_prompt, "orange"),
            ("answers", tokens.per_answer, "blue"),
        )
        if spread.count and spread.max_ns is not None and spread.min_ns != spread.max_ns
    )
    if not lines:
        return None
    where = level_label(found[0].mode, found[0].value)
    return Chart(
        title=f"Lengths of prompts and answers, at {where}",
        x=ChartAxis("tokens", is_whole=True),
        y=ChartAxis("share up to this length", share),
        series=lines,
        height=250,
    )


def _length_points(name: str, spread: Distribution) -> Iterator[ChartPoint]:
    for part, tokens in percentile_curve(spread):
        words = f"{share(part)} of the {name} have at most {plural(round(tokens), 'token')}"
        yield ChartPoint(tokens, part, words if part in EXACT else "")


# --- timelines of some requests


def lanes_section(result: Result) -> Section | None:
    """Times at which requests were due, sent, first answered and ended, below each other; None without streams."""
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
        note="One line per request. Requests above each other were in the server at the same time.",
    )
    return Section("lanes", "Requests", "", (chart,), is_detail=True)


def _runs(lanes: list[Lane], phase: int, start_ns: int) -> Iterator[tuple[ChartPoint, ...]]:
    """The part of each request that lies in this phase, if any; only its first point has a tooltip."""
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
