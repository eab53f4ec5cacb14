"""The loop that keeps load on a server.

The rules:

* A **slot** is one unit of concurrency: a number from 0 up. It has at most one request outstanding.
* The **link** owns sockets and codecs. `link.send(slot, step, now)` starts a request; some time later the
  link calls `engine.finish(slot, ...)` exactly once for it, good or bad. The engine never sees a byte.
* The **reactor** waits for whatever the link registered, and calls it. On a simulated clock it jumps there.
* The engine decides what comes next: another request on the same slot, a pause after a failure in which the
  server did not answer at all, or nothing, because the plan's count is used up or the slot is surplus.

                 issue(slot) ------> link.send
                     ^                  | bytes, later
              plan   |                  v
                     +------------- finish(slot) ---> row in the ring

The path of a good reply (finish, issue) runs some ten thousand times a second: it touches only local
names and lists, allocates nothing, and the collector is off while it runs (worker.py).
"""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Protocol

from inferometer.base.clock import Clock
from inferometer.base.units import NS_PER_MS
from inferometer.load.plan import Closed
from inferometer.records import status as outcome
from inferometer.records.ring import HEADER, ROW, RingWriter

FIRST_PAUSE_NS = 10 * NS_PER_MS
LONGEST_PAUSE_NS = 1000 * NS_PER_MS


class Finish(Protocol):
    """How a link reports the end of a request; times it never reached are 0."""

    def __call__(
        self,
        slot: int,
        status: int,
        sent_ns: int,
        wrote_ns: int,
        first_ns: int,
        end_ns: int,
        received: int,
        responses: int = 1,
        times: Sequence[int] = (),
    ) -> None: ...


class Link(Protocol):
    """All connections of one worker to the server."""

    reconnects: int
    connects: int
    connect_ns: int  # summed over `connects`

    @property
    def opening(self) -> int:
        """Connections that are being set up."""

    def send(self, slot: int, step: int, now_ns: int) -> None:
        """Start the request of this step of the dataset."""

    def cancel(self, slot: int, status: int, text: str) -> None:
        """Give up the slot's request; `finish` is called with this status."""

    def close(self, slot: int) -> None: ...


class Reactor(Protocol):
    """Waits for the link's events and calls their handlers."""

    def wait(self, until_ns: int | None) -> None:
        """Return after events were handled, or at `until_ns` at the latest."""


Explain = Callable[[int, str], None]
"""(status, what was said): kept once per status, as the example of its failures."""


class OpenLink(Protocol):
    """Makes the link, given where it reports to."""

    def __call__(self, *, finish: Finish, explain: Explain) -> Link: ...


class Engine:
    """Applies plans to a link and writes one row per finished request."""

    def __init__(
        self,
        *,
        steps: int,
        open_link: OpenLink,
        reactor: Reactor,
        ring: RingWriter,
        clock: Clock,
        on_crowded: Callable[[], None],
        first_step: int = 0,
        stride: int = 1,
        timeout_ns: int = 0,
    ) -> None:
        self.examples: dict[int, str] = {}  # of each failure status, what was said first
        self.active = 0  # slots that are working or pausing
        self._step_count = steps
        self._reactor = reactor
        self._ring = ring
        self._cells = ring.cells
        self._clock = clock
        self._on_crowded = on_crowded
        self._step = first_step % steps
        self._stride = stride
        self._timeout_ns = timeout_ns
        self._due: list[int] = []
        self._steps: list[int] = []
        self._busy: list[bool] = []
        self._failures: list[int] = []  # of each slot, in a row, without an answer
        self._pauses: list[tuple[int, int]] = []  # heap of (until, slot)
        self._plan = Closed(0)
        self._remaining = -1  # requests still to issue; below 0 there is no end
        self.link = open_link(finish=self.finish, explain=self._explain)
        self._send = self.link.send

    # --- what the worker asks for

    def apply(self, plan: Closed) -> None:
        """Change to this plan at once; surplus slots end with the request they carry."""
        self._plan = plan
        self._remaining = -1 if plan.count is None else plan.count
        while len(self._due) < plan.concurrency:
            self._due.append(0)
            self._steps.append(0)
            self._busy.append(False)
            self._failures.append(0)
        paused = {slot for _, slot in self._pauses}
        for slot in range(plan.concurrency):
            if not self._busy[slot] and slot not in paused:
                self.active += 1
                self._issue(slot)

    @property
    def is_applied(self) -> bool:
        """As many slots work as the plan asks for (fewer once its count is used up), each on its connection."""
        return (self.active == self._plan.concurrency or self._remaining == 0) and not self.link.opening

    @property
    def is_finished(self) -> bool:
        """The plan's count is used up and every request has ended."""
        return self.active == 0

    def run(self, until_ns: int | None, stop: Callable[[], bool] = lambda: False) -> None:
        """Turn the loop until the given time, or until `stop` says so."""
        clock, ring, wait = self._clock, self._ring, self._reactor.wait
        next_tick = self._next_tick()
        while not stop():
            wake = until_ns
            if self._pauses and (wake is None or self._pauses[0][0] < wake):
                wake = self._pauses[0][0]
            if next_tick and (wake is None or next_tick < wake):
                wake = next_tick
            wait(wake)
            ring.publish()
            if wake is not None:
                now = clock()
                if self._pauses and self._pauses[0][0] <= now:
                    self._resume(now)
                if next_tick and next_tick <= now:
                    self._cancel_late(now)
                    next_tick = self._next_tick()
                if until_ns is not None and now >= until_ns:
                    break
            if ring.crowded:
                self._on_crowded()

    def cancel_all(self) -> int:
        """Give up whatever is outstanding and issue nothing more; how many requests that cut off."""
        self._plan, self._remaining = Closed(0), 0
        self.active -= len(self._pauses)
        self._pauses.clear()
        cut = [slot for slot, busy in enumerate(self._busy) if busy]
        for slot in cut:
            self.link.cancel(slot, outcome.CANCELLED, "still running at the end")
        self._ring.publish()
        return len(cut)

    # --- the hot path

    def finish(
        self,
        slot: int,
        status: int,
        sent_ns: int,
        wrote_ns: int,
        first_ns: int,
        end_ns: int,
        received: int,
        responses: int = 1,
        times: Sequence[int] = (),
    ) -> None:
        """Called by the link, once per request; `times` are those of a stream's responses."""
        cells, ring = self._cells, self._ring
        i = ring.position
        cells[i] = self._due[slot]
        cells[i + 1] = sent_ns
        cells[i + 2] = wrote_ns
        cells[i + 3] = first_ns
        cells[i + 4] = end_ns
        cells[i + 5] = status
        cells[i + 6] = self._steps[slot]
        cells[i + 7] = received
        cells[i + 8] = responses
        cells[i + 9] = ring.stamp(times) if times else 0
        i += ROW
        ring.position = i if i != ring.end else HEADER
        ring.written += 1
        self._busy[slot] = False
        if status:
            if self._failed(slot, end_ns, received):
                return
        elif self._failures[slot]:
            self._failures[slot] = 0
        self._issue(slot)

    def _issue(self, slot: int) -> None:
        if slot >= self._plan.concurrency or self._remaining == 0:
            self.active -= 1
            self.link.close(slot)
            return
        if self._remaining > 0:
            self._remaining -= 1
        step = self._step
        self._step = (step + self._stride) % self._step_count
        self._steps[slot] = step
        self._busy[slot] = True
        now = self._clock()
        self._due[slot] = now
        self._send(slot, step, now)

    # --- failures

    def _failed(self, slot: int, now_ns: int, received: int) -> bool:
        """A server that does not answer is asked again after a pause, longer each time: True when pausing."""
        if received or slot >= self._plan.concurrency or self._remaining == 0:
            return False
        pause = min(FIRST_PAUSE_NS << min(self._failures[slot], 16), LONGEST_PAUSE_NS)
        self._failures[slot] += 1
        heappush(self._pauses, (now_ns + pause, slot))
        return True

    def _resume(self, now_ns: int) -> None:
        while self._pauses and self._pauses[0][0] <= now_ns:
            self._issue(heappop(self._pauses)[1])

    def _explain(self, status: int, text: str) -> None:
        self.examples.setdefault(status, text)

    def _next_tick(self) -> int:
        return self._clock() + max(self._timeout_ns // 20, NS_PER_MS) if self._timeout_ns else 0

    def _cancel_late(self, now_ns: int) -> None:
        limit = now_ns - self._timeout_ns
        for slot, busy in enumerate(self._busy):
            if busy and self._due[slot] <= limit:
                text = f"no complete reply within {self._timeout_ns / 1e9:g} s"
                self.link.cancel(slot, outcome.TIMEOUT, text)
