"""The classic tool's report, byte for byte; our additions follow the lines that scripts parse.

Every function returns complete lines with line ends.
"""

from collections.abc import Iterator

from inferometer.base.frozen import frozen
from inferometer.base.notes import CLIENT_LIMITS, Note
from inferometer.base.units import NS_PER_US
from inferometer.observe.statistics import ModelStatistics
from inferometer.options.effective import Effective
from inferometer.report.csv import GPU_COLUMNS
from inferometer.report.format import (
    classic_level,
    classic_value,
    decimal,
    exact_share,
    first_line,
    has_schedule,
    headline_ns,
    is_periodic,
    percentiles,
    plural,
    whole_us,
)
from inferometer.report.sentences import token_origin
from inferometer.stats.estimate import Distribution
from inferometer.stats.machine_figures import ServerMetrics
from inferometer.stats.measurement import FailureGroup, Level, Measurement, WindowFigures
from inferometer.stats.result import Result

SERVICE_KINDS = {
    "triton": "TRITON",
    "triton_c_api": "TRITON_C_API",
    "tfserving": "TENSORFLOW_SERVING",
    "torchserve": "TORCHSERVE",
    "openai": "OPENAI",
    "dynamic_grpc": "DYNAMIC_GRPC",
}
DELAYED_SHARE = 0.01
SERVICE_DIFFERENCE = 0.01
OVERHEAD_SHARE = 0.5
MOST_GPUS = 16

_NO_INSTABILITY = (
    *CLIENT_LIMITS,
    Note.METRICS_MISSING,
    Note.METRICS_SLOW,
    Note.NO_RESPONSE,
    Note.MEMBER_NOT_CALLED,
    Note.SEVERAL_VERSIONS,
    Note.OTHER_CLIENTS,
    Note.NOT_COUNTED,
    Note.STATISTICS_MISSING,
)


def data_line(effective: Effective) -> str:
    """Return the line about JSON input data; empty for generated data."""
    if not effective.data_given:
        return ""
    streams = effective.data_streams
    steps = f" with {effective.data_steps} step/steps" if streams == 1 else ""
    return f" Successfully read data for {streams} stream/streams{steps}.\n"


def settings_block(result: Result) -> str:
    settings = _settings(result.effective, bool(result.model.get("is_decoupled")))
    return _joined(["*** Measurement Settings ***", *settings, ""])


def _settings(effective: Effective, is_decoupled: bool) -> Iterator[str]:
    kind = effective.service_kind
    if kind == "triton" or effective.batch_given:
        yield f"  Batch size: {effective.batch}"
    yield f"  Service Kind: {SERVICE_KINDS.get(kind, kind.upper())}"
    if warmup := effective.warmup_request_count:
        yield f"  Sending {plural(warmup, 'warmup request', separator='')}"
    if count := effective.request_count:
        yield f"  Sending {plural(count, 'benchmark request', separator='')}"
    else:
        yield from _stabilization(effective)
    yield from _limits(effective)
    if effective.mode == "request_rate":
        drawn = "poisson" if effective.distribution == "poisson" else "uniform"
        yield f"  Using {drawn} distribution on request generation"
    if effective.binary_search:
        yield "  Using Binary Search algorithm"
    yield f"  Using {'asynchronous' if effective.asynchronous else 'synchronous'} calls for inference"
    if is_decoupled:
        yield "  Detected decoupled model, using the last response for measuring latency"


def _stabilization(effective: Effective) -> Iterator[str]:
    if effective.stopping == "precision":
        share = f"{effective.precision * 100:g} %"
        yield f"  Stopping when 95 % intervals are within {share}, at the latest after {effective.duration_s:g} s"
        return
    mode = effective.measurement_mode
    yield f'  Using "{mode}" mode for stabilization'
    # Scripts expect `p95latency`: the missing space is part of the dialect.
    percentile = effective.percentile
    measure = "average " if percentile is None else f"p{percentile}"
    compared = "throughput" if effective.asynchronous else "latency and throughput"
    yield f"  Stabilizing using {measure}{compared}"
    if mode == "count_windows":
        yield f"  Minimum number of samples in each window: {effective.measurement_request_count}"
    else:
        yield f"  Measurement window: {effective.measurement_interval_ms} msec"


def _limits(effective: Effective) -> Iterator[str]:
    """Yield the limits. An end of 1 is the classic tool's default and means no limit; 0 means open."""
    for name, text in (
        ("concurrency", "  Concurrency limit: {} concurrent requests"),
        ("request_rate", "  Request Rate limit: {} requests per seconds"),
    ):
        end = getattr(effective, f"{name}_end")
        if end is None or end == 1:
            continue
        yield f"  Latency limit: {effective.latency_limit_ms} msec"
        if end != 0:
            yield text.format(classic_level(name, max(getattr(effective, f"{name}_start"), end)))


def has_header(result: Result) -> bool:
    """Whether levels are announced: only those of a range."""
    return result.effective.mode in ("concurrency", "request_rate")


def level_header(mode: str, value: float) -> str:
    """Return the line printed when the load starts, before measuring."""
    if mode == "concurrency":
        return f"Request concurrency: {classic_level(mode, value)}\n"
    return f"Request Rate: {classic_level(mode, value)} inference requests per seconds\n"


def pass_line(number: int, window: WindowFigures, percentile: int | None) -> str:
    """Return the line of one window, as shown with -v."""
    if window.request_count == 0:
        return (
            f"  Pass [{number}] cb::Error: No valid requests recorded within time interval. "
            "Please use a larger time window.\n"
        )
    head = f"  Pass [{number}] throughput: {decimal(window.infer_per_s)} infer/sec."
    latency = whole_us(window.latency_ns)
    if percentile is None:
        return f"{head} Avg latency: {latency} usec (std {whole_us(window.std_ns)} usec). \n"
    return f"{head} p{percentile} latency: {latency} usec\n"


def level_block(result: Result, level: Level) -> str:
    """Return the Client and Server blocks of a level; empty if no request finished, and for periodic concurrency.

    A level that ends a search by its latency is shown only if there is no other.
    """
    measurement = level.measurement
    if measurement is None or is_periodic(result.effective):
        return ""
    if level.is_stable and level.is_over_limit and len(result.levels) > 1:
        return ""
    lines = ["  Client: ", *_client(result, level, measurement)]
    if measurement.server is not None:
        cached = bool(result.model.get("any_cache")) or measurement.server.any_cache
        lines += ["  Server: ", *_server(measurement.server, cached, depth=1)]
    if measurement.metrics is not None:
        lines += _metrics(measurement.metrics)
    if measurement.client.cpu_share > OVERHEAD_SHARE:
        lines.append(
            "[WARNING] Perf Analyzer is not able to keep up with the desired load. "
            "The results may not be accurate."
        )
    return _joined(lines)


def _client(result: Result, level: Level, measurement: Measurement) -> Iterator[str]:
    yield f"    Request count: {measurement.request_count}"
    yield from _delayed(measurement)
    if result.model.get("any_sequence"):
        yield _sequence_count(measurement)
    if measurement.request_count:
        yield from _figures(result, measurement)
    yield from _added(result, level, measurement)


def _figures(result: Result, measurement: Measurement) -> Iterator[str]:
    """Yield the figures of successful requests."""
    percentile, latency = result.effective.percentile, measurement.latency
    yield f"    Throughput: {decimal(measurement.infer_per_s.value)} infer/sec"
    if result.model.get("is_decoupled") and measurement.streaming is not None:
        yield f"    Response Throughput: {decimal(measurement.streaming.per_s * measurement.batch)} infer/sec"
    if result.effective.verbose:
        yield f"    Avg client overhead: {measurement.client.cpu_share * 100:.2f}%"
    if percentile is None:
        yield (
            f"    Avg latency: {whole_us(latency.mean_ns)} usec "
            f"(standard deviation {whole_us(latency.std_ns or 0)} usec)"
        )
    for p in percentiles(percentile):
        yield f"    p{p} latency: {whole_us(latency.percentile_ns(p))} usec"
    yield f"    {_transport(result, measurement)}"


def _sequence_count(measurement: Measurement) -> str:
    sequences = measurement.sequences
    if sequences is None:
        return "    Sequence count: 0 (0 seq/sec)"
    return f"    Sequence count: {sequences.count} ({decimal(sequences.per_s)} seq/sec)"


def _delayed(measurement: Measurement) -> Iterator[str]:
    total = measurement.ended_count
    share = measurement.delayed_count / total if total else 0.0
    if share <= DELAYED_SHARE:
        return
    yield f"    Avg send request rate: {measurement.send_per_s:.2f} infer/sec"
    yield (
        "    [WARNING] Perf Analyzer was not able to keep up with the desired request rate. "
        f"{share * 100:.2f}% of the requests were delayed. "
    )


def _transport(result: Result, measurement: Measurement) -> str:
    if result.model.get("is_decoupled") or result.effective.service_kind == "triton_c_api":
        return ""
    whole = whole_us(measurement.service.mean_ns)
    send, receive = whole_us(measurement.send_ns), whole_us(measurement.receive_ns)
    wait = f"response wait {whole - send - receive} usec"
    if result.effective.protocol == "grpc":
        if result.effective.verbose:
            return f"Avg gRPC time: {whole} usec (marshal {send} usec + {wait} + unmarshal {receive} usec)"
        return f"Avg gRPC time: {whole} usec ((un)marshal request/response {send + receive} usec + {wait})"
    if result.effective.verbose:
        return f"Avg HTTP time: {whole} usec (send {send} usec + {wait} + receive {receive} usec)"
    return f"Avg HTTP time: {whole} usec (send/recv {send + receive} usec + {wait})"


def _added(result: Result, level: Level, measurement: Measurement) -> Iterator[str]:
    """Yield our additional lines, each only if it applies."""
    latency, service = measurement.latency.mean_ns, measurement.service.mean_ns
    if level.mode == "request_rate" and abs(latency - service) > SERVICE_DIFFERENCE * latency:
        yield f"    Avg service time: {whole_us(service)} usec"
    if level.rates is not None and (has_schedule(result.effective) or not level.is_as_asked):
        rates = (level.rates.asked_per_s, level.rates.sent_per_s, level.rates.answered_per_s)
        asked, sent, answered = map(decimal, rates)
        yield f"    Request rate: asked {asked}, sent {sent}, answered {answered} requests/sec"
    streaming = measurement.streaming
    if result.model.get("is_decoupled") and streaming is not None:
        yield f"    Time to first response: {_times(streaming.first)}"
        if streaming.gaps.count:
            yield f"    Time between responses: {_times(streaming.gaps)}"
        yield f"    Responses per request: {decimal(streaming.responses / streaming.per_request.count)}"
    yield from token_lines(measurement)
    if measurement.sequences is not None:
        yield f"    Avg sequence latency: {_times(measurement.sequences.latency)}"
    if measurement.failed_count:
        yield f"    Failed request count: {measurement.failed_count} ({exact_share(measurement.failed_share)} %)"
    for group in measurement.failures:
        yield _failure(group)
    if not level.is_stable:
        yield f"    [WARNING] Not stable: {_instability(level, measurement)}"
    else:
        yield from (f"    [WARNING] {row.text}" for row in level.remarks if row.note is Note.OVERLOADED)
    if level.is_over_limit:
        yield f"    [WARNING] Over the latency limit of {result.effective.latency_limit_ms} msec"


def _failure(group: FailureGroup) -> str:
    when = f"first at {group.first_s:.1f} s, last at {group.last_s:.1f} s"
    if group.count == 1:
        when = f"at {group.first_s:.1f} s"
    example = first_line(group.example)
    line = f"    Failure: {group.kind}, {plural(group.count, 'request', separator='')}, {when}"
    return f"{line}: {example}" if example else line


def _instability(level: Level, measurement: Measurement) -> str:
    causes = [remark.text for remark in level.remarks if remark.note not in _NO_INSTABILITY]
    rate = measurement.infer_per_s
    if rate.low is not None and rate.high is not None:
        causes.append(f"95 % interval {decimal(rate.low)} to {decimal(rate.high)} infer/sec")
    return "; ".join(causes) if causes else "the windows differ too much"


def _server(model: ModelStatistics, cached: bool, depth: int) -> Iterator[str]:
    counters = model.counters
    indent = "  " * (depth + 1)
    if counters.success_count == 0:
        yield f"{indent}Request count: 0"
        return
    yield f"{indent}Inference count: {counters.inference_count}"
    yield f"{indent}Execution count: {counters.execution_count}"
    if cached:
        yield f"{indent}Cache hit count: {counters.cache_hit_count}"
        yield f"{indent}Cache miss count: {counters.cache_miss_count}"
    yield f"{indent}Successful request count: {counters.success_count}"
    first, *others = _server_times(model, server_figures(model, cached), cached)
    yield f"{indent}Avg request latency: {first}"
    yield from ("  " * (2 * depth + 1) + line for line in others)
    yield ""
    if not model.members:
        return
    yield "  " * depth + "Composing models: "
    for member in sorted(model.members, key=lambda row: (row.name, row.version)):
        yield "  " * depth + f"{member.name}, version: {member.version}"
        yield from _server(member, cached, depth + 1)


def _metrics(metrics: ServerMetrics) -> Iterator[str]:
    """Yield the GPU metrics, the only ones the classic tool prints."""
    if len(metrics.gpus) > MOST_GPUS:
        yield (
            "Too many GPUs on system to print out individual Prometheus metrics, "
            "use the CSV output feature to see metrics."
        )
        return
    yield "  Server Prometheus Metrics: "
    for column in GPU_COLUMNS:
        yield f"    {column.name}:"
        yield from (f"      {uuid} : {column.shown(value)}" for uuid, value in column.rows(metrics.gpus))


@frozen
class ServerFigures:
    """Averages per request in whole microseconds, each truncated separately."""

    latency: int
    overhead: int
    queue: int
    compute: int
    compute_input: int
    compute_infer: int
    compute_output: int
    cached: int  # time of hits, misses and compute together
    cache_hit: int
    cache_lookup: int  # lookup and insertion of a miss


def server_figures(model: ModelStatistics, cached: bool) -> ServerFigures:
    """Return the averages of one model; `cached` if any model of the family uses the response cache.

    A model that computes itself (including a BLS model, whose members run within its compute time) has its own
    counters. An ensemble does not compute: its queue and compute are sums over its members, each weighted by its
    number of calls per call of the ensemble.
    """
    calls = model.counters.success_count
    rows = tuple(row.counters for row in model.workers)

    def total(*parts: str, counted: tuple[str, ...] = ()) -> int:
        found = 0
        for row in rows:
            ns = sum(getattr(row, f"{part}_ns") for part in parts)
            count = sum(getattr(row, f"{part}_count") for part in counted or parts)
            # Divide once, at the end: a member called as often as its ensemble then gives exactly its own average.
            found += ns * row.success_count // (count * calls * NS_PER_US) if count and calls else 0
        return found

    latency = whole_us(model.counters.mean_ns("success"))
    queue, compute = total("queue"), total("compute", counted=("compute_infer",))
    together = total("cache_hit", "cache_miss", "compute", counted=("compute_infer", "cache_hit"))
    return ServerFigures(
        latency=latency,
        overhead=max(0, latency - queue - (together if cached else compute)),
        queue=queue,
        compute=compute,
        compute_input=total("compute_input"),
        compute_infer=total("compute_infer"),
        compute_output=total("compute_output"),
        cached=together,
        cache_hit=total("cache_hit"),
        cache_lookup=total("cache_miss"),
    )


def _server_times(model: ModelStatistics, row: ServerFigures, cached: bool) -> tuple[str, ...]:
    if model.is_ensemble and model.members and model.has_cache:
        hit, miss = (whole_us(model.counters.mean_ns(part)) for part in ("cache_hit", "cache_miss"))
        return (
            f"{row.latency} usec",
            f"Average Cache Hit Latency: {hit} usec",
            f"Average Cache Miss Latency: {miss} usec ",
        )
    head = f"{row.latency} usec (overhead {row.overhead} usec + queue {row.queue} usec + "
    steps = (
        f"compute input {row.compute_input} usec + compute infer {row.compute_infer} usec + "
        f"compute output {row.compute_output} usec)"
    )
    if cached:
        lookup = "" if model.members else f"(cache lookup/insertion {row.cache_lookup} usec + {steps}"
        return (
            f"{head}cache hit/miss {row.cached} usec)",
            f"Average Cache Hit Latency: {row.cache_hit} usec",
            f"Average Cache Miss Latency: {row.cache_lookup + row.compute} usec {lookup}",
        )
    if model.members:
        return (f"{head}compute {row.compute} usec)",)
    return (head + steps,)


def summary(result: Result) -> str:
    """Return one line per reported level, in the order measured; empty if there is none."""
    levels = [
        (level, measurement)
        for level in result.levels
        if level.is_reported and (measurement := level.measurement) is not None
    ]
    if not levels or is_periodic(result.effective):
        return ""
    percentile = result.effective.percentile
    measure = "Average" if percentile is None else f"p{percentile}"
    lines = [f"Inferences/Second vs. Client {measure} Batch Latency"]
    for level, measurement in levels:
        name = "Concurrency" if level.mode == "concurrency" else "Request Rate"
        lines.append(
            f"{name}: {classic_value(result.effective, level)}, "
            f"throughput: {decimal(measurement.infer_per_s.value)} infer/sec, "
            f"latency {whole_us(headline_ns(measurement.latency, percentile))} usec"
        )
    return _joined(lines)


def _joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def token_lines(measurement: Measurement) -> Iterator[str]:
    """Yield the lines about tokens and goodput of the Client block."""
    streaming, tokens, goodput = measurement.streaming, measurement.tokens, measurement.goodput
    if tokens is not None and streaming is not None:
        yield f"    Time to first token: {_times(streaming.first)}"
        if tokens.between.count:
            yield f"    Time between tokens: {_times(tokens.between)}"
    if tokens is not None and tokens.output:
        yield f"    Output token throughput: {decimal(tokens.output_per_s)} tokens/sec"
        yield f"    Output length: {decimal(tokens.output / tokens.per_answer.count)} tokens per request"
    if tokens is not None and tokens.prompt:
        yield f"    Input length: {decimal(tokens.prompt / tokens.per_prompt.count)} tokens per request"
    if tokens is not None and tokens.from_events:
        yield f"    [WARNING] {token_origin(tokens, separator='')}"
    if goodput is not None:
        yield f"    Goodput: {decimal(goodput.per_s)} infer/sec ({goodput.share * 100:.2f} %) within {goodput.promise}"


def _times(times: Distribution) -> str:
    return (
        f"{whole_us(times.mean_ns)} usec "
        f"(p50 {whole_us(times.percentile_ns(50))} usec, p99 {whole_us(times.percentile_ns(99))} usec)"
    )
