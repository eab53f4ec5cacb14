"""Servers that make text: tokens per second, how long the first one takes, and what each level kept of a promise."""

from collections.abc import Iterator

from inferometer.report.document import (
    Chart,
    ChartAxis,
    ChartLine,
    ChartPoint,
    Column,
    Figure,
    Section,
    Table,
)
from inferometer.report.documents.levels import best, load_column, measured, time_axis
from inferometer.report.format import (
    NONE,
    at_percentile,
    duration,
    level_label,
    level_value,
    quantity,
    share,
)
from inferometer.report.sentences import lengths, token_origin
from inferometer.stats.measurement import Level, Measurement
from inferometer.stats.result import Result

TOKEN_RATE = "output tokens/s"


def tokens_section(result: Result) -> Section | None:
    """A row for each level, and the wait for the first token against the tokens per second; None without tokens."""
    rows = [(level, found) for level, found in measured(result) if found.tokens is not None]
    if not rows:
        return None
    has_prompts = any(found.tokens is not None and found.tokens.prompt for _, found in rows)
    has_goodput = any(found.goodput is not None for _, found in rows)
    columns = (
        load_column(rows[0][0]),
        *map(Column, ("Tokens/s", "TTFT p50", "TTFT p99", "Gap p50", "Gap p99", "Per answer")),
        *((Column("Per prompt"),) if has_prompts else ()),
        *map(Column, ("Goodput/s", "Kept") if has_goodput else ()),
    )
    cells = tuple(
        tuple(_cells(level, found, has_prompts=has_prompts, has_goodput=has_goodput)) for level, found in rows
    )
    title = "Tokens"
    table = Table(title, columns, cells)
    lead = "TTFT is the time to the first token, a gap the time from one token to the next."
    tokens = rows[-1][1].tokens
    if tokens is not None:
        lead = f"{lead} {token_origin(tokens)}"
    chart = _chart(rows)
    return Section("tokens", title, lead, (table,) if chart is None else (chart, table))


def _cells(level: Level, found: Measurement, *, has_prompts: bool, has_goodput: bool) -> Iterator[str]:
    tokens, first = found.tokens, None if found.streaming is None else found.streaming.first
    assert tokens is not None  # such levels are left out
    yield level_value(level.mode, level.value)
    yield quantity(tokens.output_per_s)
    for times in (first, tokens.between):
        for p in (50, 99):
            yield NONE if times is None else at_percentile(times, p)
    yield lengths(tokens.per_answer, "..")
    if has_prompts:
        yield lengths(tokens.per_prompt, "..")
    if has_goodput:
        kept = found.goodput
        yield NONE if kept is None else quantity(kept.per_s)
        yield NONE if kept is None else share(kept.share)


def _chart(rows: list[tuple[Level, Measurement]]) -> Chart | None:
    """TTFT over the tokens per second, one point for each level; None for a single one, or without streams."""
    lines = tuple(
        ChartLine(f"TTFT p{p}", (points,), colour)
        for p, colour in ((50, "blue"), (99, "orange"))
        if len(points := tuple(_points(rows, p))) > 1
    )
    if not lines:
        return None
    title = "Time to the first token against tokens per second"
    note = "The numbers are the load."
    return Chart(title, ChartAxis(TOKEN_RATE), time_axis("time to first token", lines), lines, note=note)


def _points(rows: list[tuple[Level, Measurement]], p: int) -> Iterator[ChartPoint]:
    for level, found in rows:
        if found.tokens is None or found.streaming is None or not found.streaming.first.count:
            continue
        ns, per_s = found.streaming.first.percentile_ns(p), found.tokens.output_per_s
        tip = f"{level_label(level.mode, level.value)}: {quantity(per_s)} tokens/s, TTFT p{p} {duration(ns)}"
        name = level_value(level.mode, level.value) if p == 99 else ""
        yield ChartPoint(per_s, float(ns), tip, name)


def token_figures(result: Result) -> Iterator[Figure]:
    """Of the level that stands for all."""
    found = best(result)
    if found is None or (tokens := found[1].tokens) is None:
        return
    level, measurement = found
    where, streaming = f"at {level_label(level.mode, level.value)}", measurement.streaming
    if tokens.output:
        detail = f"{lengths(tokens.per_answer, '..')} per answer, {where}"
        yield Figure("Tokens/s", quantity(tokens.output_per_s), detail)
    if streaming is not None and streaming.first.count:
        times = streaming.first
        yield Figure("TTFT p50", at_percentile(times, 50), f"p99 {at_percentile(times, 99)}, {where}")
    if measurement.goodput is not None:
        kept = measurement.goodput
        yield Figure("Goodput", f"{quantity(kept.per_s)}/s", f"{share(kept.share)} kept '{kept.promise}'")
