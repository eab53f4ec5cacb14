"""Tasks of random graphs against a server that logs every call, and the comparison of both."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from inferometer.base.units import NS_PER_S, monotonic_ns
from inferometer.load.plan import Closed, Joint
from inferometer.measure.groups import start_groups
from inferometer.model.task import Answers, TaskGraph
from inferometer.options.options import Options
from inferometer.records.records import join
from inferometer.scenario.run import ScenarioRequest, prepare_scenario
from inferometer.scenario.spec import checked_scenario
from inferometer.stats.task_figures import TaskFigures
from inferometer.stats.tasks import TaskBook, TaskTally, TaskTrace, critical_path, task_figures
from tests.support.call_log import Heard
from tests.support.task_graphs import KnownFigures, LoggedCall, known_figures

LONGEST_NS = 120 * NS_PER_S


def run_tasks(
    address: str,
    task: dict[str, Any],
    *,
    in_flight: int,
    count: int,
    graphs: tuple[TaskGraph, ...] = (),
    longest_ns: int = LONGEST_NS,
) -> tuple[list[TaskTrace], TaskFigures]:
    """The tasks of a class, and their figures; with `graphs`, task n has graph n of these."""
    document = {
        "server": address,
        "classes": {"agent": {"model": "tiny", "kind": "openai", "concurrency": in_flight, "task": task}},
    }
    setup = prepare_scenario(ScenarioRequest(checked_scenario(document, "test"), Options(model="")))
    (own,) = setup.setups
    book = own.level_settings.tasks
    if graphs:
        plan = own.traffic.tasks._replace(graphs=graphs)
        own, book = replace(own, traffic=own.traffic._replace(tasks=plan)), TaskBook(graphs, book.kinds)
    parts, end_ns = [], monotonic_ns() + longest_ns
    with start_groups([replace(own, level_settings=replace(own.level_settings, tasks=book))]) as load:
        load.apply(Joint((Closed(in_flight, count),)))
        while True:
            collected = load.collect(end_ns)
            parts.append(collected.records)
            if collected.is_finished or monotonic_ns() > end_ns:
                break
        load.stop()
    records = join(parts)
    tasks = book.take(records)
    tally = TaskTally()
    tally.add(tasks)
    return tasks, task_figures(tally, book, 0)


def check_log(tasks: Sequence[TaskTrace], heard: Sequence[Heard]) -> int:
    """Each call of each task arrived once, carried the answers that it should, and was not early; the figures of its
    task are those computed from the log. Return the number of calls."""
    by_text: dict[str, list[Heard]] = {}
    for each in heard:
        by_text.setdefault(json.dumps(each.messages), []).append(each)
    for task in tasks:
        graph = task.graph
        calls: dict[int, Heard] = {}
        log: dict[int, LoggedCall] = {}
        for call in sorted(task.calls, key=lambda each: each.node):
            node = graph.nodes[call.node]
            messages = messages_of(graph, task.number, call.node, calls)
            (calls[call.node],) = [
                each
                for each in by_text[json.dumps(messages)]
                if call.sent_ns <= each.arrived_ns <= each.ended_ns <= call.end_ns
                and not is_taken(each, calls)
            ][:1]
            found = calls[call.node]
            ready_ns = max((calls[each].ended_ns for each in node.after), default=task.due_ns)
            pause_ns = node.pause.draw_ns(0, task.number, call.node)
            assert found.arrived_ns >= ready_ns + pause_ns, (task.number, call.node)
            assert call.sent_ns >= call.due_ns
            assert call.tokens == 3
            assert call.prompt_tokens == sum(len(message["content"].split()) for message in messages)
            log[call.node] = LoggedCall(call.due_ns, call.sent_ns, call.end_ns, call.tokens)
        assert len(calls) == len(task.calls) == len(graph.nodes)
        assert task.duration_ns >= max(each.ended_ns for each in calls.values()) - task.due_ns
        known, path = known_figures(graph, task.due_ns, log), critical_path(task)
        assert known == KnownFigures(
            task.duration_ns,
            len(task.calls),
            sum(call.tokens for call in task.calls),
            sum(step.model_ns for step in path),
            sum(step.tool_ns for step in path),
            sum(step.wait_ns for step in path),
        )
        assert known.duration_ns == known.model_ns + known.tool_ns + known.wait_ns
    return sum(len(task.calls) for task in tasks)


def is_taken(call: Heard, calls: Mapping[int, Heard]) -> bool:
    return any(call is other for other in calls.values())


def messages_of(
    graph: TaskGraph, number: int, place: int, calls: Mapping[int, Heard]
) -> tuple[dict[str, Any], ...]:
    """The messages of a call, from those that the server has heard before."""
    node = graph.nodes[place]
    found = []
    if node.context >= 0:
        found = [*calls[node.context].messages, {"role": "assistant", "content": calls[node.context].said}]
    for message in node.messages:
        words = ""
        for part in message.parts:
            if isinstance(part, str):
                words += part
            elif isinstance(part, Answers):
                words += "\n".join(calls[each].said for each in part.nodes)
            else:
                words += str(number + 1)
        found.append({"role": message.role, "content": words})
    return tuple(found)
