"""The levels of a result: which of them count, a table of all, what failed in them and what is to be said of them."""

from collections.abc import Iterator

from inferometer.report.document import Column, Message, Messages, Section, Table, Tone
from inferometer.report.format import (
    NONE,
    at_percentile,
    average,
    duration,
    first_line,
    interval,
    level_label,
    level_value,
    percentiles,
    quantity,
    share,
)
from inferometer.report.sentences import failure_sentence, start_sentence, verdict_words
from inferometer.stats.measurement import Level, Measurement
from inferometer.stats.result import Result

NEAR = 0.05  # share of the highest throughput within which a lighter load does as well


def measured(result: Result) -> tuple[tuple[Level, Measurement], ...]:
    """The levels that had good answers, by load."""
    rows = [
        (level, level.measurement)
        for level in result.levels
        if level.measurement is not None and level.measurement.request_count
    ]
    return tuple(sorted(rows, key=lambda row: row[0].value))


def best(result: Result) -> tuple[Level, Measurement] | None:
    """The level a reader should look at: of a search the one that was held, else the highest throughput."""
    rows = measured(result)
    if result.finding is not None and result.finding.value:
        rows = tuple(row for row in rows if row[0].value == result.finding.value) or rows
        return rows[-1] if rows else None
    sound = tuple(row for row in rows if row[0].is_as_asked) or rows
    return max(sound, key=lambda row: row[1].infer_per_s.value, default=None)


def enough(result: Result) -> Level | None:
    """The lightest load that is nearly as good as the best; None when that is the best itself."""
    found = best(result)
    if found is None or found[0].mode != "concurrency":
        return None
    least = found[1].infer_per_s.value * (1 - NEAR)
    first = next((level for level, row in measured(result) if row.infer_per_s.value >= least), found[0])
    return first if first.value < found[0].value else None


def load_column(level: Level) -> Column:
    return Column("Conc." if level.mode == "concurrency" else "Rate")


def levels_section(result: Result) -> Section | None:
    """A row for each level; where load had due times, a second table of rates."""
    # A search visits levels in an order of its own.
    levels = sorted(result.levels, key=lambda row: row.value) if result.finding else result.levels
    if not levels:
        return None
    chosen = result.effective.percentile
    shown = percentiles(chosen)
    columns = (
        load_column(levels[0]),
        *map(Column, ("Infer/s", "±95%", "Avg")),
        *(Column(f"p{p}", rank=1 if p in (90, 95) and p != chosen else 0) for p in shown),
        *(Column(name, rank=2) for name in ("Slowest", "Requests", "Failed")),
        *map(Column, ("Errors", "Client CPU")),
        Column("Verdict", is_number=False),
    )
    ramp = "" if (periodic := result.effective.periodic) is None else "{:g}..{:g}".format(*periodic[:2])
    words = [verdict_words(level, result.finding) for level in levels]
    rows = tuple(
        (ramp or level_value(level.mode, level.value), *_cells(level.measurement, shown), said)
        for level, said in zip(levels, words, strict=True)
    )
    tones = tuple(Tone.GOOD if said in ("ok", "kept") else Tone.WARNING for said in words)
    blocks = [Table("All levels", columns, rows, tones=tones)]
    rates = tuple(_rate_row(level) for level in levels if level.measurement is not None and level.rates)
    if rates:
        names = (
            "Asked/s",
            "Sent/s",
            "Answered/s",
            "Latency avg",
            "Latency p99",
            "Service avg",
            "Service p99",
        )
        blocks.append(
            Table("Rates, and the time after the send beside the latency", tuple(map(Column, names)), rates)
        )
    return Section("levels", "All levels", "", tuple(blocks))


def _cells(found: Measurement | None, shown: tuple[int, ...]) -> tuple[str, ...]:
    if found is None:
        return tuple(NONE for _ in range(len(shown) + 8))
    latency = found.latency
    return (
        quantity(found.infer_per_s.value),
        interval(found.infer_per_s),
        average(latency),
        *(at_percentile(latency, p) for p in shown),
        duration(latency.max_ns) if latency.count else NONE,
        str(found.request_count),
        str(found.failed_count),
        share(found.failed_share),
        share(found.client.cpu_share),
    )


def _rate_row(level: Level) -> tuple[str, ...]:
    """What was asked, sent and answered, and the whole latency beside the part after the send."""
    found, rates = level.measurement, level.rates
    assert found is not None
    assert rates is not None
    return (
        *map(quantity, (rates.asked_per_s, rates.sent_per_s, rates.answered_per_s)),
        average(found.latency),
        at_percentile(found.latency, 99),
        average(found.service),
        at_percentile(found.service, 99),
    )


def errors_section(result: Result) -> Section | None:
    """Failures grouped by their kind, each with an example; None when nothing failed."""
    rows = tuple(
        Message(failure_sentence(level, group), tone=Tone.BAD)
        for level in result.levels
        if level.measurement is not None
        for group in level.measurement.failures
    )
    if not rows:
        return None
    lead = f"{share(result.failed_share)} of all requests failed. They are in no latency."
    return Section("errors", "Errors", lead, (Messages(rows),))


def notes_section(result: Result) -> Section | None:
    """Every remark, with its advice once."""
    rows = list(_unlike(result))
    said = [("", remark) for remark in result.remarks] + [
        (f"{level_label(level.mode, level.value)}: ", remark)
        for level in result.levels
        for remark in level.remarks
    ]
    for note in dict.fromkeys(remark.note for _, remark in said):
        lines = [f"{where}{first_line(remark.text)}" for where, remark in said if remark.note is note]
        rows.append(Message("\n".join(lines), note.advice))
    return Section("notes", "Notes", "", (Messages(tuple(rows)),)) if rows else None


def _unlike(result: Result) -> Iterator[Message]:
    """What was left out as warm-up, and why figures are not as sure as asked."""
    for level in result.levels:
        label = level_label(level.mode, level.value)
        if level.start is not None:
            yield Message(start_sentence(level, level.start), tone=Tone.PLAIN)
        if level.doubt is not None:
            doubt = level.doubt
            yield Message(f"{label}: {doubt.kind}: {doubt.text}", f"{doubt.figure} {doubt.sparkline}")
