"""Messages between a controller and its workers."""

from array import array
from typing import TYPE_CHECKING, NamedTuple

from inferometer.base.errors import InferometerError
from inferometer.load.plan import Cancellation, Plan
from inferometer.load.resumed import Progression, Timing
from inferometer.load.sequences import SequencePlan
from inferometer.records.path import PathReport
from inferometer.records.spans import SpanReport
from inferometer.services.traffic import Validation, Wiring

if TYPE_CHECKING:
    from inferometer.services.check_plan import AnswerChecks
    from inferometer.services.task_plan import TaskPlan
    from inferometer.services.visit_plan import VisitPlan


class Job(NamedTuple):
    """First message to a worker."""

    wiring: Wiring
    ring_fd: int
    requests_fd: int
    spans: tuple[tuple[int, int], ...]  # of each request in the shared memory
    first_step: int
    stride: int
    timeout_ns: int
    sequences: SequencePlan | None
    validation: Validation | None
    checks: "AnswerChecks | None" = None
    spool_fd: int | None = None  # file in which requests are kept for the export
    cancellation: Cancellation | None = None
    verbose: int = 0  # from ALOUD on, log every message
    visits: "VisitPlan | None" = None  # visits generate the requests instead of the shared memory
    tasks: "TaskPlan | None" = None  # tasks, likewise
    trace_share: float | None = None  # of the requests that become spans; None reports no spans


class Apply(NamedTuple):
    """Start a load."""

    plan: Plan
    start_ns: int  # when an open plan's schedule begins; the same for all workers


class Adjust(NamedTuple):
    """Continue the open plan with another timing and with more of its requests. There is no answer."""

    timing: Timing
    more: tuple[Progression, ...] = ()
    cap: int | None = None  # None: unchanged


class Sync(NamedTuple):
    """Publish all ended requests, then answer."""

    with_running: bool = False  # and report requests in flight


class Stop(NamedTuple):
    """Stop sending and wait for outstanding requests."""

    silence_ns: int  # but only as long as some end at least this often,
    limit_ns: int  # and no longer than this


class Applied:
    """The answer to `Apply`: the load has the requested form."""


class InFlightRows(NamedTuple):
    """Requests in flight as rows of `records.ring`, with the times of the responses so far."""

    rows: "array[int]"
    times: "array[int]"


class Synced(NamedTuple):
    """The answer to `Sync`: the requests and the cost of the worker so far."""

    seen_ns: int  # everything received until then has been read and recorded,
    behind_ns: int  # which took this long
    cpu_ns: int
    sent: int
    resent: int
    reconnects: int
    connects: int
    connect_ns: int
    outstanding: int
    heard: int  # bytes received of incomplete replies
    is_finished: bool
    examples: dict[int, str]
    spool_problem: str  # why requests are no longer kept; empty if they are
    visits: int = 0  # or tasks, started so far
    running: "InFlightRows | None" = None  # only if requested
    path: PathReport = PathReport()
    spans: SpanReport = SpanReport()


class Stopped(NamedTuple):
    """The answer to `Stop`: the number of cancelled requests and final counts."""

    cancelled: int
    sent: int
    resent: int
    spans: SpanReport = SpanReport()


class Failed(NamedTuple):
    """The worker has failed: an error for the user, or a bug with its traceback."""

    error: InferometerError | None
    text: str
