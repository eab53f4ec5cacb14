"""What was asked of a measurement: one flat value, made by the command lines and by the Python API."""

from dataclasses import dataclass, field
from typing import Literal

from inferometer.dataset.build import DataOptions
from inferometer.services.endpoint import Tls


@dataclass(frozen=True, slots=True)
class Range:
    """`start:end:step` of a sweep; end None was not given, end 0 is open."""

    start: float
    end: float | None = None
    step: float = 1

    @property
    def last(self) -> int:
        """The end, or the start where none was given."""
        return int(self.start if self.end is None else self.end)


@dataclass(frozen=True, slots=True)
class Options:
    """Everything a user can ask of `measure`. The defaults are the classic tool's; `None` means not given."""

    model: str = ""  # may be empty where the kind needs none
    version: str = ""
    url: str | None = None
    protocol: str = "http"
    service_kind: str = "triton"
    triton_directory: str | None = None  # of a Triton in this process
    model_repository: str | None = None
    bls_composing_models: tuple[tuple[str, str], ...] = ()  # (name, version)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    tls: Tls = field(default_factory=Tls)
    grpc_tls: bool = False
    grpc_compression: str = "none"
    request_parameters: tuple[tuple[str, str, str], ...] = ()  # (name, value, type)
    streaming: bool = False
    connections: int | None = None
    endpoint: str = ""  # path of an OpenAI-style call
    output_tokens: int | None = None
    signature: str = "serving_default"  # of a TensorFlow model
    management_url: str | None = None  # of TorchServe
    method: str | None = None  # of a plain HTTP request, with its path and bodies
    path: str = ""
    bodies: tuple[str, ...] = ()
    grpc_method: str = ""  # of any gRPC service
    proto: str | None = None  # the file that describes it, and the folders its imports start from
    proto_paths: tuple[str, ...] = ()

    batch: int | None = None
    data: DataOptions = field(default_factory=DataOptions)
    shared_memory: str = "none"
    output_shared_memory_size: int = 102400  # bytes of a sample of an output whose size is not known
    input_format: str = "binary"
    output_format: str = "binary"

    concurrency: Range | None = None
    request_rate: Range | None = None
    request_distribution: str = "constant"
    request_intervals: str | None = None
    fixed_schedule: bool = False
    replay: str | None = None  # a trace
    speed: float = 1.0  # of the replay
    shape_load: str | None = None  # such as "ramp 10..500 over 60s"
    periodic_concurrency: Range | None = None
    request_period: int = 10  # responses
    binary_search: bool = False
    request_count: int = 0
    warmup_request_count: int = 0
    sequences: int = 4  # live ones when loading by rate
    sequence_length: int | None = None
    sequence_length_variation: float = 20.0
    sequence_ids: tuple[int, int | None] | None = None  # first and, not included, last
    serial_sequences: bool = False
    session_concurrency: int | None = None  # chat sessions in parallel
    asynchronous: bool = False
    synchronous: bool = False
    max_threads: int | None = None
    workers: int | Literal["auto"] = 1
    request_timeout_s: float = 0.0  # 0 is off

    measurement_mode: str = "time_windows"
    measurement_interval_ms: int = 5000
    measurement_request_count: int = 50
    stability_percentage: float = 10.0
    max_trials: int = 10
    percentile: int | None = None
    latency_limit_ms: int = 0
    duration_s: float | None = None  # given: stop by precision or time instead of the classic stability rule
    precision: float = 0.02
    slo: str | None = None  # a promise that each request is held to

    validate_tolerance: tuple[float, float] = (0.0, 0.0)  # absolute and relative
    validate_sample: float = 1.0  # share of the replies that is compared with validation data
    max_error_rate: float = 0.0
    csv: str | None = None
    verbose_csv: bool = False
    collect_metrics: bool = False
    metrics_url: str | None = None
    metrics_interval_ms: int = 1000
    trace_level: str | None = None
    trace_rate: str | None = None
    trace_count: int | None = None
    log_frequency: int | None = None
    json: str | None = None
    profile_export: str | None = None
    html: str | None = None
    verbose: int = 0
