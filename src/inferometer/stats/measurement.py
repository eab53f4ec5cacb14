"""Results of one load level: plain numbers for any report."""

from inferometer.base.frozen import frozen
from inferometer.base.notes import Note, Remark
from inferometer.observe.statistics import ModelStatistics
from inferometer.stats.clients import ClientFigures
from inferometer.stats.estimate import Distribution, Estimate
from inferometer.stats.machine_figures import EnergyFigures, HostUse, NetworkFigures, ServerMetrics
from inferometer.stats.slo_outcome import CheckFigures, Goodput, PromiseOutcome
from inferometer.stats.task_figures import TaskFigures
from inferometer.stats.text_figures import CancelFigures, Lane, Streaming, TokenFigures


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
class SequenceFigures:
    """Sequences whose last request succeeded in the measured time."""

    count: int
    per_s: float
    latency: Distribution  # of whole sequences, from the due time of their first request


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
    steps: tuple["ClassFigures", ...] = ()  # of visits, which the class itself counts; or its addresses
    think_ns: int = 0  # of visits: mean think time, which is not part of any latency
    tasks: TaskFigures | None = (
        None  # only for tasks, which the class itself counts; the steps are their calls
    )

    @property
    def counts_visits(self) -> bool:
        """Whether it counts visits or tasks instead of their requests, which are those of its steps."""
        return any(row.mode == STEP for row in self.steps)


MIXED = "mixed"


ADDRESS = "address"


STEP = "step"


PHASE = "phase "


UNSTATED = "unstated"


CUTTING = (Note.SERVER_GONE, Note.NO_ANSWER, Note.WORKER_LOST)


SPOILING = (Note.OVERLOADED, Note.NOT_OFFERED, Note.NO_REPLY, Note.CLIENT_LOST)


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
