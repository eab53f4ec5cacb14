"""A whole profile on a simulated clock: exact to the nanosecond, in milliseconds.

`FakeServer` stands in for the network and the server: the engine sends into it, and each request ends after the
service time its script gives. `SimulatedLoad` runs the real engine on it.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush

from inferometer.load.engine import Engine, Explain, Finish, Link
from inferometer.load.load import Cost, Harvest
from inferometer.load.plan import Plan
from inferometer.load.sequences import Mark, Sequences
from inferometer.load.workers import ROUND_NS
from inferometer.records import status as outcome
from inferometer.records.records import Records, RingReader, join
from inferometer.records.ring import CELLS, RingWriter
from inferometer.testing.clock import FakeClock


@dataclass(frozen=True, slots=True)
class Reply:
    """What the server does with one request."""

    service_ns: int
    status: int = outcome.OK
    received: int = 100


Script = Callable[[int, int], Reply]
"""(number of the request, time it was sent) -> what happens to it."""


@dataclass(slots=True)
class FakeServer:
    """`servers` requests are served at a time, the others queue; None serves all at once."""

    script: Script
    servers: int | None = None
    number: int = 0
    free_at: list[int] = field(default_factory=list)

    def reply_to(self, sent_ns: int) -> tuple[int, Reply]:
        """When the request ends, and how."""
        reply = self.script(self.number, sent_ns)
        self.number += 1
        if self.servers is None:
            return sent_ns + reply.service_ns, reply
        start_ns = sent_ns if len(self.free_at) < self.servers else max(sent_ns, heappop(self.free_at))
        end_ns = start_ns + reply.service_ns
        heappush(self.free_at, end_ns)
        return end_ns, reply


class _FakeNetwork:
    """Link and reactor in one: a heap of requests by the time they end."""

    def __init__(self, server: FakeServer, clock: FakeClock, finish: Finish, explain: Explain) -> None:
        self.reconnects = self.connects = self.connect_ns = self.opening = 0
        self._server = server
        self._clock = clock
        self._finish = finish
        self._explain = explain
        self._ends: list[tuple[int, int, int]] = []  # (end, order, slot)
        self._order = itertools.count()
        self._live: dict[int, tuple[int, int, Reply]] = {}  # slot -> (order, sent, reply)
        self.marks: list[tuple[int, Mark]] = []  # (step, mark) of every request of a sequence

    def send(self, slot: int, step: int, now_ns: int, mark: Mark | None) -> None:
        if mark is not None:
            self.marks.append((step, mark))
        end_ns, reply = self._server.reply_to(now_ns)
        order = next(self._order)
        self._live[slot] = (order, now_ns, reply)
        heappush(self._ends, (end_ns, order, slot))

    def prepare(self, slots: int) -> None:
        pass

    def cancel(self, slot: int, status: int, text: str) -> None:
        _, sent_ns, _ = self._live.pop(slot)
        self._explain(status, text)
        self._finish(slot, status, sent_ns, sent_ns, 0, self._clock(), 0)

    def close(self, slot: int) -> None:
        pass

    def wait(self, until_ns: int | None) -> None:
        if self._ends and (until_ns is None or self._ends[0][0] <= until_ns):
            now = self._ends[0][0]
            self._clock.move_to(now)
            while (
                self._ends and self._ends[0][0] == now
            ):  # all that end at this moment, as epoll would report them
                _, order, slot = heappop(self._ends)
                self._end(order, slot, now)
        elif until_ns is not None:
            self._clock.move_to(until_ns)

    def _end(self, order: int, slot: int, now_ns: int) -> None:
        live = self._live.get(slot)
        if live is None or live[0] != order:
            return  # cancelled meanwhile
        del self._live[slot]
        _, sent_ns, reply = live
        if reply.status:
            self._explain(reply.status, f"scripted {outcome.kind(reply.status)}")
        self._finish(slot, reply.status, sent_ns, sent_ns, now_ns, now_ns, reply.received)


class SimulatedLoad:
    """The engine in this process, on a simulated clock and server."""

    def __init__(
        self,
        server: FakeServer,
        clock: FakeClock,
        *,
        requests: int = 1,
        timeout_ns: int = 0,
        sequences: Sequences | None = None,
    ) -> None:
        self._clock = clock
        cells = memoryview(bytearray(CELLS * 8)).cast("q")
        ring = RingWriter(cells)
        self._reader = RingReader(cells)
        self._backlog: list[Records] = []
        networks: list[_FakeNetwork] = []

        def open_link(*, finish: Finish, explain: Explain) -> Link:
            networks.append(_FakeNetwork(server, clock, finish, explain))
            return networks[0]

        class _Reactor:
            def wait(self, until_ns: int | None) -> None:
                networks[0].wait(until_ns)

        self._engine = Engine(
            steps=requests,
            open_link=open_link,
            reactor=_Reactor(),
            ring=ring,
            clock=clock,
            on_crowded=self._drain,
            timeout_ns=timeout_ns,
            sequences=sequences,
        )
        self.marks = networks[0].marks

    def apply(self, plan: Plan) -> None:
        engine = self._engine
        engine.apply(plan, self._clock())
        engine.run(None, lambda: engine.is_applied)

    def collect(self, until_ns: int) -> Harvest:
        engine = self._engine
        engine.run(min(until_ns, self._clock() + ROUND_NS), lambda: engine.is_finished)
        self._drain()
        taken, self._backlog = join(self._backlog), []
        return Harvest(
            records=taken,
            seen_ns=self._clock(),
            cost=Cost(cpu_ns=(0,), sent=engine.sent, reconnects=0, connects=0, connect_ns=0),
            is_finished=engine.is_finished,
        )

    def examples(self) -> dict[int, str]:
        return dict(self._engine.examples)

    def stop(self) -> int:
        return self._engine.cancel_all()

    def _drain(self) -> None:
        taken = self._reader.take()
        if len(taken):
            self._backlog.append(taken)
