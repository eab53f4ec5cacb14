"""Before the load: what is asked of whom, checked and rendered; nothing is measured yet."""

import dataclasses
import math
import resource
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import inferometer
from inferometer.base.clock import monotonic_ns
from inferometer.base.errors import MissingError, UsageError
from inferometer.base.notes import Note, Remark
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.dataset.batches import batch, batch_expected, stream_expected, stream_steps
from inferometer.dataset.build import build
from inferometer.dataset.dataset import Dataset, Step, Streams
from inferometer.load.sequences import SequencePlan
from inferometer.measure.result import SCHEMA, Result
from inferometer.measure.stopping import Precision, Stability
from inferometer.model.spec import ModelSpec
from inferometer.observe.host import describe_host
from inferometer.observe.host_load import HostMeter, is_this_host
from inferometer.observe.poller import MetricsEndpoint, warnings_about
from inferometer.profile.checks import check, check_model
from inferometer.profile.journal import Journal
from inferometer.profile.level import Recipe
from inferometer.profile.options import Options
from inferometer.profile.points import is_rate
from inferometer.target.discovery import describe_model
from inferometer.target.endpoint import Connection, Endpoint, parse_endpoint
from inferometer.target.shared_memory import OutputPlaces, Shared, layout, region_name
from inferometer.target.traffic import Traffic, Validation
from inferometer.target.triton_http import HttpOptions, TritonHttp

if TYPE_CHECKING:
    from inferometer.target.triton_grpc import TritonGrpc

    Target = TritonHttp | TritonGrpc

PORTS = {"http": 8000, "grpc": 8001}
METRICS_PORT = 8002
SYNC_LIMIT = 16  # an open-ended synchronous range ends here unless --max-threads says otherwise
OWN_FILES = 16  # of a worker, besides its connections
SLICES = 20  # windows in the time a level may take by the precision rule


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything that is known before load starts."""

    options: Options
    model: ModelSpec
    traffic: Traffic
    shared: Shared | None  # tensors for shared memory
    recipe: Recipe
    sequences: SequencePlan | None
    result: Result  # with no levels yet
    target: "Target"
    has_statistics: bool
    last: float | None  # the end of the sweep; None is open
    warnings: tuple[str, ...]
    metrics: MetricsEndpoint | None = None  # only when they are collected
    journal: Journal | None = None  # only when requests are exported


def prepare(options: Options, *, command: str) -> Setup:
    """Ask the server about the model and make the requests; nothing is measured yet."""
    check(options)
    endpoint = _endpoint(options)
    target = _target(options, Connection(endpoint, options.headers))
    model = describe_model(target, options.model, options.version, options.bls_composing_models)
    if model.any_sequence and not options.synchronous:
        options = replace(options, asynchronous=True)
    check_model(options, model)
    size = options.batch or 1
    with _contract_words("Failed to init manager inputs: ", command):
        dataset = build(model, options.data)
    with _contract_words("Unable to init infer data manager: ", command):
        requests = _requests(options, dataset, model, size)
        steps = requests.steps
        shared = _maybe_shared(options, model, steps, dataset)
    server = _server(target)
    metrics, metrics_warnings = _metrics(options, endpoint, command)
    last, warnings = _last_level(options)
    recipe = _recipe(options, model, size, command)
    return Setup(
        options=options,
        model=model,
        traffic=replace(
            target.traffic(model, steps, None if shared is None else shared.placement),
            validation=_validation(options, requests.expected),
        ),
        shared=shared,
        recipe=recipe,
        sequences=requests.sequences,
        result=Result(
            schema=SCHEMA,
            tool=f"inferometer {inferometer.__version__}",
            command=command,
            started_at=datetime.now(UTC).isoformat(timespec="seconds"),
            asked=_asked(options),
            effective=_effective(options, recipe, dataset, last),
            host=describe_host(),
            server={**server, "url": str(endpoint)},
            model=_described(model),
            remarks=_missing(server),
        ),
        target=target,
        has_statistics="statistics" in server["extensions"],
        last=last,
        warnings=(*warnings, *_ignored(options), *metrics_warnings, *_few_files(options, last)),
        metrics=metrics,
        journal=_maybe_journal(options, target, model, steps),
    )


def _maybe_journal(
    options: Options, target: "Target", model: ModelSpec, steps: Sequence[Step]
) -> Journal | None:
    if options.profile_export is None:
        return None
    return Journal(
        path=Path(options.profile_export),
        service_kind=options.service_kind,
        endpoint="",
        steps=steps,
        datatypes={output.name: output.datatype for output in model.outputs},
        read_outputs=target.read_outputs,
        missing=b"" if options.shared_memory == "none" else None,
    )


@dataclass(frozen=True, slots=True)
class _Requests:
    """What will be sent, what must come back, and how sequences are made of it."""

    steps: tuple[Step, ...]
    expected: tuple[Step, ...] | None = None
    sequences: SequencePlan | None = None


def _requests(options: Options, dataset: Dataset, model: ModelSpec, size: int) -> _Requests:
    if not model.any_sequence:
        return _Requests(batch(dataset, model, size), batch_expected(dataset, model, size))
    streams, expected = stream_steps(dataset, model), stream_expected(dataset, model)
    ends = list(accumulate(len(stream) for stream in streams))
    first, end = options.sequence_ids or (1, None)
    plan = SequencePlan(
        streams=tuple(
            tuple(range(stop - len(stream), stop)) for stream, stop in zip(streams, ends, strict=True)
        ),
        is_given=dataset.origin == "json",
        length=options.sequence_length,
        variation=options.sequence_length_variation,
        first_id=max(first, 1),
        last_id=max(first, 1) + 2**32 - 2 if end is None else end - 1,
        lanes=options.sequences,
        is_serial=options.serial_sequences,
        seed=options.data.seed,
    )
    return _Requests(_flat(streams), None if expected is None else _flat(expected), plan)


def _flat(streams: Streams) -> tuple[Step, ...]:
    return tuple(step for stream in streams for step in stream)


def _validation(options: Options, expected: tuple[Step, ...] | None) -> Validation | None:
    if expected is None:
        return None
    tolerance, relative = options.validate_tolerance
    return Validation(expected, tolerance, relative, options.validate_sample)


def _server(target: "Target") -> dict[str, Any]:
    """What the server says of itself; a plain KServe v2 server may say nothing."""
    try:
        found = dict(target.server())
    except MissingError:
        found = {}
    extensions = found.get("extensions")
    return {**found, "extensions": extensions if isinstance(extensions, list) else []}


def _missing(server: Mapping[str, Any]) -> tuple[Remark, ...]:
    if "statistics" in server["extensions"]:
        return ()
    return (Remark(Note.STATISTICS_MISSING, "the server has no statistics extension"),)


def _few_files(options: Options, last: float | None) -> tuple[str, ...]:
    """Workers raise their limit of open files as far as they may; that can be too little for what was asked."""
    if options.protocol != "http" or is_rate(options) or last is None:
        return ()  # over gRPC connections are shared, and by rate nobody knows how many it takes
    start = 1 if options.concurrency is None else options.concurrency.start
    needed = math.ceil(max(start, last) / options.workers) + OWN_FILES
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if allowed == resource.RLIM_INFINITY or needed <= allowed:
        return ()
    text = f"a worker will need {needed} open files, and the system allows it {allowed}"
    return (f"WARNING: {text}; {Note.FEW_FILES.advice}",)


def _endpoint(options: Options) -> Endpoint:
    port = PORTS[options.protocol]
    endpoint = parse_endpoint(options.url or f"localhost:{port}", default_port=port, tls=options.tls)
    is_secure = options.protocol == "grpc" and options.grpc_tls
    return replace(endpoint, tls=options.tls) if is_secure else endpoint


def _target(options: Options, connection: Connection) -> "Target":
    if options.protocol == "http":
        return TritonHttp(connection, HttpOptions(options.input_format, options.output_format))
    from inferometer.target.triton_grpc import GrpcOptions, TritonGrpc

    return TritonGrpc(
        connection,
        GrpcOptions(
            is_streaming=options.streaming,
            compression=None if options.grpc_compression == "none" else options.grpc_compression,
            parameters=options.request_parameters,
            connections=options.connections or 0,
        ),
    )


def _maybe_shared(
    options: Options, model: ModelSpec, steps: Sequence[Step], dataset: Dataset
) -> Shared | None:
    """What goes into shared memory; outputs that are compared come back with the reply."""
    if options.shared_memory == "none":
        return None
    outputs = OutputPlaces(
        batch=options.batch or 1,
        unknown_size=options.output_shared_memory_size,
        are_inline=dataset.expected is not None,
    )
    placement = layout(model, steps, outputs, region=region_name())
    return Shared(options.shared_memory, placement, steps)


def _metrics(
    options: Options, server: Endpoint, command: str
) -> tuple[MetricsEndpoint | None, tuple[str, ...]]:
    """Where the metrics are, and what is to say after a first look at them."""
    if not options.collect_metrics:
        return None, ()
    if options.metrics_url is None:
        endpoint = Endpoint(server.host, METRICS_PORT, "/metrics")
    else:
        endpoint = parse_endpoint(options.metrics_url, default_port=METRICS_PORT, tls=options.tls)
        endpoint = replace(endpoint, prefix=endpoint.prefix or "/metrics")
    # Headers may be secrets of the server's; another host need not know them.
    headers = options.headers if endpoint.host == server.host else ()
    host = HostMeter() if is_this_host(server.host) else None
    metrics = MetricsEndpoint(Connection(endpoint, headers), clock=monotonic_ns, host=host)
    return metrics, warnings_about(metrics.look(), is_classic=command == "perf_analyzer")


def _ignored(options: Options) -> tuple[str, ...]:
    """What was asked and has no effect."""
    if "json" not in (options.input_format, options.output_format):
        return ()
    if options.protocol != "http":
        return ("WARNING: The tensor formats are only for HTTP; gRPC carries tensors in its own form.",)
    if options.shared_memory != "none":
        return ("WARNING: Tensors in shared memory are binary; the tensor formats do not apply to them.",)
    return ()


@contextmanager
def _contract_words(prefix: str, command: str) -> Iterator[None]:
    """The classic dialect says at which stage the data was refused."""
    try:
        yield
    except UsageError as error:
        if command != "perf_analyzer":
            raise
        raise UsageError(prefix + error.message, remedy=error.remedy) from error


def _last_level(options: Options) -> tuple[float | None, tuple[str, ...]]:
    """The end of the sweep and what must be said about it."""
    span = options.request_rate if is_rate(options) else options.concurrency
    if span is None:
        return 1, ()
    if span.end is None:
        return span.start, ()
    if options.asynchronous or is_rate(options):
        return span.end or None, ()
    if span.end:
        highest = int(max(span.start, span.end))
        given = options.max_threads
        is_overridden = given is not None and given < highest
        words = (
            f"WARNING: Overriding max_threads specification of {given} to ensure requested concurrency range."
        )
        return span.end, ((words,) if is_overridden else ())
    limit = options.max_threads or SYNC_LIMIT
    return limit, (
        f"WARNING: The maximum attainable concurrency will be limited by max_threads specification ({limit}).",
    )


def _recipe(options: Options, model: ModelSpec, size: int, command: str) -> Recipe:
    is_counted = options.measurement_mode == "count_windows"
    common = Recipe(
        model=model,
        batch=size,
        percentile=options.percentile,
        latency_limit_ms=options.latency_limit_ms,
        rule=Stability(
            percentage=options.stability_percentage,
            max_trials=options.max_trials,
            latency_limit_ms=options.latency_limit_ms,
            is_lenient=options.asynchronous,
        ),
    )
    if options.request_count:
        return replace(common, window_count=options.request_count, is_whole=True)
    if options.duration_s is not None:
        duration_ns = round(options.duration_s * NS_PER_S)
        rule = Precision(precision=options.precision, duration_ns=duration_ns)
        return replace(
            common,
            rule=rule,
            window_ns=max(duration_ns // SLICES, NS_PER_MS),
            finds_warm_up=command == "measure",
        )
    if is_counted:
        return replace(common, window_count=options.measurement_request_count)
    return replace(common, window_ns=options.measurement_interval_ms * NS_PER_MS)


def _effective(options: Options, recipe: Recipe, dataset: Dataset, last: float | None) -> dict[str, Any]:
    span, rate = options.concurrency, options.request_rate
    return {
        "mode": "request_rate"
        if rate
        else "request_intervals"
        if options.request_intervals
        else "concurrency",
        "request_rate_start": None if rate is None else rate.start,
        "request_rate_end": None if rate is None or rate.end is None else (last or 0),
        "distribution": options.request_distribution,
        "service_kind": options.service_kind,
        "protocol": options.protocol,
        "shared_memory": options.shared_memory,
        "input_format": options.input_format,
        "output_format": options.output_format,
        "batch": recipe.batch,
        "batch_given": options.batch is not None,
        "concurrency_start": 1 if span is None else int(span.start),
        "concurrency_end": None if span is None or span.end is None else int(last or 0),
        "concurrency_step": 1 if span is None else int(span.step),
        "request_count": options.request_count,
        "warmup_request_count": options.warmup_request_count,
        "measurement_mode": options.measurement_mode,
        "measurement_interval_ms": options.measurement_interval_ms,
        "measurement_request_count": options.measurement_request_count,
        "stopping": "precision" if isinstance(recipe.rule, Precision) else "stability",
        "stability_percentage": options.stability_percentage,
        "max_trials": options.max_trials,
        "duration_s": options.duration_s,
        "precision": options.precision,
        "percentile": options.percentile,
        "latency_limit_ms": options.latency_limit_ms,
        "asynchronous": options.asynchronous,
        "request_timeout_s": options.request_timeout_s,
        "max_error_rate": options.max_error_rate,
        "workers": options.workers,
        "verbose": options.verbose,
        "verbose_csv": options.verbose_csv,
        "collect_metrics": options.collect_metrics,
        "metrics_interval_ms": options.metrics_interval_ms,
        "binary_search": options.binary_search,
        "data_given": dataset.origin == "json",
        "data_streams": len(dataset.streams),
        "data_steps": len(dataset.streams[0]),
    }


def _asked(options: Options) -> dict[str, Any]:
    """What the user asked; of headers only the names, of keys only that there is one."""
    asked = dataclasses.asdict(options)
    asked["headers"] = [name for name, _ in options.headers]
    asked["tls"]["key_file"] = options.tls.key_file is not None
    return asked


def _described(model: ModelSpec) -> Mapping[str, Any]:
    document = dataclasses.asdict(model)
    return {**document, "any_cache": model.any_cache, "any_sequence": model.any_sequence}
