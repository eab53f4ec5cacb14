"""The CSV files of the classic tool: one for the model, one for each of its direct members."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from inferometer.base.units import NS_PER_US
from inferometer.base.writing import Outputs, write_file
from inferometer.observe.statistics import Counters, ModelStatistics
from inferometer.options.effective import Effective
from inferometer.report.escape import file_part
from inferometer.report.format import classic_value, decimal, is_periodic, percentiles, whole_us
from inferometer.report.server import any_cache, average_ns, compute_ns
from inferometer.stats.measurement import GpuFigures, Level, Measurement, ServerMetrics
from inferometer.stats.result import Result

Row = tuple[tuple[str, object], ...]
"""Cells with their column names; all rows of one file have the same columns."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Which columns the files of one run have."""

    has_server: bool
    has_cache: bool
    has_transport: bool
    is_verbose: bool
    has_gpus: bool
    has_tokens: bool
    has_goodput: bool
    percentile: int | None
    effective: Effective


@dataclass(frozen=True, slots=True)
class GpuColumn:
    """A heading of the text and a column of the CSV."""

    name: str
    value: Callable[[GpuFigures], float | None]
    shown: Callable[[float], str]
    cell: Callable[[float], str] = decimal

    def rows(self, gpus: tuple[GpuFigures, ...]) -> list[tuple[str, float]]:
        """(UUID, value) of the GPUs that have it."""
        found = ((gpu.uuid, self.value(gpu)) for gpu in gpus)
        return [(uuid, value) for uuid, value in found if value is not None]


GPU_COLUMNS = (
    GpuColumn("Avg GPU Utilization", lambda gpu: gpu.utilization, lambda value: f"{decimal(value * 100)}%"),
    GpuColumn("Avg GPU Power Usage", lambda gpu: gpu.power_w, lambda value: f"{decimal(value)} watts"),
    GpuColumn("Max GPU Memory Usage", lambda gpu: gpu.memory_used_bytes, lambda value: f"{value} bytes", str),
    GpuColumn("Total GPU Memory", lambda gpu: gpu.memory_total_bytes, lambda value: f"{value} bytes", str),
)


def write_csv(result: Result, path: Path, *, with_tokens: bool = True) -> tuple[Path, ...]:
    """The main file and, beside it, one for each composing model; nothing when no level is reported."""
    text = main_csv(result, with_tokens=with_tokens)
    if not text:
        return ()
    files = [(path, text)]
    if path.is_file() or not path.exists():  # a pipe or a device has no neighbours
        files += [(path.with_name(prefix + path.name), part) for prefix, part in composing_csvs(result)]
    outputs = Outputs()
    for name, part in files:
        outputs.attempt(name, partial(write_file, name, part))
    outputs.settle()
    return tuple(name for name, _ in files)


def main_csv(result: Result, *, with_tokens: bool = True) -> str:
    """The levels that count, by increasing inferences per second; nothing if there is none.

    Without `with_tokens` only --verbose-csv adds the columns about tokens.
    """
    layout = _layout(result, with_tokens=with_tokens)
    return _text([_main_row(layout, level, measurement) for level, measurement in reported(result)])


def composing_csvs(result: Result) -> tuple[tuple[str, str], ...]:
    """(file name prefix, text) for each direct member that was called."""
    layout = _layout(result)
    rows: dict[tuple[str, str], list[Row]] = {}
    for level, measurement in reported(result):
        for member in _members(measurement):
            row = _member_row(layout, level, measurement, member)
            rows.setdefault((member.name, member.version), []).append(row)
    return tuple(
        (f"{file_part(name)}_v{file_part(version)}.", _text(rows[name, version]))
        for name, version in sorted(rows)
    )


def floored_levels(result: Result) -> tuple[Level, ...]:
    """Levels whose server times add up to more than the client waited; column 5 shows 0 there."""
    return tuple(level for level, measurement in reported(result) if _network_ns(level, measurement) < 0)


def reported(result: Result) -> list[tuple[Level, Measurement]]:
    """The rows' order in every file; periodic concurrency has none."""
    if is_periodic(result.effective):
        return []
    rows = [
        (level, measurement)
        for level in result.levels
        if level.is_reported and (measurement := level.measurement) is not None
    ]
    return sorted(rows, key=lambda row: row[1].infer_per_s.value)


def _layout(result: Result, *, with_tokens: bool = True) -> Layout:
    is_verbose = bool(result.effective.verbose_csv)
    servers = [row.server for _, row in reported(result) if row.server is not None]
    return Layout(
        has_server=bool(servers),
        has_cache=bool(result.model.get("any_cache")) or any(any_cache(model) for model in servers),
        has_transport=not result.model.get("is_decoupled"),
        is_verbose=is_verbose,
        has_gpus=bool(result.effective.collect_metrics),
        has_tokens=(is_verbose or with_tokens) and any(row.tokens is not None for _, row in reported(result)),
        has_goodput=any(row.goodput is not None for _, row in reported(result)),
        percentile=result.effective.percentile,
        effective=result.effective,
    )


def _main_row(layout: Layout, level: Level, measurement: Measurement) -> Row:
    latency = measurement.latency
    send, receive = whole_us(measurement.send_ns), whole_us(measurement.receive_ns)
    if not layout.has_transport:
        send = receive = 0
    streamed = 0.0 if measurement.streaming is None else measurement.streaming.per_s * measurement.batch
    cells: list[tuple[str, object]] = [
        _level_cell(layout, level),
        ("Inferences/Second", decimal(measurement.infer_per_s.value)),
        *([] if layout.has_transport else [("Response Throughput", decimal(streamed))]),
        ("Client Send", send),
        *_server_cells(layout, measurement.server, _network_ns(level, measurement)),
        ("Client Recv", receive),
        *((f"p{p} latency", whole_us(latency.percentile_ns(p))) for p in percentiles(layout.percentile)),
    ]
    if layout.is_verbose:
        if layout.percentile is None:
            cells.append(("Avg latency", whole_us(latency.mean_ns)))
        wait = whole_us(measurement.service.mean_ns) - send - receive if layout.has_transport else 0
        cells += [("request/response", send + receive), ("response wait", wait)]
        if layout.has_gpus:
            cells += _gpu_cells(measurement.metrics)
    return (*cells, *_text_cells(layout, measurement))


def _text_cells(layout: Layout, measurement: Measurement) -> Iterator[tuple[str, object]]:
    """Behind the classic columns: what only servers that make text have, and a promise."""
    tokens, streaming = measurement.tokens, measurement.streaming
    if layout.has_tokens and tokens is not None:
        first = None if streaming is None else streaming.first
        for name, times in (("Time To First Token", first), ("Time Between Tokens", tokens.between)):
            shown = times if times is not None and times.count else None
            yield f"Avg {name}", "" if shown is None else whole_us(shown.mean_ns)
            for p in (50, 99):
                yield f"p{p} {name}", "" if shown is None else whole_us(shown.percentile_ns(p))
        yield "Output Tokens/Second", decimal(tokens.output_per_s)
        yield "Output Tokens/Request", decimal(tokens.output / max(tokens.per_answer.count, 1))
        yield "Input Tokens/Request", decimal(tokens.prompt / max(tokens.per_prompt.count, 1))
    if layout.has_goodput:
        yield "Goodput", "" if measurement.goodput is None else decimal(measurement.goodput.per_s)


def _gpu_cells(metrics: ServerMetrics | None) -> Iterator[tuple[str, str]]:
    gpus = () if metrics is None else metrics.gpus
    for column in GPU_COLUMNS:
        yield (
            column.name,
            "".join(f"{_identifier(uuid)}:{column.cell(value)};" for uuid, value in column.rows(gpus)),
        )


def _identifier(text: str) -> str:
    """The classic file quotes nothing: what would end a cell or a line, or begin a formula, becomes an underscore."""
    return "".join(char if char.isalnum() or char in "-_." else "_" for char in text).lstrip("-")


def _member_row(layout: Layout, level: Level, measurement: Measurement, member: ModelStatistics) -> Row:
    counters = member.counters
    parent = 0 if measurement.server is None else measurement.server.counters.success_count
    rate = measurement.infer_per_s.value * counters.success_count / parent if parent else 0.0
    rest = average_ns(counters.success_ns, counters.success_count) - _accounted_ns(counters)
    return (
        _level_cell(layout, level),
        ("Inferences/Second", decimal(rate)),
        ("Client Send", 0),
        *_server_cells(layout, member, rest),
        ("Client Recv", 0),
    )


def _members(measurement: Measurement) -> Iterator[ModelStatistics]:
    if measurement.server is not None:
        yield from (member for member in measurement.server.members if member.was_called)


def _level_cell(layout: Layout, level: Level) -> tuple[str, str]:
    name = "Concurrency" if level.mode == "concurrency" else "Request Rate"
    return name, classic_value(layout.effective, level)


def _server_cells(layout: Layout, model: ModelStatistics | None, rest_ns: int) -> list[tuple[str, object]]:
    """A level without statistics in a run that has them leaves its cells empty."""
    if not layout.has_server:
        return []
    counters = Counters() if model is None else model.counters
    cells: list[tuple[str, int]] = [
        ("Network+Server Send/Recv", max(0, rest_ns)),
        ("Server Queue", average_ns(counters.queue_ns, counters.queue_count)),
        ("Server Compute Input", average_ns(counters.compute_input_ns, counters.compute_input_count)),
        ("Server Compute Infer", average_ns(counters.compute_infer_ns, counters.compute_infer_count)),
        ("Server Compute Output", average_ns(counters.compute_output_ns, counters.compute_output_count)),
    ]
    if layout.has_cache:
        cells += [
            ("Server Cache Hit", average_ns(counters.cache_hit_ns, counters.cache_hit_count)),
            ("Server Cache Miss", average_ns(counters.cache_miss_ns, counters.cache_miss_count)),
        ]
    return [(name, "" if model is None else ns // NS_PER_US) for name, ns in cells]


def _accounted_ns(counters: Counters) -> int:
    return (
        average_ns(counters.queue_ns, counters.queue_count)
        + average_ns(compute_ns(counters), counters.compute_infer_count)
        + average_ns(counters.cache_hit_ns, counters.cache_hit_count)
        + average_ns(counters.cache_miss_ns, counters.cache_miss_count)
    )


def _network_ns(level: Level, measurement: Measurement) -> int:
    """What neither client nor server accounts for; below zero with too small a sample."""
    if measurement.server is None:
        return 0
    # At a request rate the latency starts when the request was due; waiting for its turn is not the network.
    whole = measurement.service if level.mode == "request_rate" else measurement.latency
    client = measurement.send_ns + measurement.receive_ns
    return whole.mean_ns - client - _accounted_ns(measurement.server.counters)


def _text(rows: list[Row]) -> str:
    if not rows:
        return ""
    lines = [",".join(name for name, _ in rows[0])]
    lines += [",".join(str(value) for _, value in row) for row in rows]
    return "".join(f"{line}\n" for line in lines)
