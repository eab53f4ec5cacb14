"""What people see at the end: one table, where the time goes, and what went wrong."""

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from inferometer.base.notes import Note
from inferometer.base.units import NS_PER_S, NS_PER_US
from inferometer.report.escape import terminal
from inferometer.report.format import (
    NONE,
    at_percentile,
    average,
    duration,
    first_line,
    has_schedule,
    interval,
    is_periodic,
    level_label,
    level_value,
    percentiles,
    plural,
    quantity,
    share,
)
from inferometer.report.metrics import metrics_lines
from inferometer.report.server import Part, parts
from inferometer.report.tokens import text_lines
from inferometer.stats.measurement import (
    ClientCost,
    Doubt,
    FailureGroup,
    Level,
    Measurement,
    SequenceFigures,
    StartFigures,
    Streaming,
)
from inferometer.stats.result import Finding, Result

BAR_WIDTH = 24
WIDTH = 100

_VERDICTS = {
    Note.CLIENT_LIMITED: "client limit",
    Note.OVERLOADED: "overloaded",
    Note.NOT_OFFERED: "rate not reached",
    Note.NOT_STABLE: "not stable",
    Note.NOT_PRECISE: "not precise",
    Note.INTERRUPTED: "interrupted",
    Note.SERVER_GONE: "server gone",
    Note.NO_ANSWER: "no answer",
    Note.NO_REPLY: "no reply",
    Note.OTHER_CLIENTS: "other clients",
    Note.NOT_COUNTED: "not counted",
}


def render(result: Result, console: Console) -> None:
    """The whole report of a measurement."""
    width = min(WIDTH, console.width)
    console.print(terminal(_title(result), style="bold"), width=width)
    if result.finding is not None:
        console.print(terminal(finding_sentence(result.finding), style="bold"), width=width)
    console.print(_table(result, is_narrow=width < WIDTH), width=width)
    if any(level.rates is not None for level in result.levels):
        console.print(_rate_table(result), width=width)
    for level in _last_measured(result):
        for block in _time(level):
            console.print(block, width=width)
    for level in _last_measured(result):
        if level.measurement is not None and level.measurement.streaming is not None:
            console.print(terminal(_streaming(level.measurement.streaming)), width=width)
        if level.measurement is not None:
            for line in text_lines(level.measurement):
                console.print(terminal(line), width=width)
        if level.measurement is not None and level.measurement.sequences is not None:
            console.print(terminal(_sequences(level.measurement.sequences)), width=width)
        if level.measurement is not None and level.measurement.metrics is not None:
            for line in metrics_lines(level.measurement.metrics):
                console.print(terminal(line), width=width)
        if level.measurement is not None:
            ports = int(result.host.get("ports", 0))
            client = client_sentence(level.measurement.client, ports)
            for line in (interval_sentence(level.measurement), client):
                if line:
                    console.print(terminal(line), width=width)
    for block in _troubles(result):
        console.print(block, width=width)


def finding_sentence(finding: Finding) -> str:
    """The answer of a search in words."""
    unit = "requests/s" if finding.mode == "request_rate" else "requests in flight"
    if not finding.value:
        clauses = [_nothing_kept(finding, unit)]
    else:
        most = found_load(finding, finding.value)
        clauses = [f"Keeps '{finding.promise}' up to {most} {unit} ({limit_words(finding)})"]
        if finding.high is None:
            tried = max((row.load for row in finding.judged), default=finding.low)
            clauses.append(
                f"nothing is known to break it up to {found_load(finding, tried)}, the most that was tried"
            )
        else:
            clauses.append(f"above, it breaks on {finding.limited_by}")
    words = "; ".join(clauses) + "."
    if finding.knee:
        words += f" Knee at {found_load(finding, finding.knee)}."
    if finding.needed_s:
        words += f" The time was too short to say more: give --duration {finding.needed_s:.0f}s or longer."
    return words


def _nothing_kept(finding: Finding, unit: str) -> str:
    lowest = min(finding.judged, key=lambda row: row.load, default=None)
    if lowest is None or lowest.verdict == "broken":
        return f"'{finding.promise}' is not kept at any load that was tried; it broke on {finding.limited_by}"
    least = f"{found_load(finding, lowest.load)} {unit}, the least that was tried"
    return f"Whether '{finding.promise}' is kept at {least}, could not be decided ({limit_words(finding)})"


def found_load(finding: Finding, load: float) -> str:
    return quantity(load) if finding.mode == "request_rate" else f"{load:g}"


def limit_words(finding: Finding) -> str:
    """Between which loads the limit lies. Results of 0.1 only know which loads passed and failed a short try."""
    name = "between" if finding.confidence is None else f"{share(finding.confidence)} interval"
    low = found_load(finding, finding.low)
    if finding.high is None:
        return f"{name} {low} or more" if finding.low else f"{name} unknown"
    high = found_load(finding, finding.high)
    if not finding.low:
        return f"{name} up to {high}"
    return f"{name} {low} {'and' if finding.confidence is None else 'to'} {high}"


def _title(result: Result) -> str:
    version = result.model.get("version")
    words = [
        str(result.model.get("name", "model")) + (f" version {version}" if version else ""),
        f"{result.effective.get('service_kind', '')} {result.effective.get('protocol', '')}".strip(),
        f"batch {result.effective.get('batch', 1)}",
    ]
    if has_schedule(result.effective):
        words.append(_schedule(result))
    return " · ".join(word for word in words if word)


def _schedule(result: Result) -> str:
    effective = result.effective
    time = (
        f"{plural(effective['request_count'], 'request')} in {duration(effective['schedule_s'] * NS_PER_S)}"
    )
    speed = f" at speed {effective['speed']:g}" if effective["speed"] != 1 else ""
    return f"{effective['schedule']}{speed}: {time}"


def _table(result: Result, *, is_narrow: bool) -> Table:
    chosen = result.effective.get("percentile")
    shown = percentiles(chosen)
    if is_narrow:  # a figure is left out rather than cut
        shown = tuple(p for p in shown if p not in (90, 95) or p == chosen)
    is_rate = any(level.mode != "concurrency" for level in result.levels)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in (
        "Rate" if is_rate else "Conc.",
        "Infer/s",
        "",
        "Avg",
        *(f"p{p}" for p in shown),
        "Errors",
        "Client\nCPU",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("Verdict", ratio=1)
    for level in _rows(result):
        first, *others = _cells(level, shown)
        name = _ramp(result) if is_periodic(result.effective) else first
        table.add_row(*(terminal(cell) for cell in (name, *others)), _verdict(level, result.finding))
    return table


def _rows(result: Result) -> Sequence[Level]:
    """A search visits levels in an order of its own."""
    return sorted(result.levels, key=lambda level: level.value) if result.finding else result.levels


def _ramp(result: Result) -> str:
    start, end, _ = result.effective["periodic"]
    return f"{start:g}..{end:g}"


def _rate_table(result: Result) -> Table:
    """By rate: what was asked, sent and answered, and the wait before the send beside the time after it."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("Asked/s", "Sent/s", "Answered/s", "Latency\navg", "p99", "Service\navg", "p99"):
        table.add_column(name, justify="right", no_wrap=True)
    for level in _rows(result):
        found, rates = level.measurement, level.rates
        if found is None or rates is None:
            continue
        table.add_row(
            *map(quantity, (rates.asked_per_s, rates.sent_per_s, rates.answered_per_s)),
            average(found.latency),
            at_percentile(found.latency, 99),
            average(found.service),
            at_percentile(found.service, 99),
        )
    return table


def _cells(level: Level, shown: tuple[int, ...]) -> tuple[str, ...]:
    value = level_value(level.mode, level.value)
    measurement = level.measurement
    if measurement is None:
        return (value, *(NONE for _ in range(5 + len(shown))))
    return (
        value,
        quantity(measurement.infer_per_s.value),
        interval(measurement.infer_per_s),
        average(measurement.latency),
        *(at_percentile(measurement.latency, p) for p in shown),
        share(measurement.failed_share),
        share(measurement.client.cpu_share),
    )


def verdict_words(level: Level, finding: Finding | None = None) -> str:
    """What came of a level in a few words: `ok`, or all that is wrong with it; in a search, first what it found."""
    words = [_VERDICTS[remark.note] for remark in level.remarks if remark.note in _VERDICTS]
    if level.measurement is None and not words:
        words.append("no reply")
    is_failing = any(remark.note is Note.FAILURES for remark in level.remarks)
    if not level.is_stable and not words and not is_failing:
        words.append("not stable")
    if level.is_over_limit:
        words.append("over limit")
    if level.measurement is not None and level.measurement.failed_count:
        words.append("errors" if level.measurement.request_count else "all failed")
    judged = () if finding is None else finding.judged
    for row in (row for row in judged if row.load == level.value):
        words.insert(0, f"broken: {', '.join(row.broken)}" if row.verdict == "broken" else row.verdict)
    return ", ".join(dict.fromkeys(words)) if words else "ok"


def _verdict(level: Level, finding: Finding | None) -> Text:
    words = verdict_words(level, finding)
    return terminal(words, style="green" if words in ("ok", "kept") else "yellow")


def _last_measured(result: Result) -> tuple[Level, ...]:
    return tuple(level for level in result.levels if level.measurement is not None)[-1:]


def _time(level: Level) -> Iterator[Text | Table]:
    measurement = level.measurement
    if measurement is None or measurement.server is None or not measurement.request_count:
        return
    rows = parts(measurement.server)
    if not rows:
        return
    counters = measurement.server.counters
    total = counters.success_ns / counters.success_count
    whole = max(float(measurement.latency.mean_ns), total)
    yield terminal(f"Where the time goes at {level_label(level.mode, level.value)}", style="bold")
    if measurement.server.members:
        yield _member_table(rows, total)
        outside = duration(max(0.0, whole - total))
        yield terminal(
            f"server {duration(total)} + network and client {outside} = {duration(whole)} per request"
        )
    else:
        outside_name = "network and client" if measurement.streaming is None else "streaming and network"
        yield _part_table((Part(outside_name, max(0.0, whole - total)), *rows), whole)
    yield terminal(closing_sentence(level))


def _part_table(rows: tuple[Part, ...], whole: float) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("Step", no_wrap=True)
    table.add_column("Time", justify="right", no_wrap=True)
    table.add_column("Share", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for row in rows:
        table.add_row(terminal(row.name), duration(row.ns), share(_ratio(row.ns, whole)), _bar(row.ns, whole))
    return table


def _member_table(rows: tuple[Part, ...], total: float) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("Step", no_wrap=True, overflow="ellipsis", max_width=32)
    for name in ("Calls", "Time", "Queue", "Share"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("of the server's time", no_wrap=True)
    for row in rows:
        table.add_row(
            terminal(row.name),
            f"{row.calls:g}" if row.calls == round(row.calls) else f"{row.calls:.2f}",
            duration(row.ns),
            duration(row.queue_ns),
            share(_ratio(row.ns, total)),
            _bar(row.ns, total),
        )
    return table


def _bar(ns: float, whole: float) -> Text:
    filled = min(BAR_WIDTH, round(BAR_WIDTH * _ratio(ns, whole)))
    return terminal("█" * filled if filled else "▏" if ns > 0 else "", style="cyan")


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


def closing_sentence(level: Level) -> str:
    """Names the slowest step in the server with its share; empty without server statistics."""
    measurement = level.measurement
    rows = () if measurement is None or measurement.server is None else parts(measurement.server)
    if measurement is None or measurement.server is None or not rows:
        return ""
    counters = measurement.server.counters
    slowest = max(rows, key=lambda row: row.ns)
    part = _ratio(slowest.ns, counters.success_ns / counters.success_count)
    time = f"{duration(slowest.ns)} per request, {share(part)} of the server's time"
    sentence = f"Slowest step: {slowest.name}, {time}"
    waiting = _ratio(slowest.queue_ns, slowest.ns)
    if 0.5 < waiting < 1:
        sentence += f"; {share(waiting)} of that is waiting in its queue"
    return sentence + "."


def _streaming(streaming: Streaming) -> str:
    first, gaps = streaming.first, streaming.gaps
    words = [
        f"Streams: {quantity(streaming.per_s)} responses/s, {streaming.responses / streaming.per_request.count:.3g} "
        f"per request; first after p50 {at_percentile(first, 50)}, p99 {at_percentile(first, 99)}"
    ]
    if gaps.count:
        words.append(
            f"between them p50 {duration(gaps.percentile_ns(50))}, p99 {duration(gaps.percentile_ns(99))}"
        )
    return "; ".join(words)


def _sequences(sequences: SequenceFigures) -> str:
    whole = sequences.latency
    return (
        f"Sequences: {sequences.count} whole, {quantity(sequences.per_s)} per second, each p50 "
        f"{duration(whole.percentile_ns(50))}, p99 {duration(whole.percentile_ns(99))}"
    )


def interval_sentence(measurement: Measurement) -> str:
    """How sure the latencies are."""
    rows = [
        f"{'avg' if name == 'mean' else name} {interval(estimate) or 'unknown (too few samples)'}"
        for name, estimate in measurement.latency_intervals
    ]
    return f"95 % intervals: {', '.join(rows)}." if rows else ""


def client_sentence(client: ClientCost, ports: int) -> str:
    """What measuring cost on this side; `ports` are those of the host, 0 when not known."""
    each = duration(client.cpu_us_per_request * NS_PER_US)
    words = [f"{share(client.cpu_share)} of a core" + (f", {each} a request" if client.cpu_share else "")]
    if client.lag_p99_ns:
        words.append(f"sent late by p50 {duration(client.lag_p50_ns)}, p99 {duration(client.lag_p99_ns)}")
    if client.loop_lag_max_ns:
        words.append(
            f"loop lag p50 {duration(client.loop_lag_p50_ns)}, at most {duration(client.loop_lag_max_ns)}"
        )
    if client.files:
        limit = f" of {client.file_limit}" if client.file_limit else ""
        words.append(f"{client.files}{limit} files open")
    if client.connects:
        among = f" ({ports} local ports)" if ports else ""
        words.append(f"{plural(client.connects, 'connection')} opened{among}")
    return f"Client: {'; '.join(words)}."


def start_sentence(level: Level, start: StartFigures) -> str:
    """What was left out at the start of a level."""
    cold = start.latency
    line = (
        f"{level_label(level.mode, level.value)}: the first {duration(start.duration_ns)} were unlike the rest "
        f"and are left out: {quantity(start.infer_per_s)} infer/s"
    )
    if cold.count:
        line += f", avg {duration(cold.mean_ns)}, p99 {duration(cold.percentile_ns(99))}"
    return line


def _doubt(level: Level, doubt: Doubt) -> Text:
    label = level_label(level.mode, level.value)
    return terminal(
        f"? {label}: {doubt.kind}: {doubt.text}\n  {doubt.figure} {doubt.sparkline}", style="yellow"
    )


def _troubles(result: Result) -> Iterator[Text]:
    for level in result.levels:
        if level.start is not None:
            yield terminal(f"• {start_sentence(level, level.start)}")
        if level.doubt is not None:
            yield _doubt(level, level.doubt)
        if level.measurement is not None:
            for group in level.measurement.failures:
                yield _failure(level, group)
    said = [("", remark) for remark in result.remarks] + [
        (f"{level_label(level.mode, level.value)}: ", remark)
        for level in result.levels
        for remark in level.remarks
    ]
    for note in dict.fromkeys(remark.note for _, remark in said):
        yield _remarks(
            note, [f"{where}{first_line(remark.text)}" for where, remark in said if remark.note is note]
        )


def _failure(level: Level, group: FailureGroup) -> Text:
    when = f"at {group.first_s:.1f} s"
    if group.count > 1:
        when = f"{group.first_s:.1f} s to {group.last_s:.1f} s"
    example = first_line(group.example)
    failed = f"{plural(group.count, 'request')} failed ({group.kind}), {when}"
    if group.max_ns:
        failed += f", after {duration(group.mean_ns)} (at most {duration(group.max_ns)})"
    line = f"✗ {level_label(level.mode, level.value)}: {failed}"
    return terminal(f"{line}: {example}" if example else line, style="red")


def _remarks(note: Note, lines: list[str]) -> Text:
    """What was found at each level, and once what to do about it."""
    text = terminal("\n".join(f"! {line}" for line in lines), style="yellow")
    return text.append(f"\n  {note.advice}", style="default")


def level_sentence(level: Level) -> str:
    """A finished level in a line."""
    label = level_label(level.mode, level.value)
    if level.measurement is None:
        return f"{label}: no request finished"
    if not level.measurement.request_count:
        return f"{label}: no good answer, {verdict_words(level)}"
    return f"{label}: {_headline(level.measurement)}, {verdict_words(level)}"


def _headline(measurement: Measurement) -> str:
    rate = f"{quantity(measurement.infer_per_s.value)} infer/s {interval(measurement.infer_per_s)}".rstrip()
    latency = measurement.latency
    return f"{rate}, avg {duration(latency.mean_ns)}, p99 {duration(latency.percentile_ns(99))}"
