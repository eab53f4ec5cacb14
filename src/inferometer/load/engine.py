"""The loop that keeps load on a server.

The rules:

* A **slot** is one unit of concurrency, numbered from 0. It has at most one request outstanding.
* The **link** owns sockets and codecs. `link.send(slot, step, now, mark)` starts a request; some time later the
  link calls `engine.finish(slot, ...)` exactly once for it, success or failure. The engine never sees a byte.
* A link may call `engine.next_step(slot, ...)` instead for a successful reply that was only counted. A slot that is
  **steady**, in a closed plan without an end, gets the next step as the return value, and the link sends it: one call
  fewer.
* The **reactor** waits for the events that the link registered and calls their handlers. A simulated clock jumps there.
* The engine decides what comes next. In a closed plan: another request on the same slot, a pause after a
  failure in which the server did not answer at all, or nothing if the plan's count is used up or the
  slot is surplus. In an open plan the slot becomes free; the next request takes one when it is due, or, at the
  plan's cap, as soon as one is free, and its wait counts from when it was due. In a periodic plan each slot
  has one request (periodic.py). Due times and pauses are in plan_clock.py.
* Slots of a closed plan that need a new connection start in bursts, because front ends otherwise drop requests.
* A link may call `finish` from within `send`: without a route or a free descriptor a request fails at once. So
  `finish` never recurses without end: an open plan leaves sending to the loop, a closed one pauses.

                 issue(slot) ------> link.send
                  ^       ^             | bytes, later
        due times |       | plan        v
                  +------------- finish(slot) ---> row in the ring

A slot takes its next step some ten thousand times a second, and in between the server has used the caches: the cost
depends less on the length of the path than on the number of places it touches. It is one function here and few in the
links, and the garbage collector is off while they run (worker.py).
"""

from array import array
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any, Protocol

from inferometer.base import status as outcome
from inferometer.base.drawn_times import ThinkTime
from inferometer.base.units import NS_PER_MS, Clock
from inferometer.load.balance import Balance, Send
from inferometer.load.link import NOTHING, Callbacks, Finish, NextStep, OpenLink, RequestLog, always_finish
from inferometer.load.periodic import Batches
from inferometer.load.plan import NEVER, Cancellation, Closed, Open, Periodic, Plan
from inferometer.load.plan_clock import PlanClock, Timeout, pause_after
from inferometer.load.resumed import Progression, Timing
from inferometer.load.sequences import Mark, Sequences
from inferometer.records.ring import FIRST_BYTE, ROW_BYTES, WRITTEN, RingWriter, of_which, pack_row
from inferometer.records.spool import Spool, SpoolHead

# Sends per round of an open plan that is behind: a request on a new connection causes two events later, and a round
# reads about twice as many. With more, a client that is behind would keep sending and read ever fewer of the replies.
DUE_BURST = 20
DUE_NS = 2 * NS_PER_MS  # time limit for these sends: when ports are scarce, a connect takes milliseconds
LOOK_EVERY = 1024  # rows between checks of how full the ring is; it holds many times as many
EXAMPLE = 4096  # characters of an error text: all examples travel to the controller several times a second


class Reactor(Protocol):
    """Waits for the link's events and calls their handlers."""

    def wait(self, until_ns: int | None) -> None:
        """Return after events have been handled, or at `until_ns` at the latest."""


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
        sequences: Sequences | None = None,
        spool: Spool | None = None,
        log: RequestLog | None = None,
        cancellation: Cancellation | None = None,
        balance: Balance | None = None,
    ) -> None:
        self.examples: dict[int, str] = {}  # first error text of each failure status
        self.active = 0  # slots that are busy or pausing
        self.is_interrupted = False  # set to make run() return
        self._is_over = False  # nothing more is sent, not even to end a sequence
        self._step_count = steps
        self._reactor = reactor
        self._ring = ring
        self._cells = ring.cells
        self._clock = clock
        self._on_crowded = on_crowded
        self._step = first_step % steps
        self._stride = stride % steps
        self._timeout = Timeout(timeout_ns)
        self._times = PlanClock()
        self._due: list[int] = []
        self._started: list[int] = []
        self._steps: list[int] = []
        self._busy: list[bool] = []
        self._failures: list[int] = []  # consecutive failures of each slot
        self._is_steady: list[bool] = []  # the slot's next request follows a success at once
        self._sequences = sequences
        self._marks: list[Mark | None] = []
        self._lanes: list[int] = []  # lane of each slot in an open plan
        # --- closed plans
        self._concurrency = 0
        self._is_endless = False  # closed, without a count, without sequences
        self._ramp: set[int] = set()  # slots that have not started yet
        self._thinking: ThinkTime | None = None
        self._thoughts: list[int] = []  # answers of each slot after which it paused to think
        self._free: list[int] = []  # slots of an open plan
        self._batches: Batches | None = None  # of a periodic plan
        self._again = self._issue  # called for a slot after its request has ended
        self._spool = spool
        self._log = log
        # --- requests to cancel
        self._cancellation = cancellation
        self._draws = iter(()) if cancellation is None else cancellation.draws(first_step)
        self._cancels: list[tuple[int, int, int]] = []  # heap of (when, slot, start of its request)
        finish: Finish = self.finish
        next_step: NextStep = self.next_step
        if spool is not None or log is not None:
            finish = self._finish_observed
        if balance is not None:
            finish = balance.ending(finish)
        if spool is not None or log is not None or cancellation is not None or balance is not None:
            next_step = always_finish(finish)
        self.link = open_link(Callbacks(finish, next_step, self._explain))
        self._send: Send = self.link.send if log is None else self._send_logged
        if balance is not None:
            self._send = balance.sending(self._send, self._steps)

    # --- called by the worker

    def apply(self, plan: Plan, start_ns: int = 0) -> None:
        """Switch to this plan at once; surplus slots end after their current request."""
        if self._batches is not None:
            self._batches = self.link.responded = None
        if isinstance(plan, Closed):
            self._apply_closed(plan)
        elif isinstance(plan, Open):
            self._apply_open(plan, start_ns)
        else:
            assert isinstance(plan, Periodic)
            self._apply_periodic(plan)
        self._close_idle_lanes()

    def adjust(self, timing: Timing, more: Sequence[Progression], cap: int | None) -> None:
        """Continue the open plan with another timing and with more of its requests."""
        self._times.adjust(timing, more, cap)

    @property
    def outstanding(self) -> int:
        """Number of requests that have started and not ended."""
        return sum(self._busy)

    def running(self, now_ns: int) -> "tuple[array[int], array[int]]":
        """Return the rows of requests in flight as if they ended now, and the times of their responses so far."""
        rows, stamps = array("q"), array("q")
        for slot, is_busy in enumerate(self._busy):
            sent_ns = self.link.sent_ns(slot) if is_busy else 0
            if not sent_ns:  # its connection is still opening
                continue
            times = self.link.times(slot)
            first_ns, count = (times[0], len(times)) if times else (0, 0)
            rows.extend((self._due[slot], sent_ns, sent_ns, first_ns, now_ns, outcome.OK, self._steps[slot]))
            rows.extend((0, count, 0, 0, 0, 0, count))
            stamps.extend(times)
        return rows, stamps

    @property
    def sent(self) -> int:
        """Total number of requests sent."""
        return self._ring.written + self.outstanding

    def _apply_closed(self, plan: Closed) -> None:
        self._times.begin_closed(plan)
        self._again = self._issue if plan.think is None else self._think
        self._thinking = plan.think
        self._concurrency = plan.concurrency
        self._is_endless = plan.count is None and self._sequences is None and plan.think is None
        self._grow(plan.concurrency)
        for slot in range(len(self._is_steady)):
            self._settle(slot)
        self._recall_ramp()
        paused = {slot for _, slot in self._times.pauses}
        idle = [slot for slot in range(plan.concurrency) if not self._busy[slot] and slot not in paused]
        self.active += len(idle)
        if plan.ramp_ns:
            self._begin_ramp(plan, idle, self._clock())
        elif plan.think is not None:
            now_ns = self._clock()
            for slot in idle:
                self._times.pause(slot, now_ns + plan.think.first_ns(slot))
        else:
            self._times.start(idle, self._clock(), self.link, self._issue)

    def _begin_ramp(self, plan: Closed, idle: Sequence[int], now_ns: int) -> None:
        at_work = [self._started[slot] for slot, is_busy in enumerate(self._busy) if is_busy]
        starts = plan.starts_ns(len(idle), now_ns, max(at_work, default=None)) if idle else []
        for slot, start_ns in zip(idle, starts, strict=True):
            self._times.pause(slot, start_ns)
        self._ramp, self._times.last_start_ns = set(idle), now_ns
        self._resume(now_ns)

    def _recall_ramp(self) -> None:
        """Return slots that have not started yet to the idle state."""
        self.active -= self._times.drop_pauses(self._ramp.__contains__)
        self._ramp = set()

    def _apply_open(self, plan: Open, start_ns: int) -> None:
        self._again = self._release
        self._concurrency, self._is_endless = 0, False
        self._is_steady = [False] * len(self._is_steady)
        self.active -= self._times.drop_pauses()
        self._free = [slot for slot, busy in enumerate(self._busy) if not busy]
        if self._sequences is not None:
            self._sequences.open_lanes()
        self._times.begin_open(plan, start_ns, self.link)

    def _apply_periodic(self, plan: Periodic) -> None:
        self._apply_closed(Closed(0))
        self._batches, self._again = Batches(plan, self._begin_batch), self._complete
        self.link.responded = self._batches.responded
        self._batches.launch()

    def _grow(self, slots: int) -> None:
        more = max(0, slots - len(self._due))
        for numbers in (
            *(self._due, self._started, self._steps, self._failures, self._lanes),
            self._thoughts,
        ):
            numbers += [0] * more
        self._busy += [False] * more
        self._is_steady += [False] * more
        self._marks += [None] * more

    def _settle(self, slot: int) -> None:
        self._is_steady[slot] = self._is_endless and slot < self._concurrency and not self._failures[slot]

    @property
    def is_applied(self) -> bool:
        """Whether the number of slots that the plan asks for is running (fewer once its count is used up), each on its
        connection."""
        if self.link.opening or self._times.is_starting:
            return False
        if self._times.open is not None or self._batches is not None:
            return True
        is_over = self._times.remaining == 0 or (self._sequences is not None and self._sequences.is_over)
        return self.active == self._concurrency or is_over

    @property
    def is_finished(self) -> bool:
        """Whether every request has ended and none will follow."""
        return self.active == 0 and self._times.next_due >= NEVER

    def run(self, until_ns: int | None, stop: Callable[[], bool] | None = None) -> None:
        """Run the loop until the given time, until `stop` returns true, or until interrupted."""
        clock, ring, wait = self._clock, self._ring, self._reactor.wait
        cells, cancels, next_look = self._cells, self._cancels, 0
        times, pauses = self._times, self._times.pauses
        end = NEVER if until_ns is None else until_ns
        next_check = self._timeout.next_check_ns(clock())
        while not self.is_interrupted and not (stop is not None and stop()):
            wake = end if end < next_check else next_check
            if pauses and pauses[0][0] < wake:
                wake = pauses[0][0]
            if cancels and cancels[0][0] < wake:
                wake = cancels[0][0]
            if times.next_due < wake and self._has_room():
                wake = times.next_due
            wait(None if wake >= NEVER else wake)
            cells[WRITTEN] = ring.written  # ring.publish(), without the call
            if wake < NEVER or times.next_due < NEVER:
                now = clock()
                if times.next_due <= now:
                    self._issue_due(now)
                if pauses and pauses[0][0] <= now:
                    self._resume(now)
                if cancels and cancels[0][0] <= now:
                    self._cancel_due(now)
                if next_check <= now:
                    self._cancel_late(now)
                    next_check = self._timeout.next_check_ns(clock())
                if now >= end:
                    break
            if ring.written >= next_look or ring.has_stamps:
                next_look = ring.written + LOOK_EVERY
                if ring.crowded:
                    self._on_crowded()

    def cancel_all(self) -> int:
        """Cancel all outstanding requests and send no more; return the number cancelled."""
        self._is_over = True
        self.apply(Closed(0, 0))
        self.active -= self._times.drop_pauses()
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
        tokens: int = 0,
        prompt_tokens: int = 0,
        reasoning_tokens: int = 0,
        cached_tokens: int = 0,
        answer_at: int = 0,
        tool_at: int = 0,
        checked: int = 0,
    ) -> None:
        """Record the end of a request; the link calls this once per request. `times` are those of a stream's
        responses."""
        ring = self._ring
        position = ring.position
        mark = self._marks[slot]
        sequence, started = (0, 0) if mark is None else self._end_mark(mark)
        stamps = ring.stamp(times) if times else 0
        if reasoning_tokens or cached_tokens:
            tokens, prompt_tokens = of_which(tokens, reasoning_tokens), of_which(prompt_tokens, cached_tokens)
        if answer_at:
            responses = of_which(responses, answer_at)
        step = self._steps[slot]
        if tool_at:
            step = of_which(step, tool_at)
        outcomes = of_which(status, checked) if checked else status
        pack_row(
            self._cells, position,
            self._due[slot], sent_ns, wrote_ns, first_ns, end_ns, outcomes, step, received, responses,
            sequence, started, tokens, prompt_tokens, stamps,
        )  # fmt: skip
        position += ROW_BYTES
        ring.position = position if position != ring.stop else self._stopped(position, slot, sends_next=False)
        ring.written += 1
        self._busy[slot] = False
        if status:
            self._is_steady[slot] = False
            is_answered = bool(received) or status == outcome.MALFORMED
            if status != outcome.WITHDRAWN and self._failed(slot, end_ns, is_answered):
                return
        elif self._failures[slot]:
            self._failures[slot] = 0
            self._settle(slot)
        if mark is not None and self._pauses_between(slot, mark, end_ns):
            return
        self._again(slot)

    def next_step(
        self, slot: int, sent_ns: int, wrote_ns: int, now_ns: int, received: int
    ) -> tuple[int, int]:
        """Record a successful reply that was only counted, and return the next step; the link calls this instead of
        `finish`."""
        if not self._is_steady[slot]:
            self.finish(slot, 0, sent_ns, wrote_ns, now_ns, now_ns, received)
            return NOTHING
        ring, due, steps, clock = self._ring, self._due, self._steps, self._clock
        position = ring.position
        pack_row(
            self._cells, position,
            due[slot], sent_ns, wrote_ns, now_ns, now_ns, 0, steps[slot], received, 1, 0, 0, 0, 0, 0,
        )  # fmt: skip
        position += ROW_BYTES
        ring.position = position if position != ring.stop else self._stopped(position, slot, sends_next=True)
        ring.written += 1
        steps[slot] = step = self._step
        following = step + self._stride
        self._step = following if following < self._step_count else following - self._step_count
        due[slot] = now = clock()
        return step, now

    def _stopped(self, position: int, slot: int, *, sends_next: bool) -> int:
        """Return the position of the next row, now that the ring's `stop` is reached by a row that is not counted yet;
        `sends_next` if the slot's next request follows without `_send`."""
        return FIRST_BYTE

    def _finish_observed(
        self,
        slot: int,
        status: int,
        sent_ns: int,
        wrote_ns: int,
        first_ns: int,
        end_ns: int,
        received: int,
        responses: int = 1,
        *more: Any,
        **named: Any,
    ) -> None:
        """Replace `finish` when requests are exported or logged."""
        mark = self._marks[slot]
        if self._spool is not None:
            sequence = 0 if mark is None else mark.sequence_id
            step = self._steps[slot]
            head = SpoolHead(self._due[slot], sent_ns, end_ns, status, step, sequence, received, 0)
            self._spool.end(slot, head)
        if self._log is not None:
            self._log.finished(slot, status, end_ns - sent_ns if sent_ns else None, received, responses)
        self.finish(
            slot, status, sent_ns, wrote_ns, first_ns, end_ns, received, responses, *more, **named
        )  # fmt: skip

    def _send_logged(self, slot: int, step: int, now_ns: int, mark: Mark | None) -> None:
        assert self._log is not None
        self._log.sent(slot, step, mark)
        self.link.send(slot, step, now_ns, mark)

    def _issue(self, slot: int) -> None:
        """Send the next request of this slot of a closed plan, if there is one."""
        has_next = self._sequences is None or self._sequences.has_next(slot)
        times = self._times
        if slot >= self._concurrency or times.remaining == 0 or not has_next:
            self.active -= 1
            if not self._close_sequence(slot, self._lanes[slot]):
                self.link.close(slot)
            return
        if times.remaining > 0:
            times.remaining -= 1
        now = self._clock()
        self._due[slot] = now
        self._lanes[slot] = slot
        self._start(slot, now)

    def _start(self, slot: int, now_ns: int) -> None:
        if self._sequences is None:
            step = self._step
            self._step = (step + self._stride) % self._step_count
        else:
            step, self._marks[slot] = self._sequences.next(self._lanes[slot], self._due[slot])
        self._steps[slot] = step
        self._busy[slot] = True
        self._started[slot] = now_ns
        if self._cancellation is not None and next(self._draws):
            heappush(self._cancels, (now_ns + self._cancellation.after_ns, slot, now_ns))
        self._send(slot, step, now_ns, self._marks[slot])

    def _think(self, slot: int) -> None:
        """Pause the slot of a user before its next request, if there is one."""
        if self._thinking is None or slot >= self._concurrency or self._times.remaining == 0:
            if self._times.remaining == 0 and self._sequences is None:
                # Nobody waits for users who have nothing more to send.
                self.active -= self._times.drop_pauses()
            self._issue(slot)
            return
        self._thoughts[slot] += 1
        self._times.pause(slot, self._clock() + self._thinking.next_ns(slot, self._thoughts[slot]))

    # --- sequences

    def _pauses_between(self, slot: int, mark: Mark, now_ns: int) -> bool:
        """Pause the slot if the session has a delay before its next turn; return whether it pauses."""
        assert self._sequences is not None
        pause = (
            0
            if mark.is_end or self._times.open is not None
            else self._sequences.pause_ns(self._steps[slot] % self._step_count)
        )
        if not pause or slot >= self._concurrency:
            return False
        self._times.pause(slot, now_ns + pause)
        return True

    def _close_sequence(self, slot: int, lane: int) -> bool:
        """End the lane's unfinished sequence with one more request if the lane has no further turn."""
        sequences = self._sequences
        if (
            sequences is None
            or self._is_over
            or not self._is_retired(lane)
            or not sequences.is_idle_and_unfinished(lane)
        ):
            return False
        now = self._clock()
        self.active += 1
        step, self._marks[slot] = sequences.close(lane)
        self._lanes[slot] = lane
        self._due[slot] = self._started[slot] = now
        self._steps[slot] = step
        self._busy[slot] = True
        self._send(slot, step, now, self._marks[slot])
        return True

    def _is_retired(self, lane: int) -> bool:
        if self._times.open is None:
            return lane >= self._concurrency or self._times.remaining == 0
        assert self._sequences is not None
        return lane >= self._sequences.turns or self._times.next_due >= NEVER

    def _close_idle_lanes(self) -> None:
        """Close lanes that will get no further request."""
        if self._sequences is None:
            return
        for lane in self._sequences.unfinished():
            idle = (
                number for number, busy in enumerate(self._busy) if not busy and number >= self._concurrency
            )
            slot = next(idle, len(self._due))
            self._grow(slot + 1)
            if self._close_sequence(slot, lane) and slot in self._free:
                self._free.remove(slot)

    def _end_mark(self, mark: Mark) -> tuple[int, int]:
        """Return the sequence's ID and, for its last request, its start time."""
        assert self._sequences is not None
        self._sequences.ended(mark)
        return mark.sequence_id, mark.started_ns

    # --- open plans

    def _release(self, slot: int) -> None:
        """Free the slot; the loop gives it to a waiting request."""
        self.active -= 1
        if not self._close_sequence(slot, self._lanes[slot]):
            self._free.append(slot)

    def _has_room(self) -> bool:
        if self._sequences is not None and not self._sequences.has_free_lane:
            return False
        plan = self._times.open
        return plan is None or plan.cap is None or self.active < plan.cap

    def _issue_due(self, now_ns: int) -> None:
        """Send due requests, a limited number at a time so that replies are read in between."""
        times, plan = self._times, self._times.open
        assert plan is not None
        now, limit_ns = now_ns, now_ns + DUE_NS
        for _ in range(DUE_BURST):
            if times.next_due > now_ns or now > limit_ns or not self._has_room():
                return
            if self._free:
                slot = self._free.pop()
            else:
                slot = len(self._due)
                self._grow(slot + 1)
            if self._sequences is not None:
                self._lanes[slot] = self._sequences.pick()
            self.active += 1
            if plan.steps is not None:
                self._step = plan.steps[times.number]
            self._due[slot] = times.take_due(plan)
            now = self._clock()
            self._start(slot, now)
            if times.next_due >= NEVER:
                self._close_idle_lanes()

    # --- periodic plans

    def _begin_batch(self, slots: range) -> None:
        self._grow(slots.stop)
        self.active += len(slots)
        for slot in slots:
            now = self._clock()
            self._due[slot], self._lanes[slot] = now, slot
            self._start(slot, now)

    def _complete(self, slot: int) -> None:
        assert self._batches is not None
        self.active -= 1
        self._batches.check_ended(slot)
        self._close_sequence(slot, self._lanes[slot])

    # --- failures

    def _failed(self, slot: int, now_ns: int, is_answered: bool) -> bool:
        """Count a failure; return whether the slot pauses after it."""
        if self._batches is not None:
            self._batches.release(slot)
        if slot >= self._concurrency or self._times.remaining == 0:
            return False
        self._failures[slot] += 1
        pause_ns = pause_after(self._failures[slot], is_answered=is_answered)
        if pause_ns:
            self._times.pause(slot, now_ns + pause_ns)
        return pause_ns > 0

    def _resume(self, now_ns: int) -> None:
        for _, slot in self._times.ended_pauses(now_ns):
            self._ramp.discard(slot)
            self._issue(slot)

    def _explain(self, status: int, text: str) -> None:
        if status == outcome.WITHDRAWN:
            return
        if self._log is not None:
            self._log.failed(status, text)
        if status not in self.examples:
            self.examples[status] = text[:EXAMPLE]

    def _cancel_due(self, now_ns: int) -> None:
        """Cancel requests whose time since the send is over; those that have ended meanwhile were ordinary requests."""
        assert self._cancellation is not None
        while self._cancels and self._cancels[0][0] <= now_ns:
            _, slot, begun_ns = heappop(self._cancels)
            if not self._busy[slot] or self._started[slot] != begun_ns:
                continue
            sent_ns = self.link.sent_ns(slot) or now_ns  # its connection may still be opening
            if sent_ns + self._cancellation.after_ns <= now_ns:
                self.link.cancel(slot, outcome.WITHDRAWN, "")
            else:
                heappush(self._cancels, (sent_ns + self._cancellation.after_ns, slot, begun_ns))

    def _cancel_late(self, now_ns: int) -> None:
        limit = now_ns - self._timeout.limit_ns
        for slot, busy in enumerate(self._busy):
            # A steady slot's request starts when it is due; other starts are in `_started`.
            if busy and max(self._started[slot], self._due[slot]) <= limit:
                self.link.cancel(slot, outcome.TIMEOUT, self._timeout.text)
