"""What cannot be asked together, said before any load starts.

Rules that concern one service kind stand in its row of `services.kinds.KINDS`.
"""

from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

from inferometer.base.errors import UsageError
from inferometer.base.rules import Asked, Rule, is_async, is_grpc, names_data
from inferometer.dataset.options import OPTIONS as DATASET_OPTIONS
from inferometer.load.options import OPTIONS as LOAD_OPTIONS
from inferometer.model.spec import ModelSpec
from inferometer.services.kinds import AUTO, KINDS
from inferometer.services.options import OPTIONS as TARGET_OPTIONS

if TYPE_CHECKING:
    from inferometer.measure.options import Options

_LOAD_MODES = {
    "concurrency": "--concurrency-range",
    "request_rate": "--request-rate-range",
    "request_intervals": "--request-intervals",
    "periodic_concurrency": "--periodic-concurrency-range",
    "fixed_schedule": "--fixed-schedule",
    "session_concurrency": "--session-concurrency",
    "replay": "--replay",
    "shape_load": "--shape-load",
}
_RANGES = ("concurrency", "request_rate")
_AGENDAS = ("fixed_schedule", "replay", "shape_load")  # they say themselves how many requests there are
_LEAST = {
    "batch": 1,
    "data.string_length": 1,
    "duration_s": 0,
    "latency_limit_ms": 0,
    "log_frequency": 0,
    "max_error_rate": 0,
    "output_shared_memory_size": 0,
    "max_threads": 1,
    "max_trials": 1,
    "metrics_interval_ms": 1,
    "measurement_interval_ms": 1,
    "measurement_request_count": 1,
    "percentile": 1,
    "request_count": 0,
    "request_timeout_s": 0,
    "stability_percentage": 0,
    "trace_count": -1,
    "warmup_request_count": 0,
    "request_period": 1,
    "workers": 1,
}


def _kind(asked: Asked) -> str:
    return str(asked.get("service_kind", "triton"))


def _needs_model(kind: str) -> bool:
    return kind != AUTO and KINDS[kind].needs_model


def _is_without_grpc(asked: Asked) -> bool:
    """An address that is yet to be asked may speak it."""
    return not is_grpc(asked) and _kind(asked) != AUTO


def _is_old(asked: Asked) -> bool:
    return any(field in asked for field in ("old_start", "old_end", "old_sweep"))


def _is_open(asked: Asked) -> bool:
    """Whether the range asked for has no end."""
    if "old_sweep" in asked and asked.get("old_end", 0) == 0:
        return True
    return any(field in asked and asked[field][1] == 0 for field in _RANGES)


def _runs_down(asked: Asked) -> bool:
    return any(field in asked and (asked[field][1] or 1) < asked[field][0] for field in _RANGES)


def _is_single(asked: Asked, field: str) -> bool:
    if field not in asked:
        return True
    start, end, _ = asked[field]
    return end is None or end == start


def _rises(asked: Asked, field: str) -> bool:
    return field in asked and asked[field][1] is not None and asked[field][0] < asked[field][1]


def _counts(asked: Asked) -> int:
    return int(asked.get("request_count", 0))


def _latency_limit(asked: Asked) -> int:
    return int(asked.get("latency_limit_ms", 0))


def _old_with(option: str) -> str:
    return f"Cannot use deprecated options -t, -c and -d with {option}"


def _no_count_with(field: str) -> Rule:
    return Rule(
        lambda a: _counts(a) > 0 and field in a, f"request-count not supported with {_LOAD_MODES[field]}"
    )


_STREAMING = "Streaming is only allowed with gRPC protocol and Triton C API."

RULES = (
    Rule(lambda a: (a.get("percentile") or 1) > 99, "The percentile must be in range (0, 100)."),
    Rule(
        lambda a: not a.get("model") and _needs_model(_kind(a)),
        "Failed to parse -m (model name). The value must be specified.",
    ),
    Rule(
        lambda a: sum(field in a for field in _LOAD_MODES) > 1,
        "Cannot specify more then one inference load mode. Please choose only one of the following modes: "
        + ", ".join(_LOAD_MODES.values()),
    ),
    Rule(lambda a: _is_old(a) and "concurrency" in a, _old_with("--concurrency-range")),
    Rule(lambda a: _is_old(a) and "request_rate" in a, _old_with("--request-rate-range")),
    Rule(lambda a: _is_old(a) and "request_intervals" in a, _old_with("--request-intervals")),
    Rule(
        lambda a: "streaming" in a and _is_without_grpc(a) and _kind(a) not in ("triton_c_api", "openai"),
        _STREAMING,
    ),
    Rule(lambda a: "streaming" in a and _kind(a) == "openai", _STREAMING, is_classic=True),
    Rule(
        lambda a: "connections" in a and _is_without_grpc(a),
        "--connections is only for gRPC: over HTTP each request in flight has a connection of its own.",
    ),
    Rule(lambda a: "streaming" in a and "synchronous" in a, "can not use streaming with synchronous API"),
    Rule(
        lambda a: "asynchronous" in a and "synchronous" in a,
        "Cannot specify --async and --sync simultaneously.",
    ),
    Rule(
        lambda a: a.get("grpc_compression", "none") != "none" and _is_without_grpc(a),
        "Using compression algorithm is only allowed with gRPC protocol.",
    ),
    Rule(
        lambda a: _is_open(a) and _latency_limit(a) == 0,
        "The end of the search range and the latency limit cannot both be 0. "
        "Give an end, or a limit with --latency-threshold (-l).",
    ),
    Rule(
        lambda a: "binary_search" in a and _latency_limit(a) == 0,
        "The --latency-threshold cannot be 0 for binary search mode.",
    ),
    Rule(
        lambda a: "binary_search" in a and _is_open(a),
        "The end of the search range cannot be 0 for binary search mode.",
    ),
    Rule(
        lambda a: "binary_search" in a and _runs_down(a),
        "The end of the search range cannot be less than start for binary search mode.",
    ),
    Rule(
        lambda a: "periodic_concurrency" in a and "streaming" not in a,
        "The --periodic-concurrency-range option requires bi-directional gRPC streaming. "
        "Use --streaming -i grpc.",
    ),
    Rule(
        lambda a: "periodic_concurrency" in a and "profile_export" not in a,
        "Must provide --profile-export-file when using the --periodic-concurrency-range option.",
    ),
    Rule(
        lambda a: "request_parameters" in a and _is_without_grpc(a),
        "The --request-parameter option is only supported by gRPC. Use -i grpc.",
    ),
    Rule(
        lambda a: _counts(a) > 0 and "concurrency" in a and _counts(a) < a["concurrency"][0],
        "request-count can not be less than concurrency",
    ),
    Rule(
        lambda a: _counts(a) > 0 and "request_rate" in a and _counts(a) < int(a["request_rate"][0]),
        "request-count can not be less than request-rate",
    ),
    Rule(
        lambda a: _counts(a) > 0 and _rises(a, "concurrency"),
        "request-count not supported with multiple concurrency values in one run",
    ),
    Rule(
        lambda a: _counts(a) > 0 and _rises(a, "request_rate"),
        "request-count not supported with multiple request-rate values in one run",
    ),
    *map(_no_count_with, (*_AGENDAS, "periodic_concurrency")),
    Rule(
        lambda a: "fixed_schedule" in a and not names_data(a),
        "--fixed-schedule takes its times from a data file. Give one with --input-data.",
    ),
    Rule(
        lambda a: "fixed_schedule" in a and a.get("batch", 1) != 1,
        "Batching is not supported with --fixed-schedule: each step has a time of its own. Leave out -b.",
    ),
    Rule(
        lambda a: "speed" in a and "replay" not in a,
        "--speed is for a trace. Give one with --replay.",
    ),
    Rule(
        lambda a: "binary_search" in a and any(field in a for field in (*_AGENDAS, "periodic_concurrency")),
        "Binary search needs a range. Give one with --concurrency-range or --request-rate-range.",
    ),
    Rule(
        lambda a: "metrics_url" in a and "collect_metrics" not in a,
        "Must specify --collect-metrics when using the --metrics-url option.",
    ),
    Rule(
        lambda a: "metrics_interval_ms" in a and "collect_metrics" not in a,
        "Must specify --collect-metrics when using the --metrics-interval option.",
    ),
    Rule(
        lambda a: "collect_metrics" in a and _kind(a) not in ("triton", "torchserve", AUTO),
        "The --collect-metrics option is only supported with Triton client backend.",
    ),
    Rule(
        lambda a: "zero" in a.get("data.sources", ()) and names_data(a),
        "The zero flag cannot be set when a data directory is provided. Give --input-data zero or a path.",
    ),
    Rule(
        lambda a: _kind(a) == "triton_c_api" and not a.get("model_repository"),
        "--model-repository should not be empty with --service-kind triton_c_api.",
    ),
    Rule(
        lambda a: _kind(a) == "triton_c_api" and is_async(a) and a.get("shared_memory", "none") != "none",
        "Cannot use --shared-memory with asynchronous or streaming calls and --service-kind triton_c_api.",
    ),
    Rule(
        lambda a: _kind(a) != "dynamic_grpc" and any(field in a for field in ("grpc_method", "proto")),
        "--grpc-method and --proto are for --service-kind dynamic_grpc.",
    ),
    Rule(
        lambda a: "session_concurrency" in a and _kind(a) != "openai",
        "The --session-concurrency option is only supported with --service-kind openai.",
    ),
    Rule(
        lambda a: "session_concurrency" in a and _counts(a) > 0,
        "request-count not supported with --session-concurrency: every session is played once.",
    ),
    Rule(
        lambda a: "session_concurrency" in a and a.get("warmup_request_count", 0) > 0,
        "warmup-request-count not supported with --session-concurrency: every session is played once.",
    ),
    Rule(
        lambda a: "session_concurrency" in a and not names_data(a),
        "Must supply --input-data FILE with --session-concurrency.",
    ),
    Rule(
        lambda a: "mpi" in a and not _is_single(a, "concurrency"),
        "Cannot specify a concurrency range in multi-model mode. Give a single value.",
    ),
    Rule(
        lambda a: "mpi" in a and not _is_single(a, "request_rate"),
        "Cannot specify a request rate range in multi-model mode. Give a single value.",
    ),
)


def check_asked(asked: Asked, *, is_classic: bool = False) -> None:
    """Refuses the first combination that cannot work."""
    name = _kind(asked)
    kind = KINDS.get(name)
    if kind is not None and "http" not in kind.ports:  # the default is no choice then
        asked = {"protocol": next(iter(kind.ports)), **asked}
    for rule in (*RULES, *(() if kind is None else kind.rules)):
        if (is_classic or not rule.is_classic) and rule.broken(asked):
            raise UsageError(rule.message)
    for field in () if kind is None else kind.refused:
        if field in asked:
            raise UsageError(
                f"{_option_name(field)} has no meaning with --service-kind {name}", remedy="leave it out"
            )


def _option_name(field: str) -> str:
    options = (*TARGET_OPTIONS, *DATASET_OPTIONS, *LOAD_OPTIONS)
    return next((option.names[0] for option in options if option.field == field), field)


def check(options: "Options", *, is_classic: bool = False) -> None:
    """Refuses what cannot be measured as asked, whoever made the options."""
    asked = _asked(options)
    for field, least in _LEAST.items():
        if field in asked and asked[field] != "auto" and asked[field] < least:
            raise UsageError(f"{field} must be {least} or more, but is {asked[field]}")
    if options.concurrency is not None and (options.concurrency.start < 1 or options.concurrency.step <= 0):
        raise UsageError(
            f"start and step of a concurrency range must be 1 or more, but it is {options.concurrency}"
        )
    if options.speed <= 0:
        raise UsageError(f"speed must be above 0, but is {options.speed}")
    check_asked(asked, is_classic=is_classic)


def check_model(options: "Options", model: ModelSpec) -> None:
    """Refuses what this model cannot do."""
    is_sequence = model.any_sequence
    if options.batch is not None and options.batch > 1:
        if model.max_batch_size == 0:
            raise UsageError(
                "can not specify batch size > 1 as the model does not support batching",
                remedy=f"leave out -b {options.batch}, or give '{model.name}' a max_batch_size above 0",
            )
        if is_sequence:
            raise UsageError(
                "can not specify batch size > 1 when using a sequence model",
                remedy=f"leave out -b {options.batch}",
            )
    if model.is_decoupled and not options.streaming:
        raise UsageError(
            "Decoupled models must be run with `--async` and `--streaming` and either `-i grpc` or "
            "`--service-kind=triton_c_api`"
        )
    if is_sequence:
        if options.fixed_schedule:
            raise UsageError(
                "a fixed schedule gives each step its time, and sequences give it another",
                remedy="use --replay or --request-intervals for a sequence model",
            )
        _check_sequences(options)


def _check_sequences(options: "Options") -> None:
    span = options.concurrency
    if span is not None and span.end == 0 and not options.synchronous:
        raise UsageError(
            "The 'end' concurrency can not be 0 for sequence models when using asynchronous API."
        )
    start, end = (1, None) if options.sequence_ids is None else options.sequence_ids
    if end is None:
        return
    if any(getattr(options, field) for field in ("request_rate", "request_intervals", *_AGENDAS)):
        needed, words = options.sequences, "number of sequences"
    else:
        needed = 1 if span is None else int(max(span.start, span.end or 0))
        words = "concurrency"
    if end - max(start, 1) < needed:
        raise UsageError(
            f"sequence id range specified is smaller than the maximum possible {words}, "
            "sequence id collision may occur.",
            remedy=f"give a range of at least {needed} ids with --sequence-id-range",
        )


def _asked(options: "Options") -> dict[str, Any]:
    """What differs from the defaults, by field; parts are spelled `data.sources`."""
    asked = _given(options)
    for part in ("data", "tls"):
        if part in asked:
            asked |= {f"{part}.{field}": value for field, value in _given(asked.pop(part)).items()}
    for field in (*_RANGES, "periodic_concurrency"):
        span = getattr(options, field)
        if span is not None:
            asked[field] = (span.start, span.end, span.step)
    return asked


def _given(value: Any) -> dict[str, Any]:
    given = {}
    for field in fields(value):
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        if (found := getattr(value, field.name)) != default:
            given[field.name] = found
    return given
