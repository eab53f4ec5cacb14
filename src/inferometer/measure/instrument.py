"""What a level is measured with, how, and at which load."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_S, Clock
from inferometer.load.plan import Plan
from inferometer.load.workers import Collected, Load, ResizableLoad
from inferometer.measure.host import HostWatch
from inferometer.model.spec import ModelSpec
from inferometer.observe.poller import Poller
from inferometer.observe.statistics import Snapshot
from inferometer.stats.slo import Slo
from inferometer.stats.stopping import Precision, Stability
from inferometer.stats.watcher import Watcher

if TYPE_CHECKING:
    from inferometer.cluster.by_client import ByClient
    from inferometer.measure.journal import RequestJournal

FAR_NS = 3600 * NS_PER_S
SILENCE_NS = 60 * NS_PER_S
FEWEST_ENDED = 30  # requests in a window that is no classic one, where there is time for them
GONE_NS = 5 * NS_PER_S  # after so long with failures and without any answer the server is taken for gone


@frozen
class Ramp:
    """How long the users of a closed load take to start; None is about one answer."""

    length_ns: int | None = None
    answer_ns: int | None = None  # how long answers took at the level before; None where there was none


@frozen
class LevelSettings:
    """How each level is measured, in windows of a time or of a count.

    With `is_whole` every request of the plan counts, from the first to the last: in one window, or in windows of a
    time, or of a count that is less than the plan's, which all belong to it.
    """

    model: ModelSpec
    batch: int
    percentile: int | None
    rule: Stability | Precision
    latency_limit_ms: int = 0
    window_ns: int | None = None
    window_count: int | None = None
    is_whole: bool = False
    finds_warm_up: bool = False  # leave out windows at the start that are unlike the rest
    patience_ns: int = FAR_NS  # longest wait for news of requests that are counted
    has_tokens: bool = False
    asked_tokens: tuple[int, ...] = ()  # as in Traffic
    is_serial: bool = False  # a request of a sequence waits for the answer to the one before it
    promise: Slo | None = None  # that each request is held to
    judges_promise: bool = False  # of the whole level, too
    is_timed: bool = False  # lasts for its time, whatever the server does
    awaits_answers: bool = False  # goes on beyond its time until every class has answered well, or seems gone
    classes: tuple["ClassSettings", ...] = ()  # where the traffic is of several kinds
    class_of_step: tuple[int, ...] = ()  # which of them the request of each step belongs to; below 0 none
    has_visits: bool = False  # what is counted are visits, and the classes are the steps of these
    follows_work: bool = (
        False  # throughput by work done, which requests in flight are asked for at window ends
    )
    ends_load: bool = False  # nothing follows it, so nothing is sent while it is being concluded
    ramp: Ramp | None = None  # of a closed load without a count; None starts all users at once
    settle_ns: int = (
        0  # from the start of an open load to the first window, while an earlier queue is worked off
    )


@frozen
class ClassSettings:
    """One class of traffic: what it is called, and how its requests are counted."""

    name: str
    url: str
    level: LevelSettings
    weight: float | None = None  # where classes share their workers
    share: float | None = None
    has_own_counters: bool = True  # no other class has requests for its model


@frozen
class LoadPoint:
    """A level to measure: what it is called and how it is loaded."""

    mode: str  # concurrency or request_rate
    value: float
    plan: Plan
    asked_per_s: float | None = None  # requests; None by concurrency
    before: Plan | None = None  # to warm up with; None takes the first requests of the plan
    name: str = ""  # of a phase
    classes: tuple["LoadPoint", ...] = ()  # of each class, where each has a plan of its own


@frozen
class Instrument:
    """Load, clock, the server's counters and its metrics (None where there are none).

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
    host: HostWatch | None = None  # None where nobody asks how busy this machine is
    clients: "tuple[ByClient, ...]" = ()  # one, or one for each class; none where all load is from this machine
    silence_ns: int = SILENCE_NS  # after so long without any answer a run is given up
    examples_of: Callable[[int], dict[int, str]] | None = None  # of one class, where each has its own workers
    may_cut: Callable[[], bool] = lambda: (
        True
    )  # whether a run that has to end may cut a window of the classic rule short


@dataclass(slots=True)
class Silence:
    """How long requests have been outstanding without a word from the server.

    Time without requests says nothing: a schedule may have pauses. The pause after a failed request is silence too.
    """

    limit_ns: int
    since_ns: int
    _heard: int = 0
    _is_failing: bool = False  # the last request that ended had no answer

    def is_over(self, collected: Collected) -> bool:
        """Whether the limit is passed, given what was collected now."""
        answered = collected.records.is_answered
        if len(answered):
            self._is_failing = not answered.any()
        is_idle = not collected.outstanding and not self._is_failing
        if answered.any() or collected.heard != self._heard or is_idle:
            self.since_ns, self._heard = collected.seen_ns, collected.heard
        return collected.seen_ns - self.since_ns >= self.limit_ns
