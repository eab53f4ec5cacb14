"""What a controller and its workers say to each other."""

from dataclasses import dataclass

from inferometer.base.errors import InferometerError
from inferometer.load.cancellation import Cancellation
from inferometer.load.plan import Plan
from inferometer.load.resumed import Progression, Timing
from inferometer.load.sequences import SequencePlan
from inferometer.services.traffic import Validation, Wiring


@dataclass(frozen=True, slots=True)
class Job:
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


@dataclass(frozen=True, slots=True)
class Apply:
    plan: Plan
    start_ns: int  # when an open plan's schedule begins; the same for all workers


@dataclass(frozen=True, slots=True)
class Adjust:
    """Go on with the open plan at other times, and with more of its requests. There is no answer."""

    timing: Timing
    more: tuple[Progression, ...] = ()
    cap: int | None = None  # None leaves it as it is


@dataclass(frozen=True, slots=True)
class Sync:
    """Publish everything that has ended, then answer."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Send nothing more, and wait for what is outstanding."""

    silence_ns: int  # but only while something ends at least this often,
    limit_ns: int  # and no longer than this


@dataclass(frozen=True, slots=True)
class Applied:
    pass


@dataclass(frozen=True, slots=True)
class Synced:
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


@dataclass(frozen=True, slots=True)
class Stopped:
    cancelled: int
    sent: int
    resent: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The worker cannot go on: an error for the user, or a bug with its traceback."""

    error: InferometerError | None
    text: str
