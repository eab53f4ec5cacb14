"""Preparation of a run: query the server, check the options and render the requests, without measuring."""

import dataclasses
import math
import resource
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import inferometer
from inferometer.base.confined import check_command
from inferometer.base.errors import MissingError, UsageError
from inferometer.base.frozen import frozen
from inferometer.base.notes import Note, Remark
from inferometer.base.secrets import redacted, redacted_body, redacted_parameter
from inferometer.base.slo import STREAMED, Slo
from inferometer.base.units import NS_PER_MS, NS_PER_S, monotonic_ns
from inferometer.dataset.build import build
from inferometer.dataset.dataset import Dataset, Step
from inferometer.load.sequences import SequencePlan
from inferometer.measure.address import connection_to
from inferometer.measure.checks import check_model, with_api_key
from inferometer.measure.instrument import FEWEST_ENDED, LevelSettings, Ramp
from inferometer.measure.points import THREADS, Agenda, is_rate, load_mode, maybe_agenda, most_streams
from inferometer.measure.recognize import describe, open_service, recognized, with_shapes
from inferometer.measure.requests import make_requests, without_expected
from inferometer.measure.unused import check_given, check_tls, check_use, check_validation
from inferometer.model.spec import ModelSpec
from inferometer.observe.host import HostMeter, describe_host, is_this_host
from inferometer.observe.metrics import Sample
from inferometer.observe.poller import MetricsEndpoint, llm_warnings, warnings_about
from inferometer.options.checking import EXACT
from inferometer.options.effective import Effective, effective, rate_unit
from inferometer.options.names import option_name
from inferometer.options.options import AUTO, Options
from inferometer.server.ports import LOOPBACK, Ports, choose_ports
from inferometer.services.endpoint import Endpoint, parse_endpoint
from inferometer.services.kind import KINDS, Service
from inferometer.services.traffic import Traffic, Validation, reply_limit
from inferometer.stats.result import Result
from inferometer.stats.stopping import Precision, Stability

if TYPE_CHECKING:
    from inferometer.dataset.replay import Trace
    from inferometer.measure.journal import RequestJournal
    from inferometer.measure.prompts import RunPrompts
    from inferometer.records.spans import Tracing
    from inferometer.server.in_process import Host
    from inferometer.services.check_plan import AnswerChecks
    from inferometer.services.shared_memory import Shared

IN_PROCESS_KIND = "triton_c_api"
METRICS_PORT = 8002
OWN_FILES = 16  # of a worker, besides its connections
SLICES = 20  # windows per level with the precision rule, in a schedule, or in a request count
SHORTEST_SLICE_NS = 100 * NS_PER_MS


@frozen
class Setup:
    """Everything known before the load starts."""

    options: Options
    model: ModelSpec
    traffic: Traffic
    shared: "Shared | None"  # tensors for shared memory
    level_settings: LevelSettings
    sequences: SequencePlan | None
    result: Result  # without levels
    service: Service
    has_statistics: bool
    last: float | None  # end of the sweep; None is unbounded
    warnings: tuple[str, ...]
    metrics: MetricsEndpoint | None = None  # only if they are collected
    journal: "RequestJournal | None" = None  # only if requests are exported
    agenda: Agenda | None = None  # of a load that ends by itself
    host: "Host | None" = None  # of the worker, if it runs the server
    prompts: "RunPrompts | None" = None  # for servers that read text
    parts: tuple["Setup", ...] = ()  # one per traffic class, if there are several
    tracing: "Tracing | None" = None  # only if requests are exported as spans
    whole: "Callable[[], Setup] | None" = None  # prepares whole answers, if they are streamed only by default

    @property
    def findings(self) -> tuple[str, ...]:
        """Findings about the server from its own description."""
        return tuple(self.result.server["findings"])

    @property
    def messages(self) -> tuple[str, ...]:
        """Messages to show before the load."""
        return (*self.findings, *self.warnings)


class Habits(NamedTuple):
    """Behaviour of a command during preparation."""

    finds_warm_up: bool = False  # exclude windows at the start that differ from the rest
    judges_promise: bool = False  # judges the SLO for every level
    slices_counts: bool = False  # -n: several windows, not one
    follows_work: bool = False  # throughput by work done; users of long requests start staggered
    streams_text: bool = False  # streams the answers of text servers unless the user asked for whole ones
    # Called after the first poll of the metrics.
    metrics_warnings: Callable[[Sample], tuple[str, ...]] = warnings_about
    made_data: Callable[[ModelSpec, Options], Dataset] | None = None  # replaces the data of the options
    data_read: Callable[[Effective], None] | None = None  # receives the input data, as in `Result.effective`
    bad_data: str = ""  # prefix for the error if input data cannot be read
    bad_requests: str = ""  # prefix for the error if no requests can be made from it
    # By rate, the most outstanding requests; None is unlimited.
    most_outstanding: Callable[[Options], int | None] = attrgetter("max_outstanding")


OWN_HABITS = Habits(finds_warm_up=True, judges_promise=True, slices_counts=True, follows_work=True)
"""Preparation by `inferometer measure` and the API."""

STREAMING_HABITS = OWN_HABITS._replace(streams_text=True)
"""Preparation by `measure` with a single model, which streams text answers."""

Render = Callable[[Service], Traffic]
"""Function that renders the requests of a run for the address of a service."""

Spread = Callable[[Setup, Render], Setup]
"""Function that spreads the load of a setup over more addresses."""


def prepare(
    options: Options,
    *,
    command: str,
    host: "Host | None" = None,
    habits: Habits | None = None,
    spread: Spread | None = None,
) -> Setup:
    """Query the server about the model and build the requests, without measuring.

    `host` overrides the in-process Triton that the options describe.
    """
    habits, options = habits or Habits(), with_api_key(options)
    if options.service_kind != IN_PROCESS_KIND:
        return _prepare(options, None, command, habits, spread)
    from inferometer.server.in_process import Host, asked_host, check_repository, installation

    check_command("--service-kind triton_c_api", "a Triton with its models in this process")
    # The in-process Triton: the given installation, one in the usual place, or that of the wheel.
    host = host or Host(
        models=(options.model, *(name for name, _ in options.bls_composing_models)),
        repository=check_repository(Path(options.model_repository or "")),
        directory=installation(options.triton_directory, option_name("triton_directory")),
    )
    endpoint = Endpoint(LOOPBACK, choose_ports(Ports()).http)
    with asked_host(host, endpoint.port):
        return replace(_prepare(options, endpoint, command, habits), host=host)


def moved(setup: Setup, host: "Host") -> Setup:
    """Return the same requests for another in-process Triton."""
    endpoint = Endpoint(LOOPBACK, choose_ports(Ports()).http)
    wiring = setup.traffic.wiring._replace(endpoint=endpoint)
    return replace(
        setup,
        traffic=setup.traffic._replace(wiring=wiring),
        service=open_service(setup.options, connection_to(setup.options, endpoint)),
        host=host,
    )


def _prepare(
    options: Options,
    endpoint: Endpoint | None,
    command: str,
    habits: Habits,
    spread: Spread | None = None,
) -> Setup:
    """Prepare at this endpoint, or at the given address."""
    asked, there = options, endpoint
    check_given(options, command)
    trace = _maybe_trace(options)
    is_found = options.service_kind == AUTO
    options, found = recognized(options, command)
    check_given(options, command)  # now that the kind of server is known
    connection = connection_to(options, endpoint)
    endpoint = connection.endpoint
    check_tls(options, endpoint)
    service = open_service(options, connection)
    is_streamed_by_default = _streams_by_default(options, service, habits)
    if is_streamed_by_default:
        options = replace(options, streaming=True)
        service = open_service(options, connection)
    model = describe(service, options, connection, command, is_found=is_found)
    check_use(options, model)
    options = with_shapes(options, model, is_found=is_found)
    if (model.any_sequence or KINDS[options.service_kind].is_async) and not options.synchronous:
        options = replace(options, asynchronous=True)
    check_model(options, model)
    options = replace(options, max_outstanding=habits.most_outstanding(options))
    with _data_refused(habits.bad_data):
        made = None if habits.made_data is None else habits.made_data(model, options)
        dataset = (
            made
            or _maybe_described(trace, options, model)
            or build(
                model,
                options.data,
                is_scheduled=options.fixed_schedule,
                has_sessions=options.session_concurrency is not None,
                output_tokens=options.output_tokens,
            )
        )
    check_validation(options, dataset)
    if habits.data_read is not None:
        habits.data_read(Effective(**_data(dataset)))
    with _data_refused(habits.bad_requests):
        requests = make_requests(options, dataset, model, trace)
        steps: Sequence[Step] = requests.steps
        texts: tuple[str | None, ...] = ()
        if KINDS[options.service_kind].has_tokens:
            steps, texts = without_expected(steps)
        shared = _maybe_shared(options, model, steps, dataset)
    server = _server(service)
    metrics, metrics_warnings = _metrics(options, endpoint, habits)
    last, warnings = _last_level(options)
    agenda = maybe_agenda(options, dataset, trace, requests.numbers)
    level_settings = _level_settings(options, model, agenda, habits)
    placement = None if shared is None else shared.placement
    traffic = service.traffic(model, steps, placement)
    level_settings = replace(level_settings, asked_tokens=traffic.asked_tokens)
    if requests.sequences is not None and options.cancel_after_s is not None:
        raise UsageError(
            f"{option_name('--cancel-after')} applies only to independent requests, but those for "
            f"{model.name} are parts of sequences",
            remedy="remove it",
        )
    checks = _maybe_checks(options, model, traffic, steps, texts or requests.expected or ())
    streams = most_streams(options, has_sequences=requests.sequences is not None)
    setup = Setup(
        options=options,
        model=model,
        traffic=traffic._replace(
            wiring=traffic.wiring._replace(
                streams=streams, unique=dataset.unique, reply_limit=reply_limit(model, level_settings.batch)
            ),
            validation=None
            if requests.expected is None or EXACT in options.check
            else Validation(tuple(requests.expected), *options.validate_tolerance, options.validate_sample),
            checks=checks,
        ),
        shared=shared,
        level_settings=level_settings,
        sequences=requests.sequences,
        result=Result(
            tool=f"inferometer {inferometer.__version__}",
            command=command,
            started_at=datetime.now(UTC).isoformat(timespec="seconds"),
            asked=_asked(options),
            effective=replace(
                _effective(options, level_settings, dataset, last, agenda), api=service.api_name
            ),
            host=describe_host(),
            server={
                **server,
                "url": str(endpoint),
                "findings": [*map(redacted, found), *dataset.findings, *traffic.findings],
            },
            model={
                **dataclasses.asdict(model),
                "any_cache": model.any_cache,
                "any_sequence": model.any_sequence,
            },
            remarks=_missing(options, server),
        ),
        service=service,
        has_statistics="statistics" in server["extensions"],
        last=last,
        warnings=(
            *warnings,
            *_without_effect(options),
            *metrics_warnings,
            *_few_files(options, last),
        ),
        metrics=metrics,
        agenda=agenda,
        journal=_maybe_journal(options, service, model, traffic, steps),
        prompts=_maybe_prompts(options, dataset, steps),
        whole=partial(_prepare, replace(asked, no_streaming=True), there, command, habits, spread)
        if is_streamed_by_default and options.profile_export is None
        else None,
    )
    if spread is None:
        return setup
    return spread(setup, lambda there: there.traffic(model, steps, placement))


def _streams_by_default(options: Options, service: Service, habits: Habits) -> bool:
    """Return whether answers are streamed although the user asked for neither streams nor whole answers."""
    if options.is_lenient or options.streaming or options.no_streaming or not service.can_stream:
        return False
    needs_streams = options.slo is not None and any(term.figure in STREAMED for term in options.slo.terms)
    return habits.streams_text or needs_streams


# --- imports that most runs do not need


def _maybe_trace(options: Options) -> "Trace | None":
    if options.replay is None:
        return None
    from inferometer.dataset.replay import read_trace

    return read_trace(options.replay, speed=options.speed)


def _maybe_described(trace: "Trace | None", options: Options, model: ModelSpec) -> Dataset | None:
    if trace is None:
        return None
    from inferometer.measure.prompts import maybe_described

    return maybe_described(trace, options, model)


def _maybe_prompts(options: Options, dataset: Dataset, steps: Sequence[Step]) -> "RunPrompts | None":
    if not KINDS[options.service_kind].has_tokens:
        return None
    from inferometer.measure.prompts import maybe_prompts

    return maybe_prompts(options, dataset, steps)


def _maybe_checks(
    options: Options,
    model: ModelSpec,
    traffic: Traffic,
    steps: Sequence[Step],
    expected: Sequence[str | None] | Sequence[Step],
) -> "AnswerChecks | None":
    if not options.has_checks:
        return None
    from inferometer.measure.answer_checks import make_checks

    return make_checks(options, model, traffic.wiring, steps, expected)


def _maybe_journal(
    options: Options, service: Service, model: ModelSpec, traffic: Traffic, steps: Sequence[Step]
) -> "RequestJournal | None":
    if options.profile_export is None:
        return None
    from inferometer.measure.journal import RequestJournal

    return RequestJournal(
        path=Path(options.profile_export),
        service_kind=options.service_kind,
        endpoint=options.endpoint,
        # Requests that are not made from the data have no inputs to export.
        steps=steps if len(steps) == len(traffic.requests) else ((),) * len(traffic.requests),
        datatypes={output.name: output.datatype for output in model.outputs},
        read_outputs=service.read_outputs,
        load_mode=load_mode(options),
    )


def _server(service: Service) -> dict[str, Any]:
    """Return the server's metadata, which may be empty for a plain KServe v2 server."""
    try:
        found = dict(service.server())
    except MissingError:
        found = {}
    extensions = found.get("extensions")
    return {**found, "extensions": extensions if isinstance(extensions, list) else []}


def _missing(options: Options, server: Mapping[str, Any]) -> tuple[Remark, ...]:
    if "statistics" in server["extensions"] or not KINDS[options.service_kind].has_statistics:
        return ()
    return (Remark(Note.STATISTICS_MISSING, "the server does not support the statistics extension"),)


def _few_files(options: Options, last: float | None) -> tuple[str, ...]:
    """Warn if the limit of open files, which workers raise as far as allowed, is too low."""
    if options.protocol != "http" or is_rate(options) or last is None:
        return ()  # gRPC shares connections, and by rate their number is unknown
    start = 1 if options.concurrency is None else options.concurrency.start
    workers = 1 if options.workers == "auto" else options.workers
    needed = math.ceil(max(start, last) / workers) + OWN_FILES
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if allowed == resource.RLIM_INFINITY or needed <= allowed:
        return ()
    text = f"a worker will need {needed} open files, but the limit is {allowed}"
    return (f"WARNING: {text}; {Note.FEW_FILES.advice}",)


def _maybe_shared(
    options: Options, model: ModelSpec, steps: Sequence[Step], dataset: Dataset
) -> "Shared | None":
    """Return the shared memory tensors; outputs that are compared or exported are returned inline."""
    if options.shared_memory == "none":
        return None
    from inferometer.services.shared_memory import OutputPlaces, Shared, layout, region_name

    outputs = OutputPlaces(
        batch=options.batch or 1,
        unknown_size=options.output_shared_memory_size,
        are_inline=dataset.expected is not None or options.profile_export is not None or options.has_checks,
    )
    placement = layout(model, steps, outputs, region=region_name())
    return Shared(options.shared_memory, placement, steps)


def _metrics(
    options: Options, server: Endpoint, habits: Habits
) -> tuple[MetricsEndpoint | None, tuple[str, ...]]:
    """Return the metrics endpoint and the warnings after a first poll."""
    kind = KINDS[options.service_kind]
    if not options.collect_metrics or not (options.service_kind == "triton" or kind.has_tokens):
        return None, ()  # other kinds have their own counters
    metrics = metrics_endpoint(options, server)
    warnings = llm_warnings if kind.has_tokens else habits.metrics_warnings
    return metrics, warnings(metrics.look())


def metrics_endpoint(options: Options, server: Endpoint) -> MetricsEndpoint:
    """Return the given metrics endpoint, or the usual one of the server: for LLM servers, it is at the same address."""
    if options.metrics_url is not None:
        endpoint = parse_endpoint(options.metrics_url, default_port=METRICS_PORT, tls=options.tls)
        endpoint = endpoint._replace(prefix=endpoint.prefix or "/metrics")
    elif KINDS[options.service_kind].has_tokens:
        endpoint = server._replace(prefix="/metrics")
    else:
        endpoint = Endpoint(server.host, METRICS_PORT, "/metrics")
    connection = connection_to(options, server).beside(endpoint)
    host = HostMeter() if is_this_host(server.host) else None
    return MetricsEndpoint(connection, clock=monotonic_ns, host=host)


def _without_effect(options: Options) -> Iterator[str]:
    """Warn about options that have no effect or are replaced."""
    if "json" in (options.input_format, options.output_format):
        if options.protocol != "http":
            yield "WARNING: The tensor formats are only for HTTP; gRPC carries tensors in its own form."
        elif options.shared_memory != "none":
            yield "WARNING: Tensors in shared memory are binary; the tensor formats do not apply to them."
    if options.shared_memory != "none" and options.profile_export is not None:
        yield (
            "WARNING: The export has the values of the outputs, so they come back with the replies; only the inputs "
            "are in shared memory."
        )
    length = options.sequence_length
    if length is not None and length <= 0:
        yield f"WARNING: The sequence length must be > 0, but is {length}; the default is used."
    if options.sequence_ids is not None and options.sequence_ids[0] == 0:
        yield "WARNING: 0 is an invalid start sequence id; sequences start at 1."


@contextmanager
def _data_refused(prefix: str) -> Iterator[None]:
    """Prefix errors about the input data with the command's wording for this stage, if it has one."""
    try:
        yield
    except UsageError as error:
        if not prefix:
            raise
        raise error.wrapped(prefix, UsageError) from error


def _last_level(options: Options) -> tuple[float | None, tuple[str, ...]]:
    """Return the end of the sweep and warnings about it."""
    span = options.request_rate if is_rate(options) else options.concurrency
    if span is None:
        return 1, ()
    end = span.start if span.end is None else span.end
    if options.asynchronous or is_rate(options):
        return end or None, ()
    given = options.max_threads
    if end:
        if given is None or given >= int(max(span.start, end)):
            return end, ()
        return end, (
            f"WARNING: Overriding max_threads specification of {given} to ensure requested concurrency range.",
        )
    limit = given or THREADS
    return limit, (
        f"WARNING: The maximum attainable concurrency will be limited by max_threads specification ({limit}).",
    )


def _level_settings(
    options: Options, model: ModelSpec, agenda: Agenda | None, habits: Habits
) -> LevelSettings:
    common = LevelSettings(
        model=model,
        batch=options.batch or 1,
        percentile=options.percentile,
        latency_limit_ms=options.latency_limit_ms,
        rule=Stability(
            percentage=options.stability_percentage,
            max_trials=options.max_trials,
            latency_limit_ms=options.latency_limit_ms,
            is_lenient=options.asynchronous,
            rate_unit=rate_unit(options.service_kind),
        ),
        rate_unit=rate_unit(options.service_kind),
        has_tokens=KINDS[options.service_kind].has_tokens,
        is_serial=options.serial_sequences and model.any_sequence,
        promise=None if options.slo is None else _checked_slo(options, options.slo),
        judges_promise=habits.judges_promise,
    )
    if options.periodic_concurrency is not None:
        if options.duration_s is not None:
            return replace(common, window_ns=SHORTEST_SLICE_NS, is_whole=True)
        return replace(common, window_count=options.periodic_concurrency.last, is_whole=True)
    if agenda is not None:
        window_ns = options.measurement_interval_ms * NS_PER_MS
        if options.duration_s is not None:
            window_ns = max(agenda.length_ns // SLICES, SHORTEST_SLICE_NS)
        return replace(common, window_ns=window_ns, is_whole=True)
    if options.session_concurrency is not None:  # every session once
        return replace(common, window_count=0, is_whole=True)
    if options.request_count:
        count = options.request_count
        if habits.slices_counts:
            count = max(count // SLICES, FEWEST_ENDED)
        return replace(common, window_count=count, is_whole=True)
    if options.duration_s is not None:
        duration_ns = round(options.duration_s * NS_PER_S)
        rule = Precision(precision=options.precision, duration_ns=duration_ns)
        return replace(
            common,
            rule=rule,
            window_ns=max(duration_ns // SLICES, NS_PER_MS),
            finds_warm_up=habits.finds_warm_up,
            follows_work=habits.follows_work,
            ramp=_maybe_ramp(options) if habits.follows_work else None,
        )
    if options.measurement_mode == "count_windows":
        return replace(common, window_count=options.measurement_request_count)
    return replace(common, window_ns=options.measurement_interval_ms * NS_PER_MS)


def _maybe_ramp(options: Options) -> Ramp | None:
    """Return how users start; None if all do so at once, or in the middle of their think times."""
    if options.think_time is not None and options.ramp_s is None:
        return None
    return Ramp(_maybe_ns(options.ramp_s))


def _maybe_ns(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * NS_PER_S)


def _checked_slo(options: Options, slo: Slo) -> Slo:
    """Return the SLO; reject limits on figures that the answers do not have."""
    has_tokens = KINDS[options.service_kind].has_tokens
    for term in slo.terms:
        if term.figure == "wrong" and not options.has_checks:
            raise UsageError(
                f"'{term.text}' limits wrong answers, but no answer is checked",
                remedy=f"add {option_name('--check')} or {option_name('--check-python')}",
            )
        if term.figure in ("tpot", "gap") and not has_tokens:
            raise UsageError(
                f"'{term.text}': answers from {KINDS[options.service_kind].title} have no tokens",
                remedy="limit the latency instead",
            )
        if term.figure in STREAMED and not (
            options.streaming or (has_tokens and (options.is_lenient or _has_own_data(options)))
        ):
            raise UsageError(
                f"'{term.text}': an answer that is not streamed arrives all at once",
                remedy="limit the latency instead, or "
                + (
                    f"remove {option_name('--no-streaming')}"
                    if options.no_streaming
                    else f"add {option_name('--streaming')}"
                ),
            )
    return slo


def _has_own_data(options: Options) -> bool:
    """Return whether the user supplies payloads, which may request a stream themselves."""
    return bool(options.data.files or options.bodies or options.data.sources != ("random",))


def _effective(
    options: Options,
    level_settings: LevelSettings,
    dataset: Dataset,
    last: float | None,
    agenda: Agenda | None,
) -> Effective:
    span, rate, periodic = options.concurrency, options.request_rate, options.periodic_concurrency
    return effective(
        options,
        mode=load_mode(options),
        request_rate_start=None if rate is None else rate.start,
        request_rate_end=None if rate is None or rate.end is None else (last or 0),
        distribution=options.request_distribution,
        batch=level_settings.batch,
        batch_given=options.batch is not None,
        concurrency_start=1 if span is None else int(span.start),
        concurrency_end=None if span is None or span.end is None else int(last or 0),
        concurrency_step=1 if span is None else int(span.step),
        request_count=_count(options, dataset, agenda),
        schedule_s=None if agenda is None else agenda.length_ns / NS_PER_S,
        schedule=_schedule_name(options),
        periodic=None if periodic is None else (periodic.start, periodic.end, periodic.step),
        stopping="precision" if isinstance(level_settings.rule, Precision) else "stability",
        **_data(dataset),
    )


def _data(dataset: Dataset) -> dict[str, Any]:
    return {
        "data_given": dataset.origin == "json",
        "data_streams": len(dataset.streams),
        "data_steps": len(dataset.streams[0]),
    }


def _schedule_name(options: Options) -> str:
    if options.replay is not None:
        return f"replay of {Path(options.replay).name}"
    return options.shape_load or ("fixed schedule" if options.fixed_schedule else "")


def _count(options: Options, dataset: Dataset, agenda: Agenda | None) -> int:
    """Return the number of requests to send, if known."""
    if options.session_concurrency is not None:
        return sum(map(len, dataset.streams))
    return options.request_count if agenda is None else agenda.count


def _asked(options: Options) -> dict[str, Any]:
    """Return the user's options without secrets: headers by name only, keys only as present or absent."""
    asked = dataclasses.asdict(options)
    asked["slo"] = None if options.slo is None else options.slo.text
    for name in ("url", "metrics_url", "management_url", "path", "endpoint"):
        asked[name] = None if asked[name] is None else redacted(asked[name])
    asked["bodies"] = [redacted_body(body) for body in options.bodies]
    asked["request_parameters"] = [
        [name, redacted_parameter(name, value), kind] for name, value, kind in options.request_parameters
    ]
    del asked["given"], asked["is_lenient"], asked["is_dry"]
    asked["headers"] = [name for name, _ in options.headers]
    asked["tls"]["key_file"] = options.tls.key_file is not None
    return asked
