"""What a controller and its clients say to each other. Times are of the client's clock."""

from dataclasses import dataclass, field

from inferometer.base.errors import InferometerError
from inferometer.load.cancellation import Cancellation
from inferometer.load.plan import Plan
from inferometer.load.resumed import Progression, Timing
from inferometer.load.sequences import SequencePlan
from inferometer.load.workers import Cost
from inferometer.records.records import Totals
from inferometer.services.traffic import Traffic


@dataclass(frozen=True, slots=True)
class ClientJob:
    """What a client is made with: its workers are those from number `first` on, of `total` on all machines."""

    traffic: Traffic
    workers: int = 1
    first: int = 0
    total: int = 1
    timeout_ns: int = 0
    sequences: SequencePlan | None = None
    cancellation: Cancellation | None = None
    verbose: int = 0
    keeps_requests: bool = False  # for the export


@dataclass(frozen=True, slots=True)
class Tell:
    """What time is it at the client's? Also says that the controller is still there."""


@dataclass(frozen=True, slots=True)
class Told:
    """The client's clock: the answer to `Tell`."""

    now_ns: int


@dataclass(frozen=True, slots=True)
class ApplyPlan:
    """Start a load."""

    plan: Plan  # the whole one: the client takes its share,
    timing: Timing  # of an open plan's schedule
    first: int  # which its workers have by these numbers,
    total: int  # of so many


@dataclass(frozen=True, slots=True)
class PlanApplied:
    """The load has started."""


@dataclass(frozen=True, slots=True)
class AdjustPlan:
    """Go on with the open plan by this timing; `more` are requests of it for each worker."""

    timing: Timing
    more: tuple[tuple[Progression, ...], ...] = ()
    caps: tuple[int, ...] = ()  # most requests outstanding of each worker, where that changes


@dataclass(frozen=True, slots=True)
class PlanAdjusted:
    """The new timing is in force."""


@dataclass(frozen=True, slots=True)
class Collect:
    """Ask for a `ClientReport`."""

    timing: Timing | None = None  # of the schedule, where it is known better now
    with_running: bool = False


@dataclass(frozen=True, slots=True)
class FetchKept:
    """The rest of the requests that were kept, when the load has stopped."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Requests that each worker has kept since they were fetched last: the bytes of its spool."""

    parts: tuple[bytes, ...] = ()
    has_more: bool = False  # they were too much for one message


@dataclass(frozen=True, slots=True)
class ClientReport:
    """What has ended at a client since its last report."""

    block: bytes  # of records
    rows: int
    seen_ns: int  # all that ended until then is in this block or in an earlier one
    cost: Cost
    is_finished: bool
    loop_lag_ns: int
    outstanding: int
    heard: int
    resent: int
    own_cpu_ns: int  # of the client's process, which is not one of its workers
    examples: dict[int, str] = field(default_factory=dict)  # only those that were not reported before
    kept: Kept = Kept()
    spool_problem: str = ""
    running: bytes = b""  # a block of records, where it was asked for: requests in flight


@dataclass(frozen=True, slots=True)
class StopLoad:
    """Send nothing more, and wait for requests in flight; if urgent, only briefly."""

    is_urgent: bool = False


@dataclass(frozen=True, slots=True)
class LoadStopped:
    """The load is over: requests that were cancelled, and totals since it started."""

    cancelled: int
    totals: Totals


@dataclass(frozen=True, slots=True)
class Resize:
    """Go on with so many workers, which have other numbers now."""

    workers: int
    first: int
    total: int


@dataclass(frozen=True, slots=True)
class Resized:
    """The workers have their new numbers."""

    totals: Totals  # of all before


@dataclass(frozen=True, slots=True)
class FinishClient:
    """End the workers; nothing more will be asked."""


@dataclass(frozen=True, slots=True)
class ClientFinished:
    """The workers have ended."""


@dataclass(frozen=True, slots=True)
class ClientFailed:
    """The client could not do what it was asked: an error for the user, or a bug with its traceback."""

    error: InferometerError | None
    text: str


Question = Tell | ApplyPlan | AdjustPlan | Collect | FetchKept | StopLoad | Resize | FinishClient
ClientAnswer = (
    Told
    | PlanApplied
    | PlanAdjusted
    | ClientReport
    | Kept
    | LoadStopped
    | Resized
    | ClientFinished
    | ClientFailed
)
