"""The loop that sends visits: requests that depend on earlier answers.

A **visitor** is one unit of concurrency, like a slot of the plain engine: it has at most one request outstanding, and
makes one visit after the other. With a rate, a visit takes a visitor when it is due, and its time counts from then. The
links, plans, records and failure rules are those of the plain engine (engine.py); the difference is that a request is
generated when its turn comes, from earlier answers, and that every reply is read.

* A failed step ends its visit as failed; the visitor continues with the next visit. The same holds for a visit
  whose code fails before the first request: its row is that of a request that was never sent.
* A visitor in a pause is active, but has no request outstanding.
* A plan with fewer visitors dismisses the others after their current request. Their visits are incomplete, and count
  neither as successful nor as failed.
"""

from array import array
from collections.abc import Callable, Sequence

from inferometer.base import status as outcome
from inferometer.base.errors import LocalError, UsageError
from inferometer.base.units import Clock
from inferometer.load.engine import LOOK_EVERY, Reactor
from inferometer.load.link import Callbacks, OpenLink, always_finish
from inferometer.load.plan import NEVER, Closed, Open, Plan
from inferometer.load.plan_clock import BURST, PlanClock, Timeout, pause_after
from inferometer.load.resumed import Progression, Timing
from inferometer.load.visits import VisitError, VisitMessages, VisitRun
from inferometer.records.ring import FIRST_BYTE, ROW_BYTES, RingWriter, pack_row
from inferometer.records.visits import NO_VISIT, VisitCells, visit_cells
from inferometer.services.visit_plan import VisitPlan

MOST_VAIN = 3  # visits at the start that all fail before sending a request


class _Visitor:
    """State of one visitor."""

    __slots__ = (
        "due_ns", "failures", "first_sent_ns", "is_active", "is_busy", "lead_ns", "number", "run", "slot",
        "started_ns", "step", "thought_ns", "visit_due_ns",
    )  # fmt: skip

    def __init__(self, slot: int) -> None:
        self.slot = slot
        self.is_active = False  # has a visit, or will start one
        self.is_busy = False  # a request is outstanding
        self.run: VisitRun | None = None  # the visit in progress
        self.number = 0  # number of that visit
        self.visit_due_ns = self.first_sent_ns = self.thought_ns = 0
        self.lead_ns = 0  # a pause before its first request
        self.due_ns = self.started_ns = self.step = 0  # of the current request
        self.failures = 0  # consecutive failed visits


class VisitEngine:
    """Applies plans to a link, as `Engine` does, and writes one row per finished request."""

    def __init__(
        self,
        *,
        plan: VisitPlan,
        messages: VisitMessages,
        open_link: OpenLink,
        reactor: Reactor,
        ring: RingWriter,
        clock: Clock,
        on_crowded: Callable[[], None],
        first: int = 0,
        stride: int = 1,
        timeout_ns: int = 0,
    ) -> None:
        self.examples: dict[int, str] = {}  # first error text of each failure status
        self.is_interrupted = False  # set to make run() return
        self.begun = 0  # visits started
        self._vain = 0  # of these, visits that failed before a request
        self._visits = plan
        self._messages = messages
        self._reactor = reactor
        self._ring = ring
        self._clock = clock
        self._on_crowded = on_crowded
        self._next_number, self._stride = first, stride
        self._timeout = Timeout(timeout_ns)
        self._times = PlanClock()
        self._visitors: list[_Visitor] = []
        self._concurrency = 0
        self._free: list[_Visitor] = []
        self.link = open_link(Callbacks(self.finish, always_finish(self.finish), self._explain))

    # --- called by the worker

    @property
    def active(self) -> int:
        return sum(visitor.is_active for visitor in self._visitors)

    def running(self, now_ns: int) -> "tuple[array[int], array[int]]":
        """Return no rows: visits in progress are not tracked."""
        return array("q"), array("q")

    @property
    def outstanding(self) -> int:
        """Number of requests that have started and not ended."""
        return sum(visitor.is_busy for visitor in self._visitors)

    @property
    def sent(self) -> int:
        """Total number of requests sent."""
        return self._ring.written + self.outstanding

    def apply(self, plan: Plan, start_ns: int = 0) -> None:
        """Switch to this plan at once; surplus visitors leave after their current request."""
        if isinstance(plan, Closed):
            self._apply_closed(plan)
        elif isinstance(plan, Open):
            self._apply_open(plan, start_ns)
        else:
            raise LocalError(f"visits require a concurrency or a schedule, but got {plan}")

    def _apply_closed(self, plan: Closed) -> None:
        self._times.begin_closed(plan)
        self._concurrency = plan.concurrency
        for visitor in self._visitors[plan.concurrency :]:
            if visitor.is_active and not visitor.is_busy:
                self._leave(visitor)
        self._drop_ended_pauses()
        while len(self._visitors) < plan.concurrency:
            self._visitors.append(_Visitor(len(self._visitors)))
        idle = [visitor for visitor in self._visitors[: plan.concurrency] if not visitor.is_active]
        for visitor in idle:
            visitor.is_active = True
        slots = [visitor.slot for visitor in idle]
        self._times.start(
            slots, self._clock(), self.link, lambda slot: self._begin_next(self._visitors[slot])
        )

    def _apply_open(self, plan: Open, start_ns: int) -> None:
        self._concurrency = 0
        for visitor in self._visitors:
            if visitor.is_active and visitor.run is None:
                self._leave(visitor)
        self._drop_ended_pauses()
        self._free = [visitor for visitor in self._visitors if not visitor.is_active]
        self._times.begin_open(plan, start_ns, self.link)

    def adjust(self, timing: Timing, more: Sequence[Progression], cap: int | None) -> None:
        """Continue the open plan with another timing and with more of its visits, like `Engine.adjust`."""
        self._times.adjust(timing, more, cap)

    @property
    def is_applied(self) -> bool:
        """Whether the number of visitors that the plan asks for is active (fewer once its count is used up)."""
        if self.link.opening or self._times.is_starting:
            return False
        is_over = self._times.open is not None or self._times.remaining == 0
        return is_over or self.active == self._concurrency

    @property
    def is_finished(self) -> bool:
        """Whether every request has ended and none will follow."""
        return self.active == 0 and self._times.next_due >= NEVER

    def run(self, until_ns: int | None, stop: Callable[[], bool] | None = None) -> None:
        """Run the loop until the given time, until `stop` returns true, or until interrupted."""
        clock, ring, times, pauses = self._clock, self._ring, self._times, self._times.pauses
        end = NEVER if until_ns is None else until_ns
        next_check, next_look = self._timeout.next_check_ns(clock()), 0
        while not self.is_interrupted and not (stop is not None and stop()):
            wake = min(end, next_check, pauses[0][0] if pauses else NEVER)
            if times.next_due < wake and self._has_room():
                wake = times.next_due
            self._reactor.wait(None if wake >= NEVER else wake)
            ring.publish()
            now = clock()
            if times.next_due <= now:
                self._begin_due(now)
            if pauses and pauses[0][0] <= now:
                self._resume(now)
            if next_check <= now:
                self._cancel_late(now)
                next_check = self._timeout.next_check_ns(clock())
            if now >= end:
                break
            if ring.written >= next_look:
                next_look = ring.written + LOOK_EVERY
                if ring.crowded:
                    self._on_crowded()

    def cancel_all(self) -> int:
        """Cancel all outstanding requests and start no more visits; return the number cancelled."""
        self.apply(Closed(0, 0))
        cut = [visitor for visitor in self._visitors if visitor.is_busy]
        for visitor in cut:
            self.link.cancel(visitor.slot, outcome.CANCELLED, "still running at the end")
        self._ring.publish()
        return len(cut)

    # --- visits

    def _begin_next(self, visitor: _Visitor) -> None:
        """Start the visitor's next visit of a closed plan, if there is one."""
        times = self._times
        if visitor.slot >= self._concurrency or times.remaining == 0:
            self._leave(visitor)
            self.link.close(visitor.slot)
            return
        if times.remaining > 0:
            times.remaining -= 1
        self._begin(visitor, self._clock())

    def _begin(self, visitor: _Visitor, due_ns: int) -> None:
        """Start a visit, timed from when it was due."""
        visitor.number, visitor.visit_due_ns = self._next_number, due_ns
        visitor.thought_ns = visitor.lead_ns = visitor.first_sent_ns = 0
        self._next_number += self._stride
        self.begun += 1
        try:
            visitor.run = VisitRun(self._visits, visitor.number)
            following = visitor.run.following(None)
            if following.is_over:
                raise VisitError("it ends before its first request")
        except VisitError as error:
            self._fail_to_begin(visitor, str(error))
            return
        self._messages.put(visitor.slot, following.step, following.request)
        visitor.step = following.step
        if following.pause_ns:
            visitor.thought_ns = visitor.lead_ns = following.pause_ns
            self._times.pause(visitor.slot, due_ns + following.pause_ns)
        else:
            self._send(visitor, due_ns)

    def _fail_to_begin(self, visitor: _Visitor, why: str) -> None:
        """Fail a visit that sent no request; raise UsageError if all visits so far failed like that."""
        self._vain += 1
        if self._vain == self.begun == MOST_VAIN:
            raise UsageError(
                f"{self._visits.origin or 'the visit'} cannot start: {why}",
                remedy="a visit must send at least one request; run the function on its own to see why it does not",
            )
        visitor.step, visitor.due_ns = 0, visitor.visit_due_ns
        self._explain(outcome.VISIT, why)
        self.finish(visitor.slot, outcome.VISIT, 0, 0, 0, self._clock(), 0)

    def _send(self, visitor: _Visitor, due_ns: int) -> None:
        """Send the request prepared for the visitor."""
        now = self._clock()
        visitor.due_ns, visitor.started_ns = due_ns, now
        visitor.is_busy = True
        # The slot is passed as the step: links look up its request by slot.
        self.link.send(visitor.slot, visitor.slot, now, None)

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
        *_: object,
        **__: object,
    ) -> None:
        """Record the end of a request; the link calls this once per request. The remaining arguments concern
        streams."""
        visitor = self._visitors[slot]
        visitor.is_busy = False
        visitor.first_sent_ns = visitor.first_sent_ns or sent_ns
        step, due_ns = visitor.step, visitor.due_ns
        is_surplus = self._times.open is None and slot >= self._concurrency
        over, pause_ns = NO_VISIT, 0
        if status != outcome.CANCELLED:
            over, pause_ns = self._after(visitor, status, end_ns)
        ring = self._ring
        pack_row(
            ring.cells, ring.position,
            due_ns, sent_ns, wrote_ns, first_ns, end_ns, status, step, received, responses,
            over.sequence, over.started_ns, over.tokens, over.prompt_tokens, 0,
        )  # fmt: skip
        position = ring.position + ROW_BYTES
        ring.position = position if position != ring.end else FIRST_BYTE
        ring.written += 1
        if is_surplus:
            self._leave(visitor)
        elif over is not NO_VISIT:
            self._ended(visitor, bool(received), pause_ns, end_ns)
        elif pause_ns:
            visitor.thought_ns += pause_ns
            self._times.pause(slot, end_ns + pause_ns)
        else:
            self._send(visitor, self._clock())

    def _after(self, visitor: _Visitor, status: int, end_ns: int) -> tuple[VisitCells, int]:
        """Return the visit's cells of the row, and the pause; prepare the next request if the visit continues."""
        pause_ns = 0
        if not status:
            assert visitor.run is not None
            try:
                following = visitor.run.following(self._messages.answers.pop(visitor.slot, None))
                pause_ns = following.pause_ns
                if not following.is_over:
                    visitor.step = following.step
                    self._messages.put(visitor.slot, following.step, following.request)
                    return NO_VISIT, pause_ns
            except VisitError as error:
                status = outcome.VISIT
                self._explain(status, str(error))
        late_ns = max((visitor.first_sent_ns or end_ns) - visitor.visit_due_ns - visitor.lead_ns, 0)
        cells = visit_cells(visitor.number, visitor.visit_due_ns, visitor.thought_ns, late_ns, status)
        visitor.failures = visitor.failures + 1 if status else 0
        self._close(visitor)
        return cells, pause_ns

    def _ended(self, visitor: _Visitor, is_answered: bool, pause_ns: int, end_ns: int) -> None:
        """Start the next visit after one has ended, or pause before it."""
        if self._times.open is not None:
            visitor.is_active = False
            self._free.append(visitor)
            return
        pause_ns = max(pause_ns, pause_after(visitor.failures, is_answered=is_answered))
        if pause_ns and self._times.remaining != 0:
            self._times.pause(visitor.slot, end_ns + pause_ns)
        else:
            self._begin_next(visitor)

    def _close(self, visitor: _Visitor) -> None:
        run, visitor.run = visitor.run, None
        if run is not None:
            try:
                run.close()
            except VisitError as error:
                self._explain(outcome.VISIT, str(error))

    def _leave(self, visitor: _Visitor) -> None:
        """Deactivate the visitor and drop its visit."""
        visitor.is_active = False
        self._close(visitor)

    # --- times

    def _drop_ended_pauses(self) -> None:
        """Drop the pauses of visitors that have left."""
        self._times.drop_pauses(lambda slot: not self._visitors[slot].is_active)

    def _resume(self, now_ns: int) -> None:
        for until_ns, slot in self._times.ended_pauses(now_ns):
            visitor = self._visitors[slot]
            if visitor.run is None:
                self._begin_next(visitor)
            else:
                self._send(visitor, until_ns if self._times.open is not None else self._clock())

    def _has_room(self) -> bool:
        plan = self._times.open
        return plan is None or plan.cap is None or self.active < plan.cap

    def _begin_due(self, now_ns: int) -> None:
        """Start due visits, a limited number at a time so that replies are read in between."""
        times, plan = self._times, self._times.open
        assert plan is not None
        for _ in range(BURST):
            if times.next_due > now_ns or not self._has_room():
                return
            if self._free:
                visitor = self._free.pop()
            else:
                visitor = _Visitor(len(self._visitors))
                self._visitors.append(visitor)
            visitor.is_active = True
            self._begin(visitor, times.take_due(plan))

    # --- failures

    def _explain(self, status: int, text: str) -> None:
        self.examples.setdefault(status, text)

    def _cancel_late(self, now_ns: int) -> None:
        limit = now_ns - self._timeout.limit_ns
        for visitor in list(self._visitors):
            if visitor.is_busy and visitor.started_ns <= limit:
                self.link.cancel(visitor.slot, outcome.TIMEOUT, self._timeout.text)
