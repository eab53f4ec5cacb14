"""CSV files with the columns of the classic tool: one for the model, one for each of its direct members.

The classic script's files only have the levels that it reports. Ours have every level with an answer, and append a
verdict to the classic columns.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from inferometer.base.frozen import frozen
from inferometer.base.text import printable
from inferometer.base.units import REQUESTS
from inferometer.base.writing import Outputs, write_file
from inferometer.observe.statistics import Counters, ModelStatistics
from inferometer.options.effective import Effective
from inferometer.report.format import classic_value, decimal, is_periodic, percentiles, whole_us
from inferometer.report.sentences import verdict_words
from inferometer.stats.estimate import Distribution, Estimate
from inferometer.stats.machine_figures import GpuFigures, ServerMetrics
from inferometer.stats.measurement import ClassFigures, Level, Measurement
from inferometer.stats.result import Result
from inferometer.stats.slo_outcome import PromiseOutcome
from inferometer.stats.task_figures import TaskFigures

Row = tuple[tuple[str, object], ...]
"""Cells with their column names; all rows of a file have the same columns."""


@frozen
class Layout:
    """Columns of the files of a run."""

    has_server: bool
    has_cache: bool
    has_transport: bool
    has_tokens: bool
    has_goodput: bool
    has_promise: bool
    has_checks: bool
    has_verdicts: bool
    has_tasks: bool
    effective: Effective
    throughput: str = "Inferences/Second"


@frozen
class GpuColumn:
    """A heading in the text and a column in the CSV."""

    name: str
    value: Callable[[GpuFigures], float | None]
    shown: Callable[[float], str]
    cell: Callable[[float], str] = decimal

    def rows(self, gpus: tuple[GpuFigures, ...]) -> list[tuple[str, float]]:
        """(UUID, value) for the GPUs that report it."""
        found = ((gpu.uuid, self.value(gpu)) for gpu in gpus)
        return [(uuid, value) for uuid, value in found if value is not None]


GPU_COLUMNS = (
    GpuColumn("Avg GPU Utilization", lambda gpu: gpu.utilization, lambda value: f"{decimal(value * 100)}%"),
    GpuColumn("Avg GPU Power Usage", lambda gpu: gpu.power_w, lambda value: f"{decimal(value)} watts"),
    GpuColumn("Max GPU Memory Usage", lambda gpu: gpu.memory_used_bytes, lambda value: f"{value} bytes", str),
    GpuColumn("Total GPU Memory", lambda gpu: gpu.memory_total_bytes, lambda value: f"{value} bytes", str),
)


def write_csv(result: Result, path: Path) -> tuple[Path, ...]:
    """Write the main file, and next to it one file for each composing model; write nothing if no level is reported."""
    text = main_csv(result)
    if not text:
        return ()
    files = [(path, text)]
    if path.is_file() or not path.exists():  # not for a pipe or a device
        files += [(path.with_name(prefix + path.name), part) for prefix, part in composing_csvs(result)]
    outputs = Outputs()
    for name, part in files:
        outputs.attempt(name, partial(write_file, name, part))
    outputs.settle()
    return tuple(name for name, _ in files)


def main_csv(result: Result) -> str:
    """The reported levels by increasing inferences per second; empty if there are none.

    In the classic file, only --verbose-csv adds the columns about tokens.
    """
    layout = _layout(result)
    rows = _counted(result)
    if any(level.classes for level, _ in rows):
        return _text([row for level, found in rows for row in _class_rows(layout, level, found)])
    return _text([_main_row(layout, level, measurement) for level, measurement in rows])


def _class_rows(layout: Layout, level: Level, whole: Measurement) -> Iterator[Row]:
    """The total, then every class, with its addresses or the steps of its visits."""
    yield _with_class("all", (*_main_row(layout, level, whole), *_task_cells(layout, None)))
    named = [pair for row in level.classes for pair in ((row.name, row), *_parts(row))]
    for name, row in named:
        if row.measurement is not None:
            own = replace(level, remarks=row.remarks, promise=row.promise, measurement=row.measurement)
            cells = _main_row(layout, own, row.measurement)
            yield _with_class(_name_cell(name), (*cells, *_task_cells(layout, row.tasks)))


def _task_cells(layout: Layout, found: TaskFigures | None) -> Iterator[tuple[str, object]]:
    """Columns of classes of tasks, which are empty for other rows; their latency is that of whole tasks."""
    if not layout.has_tasks:
        return
    amounts = (
        ("Calls/Task", "calls"),
        ("Output Tokens/Task", "tokens"),
        ("Input Tokens/Task", "prompt_tokens"),
    )
    shares = (("Model Share", "model_share"), ("Tool Share", "tool_share"), ("Waiting Share", "wait_share"))
    yield "Tasks", "" if found is None else found.complete
    yield "Failed Tasks", "" if found is None else found.failed
    for name, field in amounts:
        yield name, "" if found is None else decimal(getattr(found, field).value)
    for name, field in shares:
        yield name, "" if found is None else f"{getattr(found, field).value:.4f}"


def _parts(row: ClassFigures) -> Iterator[tuple[str, ClassFigures]]:
    return ((f"{row.name}/{part.name}", part) for part in row.steps)


def _with_class(name: str, row: Row) -> Row:
    return (row[0], ("Class", name), *row[1:])


def composing_csvs(result: Result) -> tuple[tuple[str, str], ...]:
    """(file name prefix, text) for each direct member that was called."""
    layout = _layout(result)
    rows: dict[tuple[str, str], list[Row]] = {}
    for level, measurement in _counted(result):
        members = () if measurement.server is None else measurement.server.members
        for member in (member for member in members if member.was_called):
            row = _member_row(layout, level, measurement, member)
            rows.setdefault((member.name, member.version), []).append(row)
    return tuple(
        (f"{file_part(name)}_v{file_part(version)}.", _text(rows[name, version]))
        for name, version in sorted(rows)
    )


def floored_levels(result: Result) -> tuple[Level, ...]:
    """Levels whose server times exceed the client's latency, for which column 5 shows 0."""
    rows = _counted(result)
    return tuple(level for level, measurement in rows if _network_ns(level, measurement) < 0)


def _counted(result: Result) -> list[tuple[Level, Measurement]]:
    """The levels in the order of the rows; none for periodic concurrency."""
    if is_periodic(result.effective):
        return []
    rows = [
        (level, found)
        for level in result.levels
        if (found := level.measurement) is not None and found.request_count
        if level.is_reported or not _is_classic(result)
    ]
    return rows if result.scenario is not None else sorted(rows, key=lambda row: row[1].infer_per_s.value)


def _is_classic(result: Result) -> bool:
    return result.command == "perf_analyzer"


def _layout(result: Result) -> Layout:
    counted = _counted(result)
    rows = [measurement for _, measurement in counted]
    classes = [part for level, _ in counted for row in level.classes for part in (row, *row.steps)]
    rows += [row.measurement for row in classes if row.measurement is not None]
    servers = [row.server for row in rows if row.server is not None]
    has_tokens = bool(result.effective.verbose_csv) or not _is_classic(result)
    is_plain = result.effective.rate_unit == REQUESTS and not _is_classic(result)
    return Layout(
        has_server=bool(servers),
        has_cache=bool(result.model.get("any_cache")) or any(model.any_cache for model in servers),
        has_transport=not result.model.get("is_decoupled"),
        has_tokens=has_tokens and any(row.tokens is not None for row in rows),
        has_goodput=any(row.goodput is not None for row in rows),
        has_promise=any(level.promise is not None for level in result.levels)
        or any(row.promise is not None for row in classes),
        has_checks=any(row.checks is not None for row in rows),
        has_verdicts=not _is_classic(result),
        has_tasks=any(row.tasks is not None for row in classes),
        effective=result.effective,
        throughput="Requests/Second" if is_plain else "Inferences/Second",
    )


def _main_row(layout: Layout, level: Level, measurement: Measurement) -> Row:
    latency, effective = measurement.latency, layout.effective
    send, receive = whole_us(measurement.send_ns), whole_us(measurement.receive_ns)
    if not layout.has_transport:
        send = receive = 0
    streamed = 0.0 if measurement.streaming is None else measurement.streaming.per_s * measurement.batch
    cells: list[tuple[str, object]] = [
        _level_cell(layout, level),
        (layout.throughput, decimal(measurement.infer_per_s.value)),
        *([] if layout.has_transport else [("Response Throughput", decimal(streamed))]),
        ("Client Send", send),
        *_server_cells(layout, measurement.server, _network_ns(level, measurement)),
        ("Client Recv", receive),
        *((f"p{p} latency", _percentile_us(latency, p)) for p in percentiles(effective.percentile)),
    ]
    if effective.verbose_csv:
        if effective.percentile is None:
            cells.append(("Avg latency", whole_us(latency.mean_ns)))
        wait = whole_us(measurement.service.mean_ns) - send - receive if layout.has_transport else 0
        cells += [("request/response", send + receive), ("response wait", wait)]
        if effective.collect_metrics:
            cells += _gpu_cells(measurement.metrics)
    verdict = [("Verdict", verdict_words(level).replace(",", ";"))] if layout.has_verdicts else []
    return (*cells, *_text_cells(layout, measurement, level.promise), *verdict)


def _percentile_us(found: Distribution, p: float) -> int | str:
    """Return a percentile; an empty cell if another tool's file does not state it."""
    if not found.count:
        return 0
    ns = found.maybe_percentile_ns(p)
    return "" if ns is None else whole_us(ns)


def _text_cells(
    layout: Layout, measurement: Measurement, promise: PromiseOutcome | None
) -> Iterator[tuple[str, object]]:
    """Columns after the classic ones: those for LLM servers, and the SLO."""
    tokens, streaming = measurement.tokens, measurement.streaming
    if layout.has_tokens and tokens is not None:
        first = None if streaming is None else streaming.first
        for name, times in (("Time To First Token", first), ("Time Between Tokens", tokens.between)):
            shown = times if times is not None and times.count else None
            yield f"Avg {name}", "" if shown is None else whole_us(shown.mean_ns)
            for p in (50, 99):
                yield f"p{p} {name}", "" if shown is None else _percentile_us(shown, p)
        yield "Output Tokens/Second", decimal(tokens.output_per_s)
        yield "Output Tokens/Request", decimal(tokens.output / max(tokens.per_answer.count, 1))
        yield "Input Tokens/Request", decimal(tokens.prompt / max(tokens.per_prompt.count, 1))
        if layout.has_verdicts:
            yield (
                "Output Tokens/Second/User",
                "" if tokens.per_user is None else decimal(tokens.per_user.mean.value),
            )
            yield "Input Tokens/Second", decimal(tokens.prompt_per_s)
            gaps = None if streaming is None or not streaming.gaps.count else streaming.gaps
            for p in (50, 99):
                yield f"p{p} Token Gap", "" if gaps is None else _percentile_us(gaps, p)
    if layout.has_goodput:
        yield "Goodput", "" if measurement.goodput is None else decimal(measurement.goodput.per_s)
    if layout.has_checks:
        checks = measurement.checks
        estimate = Estimate(0.0) if checks is None else checks.share
        yield "Checked", 0 if checks is None else checks.checked
        yield "Wrong", 0 if checks is None else checks.wrong
        for name, end in (("", estimate.value), (" low", estimate.low), (" high", estimate.high)):
            yield f"Wrong %{name}", "" if checks is None or end is None else decimal(end * 100)
    if layout.has_promise:
        yield "Promise", "" if promise is None else promise.verdict


def _gpu_cells(metrics: ServerMetrics | None) -> Iterator[tuple[str, str]]:
    gpus = () if metrics is None else metrics.gpus
    for column in GPU_COLUMNS:
        cells = (f"{_identifier(uuid)}:{column.cell(value)};" for uuid, value in column.rows(gpus))
        yield column.name, "".join(cells)


def _identifier(text: str) -> str:
    """Replace characters that would end a cell or a line, or start a formula: the classic file quotes nothing."""
    return "".join(char if char.isalnum() or char in "-_." else "_" for char in text).lstrip("-")


def _member_row(layout: Layout, level: Level, measurement: Measurement, member: ModelStatistics) -> Row:
    counters = member.counters
    parent = 0 if measurement.server is None else measurement.server.counters.success_count
    rate = measurement.infer_per_s.value * counters.success_count / parent if parent else 0.0
    rest = counters.mean_ns("success") - _accounted_ns(counters)
    return (
        _level_cell(layout, level),
        ("Inferences/Second", decimal(rate)),
        ("Client Send", 0),
        *_server_cells(layout, member, rest),
        ("Client Recv", 0),
    )


def _level_cell(layout: Layout, level: Level) -> tuple[str, str]:
    if level.name:
        return "Phase", _name_cell(level.name)
    name = "Concurrency" if level.mode == "concurrency" else "Request Rate"
    return name, classic_value(layout.effective, level)


def _server_cells(layout: Layout, model: ModelStatistics | None, rest_ns: int) -> list[tuple[str, object]]:
    """Server cells; empty for a level without statistics in a run that has them."""
    if not layout.has_server:
        return []
    counters = Counters() if model is None else model.counters
    parts = ["queue", "compute_input", "compute_infer", "compute_output"]
    if layout.has_cache:
        parts += ["cache_hit", "cache_miss"]
    cells = [("Network+Server Send/Recv", max(0, rest_ns))]
    cells += [(f"Server {part.replace('_', ' ').title()}", counters.mean_ns(part)) for part in parts]
    return [(name, "" if model is None else whole_us(ns)) for name, ns in cells]


def _accounted_ns(counters: Counters) -> int:
    computed = counters.compute_infer_count
    compute = counters.compute_ns // computed if computed else 0
    return compute + sum(map(counters.mean_ns, ("queue", "cache_hit", "cache_miss")))


def _network_ns(level: Level, measurement: Measurement) -> int:
    """Time that neither client nor server accounts for; below zero if the sample is too small."""
    if measurement.server is None:
        return 0
    # At a request rate, latency starts when the request was due; waiting to be sent is not network time.
    whole = measurement.service if level.mode == "request_rate" else measurement.latency
    client = measurement.send_ns + measurement.receive_ns
    return whole.mean_ns - client - _accounted_ns(measurement.server.counters)


def _text(rows: list[Row]) -> str:
    if not rows:
        return ""
    lines = [",".join(name for name, _ in rows[0])]
    lines += [",".join(str(value) for _, value in row) for row in rows]
    return "".join(f"{line}\n" for line in lines)


# --- foreign texts in tables and file names


_NUMBER = re.compile(r"[-+]?[0-9][0-9.,]*(?:e[-+]?[0-9]+)?%?", re.IGNORECASE)


def _name_cell(text: str) -> str:
    """A name on one line and without commas, because this table does not quote its cells."""
    return spreadsheet_cell(" ".join(text.split())).replace(",", ";").replace('"', "'")


def spreadsheet_cell(text: str) -> str:
    """Prefix a text that a spreadsheet would take for a formula with a quote."""
    words = printable(text)
    if words[:1] in ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%") and not _NUMBER.fullmatch(words):
        return f"'{words}" if words != "-" else words
    return words


def file_part(name: str) -> str:
    """Make a name safe as part of a file name: separators and unprintable characters become underscores."""
    kept = "".join("_" if char in "/\0" or not char.isprintable() else char for char in name)
    return kept.encode("utf-8", "replace").decode()[:100]
