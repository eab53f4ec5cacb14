"""What was found out at one level of load: plain numbers, ready for any report."""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from inferometer.base.frozen import frozen
from inferometer.base.notes import Note, Remark
from inferometer.observe.statistics import ModelStatistics
from inferometer.stats.clients import ClientFigures


@frozen
class Estimate:
    """A value with its 95 % interval; without one (too few samples) low and high are None."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def limits(self) -> tuple[float, float] | None:
        """The interval; None where none is known."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def relative_half_width(self) -> float | None:
        if self.limits is None or self.value == 0:
            return None
        return (self.limits[1] - self.limits[0]) / 2 / abs(self.value)


@frozen
class Distribution:
    """Durations in nanoseconds. `percentiles` are (p, ns) in order of p; `histogram` is (upper bound ns, count)."""

    count: int
    mean_ns: int
    std_ns: int  # sample standard deviation; 0 with fewer than two values
    min_ns: int
    max_ns: int
    percentiles: tuple[tuple[float, int], ...]
    histogram: tuple[tuple[int, int], ...] = ()
    intervals: tuple[tuple[str, Estimate], ...] = ()  # of mean, p50, p90 ... where they were computed

    def percentile_ns(self, p: float) -> int:
        return dict(self.percentiles)[p] if self.count else 0

    def interval(self, name: str) -> Estimate | None:
        """Of mean, p50, p90 ...; None where none was computed."""
        return dict(self.intervals).get(name)


@frozen
class FailureGroup:
    """Requests that failed the same way, with one example of what was said."""

    kind: str  # connect, tls, timeout, http 503, malformed, reset, cancelled ...
    count: int
    example: str
    first_s: float  # of the first and the last one, seconds after the level started
    last_s: float
    mean_ns: int = 0  # latencies of these alone
    max_ns: int = 0


@frozen
class ClientCost:
    """What measuring cost on our side, in the measured time."""

    workers: int
    cpu_share: float  # busiest worker's CPU time over wall time; near 1 the client is the limit
    cpu_us_per_request: float
    reconnects: int
    connect_ns: int  # mean time to set up a connection; never part of a latency
    connects: int = 0  # connections opened; each takes a local port
    files: int = 0  # most that any worker had open, and what the system allows it (0 is no limit)
    file_limit: int = 0
    stolen_cores: float = 0.0  # of this machine, that its host gave to others while there was work for them
    loop_lag_p50_ns: int = 0  # how long workers took to attend to a message: their loop's lag
    loop_lag_max_ns: int = 0
    lag_p50_ns: int = 0  # by rate: how long after they were due requests were sent
    lag_p99_ns: int = 0


@frozen
class CoreUse:
    """Cores that something kept busy, and how many more it would have if it had not had to wait for them."""

    cores: float = 0.0
    waiting: float = 0.0
    runs: float = 0.0  # times per second that one of its threads was given a core; 0 where that is not known

    def __add__(self, other: "CoreUse") -> "CoreUse":
        return CoreUse(self.cores + other.cores, self.waiting + other.waiting, self.runs + other.runs)


CROWDED = 0.3  # of all cores, kept busy by others
FULL = 0.85  # of all cores in use: then less by others is too much
SOME = 0.1


@frozen
class HostUse:
    """Cores of this machine in use while a level was measured."""

    cores: int
    busy: float  # all of them together
    server: float | None = None  # by the server and its children, when it runs here and they could be found
    models: Mapping[str, CoreUse] = field(default_factory=dict)  # by processes that run a single model each
    gpu_share: float | None = None  # of the busiest GPU
    ours: CoreUse = CoreUse()  # by this tool
    is_local: bool = True  # the server runs on this machine
    seconds: float = 0.0  # how long it was watched, and how much of that others crowded it
    crowded_s: float = 0.0
    crowded_cores: float = 0.0  # that others kept busy in that time
    gpus: tuple["GpuFigures", ...] = ()  # as NVML sees them
    server_cores: int | None = None  # that the server may run on, where those are others than ours
    server_waiting: float = 0.0  # cores that the server's threads waited for, and did not get

    @property
    def others(self) -> float | None:
        """Cores that other programs kept busy; None where the server runs here and its processes were not seen."""
        if self.is_local and self.server is None:
            return None
        return max(0.0, self.busy - (self.server or 0.0) - self.ours.cores)

    @property
    def is_full(self) -> bool:
        """No core is free, or none of those that the server may run on."""
        if (
            self.server is not None
            and self.server_cores is not None
            and self.server >= FULL * self.server_cores
        ):
            return True
        return self.busy >= FULL * self.cores

    @property
    def is_crowded(self) -> bool:
        """Other programs keep so many cores busy that figures are worse than on a machine of its own."""
        least = SOME if self.is_full else CROWDED
        return self.others is not None and self.others > least * self.cores


@frozen
class Streaming:
    """What requests with a stream of responses did."""

    responses: int
    per_s: float
    per_request: Distribution  # numbers of responses, not nanoseconds
    first: Distribution  # from the send to the first response
    gaps: Distribution  # between the responses of a request, of the same choice where it has several
    answer: Distribution | None = (
        None  # like `first`, to the first token after the reasoning; None without reasoning
    )
    unanswered: int = 0  # streams that ended within their reasoning


@frozen
class UserRates:
    """Output tokens per second of single requests: the tokens of each over all the time it took, from the send on."""

    mean: Estimate
    percentiles: tuple[
        tuple[float, float], ...
    ]  # (p, tokens per second): the slowest users have the low ones

    def percentile(self, p: float) -> float:
        return dict(self.percentiles).get(p, 0.0)


@frozen
class Phase:
    """A part of all streamed answers: prefill, from the send to the first token, or decode, from there to the last."""

    time_ns: int  # of all requests together
    share: float  # of the time of both phases
    tokens: int  # of prefill those of the prompts, of decode those after the first
    per_s: float  # tokens per second of one request while it is in this phase


@frozen
class PromptClass:
    """Requests whose prompts have from `low` to `high` tokens."""

    low: int
    high: int
    count: int
    first: Distribution  # from the send to the first token; empty without streams
    between: Distribution  # of each streamed answer: the mean time from one token to the next
    per_answer: Distribution  # numbers of tokens, not nanoseconds


@frozen
class AskedLengths:
    """How long answers were, against the most tokens that their requests asked for."""

    asked: int  # requests that asked for a length and whose answers were counted
    early: int  # answers that ended before it
    over: int  # answers that went on beyond it
    missing_tokens: int  # that the early ones lacked, together
    extra_tokens: int  # that the others had too many

    @property
    def exact(self) -> int:
        return self.asked - self.early - self.over


@frozen
class CancelFigures:
    """Requests that the client cancelled because it was asked to. They are in no other figure."""

    count: int
    ran: Distribution  # from the send until they were cancelled
    tokens: int  # that came until then, as events of their streams
    without_token: int  # cancelled before their first


@frozen
class Lane:
    """The course of one streamed request; times are nanoseconds after the level started."""

    due_ns: int
    sent_ns: int
    first_ns: int
    end_ns: int
    prompt_tokens: int
    output_tokens: int


@frozen
class TokenFigures:
    """What servers that make text did: tokens of good requests. Lengths are numbers of tokens, not nanoseconds."""

    output: int
    output_per_s: float
    per_answer: Distribution
    between: Distribution  # of each streamed answer: the mean time from one token to the next
    prompt: int
    prompt_per_s: float
    per_prompt: Distribution
    from_events: int  # answers whose tokens the server did not count: their events were
    output_interval: Estimate | None = None  # of `output_per_s`; None in older files, as are the next ones
    per_user: UserRates | None = None  # only of answers with tokens
    prefill: Phase | None = None  # only of streams
    decode: Phase | None = None
    classes: tuple[
        PromptClass, ...
    ] = ()  # by length of prompt, where the server counts it and lengths differ
    asked: AskedLengths | None = None  # only where requests ask for a length
    reasoning: int = 0  # of `output`, as the server tells
    cached: int = 0  # of `prompt`, which the server had in its cache


@frozen
class Goodput:
    """Requests that each kept the limits of a promise."""

    promise: str
    count: int
    per_s: float  # inferences: a request has as many as its batch
    share: float  # of all that ended, failed ones included


Keeping = Literal["kept", "broken", "undecided"]
"""What became of a promise."""


@frozen
class TermOutcome:
    """One limit of a promise and the figure it is about: nanoseconds, a share, or inferences per second."""

    name: str  # of the figure: mean, p99, ttft p99, errors, throughput, goodput
    text: str  # the limit as it was written, such as p99<50ms
    limit: float
    found: Estimate | None  # None where no request had it
    verdict: Keeping
    reason: str = ""  # why it is not decided, or what decided it where the figure has no interval


@frozen
class PromiseOutcome:
    """What became of a promise at a level."""

    promise: str
    verdict: Keeping
    terms: tuple[TermOutcome, ...]
    reason: str = ""  # why a promise whose terms are all kept is not decided

    def of(self, verdict: Keeping) -> tuple[TermOutcome, ...]:
        return tuple(term for term in self.terms if term.verdict == verdict)

    @property
    def limits_errors(self) -> bool:
        """In so many words: otherwise few may fail as a matter of course."""
        return "errors" in self.promise.lower()


@frozen
class SequenceFigures:
    """Sequences whose last request ended well in the measured time."""

    count: int
    per_s: float
    latency: Distribution  # of whole sequences, from when their first request was due


@frozen
class GpuFigures:
    """One GPU: the mean of utilisation and power, the most memory in use, and how much it has."""

    uuid: str
    utilization: float | None  # 0 to 1
    power_w: float | None
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    memory_share: float | None = None  # of the time, reading or writing its memory: 0 to 1
    clock_mhz: float | None = None
    memory_server_bytes: int | None = None  # of the memory in use, what the server's processes hold


@frozen
class QueueFigures:
    """The queue of one model that was busy; the times are of the requests that ended between two samples."""

    model: str
    version: str
    pending_mean: float | None
    pending_max: float | None
    requests: int | None
    queue_us: float | None  # mean per request


@frozen
class HostFigures:
    """This host, when the server runs on it: all cores together, and its GPUs as NVML sees them."""

    cpu_share: float | None
    memory_used_bytes: int
    gpus: tuple[GpuFigures, ...]


@frozen
class LlmServerFigures:
    """What an LLM server said of itself over the merged windows; None is what it does not say.

    Numbers of tokens and requests are of the time between the first look and the last one.
    """

    server: str  # vLLM, SGLang, TensorRT-LLM or llama.cpp
    seconds: float  # between the first look and the last one
    running_mean: float | None = None
    running_max: float | None = None
    waiting_mean: float | None = None
    waiting_max: float | None = None
    present_max: float | None = None  # running and waiting in one look
    slots: int | None = None  # most requests that run at once, as configured
    kv_cache_mean: float | None = None  # 0 to 1
    kv_cache_max: float | None = None
    kv_tokens: int | None = None  # capacity of the KV cache
    preemptions: int | None = None
    prefix_queries: int | None = None  # tokens
    prefix_hits: int | None = None
    prefix_share: float | None = None  # hits of queries
    draft_tokens: int | None = None
    accepted_tokens: int | None = None
    accepted_share: float | None = None  # of draft tokens
    queue_ns: float | None = None  # mean time that requests waited before they ran
    prefill_ns: float | None = None  # mean time in which the server read a prompt
    prompt_per_s: float | None = None  # tokens
    generated_per_s: float | None = None
    was_restarted: bool = False  # then nothing that is counted is known


@frozen
class ServerMetrics:
    """What the server's metrics endpoint said over the merged windows."""

    polls: int
    gpus: tuple[GpuFigures, ...]  # in the order of their UUIDs
    cpu_share: float | None
    memory_used_bytes: int | None  # the most
    memory_total_bytes: int | None
    queues: tuple[QueueFigures, ...]
    host: HostFigures | None
    llm: LlmServerFigures | None = None  # only of servers that make text


@frozen
class WindowFigures:
    """One window in a line."""

    start_s: float  # after the level started
    duration_ns: int
    request_count: int
    failed_count: int
    infer_per_s: float
    latency_ns: int  # the mean, or the chosen percentile
    service_ns: int  # the same from the send on
    std_ns: int
    p50_ns: int = 0  # 0 where nothing ended well
    p99_ns: int = 0
    empty_count: int = 0  # streams without a response, which are not counted
    answered_count: int | None = None  # well or badly; None in older files, as are the next two
    due_count: int | None = None  # by the schedule; None by concurrency
    sent_count: int | None = None
    counted_ns: int = (
        0  # the time in which those were due and sent, which is read off a little after the window
    )
    output_tokens: int = 0  # that arrived; in older files and without streams, of answers that ended well
    cancelled_count: int = 0  # as they were asked to be

    @property
    def ended_count(self) -> int:
        """Requests that ended in any way."""
        return self.request_count + self.failed_count + self.empty_count + self.cancelled_count


@frozen
class StartFigures:
    """What was left out at the start because it is unlike the rest: a cold server."""

    duration_ns: int
    request_count: int
    infer_per_s: float
    latency: Distribution


@frozen
class Doubt:
    """Why figures are not as sure as asked, and the course of the one that is least sure."""

    kind: str  # drift, periodic stalls, bimodal, too few samples, client-limited
    text: str
    figure: str
    sparkline: str


@frozen
class Measurement:
    """All figures of one level, over the merged windows."""

    batch: int
    duration_ns: int
    request_count: int  # good ones
    failed_count: int
    delayed_count: int  # the sender was held up and sent them later than they were due
    infer_per_s: Estimate
    send_per_s: float  # requests that went out
    latency: Distribution  # closed loop: from the send; open loop: from the due time
    latency_intervals: tuple[tuple[str, Estimate], ...]  # of mean, p50, p90 ... in ns
    service: Distribution  # from the send
    send_ns: int  # mean time to send: processor time, or until the socket had taken all of a large request
    receive_ns: int  # mean time from the first to the last byte of the reply
    received_bytes: int
    client: ClientCost
    server: ModelStatistics | None
    failures: tuple[FailureGroup, ...]
    streaming: Streaming | None = None  # only for streams
    sequences: SequenceFigures | None = None  # only for sequence models
    metrics: ServerMetrics | None = None  # only when they were collected
    tokens: TokenFigures | None = None  # only of servers that make text
    goodput: Goodput | None = None  # only when something was promised
    empty_count: int = 0  # streams that ended well without a response, which are in no other figure
    blank_count: int = 0  # answers of text that ended well without a token; they are among the requests
    cancelled: CancelFigures | None = None  # only where requests were to be cancelled
    lanes: tuple[Lane, ...] = ()  # the last streamed requests that ended well, in the order of their ends

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
    """Of requests that are due at certain times. An error reply is an answer; a lost connection is not."""

    asked_per_s: float
    sent_per_s: float
    answered_per_s: float
    due_per_s: float | None = None  # by the schedule in the measured time; None in older files


@frozen
class Outage:
    """A time in which a server did not answer at all; seconds after the level started."""

    gone_s: float  # the last good answer before it
    noticed_s: float  # the first request that got none
    back_s: float | None  # the first good answer after it; None when there was none
    recovered_s: float | None  # when answers came as quickly as before it; None when they did not
    lost: int = 0  # requests that got no answer

    @property
    def down_s(self) -> float | None:
        """How long there was no good answer."""
        return None if self.back_s is None else self.back_s - self.gone_s

    @property
    def recovery_s(self) -> float | None:
        """How long it took from the first good answer until they came as quickly as before."""
        if self.back_s is None or self.recovered_s is None:
            return None
        return self.recovered_s - self.back_s


@frozen
class ClassFigures:
    """What came of one class of traffic at a level; the sum of all classes is the level's own measurement."""

    name: str
    model: str
    url: str
    mode: str  # concurrency or request_rate, of this class alone; mixed where classes share their workers
    value: float  # the load of this class; where classes share their workers, its weight
    share_asked: float | None  # of the requests, where classes share their workers
    share: float  # of all requests of the level that ended
    measurement: Measurement | None  # None when no request of it finished
    windows: tuple[WindowFigures, ...] = ()
    remarks: tuple[Remark, ...] = ()
    rates: Rates | None = None  # None by concurrency
    promise: PromiseOutcome | None = None
    outages: tuple[Outage, ...] = ()
    steps: tuple["ClassFigures", ...] = ()  # of visits, which are what the class itself counts
    think_ns: int = 0  # of visits: how long a user thinks in one, on average; no latency has that in it


MIXED = "mixed"
"""The mode of a class that shares its workers with others."""

STEP = "step"
"""The mode of a step of a visit, whose requests come as the visits go on."""

PHASE = "phase "
"""Before the name of a phase, in the mode of its level."""

CUTTING = (Note.SERVER_GONE, Note.NO_ANSWER, Note.WORKER_LOST)
"""What ends a level before its time."""
SPOILING = (Note.OVERLOADED, Note.NOT_OFFERED, Note.NO_REPLY, Note.CLIENT_LOST)
"""What makes a level another one than was asked for."""
NOT_AS_ASKED = (*CUTTING, *SPOILING, Note.INTERRUPTED)


@frozen
class Level:
    """One step of the sweep: the load that was applied and what came of it."""

    mode: str  # concurrency or request_rate
    value: float
    measurement: Measurement | None  # None when no request finished at all
    windows: tuple[WindowFigures, ...]
    is_stable: bool
    is_over_limit: bool
    remarks: tuple[Remark, ...] = ()
    start: StartFigures | None = None  # what is not in the measurement: the server was still warming up
    doubt: Doubt | None = None  # only where the figures are not as sure as asked
    rates: Rates | None = None  # None by concurrency
    promise: PromiseOutcome | None = None  # only where one was given, and judged level by level
    host: HostUse | None = None  # None where it was not watched
    clients: tuple[ClientFigures, ...] = ()  # only where load came from several machines
    name: str = ""  # of a phase of a scenario
    classes: tuple[ClassFigures, ...] = ()  # where the traffic was of several kinds
    first_round: StartFigures | None = (
        None  # only where users started one after the other, before the measurement
    )

    def has_remark(self, *notes: Note) -> bool:
        """Of any of these kinds."""
        return any(remark.note in notes for remark in self.remarks)

    @property
    def is_cut_short(self) -> bool:
        """Something broke in the middle; what was measured until then counts."""
        return self.has_remark(*CUTTING)

    @property
    def is_given_up(self) -> bool:
        """The server no longer answered, so nothing more was sent."""
        return self.has_remark(Note.SERVER_GONE, Note.NO_ANSWER)

    @property
    def is_as_asked(self) -> bool:
        """The load was really applied and answered: neither cut short, overloaded, nor sent too slowly."""
        return not self.has_remark(*NOT_AS_ASKED)

    @property
    def is_reported(self) -> bool:
        """Belongs into summary and CSV."""
        if self.measurement is None or not self.measurement.request_count:
            return False
        return (self.is_stable or self.is_cut_short) and not self.is_over_limit
