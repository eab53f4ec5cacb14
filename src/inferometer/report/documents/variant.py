"""One variant in detail: its load curve, the breakdown of its time, and all measurements."""

from collections.abc import Iterator, Sequence

from inferometer.base.answer_file import to_json
from inferometer.report.document import (
    Bar,
    Bars,
    Block,
    Chart,
    ChartAxis,
    ChartLine,
    ChartPoint,
    Code,
    Column,
    Document,
    Section,
    Segment,
    Table,
)
from inferometer.report.documents import study_facts as facts
from inferometer.report.documents.study_charts import header, line, value_of
from inferometer.report.format import plain_number, plural
from inferometer.stats.figures import LATENCY_P99, THROUGHPUT
from inferometer.tune.scoring import RankedVariant, passes
from inferometer.tune.study import Study
from inferometer.tune.trial import Trial

PERCENTILES = ("avg", "p50", "p90", "p95", "p99")
COMPONENTS = (
    ("perf_client_send_recv", "client send/receive", "part-send"),
    ("perf_server_queue", "server queue", "part-queue"),
    ("perf_server_compute_input", "compute input", "part-input"),
    ("perf_server_compute_infer", "compute infer", "part-infer"),
    ("perf_server_compute_output", "compute output", "part-output"),
)
ONLINE_PLOTS = (  # name, title, x, y
    ("gpu_mem_v_latency", "GPU Memory vs. Latency", LATENCY_P99, "gpu_used_memory"),
    ("gpu_util_v_latency", "GPU Utilization vs. Latency", LATENCY_P99, "gpu_utilization"),
    ("cpu_mem_v_latency", "RAM Usage vs. Latency", LATENCY_P99, "cpu_used_ram"),
    ("gpu_power_v_latency", "GPU Power vs. Latency", LATENCY_P99, "gpu_power_usage"),
)
OFFLINE_PLOTS = (
    ("throughput_v_batch_size", "Throughput vs. Batch Size", "batch_size", THROUGHPUT),
    ("latency_v_batch_size", "p99 Latency vs. Batch Size", "batch_size", LATENCY_P99),
)
READING = (
    "Each row is one load. Latency is what a client sees, from sending a request to its whole answer; the server's "
    "parts are averages over its requests. When the queue grows with the load and the compute time does not, more "
    "instances or larger batches help; when the compute time grows, the hardware is busy."
)


def plots(study: Study, *, with_gpus: bool) -> list[tuple[str, str, str, str]]:
    """Name, title, x and y of the charts of one variant."""
    rows = OFFLINE_PLOTS if study.mode == "offline" else ONLINE_PLOTS
    return [row for row in rows if with_gpus or not row[3].startswith("gpu_")]


def find(study: Study, name: str) -> RankedVariant:
    return next(row for row in study.ranked if row.name == name)


def detailed(study: Study, name: str, *, with_gpus: bool = False, extra: Sequence[Chart] = ()) -> Document:
    """Return the report of one variant."""
    ranked = find(study, name)
    (variant,) = facts.variants_of(study, name)
    with_gpus = with_gpus or not variant.cpu_only
    verdict = (
        f"{name} has {facts.shape(variant)}. "
        f"{plural(len(ranked.trials), 'measurement')} on {facts.hardware(study)}."
    )
    return Document(
        kind="configuration in detail",
        title="Detailed Report",
        facts=(f"Model Config: {variant.title}", *facts.gpu_texts(study)),
        verdict=verdict,
        sections=tuple(_sections(study, ranked, with_gpus=with_gpus, extra=extra)),
        source=to_json(study),
        source_name="study.json",
        tool=study.tool,
    )


def _sections(
    study: Study, ranked: RankedVariant, *, with_gpus: bool, extra: Sequence[Chart]
) -> Iterator[Section]:
    if study.mode != "offline":
        yield Section("load", "Load and latency", "", tuple(_load_blocks(ranked)))
    drawn = [_plot(ranked, x, y, title) for _, title, x, y in plots(study, with_gpus=with_gpus)]
    charts = (*extra, *(chart for chart in drawn if chart is not None))
    if charts:
        yield Section("plots", "Memory and utilization", "", charts)
    table = measurements(study, ranked, with_gpus=with_gpus)
    yield Section("measurements", "All measurements", READING, (table, *_percentiles(ranked)))
    (variant,) = facts.variants_of(study, ranked.name)
    code = Code(f"{variant.model}/config.pbtxt", variant.text)
    yield Section("configuration", "The configuration", "", (code,))


def by_load(ranked: RankedVariant) -> list[Trial]:
    return sorted(ranked.trials, key=lambda trial: (trial.load.batch, trial.load.value))


def _load_blocks(ranked: RankedVariant) -> Iterator[Block]:
    trials = by_load(ranked)
    tag = "request_rate" if trials[0].load.request_rate is not None else "concurrency"
    curve = _plot(ranked, tag, THROUGHPUT, "Throughput over the load")
    if curve is not None and len(trials) > 1:
        yield curve
    series = tuple(
        ChartLine(f"{name} latency", (points,), colour)
        for name, colour in (("p50", "blue"), ("p99", "orange"))
        if (points := _points(trials, tag, f"perf_latency_{name}"))
    )
    if series and len(trials) > 1:
        yield Chart(
            "Latency over the load", ChartAxis(header(tag), is_whole=True), ChartAxis("latency (ms)"), series
        )
    bars = tuple(bar for trial in trials if (bar := _bar(trial)) is not None)
    if bars:
        yield Bars("Where the time of a request goes", bars, "Averages; the text is the whole latency.")


def _points(trials: Sequence[Trial], x: str, y: str) -> tuple[ChartPoint, ...]:
    rows = line(trials, x, y)
    return tuple(ChartPoint(a, b, f"{facts.load_text(trial)}: {b:,.2f}") for a, b, trial in rows)


def _plot(ranked: RankedVariant, x: str, y: str, title: str) -> Chart | None:
    points = _points(ranked.trials, x, y)
    if not points:
        return None
    across = ChartAxis(header(x), is_whole=x in ("concurrency", "batch_size"))
    series = ChartLine(ranked.name, (points,), "blue")
    return Chart(title, across, ChartAxis(header(y)), (series,))


def _bar(trial: Trial) -> Bar | None:
    segments = tuple(
        Segment(name, value, f"{value:.2f} ms", colour)
        for tag, name, colour in COMPONENTS
        if (value := trial.combined(tag)) is not None
    )
    if not segments:
        return None
    mean = trial.combined("perf_latency_avg")
    rest = 0.0 if mean is None else mean - sum(segment.value for segment in segments)
    if rest > 0:
        segments = (*segments, Segment("network and the rest", rest, f"{rest:.2f} ms", "part-network"))
    total = sum(segment.value for segment in segments)
    return Bar(facts.load_text(trial), segments, f"{total:.2f} ms")


def measurements(study: Study, ranked: RankedVariant, *, with_gpus: bool) -> Table:
    """The columns of model-analyzer; both batch size and load if both vary."""
    is_offline = study.mode == "offline"
    first = THROUGHPUT if is_offline else LATENCY_P99
    trials = sorted(ranked.trials, key=lambda trial: -(trial.combined(first) or 0))
    has_ram = any(trial.combined("cpu_used_ram") is not None for trial in trials)
    loads = _load_columns(trials, is_offline=is_offline)
    columns: list[tuple[str, str, int]] = [
        *((head, tag, 0) for head, tag in loads),
        ("p99 Latency (ms)", LATENCY_P99, 3),
        ("Client Response Wait (ms)", "perf_client_response_wait", 3),
        ("Server Queue (ms)", "perf_server_queue", 3),
        ("Server Compute Input (ms)", "perf_server_compute_input", 3),
        ("Server Compute Infer (ms)", "perf_server_compute_infer", 3),
        ("Throughput (infer/sec)", THROUGHPUT, 1),
        *([("Max CPU Memory Usage (MB)", "cpu_used_ram", 1)] if has_ram else []),
        *([("Max GPU Memory Usage (MB)", "gpu_used_memory", 1), ("Average GPU Utilization (%)", "gpu_utilization", 1)]
          if with_gpus else []),
    ]  # fmt: skip
    rows = tuple(
        (
            *(_cell(value_of(trial, tag), places) for _, tag, places in columns),
            "Yes" if passes(study.goals, trial) else "No",
        )
        for trial in trials
    )
    heads = [*(head for head, _, _ in columns), "Satisfies Constraints"]
    return Table("Measurements", tuple(Column(head) for head in heads), rows)


def _load_columns(trials: Sequence[Trial], *, is_offline: bool) -> list[tuple[str, str]]:
    by_rate = trials[0].load.request_rate is not None
    load = ("Request Rate", "request_rate") if by_rate else ("Request Concurrency", "concurrency")
    batch = ("Client Batch Size", "batch_size")
    batches, loads = {trial.load.batch for trial in trials}, {trial.load.value for trial in trials}
    if is_offline:
        return [batch, load] if len(loads) > 1 else [batch]
    return [load, batch] if batches != {1} else [load]


def _cell(value: float | None, places: int) -> str:
    return plain_number(value) if value is not None and places == 0 else facts.number_text(value, places)


def _percentiles(ranked: RankedVariant) -> Iterator[Table]:
    trials = by_load(ranked)
    known = [
        name for name in PERCENTILES if any(t.combined(f"perf_latency_{name}") is not None for t in trials)
    ]
    if len(known) < 2:
        return
    columns = (Column("Load", is_number=False, is_name=True), *(Column(f"{name} (ms)") for name in known))
    rows = tuple(
        (facts.load_text(trial), *(_cell(trial.combined(f"perf_latency_{name}"), 3) for name in known))
        for trial in trials
    )
    yield Table("Latency percentiles", columns, rows)
