"""The contents of a trace or prompt file as a document: number, arrival times, lengths, and shared prefixes."""

from collections.abc import Iterator

from inferometer.base.units import NS_PER_S
from inferometer.report.document import (
    Chart,
    ChartAxis,
    ChartLine,
    ChartPoint,
    ChartRule,
    Column,
    Document,
    Facts,
    Figure,
    Message,
    Section,
    Spread,
    Table,
    message_section,
)
from inferometer.report.format import curve, duration, plural, quantity, share, time_span
from inferometer.stats.inspection import MANY_TOGETHER, Burstiness, Inspection, TokenLengths

CURVE_WIDTH = 60  # characters


def inspection_document(found: Inspection) -> Document:
    """Return the report of an inspection."""
    facts = [found.format, plural(found.requests, "request")]
    if found.span_s is not None:
        facts.append(f"{_time(found.span_s)} long")
    sections = (
        _rate_section(found),
        _length_section(found),
        _share_section(found),
        message_section("notes", "Notes", (Message(text) for text in found.findings)),
    )
    return Document(
        kind="Contents",
        title=found.name,
        facts=tuple(facts),
        verdict=_verdict(found),
        sections=tuple(section for section in sections if section is not None),
        figures=tuple(_figures(found)),
    )


def _verdict(found: Inspection) -> str:
    words = [plural(found.requests, "request")]
    if found.span_s is not None:
        words.append(f"in {_time(found.span_s)}")
    if found.per_s is not None:
        words.append(f"({quantity(found.per_s)}/s)")
    if found.input is not None:
        words.append(f"with prompts of {quantity(found.input.mean)} tokens on average")
    if found.output is not None:
        words.append(
            f"{'and' if found.input is not None else 'with'} answers of {quantity(found.output.mean)}"
        )
    text = f"{' '.join(words)}."
    if found.cacheable_share is not None:
        text += f" {share(found.cacheable_share)} of the prompt tokens could come from a prefix cache."
    return text


def _figures(found: Inspection) -> Iterator[Figure]:
    yield Figure("Requests", f"{found.requests:,}", found.format)
    if found.per_s is not None and found.peak_per_s is not None:
        yield Figure(
            "Rate",
            f"{quantity(found.per_s)}/s",
            f"at most {quantity(found.peak_per_s)}/s over {_time(found.bin_s)}",
        )
    for label, lengths in (("Prompt", found.input), ("Answer", found.output)):
        if lengths is not None:
            yield Figure(
                f"{label} tokens", quantity(lengths.mean), f"p50 {lengths.p50:,}, p99 {lengths.p99:,}"
            )
    if found.cacheable_share is not None:
        yield Figure(
            "Cacheable", share(found.cacheable_share), "of the prompt tokens, by an ideal prefix cache"
        )


def _time(seconds: float) -> str:
    return duration(seconds * NS_PER_S) if seconds < 60 else time_span(round(seconds))


# --- when


def _rate_section(found: Inspection) -> Section | None:
    if found.span_s is None:
        return None
    facts = [("Time span", _time(found.span_s))]
    if found.per_s is not None and found.peak_per_s is not None:
        facts += [
            ("Mean rate", f"{quantity(found.per_s)} requests/s"),
            ("Highest rate", f"{quantity(found.peak_per_s)} requests/s, over {_time(found.bin_s)}"),
        ]
    lead = "All requests have the same arrival time."
    if len(found.bins) > 1:
        facts.append(("Over time", _curve(found)))
    if found.burstiness is not None:
        facts += _burst_facts(found.burstiness)
        lead = " ".join(_burst_words(found.burstiness))
    charts = tuple(_rate_charts(found)) if len(found.bins) > 1 else ()
    return Section("rate", "Rate over time", lead, (*charts, Facts("Arrivals", tuple(facts))))


def _curve(found: Inspection) -> str:
    """The rate as bars of text; each bar averages as many bins as needed to fit one line."""
    each = -(-len(found.bins) // CURVE_WIDTH)
    groups = [found.bins[start : start + each] for start in range(0, len(found.bins), each)]
    return curve([sum(row.requests for row in group) / len(group) for group in groups], CURVE_WIDTH)


def _burst_facts(found: Burstiness) -> list[tuple[str, str]]:
    rows = [("Squared variation of the gaps", f"{quantity(found.gap_variation)} (independent arrivals: 1)")]
    if found.dispersion is not None:
        window = _time(found.window_s)
        text = f"{quantity(found.dispersion)} in windows of {window} (independent arrivals: 1)"
        rows.append(("Index of dispersion", text))
    return rows


def _burst_words(found: Burstiness) -> Iterator[str]:
    """Describe burstiness by the counts per window, which rounded times do not change."""
    figure = found.gap_variation if found.dispersion is None else found.dispersion
    what = (
        "the gaps between requests vary"
        if found.dispersion is None
        else "the number of requests in a window varies"
    )
    times = f"{what} {quantity(figure)} times as much as with independent arrivals"
    if abs(figure - 1) <= found.chance:
        yield f"Requests arrive independently (Poisson), or indistinguishably so: {times} (by variance)."
    elif figure > 1:
        yield f"Requests arrive in bursts: {times} (by variance), so queues are longer than the mean rate suggests."
    else:
        yield f"Requests arrive evenly: {times} (by variance), so queues are shorter than with independent arrivals."
    if found.together > MANY_TOGETHER:
        yield (
            f"{share(found.together)} of them have the same time as another request, because times are multiples of "
            f"{_time(found.tick_s)}: a replay sends them together."
        )


def _rate_charts(found: Inspection) -> Iterator[Chart]:
    yield _request_chart(found)
    tokens = _token_chart(found)
    if tokens is not None:
        yield tokens


def _request_chart(found: Inspection) -> Chart:
    points = tuple(
        ChartPoint(
            row.start_s + found.bin_s / 2,
            row.requests / found.bin_s,
            f"{_time(row.start_s)} to {_time(row.start_s + found.bin_s)}: {plural(row.requests, 'request')}",
        )
        for row in found.bins
    )
    mean = found.per_s or 0.0
    return Chart(
        f"Requests per second, in steps of {_time(found.bin_s)}",
        ChartAxis("time (s)"),
        ChartAxis("requests/s"),
        (ChartLine("requests/s", (points,), "blue", has_marks=False),),
        rules=(ChartRule(mean, f"mean {quantity(mean)}/s"),),
    )


def _token_chart(found: Inspection) -> Chart | None:
    lines = tuple(
        ChartLine(
            name,
            (
                tuple(
                    ChartPoint(
                        row.start_s + found.bin_s / 2,
                        tokens / found.bin_s,
                        f"{_time(row.start_s)}: {quantity(tokens / found.bin_s)} {name}/s",
                    )
                    for row, tokens in zip(found.bins, values, strict=True)
                ),
            ),
            colour,
            has_marks=False,
        )
        for name, colour, values in (
            ("prompt tokens", "blue", [row.input_tokens for row in found.bins]),
            ("answer tokens", "orange", [row.output_tokens for row in found.bins]),
        )
        if any(values)
    )
    if not lines:
        return None
    return Chart("Tokens per second", ChartAxis("time (s)"), ChartAxis("tokens/s"), lines)


# --- how long


def _length_section(found: Inspection) -> Section | None:
    rows = [
        (name, each) for name, each in (("Prompt", found.input), ("Answer", found.output)) if each is not None
    ]
    if not rows:
        return None
    columns = (
        Column("Tokens", is_number=False),
        *map(Column, ("Requests", "Mean", "p50", "p90", "p99", "Max", "In all")),
    )
    cells = tuple(
        (
            name,
            *(f"{each.count:,}", quantity(each.mean)),
            *(f"{value:,}" for value in (each.p50, each.p90, each.p99, each.max, each.total)),
        )
        for name, each in rows
    )
    return Section(
        "lengths", "Lengths", _counted(found), (_length_chart(rows), Table("Lengths", columns, cells))
    )


def _counted(found: Inspection) -> str:
    if found.counted_in == "the trace":
        return "Lengths are taken from the trace."
    what = (
        "words, because no tokenizer is given"
        if found.counted_in == "words"
        else f"tokens of {found.counted_in}"
    )
    return f"Counted in {what}; the server adds its chat template."


def _length_chart(rows: list[tuple[str, TokenLengths]]) -> Chart:
    lines = tuple(
        ChartLine(
            f"{name.lower()} tokens",
            (
                tuple(
                    ChartPoint(
                        max(tokens, 1), p / 100, f"{quantity(p)} % of them have up to {tokens:,} tokens"
                    )
                    for p, tokens in each.curve
                ),
            ),
            colour,
        )
        for (name, each), colour in zip(rows, ("blue", "orange"), strict=False)
    )
    return Chart(
        "Share of requests up to a length",
        ChartAxis("tokens (log scale)", spread=Spread.LOG),
        ChartAxis("share", share),
        lines,
    )


# --- what they share


def _share_section(found: Inspection) -> Section | None:
    facts = []
    if found.cacheable_share is not None and found.cacheable_tokens is not None:
        text = f"{share(found.cacheable_share)} of the prompt tokens ({found.cacheable_tokens:,})"
        facts.append(("Cacheable", text))
    if found.session_count:
        middle, most = found.session_requests
        facts.append(
            ("Sessions", f"{found.session_count:,}, with {middle:,} requests (p50) and at most {most:,}")
        )
    if not facts:
        return None
    lead = "Cacheable tokens are those at the start of a prompt that an earlier prompt also started with."
    return Section(
        "shared",
        "Shared prompts",
        lead if found.cacheable_share is not None else "",
        (Facts("Shared", tuple(facts)),),
    )
