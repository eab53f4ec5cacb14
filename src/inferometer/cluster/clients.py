"""Load from clients on many machines: one plan, one clock, one result.

Callers see one load, with times of our clock. A plan is divided among all workers of all clients; an open plan starts
everywhere at the same moment, and its due times follow our clock, regardless of the clients' clocks. Delivered records
count even if the client is lost later. A lost client's share of an open plan goes to the others.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TypeVar

from inferometer.base.deadline import UNDO_LAST_S, Deadline
from inferometer.base.errors import InferometerError, LocalError
from inferometer.base.units import NS_PER_MS, NS_PER_S, Clock, monotonic_ns, plain_number
from inferometer.cluster.by_client import ByClient
from inferometer.cluster.clock import Exchange
from inferometer.cluster.members import Loss, Member, all_lost, together
from inferometer.cluster.messages import (
    AdjustPlan,
    ApplyPlan,
    AskTime,
    ClientAnswer,
    ClientFailed,
    ClientFinished,
    ClientReport,
    ClientTime,
    Collect,
    FetchKept,
    FinishClient,
    Kept,
    LoadStopped,
    PlanApplied,
    Question,
    Resize,
    Resized,
    StopLoad,
)
from inferometer.cluster.network import ClientLost, Network, Pending
from inferometer.load.plan import Arrivals, Open, Plan, Renewal
from inferometer.load.resumed import Progression, Timing
from inferometer.load.workers import ANSWER_S, DRAIN_NS, Collected
from inferometer.records.records import Records, Totals, join

ROUND_NS = 500 * NS_PER_MS  # between reports: a request costs more than the records in its answer
HEAD_START_NS = 150 * NS_PER_MS  # for clients and their workers to receive a schedule before it starts
EXCHANGE_NS = 2 * NS_PER_S  # between comparisons of clocks
FIRST_EXCHANGES = 8  # comparisons before the load starts
AT_ONCE = 4  # clients compared at a time: simultaneous answers are read one after the other
IDLE_S = 5.0  # without a call, after which clients get a keep-alive message
FINISH_S = 10.0
SAME_NS = 2_000  # by which a schedule may be off before it is adjusted

Kind = TypeVar("Kind")


@dataclass(slots=True, eq=False)
class Clients:
    """Load from the clients of a network. Use as a context manager, which ends them."""

    network: Network
    _: KW_ONLY
    workers: int = 1  # of each client
    # For the export: worker w of client c writes its requests to number w * clients + c.
    spool_fds: Sequence[int] = ()
    figures: ByClient = field(default_factory=ByClient)
    clock: Clock = monotonic_ns
    sleep: Callable[[float], object] = time.sleep
    members: list[Member] = field(init=False)
    _plan: Plan | None = None
    _start_ns: int = 0
    _examples: dict[int, str] = field(default_factory=dict)
    _loose: dict[Pending, tuple[Member, int]] = field(default_factory=dict)  # requests that are not awaited
    _timings: dict[Member, Timing] = field(default_factory=dict)  # of the open plan, per client
    _last: Collected | None = None  # without its records
    _left: list[Records] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _called_ns: int = 0
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __post_init__(self) -> None:
        self.members = [Member(client, self.workers) for client in self.network.clients]
        self.figures.members = self.members
        for number, member in enumerate(self.members):
            member.spool_fds = self.spool_fds[number :: len(self.members)]

    def __enter__(self) -> "Clients":
        try:
            for _ in range(FIRST_EXCHANGES):
                live = self.live
                for at in range(0, len(live), AT_ONCE):
                    for member in live[at : at + AT_ONCE]:
                        self._ask_clock(member)
                    self._wait_loose(self.clock() + round(ANSWER_S * NS_PER_S))
            self._need_all()
        except BaseException:
            self.network.close()
            raise
        self._called_ns = self.clock()
        self._thread = threading.Thread(target=self._keep_alive, name="inferometer-clients", daemon=True)
        self._thread.start()
        return self

    def _need_all(self) -> None:
        """Raise if a client was lost before the load started."""
        for member in self.members:
            if member.loss is not None:
                raise LocalError(
                    f"{member.name} was lost before the load started: {member.loss.why}",
                    remedy="check its machine, or use fewer clients",
                )

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join(FINISH_S)
        try:
            self._ask_all({member: FinishClient() for member in self.live}, ClientFinished, FINISH_S)
        finally:
            self.network.close()

    @property
    def live(self) -> list[Member]:
        return [member for member in self.members if member.loss is None]

    @property
    def count(self) -> int:
        """The number of workers of all clients."""
        return sum(member.workers for member in self.members)

    @property
    def pids(self) -> tuple[int, ...]:
        """Our processes on this machine."""
        return tuple(self.network.pids)

    @property
    def spool_problem(self) -> str:
        """The reason why a worker could not record its requests."""
        return next((member.spool_problem for member in self.members if member.spool_problem), "")

    # --- Load

    def apply(self, plan: Plan, start_ns: int | None = None) -> int:
        """Start a plan. `start_ns` is given if other loads start at the same time; this does not wait for it."""
        with self._called():
            self._need_one()
            is_alone = start_ns is None
            self._plan = plan
            self._start_ns = self.clock() + HEAD_START_NS if start_ns is None else start_ns
            live = self.live
            total, first = sum(member.workers for member in live), 0
            messages = dict[Member, Question]()
            for member in live:
                timing = self._timings[member] = member.clock.fit.timing(self._start_ns)
                messages[member] = ApplyPlan(plan, timing, first, total)
                member.parts = _parts(plan, first, member.workers, total)
                first += member.workers
            self._ask_all(messages, PlanApplied, 2 * ANSWER_S)
            if is_alone and isinstance(plan, Open):  # nothing is sent before it starts
                self.wait(self._start_ns)
            return self._start_ns

    def wait(self, until_ns: int) -> None:
        """Wait, comparing clocks in the meantime."""
        with self._called():
            while (left_ns := until_ns - self.clock()) > 0:
                self._ask_clocks()
                if self._loose:
                    self._wait_some({}, until_ns)
                else:
                    self.sleep(min(left_ns, self._until_exchange_ns()) / NS_PER_S)

    def collect(self, until_ns: int, *, with_running: bool = False) -> Collected:
        with self._called():
            self.wait(min(until_ns, self.clock() + ROUND_NS))
            self._need_one()
            messages = {
                member: Collect(self._maybe_timing(member), with_running=with_running) for member in self.live
            }
            reports = self._ask_all(messages, ClientReport, ANSWER_S, self._take)
            records, self._left = join(self._left), []
            if not reports:  # the next call raises the error
                if self._last is None or not len(records):
                    raise all_lost(self.members)
                return self._last._replace(records=records, seen_ns=int(records.end_ns.max()))
            self._last = Collected(
                records=records.where(slice(0, 0)),
                seen_ns=min(member.clock.to_our(report.seen_ns) for member, report in reports.items()),
                cost=together(self.members),
                is_finished=all(report.is_finished for report in reports.values()),
                loop_lag_ns=max(report.loop_lag_ns for report in reports.values()),
                outstanding=sum(report.outstanding for report in reports.values()),
                heard=sum(report.heard for report in reports.values()),
            )
            running = [member.running(report) for member, report in reports.items()] if with_running else []
            return self._last._replace(records=records, running=join(running) if running else None)

    def examples(self) -> dict[int, str]:
        return dict(self._examples)

    def stop(self, *, is_urgent: bool = False) -> int:
        with self._called():
            self._plan = None
            messages = {member: StopLoad(is_urgent) for member in self.live}
            answers = self._ask_all(messages, LoadStopped, 2 * ANSWER_S + DRAIN_NS / NS_PER_S)
            for member, answer in answers.items():
                member.totals = answer.totals
            self._fetch_kept()
            return sum(answer.cancelled for answer in answers.values())

    def totals(self) -> Totals:
        return sum((member.all_totals() for member in self.members), Totals())

    def resize(self, count: int) -> None:
        """Continue with `count` workers, spread evenly over the clients; requests in flight are dropped."""
        with self._called():
            self._need_one()
            self._plan, self._last = None, None
            live = self.live
            each = -(-count // len(live))
            if self.spool_fds:  # they need spools
                each = min(each, len(self.spool_fds) // len(self.members))
            messages = {
                member: Resize(each, number * each, each * len(live)) for number, member in enumerate(live)
            }
            answers = self._ask_all(messages, Resized, 3 * ANSWER_S + DRAIN_NS / NS_PER_S)
            for member, answer in answers.items():
                member.workers, member.report = each, None
                member.before, member.delivered = answer.totals, Totals()

    # --- reports

    def _take(self, member: Member, report: ClientReport) -> None:
        records = member.take(report)
        self._examples = {**report.examples, **self._examples}
        self.figures.reported(member, records, self.clock())
        if len(records):
            self._left.append(records)

    def _fetch_kept(self) -> None:
        """Fetch the remaining spooled requests after the workers have stopped."""
        wanted = self.live if self.spool_fds else []
        while wanted:
            answers = self._ask_all({member: FetchKept() for member in wanted}, Kept, ANSWER_S)
            for member, kept in answers.items():
                member.keep(kept)
            wanted = [member for member, kept in answers.items() if kept.has_more]

    # --- clocks

    def _ask_clock(self, member: Member) -> None:
        member.compared_ns = self.clock()
        self._loose[member.client.ask(AskTime())] = (member, member.compared_ns)

    def _ask_clocks(self) -> None:
        """Compare the clock of the next client that is due; one request at a time."""
        asked = {member for member, _ in self._loose.values()}
        now = self.clock()
        for member in self.live:
            if member not in asked and now - member.compared_ns >= EXCHANGE_NS:
                self._ask_clock(member)
                return  # await it alone: other answers would be read late

    def _until_exchange_ns(self) -> int:
        now = self.clock()
        return max(
            0, min((member.compared_ns + EXCHANGE_NS - now for member in self.live), default=EXCHANGE_NS)
        )

    def _maybe_timing(self, member: Member) -> Timing | None:
        """Return a new timing of the open plan if the client's clock is known better than before."""
        if not isinstance(self._plan, Open):
            return None
        known, found = self._timings[member], member.clock.fit.timing(self._start_ns)
        after_ns = self.clock() + EXCHANGE_NS - self._start_ns
        moved_ns = found.start_ns - known.start_ns + (found.quicker - known.quicker) * after_ns
        if abs(moved_ns) < SAME_NS:
            return None
        self._timings[member] = found
        return found

    def _keep_alive(self) -> None:
        """Send keep-alive messages to idle clients."""
        while not self._over.wait(IDLE_S / 2):
            if self.clock() - self._called_ns < IDLE_S * NS_PER_S or not self._lock.acquire(blocking=False):
                continue
            try:
                for member in self.live:
                    self._ask_clock(member)
                self._wait_loose(self.clock() + NS_PER_S)
            finally:
                self._lock.release()

    # --- lost clients

    def _need_one(self) -> None:
        if not self.live and not self._left:
            raise all_lost(self.members)

    def _lose(self, member: Member, why: str) -> None:
        if member.loss is not None:
            return
        now, last, plan = self.clock(), member.report, self._plan
        others = [each for each in self.live if each is not member]
        member.loss = Loss(
            now,
            why,
            outstanding=0 if last is None else last.outstanding,
            silent_ns=max(0, now - (self._start_ns if last is None else member.clock.to_our(last.seen_ns))),
            is_taken_over=isinstance(plan, Open) and bool(others),
        )
        self._loose = {pending: asked for pending, asked in self._loose.items() if asked[0] is not member}
        member.client.ask(FinishClient())  # it may be alive but unreachable
        if isinstance(plan, Open) and others:
            self._share_out(plan, member, others)

    def _share_out(self, plan: Open, lost: Member, others: list[Member]) -> None:
        """Give the rest of a lost client's share to the others; requests due in the meantime are missing."""
        workers = [member for member in others for _ in range(member.workers)]
        from_number = 0
        if not isinstance(plan.schedule, Renewal):  # whose times are known only to the workers that draw them
            from_number = Arrivals(plan._replace(count=None)).by(max(0, self.clock() - self._start_ns))
        left = [part.from_number(from_number) for parts in lost.parts for part in parts]
        shares = list(zip(*(part.split(len(workers)) for part in left if part.length), strict=True))
        if not shares:
            return
        caps = () if plan.cap is None else tuple(_shares(plan.cap, len(workers)))
        at = 0
        for member in others:
            own = slice(at, at + member.workers)
            more = tuple(shares[own])
            member.parts = [(*had, *got) for had, got in zip(member.parts, more, strict=True)]
            timing = self._timings[member] = member.clock.fit.timing(self._start_ns)
            self._loose[member.client.ask(AdjustPlan(timing, more, caps[own]))] = (member, 0)
            at += member.workers

    # --- messages

    def _called(self) -> "_Call":
        return _Call(self)

    def _ask_all(
        self,
        messages: Mapping[Member, Question],
        kind: type[Kind],
        timeout_s: float,
        take: Callable[[Member, Kind], None] | None = None,
    ) -> dict[Member, Kind]:
        """Return the answers of all clients; those that do not answer in time count as lost."""
        waiting = {member.client.ask(message): member for member, message in messages.items()}
        deadline_ns = self.clock() + round(timeout_s * NS_PER_S)
        hurry = Deadline.after(timeout_s, last_s=UNDO_LAST_S)
        answers = dict[Member, Kind]()
        while waiting and self.clock() < deadline_ns and not hurry.has_passed():
            for pending, answer in self._wait_some(waiting, deadline_ns):
                member = waiting.pop(pending)
                if isinstance(answer, kind):
                    answers[member] = answer
                    if take is not None:
                        take(member, answer)
                else:
                    self._failed(member, answer)
        for member in waiting.values():
            self._lose(member, f"it did not answer for {plain_number(timeout_s)} s")
        return {member: answer for member, answer in answers.items() if member.loss is None or take}

    def _wait_loose(self, until_ns: int) -> None:
        while self._loose and self.clock() < until_ns:
            self._wait_some({}, until_ns)
        for member, _ in list(self._loose.values()):
            if self.clock() - member.compared_ns >= ANSWER_S * NS_PER_S:
                self._lose(member, f"it did not answer for {plain_number(ANSWER_S)} s")

    def _wait_some(
        self, waiting: Iterable[Pending], until_ns: int
    ) -> list[tuple[Pending, ClientAnswer | ClientLost]]:
        """Return answers to the awaited requests; other answers are handled here."""
        timeout_s = max(0.0, min((until_ns - self.clock()) / NS_PER_S, 1.0))
        came = self.network.wait([*waiting, *self._loose], timeout_s)
        now = self.clock()
        found = []
        for pending, answer in came:
            asked = self._loose.pop(pending, None)
            if asked is None:
                if pending in waiting:
                    found.append((pending, answer))
            elif isinstance(answer, ClientTime):
                asked[0].clock.add(Exchange(asked[1], answer.now_ns, now))
            elif isinstance(answer, ClientLost | ClientFailed):
                self._failed(asked[0], answer)
        return found

    def _failed(self, member: Member, answer: object) -> None:
        """Mark a failed client as lost; raise errors caused by the user or the server."""
        if isinstance(answer, ClientLost):
            self._lose(member, answer.why)
        elif isinstance(answer, ClientFailed) and isinstance(answer.error, InferometerError):
            if not isinstance(answer.error, LocalError):
                raise answer.error
            self._lose(member, answer.error.message)
        else:
            text = answer.text if isinstance(answer, ClientFailed) else f"it answered {answer!r}"
            self._lose(member, text.strip().splitlines()[-1])


class _Call:
    """A call to the load, during which the keep-alive thread pauses."""

    __slots__ = ("_clients",)

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    def __enter__(self) -> None:
        self._clients._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._clients._called_ns = self._clients.clock()
        self._clients._lock.release()


def _parts(plan: Plan, first: int, workers: int, total: int) -> list[tuple[Progression, ...]]:
    """Return the parts of an open plan for each worker of a client."""
    if not isinstance(plan, Open):
        return []
    shares = [plan.share(number, total) for number in range(first, first + workers)]
    return [
        (Progression(each.first, each.stride, -1 if each.count is None else each.count),) for each in shares
    ]


def _shares(total: int, parts: int) -> Iterable[int]:
    return (max(1, total // parts + (part < total % parts)) for part in range(parts))
