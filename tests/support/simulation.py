"""A whole profile on a simulated clock: exact to the nanosecond, in milliseconds.

`FakeServer` replaces the network and the server: the engine sends to it, and each request ends after the
service time given by its script. `SimulatedLoad` runs the real engine on it.
"""

import copy
import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Any, Protocol

from inferometer.base import status as outcome
from inferometer.load.engine import Engine
from inferometer.load.link import Callbacks, Link, Responded
from inferometer.load.plan import NEVER, Cancellation, Plan
from inferometer.load.python_tasks import PythonTaskEngine
from inferometer.load.resumed import Progression, Timing
from inferometer.load.sequences import Mark, Sequences
from inferometer.load.task_engine import TaskEngine, TaskMessages
from inferometer.load.visit_engine import VisitEngine
from inferometer.load.visits import VisitMessages
from inferometer.load.workers import ROUND_NS, Collected, Cost
from inferometer.records.records import Records, RingReader, Totals, from_cells, join
from inferometer.records.ring import CELLS, RingWriter
from inferometer.services.task_plan import TaskPlan
from inferometer.services.traffic import Reply as ReadReply
from inferometer.services.visit_plan import VisitPlan
from inferometer.stats.machine_figures import CoreUse, HostUse
from tests.support.clock import FakeClock


@dataclass(frozen=True, slots=True)
class Reply:
    """Reaction of the server to one request."""

    service_ns: int
    status: int = outcome.OK
    received: int = 100
    responses_ns: tuple[int, ...] = ()  # arrival times of the responses of a stream, after the send
    unread_ns: int = 0  # from the end until it is read, as of a stream whose connection stays open
    is_unsent: bool = False  # the send itself fails, as without a route or a free descriptor


Script = Callable[[int, int], Reply]
"""(number of the request, time it was sent) -> what happens to it."""


@dataclass(slots=True)
class FakeServer:
    """A server with `servers` requests in service, while the others queue; None serves all at once."""

    script: Script
    servers: int | None = None
    number: int = 0
    free_at: list[int] = field(default_factory=list)

    def reply_to(self, sent_ns: int) -> tuple[int, Reply]:
        """Return when and how the request ends."""
        reply = self.script(self.number, sent_ns)
        self.number += 1
        if self.servers is None:
            return sent_ns + reply.service_ns, reply
        start_ns = sent_ns if len(self.free_at) < self.servers else max(sent_ns, heappop(self.free_at))
        end_ns = start_ns + reply.service_ns
        heappush(self.free_at, end_ns)
        return end_ns, reply

    def open(self, clock: FakeClock, callbacks: Callbacks) -> "_FakeNetwork":
        return _FakeNetwork(self, clock, callbacks)


class Server(Protocol):
    """The target of a simulated load."""

    def open(self, clock: FakeClock, callbacks: Callbacks) -> "Network": ...


class Network(Link, Protocol):
    """Link and reactor in one."""

    marks: list[tuple[int, Mark]]

    def wait(self, until_ns: int | None) -> None: ...


class _FakeNetwork:
    """Link and reactor in one: a heap of requests by the time they end."""

    def __init__(self, server: FakeServer, clock: FakeClock, callbacks: Callbacks) -> None:
        self.reconnects = self.resent = self.connects = self.connect_ns = self.opening = 0
        self.heard = 0
        self.is_flushed = True
        self._server = server
        self._clock = clock
        self._finish = callbacks.finish
        self._next_step = callbacks.next_step
        self._explain = callbacks.explain
        self._ends: list[tuple[int, int, int]] = []  # (end, order, slot)
        self._order = itertools.count()
        self._live: dict[int, tuple[int, int, Reply]] = {}  # slot -> (order, sent, reply)
        self._responses: list[tuple[int, int, int, int]] = []  # (time, order, slot, number)
        self.responded: Responded | None = None
        self.marks: list[tuple[int, Mark]] = []  # (step, mark) of every request of a sequence

    def send(self, slot: int, step: int, now_ns: int, mark: Mark | None) -> None:
        if mark is not None:
            self.marks.append((step, mark))
        end_ns, reply = self._server.reply_to(now_ns)
        if reply.is_unsent:
            self._explain(reply.status, f"scripted {outcome.kind(reply.status)}")
            self._finish(slot, reply.status, 0, 0, 0, now_ns, 0)
            return
        order = next(self._order)
        self._live[slot] = (order, now_ns, reply)
        heappush(self._ends, (end_ns + reply.unread_ns, order, slot))
        for number, after_ns in enumerate(reply.responses_ns, start=1):
            heappush(self._responses, (now_ns + after_ns, order, slot, number))

    def prepare(self, slots: int) -> None:
        pass

    def cancel(self, slot: int, status: int, text: str) -> None:
        _, sent_ns, reply = self._live.pop(slot)
        self._explain(status, text)
        now = self._clock()
        times = tuple(sent_ns + after for after in reply.responses_ns if sent_ns + after <= now)
        first_ns = times[0] if times else 0
        self._finish(slot, status, sent_ns, sent_ns, first_ns, now, 0, len(times), times)

    def sent_ns(self, slot: int) -> int:
        return self._live[slot][1]

    def times(self, slot: int) -> Sequence[int]:
        _, sent_ns, reply = self._live[slot]
        now = self._clock()
        return tuple(sent_ns + after for after in reply.responses_ns if sent_ns + after <= now)

    def said(self, slot: int) -> Sequence[str]:
        """As many words as responses have arrived."""
        return [f"w{number} " for number in range(len(self.times(slot)))]

    def close(self, slot: int) -> None:
        pass

    def wait(self, until_ns: int | None) -> None:
        if self._responses and self._respond(until_ns):
            return
        if self._ends and (until_ns is None or self._ends[0][0] <= until_ns):
            now = self._ends[0][0]
            self._clock.move_to(now)
            while (
                self._ends and self._ends[0][0] == now
            ):  # all requests that end at this moment, as epoll would report them
                _, order, slot = heappop(self._ends)
                self._end(order, slot, now)
        elif until_ns is not None:
            self._clock.move_to(until_ns)

    def _respond(self, until_ns: int | None) -> bool:
        """Process the next response of a stream; return whether there was one."""
        now, order, slot, number = self._responses[0]
        if now > (self._ends[0][0] if self._ends else NEVER) or (until_ns is not None and now > until_ns):
            return False
        heappop(self._responses)
        self._clock.move_to(now)
        if slot in self._live and self._live[slot][0] == order:
            self.heard += 1
            if self.responded is not None:
                self.responded(slot, number)
        return True

    def _end(self, order: int, slot: int, now_ns: int) -> None:
        live = self._live.get(slot)
        if live is None or live[0] != order:
            return  # cancelled in the meantime
        del self._live[slot]
        _, sent_ns, reply = live
        if reply.status:
            self._explain(reply.status, f"scripted {outcome.kind(reply.status)}")
        if reply.responses_ns:
            times = tuple(sent_ns + after_ns for after_ns in reply.responses_ns)
            end_ns = now_ns - reply.unread_ns
            self._finish(slot, reply.status, sent_ns, sent_ns, times[0], end_ns, 100, len(times), times)
        elif reply.status in outcome.NOT_SENT:
            self._finish(slot, reply.status, 0, 0, 0, now_ns, 0)
        elif reply.status:
            self._finish(slot, reply.status, sent_ns, sent_ns, now_ns, now_ns, reply.received)
        else:
            step, due_ns = self._next_step(slot, sent_ns, sent_ns, now_ns, reply.received)
            if step >= 0:
                self.send(slot, step, due_ns, None)


class _Echoes(dict[int, Any]):
    """Answers each slot with its own request."""

    def __init__(self, requests: dict[int, bytes]) -> None:
        self._requests = requests

    def pop(self, slot: int, default: Any = None) -> Any:
        return self._requests.get(slot)


class FakeMessages(VisitMessages):
    """Messages whose answer is the request itself: the simulated network carries no bytes."""

    def __init__(self, plan: VisitPlan) -> None:
        super().__init__(plan)
        self.answers = _Echoes(self._requests)


class FakeTaskMessages(TaskMessages):
    """Messages whose answer is the first word of the last message, in angle brackets."""

    def __init__(self) -> None:
        super().__init__()
        self.replies = _TaskEchoes(self.requests)


class _TaskEchoes(dict[int, ReadReply]):
    def __init__(self, requests: dict[int, bytes]) -> None:
        self._requests = requests

    def pop(self, slot: int, default: Any = None) -> Any:
        last = json.loads(self._requests[slot].partition(b"\r\n\r\n")[2])["messages"][-1]["content"]
        return ReadReply(message={"role": "assistant", "content": f"<{last.split()[0]}>"})


def new_cells() -> memoryview:
    """Cells of a ring; untouched memory costs nothing."""
    return memoryview(mmap(-1, CELLS * 8, flags=MAP_PRIVATE | MAP_ANONYMOUS)).cast("q")


class SimulatedLoad:
    """The engine in this process, on a simulated clock and server."""

    def __init__(
        self,
        server: Server,
        clock: FakeClock,
        *,
        requests: int = 1,
        timeout_ns: int = 0,
        sequences: Sequences | None = None,
        cancellation: Cancellation | None = None,
        index: int = 0,
        parts: int = 1,
        visits: VisitPlan | None = None,
        tasks: TaskPlan | None = None,
    ) -> None:
        self._clock = clock
        cells = new_cells()
        self._ring = RingWriter(cells)
        self._reader = RingReader(cells)
        self._backlog: list[Records] = []
        self._totals = Totals()
        networks: list[Network] = []

        def open_link(callbacks: Callbacks) -> Link:
            networks.append(server.open(clock, callbacks))
            return networks[0]

        class _Reactor:
            def wait(self, until_ns: int | None) -> None:
                networks[0].wait(until_ns)

            def add(self, fd: int, events: int, handler: Callable[[int], None]) -> None:
                """Ignore descriptors: on a simulated clock nothing arrives from outside."""

        self._engine: Engine | VisitEngine | TaskEngine
        self.task_messages = FakeTaskMessages()
        if tasks is not None:
            self._engine = (TaskEngine if tasks.code is None else PythonTaskEngine)(
                plan=tasks,
                messages=self.task_messages,
                open_link=open_link,
                reactor=_Reactor(),
                ring=self._ring,
                clock=clock,
                on_crowded=self._drain,
                first=index,
                stride=parts,
                timeout_ns=timeout_ns,
            )
            return
        if visits is not None:
            self._engine = VisitEngine(
                plan=visits,
                messages=FakeMessages(visits),
                open_link=open_link,
                reactor=_Reactor(),
                ring=self._ring,
                clock=clock,
                on_crowded=self._drain,
                first=index,
                stride=parts,
                timeout_ns=timeout_ns,
            )
            return
        self._engine = Engine(
            steps=requests,
            open_link=open_link,
            reactor=_Reactor(),
            ring=self._ring,
            clock=clock,
            on_crowded=self._drain,
            first_step=index,
            stride=parts,
            timeout_ns=timeout_ns,
            sequences=sequences,
            cancellation=cancellation,
        )
        self.marks = networks[0].marks

    def apply(self, plan: Plan, start_ns: int | None = None) -> int:
        engine, start_ns = self._engine, self._clock() if start_ns is None else start_ns
        engine.apply(plan, start_ns)
        engine.run(None, lambda: engine.is_applied)
        return start_ns

    def adjust(self, timing: Timing, more: Sequence[Progression]) -> None:
        self._engine.adjust(timing, more, None)

    def wait(self, until_ns: int) -> None:
        engine = self._engine
        engine.run(until_ns, lambda: engine.is_finished)
        self._clock.move_to(until_ns)  # a load that sends nothing waits, too

    def collect(self, until_ns: int, *, with_running: bool = False) -> Collected:
        engine = self._engine
        engine.run(min(until_ns, self._clock() + ROUND_NS), lambda: engine.is_finished)
        self._ring.publish()
        self._drain()
        taken, self._backlog = join(self._backlog), []
        return Collected(
            records=taken,
            seen_ns=self._clock(),
            cost=Cost(
                cpu_ns=(0,),
                sent=engine.sent,
                reconnects=0,
                connects=0,
                connect_ns=0,
                visits=0 if isinstance(engine, Engine) else engine.begun,
            ),
            is_finished=engine.is_finished,
            outstanding=engine.outstanding,
            heard=engine.link.heard,
            running=from_cells(*engine.running(self._clock())) if with_running else None,
        )

    def examples(self) -> dict[int, str]:
        return dict(self._engine.examples)

    def stop(self, *, is_urgent: bool = False) -> int:
        return self._engine.cancel_all()

    def close(self) -> None:
        if isinstance(self._engine, PythonTaskEngine):
            self._engine.close()

    def totals(self) -> Totals:
        self._drain()
        return replace(self._totals, sent=self._engine.sent)

    def _drain(self) -> None:
        taken = self._reader.take()
        if len(taken):
            self._backlog.append(taken)
            self._totals = self._totals.and_records(taken)


class SimulatedWorkers:
    """Several engines side by side, each on its own clock, kept in step with the others.

    They share the server's script but not its queue, so a reply may depend only on the time its request was sent. Each
    request costs `cpu_ns` of its worker's core.
    """

    def __init__(
        self, script: Script, clock: FakeClock, *, count: int = 1, requests: int = 1, cpu_ns: int = 0
    ) -> None:
        self._script = script
        self._clock = clock
        self._requests = requests
        self._cpu_ns = cpu_ns
        self.count = 0
        self._clocks: list[FakeClock] = []
        self._loads: list[SimulatedLoad] = []
        self.resize(count)

    def resize(self, count: int) -> None:
        self.count = count
        self._clocks = [FakeClock(self._clock()) for _ in range(count)]
        self._loads = [
            SimulatedLoad(FakeServer(self._script), clock, requests=self._requests, index=index, parts=count)
            for index, clock in enumerate(self._clocks)
        ]

    def apply(self, plan: Plan) -> int:
        start_ns = self._clock()
        for index, (load, clock) in enumerate(zip(self._loads, self._clocks, strict=True)):
            clock.move_to(self._clock())
            # As in separate processes: each worker draws a random schedule itself.
            load.apply(copy.deepcopy(plan.share(index, self.count)))
        return start_ns

    def totals(self) -> Totals:
        return sum((load.totals() for load in self._loads), Totals())

    def wait(self, until_ns: int) -> None:
        for load in self._loads:
            load.wait(until_ns)
        for clock in (self._clock, *self._clocks):
            clock.move_to(max(until_ns, clock()))

    def collect(self, until_ns: int, *, with_running: bool = False) -> Collected:
        target_ns = min(until_ns, self._clock() + ROUND_NS)
        parts = [load.collect(target_ns, with_running=with_running) for load in self._loads]
        running = [part.running for part in parts if part.running is not None]
        is_finished = all(collected.is_finished for collected in parts)
        now = max(clock() for clock in self._clocks) if is_finished else max(target_ns, self._clock())
        for clock in (self._clock, *self._clocks):
            clock.move_to(max(now, clock()))
        sent = tuple(collected.cost.sent for collected in parts)
        return Collected(
            records=join([collected.records for collected in parts]),
            seen_ns=self._clock(),
            cost=Cost(
                cpu_ns=tuple(number * self._cpu_ns for number in sent),
                sent=sum(sent),
                reconnects=0,
                connects=0,
                connect_ns=0,
            ),
            is_finished=is_finished,
            outstanding=sum(collected.outstanding for collected in parts),
            heard=sum(collected.heard for collected in parts),
            running=join(running) if running else None,
        )

    def examples(self) -> dict[int, str]:
        return {status: text for load in self._loads for status, text in load.examples().items()}

    def stop(self, *, is_urgent: bool = False) -> int:
        return sum(load.stop() for load in self._loads)


class StarvedHost:
    """A machine on which this tool waits for a core each time that it needs one."""

    gpu_share = None
    devices = ()

    def __init__(self, wait_ms: float = 4.0) -> None:
        self._runs = 400 / wait_ms

    def begin(self) -> None:
        pass

    look = begin

    def end(self) -> HostUse:
        ours = CoreUse(0.05, 0.4, self._runs)
        return HostUse(2, 2.0, 0.1, ours=ours, seconds=10.0, crowded_s=10.0, crowded_cores=1.5)

    def ended(self) -> str:
        return ""
