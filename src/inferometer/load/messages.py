"""What a controller and its workers say to each other."""

from array import array
from typing import TYPE_CHECKING, NamedTuple

from inferometer.base.errors import InferometerError
from inferometer.load.cancellation import Cancellation
from inferometer.load.plan import Plan
from inferometer.load.resumed import Progression, Timing
from inferometer.load.sequences import SequencePlan
from inferometer.services.traffic import Validation, Wiring

if TYPE_CHECKING:
    from inferometer.services.visit_plan import VisitPlan


class Job(NamedTuple):
    """What a worker is told first."""

    wiring: Wiring
    ring_fd: int
    requests_fd: int
    spans: tuple[tuple[int, int], ...]  # of each request in the requests' memory
    first_step: int
    stride: int
    timeout_ns: int
    sequences: SequencePlan | None
    validation: Validation | None
    spool_fd: int | None = None  # where requests are kept for the export
    cancellation: Cancellation | None = None
    verbose: int = 0  # from ALOUD on it tells of every message
    visits: "VisitPlan | None" = None  # requests are made by visits, and not from the requests' memory


class Apply(NamedTuple):
    """Start a load."""

    plan: Plan
    start_ns: int  # when an open plan's schedule begins; the same for all workers


class Adjust(NamedTuple):
    """Go on with the open plan at other times, and with more of its requests. There is no answer."""

    timing: Timing
    more: tuple[Progression, ...] = ()
    cap: int | None = None  # None leaves it as it is


class Sync(NamedTuple):
    """Publish everything that has ended, then answer."""

    with_running: bool = False  # and say what is in flight


class Stop(NamedTuple):
    """Send nothing more, and wait for what is outstanding."""

    silence_ns: int  # but only while something ends at least this often,
    limit_ns: int  # and no longer than this


class Applied:
    """The load is as the message asked."""


class InFlightRows(NamedTuple):
    """Requests in flight, as `records.ring` would have their rows, with the times of the responses so far."""

    rows: "array[int]"
    times: "array[int]"


class Synced(NamedTuple):
    """The answer to `Sync`: what the worker has done and spent so far."""

    seen_ns: int  # all that had come until then is read and written,
    behind_ns: int  # which took so long
    cpu_ns: int
    sent: int
    resent: int
    reconnects: int
    connects: int
    connect_ns: int
    outstanding: int
    heard: int  # of replies that are still coming
    is_finished: bool
    examples: dict[int, str]
    spool_problem: str  # why requests are no longer kept; empty while they are
    visits: int = 0  # that have begun
    running: "InFlightRows | None" = None  # only where it was asked for


class Stopped(NamedTuple):
    """The answer to `Stop`: requests that were cancelled, and final counts."""

    cancelled: int
    sent: int
    resent: int


class Failed(NamedTuple):
    """The worker cannot go on: an error for the user, or a bug with its traceback."""

    error: InferometerError | None
    text: str
