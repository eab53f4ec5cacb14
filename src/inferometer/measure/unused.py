"""Options that would have no effect: our own commands refuse them before any load, the classic script takes them.

A row of a table says of some fields when they have no effect, why, and what to do instead. Rows of `_WITH_OTHERS` look
at what else was given, those of `_KINDS` at the kind of server; `check_use` looks at the model and its data.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from inferometer.base.errors import UsageError
from inferometer.dataset.dataset import Dataset
from inferometer.dataset.shapes import fits, format_shape
from inferometer.measure.checks import AGENDAS, DUE, LOAD_MODES, kind_of
from inferometer.model.spec import ModelSpec, TensorSpec
from inferometer.options.commands import PROMPTS, WINDOWS
from inferometer.options.option import Given, is_grpc, names_data
from inferometer.options.options import AUTO, MODERN, Options, value_of
from inferometer.options.values import GENERATED
from inferometer.services.endpoint import Endpoint

_NAMES: Mapping[str, str] = {
    row.field: row.names[-1] for _, rows in MODERN for row in reversed(rows) if row.names
}
_SEQUENCES = ("sequences", "serial_sequences", "sequence_length", "sequence_length_variation", "sequence_ids")
_BY_RATE = ("request_distribution", "sequences", "serial_sequences")
_VALIDATION = ("validate_tolerance", "validate_sample")
_ENDS_BY_ITSELF = ("request_count", *AGENDAS, "periodic_concurrency", "session_concurrency")
_TLS = tuple(field for field in _NAMES if field.startswith("tls."))


@dataclass(frozen=True, slots=True)
class _Unused:
    """Fields, when they have no effect, and the sentence: what follows the option's name, and the remedy."""

    fields: tuple[str, ...]
    is_unused: Callable[[Given], bool]
    why: str
    remedy: str = "leave it out"


def _has(*fields: str) -> Callable[[Given], bool]:
    return lambda given: any(given.get(field) for field in fields)


def _lacks(*fields: str) -> Callable[[Given], bool]:
    return lambda given: not any(given.get(field) for field in fields)


def _has_useless_workers(given: Given) -> bool:
    """By concurrency each worker needs a request of its own."""
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
        "says which loads are measured, and --sweep chooses them",
        "give one of them",
    ),
    _Unused(
        ("request_count",),
        _has("sweep"),
        "says when a level ends, and the levels of --sweep have as many requests as they need",
        "leave it out; --duration is the longest time for a level",
    ),
    _Unused(
        ("request_period",),
        _lacks("periodic_concurrency"),
        "is for a ramp",
        "give one with --periodic-concurrency-range",
    ),
    _Unused(
        WINDOWS,
        _has("duration_s", "precision"),
        "judges windows, and --duration and --precision end a level when it is precise",
        "give one of them",
    ),
    _Unused(
        tuple(field for field in WINDOWS if field != "measurement_interval_ms"),
        _has(*_ENDS_BY_ITSELF),
        "judges windows, and this load ends by itself",
    ),
    _Unused(
        ("measurement_interval_ms",),
        _has("request_count", "session_concurrency", "periodic_concurrency"),
        "is the length of a window, and this load is measured as a whole",
    ),
    _Unused(
        ("measurement_request_count",),
        lambda given: given.get("measurement_mode") != "count_windows",
        "is for windows that end by count",
        "give --measurement-mode count_windows as well",
    ),
    _Unused(
        ("measurement_interval_ms",),
        lambda given: given.get("measurement_mode") == "count_windows",
        "is for windows that end by time",
        "leave it out, or --measurement-mode count_windows",
    ),
    _Unused(
        ("duration_s", "precision"),
        _has(*_ENDS_BY_ITSELF),
        "says when a level ends, and this load ends by itself",
        "leave it out; --time-limit ends a run early",
    ),
    _Unused(
        ("binary_search",),
        lambda given: any(given[field].listed for field in ("concurrency", "request_rate") if field in given),
        "halves a range, and the levels are listed",
        "give lowest:highest with --concurrency or --rate",
    ),
    _Unused(
        ("output_shared_memory_size",),
        lambda given: given.get("shared_memory", "none") == "none",
        "is for outputs in shared memory",
        "give --shared-memory system as well",
    ),
    _Unused(
        ("input_format", "output_format"),
        is_grpc,
        "is for HTTP; gRPC carries tensors in its own form",
        "leave it out, or --grpc",
    ),
    _Unused(
        ("input_format", "output_format"),
        lambda given: given.get("shared_memory", "none") != "none",
        "has no effect on tensors in shared memory, which are binary",
        "leave it out, or --shared-memory",
    ),
    _Unused(
        ("data.prompt_column",),
        lambda given: not names_data(given) and "data.prompts" not in given,
        "names a column of a file",
        "give one with --prompts or --data",
    ),
    _Unused(
        ("cancel_share",),
        _lacks("cancel_after_s"),
        "is the share of requests to cancel",
        "say after which time with --cancel-after",
    ),
    _Unused(
        ("cancel_after_s",),
        lambda given: 0 < given.get("request_timeout_s", 0) <= given.get("cancel_after_s", 0),
        "is not reached: requests fail at --timeout before",
        "give a shorter one, or a longer --timeout",
    ),
    _Unused(("verbose_csv",), _lacks("csv"), "adds columns to a CSV file", "name one with --csv"),
    _Unused(
        _VALIDATION,
        lambda given: not names_data(given),
        "is for replies that are compared with validation data",
        "give a file that has it with --data",
    ),
    _Unused(
        ("data.prefix_pool", "data.prefix_zipf"),
        _lacks("data.prefix_tokens"),
        "is about shared prefixes",
        "give their length with --prefix-tokens",
    ),
    _Unused(
        ("data.prefix_zipf",),
        lambda given: given.get("data.prefix_pool", 1) == 1,
        "is about several prefixes, and there is one",
        "give more with --prefix-pool",
    ),
    _Unused(
        ("data.prefix_tokens", "data.repeat_prompts"),
        lambda given: names_data(given) or "data.prompts" in given,
        "is for prompts that are made, and these are given",
    ),
    _Unused(
        ("data.string_length",),
        _has("data.string_data"),
        "is for random strings, and --string-data gives one",
    ),
    _Unused(
        ("tls.certificate_type",),
        _lacks("tls.certificate_file"),
        "describes a certificate",
        "give it with --tls-cert",
    ),
    _Unused(("tls.key_type",), _lacks("tls.key_file"), "describes a key", "give it with --tls-key"),
    _Unused(
        ("tls.key_file",),
        _lacks("tls.certificate_file"),
        "belongs to a certificate",
        "give it with --tls-cert",
    ),
    _Unused(
        ("tls.ca_file",),
        lambda given: not given.get("tls.verify_peer", True),
        "is to verify a certificate, and --tls-insecure verifies none",
        "give one of them",
    ),
    _Unused(
        ("workers",), _has("periodic_concurrency"), "shares load among processes, and a ramp is made by one"
    ),
    _Unused(
        ("clients",),
        lambda given: "periodic_concurrency" in given and given.get("clients", 1) > 1,
        "shares load among clients, and a ramp is made by one",
        "give --clients 1",
    ),
)

_RATES_AND_WORKERS = (
    _Unused(_BY_RATE[:1], _lacks("request_rate"), "is about requests by rate", "give one with --rate"),
    _Unused(
        _BY_RATE[1:],
        _lacks(*DUE),
        "is for sequences by rate; by -c each request in flight is of another one",
        "leave it out, or give --rate",
    ),
    _Unused(
        ("workers", "clients"),
        _has_useless_workers,
        "is more than there are requests in flight",
        "give fewer, or more requests in flight with -c",
    ),
)
"""For commands whose loads are known before."""

_TRITON = ("triton", "triton_c_api")
_KINDS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("endpoint", "output_tokens", "data.prompts", "data.prompt_column", *PROMPTS, "images", "audio_s"),
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
"""By field the only kinds of servers for which it has an effect."""

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
"""Fields without an effect where no server is spoken to."""


def check_given(options: Options, command: str) -> None:
    """Refuses what has no effect beside the rest that was given."""
    given = _given(options)
    kind = kind_of(given)
    for field in given if kind != AUTO else ():
        kinds = _KINDS.get(field, (kind,))
        if kind not in kinds:
            title = f"--service-kind {' or '.join(kinds)}"
            raise UsageError(f"{_name(field)} is only for {title}, and this is {kind}", remedy="leave it out")
    if kind == "triton_c_api":
        _refuse(given, _IN_PROCESS, f"is for a server, and with --service-kind {kind} there is none")
    for row in (*_WITH_OTHERS, *(() if command in ("find", "tune") else _RATES_AND_WORKERS)):
        if row.is_unused(given):
            _refuse(given, row.fields, row.why, row.remedy)


def check_by_concurrency(options: Options) -> None:
    """Refuses what only matters by rate."""
    _refuse(
        _given(options), _BY_RATE, "is for load by rate", "leave it out, or raise the rate with --by rate"
    )


def check_use(options: Options, model: ModelSpec) -> None:
    """Refuses what has no effect on this model."""
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
        _refuse(given, _SEQUENCES, f"is for models with sequences, and '{model.name}' has none")
    if not has_strings:
        fields = ("data.string_length", "data.string_data")
        _refuse(given, fields, "is for inputs of datatype BYTES that are made, and there is none")
    if not (is_varied or model.any_sequence or options.request_distribution == "poisson"):
        _refuse(given, ("data.seed",), "is for random values, and nothing is random here")


def check_validation(options: Options, dataset: Dataset) -> None:
    """Refuses options about validation data where the data has none."""
    if dataset.expected is None:
        why, remedy = "is for validation data, and the data has none", "write 'validation_data' into the file"
        _refuse(_given(options), _VALIDATION, why, remedy)


def check_tls(options: Options, endpoint: Endpoint) -> None:
    """Refuses options of TLS where no address has it."""
    others = (options.metrics_url, options.management_url)
    if endpoint.tls is None and not any(url is not None and url.startswith("https:") for url in others):
        why, remedy = (
            f"is for TLS, and {endpoint} has none",
            "leave it out, or write https:// before the address",
        )
        _refuse(_given(options), (*_TLS, "grpc_tls"), why, remedy)


def _given(options: Options) -> Given:
    """What the user gave, by field; nothing where it may be without effect."""
    return {} if options.is_lenient else {field: value_of(options, field) for field in options.given}


def _refuse(given: Given, fields: Iterable[str], why: str, remedy: str = "leave it out") -> None:
    """In a sentence that begins with the option."""
    for field in fields:
        if field in given:
            raise UsageError(f"{_name(field)} {why}", remedy=remedy)


def _generated(options: Options, model: ModelSpec) -> Iterator[TensorSpec]:
    """The inputs that are not in a file of the user's."""
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
            f"--shape {spec.name}:{asked[1:-1]} is given, and the shape of input '{spec.name}' is fixed: {own}",
            remedy="leave it out",
        )
    if len(shape) != len(spec.shape):
        raise UsageError(
            f"--shape {spec.name}:{asked[1:-1]} has {len(shape)} dimensions, and input '{spec.name}' has "
            f"{len(spec.shape)}: {own}, without the batch",
            remedy=f"write --shape {spec.name}:{','.join(str(max(dim, 1)) for dim in spec.shape)}, for example",
        )
    if not fits(shape, spec):
        raise UsageError(
            f"--shape {spec.name}:{asked[1:-1]} does not fit input '{spec.name}', whose shape is {own}",
            remedy="only dimensions of -1 can be chosen",
        )


def _name(field: str) -> str:
    return "--tls-insecure" if field in ("tls.verify_peer", "tls.verify_host") else _NAMES[field]
