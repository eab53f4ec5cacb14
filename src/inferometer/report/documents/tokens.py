"""LLM servers: tokens per second of the server and per user, time to the first token, and goodput of each level."""

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
from inferometer.report.documents.levels import (
    Rows,
    client_line,
    error_bar,
    is_crowded,
    is_doubtful,
    load_axis,
    load_column,
    longest,
    time_axis,
    unlimited,
    untrusted_points_note,
)
from inferometer.report.format import (
    NONE,
    at_percentile,
    duration,
    interval,
    level_label,
    level_value,
    load_name,
    quantity,
    share,
)
from inferometer.report.sentences import lengths, queue_share, token_origin
from inferometer.stats.estimate import Distribution
from inferometer.stats.measurement import Level, Measurement
from inferometer.stats.result import SAME, Result, best, measured

TOKEN_RATE = "output tokens/s"


def tokens_section(result: Result) -> Section | None:
    """A row for each level, and charts of the trade-off; None without tokens."""
    rows = token_rows(result)
    if not rows:
        return None
    has_prompts = any(found.tokens is not None and found.tokens.prompt for _, found in rows)
    has_goodput = any(found.goodput is not None for _, found in rows)
    has_reasoning = any(_answers(found) is not None for _, found in rows)
    has_tools = any(_tools(found) is not None for _, found in rows)
    columns = (
        load_column(rows[0][0]),
        *map(Column, ("Tokens/s", "Per user", "TTFT p50", "TTFT p99")),
        *(Column(name) for name in ("TTFO p50", "TTFO p99") if has_reasoning),
        *(Column(name) for name in ("TTFC p50", "TTFC p99") if has_tools),
        *map(Column, ("TPOT p50", "TPOT p99")),
        Column("Gap p50", rank=4),
        Column("Gap p99"),
        Column("Per answer", rank=2),
        *((Column("Per prompt", rank=3),) if has_prompts else ()),
        *(Column(name, rank=1) for name in ("Goodput/s", "Met SLO") if has_goodput),
    )
    cells = tuple(
        tuple(
            _cells(
                level,
                found,
                has_prompts=has_prompts,
                has_goodput=has_goodput,
                has_reasoning=has_reasoning,
                has_tools=has_tools,
            )
        )
        for level, found in rows
    )
    title = "Tokens"
    table = Table(title, columns, cells)
    words = [
        _trade_off_words(rows),
        "TTFT is the time to the first token, TPOT the mean time per token after it in an answer, a gap the time from "
        "one token to the next.",
        "TTFO is the time to the first token of the answer itself, after the reasoning."
        if has_reasoning
        else "",
        "TTFC is the time to the first tool call, of answers that have one." if has_tools else "",
        "Per user is the rate of one request: its tokens divided by its duration.",
    ]
    tokens = rows[-1][1].tokens
    if tokens is not None and not result.source:
        words.append(token_origin(tokens))
    charts = (chart for chart in (_trade_off(rows), _chart(rows)) if chart is not None)
    more = (found for found in (_phases(rows), _classes(result)) if found is not None)
    return Section("tokens", title, " ".join(filter(None, words)), (*charts, table, *more))


def token_rows(result: Result) -> Rows:
    """Loads with successful answers that have tokens, each once, by load."""
    return longest(tuple(row for row in measured(result) if row[1].tokens is not None))


def _answers(found: Measurement) -> Distribution | None:
    return None if found.streaming is None else found.streaming.answer


def _tools(found: Measurement) -> Distribution | None:
    return None if found.streaming is None else found.streaming.tool


def _cells(
    level: Level,
    found: Measurement,
    *,
    has_prompts: bool,
    has_goodput: bool,
    has_reasoning: bool,
    has_tools: bool,
) -> Iterator[str]:
    tokens, streaming = found.tokens, found.streaming
    first, gaps = (None, None) if streaming is None else (streaming.first, streaming.gaps)
    answers = (_answers(found) or first,) if has_reasoning else ()
    calls = (_tools(found),) if has_tools else ()
    assert tokens is not None  # levels without tokens are excluded
    yield level_value(level.mode, level.value)
    yield quantity(tokens.output_per_s)
    yield NONE if tokens.per_user is None else quantity(tokens.per_user.mean.value)
    for times in (first, *answers, *calls, tokens.between, gaps):
        for p in (50, 99):
            yield NONE if times is None or not times.count else at_percentile(times, p)
    yield lengths(tokens.per_answer, "..")
    if has_prompts:
        yield lengths(tokens.per_prompt, "..")
    if has_goodput:
        kept = found.goodput
        yield NONE if kept is None else quantity(kept.per_s)
        yield NONE if kept is None else share(kept.share)


def _phases(rows: Rows) -> Table | None:
    """Shares of the requests' time by phase at each level; None without streams.

    Before the first token, a request waits for its turn, then the server reads its prompt: only the server's own
    metrics separate the two."""
    queued = {level.value: queue_share(found) for level, found in rows}
    has_queue = any(part is not None for part in queued.values())
    cells = tuple(
        (
            level_value(level.mode, level.value),
            share(tokens.prefill.share),
            *((_maybe_share(queued[level.value]),) if has_queue else ()),
            share(tokens.decode.share),
            quantity(tokens.decode.per_s),
        )
        for level, found in rows
        if (tokens := found.tokens) is not None and tokens.prefill is not None and tokens.decode is not None
    )
    names = ("Until first token", *(("In the queue",) if has_queue else ()), "After it", "Tokens/s after it")
    columns = (load_column(rows[0][0]), *map(Column, names))
    return Table("Where the time of one request goes", columns, cells) if cells else None


def _maybe_share(part: float | None) -> str:
    return NONE if part is None else share(part)


def _classes(result: Result) -> Table | None:
    """Table of figures by prompt length at the best level; None if the lengths do not differ."""
    found = best(result)
    tokens = None if found is None else found[1].tokens
    if found is None or tokens is None or len(tokens.classes) < 2:
        return None
    cells = tuple(
        (
            f"{row.low:,} to {row.high:,}",
            f"{row.count:,}",
            *(
                at_percentile(times, p) if times.count else NONE
                for times in (row.first, row.between)
                for p in (50, 99)
            ),
            lengths(row.per_answer, ".."),
        )
        for row in tokens.classes
    )
    names = ("Requests", "TTFT p50", "TTFT p99", "TPOT p50", "TPOT p99", "Per answer")
    title = f"By prompt length, at {level_label(found[0].mode, found[0].value)}"
    return Table(title, (Column("Prompt tokens"), *map(Column, names)), cells)


def _trade_off(rows: Rows) -> Chart | None:
    """Throughput of the server over throughput per user, a point for each level; None for a single one."""
    own, limited = map(_user_points, unlimited(rows))
    if len(own) + len(limited) < 2:
        return None
    name = load_name(rows[0][0].mode)
    line = (ChartLine("server against one user", (own,), "blue"),) if own else ()
    return Chart(
        title="Tokens per second: the server against one user",
        x=ChartAxis("output tokens/s per user"),
        y=ChartAxis("output tokens/s of the server"),
        series=(*line, *client_line(limited)),
        note=" ".join((f"The numbers are the {name}.", *untrusted_points_note(rows))),
    )


def _user_points(rows: Rows) -> tuple[ChartPoint, ...]:
    return tuple(
        ChartPoint(
            x=tokens.per_user.mean.value,
            y=tokens.output_per_s,
            tip=f"{level_label(level.mode, level.value)}: {quantity(tokens.output_per_s)} tokens/s, "
            f"{quantity(tokens.per_user.mean.value)} per user",
            label=level_value(level.mode, level.value),
            x_limits=error_bar(tokens.per_user.mean),
            y_limits=None if tokens.output_interval is None else error_bar(tokens.output_interval),
            is_doubtful=is_doubtful(level),
        )
        for level, found in rows
        if (tokens := found.tokens) is not None and tokens.per_user is not None
    )


def _trade_off_words(rows: Rows) -> str:
    """Compare the token rates per user and in total at the lightest load with those at saturation.

    Throughputs within `SAME` count as equal: no rise or drop is claimed within the noise."""
    known = [
        (level, tokens.output_per_s, tokens.per_user.mean.value)
        for level, found in unlimited(rows)[0]
        if (tokens := found.tokens) is not None and tokens.per_user is not None
    ]
    if len(known) < 2:
        return ""
    highest = max(row[1] for row in known)
    (light, least, alone), (heavy, most, crowded) = (
        known[0],
        next(row for row in known if row[1] >= (1 - SAME) * highest),
    )
    if heavy.value <= light.value:
        return ""
    return (
        f"From {level_label(light.mode, light.value)} to {level_value(heavy.mode, heavy.value)} the server goes from "
        f"{quantity(least)} to {quantity(most)} tokens/s, and each user from {quantity(alone)} to {quantity(crowded)}."
    )


def _chart(rows: Rows) -> Chart | None:
    """TTFT over tokens per second, or over the load if that spreads the levels better; None for a single level, or
    without streams."""
    own, limited = unlimited(rows)
    is_by_load = is_crowded(rows)
    lines = (
        *(
            ChartLine(f"TTFT p{p}", (points,), colour)
            for p, colour in ((50, "blue"), (99, "orange"))
            if len(points := tuple(_points(own, p, is_by_load=is_by_load))) > 1
        ),
    )
    if not lines:
        return None
    lines += client_line(_points(limited, 99, is_by_load=is_by_load))
    times = time_axis("time to first token", lines)
    if is_by_load:
        return Chart(
            f"Time to the first token by {load_name(rows[0][0].mode)}", load_axis(rows), times, lines
        )
    title = "Time to the first token against tokens per second"
    return Chart(title, ChartAxis(TOKEN_RATE), times, lines, note="The numbers are the load.")


def _points(rows: Rows, p: int, *, is_by_load: bool) -> Iterator[ChartPoint]:
    for level, found in rows:
        if found.tokens is None or found.streaming is None or not found.streaming.first.count:
            continue
        ns, per_s = found.streaming.first.maybe_percentile_ns(p), found.tokens.output_per_s
        if ns is None:
            continue
        tip = f"{level_label(level.mode, level.value)}: {quantity(per_s)} tokens/s, TTFT p{p} {duration(ns)}"
        name = level_value(level.mode, level.value) if p == 99 and not is_by_load else ""
        yield ChartPoint(level.value if is_by_load else per_s, float(ns), tip, name)


def token_figures(result: Result) -> Iterator[Figure]:
    """Token figures of the best level."""
    found = best(result)
    if found is None or (tokens := found[1].tokens) is None:
        return
    level, measurement = found
    where, streaming = f"at {level_label(level.mode, level.value)}", measurement.streaming
    if tokens.output:
        spread = "" if tokens.output_interval is None else interval(tokens.output_interval)
        detail = f"{spread} {where}, {lengths(tokens.per_answer, '..')} per answer".strip()
        yield Figure("Tokens/s", quantity(tokens.output_per_s), detail)
    if tokens.per_user is not None:
        slow = tokens.per_user.percentile(1)
        detail = f"p1 {quantity(slow)}, {where}" if slow else where
        yield Figure("Tokens/s per user", quantity(tokens.per_user.mean.value), detail)
    if streaming is not None and streaming.first.count:
        times = streaming.first
        yield Figure("TTFT p50", at_percentile(times, 50), f"p99 {at_percentile(times, 99)}, {where}")
    if measurement.goodput is not None:
        kept = measurement.goodput
        yield Figure("Goodput", f"{quantity(kept.per_s)}/s", f"{share(kept.share)} met '{kept.promise}'")
