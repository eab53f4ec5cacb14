"""Instruments, settings and load of a level."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from inferometer.base.frozen import frozen
from inferometer.base.slo import Slo
from inferometer.base.units import INFERENCES, NS_PER_S, Clock
from inferometer.load.plan import Plan
from inferometer.load.workers import Load, ResizableLoad
from inferometer.measure.host import HostWatch
from inferometer.model.spec import ModelSpec
from inferometer.observe.poller import Poller
from inferometer.observe.statistics import Snapshot
from inferometer.stats.measurement import MIXED
from inferometer.stats.stopping import Precision, Stability
from inferometer.stats.tasks import TaskBook
from inferometer.stats.watcher import Watcher

if TYPE_CHECKING:
    from inferometer.cluster.by_client import ByClient
    from inferometer.measure.journal import RequestJournal

FAR_NS = 3600 * NS_PER_S
SILENCE_NS = 60 * NS_PER_S
FEWEST_ENDED = 30  # requests in a non-classic window, if time permits


@frozen
class Ramp:
    """Start-up time of the users of a closed load; None means about one answer."""

    length_ns: int | None = None
    answer_ns: int | None = None  # response time at the previous level; None if there was none


@frozen
class LevelSettings:
    """How each level is measured, in windows of a time or a count.

    With `is_whole`, every request of the plan counts, from first to last: in one window, in windows of a time, or in
    windows of a count smaller than the plan's.
    """

    model: ModelSpec
    batch: int
    percentile: int | None
    rule: Stability | Precision
    latency_limit_ms: int = 0
    window_ns: int | None = None
    window_count: int | None = None
    is_whole: bool = False
    finds_warm_up: bool = False  # exclude windows at the start that differ from the rest
    patience_ns: int = FAR_NS  # longest wait for counted requests that are outstanding
    rate_unit: str = INFERENCES  # of throughput, in sentences
    has_tokens: bool = False
    asked_tokens: tuple[int, ...] = ()  # as in Traffic
    is_serial: bool = False  # requests of a sequence wait for the previous answer
    promise: Slo | None = None  # SLO for each request
    judges_promise: bool = False  # also judge the SLO for the whole level
    is_timed: bool = False  # lasts its full time, whatever the server does
    awaits_answers: bool = (
        False  # continues past its time until every class has had a successful answer, or seems gone
    )
    classes: tuple["ClassSettings", ...] = ()  # for mixed traffic
    class_of_step: tuple[int, ...] = ()  # class of each step's request; negative for none
    class_mode: str = MIXED  # of classes that share workers
    has_visits: bool = False  # counts visits; the classes are their steps
    tasks: TaskBook | None = None  # counts tasks; the classes are their steps
    follows_work: bool = (
        False  # throughput by work done, which is read from requests in flight at window ends
    )
    ends_load: bool = False  # stop sending when the level ends, before it is concluded
    ramp: Ramp | None = None  # for a closed load without a count; None starts all users at once
    settle_ns: int = 0  # from the start of an open load to the first window, to drain an earlier queue

    @property
    def has_steps(self) -> bool:
        """Whether requests are parts of visits or tasks, which it counts instead."""
        return self.has_visits or self.tasks is not None


@frozen
class ClassSettings:
    """A traffic class: its name, and how its requests are counted."""

    name: str
    url: str
    level: LevelSettings
    weight: float | None = None  # if classes share workers
    share: float | None = None
    has_own_counters: bool = True  # no other class sends requests to its model


@frozen
class LoadPoint:
    """A level to measure: its name and its load."""

    mode: str  # concurrency or request_rate
    value: float
    plan: Plan
    asked_per_s: float | None = None  # requests; None for closed load
    before: Plan | None = None  # warm-up load; None uses the first requests of the plan
    name: str = ""  # of a phase
    classes: tuple["LoadPoint", ...] = ()  # one per class, if each has its own plan


@frozen
class Instrument:
    """Load, clock, server counters and metrics (None if not available).

    A load that is also `resizable` may get more workers, up to `most_workers`.
    """

    load: Load
    clock: Clock
    read_counters: Callable[[], Snapshot | None]
    watcher: Watcher
    metrics: Poller | None = None
    journal: "RequestJournal | None" = None
    resizable: ResizableLoad | None = None
    most_workers: int = 1
    host: HostWatch | None = None  # None to ignore how busy this machine is
    clients: "tuple[ByClient, ...]" = ()  # one, or one per class; empty if all load comes from this machine
    is_local: bool = False  # the server runs on this machine
    silence_ns: int = SILENCE_NS  # a run is aborted after this time without any answer
    examples_of: Callable[[int], dict[int, str]] | None = None  # for one class, if each has its own workers
    may_cut: Callable[[], bool] = lambda: (
        True
    )  # whether a run that must end may cut a window of the classic rule short
