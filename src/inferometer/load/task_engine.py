"""The loop that sends tasks: graphs of calls, several of which may be in flight at once.

A **task** is the unit of concurrency, or arrives at a rate; its calls take free slots, each with its connection, when
they are due. The links, plans, records and failure rules are those of the plain engine (engine.py). Which call is due
when is decided by `task_run`, its text by `services.task_plan`; this module only waits and sends.

* A call is never sent before it is due. The row of a call says when that was, so that lateness is visible.
* A failed task frees its place for the next one. If the server does not answer at all, that place pauses first.
* A plan with fewer tasks starts no more until enough have ended; tasks in progress run to their end. Only a plan with
  none at all drops them after their calls in flight: they are incomplete, and count neither as complete nor as failed.
"""

from array import array
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import count, islice
from typing import Any, Protocol

from inferometer.base import status as outcome
from inferometer.base.errors import LocalError
from inferometer.base.units import Clock
from inferometer.load.engine import LOOK_EVERY, Reactor
from inferometer.load.link import Callbacks, OpenLink, always_finish
from inferometer.load.plan import NEVER, Closed, Open, Plan
from inferometer.load.plan_clock import BURST, PlanClock, Timeout, pause_after
from inferometer.load.resumed import Progression, Timing
from inferometer.load.task_run import Due, Routes, TaskRun
from inferometer.records.ring import FIRST_BYTE, ROW_BYTES, RingWriter, of_which, pack_row
from inferometer.records.tasks import FAILED, RUNNING, task_cell
from inferometer.services.task_plan import TaskPlan, TaskTexts
from inferometer.services.traffic import Reply

EXAMPLE = 1000  # characters of an error text
BEGUN_AT_ONCE = 8  # tasks: the calls of others that become due meanwhile are late
NO_PLACE = -1  # of a task that arrived at a rate


class TaskMessages(Sequence[bytes]):
    """Requests by slot, and the answers to them, as links expect both."""

    def __init__(self) -> None:
        self.requests: dict[int, bytes] = {}
        self.replies: dict[int, Reply] = {}

    def __getitem__(self, slot: Any) -> Any:
        return self.requests[slot]

    def __len__(self) -> int:
        return 0  # no requests can be rendered in advance

    # --- Conversations

    def request(self, slot: int, rendered: bytes | memoryview, *, is_start: bool) -> bytes:
        return bytes(rendered)  # calls are complete as they are

    def answered(self, slot: int, reply: Reply) -> None:
        self.replies[slot] = reply


class EndedTask(Protocol):
    """Outcome of a task that has ended."""

    place: int
    is_heard: bool


class _Task:
    """A task in progress."""

    __slots__ = ("due_ns", "is_dropped", "is_heard", "place", "routes", "run", "texts")

    def __init__(self, run: TaskRun, routes: Routes, texts: TaskTexts, place: int, due_ns: int) -> None:
        self.run = run
        self.routes = routes
        self.texts = texts
        self.place = place
        self.due_ns = due_ns
        self.is_dropped = False  # no more calls start
        self.is_heard = False  # the server has answered a call, with whatever status


class _Call:
    """A call in flight."""

    __slots__ = ("due_ns", "node", "started_ns", "task")

    def __init__(self, task: _Task, node: int, due_ns: int, started_ns: int) -> None:
        self.task = task
        self.node = node
        self.due_ns = due_ns
        self.started_ns = started_ns


class TaskEngine:
    """Applies plans to a link, as `Engine` does, and writes one row per finished call."""

    def __init__(
        self,
        *,
        plan: TaskPlan,
        messages: TaskMessages,
        open_link: OpenLink,
        reactor: Reactor,
        ring: RingWriter,
        clock: Clock,
        on_crowded: Callable[[], None],
        first: int = 0,
        stride: int = 1,
        timeout_ns: int = 0,
        first_unique: int = 0,
    ) -> None:
        self.examples: dict[int, str] = {}  # first error text of each failure status
        self.is_interrupted = False  # set to make run() return
        self.begun = 0  # tasks started
        self._tasks = plan
        self._routes: dict[int, Routes] = {}
        self._messages = messages
        self._reactor = reactor
        self._ring = ring
        self._clock = clock
        self._on_crowded = on_crowded
        self._next_number, self._stride = first, stride
        self._uniques = count(first_unique)
        self._timeout = Timeout(timeout_ns)
        self._times = PlanClock()
        self._later: list[tuple[int, int, Any, int]] = []  # heap of due calls: time, order, task, node
        self._orders = count()
        self._calls: list[Any] = []  # by slot: a `_Call`, or None
        self._free: list[int] = []
        self._concurrency = 0
        self.active = 0  # tasks in progress, or about to begin
        self._places: list[bool] = []  # of a closed plan: whether each has one of these tasks
        self._failures: list[int] = []  # consecutive failed tasks, by place
        self.link = open_link(Callbacks(self.finish, always_finish(self.finish), self._explain))

    # --- called by the worker

    def running(self, now_ns: int) -> "tuple[array[int], array[int]]":
        """Return no rows: tasks in progress are not tracked."""
        return array("q"), array("q")

    @property
    def outstanding(self) -> int:
        """Number of calls that have started and not ended."""
        return len(self._calls) - len(self._free)

    @property
    def sent(self) -> int:
        """Total number of calls sent."""
        return self._ring.written + self.outstanding

    def apply(self, plan: Plan, start_ns: int = 0) -> None:
        """Switch to this plan at once; tasks in progress run to their end."""
        if isinstance(plan, Closed):
            self._apply_closed(plan)
        elif isinstance(plan, Open):
            self._concurrency = 0
            self._drop_places(0)
            self._times.begin_open(plan, start_ns, self.link)
        else:
            raise LocalError(f"tasks require a concurrency or a schedule, but got {plan}")

    def _apply_closed(self, plan: Closed) -> None:
        self._times.begin_closed(plan)
        self._concurrency = plan.concurrency
        if not plan.concurrency:
            self._drop_tasks()
            return
        self._drop_places(plan.concurrency)
        while len(self._places) < plan.concurrency:
            self._places.append(False)
            self._failures.append(0)
        idle = [place for place in range(plan.concurrency) if not self._places[place]]
        for place in idle:
            self._places[place] = True
        self.active += len(idle)
        self._times.start(idle, self._clock(), self.link, self._begin_next, burst=BEGUN_AT_ONCE)

    def _drop_tasks(self) -> None:
        """Stop starting calls; tasks remain active until their calls in flight have ended."""
        self._later.clear()
        self._times.drop_pauses()
        tasks = {id(call.task): call.task for call in self._calls if call is not None}
        for task in tasks.values():
            task.is_dropped = True
        self.active = len(tasks)
        self._places = [False] * len(self._places)

    def _drop_places(self, first: int) -> None:
        """Cancel the pauses of this place and all after it, which start no more tasks."""
        waiting = {place for _, place in self._times.pauses if place >= first}
        self._times.drop_pauses(lambda place: place >= first)
        for place in waiting:
            self._leave(place)

    def adjust(self, timing: Timing, more: Sequence[Progression], cap: int | None) -> None:
        """Continue the open plan with another timing and with more of its tasks, like `Engine.adjust`."""
        self._times.adjust(timing, more, cap)

    @property
    def is_applied(self) -> bool:
        """Whether the plan is in effect: the number of tasks that it asks for is in progress, or all have started."""
        if self.link.opening or self._times.is_starting:
            return False
        is_over = self._times.open is not None or self._times.remaining == 0
        return is_over or self.active >= self._concurrency

    @property
    def is_finished(self) -> bool:
        """Whether every task has ended and none will follow."""
        return self.active == 0 and self._times.next_due >= NEVER

    def run(self, until_ns: int | None, stop: Callable[[], bool] | None = None) -> None:
        """Run the loop until the given time, until `stop` returns true, or until interrupted."""
        clock, ring, times, pauses, later = (
            self._clock,
            self._ring,
            self._times,
            self._times.pauses,
            self._later,
        )
        wait = self._reactor.wait
        end = NEVER if until_ns is None else until_ns
        next_check, next_look = self._timeout.next_check_ns(clock()), 0
        while not self.is_interrupted and not (stop is not None and stop()):
            wake = end if end < next_check else next_check
            if pauses and pauses[0][0] < wake:
                wake = pauses[0][0]
            if later and later[0][0] < wake:
                wake = later[0][0]
            if times.next_due < wake and self._has_room():
                wake = times.next_due
            wait(None if wake >= NEVER else wake)
            ring.publish()
            now = clock()
            if later and later[0][0] <= now:
                self._send_due(now)
            if times.next_due <= now:
                self._begin_due(now)
            if pauses and pauses[0][0] <= now:
                for _, place in islice(times.ended_pauses(now), BEGUN_AT_ONCE):
                    self._begin_next(place)
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
        """Cancel all calls in flight and start no more; return the number cancelled."""
        self.apply(Closed(0, 0))
        self._later.clear()
        cut = [slot for slot, call in enumerate(self._calls) if call is not None]
        for slot in cut:
            self.link.cancel(slot, outcome.CANCELLED, "still running at the end")
        self._ring.publish()
        return len(cut)

    # --- tasks

    def _begin_next(self, place: int) -> None:
        """Start the next task of a closed plan at this place, if there is one."""
        times = self._times
        if place >= self._concurrency or times.remaining == 0:
            self._leave(place)
            return
        if times.remaining > 0:
            times.remaining -= 1
        self._begin(place, self._clock())

    def _begin(self, place: int, due_ns: int) -> None:
        """Start a task, timed from when it was due."""
        number, plan = self._next_number, self._tasks
        self._next_number += self._stride
        self.begun += 1
        graph = number % len(plan.graphs)
        routes = self._routes.get(graph)
        if routes is None:
            routes = self._routes[graph] = Routes(plan.graphs[graph])
        run = TaskRun(routes, number, plan.seed)
        task = _Task(run, routes, TaskTexts(plan, number, next(self._uniques)), place, due_ns)
        self._follow(task, run.begin(due_ns), due_ns)

    def _follow(self, task: _Task, calls: Sequence[Due], now_ns: int) -> None:
        """Send the calls that are due, and keep the others for later."""
        for due_ns, node in calls:
            if due_ns > now_ns and due_ns > self._clock():
                heappush(self._later, (due_ns, next(self._orders), task, node))
            elif not task.run.is_failed:  # an earlier one of them may have failed at once
                self._send(task, node, due_ns)

    def _send_due(self, now_ns: int) -> None:
        """Send calls whose pause is over, a limited number at a time so that replies are read in between."""
        later = self._later
        for _ in range(BURST):
            if not later or later[0][0] > now_ns:
                return
            due_ns, _, task, node = heappop(later)
            if not task.run.is_failed:
                self._send(task, node, due_ns)

    def _send(self, task: _Task, node: int, due_ns: int) -> None:
        free = self._free
        if free:
            slot = free.pop()
        else:
            slot = len(self._calls)
            self._calls.append(None)
        self._messages.requests[slot] = task.texts.request(node, task.routes.nodes[node])
        task.run.start()
        now = self._clock()
        self._calls[slot] = _Call(task, node, due_ns, now)
        # The slot is passed as the step: links look up its request by slot.
        self.link.send(slot, slot, now, None)

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
        checked: int = 0,  # scenarios have no --check
    ) -> None:
        """Record the end of a call; the link calls this once per call."""
        call: _Call = self._calls[slot]
        task, number = call.task, call.node
        run, node = task.run, task.routes.nodes[number]
        self._calls[slot] = None
        self._free.append(slot)
        reply = self._messages.replies.pop(slot, None)
        if received:
            task.is_heard = True
        if not status:
            task.texts.answered(number, text_of(reply) if node.answer is None else node.answer)
        calls = run.end(number, end_ns, is_good=not status)
        ended = RUNNING if status == outcome.CANCELLED else run.outcome
        ring = self._ring
        stamps = ring.stamp(times) if times else 0
        pack_row(
            ring.cells, ring.position,
            call.due_ns, sent_ns, wrote_ns, first_ns, end_ns, status, of_which(node.kind, tool_at), received,
            of_which(responses, answer_at), task_cell(run.number, number, ended), task.due_ns,
            of_which(tokens, reasoning_tokens), of_which(prompt_tokens, cached_tokens), stamps,
        )  # fmt: skip
        position = ring.position + ROW_BYTES
        ring.position = position if position != ring.end else FIRST_BYTE
        ring.written += 1
        if task.is_dropped:
            self.active -= not run.in_flight
        elif ended != RUNNING:
            self._ended(task, ended, end_ns)
        elif calls:
            self._follow(task, calls, end_ns)

    def _ended(self, task: "EndedTask", ended: int, end_ns: int) -> None:
        """Start the next task of a closed plan after one has ended, or pause before it."""
        place = task.place
        if place == NO_PLACE or place >= self._concurrency:
            self._leave(place)
            return
        self._failures[place] = failures = self._failures[place] + 1 if ended == FAILED else 0
        pause_ns = pause_after(failures, is_answered=task.is_heard)
        if pause_ns and self._times.remaining != 0:
            self._times.pause(place, end_ns + pause_ns)
        else:
            self._begin_next(place)

    def _leave(self, place: int) -> None:
        """Record that no further task starts at this place."""
        self.active -= 1
        if place != NO_PLACE:
            self._places[place] = False

    # --- times

    def _has_room(self) -> bool:
        plan = self._times.open
        return plan is None or plan.cap is None or self.active < plan.cap

    def _begin_due(self, now_ns: int) -> None:
        """Start due tasks, a limited number at a time so that replies are read in between."""
        times, plan = self._times, self._times.open
        assert plan is not None
        for _ in range(BURST):
            if times.next_due > now_ns or not self._has_room():
                return
            self.active += 1
            self._begin(NO_PLACE, times.take_due(plan))

    # --- failures

    def _explain(self, status: int, text: str) -> None:
        if status not in self.examples:
            self.examples[status] = text[:EXAMPLE]

    def _cancel_late(self, now_ns: int) -> None:
        limit = now_ns - self._timeout.limit_ns
        for slot, call in enumerate(self._calls):
            if call is not None and call.started_ns <= limit:
                self.link.cancel(slot, outcome.TIMEOUT, self._timeout.text)


def text_of(reply: Reply | None) -> str:
    """Return the text of an answer as the next call repeats it; empty if it has none."""
    content = None if reply is None or reply.message is None else reply.message.get("content")
    return content if isinstance(content, str) else ""
