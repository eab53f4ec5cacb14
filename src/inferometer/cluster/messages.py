"""Messages between a controller and its clients. Times are by the client's clock."""

from dataclasses import field

from inferometer.base.errors import InferometerError
from inferometer.base.frozen import frozen
from inferometer.load.plan import Cancellation, Plan
from inferometer.load.resumed import Progression, Timing
from inferometer.load.sequences import SequencePlan
from inferometer.load.workers import Cost
from inferometer.records.records import Totals
from inferometer.services.traffic import Traffic


@frozen
class ClientJob:
    """The job of a client: its workers have the numbers from `first` on, of `total` on all machines."""

    traffic: Traffic
    workers: int = 1
    first: int = 0
    total: int = 1
    timeout_ns: int = 0
    sequences: SequencePlan | None = None
    cancellation: Cancellation | None = None
    verbose: int = 0
    keeps_requests: bool = False  # for the export


@frozen
class AskTime:
    """Ask for the client's time; also serves as a keep-alive message."""


@frozen
class ClientTime:
    """The client's time, in answer to `AskTime`."""

    now_ns: int


@frozen
class ApplyPlan:
    """Start a load."""

    plan: Plan  # the whole plan, of which the client takes its share
    timing: Timing  # of an open plan's schedule
    first: int  # number of its first worker
    total: int  # workers of all clients


@frozen
class PlanApplied:
    """The load has started."""


@frozen
class AdjustPlan:
    """Continue the open plan with this timing; `more` are additional requests for each worker."""

    timing: Timing
    more: tuple[tuple[Progression, ...], ...] = ()
    caps: tuple[int, ...] = ()  # new limit of outstanding requests per worker


@frozen
class PlanAdjusted:
    """The new timing is in effect."""


@frozen
class Collect:
    """Ask for a `ClientReport`."""

    timing: Timing | None = None  # of the schedule, if known better now
    with_running: bool = False


@frozen
class FetchKept:
    """Ask for the remaining exported requests after the load has stopped."""


@frozen
class Kept:
    """Exported requests of each worker since the last fetch, as bytes of its spool."""

    parts: tuple[bytes, ...] = ()
    has_more: bool = False  # too large for one message


@frozen
class ClientReport:
    """Requests that ended at a client since its last report."""

    block: bytes  # of records
    rows: int
    seen_ns: int  # requests that ended by then are in this or an earlier block
    cost: Cost
    is_finished: bool
    loop_lag_ns: int
    outstanding: int
    heard: int
    resent: int
    own_cpu_ns: int  # of the client's own process, without its workers
    examples: dict[int, str] = field(default_factory=dict)  # only those not reported before
    kept: Kept = Kept()
    spool_problem: str = ""
    running: bytes = b""  # records of requests in flight, if requested


@frozen
class StopLoad:
    """Stop sending and wait for requests in flight; if urgent, only briefly."""

    is_urgent: bool = False


@frozen
class LoadStopped:
    """The load has stopped: cancelled requests, and totals since the start."""

    cancelled: int
    totals: Totals


@frozen
class Resize:
    """Continue with this many workers, which get new numbers."""

    workers: int
    first: int
    total: int


@frozen
class Resized:
    """The workers have their new numbers."""

    totals: Totals  # of all earlier workers


@frozen
class FinishClient:
    """End the workers; this is the last request."""


@frozen
class ClientFinished:
    """The workers have ended."""


@frozen
class ClientFailed:
    """The client could not fulfil a request: an error for the user, or a bug with its traceback."""

    error: InferometerError | None
    text: str


Question = AskTime | ApplyPlan | AdjustPlan | Collect | FetchKept | StopLoad | Resize | FinishClient
ClientAnswer = (
    ClientTime
    | PlanApplied
    | PlanAdjusted
    | ClientReport
    | Kept
    | LoadStopped
    | Resized
    | ClientFinished
    | ClientFailed
)
