"""Tasks on a simulated clock: what they send when, and what their figures are, to the nanosecond."""

import json
from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from inferometer.base import status
from inferometer.base.drawn_times import DrawnTime
from inferometer.base.slo import parse_slo
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.load.plan import Closed, Constant, Joint, Open
from inferometer.load.together import Together
from inferometer.measure.instrument import ClassSettings, Instrument, LoadPoint
from inferometer.measure.level import measure_level
from inferometer.model.task import Retry, TaskStep, expanded
from inferometer.records.records import join
from inferometer.records.tasks import COMPLETE, FAILED, LIMITED, RUNNING, nodes, outcomes, task_numbers
from inferometer.services.task_plan import DataRow, Frame, TaskPlan
from inferometer.stats.measurement import PHASE
from inferometer.stats.stopping import Precision
from inferometer.stats.tasks import TaskBook, TaskTally, critical_path, task_figures
from inferometer.stats.watcher import Watcher
from tests.support.clock import FakeClock
from tests.support.samples import sample
from tests.support.simulation import FakeServer, Reply, SimulatedLoad
from tests.support.task_graphs import LoggedCall, known_figures, random_steps

MS = NS_PER_MS
FRAME = Frame(b"POST / HTTP/1.1\r\nContent-Length: ", b"\r\n\r\n", b'{"messages":[', b"]}", is_chat=True)


def plan(*graphs, kinds=None, seed=0):
    names = kinds or tuple(f"s{number}" for number in range(20))
    return TaskPlan(graphs, names, {("", 0): FRAME}, (DataRow(b"row"),), seed=seed)


def simulated(tasks, script=lambda number, sent_ns: Reply(5 * MS), **more):
    clock = FakeClock()
    return clock, SimulatedLoad(FakeServer(script), clock, tasks=tasks, **more)


def run(load, clock, asked, seconds=1.0):
    """All records of the time, and the tasks that ended."""
    start_ns = load.apply(asked)
    parts, end_ns = [], start_ns + round(seconds * NS_PER_S)
    while clock() < end_ns:
        collected = load.collect(end_ns)
        parts.append(collected.records)
        if collected.is_finished:
            break
    return start_ns, join(parts)


def ended(tasks, records):
    book = TaskBook(tasks.graphs, tasks.kinds)
    book.add(records)
    return book.take(records)


FAN = expanded(
    (
        TaskStep("s0", "plan"),
        TaskStep("s1", "look {{copy}} {{s0}}", repeat=3, pause=DrawnTime("fixed", 20 * MS)),
        TaskStep("s2", "answer {{s1}}", context="s0"),
    )
)


def test_calls_follow_the_answers_that_they_wait_for():
    tasks = plan(FAN)
    clock, load = simulated(tasks)
    start_ns, records = run(load, clock, Closed(1, 2))
    assert ((records.sent_ns - start_ns) // MS).tolist() == [0, 25, 25, 25, 30, 35, 60, 60, 60, 65]
    assert records.step.tolist() == [0, 1, 1, 1, 2] * 2
    assert outcomes(records).tolist() == [RUNNING] * 4 + [COMPLETE] + [RUNNING] * 4 + [COMPLETE]
    first, second = ended(tasks, records)
    assert (first.duration_ns, second.duration_ns) == (35 * MS, 35 * MS)
    path = critical_path(first)
    assert [step.call.node for step in path] == [0, 1, 4]
    assert [(step.tool_ns // MS, step.wait_ns, step.model_ns // MS) for step in path] == [
        (0, 0, 5),
        (20, 0, 5),
        (0, 0, 5),
    ]


def test_a_call_carries_the_conversation_and_the_answers_before_it():
    tasks = plan(FAN)
    clock, load = simulated(tasks)
    sent = []
    request = load.task_messages.requests
    link = load._engine.link
    send = link.send

    def kept(slot, *rest):
        sent.append(json.loads(request[slot].partition(b"\r\n\r\n")[2]))
        send(slot, *rest)

    link.send = kept
    run(load, clock, Closed(1, 1))
    assert [message["content"] for message in sent[1]["messages"]] == ["look 1 <plan>"]
    assert sent[-1]["messages"] == [
        {"role": "user", "content": "plan"},
        {"role": "assistant", "content": "<plan>"},
        {"role": "user", "content": "answer <look>\n<look>\n<look>"},
    ]


def test_tasks_at_a_rate_begin_when_due_and_their_duration_counts_from_then():
    tasks = plan(FAN)
    clock, load = simulated(tasks)
    start_ns, records = run(load, clock, Open(Constant(100), cap=2), 0.3)
    found = ended(tasks, records)
    due = [(task.due_ns - start_ns) // MS for task in found]
    assert due[:5] == [10, 20, 30, 40, 50]
    # Two at a time: the third waits until the first has ended, and its wait is part of its duration.
    assert [task.duration_ns // MS for task in found][:4] == [35, 35, 50, 50]
    assert [sum(step.wait_ns for step in critical_path(task)) // MS for task in found][:4] == [0, 0, 15, 15]


@pytest.mark.parametrize("attempts", [1, 2, 3])
def test_a_failed_call_is_repeated_and_then_fails_its_task(attempts):
    """The first two calls of every three fail."""
    steps = (TaskStep("s0", "x", retry=Retry(attempts, 10 * MS, 2.0)),)
    tasks = plan(expanded(steps))
    refused = status.HTTP + 503
    clock, load = simulated(tasks, lambda number, sent_ns: Reply(MS, status=refused if number % 3 < 2 else 0))
    _, records = run(load, clock, Closed(1, 6))
    found = ended(tasks, records)
    assert len(found) == 6
    if attempts == 3:
        assert [task.outcome for task in found] == [COMPLETE] * 6
        assert [task.duration_ns // MS for task in found] == [1 + 10 + 1 + 20 + 1] * 6
        assert [[step.wait_ns // MS for step in critical_path(task)] for task in found] == [[0, 10, 20]] * 6
    else:
        per_task = {
            1: [FAILED, FAILED, COMPLETE] * 2,
            2: [FAILED, COMPLETE, FAILED, COMPLETE, FAILED, COMPLETE],
        }
        expected = per_task[attempts] if attempts == 1 else None
        if expected:
            assert [task.outcome for task in found] == expected
        assert {task.status for task in found if task.outcome == FAILED} == {refused}
    tally = TaskTally()
    tally.add(found)
    assert tally.complete + tally.failed == 6
    assert tally.retries == len(records) - 6


def test_a_failure_lets_calls_in_flight_end_and_starts_no_more():
    steps = (
        TaskStep("s0", "x", repeat=2),
        TaskStep("s1", "{{s0}}"),
        TaskStep("s2", "x", pause=DrawnTime("fixed", 50 * MS)),
    )
    tasks = plan(expanded(steps))
    clock, load = simulated(
        tasks,
        lambda number, sent_ns: Reply(
            (2 + 8 * (number % 2)) * MS, status=(1 - number % 2) * (status.HTTP + 500)
        ),
    )
    _, records = run(load, clock, Closed(1, 1), 0.2)
    assert [
        (row % 3, how) for row, how in zip(nodes(records).tolist(), outcomes(records).tolist(), strict=True)
    ] == [
        (0, RUNNING),
        (1, FAILED),
    ]
    assert load.collect(clock()).is_finished


def test_a_failed_send_fails_the_task_without_recursion():
    tasks = plan(FAN)
    clock, load = simulated(tasks, lambda number, sent_ns: Reply(0, status=status.CONNECT, is_unsent=True))
    _, records = run(load, clock, Closed(3), 5.0)
    assert len(records) > 10
    assert set(outcomes(records).tolist()) == {FAILED}
    assert len(set(task_numbers(records).tolist())) == len(records)


def test_a_late_answer_is_a_time_out_of_its_task():
    tasks = plan(FAN)
    clock, load = simulated(tasks, lambda number, sent_ns: Reply(NS_PER_S), timeout_ns=50 * MS)
    _, records = run(load, clock, Closed(1, 2))
    assert set(records.status.tolist()) == {status.TIMEOUT}
    assert set(outcomes(records).tolist()) == {FAILED}


def test_a_task_at_the_limit_of_turns_is_counted_apart():
    tasks = plan(expanded((TaskStep("s0", "x", turns=4),), most_turns=3))
    clock, load = simulated(tasks)
    _, records = run(load, clock, Closed(2, 6))
    found = ended(tasks, records)
    assert [task.outcome for task in found] == [LIMITED] * 6
    tally = TaskTally()
    tally.add(found)
    assert (tally.complete, tally.limited, tally.failed) == (6, 6, 0)
    assert Counter(len(task.calls) for task in found) == {3: 6}


def test_fewer_tasks_let_the_others_end_and_none_drops_them():
    tasks = plan(FAN)
    clock, load = simulated(tasks)
    load.apply(Closed(4))
    load.collect(clock() + 10 * MS)
    load.apply(Closed(1))
    records = load.collect(clock() + 200 * MS).records
    assert load._engine.active == 1
    assert {number for number, how in zip(task_numbers(records), outcomes(records), strict=True) if how} >= {
        0,
        1,
        2,
        3,
    }
    load.apply(Closed(0))
    load.collect(clock() + 200 * MS)
    assert load._engine.is_finished


def test_tasks_of_several_workers_have_numbers_of_their_own():
    tasks, seen = plan(FAN), []
    for index in (0, 1):
        clock, load = simulated(tasks, index=index, parts=2)
        _, records = run(load, clock, Closed(2, 5))
        seen += sorted(set(task_numbers(records).tolist()))
    assert sorted(seen) == list(range(10))


@pytest.mark.sampled
def test_random_graphs_at_two_hundred_tasks_in_flight():
    """Every edge is respected, no call is early or late, and all figures equal those of the log."""
    in_flight, count = sample((20, 24), (200, 250))
    for seed in range(sample(3, 50)):
        graph = expanded(random_steps(seed))
        tasks = plan(graph, seed=seed)
        draw = Random(seed)
        clock, load = simulated(tasks, lambda number, sent_ns, draw=draw: Reply(draw.randint(1, 20 * MS)))
        _, records = run(load, clock, Closed(in_flight, count), 30.0)
        found = ended(tasks, records)
        assert [task.outcome for task in found] == [COMPLETE] * count
        assert len(records) == count * len(graph.nodes)
        expected = []
        for task in found:
            log = {call.node: LoggedCall(call.due_ns, call.sent_ns, call.end_ns) for call in task.calls}
            assert len(log) == len(graph.nodes) == len(task.calls)
            for number, node in enumerate(graph.nodes):
                ready_ns = max((log[each].end_ns for each in node.after), default=task.due_ns)
                due_ns = ready_ns + node.pause.draw_ns(seed, task.number, number)
                assert log[number].sent_ns == log[number].due_ns == due_ns
            figures = known_figures(graph, task.due_ns, log)
            path = critical_path(task)
            assert task.duration_ns == figures.duration_ns
            assert sum(step.model_ns for step in path) == figures.model_ns
            assert sum(step.tool_ns for step in path) == figures.tool_ns
            assert sum(step.wait_ns for step in path) == figures.wait_ns == 0
            expected.append(figures)
        tally = TaskTally()
        tally.add(found)
        whole = task_figures(tally, TaskBook(tasks.graphs, tasks.kinds), 0)
        assert whole.duration.mean_ns == pytest.approx(
            sum(each.duration_ns for each in expected) / count, abs=1
        )
        assert whole.calls.value == len(graph.nodes)
        assert whole.model_share.value + whole.tool_share.value + whole.wait_share.value == pytest.approx(
            1, abs=1e-4
        )
        assert sum(turn.calls for turn in whole.turns) == len(records)


def level_of(tasks, script, slo, level_settings):
    """One phase of a class of tasks at 10 per second, four seconds long."""
    clock = FakeClock()
    book = TaskBook(tasks.graphs, tasks.kinds)
    load = Together(
        [SimulatedLoad(FakeServer(script), clock, tasks=tasks)], [len(tasks.kinds)], clock, taps=[book.add]
    )
    timed = level_settings(
        window_ns=NS_PER_S // 2, rule=Precision(0.0, 4 * NS_PER_S), is_timed=True, judges_promise=True
    )
    steps = tuple(ClassSettings(name, "http://here", timed) for name in tasks.kinds)
    numbers = tuple(range(len(steps)))
    promise = parse_slo(slo, has_tasks=True)
    own = replace(timed, tasks=book, classes=steps, class_of_step=numbers, promise=promise)
    settings = replace(
        timed, classes=(ClassSettings("agent", "http://here", own),), class_of_step=(0,) * len(steps)
    )
    plan_ = Open(Constant(10))
    point = LoadPoint(
        f"{PHASE}peak",
        1,
        Joint((plan_,)),
        10,
        name="peak",
        classes=(LoadPoint("request_rate", 10, plan_, 10),),
    )
    instrument = Instrument(load, clock, lambda: None, Watcher(), examples_of=load.examples_of)
    return measure_level(instrument, settings, point)


def test_a_class_counts_tasks_and_its_steps_count_calls(level_settings):
    level = level_of(
        plan(FAN, kinds=("s0", "s1", "s2")),
        lambda number, sent_ns: Reply(5 * MS),
        "task p95<30ms",
        level_settings,
    )
    (agent,) = level.classes
    found = agent.tasks
    assert (agent.measurement.request_count, found.complete, found.failed) == (39, 39, 0)
    assert (agent.rates.due_per_s, agent.rates.sent_per_s) == (10, 10)
    assert agent.measurement.latency.percentile_ns(99) == found.duration.percentile_ns(50) == 35 * MS
    assert [step.measurement.request_count for step in agent.steps] == [39, 3 * 39, 39]
    assert [step.measurement.latency.mean_ns for step in agent.steps] == [5 * MS] * 3
    assert level.measurement.request_count == 5 * 39
    assert level.measurement.sequences is None
    assert (agent.promise.verdict, agent.promise.terms[0].name) == ("broken", "task p95")
    assert (found.model_ns.value, found.tool_ns.value, found.wait_ns.value) == (15 * MS, 20 * MS, 0)
    assert found.tool_share.value == pytest.approx(20 / 35, abs=1e-5)
    assert [(turn.turn, turn.calls) for turn in found.turns] == [(1, 39), (2, 117), (3, 39)]
    assert agent.remarks == ()
    lane = found.sample[-1]
    assert [(call.step, call.is_critical) for call in lane.calls] == [
        ("s0", True), ("s1", True), ("s1", False), ("s1", False), ("s2", True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("slo", "verdict"),
    [
        ("task p50<36ms", "kept"),
        ("task<34ms", "broken"),
        ("task p99<36ms, errors<1%", "undecided"),
        ("task p99<10s, ttft p99<1s", "undecided"),  # nothing was streamed
    ],
)
def test_an_slo_limits_the_time_of_tasks(slo, verdict, level_settings):
    level = level_of(
        plan(FAN, kinds=("s0", "s1", "s2")), lambda number, sent_ns: Reply(5 * MS), slo, level_settings
    )
    assert level.classes[0].promise.verdict == verdict


def test_failed_tasks_are_failures_of_the_class(level_settings):
    bad = status.HTTP + 500
    level = level_of(
        plan(FAN, kinds=("s0", "s1", "s2")),
        lambda number, sent_ns: Reply(5 * MS, status=bad if number % 10 == 0 else 0),
        "task p95<30s",
        level_settings,
    )
    (agent,) = level.classes
    assert agent.tasks.failed == agent.measurement.failed_count > 0
    assert agent.tasks.complete == agent.measurement.request_count > 0
    assert agent.promise.verdict == "broken"
    assert [group.kind for group in agent.measurement.failures] == ["http 500"]
