"""The loop that sends tasks written in Python: coroutines that make calls, and may also await other things.

The coroutines run on an event loop of asyncio in the same thread. Its selector is the engine's loop: while asyncio
waits, the engine sends and receives, and it returns when a coroutine can continue. So timers of asyncio are as precise
as the engine's, and a call costs no switch between threads.

* A task ends when its function does, which writes a separate row; calls still in flight at that time are cancelled.
* A call is due when the function makes it. All time between calls is that of tools.
* A function that blocks, instead of awaiting, delays all tasks of its worker; their lateness shows it.
"""

import asyncio
import contextlib
import selectors
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any

from inferometer.base import status as outcome
from inferometer.base.errors import UsageError
from inferometer.base.units import NS_PER_S, Clock
from inferometer.load.plan import NEVER
from inferometer.load.plan_clock import BURST
from inferometer.load.reactor import READ
from inferometer.load.task_engine import TaskEngine, text_of
from inferometer.load.visit_file import VisitFile
from inferometer.load.visits import said
from inferometer.model.python_task import Asked, CallFailedError, StartedCall, Task, TaskAnswer
from inferometer.model.task import MOST_CALLS
from inferometer.records.ring import FIRST_BYTE, ROW_BYTES, of_which, pack_row
from inferometer.records.tasks import COMPLETE, FAILED, LIMITED, RUNNING, task_cell
from inferometer.services.task_plan import TaskPlan, TaskTexts

MOST_VAIN = 3  # tasks at the start that all end before their first call
MOST_STEPS = 8  # of coroutines in a row without a look at the sockets


class _Loop(asyncio.SelectorEventLoop):
    """An event loop with the engine's clock."""

    def __init__(self, selector: selectors.BaseSelector, clock: Clock) -> None:
        self._engine_clock = clock
        super().__init__(selector)

    def time(self) -> float:
        return self._engine_clock() / NS_PER_S


class _Rounds(selectors.BaseSelector):
    """Selector of the event loop; its wait is a round of the engine. Other descriptors are in a second set, whose
    descriptor the engine watches."""

    def __init__(self, wait: Callable[[float | None], None]) -> None:
        self._wait = wait
        self._steps = 0
        self.own = selectors.DefaultSelector()
        self.is_ready = False  # a descriptor of its own set

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout == 0 and self._steps < MOST_STEPS:
            self._steps += 1
        else:
            self._steps = 0
            self._wait(timeout)
        if not self.is_ready:
            return []
        self.is_ready = False
        return self.own.select(0)

    def woken(self, mask: int) -> None:
        self.is_ready = True

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self.own.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self.own.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self.own.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self.own.get_map()

    def close(self) -> None:
        self.own.close()


class _Task:
    """A task in progress."""

    __slots__ = (
        "due_ns", "in_flight", "is_dropped", "is_heard", "is_limited", "is_over", "job", "made", "number", "place",
        "texts", "turn",
    )  # fmt: skip

    def __init__(self, number: int, texts: TaskTexts, place: int, due_ns: int) -> None:
        self.number = number
        self.texts = texts
        self.place = place
        self.due_ns = due_ns
        self.job: asyncio.Task[None] | None = None
        self.made = 0  # calls
        self.turn = 0  # the highest of the calls that have ended
        self.in_flight: set[_Call] = set()
        self.is_dropped = False  # makes no more calls, and counts neither as complete nor as failed
        self.is_heard = False  # the server has answered a call, with whatever status
        self.is_limited = False  # it has reached the limit of turns
        self.is_over = False


class _Call:
    """A call, from its first attempt to the end of the last one."""

    __slots__ = (
        "_engine",
        "_taken",
        "attempt",
        "changed",
        "context",
        "done",
        "due_ns",
        "kind",
        "node",
        "request",
        "said",
        "slot",
        "started_ns",
        "task",
        "turn",
    )  # fmt: skip

    def __init__(self, engine: "PythonTaskEngine", task: _Task, kind: int, context: int) -> None:
        self._engine = engine
        self._taken = 0  # characters of the answer
        self.task = task
        self.kind = kind
        self.context = context
        self.node, self.turn = task.made, task.turn + 1
        self.request = b""
        self.said = ""  # what had arrived when the function cancelled the call
        self.attempt = 0
        self.slot = -1  # while an attempt is in flight
        self.due_ns = self.started_ns = 0
        self.done: asyncio.Future[TaskAnswer] = engine.loop.create_future()
        self.changed: asyncio.Future[None] | None = None  # waits for more text

    def take(self) -> str:
        text = self._text()[self._taken :]
        self._taken += len(text)
        return text

    def _text(self) -> str:
        if self.done.done():
            return self.done.result().text
        return "".join(self._engine.link.said(self.slot)) if self.slot >= 0 else ""

    def has_more(self) -> bool:
        return len(self._text()) > self._taken

    async def more(self) -> bool:
        while not self.has_more():
            if self.done.done():
                return False
            self.changed = self._engine.loop.create_future()
            self._engine.streams.add(self)
            try:
                await self.changed
            finally:
                self._engine.streams.discard(self)
        return True

    def wake(self) -> None:
        if self.changed is not None and not self.changed.done():
            self.changed.set_result(None)

    async def answer(self) -> TaskAnswer:
        try:
            return await asyncio.shield(self.done)
        except asyncio.CancelledError:
            self.cancel()
            raise

    def cancel(self) -> None:
        self._engine.withdraw(self)


class PythonTaskEngine(TaskEngine):
    """Applies plans to a link, as `TaskEngine` does, for tasks written in Python."""

    def __init__(self, *, plan: TaskPlan, **given: Any) -> None:
        assert plan.code is not None
        if isinstance(plan.code.make, VisitFile):
            plan.code.make.load()  # before the load, since it may take long
        self._code = plan.code
        self._kinds = {name: number for number, name in enumerate(plan.kinds)}
        self._until_ns: int | None = None
        self._stop: Callable[[], bool] | None = None
        self._is_awake = False  # a coroutine can continue
        self._running: set[_Task] = set()
        self.streams: set[_Call] = set()  # whose text somebody waits for
        self._vain = 0  # tasks that ended before their first call
        self._ends = 0  # rows that are not requests
        self._error: Exception | None = None
        clock: Clock = given["clock"]
        self._rounds = _Rounds(self._round)
        self.loop = _Loop(self._rounds, clock)
        self.loop.set_exception_handler(
            lambda loop, context: None
        )  # the code of the user may forget its failures
        super().__init__(plan=plan, **given)
        given["reactor"].add(self._rounds.own.fileno(), READ, self._rounds.woken)

    # --- the loop

    def run(self, until_ns: int | None, stop: Callable[[], bool] | None = None) -> None:
        self._until_ns, self._stop = until_ns, stop
        self.loop.run_forever()
        if self._error is not None:
            raise self._error

    def _round(self, timeout: float | None) -> None:
        """Send and receive until a coroutine can continue, at most for this time."""
        until = NEVER if self._until_ns is None else self._until_ns
        if timeout is not None:
            until = min(until, self._clock() + round(timeout * NS_PER_S))
        self._is_awake = False
        super().run(None if until >= NEVER else until, self._has_work)
        is_late = self._until_ns is not None and self._clock() >= self._until_ns
        if is_late or self.is_interrupted or (self._stop is not None and self._stop()):
            self.loop.stop()

    def _has_work(self) -> bool:
        for call in self.streams:
            if call.done.done() or call.has_more():
                call.wake()
                self._is_awake = True
        return self._is_awake or self._rounds.is_ready or (self._stop is not None and self._stop())

    # --- tasks

    def _begin(self, place: int, due_ns: int) -> None:
        """Start a task, timed from when it was due."""
        number, plan = self._next_number, self._tasks
        self._next_number += self._stride
        self.begun += 1
        task = _Task(number, TaskTexts(plan, number, next(self._uniques)), place, due_ns)
        self._running.add(task)
        given = Task(number + 1, lambda: task.texts.data, plan.seed, lambda asked: self._made(task, asked))
        task.job = self.loop.create_task(self._ran(task, given))
        self._is_awake = True

    async def _ran(self, task: _Task, given: Task) -> None:
        """Run the function of a task to its end, and record how it ended."""
        ended = COMPLETE
        try:
            await self._code.make(given)
        except asyncio.CancelledError:
            ended = LIMITED if task.is_limited else FAILED
        except CallFailedError:
            ended = FAILED  # the link has explained it
        except (Exception, SystemExit) as error:  # noqa: BLE001 - user code may raise anything
            ended = FAILED
            self._explain(outcome.VISIT, said(error))
        self._over(task, ended)

    def _over(self, task: _Task, ended: int) -> None:
        task.is_over = True
        self._running.discard(task)
        for call in [*task.in_flight]:
            self.withdraw(call)
        self._is_awake = True
        if task.is_dropped:
            self.active -= 1
            return
        now_ns = self._clock()
        if not task.made:
            ended = FAILED
            self._note_empty()
            self._write(task, now_ns, outcome.VISIT, RUNNING)
        self._ends += 1
        self._write(task, now_ns, outcome.TASK_END, ended)
        self._ended(task, ended, now_ns)

    def _note_empty(self) -> None:
        """Count a task without calls; the run ends if all of the first tasks make none."""
        why = self.examples.get(outcome.VISIT, "it ends before its first call")
        self._explain(outcome.VISIT, why)
        self._vain += 1
        if self._vain == self.begun == MOST_VAIN:
            self._error = UsageError(
                f"{self._tasks.origin or 'the task'} cannot start: {why}",
                remedy="a task must make at least one call; run the function on its own to see why it does not",
            )
            self.loop.stop()

    def _write(self, task: _Task, end_ns: int, status: int, ended: int) -> None:
        """Write a row for a task that sent no request."""
        ring, cell = self._ring, task_cell(task.number, 0, ended)
        pack_row(
            ring.cells, ring.position,
            task.due_ns, 0, 0, 0, end_ns, status, 0, 0, 0, cell, task.due_ns, 0, 0, 0,
        )  # fmt: skip
        self._advance()

    def _advance(self) -> None:
        ring = self._ring
        position = ring.position + ROW_BYTES
        ring.position = position if position != ring.end else FIRST_BYTE
        ring.written += 1

    @property
    def sent(self) -> int:
        return super().sent - self._ends

    # --- calls

    def _made(self, task: _Task, asked: Asked) -> _Call:
        """Start the call that a function asks for."""
        if task.is_over or task.is_dropped:
            raise asyncio.CancelledError
        kind = self._kinds.get(asked.step)
        if kind is None:
            raise ValueError(f"the task calls '{asked.step}', but its steps are {', '.join(self._kinds)}")
        if task.made == MOST_CALLS:
            raise ValueError(f"the task has made {MOST_CALLS:,} calls, the maximum for one task")
        most = self._code.most_turns
        if most is not None and task.turn >= most:
            task.is_limited = True
            assert task.job is not None
            task.job.cancel()
            raise asyncio.CancelledError
        context = -1 if asked.continues is None else asked.continues.call
        call = _Call(self, task, kind, context)
        frame = self._code.frames[kind]
        call.request = task.texts.written(call.node, frame, context, asked.messages, asked.prompt)
        task.made += 1
        task.in_flight.add(call)
        self._send_call(call, self._clock())
        return call

    def _send_call(self, call: _Call, due_ns: int) -> None:
        if self._free:
            slot = self._free.pop()
        else:
            slot = len(self._calls)
            self._calls.append(None)
        self._messages.requests[slot] = call.request
        now = self._clock()
        call.slot, call.due_ns, call.started_ns, call.attempt = slot, due_ns, now, call.attempt + 1
        self._calls[slot] = call
        # The slot is passed as the step: links look up its request by slot.
        self.link.send(slot, slot, now, None)

    def _send_due(self, now_ns: int) -> None:
        """Send further attempts whose wait is over."""
        later = self._later
        for _ in range(BURST):
            if not later or later[0][0] > now_ns:
                return
            due_ns, _, call, _ = heappop(later)
            if not call.done.done():
                self._send_call(call, due_ns)

    def withdraw(self, call: _Call) -> None:
        """Cancel a call for its function."""
        if call.slot >= 0:
            call.said = "".join(self.link.said(call.slot))
            self.link.cancel(call.slot, outcome.WITHDRAWN, "")
        elif not call.done.done():  # between two attempts
            self._answered(call, TaskAnswer("", 0, 0, 0.0, call.node))

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
        """Record the end of an attempt; the link calls this once per attempt."""
        call: _Call = self._calls[slot]
        task, call.slot, self._calls[slot] = call.task, -1, None
        self._free.append(slot)
        reply = self._messages.replies.pop(slot, None)
        task.is_heard = task.is_heard or bool(received)
        ring = self._ring
        stamps = ring.stamp(times) if times else 0
        pack_row(
            ring.cells, ring.position,
            call.due_ns, sent_ns, wrote_ns, first_ns, end_ns, status, of_which(call.kind, tool_at), received,
            of_which(responses, answer_at), task_cell(task.number, call.node, RUNNING, call.context), task.due_ns,
            of_which(tokens, reasoning_tokens), of_which(prompt_tokens, cached_tokens), stamps,
        )  # fmt: skip
        self._advance()
        self._is_awake = True
        if status in outcome.NEUTRAL:
            text = call.said if status else text_of(reply)
            seconds = (end_ns - sent_ns) / NS_PER_S
            self._answered(call, TaskAnswer(text, tokens, prompt_tokens, seconds, call.node))
            return
        retry = self._code.retries[call.kind]
        if status != outcome.CANCELLED and call.attempt < retry.attempts and not task.is_dropped:
            due_ns = end_ns + retry.wait_after_ns(call.attempt)
            heappush(self._later, (due_ns, next(self._orders), call, 0))
            return
        self._conclude(call)
        if not call.done.done():
            call.done.set_exception(
                CallFailedError(self._tasks.kinds[call.kind], status, self.examples[status])
            )

    def _answered(self, call: _Call, answer: TaskAnswer) -> None:
        call.task.texts.answered(call.node, answer.text)
        self._conclude(call)
        if not call.done.done():
            call.done.set_result(answer)

    def _conclude(self, call: _Call) -> None:
        task = call.task
        task.in_flight.discard(call)
        task.turn = max(task.turn, call.turn)
        call.wake()
        if task.is_dropped and task.job is not None:
            task.job.cancel()

    # --- the end

    def close(self) -> None:
        """End all tasks and the event loop."""
        for task in self._running:
            task.is_dropped = True
            if task.job is not None:
                task.job.cancel()
        for _ in range(MOST_STEPS):
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()
        self.loop.close()

    def _drop_tasks(self) -> None:
        """Stop making calls; tasks remain active until their calls in flight have ended."""
        self._later.clear()
        self._times.drop_pauses()
        for task in self._running:
            task.is_dropped = True
            if not any(call.slot >= 0 for call in task.in_flight) and task.job is not None:
                task.job.cancel()
        self.active = len(self._running)
        self._places = [False] * len(self._places)
        self._is_awake = True


def first_request(plan: TaskPlan) -> bytes:
    """Return the request of the first call of the first task, which is not sent."""
    assert plan.code is not None
    code, texts = plan.code, TaskTexts(plan, 0, 0)
    found: list[bytes] = []

    def made(asked: Asked) -> StartedCall:
        frame = code.frames[plan.kinds.index(asked.step)]
        found.append(texts.written(0, frame, -1, asked.messages, asked.prompt))
        raise asyncio.CancelledError

    async def run() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await code.make(Task(1, lambda: texts.data, plan.seed, made))

    try:
        asyncio.run(run())
    except Exception as error:  # user code may raise anything
        raise UsageError(
            f"{plan.origin} cannot start: {said(error)}", remedy="correct the function"
        ) from error
    if not found:
        raise UsageError(
            f"{plan.origin} ends before its first call", remedy="a task must make at least one call"
        )
    return found[0]
