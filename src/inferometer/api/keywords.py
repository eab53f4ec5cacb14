"""Types of the arguments that the Python functions share. Made by tools/build_api.py: do not edit."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypedDict

from inferometer.options.options import DataOptions
from inferometer.options.values import Range


class _InAll(TypedDict, total=False):
    version: str
    protocol: str
    service_kind: str
    bls_composing_models: tuple[tuple[str, str], ...]
    headers: Mapping[str, str] | Sequence[tuple[str, str]]
    api_key_env: str | None
    api_key_file: str | None
    request_parameters: tuple[tuple[str, str, str], ...]
    tls_verify_peer: bool
    tls_verify_host: bool
    tls_ca: str | None
    tls_cert: str | None
    tls_key: str | None
    tls_cert_type: str
    tls_key_type: str
    tls_server_name: str | None
    grpc_compression: str
    grpc_tls: bool
    validate_tolerance: tuple[float, float]
    validate_sample: float
    connections: int | None
    endpoint: str
    body_template: str | None
    reply_paths: Sequence[str]
    output_tokens: int | str | None
    method: str | None
    path: str
    bodies: Sequence[str]
    request_timeout_s: float
    streaming: bool
    sequence_length: int | None
    sequence_length_variation: float
    sequence_ids: tuple[int, int | None] | None
    batch: int | None
    data: str | Path | Sequence[str | Path] | DataOptions
    input: Mapping[str, str] | Sequence[tuple[str, str]]
    shape: Mapping[str, Sequence[int]]
    string_length: int
    string_data: str | None
    prompts: str | None
    prompt_column: str | None
    prompt_tokens: int | str | None
    tokenizer: str | None
    prefix_tokens: int | None
    prefix_pool: int | None
    prefix_zipf: float | None
    unique_prompts: bool
    repeat_prompts: bool
    output_shared_memory_size: int
    input_format: str
    output_format: str


class _NotInTune(TypedDict, total=False):
    url: str | None
    grpc_method: str
    proto: str | None
    proto_paths: Sequence[str]
    images: tuple[tuple[int, int], ...]
    audio_s: float | None
    signature: str
    management_url: str | None
    triton_directory: str | None
    model_repository: str | None
    asynchronous: bool
    sequences: int
    serial_sequences: bool
    seed: int


class _InMeasureScenarioFind(TypedDict, total=False):
    balance: str | None


class _InMeasureCompare(TypedDict, total=False):
    check: Sequence[str]
    check_python: str | None
    check_sample: float
    check_similarity: float
    request_intervals: str | None
    request_count: int
    warmup_request_count: int
    warmup_s: float
    ramp_s: float | None


class _NotInFind(TypedDict, total=False):
    concurrency: int | Sequence[int] | str | Range | None


class _InMeasure(TypedDict, total=False):
    sweep: bool
    periodic_concurrency: tuple[int, ...] | str | Range | None
    fixed_schedule: bool
    replay: str | None
    speed: float
    shape_load: str | None
    session_concurrency: int | None
    think_time: str | None
    before_level: Sequence[str]
    after_level: Sequence[str]
    before_level_timeout_s: float
    time_limit_s: float | None
    latency_limit_ms: int
    precision: float
    slo: str | None
    binary_search: bool


class _NotInFindDiagnose(TypedDict, total=False):
    rate: float | Sequence[float] | str | Range | None


class _NotInScenarioTune(TypedDict, total=False):
    request_distribution: str
    burstiness: float
    workers: int | Literal["auto"]


class _InMeasureScenario(TypedDict, total=False):
    request_period: int


class _NotInTuneDiagnose(TypedDict, total=False):
    cancel_after_s: float | None
    cancel_share: float | None


class _NotInFindTuneDiagnose(TypedDict, total=False):
    max_outstanding: int | None
    percentile: int | None


class _NotInInterfereDiagnose(TypedDict, total=False):
    ray: str | None


class _NotInInterfereTuneDiagnose(TypedDict, total=False):
    clients: int | None
    client_resources: Mapping[str, float] | None


class _NotInInterfereCompare(TypedDict, total=False):
    no_streaming: bool


class _InMeasureTune(TypedDict, total=False):
    measurement_mode: str
    measurement_interval_ms: int
    measurement_request_count: int
    stability_percentage: float
    max_trials: int


class _NotInInterfereFindTune(TypedDict, total=False):
    max_error_rate: float


class _NotInScenario(TypedDict, total=False):
    shared_memory: str
    trace_level: str | None
    trace_rate: str | None
    trace_count: int | None
    log_frequency: int | None


class _InMeasureFind(TypedDict, total=False):
    profile_export: str | None


class _NotInScenarioInterfere(TypedDict, total=False):
    collect_metrics: bool
    metrics_url: str | None
    metrics_interval_ms: int


class MeasureKeywords(
    _InAll,
    _NotInTune,
    _InMeasureScenarioFind,
    _InMeasureCompare,
    _NotInFind,
    _InMeasure,
    _NotInFindDiagnose,
    _NotInScenarioTune,
    _InMeasureScenario,
    _NotInTuneDiagnose,
    _NotInFindTuneDiagnose,
    _NotInInterfereDiagnose,
    _NotInInterfereTuneDiagnose,
    _NotInInterfereCompare,
    _InMeasureTune,
    _NotInInterfereFindTune,
    _NotInScenario,
    _InMeasureFind,
    _NotInScenarioInterfere,
    total=False,
):
    """Arguments of `measure`."""


class ScenarioKeywords(
    _InAll,
    _NotInTune,
    _InMeasureScenarioFind,
    _NotInFind,
    _NotInFindDiagnose,
    _InMeasureScenario,
    _NotInTuneDiagnose,
    _NotInFindTuneDiagnose,
    _NotInInterfereDiagnose,
    _NotInInterfereTuneDiagnose,
    _NotInInterfereCompare,
    _NotInInterfereFindTune,
    total=False,
):
    """Arguments of `scenario`."""


class InterfereKeywords(
    _InAll,
    _NotInTune,
    _NotInFind,
    _NotInFindDiagnose,
    _NotInScenarioTune,
    _NotInTuneDiagnose,
    _NotInFindTuneDiagnose,
    _NotInScenario,
    total=False,
):
    """Arguments of `interfere`."""


class FindKeywords(
    _InAll,
    _NotInTune,
    _InMeasureScenarioFind,
    _NotInScenarioTune,
    _NotInTuneDiagnose,
    _NotInInterfereDiagnose,
    _NotInInterfereTuneDiagnose,
    _NotInInterfereCompare,
    _NotInScenario,
    _InMeasureFind,
    _NotInScenarioInterfere,
    total=False,
):
    """Arguments of `find`."""


class TuneKeywords(
    _InAll,
    _NotInFind,
    _NotInFindDiagnose,
    _NotInInterfereDiagnose,
    _NotInInterfereCompare,
    _InMeasureTune,
    _NotInScenario,
    _NotInScenarioInterfere,
    total=False,
):
    """Arguments of `tune`."""


class CompareKeywords(
    _InAll,
    _NotInTune,
    _InMeasureCompare,
    _NotInFind,
    _NotInFindDiagnose,
    _NotInScenarioTune,
    _NotInTuneDiagnose,
    _NotInFindTuneDiagnose,
    _NotInInterfereDiagnose,
    _NotInInterfereTuneDiagnose,
    _NotInInterfereFindTune,
    _NotInScenario,
    _NotInScenarioInterfere,
    total=False,
):
    """Arguments of `compare`."""


class DiagnoseKeywords(
    _InAll,
    _NotInTune,
    _NotInFind,
    _NotInScenarioTune,
    _NotInInterfereCompare,
    _NotInInterfereFindTune,
    _NotInScenario,
    _NotInScenarioInterfere,
    total=False,
):
    """Arguments of `diagnose`."""
