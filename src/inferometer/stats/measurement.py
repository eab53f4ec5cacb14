"""Results of one load level: plain numbers for any report."""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from inferometer.base.frozen import frozen
from inferometer.base.notes import Note, Remark
from inferometer.observe.statistics import ModelStatistics
from inferometer.stats.clients import ClientFigures


@frozen
class Estimate:
    """A value with its 95 % interval; low and high are None without one (too few samples)."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def limits(self) -> tuple[float, float] | None:
        """The interval; None if unknown."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def relative_half_width(self) -> float | None:
        if self.limits is None or self.value == 0:
            return None
        return (self.limits[1] - self.limits[0]) / 2 / abs(self.value)


@frozen
class Distribution:
    """Durations in nanoseconds. `percentiles` are (p, ns) in order of p; `histogram` is (upper bound ns, count).

    A distribution read from another tool's summary has only the figures that the summary states.
    """

    count: int
    mean_ns: int
    std_ns: int | None  # sample standard deviation; 0 with fewer than two values, None if not stated
    min_ns: int | None
    max_ns: int | None
    percentiles: tuple[tuple[float, int], ...]
    histogram: tuple[tuple[int, int], ...] = ()
    intervals: tuple[tuple[str, Estimate], ...] = ()  # of mean, p50, p90 ... if computed

    def percentile_ns(self, p: float) -> int:
        return dict(self.percentiles)[p] if self.count else 0

    def maybe_percentile_ns(self, p: float) -> int | None:
        """Return a percentile; None if there are no durations, or a summary does not state it."""
        return dict(self.percentiles).get(p) if self.count else None

    def interval(self, name: str) -> Estimate | None:
        """Return the interval of mean, p50, p90 ...; None if not computed."""
        return dict(self.intervals).get(name)


@frozen
class FailureGroup:
    """Requests that failed in the same way, with one example message."""

    kind: str  # connect, tls, timeout, http 503, malformed, reset, cancelled ...
    count: int
    example: str
    first_s: float  # first and last failure, in seconds after the level started
    last_s: float
    mean_ns: int = 0  # latency of these requests only
    max_ns: int = 0


@frozen
class ClientCost:
    """Cost of measuring on the client side, during the measured time."""

    workers: int  # 0 if another tool measured
    cpu_share: float  # busiest worker's CPU time over wall time; near 1 the client is the limit
    cpu_us_per_request: float
    reconnects: int
    connect_ns: int  # mean time to set up a connection; never part of a latency
    connects: int = 0  # connections opened; each uses a local port
    files: int = 0  # most files open in any worker, and its limit (0 is none)
    file_limit: int = 0
    stolen_cores: float = 0.0  # cores of this machine that its host withheld while there was work
    loop_lag_p50_ns: int = 0  # delay until workers handled a message (event loop lag)
    loop_lag_max_ns: int = 0
    lag_p50_ns: int = 0  # by rate: delay between due time and send
    lag_p99_ns: int = 0


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
        """Whether other programs keep so many cores busy that figures are worse than on a dedicated machine."""
        least = SOME if self.is_full else CROWDED
        return self.others is not None and self.others > least * self.cores


@frozen
class Streaming:
    """Figures of requests with streamed responses."""

    responses: int
    per_s: float
    per_request: Distribution  # numbers of responses, not nanoseconds
    first: Distribution  # from the send to the first response
    gaps: Distribution  # between consecutive responses of a request, per choice
    answer: Distribution | None = (
        None  # like `first`, to the first token after the reasoning; None without reasoning
    )
    unanswered: int = 0  # streams that ended while still reasoning
    tool: Distribution | None = None  # like `first`, to the first tool call; None without tool calls


@frozen
class UserRates:
    """Output tokens per second of single requests: tokens over total time since the send."""

    mean: Estimate
    percentiles: tuple[
        tuple[float, float], ...
    ]  # (p, tokens per second): the slowest users have the low ones

    def percentile(self, p: float) -> float:
        return dict(self.percentiles).get(p, 0.0)


@frozen
class Phase:
    """A part of all streamed answers: prefill (send to first token) or decode (first token to last)."""

    time_ns: int  # of all requests together
    share: float  # of the time of both phases
    tokens: int  # prefill: prompt tokens; decode: tokens after the first
    per_s: float  # tokens per second of one request during this phase


@frozen
class PromptClass:
    """Requests whose prompts have from `low` to `high` tokens."""

    low: int
    high: int
    count: int
    first: Distribution  # from the send to the first token; empty without streams
    between: Distribution  # mean time between tokens of each streamed answer
    per_answer: Distribution  # numbers of tokens, not nanoseconds


@frozen
class AskedLengths:
    """Lengths of answers compared with the most tokens that their requests asked for."""

    asked: int  # requests with a requested length and a counted answer
    early: int  # answers that ended before it
    over: int  # answers that exceeded it
    missing_tokens: int  # missing from the early answers, in total
    extra_tokens: int  # beyond the requested length, in total

    @property
    def exact(self) -> int:
        return self.asked - self.early - self.over


@frozen
class CancelFigures:
    """Requests that the client cancelled on request. They are in no other figure."""

    count: int
    ran: Distribution  # from the send until the cancellation
    tokens: int  # received until then, as stream events
    without_token: int  # cancelled before the first token


@frozen
class Lane:
    """Timeline of one streamed request; times are nanoseconds after the level started."""

    due_ns: int
    sent_ns: int
    first_ns: int
    end_ns: int
    prompt_tokens: int
    output_tokens: int


@frozen
class TokenFigures:
    """Figures of text servers: tokens of successful requests. Lengths are numbers of tokens, not nanoseconds."""

    output: int
    output_per_s: float
    per_answer: Distribution
    between: Distribution  # mean time between tokens of each streamed answer
    prompt: int
    prompt_per_s: float
    per_prompt: Distribution
    from_events: int  # answers whose tokens were counted as events because the server gave no count
    output_interval: Estimate | None = (
        None  # of `output_per_s`; None in older files, like the following fields
    )
    per_user: UserRates | None = None  # only for answers with tokens
    prefill: Phase | None = None  # only for streams
    decode: Phase | None = None
    classes: tuple[PromptClass, ...] = ()  # by prompt length, if the server counts it and lengths differ
    asked: AskedLengths | None = None  # only if requests ask for a length
    reasoning: int = 0  # part of `output`, as reported by the server
    cached: int = 0  # part of `prompt` found in the server's cache


@frozen
class Goodput:
    """Requests that each met the limits of an SLO."""

    promise: str
    count: int
    per_s: float  # inferences: a request has as many as its batch
    share: float  # of all that ended, including failures


@frozen
class CheckFigures:
    """Answers that --check judged."""

    checked: int
    wrong: int
    share: Estimate  # of wrong answers
    example: str = ""  # what is wrong with the first one of the run


Keeping = Literal["kept", "broken", "undecided"]
"""Verdict on an SLO."""


@frozen
class TermOutcome:
    """One limit of an SLO and its figure: nanoseconds, a share, or inferences per second."""

    name: str  # of the figure: mean, p99, ttft p99, errors, throughput, goodput
    text: str  # the limit as written, such as p99<50ms
    limit: float
    found: Estimate | None  # None if no request has this figure
    verdict: Keeping
    reason: str = ""  # why it is undecided, or what decided it if the figure has no interval


@frozen
class PromiseOutcome:
    """Verdict on an SLO at a level."""

    promise: str
    verdict: Keeping
    terms: tuple[TermOutcome, ...]
    reason: str = ""  # why an SLO whose terms are all kept is undecided

    def of(self, verdict: Keeping) -> tuple[TermOutcome, ...]:
        return tuple(term for term in self.terms if term.verdict == verdict)

    @property
    def limits_errors(self) -> bool:
        """Whether the SLO limits errors explicitly; otherwise the default limit applies."""
        return "errors" in self.promise.lower()


@frozen
class SequenceFigures:
    """Sequences whose last request succeeded in the measured time."""

    count: int
    per_s: float
    latency: Distribution  # of whole sequences, from the due time of their first request


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


@frozen
class WindowFigures:
    """Summary of one window."""

    start_s: float  # after the level started
    duration_ns: int
    request_count: int
    failed_count: int
    infer_per_s: float
    latency_ns: int  # mean, or the chosen percentile
    service_ns: int  # the same, measured from the send
    std_ns: int
    p50_ns: int = 0  # 0 without successful requests
    p99_ns: int = 0
    empty_count: int = 0  # streams without a response, which are not counted
    answered_count: int | None = None  # successfully or not; None in older files, like the next two
    due_count: int | None = None  # by the schedule; None for closed load
    sent_count: int | None = None
    counted_ns: int = 0  # the time span of the due and sent counts, which are read slightly after the window
    output_tokens: int = 0  # received; in older files and without streams, of successful answers
    cancelled_count: int = 0  # cancelled on request

    @property
    def ended_count(self) -> int:
        """Requests that ended in any way."""
        return self.request_count + self.failed_count + self.empty_count + self.cancelled_count


@frozen
class StartFigures:
    """Excluded start of a level that differs from the rest: a cold server."""

    duration_ns: int
    request_count: int
    infer_per_s: float
    latency: Distribution


@frozen
class Doubt:
    """The reason why figures are less precise than requested, with the course of the least precise one."""

    kind: str  # drift, periodic stalls, bimodal, too few samples, client-limited
    text: str
    figure: str
    sparkline: str


@frozen
class Measurement:
    """All figures of one level over the merged windows."""

    batch: int
    duration_ns: int
    request_count: int  # successful ones
    failed_count: int
    delayed_count: int  # sent later than due because the sender was held up
    infer_per_s: Estimate
    send_per_s: float  # requests sent
    latency: Distribution  # closed loop: from the send; open loop: from the due time
    latency_intervals: tuple[tuple[str, Estimate], ...]  # of mean, p50, p90 ... in ns
    service: Distribution  # from the send
    send_ns: int  # mean time to send: CPU time, or until the socket had accepted all of a large request
    receive_ns: int  # mean time from the first to the last byte of the reply
    received_bytes: int
    client: ClientCost
    server: ModelStatistics | None
    failures: tuple[FailureGroup, ...]
    streaming: Streaming | None = None  # only for streams
    sequences: SequenceFigures | None = None  # only for sequence models
    metrics: ServerMetrics | None = None  # only if they were collected
    tokens: TokenFigures | None = None  # only for servers that generate text
    goodput: Goodput | None = None  # only with an SLO
    empty_count: int = 0  # successful streams without a response, which are in no other figure
    blank_count: int = 0  # successful text answers without a token; they are among the requests
    cancelled: CancelFigures | None = None  # only if requests were to be cancelled
    lanes: tuple[Lane, ...] = ()  # the last successful streamed requests, ordered by end
    energy: EnergyFigures | None = None  # only if the devices have sensors
    checks: CheckFigures | None = None  # only if answers were checked

    @property
    def is_foreign(self) -> bool:
        """Whether another tool measured the level, so that the cost of the client and the origin of tokens are
        unknown."""
        return not self.client.workers

    @property
    def failed_share(self) -> float:
        return self.failed_count / self.ended_count if self.ended_count else 0.0

    @property
    def ended_count(self) -> int:
        """Requests that ended in any way."""
        cancelled = 0 if self.cancelled is None else self.cancelled.count
        return self.request_count + self.failed_count + self.empty_count + cancelled


@frozen
class Rates:
    """Rates of requests with due times. An error reply is an answer; a lost connection is not."""

    asked_per_s: float
    sent_per_s: float
    answered_per_s: float
    due_per_s: float | None = None  # by the schedule in the measured time; None in older files


@frozen
class Outage:
    """A period in which a server did not answer at all; seconds after the level started."""

    gone_s: float  # last successful answer before it
    noticed_s: float  # first request without an answer
    back_s: float | None  # first successful answer after it; None if there was none
    recovered_s: float | None  # when answers were as fast as before; None if they never were
    lost: int = 0  # requests without an answer

    @property
    def down_s(self) -> float | None:
        """Duration without a successful answer."""
        return None if self.back_s is None else self.back_s - self.gone_s

    @property
    def recovery_s(self) -> float | None:
        """Time from the first successful answer until answers were as fast as before."""
        if self.back_s is None or self.recovered_s is None:
            return None
        return self.recovered_s - self.back_s


@frozen
class TurnFigures:
    """Calls of tasks with the same turn number, which is the number of calls that led to each, itself included."""

    turn: int  # the last row also has all later turns
    calls: int
    failed: int
    latency: Distribution  # of successful calls, from the send
    first: Distribution | None  # from the send to the first response; None without streams
    prompt_tokens: Estimate  # mean per call
    output_tokens: Estimate


@frozen
class CallLane:
    """A call of a task on its timeline; times are nanoseconds after the level started."""

    step: str
    turn: int
    due_ns: int
    sent_ns: int
    first_ns: int
    end_ns: int
    is_good: bool
    is_critical: bool  # on the critical path


@frozen
class TaskLane:
    """Timeline of one task; times are nanoseconds after the level started."""

    number: int  # from 1
    name: str  # in a recording
    due_ns: int
    end_ns: int
    outcome: str  # complete, limited (by the number of turns) or failed
    calls: tuple[CallLane, ...]


@frozen
class TaskFigures:
    """Tasks that ended in the measured time. Means and shares are per complete task.

    The times in the model, in tools and waiting are those on the critical path: they add up to the duration.
    """

    complete: int
    limited: int  # of these, ended by the limit of turns
    failed: int
    retries: int  # calls made again after a failure
    answers: str  # that later calls carry: live or recorded
    duration: Distribution  # from the due time to the end of the last call, tools included
    calls: Estimate
    tokens: Estimate  # of all answers
    prompt_tokens: Estimate  # of all prompts, as counted by the server
    path_calls: Estimate  # on the critical path
    model_ns: Estimate
    tool_ns: Estimate
    wait_ns: Estimate
    model_share: Estimate
    tool_share: Estimate
    wait_share: Estimate
    prefix_expected: int  # tokens that continued conversations repeat
    prefix_found: int  # prompt tokens of these calls that the server found in its cache
    turns: tuple[TurnFigures, ...] = ()
    sample: tuple[TaskLane, ...] = ()  # the last tasks

    @property
    def ended(self) -> int:
        return self.complete + self.failed


@frozen
class ClassFigures:
    """Figures of one traffic class at a level; the sum of all classes is the level's own measurement."""

    name: str
    model: str
    url: str
    mode: str  # concurrency or request_rate of this class alone; mixed if classes share workers
    value: float  # load of this class; its weight if classes share workers
    share_asked: float | None  # of the requests, if classes share workers
    share: float  # of all requests of the level that ended
    measurement: Measurement | None  # None if none of its requests finished
    windows: tuple[WindowFigures, ...] = ()
    remarks: tuple[Remark, ...] = ()
    rates: Rates | None = None  # None for closed load
    promise: PromiseOutcome | None = None
    outages: tuple[Outage, ...] = ()
    steps: tuple["ClassFigures", ...] = ()  # of visits, which the class itself counts
    think_ns: int = 0  # of visits: mean think time, which is not part of any latency
    tasks: TaskFigures | None = (
        None  # only for tasks, which the class itself counts; the steps are their calls
    )


MIXED = "mixed"
"""Mode of a class that shares its workers with others."""

ADDRESS = "address"
"""Mode of one of several addresses, which share the load."""

STEP = "step"
"""Mode of a step of a visit, whose requests are sent as visits proceed."""

PHASE = "phase "
"""Prefix of a phase's name in the mode of its level."""

UNSTATED = "unstated"
"""Mode of a level in another tool's file that does not state its load."""

CUTTING = (Note.SERVER_GONE, Note.NO_ANSWER, Note.WORKER_LOST)
"""Notes about events that end a level early."""
SPOILING = (Note.OVERLOADED, Note.NOT_OFFERED, Note.NO_REPLY, Note.CLIENT_LOST)
"""Notes that say the level was not as requested."""
NOT_AS_ASKED = (*CUTTING, *SPOILING, Note.INTERRUPTED)


@frozen
class ActionTaken:
    """An action before or after a level: a shell command, or a named call to the server."""

    action: str  # as requested, without secrets
    duration_ns: int
    exit_code: int | None = None  # of a command
    call: str = ""  # such as POST /reset_prefix_cache
    status: int | None = None  # of the call's answer
    last_line: str = ""  # of the command's output, or the answer to the call


@frozen
class Level:
    """One level of the sweep: the applied load and its results."""

    mode: str  # concurrency or request_rate
    value: float
    measurement: Measurement | None  # None if no request finished
    windows: tuple[WindowFigures, ...]
    is_stable: bool
    is_over_limit: bool
    remarks: tuple[Remark, ...] = ()
    start: StartFigures | None = None  # excluded warm-up of the server
    doubt: Doubt | None = None  # only if the figures are less precise than requested
    rates: Rates | None = None  # None for closed load
    promise: PromiseOutcome | None = None  # only if an SLO was given and judged per level
    host: HostUse | None = None  # None if not observed
    clients: tuple[ClientFigures, ...] = ()  # only if the load came from several machines
    name: str = ""  # of a phase of a scenario
    classes: tuple[ClassFigures, ...] = ()  # for mixed traffic
    first_round: StartFigures | None = None  # only after a staggered start of users, before the measurement
    before: tuple[ActionTaken, ...] = ()  # in order
    after: tuple[ActionTaken, ...] = ()
    network: NetworkFigures | None = None  # None if unknown

    def has_remark(self, *notes: Note) -> bool:
        """Return whether there is a remark of any of these kinds."""
        return any(remark.note in notes for remark in self.remarks)

    @property
    def is_cut_short(self) -> bool:
        """Whether the level was aborted; the time until then counts."""
        return self.has_remark(*CUTTING)

    @property
    def is_given_up(self) -> bool:
        """Whether requests were no longer sent because the server had stopped answering."""
        return self.has_remark(Note.SERVER_GONE, Note.NO_ANSWER)

    @property
    def is_as_asked(self) -> bool:
        """Whether the load was applied and answered as requested: not aborted, overloaded, or sent too slowly."""
        return not self.has_remark(*NOT_AS_ASKED)

    @property
    def is_reported(self) -> bool:
        """Whether the level belongs in the summary and CSV."""
        if self.measurement is None or not self.measurement.request_count:
            return False
        return (self.is_stable or self.is_cut_short) and not self.is_over_limit
