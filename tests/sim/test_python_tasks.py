"""Tasks written in Python, on a simulated clock: their calls, their ends and their figures, to the nanosecond."""

import asyncio
import json

import pytest

from inferometer.base import status
from inferometer.base.errors import UsageError
from inferometer.base.units import NS_PER_MS
from inferometer.load.plan import Closed, Constant, Open
from inferometer.model.task import ONCE, Retry
from inferometer.records.tasks import COMPLETE, FAILED, LIMITED
from inferometer.services.task_plan import DataRow, Frame, TaskCode, TaskPlan, TaskTexts
from inferometer.stats.tasks import TaskBook, TaskTally, critical_path, task_figures
from inferometer.tasks import CallFailedError
from tests.sim.test_tasks import FRAME, run
from tests.support.clock import FakeClock
from tests.support.simulation import FakeServer, Reply, SimulatedLoad

MS = NS_PER_MS
STEPS = ("plan", "look", "answer")


def plan(function, *, retry=ONCE, most_turns=None):
    code = TaskCode(function, (FRAME,) * len(STEPS), (retry,) * len(STEPS), most_turns)
    return TaskPlan((), STEPS, {("", 0): FRAME}, (DataRow(b"a \\u00e9 row"),), code=code)


LOADS: list[SimulatedLoad] = []


@pytest.fixture(autouse=True)
def _closed():
    yield
    while LOADS:
        LOADS.pop().close()


def simulated(function, script=lambda number, sent_ns: Reply(5 * MS), **settings):
    clock = FakeClock()
    tasks = plan(function, **settings)
    LOADS.append(SimulatedLoad(FakeServer(script), clock, tasks=tasks))
    return clock, LOADS[-1]


def measured(function, asked, *, seconds=1.0, **settings):
    clock, load = simulated(function, **settings)
    start_ns, records = run(load, clock, asked, seconds)
    book = TaskBook((), STEPS)
    book.add(records)
    return load, start_ns, records, book.take(records)


async def fan(task):
    plan = await task.call("plan", "plan it")

    async def look(number):
        await asyncio.sleep(0.02)
        return await task.call("look", f"look {number}")

    await asyncio.gather(*map(look, range(3)))
    await task.call("answer", "answer it", continues=plan)


def test_a_task_branches_waits_and_continues():
    _, start_ns, records, (first, second) = measured(fan, Closed(1, 2))
    calls = records.requests
    assert ((calls.sent_ns - start_ns) // MS).tolist() == [0, 25, 25, 25, 30, 35, 60, 60, 60, 65]
    assert calls.step.tolist() == [0, 1, 1, 1, 2] * 2
    assert [task.outcome for task in (first, second)] == [COMPLETE] * 2
    assert [task.duration_ns for task in (first, second)] == [35 * MS] * 2
    path = critical_path(first)
    assert [(step.call.kind, step.tool_ns // MS, step.model_ns // MS) for step in path] == [
        (0, 0, 5),
        (1, 20, 5),
        (2, 0, 5),
    ]
    assert [node.turn for node in first.graph.nodes] == [1, 2, 2, 2, 3]
    assert [node.context for node in first.graph.nodes] == [-1, -1, -1, -1, 0]


def test_the_figures_of_steps_and_tasks_add_up():
    _, start_ns, _, tasks = measured(fan, Closed(2, 10))
    tally = TaskTally()
    tally.add(tasks)
    found = task_figures(tally, TaskBook((), STEPS), start_ns)
    assert (found.complete, found.failed, found.retries) == (10, 0, 0)
    assert found.calls.value == 5
    assert found.model_ns.value + found.tool_ns.value + found.wait_ns.value == 35 * MS
    assert [(turn.turn, turn.calls) for turn in found.turns] == [(1, 10), (2, 30), (3, 10)]


def test_requests_carry_conversations_messages_and_data():
    sent = []

    async def talk(task):
        first = await task.call("plan", f"{task.number} {task.data}")
        tool = {"role": "tool", "content": "42"}
        await task.call("answer", "and now?", continues=first, messages=[tool])

    clock, load = simulated(talk)
    link = load._engine.link
    send = link.send

    def kept(slot, *rest):
        sent.append(json.loads(load.task_messages.requests[slot].partition(b"\r\n\r\n")[2])["messages"])
        send(slot, *rest)

    link.send = kept
    run(load, clock, Closed(1, 1))
    assert sent[0] == [{"role": "user", "content": "1 a é row"}]
    assert sent[1] == [
        *sent[0],
        {"role": "assistant", "content": "<1>"},
        {"role": "tool", "content": "42"},
        {"role": "user", "content": "and now?"},
    ]


def test_time_after_the_last_call_belongs_to_the_task_as_that_of_a_tool():
    async def save(task):
        await task.call("plan", "x")
        await asyncio.sleep(0.03)

    _, _, _, tasks = measured(save, Closed(1, 2))
    assert [task.duration_ns for task in tasks] == [35 * MS] * 2
    tally = TaskTally()
    tally.add(tasks)
    found = task_figures(tally, TaskBook((), STEPS), 0)
    assert (found.model_ns.value, found.tool_ns.value) == (5 * MS, 30 * MS)


def test_streams_arrive_in_pieces_and_leaving_one_cancels_it():
    heard: list[tuple[str, float]] = []
    whole: list[str] = []

    async def read(task):
        async with task.stream("plan", "x") as stream:
            async for piece in stream:
                heard.append((piece, asyncio.get_running_loop().time()))
                if len(heard) == 2:
                    break
        whole.append((await stream.answer()).text)
        async with task.stream("answer", "y") as stream:
            whole.append("".join([piece async for piece in stream]))

    reply = Reply(50 * MS, responses_ns=(10 * MS, 20 * MS, 30 * MS))
    _, start_ns, records, (task,) = measured(read, Closed(1, 1), script=lambda number, sent_ns: reply)
    assert [(piece, round(at * 1e3 - start_ns / MS)) for piece, at in heard] == [("w0 ", 10), ("w1 ", 20)]
    assert whole[0] == "w0 w1 "
    assert whole[1].startswith("w0 w1 w2")
    assert task.outcome == COMPLETE
    assert records.requests.status.tolist() == [status.WITHDRAWN, 0]
    assert records.failed.end_ns.tolist() == []
    assert task.duration_ns == 70 * MS


def test_failed_calls_are_repeated_and_the_function_may_catch_them():
    async def stubborn(task):
        with pytest.raises(CallFailedError) as found:
            await task.call("plan", "x")
        assert (found.value.step, found.value.status) == ("plan", status.HTTP + 503)
        await task.call("answer", "instead")

    async def careless(task):
        await task.call("plan", "x")

    refused = Reply(MS, status=status.HTTP + 503)
    script = lambda number, sent_ns: refused if number % 3 < 2 else Reply(MS)  # noqa: E731
    settings = {"script": script, "retry": Retry(2, 10 * MS)}
    _, _, _, tasks = measured(stubborn, Closed(1, 2), **settings)
    assert [task.outcome for task in tasks] == [COMPLETE] * 2
    assert [task.duration_ns // MS for task in tasks] == [1 + 10 + 1 + 1] * 2
    assert [[step.wait_ns // MS for step in critical_path(task)] for task in tasks] == [[0, 10, 0]] * 2
    _, _, _, tasks = measured(careless, Closed(1, 3), **settings)
    assert [task.outcome for task in tasks] == [FAILED, COMPLETE, FAILED]
    assert tasks[0].status == status.HTTP + 503


def test_an_error_of_the_function_fails_its_task_with_the_line():
    async def wrong(task):
        await task.call("plan", "x")
        if task.number % 2:
            raise KeyError("nothing")

    load, _, _, tasks = measured(wrong, Closed(1, 4))
    assert [task.outcome for task in tasks] == [FAILED, COMPLETE, FAILED, COMPLETE]
    assert "KeyError: 'nothing'" in load.examples()[status.VISIT]
    assert "test_python_tasks.py:" in load.examples()[status.VISIT]
    assert tasks[0].status == status.VISIT


@pytest.mark.parametrize("is_raising", [False, True])
def test_tasks_that_never_make_a_call_end_the_run(is_raising):
    async def idle(task):
        if is_raising:
            raise ValueError("no data")

    with pytest.raises(UsageError, match="no data" if is_raising else "ends before its first call"):
        measured(idle, Closed(1, 4))


def test_a_limit_of_turns_ends_a_task():
    async def endless(task):
        answer = None
        while True:
            answer = await task.call("look", "more", continues=answer)

    _, _, _, tasks = measured(endless, Closed(1, 3), most_turns=4)
    assert [task.outcome for task in tasks] == [LIMITED] * 3
    assert [len(task.calls) for task in tasks] == [4] * 3


def test_tasks_at_a_rate_count_from_their_due_time_and_respect_the_cap():
    _, start_ns, _, tasks = measured(fan, Open(Constant(100), cap=2), seconds=0.3)
    assert [(task.due_ns - start_ns) // MS for task in tasks][:4] == [10, 20, 30, 40]
    assert [task.duration_ns // MS for task in tasks][:4] == [35, 35, 50, 50]


def test_tasks_cut_off_at_the_end_count_neither_way():
    clock, load = simulated(fan)
    run(load, clock, Closed(3), seconds=0.03)
    cut = load.stop()
    load.wait(clock() + MS)
    assert cut == 0 or cut == 3
    assert not load._engine.outstanding


def test_pauses_drawn_by_a_task_are_the_same_in_every_run():
    drawn = []

    async def wait(task):
        drawn.append(task.random.random())
        await task.call("plan", "x")

    for _ in range(2):
        measured(wait, Closed(2, 4))
    assert drawn[:4] == drawn[4:]
    assert len(set(drawn)) == 4


def test_apis_that_take_only_text_get_the_conversation_as_text():
    frame = Frame(b"", b"\r\n\r\n", b'{"prompt":"', b'"}', is_chat=False)
    texts = TaskTexts(plan(fan), 0, 0)
    first = texts.written(0, frame, -1, (), "hello")
    texts.answered(0, "hi")
    second = texts.written(1, frame, 0, [{"role": "user", "content": "é"}], "again")
    assert json.loads(first.partition(b"\r\n\r\n")[2]) == {"prompt": "hello"}
    assert json.loads(second.partition(b"\r\n\r\n")[2]) == {"prompt": "hello\nhi\né\nagain"}
