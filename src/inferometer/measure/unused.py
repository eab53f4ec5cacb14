"""Options that would have no effect: our commands reject them before any load, while the classic script accepts them.

Each table row lists fields, the condition under which they have no effect, the reason and the remedy. Rows of
`_WITH_OTHERS` look at the other options, rows of `_KINDS` at the kind of server; `check_use` looks at the model and its
data.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from inferometer.base.errors import Name, UsageError
from inferometer.dataset.dataset import Dataset
from inferometer.dataset.shapes import fits, format_shape
from inferometer.measure.checks import AGENDAS, DUE, LOAD_MODES, kind_of
from inferometer.model.spec import ModelSpec, TensorSpec
from inferometer.options.groups import PROMPTS, WINDOWS
from inferometer.options.names import option_name, with_names
from inferometer.options.option import Given, is_grpc, names_data
from inferometer.options.options import AUTO, MODERN, Options, value_of
from inferometer.options.values import GENERATED
from inferometer.services.endpoint import Endpoint

_NAMES: Mapping[str, str] = {
    row.field: row.names[-1] for _, rows in MODERN for row in reversed(rows) if row.names
}
_SEQUENCES = ("sequences", "serial_sequences", "sequence_length", "sequence_length_variation", "sequence_ids")
_BY_RATE = ("request_distribution", "burstiness", "sequences", "serial_sequences")
_VALIDATION = ("validate_tolerance", "validate_sample")
_ENDS_BY_ITSELF = ("request_count", *AGENDAS, "periodic_concurrency", "session_concurrency")
_TLS = tuple(field for field in _NAMES if field.startswith("tls."))


class _Unused(NamedTuple):
    """Fields, the condition under which they have no effect, the text after the option's name, and the remedy."""

    fields: tuple[str, ...]
    is_unused: Callable[[Given], bool]
    why: str
    remedy: str = "remove it"


def _has(*fields: str) -> Callable[[Given], bool]:
    return lambda given: any(given.get(field) for field in fields)


def _lacks(*fields: str) -> Callable[[Given], bool]:
    return lambda given: not any(given.get(field) for field in fields)


def _has_useless_workers(given: Given) -> bool:
    """Return whether there are more workers than concurrent requests."""
    count = given.get("workers", 1)
    if count == "auto" or any(given.get(field) for field in ("sweep", *DUE)):
        return False
    span = given.get("concurrency")
    most = given.get("session_concurrency") or (1 if span is None else span.last)
    return bool(count * given.get("clients", 1) > most and (span is None or span.end != 0))


_WITH_OTHERS = (
    _Unused(
        (*LOAD_MODES, "binary_search", "latency_limit_ms"),
        _has("sweep"),
        "sets the load, but {--sweep} chooses it automatically",
        "remove one of them",
    ),
    _Unused(
        ("request_count",),
        _has("sweep"),
        "sets the length of a level, but {--sweep} measures each level as long as needed",
        "remove it; {--duration} limits the time of a level",
    ),
    _Unused(
        ("no_streaming",),
        _has("streaming"),
        "requests whole answers, but {--streaming} requests streams",
        "remove one of them",
    ),
    _Unused(
        ("request_period",),
        _lacks("periodic_concurrency"),
        "applies only to a concurrency ramp",
        "add {--periodic-concurrency-range}",
    ),
    _Unused(
        WINDOWS,
        _has("duration_s", "precision"),
        "belongs to the classic stability rule, but {--duration} and {--precision} select the precision rule",
        "remove one of them",
    ),
    _Unused(
        tuple(field for field in WINDOWS if field != "measurement_interval_ms"),
        _has(*_ENDS_BY_ITSELF),
        "belongs to the classic stability rule, but this load has a fixed length",
    ),
    _Unused(
        ("measurement_interval_ms",),
        _has("request_count", "session_concurrency", "periodic_concurrency"),
        "sets the length of a window, but this load is measured as a whole",
    ),
    _Unused(
        ("measurement_request_count",),
        lambda given: given.get("measurement_mode") != "count_windows",
        "applies only to windows with a request count",
        "add {--measurement-mode:count_windows}",
    ),
    _Unused(
        ("measurement_interval_ms",),
        lambda given: given.get("measurement_mode") == "count_windows",
        "applies only to windows with a fixed time",
        "remove it, or remove {--measurement-mode:count_windows}",
    ),
    _Unused(
        ("duration_s", "precision"),
        _has(*_ENDS_BY_ITSELF),
        "sets the length of a level, but this load has a fixed length",
        "remove it; {--time-limit} ends a run early",
    ),
    _Unused(
        ("binary_search",),
        lambda given: any(given[field].listed for field in ("concurrency", "request_rate") if field in given),
        "requires a range, but the levels are listed",
        "use lowest:highest with {--concurrency} or {--rate}",
    ),
    _Unused(
        ("output_shared_memory_size",),
        lambda given: given.get("shared_memory", "none") == "none",
        "applies only to outputs in shared memory",
        "add {--shared-memory:system}",
    ),
    _Unused(
        ("input_format", "output_format"),
        is_grpc,
        "applies only to HTTP; gRPC has its own tensor format",
        "remove it, or remove {--grpc}",
    ),
    _Unused(
        ("input_format", "output_format"),
        lambda given: given.get("shared_memory", "none") != "none",
        "has no effect on tensors in shared memory, which are binary",
        "remove it, or remove {--shared-memory}",
    ),
    _Unused(
        ("data.prompt_column",),
        lambda given: not names_data(given) and "data.prompts" not in given,
        "names a column, but there is no file",
        "add a file with {--prompts} or {--data}",
    ),
    _Unused(
        ("burstiness",),
        lambda given: given.get("request_distribution") not in ("gamma", "weibull"),
        "sets the shape of random gaps, but only gamma and Weibull gaps have one",
        "add {--arrivals:gamma}",
    ),
    _Unused(
        ("before_level_timeout_s",),
        _lacks("before_level", "after_level"),
        "limits the time of actions before and after levels, but there are none",
        "add {--before-level} or {--after-level}",
    ),
    _Unused(
        ("check_sample",),
        lambda given: not ("check" in given or "check_python" in given),
        "sets the share of answers to check, but there is no check",
        "add {--check} or {--check-python}",
    ),
    _Unused(
        ("check_similarity",),
        lambda given: not any(word.startswith("reference:") for word in given.get("check", ())),
        "applies only to the comparison with a reference",
        "add {--check} reference:FILE",
    ),
    _Unused(
        ("cancel_share",),
        _lacks("cancel_after_s"),
        "sets the share of requests to cancel, but no request is cancelled",
        "add {--cancel-after}",
    ),
    _Unused(
        ("cancel_after_s",),
        lambda given: 0 < given.get("request_timeout_s", 0) <= given.get("cancel_after_s", 0),
        "is never reached: requests time out first",
        "lower it, or raise {--timeout}",
    ),
    _Unused(
        ("verbose_csv",), _lacks("csv"), "adds columns to a CSV file, but none is written", "add {--csv}"
    ),
    _Unused(
        _VALIDATION,
        lambda given: not names_data(given),
        "applies only to replies compared with validation data",
        "add a file with validation data with {--data}",
    ),
    _Unused(
        ("data.prefix_pool", "data.prefix_zipf"),
        _lacks("data.prefix_tokens"),
        "applies only to shared prefixes",
        "set their length with {--prefix-tokens}",
    ),
    _Unused(
        ("data.prefix_zipf",),
        lambda given: given.get("data.prefix_pool", 1) == 1,
        "requires several prefixes, but there is only one",
        "raise {--prefix-pool}",
    ),
    _Unused(
        ("data.prefix_tokens", "data.repeat_prompts"),
        lambda given: names_data(given) or "data.prompts" in given,
        "applies only to generated prompts, but prompts are given",
    ),
    _Unused(
        ("data.string_length",),
        _has("data.string_data"),
        "applies only to random strings, but {--string-data} sets a fixed one",
    ),
    _Unused(
        ("tls.certificate_type",),
        _lacks("tls.certificate_file"),
        "describes a certificate, but none is given",
        "add {--tls-cert}",
    ),
    _Unused(
        ("tls.key_type",), _lacks("tls.key_file"), "describes a key, but none is given", "add {--tls-key}"
    ),
    _Unused(
        ("tls.key_file",),
        _lacks("tls.certificate_file"),
        "belongs to a certificate, but none is given",
        "add {--tls-cert}",
    ),
    _Unused(
        ("tls.ca_file",),
        lambda given: not given.get("tls.verify_peer", True),
        "verifies certificates, but {--tls-insecure} disables verification",
        "remove one of them",
    ),
    _Unused(
        ("workers",),
        _has("periodic_concurrency"),
        "spreads load over processes, but a concurrency ramp uses only one",
    ),
    _Unused(
        ("clients",),
        lambda given: "periodic_concurrency" in given and given.get("clients", 1) > 1,
        "spreads load over clients, but a concurrency ramp uses only one",
        "use {--clients} 1",
    ),
)

_RATES_AND_WORKERS = (
    _Unused(_BY_RATE[:2], _lacks("request_rate"), "applies only to a request rate", "add {--rate}"),
    _Unused(
        _BY_RATE[2:],
        _lacks(*DUE),
        "applies only to sequences at a request rate; with {-c}, each request in flight belongs to a different "
        "sequence",
        "remove it, or add {--rate}",
    ),
    _Unused(
        ("workers", "clients"),
        _has_useless_workers,
        "exceeds the number of requests in flight",
        "lower it, or raise {-c}",
    ),
)
"""Rules for commands whose loads are known in advance."""

_TRITON = ("triton", "triton_c_api")
_KINDS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        (
            *(
                "endpoint",
                "body_template",
                "reply_paths",
                "output_tokens",
                "data.prompts",
                "data.prompt_column",
            ),
            *(*PROMPTS, "images", "audio_s", "no_streaming"),
        ),
        ("openai",),
    ),
    "signature": ("tfserving",),
    "management_url": ("torchserve",),
    **dict.fromkeys(("method", "path"), ("http",)),
    "bodies": ("http", "torchserve", "dynamic_grpc", "openai"),
    **dict.fromkeys(("grpc_method", "proto", "proto_paths"), ("dynamic_grpc",)),
    **dict.fromkeys(("triton_directory", "model_repository"), ("triton_c_api",)),
    **dict.fromkeys(("asynchronous", *_SEQUENCES), _TRITON),
    "metrics_interval_ms": (*_TRITON, "openai"),
    "version": (*_TRITON, "tfserving", "torchserve"),
}
"""The only kinds of servers for which a field has an effect."""

_IN_PROCESS = (
    *(
        "url",
        "protocol",
        "headers",
        "api_key_env",
        "api_key_file",
        "grpc_tls",
        "grpc_compression",
        "connections",
    ),
    *("input_format", "output_format", *_TLS),
)
"""Fields without effect on an in-process server."""


def check_given(options: Options, command: str) -> None:
    """Reject options that have no effect in combination with other options."""
    given = _given(options)
    kind = kind_of(given)
    for field in given if kind != AUTO else ():
        kinds = _KINDS.get(field, (kind,))
        if kind not in kinds:
            title = option_name("--service-kind", " or ".join(kinds))
            raise UsageError(
                f"{_name(field)} is only supported with {title}, but the kind is {kind}", remedy="remove it"
            )
    if kind == "triton_c_api":
        _refuse(
            given,
            _IN_PROCESS,
            f"applies to a network server, but {option_name('--service-kind', kind)} runs it in-process",
        )
    for row in (*_WITH_OTHERS, *(() if command in ("find", "tune") else _RATES_AND_WORKERS)):
        if row.is_unused(given):
            _refuse(given, row.fields, with_names(row.why), with_names(row.remedy))


def check_by_concurrency(options: Options) -> None:
    """Reject options that only matter by rate."""
    _refuse(
        _given(options),
        _BY_RATE,
        "applies only to load by rate",
        f"remove it, or use {option_name('--by', 'rate')}",
    )


def check_use(options: Options, model: ModelSpec) -> None:
    """Reject options that have no effect on this model."""
    given = _given(options)
    specs = {spec.name: spec for spec in model.inputs}
    for name, shape in given.get("data.shapes", {}).items():
        if name in specs:
            _check_shape(specs[name], shape)
    made = list(_generated(options, model))
    has_strings = any(spec.datatype == "BYTES" for spec in made)
    is_varied = any(
        spec.datatype == "JSON"
        or (spec.datatype == "BYTES" and options.data.string_data is None)
        or (spec.datatype != "BYTES" and options.data.sources != ("zero",))
        for spec in made
    )
    if not model.any_sequence:
        _refuse(given, _SEQUENCES, f"applies only to sequence models, but '{model.name}' is not one")
    if not has_strings:
        fields = ("data.string_length", "data.string_data")
        _refuse(given, fields, "applies only to generated inputs of datatype BYTES, but there are none")
    if not (is_varied or model.any_sequence or options.request_distribution != "constant"):
        _refuse(given, ("data.seed",), "applies only to random values, but nothing is random here")


def check_validation(options: Options, dataset: Dataset) -> None:
    """Reject options about validation data if there is none."""
    if dataset.expected is None:
        why, remedy = (
            "applies to validation data, but there is none",
            "add 'validation_data' to the data file",
        )
        _refuse(_given(options), _VALIDATION, why, remedy)


def check_tls(options: Options, endpoint: Endpoint) -> None:
    """Reject TLS options if no address uses TLS."""
    others = (options.metrics_url, options.management_url)
    if endpoint.tls is None and not any(url is not None and url.startswith("https:") for url in others):
        why, remedy = (
            f"applies to TLS, but {endpoint} does not use it",
            "remove it, or start the address with https://",
        )
        _refuse(_given(options), (*_TLS, "grpc_tls"), why, remedy)


def _given(options: Options) -> Given:
    """Return the given options by field; empty if they may have no effect."""
    return {} if options.is_lenient else {field: value_of(options, field) for field in options.given}


def _refuse(given: Given, fields: Iterable[str], why: str, remedy: str = "remove it") -> None:
    """Raise an error that begins with the option."""
    for field in fields:
        if field in given:
            raise UsageError(f"{_name(field)} {why}", remedy=remedy)


def _generated(options: Options, model: ModelSpec) -> Iterator[TensorSpec]:
    """Yield the inputs that are not in a user's file."""
    if (
        any(source not in GENERATED for source in options.data.sources)
        or (options.bodies and options.service_kind != "openai")
        or options.data.prompts
    ):
        return
    given = {name for name, _ in options.data.files}
    yield from (spec for spec in model.inputs if spec.name not in given and spec.datatype != "MESSAGE")


def _check_shape(spec: TensorSpec, shape: tuple[int, ...]) -> None:
    asked, own = format_shape(shape), format_shape(spec.shape)
    if not spec.is_dynamic:
        raise UsageError(
            f"{option_name('--shape')} {spec.name}:{asked[1:-1]} conflicts with the fixed shape of input "
            f"'{spec.name}': {own}",
            remedy="remove it",
        )
    if len(shape) != len(spec.shape):
        raise UsageError(
            f"{option_name('--shape')} {spec.name}:{asked[1:-1]} has {len(shape)} dimensions, but input "
            f"'{spec.name}' has "
            f"{len(spec.shape)}: {own}, without the batch dimension",
            remedy=f"write {option_name('--shape')} "
            f"{spec.name}:{','.join(str(max(dim, 1)) for dim in spec.shape)}, for example",
        )
    if not fits(shape, spec):
        raise UsageError(
            f"{option_name('--shape')} {spec.name}:{asked[1:-1]} does not fit input '{spec.name}', whose "
            f"shape is {own}",
            remedy="only dimensions of -1 can be set",
        )


def _name(field: str) -> Name:
    if field in ("tls.verify_peer", "tls.verify_host"):
        return Name("--tls-insecure", field)
    return Name(_NAMES[field], field)
