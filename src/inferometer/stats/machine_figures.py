"""Figures of the machines: network, cores, GPUs, energy, and what the server's metrics report."""

from collections.abc import Mapping
from dataclasses import field

from inferometer.base.frozen import frozen
from inferometer.stats.estimate import Estimate


@frozen
class PhaseTimes:
    """A phase of opening connections, in nanoseconds."""

    count: int
    min_ns: int
    p50_ns: int
    max_ns: int


@frozen
class RequestPhases:
    """Medians of the phases of requests, in nanoseconds."""

    count: int
    send_ns: int  # until the last byte was sent
    wait_ns: int  # until the first byte of the reply
    receive_ns: int  # until its last byte; for a stream until its end


@frozen
class NetworkFigures:
    """The path to the server: connections since the run began, and requests of the level."""

    is_local: bool  # the server runs on this machine
    connections: int
    resolve_ns: int  # time to resolve the host name, once per client process
    connect: PhaseTimes  # TCP handshake, as the client noticed it
    tls: PhaseTimes | None  # TLS handshake; None without TLS
    round_trip: Estimate  # median of the TCP handshakes in ns; no interval with too few connections
    least_round_trip_ns: int
    round_trip_source: str  # kernel, or connect where the kernel does not report it
    first: RequestPhases | None  # first requests of their connections, since the run began
    later: RequestPhases | None  # requests of the level on connections that had answered before
    share: Estimate | None = (
        None  # of one round trip in the p50 latency; None if unknown or without a network
    )


@frozen
class CoreUse:
    """Cores kept busy, and additional cores that were needed but not available."""

    cores: float = 0.0
    waiting: float = 0.0
    runs: float = 0.0  # times per second that a thread was scheduled; 0 if unknown

    def __add__(self, other: "CoreUse") -> "CoreUse":
        return CoreUse(self.cores + other.cores, self.waiting + other.waiting, self.runs + other.runs)


CROWDED = 0.3  # share of all cores kept busy by other programs
FULL = 0.85  # share of all cores in use above which less by other programs is too much
SOME = 0.1


@frozen
class HostUse:
    """Use of this machine's cores during a level."""

    cores: int
    busy: float  # all of them together
    server: float | None = None  # by the server and its children, if it runs here and they were found
    models: Mapping[str, CoreUse] = field(default_factory=dict)  # by processes that each run a single model
    gpu_share: float | None = None  # of the busiest GPU
    ours: CoreUse = CoreUse()  # by this tool
    is_local: bool = True  # the server runs on this machine
    seconds: float = 0.0  # observed time, and the part of it with other programs crowding the machine
    crowded_s: float = 0.0
    crowded_cores: float = 0.0  # kept busy by other programs in that time
    gpus: tuple["GpuFigures", ...] = ()  # according to NVML
    server_cores: int | None = None  # that the server may run on, if different from ours
    server_waiting: float = 0.0  # cores that the server's threads waited for
    workers: CoreUse | None = None  # part of `ours`: by the processes that send and read; None if unknown

    @property
    def senders(self) -> CoreUse:
        """Use by the processes whose waits for a core are part of every latency: not the one that only reports."""
        return self.ours if self.workers is None else self.workers

    @property
    def others(self) -> float | None:
        """Cores kept busy by other programs; None if the server runs here and its processes were not found."""
        if self.is_local and self.server is None:
            return None
        return max(0.0, self.busy - (self.server or 0.0) - self.ours.cores)

    @property
    def is_full(self) -> bool:
        """Whether no core is free, or none of those that the server may run on."""
        if (
            self.server is not None
            and self.server_cores is not None
            and self.server >= FULL * self.server_cores
        ):
            return True
        return self.busy >= FULL * self.cores

    @property
    def is_crowded(self) -> bool:
        """Whether other programs use enough CPU to distort the figures."""
        least = SOME if self.is_full else CROWDED
        return self.others is not None and self.others > least * self.cores


@frozen
class GpuFigures:
    """One GPU: mean utilisation and power, peak memory use, and total memory."""

    uuid: str
    utilization: float | None  # 0 to 1
    power_w: float | None
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    memory_share: float | None = None  # share of time spent reading or writing its memory, 0 to 1
    clock_mhz: float | None = None
    memory_server_bytes: int | None = None  # part of the memory in use that the server's processes hold
    strangers: tuple[int, ...] = ()  # other processes that used it, if the server's are known


@frozen
class DeviceEnergy:
    """Energy of one GPU or processor package in the measured time."""

    name: str
    joules: float  # by its counter, or else by its power
    counted_j: float | None
    integrated_j: float | None
    idle_w: float | None = None  # before any load
    is_used: bool = True  # by the server; otherwise in no other figure
    strangers: tuple[int, ...] = ()  # other processes that used it


@frozen
class EnergyFigures:
    """Energy of the devices that the server used, idle power included."""

    seconds: float
    joules: float
    power_w: Estimate
    idle_w: float | None  # None if not known for every device
    per_request: Estimate | None
    per_inference: Estimate | None
    per_token: Estimate | None  # only for servers that generate text
    devices: tuple[DeviceEnergy, ...]
    invalid: str = ""  # why the figures must not be used


@frozen
class QueueFigures:
    """Queue of one busy model; times cover the requests that ended between two samples."""

    model: str
    version: str
    pending_mean: float | None
    pending_max: float | None
    requests: int | None
    queue_us: float | None  # mean per request


@frozen
class HostFigures:
    """This host, if the server runs on it: all cores together, and its GPUs according to NVML."""

    cpu_share: float | None
    memory_used_bytes: int
    gpus: tuple[GpuFigures, ...]


@frozen
class LlmServerFigures:
    """Figures reported by an LLM server over the merged windows; None if not reported.

    Numbers of tokens and requests cover the time between the first and the last poll.
    """

    server: str  # vLLM, SGLang, TensorRT-LLM or llama.cpp
    seconds: float  # between the first and the last poll
    running_mean: float | None = None
    running_max: float | None = None
    waiting_mean: float | None = None
    waiting_max: float | None = None
    present_max: float | None = None  # running plus waiting in one poll
    slots: int | None = None  # configured limit of concurrently running requests
    kv_cache_mean: float | None = None  # 0 to 1
    kv_cache_max: float | None = None
    kv_tokens: int | None = None  # capacity of the KV cache
    preemptions: int | None = None
    prefix_queries: int | None = None  # tokens
    prefix_hits: int | None = None
    prefix_share: float | None = None  # hits over queries
    draft_tokens: int | None = None
    accepted_tokens: int | None = None
    accepted_share: float | None = None  # of draft tokens
    queue_ns: float | None = None  # mean waiting time of requests before they ran
    prefill_ns: float | None = None  # mean time to process a prompt
    prompt_per_s: float | None = None  # tokens
    generated_per_s: float | None = None
    was_restarted: bool = False  # if so, all counts are unknown


@frozen
class ServerMetrics:
    """Figures from the server's metrics endpoint over the merged windows."""

    polls: int
    gpus: tuple[GpuFigures, ...]  # ordered by UUID
    cpu_share: float | None
    memory_used_bytes: int | None  # peak
    memory_total_bytes: int | None
    queues: tuple[QueueFigures, ...]
    host: HostFigures | None
    llm: LlmServerFigures | None = None  # only for servers that generate text
