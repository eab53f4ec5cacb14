"""Tasks against a server that logs every call: order, times, texts and counts. They end by number, not by time."""

from collections import Counter
from random import Random

import pytest

from inferometer.base import status
from inferometer.model.task import expanded
from tests.support.call_log import CallLog, Speech
from tests.support.task_graphs import as_yaml, random_steps
from tests.support.task_log import check_log, run_tasks


@pytest.mark.parametrize(
    ("graphs", "most", "in_flight", "count"),
    [(4, 20, 6, 12), pytest.param(50, 120, 200, 400, marks=pytest.mark.long)],
)
def test_random_tasks_as_the_server_saw_them(graphs, most, in_flight, count):
    """Every edge is respected, no call is early, and the figures of every task are those of the log."""
    made = [random_steps(seed, most=most) for seed in range(graphs)]
    longest = max(made, key=len)
    found_graphs = tuple(map(expanded, made))
    draw = Random(graphs)

    def speak(number, body):
        return Speech((f"answer{number}", " and", " more"), draw.random() * 0.01)

    with CallLog(speak) as server:
        tasks, found = run_tasks(
            server.address, {"steps": as_yaml(longest)}, in_flight=in_flight, count=count, graphs=found_graphs
        )
    assert found.complete == len(tasks) == count
    assert sorted(task.number for task in tasks) == list(range(count))
    calls = check_log(tasks, server.heard)
    assert len(server.heard) == calls
    assert found.calls.value == pytest.approx(calls / count)
    assert found.tokens.value == pytest.approx(3 * calls / count)
    assert {turn.turn for turn in found.turns} == {
        node.turn for graph in found_graphs for node in graph.nodes
    }
    assert sum(turn.calls for turn in found.turns) == calls
    assert found.duration.count == count


AGENT = """
import asyncio

TOOL = {port}

async def agent(task):
    plan = await task.call("plan", f"plan {{task.number}}")

    async def look(number):
        reader, writer = await asyncio.open_connection("127.0.0.1", TOOL)  # a tool behind a socket
        writer.write(b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
        await reader.readline()
        writer.close()
        await asyncio.to_thread(sum, range(1000))
        return await task.call("look", f"look {{task.number}}/{{number}} {{plan.text}}")

    async with asyncio.TaskGroup() as group:
        looks = [group.create_task(look(number)) for number in range(4)]
    pieces = []
    async with task.stream("answer", f"answer {{task.number}}", continues=plan) as stream:
        async for piece in stream:
            pieces.append(piece)
            if task.number % 2 and pieces:
                break  # read enough
    if task.number % 2 == 0:
        await task.call("look", f"check {{task.number}} " + "".join(pieces))
"""


def test_tasks_written_in_python_await_sockets_and_threads_and_read_streams(tmp_path):
    """Their calls arrive in the order of the code, with the texts of earlier answers."""
    count = 20

    def speak(number, body):
        text = body["messages"][-1]["content"]
        return Speech(("one", "two", "three", "four", "five"), 0.05 if text.startswith("answer") else 0.0)

    with CallLog(speak) as server:
        (tmp_path / "agent.py").write_text(AGENT.format(port=server.port))
        steps: dict[str, dict[str, str]] = {name: {} for name in ("plan", "look", "answer")}
        written = {"python": f"{tmp_path}/agent.py:agent", "steps": steps}
        tasks, found = run_tasks(server.address, written, in_flight=4, count=count)
    assert (found.complete, found.failed) == (count, 0)
    assert [len(task.calls) for task in sorted(tasks, key=lambda each: each.number)] == [6, 7] * (count // 2)
    by_text = {call.messages[-1]["content"]: call for call in server.heard}
    said = "onetwothreefourfive"
    for task in tasks:
        number, calls = task.number + 1, {call.node: call for call in task.calls}
        plan = by_text[f"plan {number}"]
        looks = [by_text[f"look {number}/{each} {said}"] for each in range(4)]
        assert all(look.arrived_ns >= plan.ended_ns for look in looks)
        assert calls[0].sent_ns <= plan.arrived_ns <= plan.ended_ns <= calls[0].end_ns
        assert max(look.ended_ns for look in looks) <= calls[5].due_ns
        if number % 2:  # the stream was left after its first word
            assert calls[5].status == status.WITHDRAWN
        else:
            check = by_text[f"check {number} {said}"]
            answer = by_text[f"answer {number}"]
            assert answer.messages[:2] == (*plan.messages, {"role": "assistant", "content": said})
            assert answer.ended_ns <= check.arrived_ns
        assert task.end_ns >= max(call.end_ns for call in task.calls)


def test_failed_calls_are_repeated_and_failed_tasks_counted():
    """The first attempt of every call fails; every fifth task fails for good."""
    tried: Counter[str] = Counter()

    def speak(number, body):
        text = body["messages"][-1]["content"]
        tried[text] += 1
        is_bad = tried[text] == 1 or int(text.split()[0]) % 5 == 0
        return Speech(("yes",), status=503 if is_bad else 200)

    task = {
        "retry": {"attempts": 2, "wait": "1ms"},
        "system": "You are an agent.",
        "steps": {
            "first": {"prompt": "{{task}} a", "max-tokens": 7},
            "second": {"prompt": "{{task}} b {{first}}"},
        },
    }
    with CallLog(speak) as server:
        tasks, found = run_tasks(server.address, task, in_flight=2, count=10)
    assert (found.ended, found.failed, found.retries) == (10, 2, 2 * 8 + 2)
    assert len(server.heard) == 4 * 8 + 2 * 2
    assert {task.status % 1000 for task in tasks if task.status} == {503}
    bodies = [call.body for call in server.heard]
    assert {body["messages"][0]["content"] for body in bodies} == {"You are an agent."}
    assert all(body["stream"] for body in bodies)
    assert Counter(body.get("max_tokens") for body in bodies) == {7: 8 * 2 + 2 * 2, None: 8 * 2}
