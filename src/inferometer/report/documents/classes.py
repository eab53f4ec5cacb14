"""Classes of traffic: figures of each class and of the total, also over time, and outages of their servers."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from inferometer.base.notes import Note
from inferometer.base.units import NS_PER_S, NS_PER_US
from inferometer.options.names import with_names
from inferometer.report.document import (
    Chart,
    ChartAxis,
    ChartLine,
    ChartPoint,
    Column,
    Message,
    Messages,
    Section,
    Span,
    Table,
    Tone,
    text_columns,
)
from inferometer.report.documents.answer import middle_and_tail
from inferometer.report.documents.levels import few_words, level_tone, line_colour, rate_axis, time_axis
from inferometer.report.format import (
    NONE,
    at_percentile,
    average,
    duration,
    first_line,
    interval,
    level_label,
    level_value,
    plain_number,
    plural,
    quantity,
    rate,
    share,
)
from inferometer.report.promises import outcome_words, reasons
from inferometer.stats.measurement import ADDRESS, MIXED, STEP, ClassFigures, Level, Outage
from inferometer.stats.result import Result

ALL = "all"
MARKED = 240
INDENT = "· "  # before the name of a step, or of an address of a class


def class_names(levels: Sequence[Level]) -> tuple[str, ...]:
    """Names of the classes, in the order of the scenario or the command line."""
    return tuple(dict.fromkeys(row.name for level in levels for row in level.classes))


def classes_section(result: Result) -> Section | None:
    """A row for each class, or each of several addresses, at each level; None if there is only one."""
    levels = [level for level in result.levels if level.classes]
    if not levels:
        return None
    titles, unit = _titles(levels), result.effective.rate_unit
    has_promise = any(row.promise is not None for level in levels for row in level.classes)
    columns = (
        *text_columns("Phase" if levels[0].name else "Level", titles.noun.capitalize()),
        Column("Load"),
        Column("Share", rank=2),
        Column(unit.capitalize()),
        Column("±95 %", rank=1),
        Column("Avg", rank=2),
        *(Column(name) for name in ("p50", "p99")),
        *(Column(name, rank=3) for name in ("Requests", "Server queue", "Server compute")),
        Column("Errors"),
        *(text_columns("SLO") if has_promise else ()),
    )
    rows, tones = [], []
    for level in levels:
        for name, row in _with_parts(level):
            said = "" if row.promise is None else outcome_words(row.promise)
            cells = (level_value(level.mode, level.value), name, *_cells(row))
            rows.append((*cells, said or NONE) if has_promise else cells)
            failed = row.measurement is not None and row.measurement.failed_count > 0
            tones.append(level_tone(said) if said else Tone.WARNING if failed else Tone.PLAIN)
    table = Table(titles.table, columns, tuple(rows), tones=tuple(tones))
    messages = tuple(_problems(levels))
    charts = _charts(levels, titles.noun, unit)
    blocks = (table, *((Messages(messages),) if messages else ()), *charts)
    return Section("classes", titles.section, _lead(result, levels), blocks)


class _Titles(NamedTuple):
    """Noun for the rows of the section."""

    section: str
    table: str
    noun: str


_CLASSES = _Titles("Classes of traffic", "Every class of traffic", "class")
_ADDRESSES = _Titles("Addresses", "Every address", "address")


def _titles(levels: Sequence[Level]) -> _Titles:
    return _ADDRESSES if any(row.mode == ADDRESS for level in levels for row in level.classes) else _CLASSES


def _with_parts(level: Level) -> Iterator[tuple[str, ClassFigures]]:
    """Every class with its name, followed by its addresses or by the steps of its visits."""
    for row in level.classes:
        yield row.name, row
        yield from ((f"{INDENT}{part.name}", part) for part in row.steps)


def _lead(result: Result, levels: Sequence[Level]) -> str:
    if _titles(levels) is _ADDRESSES:
        policy = str(result.server.get("balance", ""))
        return f"The addresses share the load ({policy}); the level is their sum."
    if any(row.mode == MIXED for level in levels for row in level.classes):
        return "The classes share the same workers and connections; their requests are interleaved by weight."
    words = "Each class has its own workers; all share one clock, and the level is their sum."
    rows = [row for level in levels for row in level.classes]
    if any(part.mode == ADDRESS for row in rows for part in row.steps):
        words += " The addresses of a class, listed below it, share its load."
    visits = [row for row in rows if row.counts_visits]
    if not visits:
        return words
    if all(row.tasks is not None for row in visits):
        return f"{words} A class of tasks counts whole tasks, tools included; its steps, listed below, count calls."
    counted = "Rows of visits count whole visits, from the due time to the end of the last step"
    return f"{words} {counted}, excluding think time; the steps are listed below."


def load_words(row: ClassFigures) -> str:
    """`30/s`, `4 in flight`, `weight 3`, `4 visitors`; of an address, how many were in flight on average."""
    if row.mode == ADDRESS:
        found = row.measurement
        if found is None or not found.request_count:
            return NONE
        in_flight = found.request_count * found.service.mean_ns / found.duration_ns
        return f"{quantity(in_flight)} in flight"
    if row.mode == MIXED:
        return f"weight {plain_number(row.value)}"
    if row.mode == STEP:
        return STEP
    value = plain_number(round(row.value, 3))
    if row.tasks is not None:
        return f"{value} tasks/s" if row.mode == "request_rate" else f"{value} tasks"
    if row.counts_visits:
        return f"{value} visits/s" if row.mode == "request_rate" else f"{value} visitors"
    return f"{value}/s" if row.mode == "request_rate" else f"{value} in flight"


def _cells(row: ClassFigures) -> tuple[str, ...]:
    found = row.measurement
    if found is None:
        return (load_words(row), share(row.share), *(NONE,) * 9)
    server = found.server
    counters = None if server is None else server.counters
    compute = 0 if counters is None else counters.mean_ns("compute_infer")
    return (
        load_words(row),
        share(row.share),
        quantity(found.infer_per_s.value),
        interval(found.infer_per_s) or NONE,
        average(found.latency),
        *(at_percentile(found.latency, p) for p in (50, 99)),
        f"{found.request_count:,}",
        NONE if counters is None else duration(counters.mean_ns("queue")),
        NONE if counters is None else duration(compute),
        share(found.failed_share),
    )


def _problems(levels: Sequence[Level]) -> Iterator[Message]:
    """Problems of individual classes, and outages of their servers."""
    for level in levels:
        for row in level.classes:
            where = f"{level_label(level.mode, level.value)}, {row.name}"
            servers = [(f"{where}{said}", part) for said, part in _servers(row)]
            for there, part in servers:
                for outage in part.outages:
                    yield Message(f"{there}: {outage_words(outage)}", tone=Tone.BAD)
            if row.counts_visits:
                yield from _visit_messages(where, row)
            for remark in row.remarks:
                if remark.note is not Note.NO_REPLY or not row.outages:
                    yield Message(f"{where}: {first_line(remark.text)}", with_names(remark.note.value))
            for there, part in servers:
                for group in () if part.measurement is None else part.measurement.failures:
                    said = first_line(group.example)
                    words = f"{plural(group.count, _noun(part))} failed ({group.kind})"
                    yield Message(f"{there}: {words}{f': {said}' if said else ''}", tone=Tone.BAD)


def _servers(row: ClassFigures) -> list[tuple[str, ClassFigures]]:
    """Return the addresses of a class, each with its name after that of the class; or the class itself."""
    return [(f", {part.name}", part) for part in row.steps if part.mode == ADDRESS] or [("", row)]


def _noun(row: ClassFigures) -> str:
    """Noun for the unit that the class counts: task, visit or request."""
    if row.tasks is not None:
        return "task"
    return "visit" if row.counts_visits else "request"


def _visit_messages(where: str, row: ClassFigures) -> Iterator[Message]:
    """Think time, client CPU per visit, and failed steps."""
    if row.think_ns:
        words = f"{where}: users think for {duration(row.think_ns)} per visit, which latency excludes"
        yield Message(words, tone=Tone.PLAIN)
    found = row.measurement
    if found is not None and found.client.cpu_share:
        each = duration(round(found.client.cpu_us_per_request * NS_PER_US))
        busiest = f"the busiest process of the {_noun(row)}s used {share(found.client.cpu_share)} of a core"
        yield Message(f"{where}: {busiest}; a {_noun(row)} costs {each} of CPU time", tone=Tone.PLAIN)
    for step in row.steps:
        failed = 0 if step.measurement is None else step.measurement.failed_count
        if failed and row.tasks is not None:
            yield Message(f"{where}: {plural(failed, 'call')} of {step.name} failed", tone=Tone.BAD)
        elif failed:
            yield Message(f"{where}: {plural(failed, 'visit')} ended at {step.name}", tone=Tone.BAD)


def outage_words(outage: Outage) -> str:
    """Start and duration of an outage, and the time until answers were as fast as before."""
    words = f"gone at {outage.gone_s:.2f} s, {plural(outage.lost, 'request')} unanswered"
    if outage.down_s is None:
        return f"{words}, and it did not come back"
    words += f", back after {duration(outage.down_s * NS_PER_S)}"
    if outage.recovery_s is None:
        return f"{words}; answers never became as fast as before"
    return f"{words}; answers were as fast as before {duration(outage.recovery_s * NS_PER_S)} later"


# --- over time


def _charts(levels: Sequence[Level], noun: str, unit: str) -> Iterator[Chart]:
    names = class_names(levels)
    starts, spans, start_s = [], [], 0.0
    for level in levels:
        ends = [row.start_s + row.duration_ns / NS_PER_S for row in level.windows]
        starts.append(start_s)
        spans.append(Span(start_s, start_s + max(ends, default=0.0), level_value(level.mode, level.value)))
        start_s += max(ends, default=0.0)
    if sum(len(level.windows) for level in levels) < 2:
        return
    fields = (("infer_per_s", "Throughput"), ("p99_ns", "p99 latency"))
    for field, title in fields:
        lines = tuple(
            ChartLine(
                name,
                tuple(
                    _points(level, name, start, field, unit)
                    for level, start in zip(levels, starts, strict=True)
                ),
                line_colour(number),
                has_marks=sum(len(level.windows) for level in levels) <= MARKED,
            )
            for number, name in enumerate(names)
        )
        if not any(point for line in lines for run in line.runs for point in run):
            continue
        axis = rate_axis(unit) if field == "infer_per_s" else time_axis("p99 latency", lines)
        yield Chart(
            f"{title} of each {noun}", ChartAxis("seconds"), axis, lines, spans=tuple(spans), height=270
        )


def _points(level: Level, name: str, start_s: float, field: str, unit: str) -> tuple[ChartPoint, ...]:
    found = next((row for row in level.classes if row.name == name), None)
    windows = () if found is None else found.windows
    return tuple(
        ChartPoint(
            start_s + max(0.0, window.start_s) + window.duration_ns / NS_PER_S / 2,
            float(getattr(window, field)),
            f"{name}, {level_label(level.mode, level.value)}: {quantity(window.infer_per_s)} {unit}"
            + (f", p99 {duration(window.p99_ns)}" if window.p99_ns else "")
            + (f", {window.failed_count:,} failed" if window.failed_count else ""),
        )
        for window in windows
        if field == "infer_per_s" or window.request_count
    )


# --- the answer of a scenario


def scenario_answer(result: Result) -> str:
    """Summarize each class over all phases in one sentence."""
    names, levels = class_names(result.levels), result.levels
    said = []
    for name in names:
        rows = [row for level in levels for row in level.classes if row.name == name]
        found = [row.measurement for row in rows if row.measurement is not None]
        good = [row for row in found if row.request_count]
        if not good:
            said.append(f"{name} got no successful answer")
            continue
        most = max(good, key=lambda row: row.infer_per_s.value)
        stepped = next((row for row in rows if row.counts_visits), None)
        unit = result.effective.rate_unit if stepped is None else f"{_noun(stepped)}s/s"
        words = f"{name} {rate(most.infer_per_s, unit)} at most"
        tails = [tail for row in good for tail in middle_and_tail(row.latency)[-1:]]
        if tails:
            tail, slowest_ns = max(tails, key=lambda row: row[1])
            words += f", {tail} {duration(slowest_ns)} at worst"
        failed = sum(row.failed_count for row in found)
        ended = sum(row.ended_count for row in found)
        if failed:
            words += f", {share(failed / ended)} failed"
        said.append(words)
    phases = plural(len(levels), "phase")
    return f"{plural(len(names), 'class').replace('classs', 'classes')} through {phases}: {'; '.join(said)}."


def class_promises(result: Result) -> str:
    """Say which classes meet their SLOs, and at which levels the other classes violate them."""
    words = []
    for name in class_names(result.levels):
        rows = [(level, row) for level in result.levels for row in level.classes if row.name == name]
        judged = [(level, row.promise) for level, row in rows if row.promise is not None]
        if not judged:
            continue
        broken = [(level, outcome) for level, outcome in judged if outcome.verdict == "broken"]
        open_ = [level for level, outcome in judged if outcome.verdict == "undecided"]
        promise = f"'{judged[0][1].promise}'"
        if broken:
            where = few_words([level_label(level.mode, level.value) for level, _ in broken])
            words.append(
                f"{name} violates {promise} at {where}: {reasons(broken[0][1], result.effective.rate_unit)}"
            )
        elif open_:
            where = few_words([level_label(level.mode, level.value) for level in open_])
            words.append(f"undecided whether {name} meets {promise} at {where}")
        else:
            words.append(f"{name} meets {promise}")
    if not words:
        return ""
    text = "; ".join(words)
    return f"{text[0].upper()}{text[1:]}."


def outage_sentence(result: Result) -> str:
    """Describe the longest outage of a server."""
    rows = [
        (level, f"{row.name}{said}", outage)
        for level in result.levels
        for row in level.classes
        for said, part in _servers(row)
        for outage in part.outages
    ]
    if not rows:
        return ""
    level, name, outage = max(rows, key=lambda found: found[2].down_s or float("inf"))
    return f"The server of {name} was gone in {level_label(level.mode, level.value)}: {outage_words(outage)}."
