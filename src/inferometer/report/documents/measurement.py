"""The report of a measurement: what was asked of it, in the order in which people ask."""

from collections.abc import Iterator

from inferometer.base.answer_file import to_json
from inferometer.base.units import NS_PER_US
from inferometer.report.console import client_sentence, found_load, limit_words, start_sentence, verdict_words
from inferometer.report.document import (
    Block,
    Column,
    Document,
    Facts,
    Figure,
    Message,
    Messages,
    Section,
    Table,
    Tone,
)
from inferometer.report.documents.distribution import distribution_section
from inferometer.report.documents.settings import host_section, settings_section
from inferometer.report.documents.throughput import throughput_section
from inferometer.report.documents.time_bars import time_section
from inferometer.report.documents.timeline import timeline_section
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
    plural,
    quantity,
    share,
)
from inferometer.report.metrics import metrics_lines
from inferometer.report.verdict import best, verdict
from inferometer.stats.measurement import FailureGroup, Level, Measurement, SequenceFigures, Streaming
from inferometer.stats.result import Finding, Result


def measure_document(result: Result) -> Document:
    """The whole report; the same result gives the same document."""
    sections = (
        throughput_section(result),
        time_section(result),
        distribution_section(result),
        timeline_section(result),
        errors_section(result),
        table_section(result),
        more_section(result),
        notes_section(result),
        settings_section(result),
        host_section(result),
    )
    return Document(
        kind="Search" if result.finding is not None else "Measurement",
        title=str(result.model.get("name", "model")),
        facts=facts(result),
        verdict=verdict(result),
        tone=_tone(result),
        figures=tuple(_figures(result)),
        sections=tuple(section for section in sections if section is not None),
        source=to_json(result),
        source_name="result.json",
        tool=result.tool,
    )


def facts(result: Result) -> tuple[str, ...]:
    """The line below the title: what was measured, when, where."""
    version = result.model.get("version")
    words = (
        f"version {version}" if version else "",
        f"{result.effective.get('service_kind', '')} {result.effective.get('protocol', '')}".strip(),
        f"batch {result.effective.get('batch', 1)}",
        str(result.server.get("url", "")),
        when(result.started_at),
    )
    return tuple(word for word in words if word)


def when(started_at: str) -> str:
    """The moment as people write it."""
    return started_at.replace("T", " ").replace("+00:00", " UTC").replace("Z", " UTC")


def _tone(result: Result) -> Tone:
    if best(result) is None or (result.finding is not None and not result.finding.value):
        return Tone.BAD
    if result.finding is not None:  # a search goes beyond what the server can do
        return Tone.GOOD if result.finding.low and result.finding.high is not None else Tone.WARNING
    limit = float(result.effective.get("max_error_rate") or 0.0)
    if result.failed_share > limit or not all(level.is_as_asked for level in result.levels):
        return Tone.WARNING
    return Tone.GOOD


def _figures(result: Result) -> Iterator[Figure]:
    found = best(result)
    if result.finding is not None and result.finding.value:
        unit = "requests/s" if result.finding.mode == "request_rate" else "in flight"
        yield Figure(
            "Keeps", f"{found_load(result.finding, result.finding.value)} {unit}", limit_words(result.finding)
        )
    if found is None:
        return
    level, measurement = found
    where = f"at {level_label(level.mode, level.value)}"
    rate = measurement.infer_per_s
    yield Figure("Throughput", f"{quantity(rate.value)} infer/s", f"{interval(rate)} {where}".strip())
    latency = measurement.latency
    for p in (50, 99):
        estimate = dict(measurement.latency_intervals).get(f"p{p}")
        spread = "" if estimate is None else interval(estimate)
        yield Figure(f"p{p} latency", duration(latency.percentile_ns(p)), f"{spread} {where}".strip())
    failed = sum(row.measurement.failed_count for row in result.levels if row.measurement is not None)
    total = failed + sum(
        row.measurement.request_count for row in result.levels if row.measurement is not None
    )
    is_bad = result.failed_share > float(result.effective.get("max_error_rate") or 0.0)
    yield Figure(
        "Errors",
        share(result.failed_share),
        f"{failed} of {plural(total, 'request')}",
        Tone.BAD if is_bad else Tone.PLAIN,
    )
    client = measurement.client
    yield Figure(
        "Client CPU",
        share(client.cpu_share),
        f"of a core, {duration(client.cpu_us_per_request * NS_PER_US)} a request",
        Tone.WARNING if client.cpu_share > 0.9 else Tone.PLAIN,
    )


def errors_section(result: Result) -> Section | None:
    """Failures grouped by their kind, each with an example; None when nothing failed."""
    rows = tuple(
        _error_row(level, group)
        for level in result.levels
        if level.measurement is not None
        for group in level.measurement.failures
    )
    if not rows:
        return None
    columns = tuple(
        Column(name, name == "Requests") for name in ("Level", "Kind", "Requests", "When", "After", "Example")
    )
    lead = f"{share(result.failed_share)} of all requests failed. They are in no latency."
    return Section("errors", "Errors", lead, (Table("Failed requests by kind", columns, rows),))


def _error_row(level: Level, group: FailureGroup) -> tuple[str, ...]:
    when = f"{group.first_s:.1f} s to {group.last_s:.1f} s" if group.count > 1 else f"{group.first_s:.1f} s"
    label = level_label(level.mode, level.value)
    took = f"{duration(group.mean_ns)}, at most {duration(group.max_ns)}" if group.max_ns else "-"
    return (label, group.kind, str(group.count), when, took, first_line(group.example))


def table_section(result: Result) -> Section | None:
    """All levels, in the order they were measured."""
    if not result.levels:
        return None
    shown = percentiles(result.effective.get("percentile"))
    is_rate = any(level.mode != "concurrency" for level in result.levels)
    numbers = ("Infer/s", "± 95 %", "Average", *(f"p{p}" for p in shown), "Slowest")
    counts = ("Requests", "Failed", "Client CPU")
    columns = (
        Column("Request rate" if is_rate else "Concurrency"),
        *(Column(name) for name in (*numbers, *counts)),
        Column("Verdict", is_number=False),
    )
    rows = tuple(_level_row(level, shown, result.finding) for level in result.levels)
    table = Table("Every level", columns, rows)
    return Section("levels", "All levels", "", (table,))


def _level_row(level: Level, shown: tuple[int, ...], finding: Finding | None) -> tuple[str, ...]:
    value, words = level_value(level.mode, level.value), verdict_words(level, finding)
    measurement = level.measurement
    if measurement is None:
        return (value, *(NONE for _ in range(len(shown) + 7)), words)
    return (value, *_cells(measurement, shown), words)


def _cells(measurement: Measurement, shown: tuple[int, ...]) -> tuple[str, ...]:
    latency = measurement.latency
    return (
        quantity(measurement.infer_per_s.value),
        interval(measurement.infer_per_s),
        average(latency),
        *(at_percentile(latency, p) for p in shown),
        duration(latency.max_ns) if latency.count else NONE,
        str(measurement.request_count),
        str(measurement.failed_count),
        share(measurement.client.cpu_share),
    )


def more_section(result: Result) -> Section | None:
    """The client's cost, streams, sequences and the server's metrics, of the level that stands for all."""
    found = best(result)
    if found is None:
        return None
    level, measurement = found
    blocks = tuple(_more(measurement, int(result.host.get("ports") or 0)))
    return Section("more", "More figures", f"At {level_label(level.mode, level.value)}.", blocks)


def _more(measurement: Measurement, ports: int) -> Iterator[Block]:
    yield Messages((Message(client_sentence(measurement.client, ports), tone=Tone.PLAIN),))
    if measurement.streaming is not None:
        yield Facts("Streams", _streams(measurement.streaming))
    if measurement.sequences is not None:
        yield Facts("Sequences", _sequences(measurement.sequences))
    if measurement.metrics is not None:
        lines = tuple(Message(line.strip(), tone=Tone.PLAIN) for line in metrics_lines(measurement.metrics))
        yield Messages(lines)


def _streams(stream: Streaming) -> tuple[tuple[str, str], ...]:
    return (
        ("Responses", f"{quantity(stream.per_s)} per second"),
        ("Responses per request", f"{stream.responses / max(1, stream.per_request.count):.3g}"),
        ("First response, p50", at_percentile(stream.first, 50)),
        ("First response, p99", at_percentile(stream.first, 99)),
        ("Between responses, p50", at_percentile(stream.gaps, 50)),
        ("Between responses, p99", at_percentile(stream.gaps, 99)),
    )


def _sequences(whole: SequenceFigures) -> tuple[tuple[str, str], ...]:
    return (
        ("Whole sequences", str(whole.count)),
        ("Sequences per second", quantity(whole.per_s)),
        ("Each, p50", duration(whole.latency.percentile_ns(50))),
        ("Each, p99", duration(whole.latency.percentile_ns(99))),
    )


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
        if level.start is not None:
            yield Message(start_sentence(level, level.start), tone=Tone.PLAIN)
        if level.doubt is not None:
            doubt = level.doubt
            label = level_label(level.mode, level.value)
            yield Message(f"{label}: {doubt.kind}: {doubt.text}", f"{doubt.figure} {doubt.sparkline}")
