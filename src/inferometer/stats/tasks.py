"""Figures of tasks, from the rows of their calls.

The **critical path** of a task leads from its last call back to its due time: from each call to the one whose end it
waited for last. On it, all the time of the task is spent in one of three ways: in the model, from the send of a call to
its end; in tools, from the end of the calls before it until it is due; and waiting, for the client or before a retry.
The three add up to the duration of the task.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import NamedTuple

import numpy as np

from inferometer.base import status as outcome
from inferometer.model.task import TaskGraph, TaskNode
from inferometer.records.records import COLUMNS as RECORD_COLUMNS
from inferometer.records.records import NO_TIMES, Column, Records, from_rows
from inferometer.records.tasks import (
    COMPLETE,
    FAILED,
    LIMITED,
    RUNNING,
    contexts,
    nodes,
    outcomes,
    task_numbers,
)
from inferometer.stats.estimate import Estimate
from inferometer.stats.intervals import mean_estimate, mean_margin, with_intervals
from inferometer.stats.series import Series, joined
from inferometer.stats.task_figures import CallLane, TaskFigures, TaskLane, TurnFigures

MOST_TURNS = 64  # with figures of their own; later turns are counted with the last of these
SAMPLE = 12  # tasks that are shown in full
MOST_ENDED = 100_000  # tasks kept until their window asks for them; those of a warm-up are not asked for
PARTS = 1_000_000  # of a share, which is stored as a whole number


class CallTrace(NamedTuple):
    """A call of a task, as recorded; times are nanoseconds, and 0 if an event never happened."""

    node: int
    due_ns: int
    sent_ns: int
    first_ns: int
    end_ns: int
    status: int
    tokens: int
    prompt_tokens: int
    cached_tokens: int
    is_streamed: bool = False
    kind: int = 0  # number of its step
    context: int = -1  # call that it continues, if its task is written in Python


class TaskTrace(NamedTuple):
    """A task that has ended, with its calls in the order of their ends."""

    number: int
    due_ns: int
    end_ns: int
    outcome: int
    graph: TaskGraph
    calls: tuple[CallTrace, ...]

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.due_ns

    @property
    def status(self) -> int:
        """The status of the call that failed the task; 0 if none did."""
        if self.outcome != FAILED:
            return outcome.OK
        failed = [call for call in self.calls if call.status not in outcome.NEUTRAL]
        return failed[-1].status if failed else outcome.VISIT


class PathCall(NamedTuple):
    """A call on the critical path, with the time since the end of the previous one."""

    call: CallTrace
    tool_ns: int
    wait_ns: int
    model_ns: int


def critical_path(task: TaskTrace) -> list[PathCall]:
    """Return the calls that determined the duration of a task, from its due time to its end."""
    ends: dict[int, CallTrace] = {}  # the last attempt of each node
    attempts: dict[int, list[CallTrace]] = {}
    for call in task.calls:
        attempts.setdefault(call.node, []).append(call)
        ends[call.node] = call
    found = []
    call = max(task.calls, key=lambda each: each.end_ns)
    while True:
        earlier = [each for each in attempts[call.node] if each.end_ns <= call.due_ns and each is not call]
        is_retry = bool(earlier)
        if not is_retry:
            earlier = [ends[node] for node in task.graph.nodes[call.node].after if node in ends]
        before = max(earlier, key=lambda each: each.end_ns, default=None)
        ready_ns = task.due_ns if before is None else before.end_ns
        sent_ns = call.sent_ns or call.end_ns
        paused_ns = call.due_ns - ready_ns
        late_ns = sent_ns - call.due_ns
        found.append(
            PathCall(
                call,
                0 if is_retry else paused_ns,
                late_ns + (paused_ns if is_retry else 0),
                call.end_ns - sent_ns,
            )
        )
        if before is None:
            return found[::-1]
        call = before


def observed_graph(calls: Sequence[CallTrace]) -> TaskGraph:
    """Return the calls of a task written in Python, from its calls in the order of their ends."""
    made: dict[int, CallTrace] = {}  # the first attempt of each call
    last: dict[int, CallTrace] = {}
    for call in calls:
        made.setdefault(call.node, call)
        last[call.node] = call
    ends = sorted(last.values(), key=lambda call: call.end_ns)
    nodes: dict[int, TaskNode] = {}
    ended = turn = 0
    for number in sorted(made):  # the order in which the function made them
        call = made[number]
        while ended < len(ends) and ends[ended].end_ns <= call.due_ns and ends[ended].node in nodes:
            turn = max(turn, nodes[ends[ended].node].turn)
            ended += 1
        before = (ends[ended - 1].node,) if ended else ()
        nodes[number] = TaskNode(call.kind, (), before, context=call.context, turn=turn + 1)
    return TaskGraph(tuple(nodes.values()))


class TaskBook:
    """The tasks of a class: collects the rows of their calls until they have ended. Without graphs, tasks are written
    in Python, and each call is assumed to wait for the last call of its task that ended before it was made.

    It receives all rows, including those between levels and of a warm-up, since a task may last longer than a level.
    """

    def __init__(self, graphs: Sequence[TaskGraph], kinds: Sequence[str], answers: str = "live") -> None:
        self.kinds = kinds
        self.answers = answers
        self._graphs = graphs
        self._calls: dict[int, list[CallTrace]] = {}
        self._ended: dict[int, TaskTrace] = {}

    def add(self, records: Records) -> None:
        """Add calls that have ended."""
        if not len(records):
            return
        numbers, places, ended = (
            column.tolist() for column in (task_numbers(records), nodes(records), outcomes(records))
        )
        columns = (
            *(records.due_ns, records.sent_ns, records.first_ns, records.end_ns, records.status),
            *(records.tokens, records.prompt_tokens, records.cached_tokens, records.stamps > 0),
            *(records.step, contexts(records)),
        )
        for number, place, *rest in zip(
            numbers, places, *(column.tolist() for column in columns), strict=True
        ):
            call = CallTrace(place, *rest)
            if call.status != outcome.TASK_END:
                self._calls.setdefault(number, []).append(call)
        # The row that ends a task may come before another one of it, because rows are sorted by end.
        for number, due_ns, end_ns, how in zip(
            numbers, records.sequence_started_ns.tolist(), records.end_ns.tolist(), ended, strict=True
        ):
            if how != RUNNING:
                self._ended[number] = self._trace(number, due_ns, end_ns, how)
        while len(self._ended) > MOST_ENDED:
            del self._ended[next(iter(self._ended))]

    def _trace(self, number: int, due_ns: int, end_ns: int, how: int) -> TaskTrace:
        calls = tuple(sorted(self._calls.pop(number), key=lambda call: call.end_ns))
        if not self._graphs:
            end_ns = max(end_ns, calls[-1].end_ns)
            return TaskTrace(number, due_ns, end_ns, how, observed_graph(calls), calls)
        graph = self._graphs[number % len(self._graphs)]
        return TaskTrace(number, due_ns, calls[-1].end_ns, how, graph, calls)

    def take(self, records: Records) -> list[TaskTrace]:
        """Return the tasks that ended with these calls."""
        numbers = task_numbers(records)[outcomes(records) != RUNNING].tolist()
        return [self._ended.pop(number) for number in numbers if number in self._ended]


def as_records(tasks: Sequence[TaskTrace], *, is_open: bool) -> Records:
    """Return tasks as if each were one request, so that they are counted like requests."""
    rows = np.zeros((len(tasks), len(RECORD_COLUMNS)), dtype=np.int64)
    for row, task in zip(rows, tasks, strict=True):
        first = min(task.calls, key=lambda call: call.due_ns)
        late_ns = max((first.sent_ns or first.due_ns) - first.due_ns, 0) if is_open else 0
        row[: len(_SET)] = (
            task.due_ns, task.due_ns + late_ns, task.due_ns + late_ns, task.end_ns, task.end_ns, task.status,
        )  # fmt: skip
    return from_rows(rows, NO_TIMES)


_SET = RECORD_COLUMNS[:6]  # due, sent, wrote, first, end, status


# --- sums over tasks


@dataclass(slots=True)
class TurnTally:
    """Calls with the same turn number."""

    failed: int = 0
    latency_ns: Series = field(default_factory=Series)
    first_ns: Series = field(default_factory=Series)
    tokens: Series = field(default_factory=Series)
    prompt_tokens: Series = field(default_factory=Series)


_AMOUNTS = ("calls", "tokens", "prompt_tokens", "path_calls", "model_ns", "tool_ns", "wait_ns")
_SHARES = ("model_share", "tool_share", "wait_share")


@dataclass(slots=True)
class TaskTally:
    """Tasks that ended in a window. Series cover those that are complete."""

    complete: int = 0
    limited: int = 0  # of these, up to the limit of turns
    failed: int = 0
    retries: int = 0
    prefix_expected: int = 0
    prefix_found: int = 0
    duration_ns: Series = field(default_factory=Series)
    amounts: dict[str, Series] = field(
        default_factory=lambda: {name: Series() for name in (*_AMOUNTS, *_SHARES)}
    )
    turns: dict[int, TurnTally] = field(default_factory=dict)
    sample: list[TaskTrace] = field(default_factory=list)

    def add(self, tasks: Sequence[TaskTrace]) -> None:
        if not tasks:
            return
        rows = []
        for task in tasks:
            self._add_counts(task)
            if task.outcome in (COMPLETE, LIMITED):
                rows.append(_amounts(task))
        if rows:
            columns = np.array(rows, dtype=np.int64).T
            self.duration_ns.append(columns[0].copy())
            for series, column in zip(self.amounts.values(), columns[1:], strict=True):
                series.append(column.copy())
        self._add_turns(tasks)
        self.sample = [*self.sample, *tasks][-SAMPLE:]

    def _add_counts(self, task: TaskTrace) -> None:
        self.complete += task.outcome in (COMPLETE, LIMITED)
        self.limited += task.outcome == LIMITED
        self.failed += task.outcome == FAILED
        self.retries += len(task.calls) - len({call.node for call in task.calls})
        good = {call.node: call for call in task.calls if not call.status}
        for call in good.values():
            context = good.get(task.graph.nodes[call.node].context)
            if context is not None and call.prompt_tokens:
                self.prefix_expected += min(call.prompt_tokens, context.prompt_tokens + context.tokens)
                self.prefix_found += call.cached_tokens

    def _add_turns(self, tasks: Sequence[TaskTrace]) -> None:
        by_turn: dict[int, list[CallTrace]] = {}
        for task in tasks:
            for call in task.calls:
                turn = min(task.graph.nodes[call.node].turn, MOST_TURNS)
                by_turn.setdefault(turn, []).append(call)
        for turn, calls in by_turn.items():
            tally = self.turns.setdefault(turn, TurnTally())
            good = [call for call in calls if not call.status]
            tally.failed += sum(call.status not in outcome.NEUTRAL for call in calls)
            tally.latency_ns.append(_column(call.end_ns - call.sent_ns for call in good))
            tally.first_ns.append(_column(call.first_ns - call.sent_ns for call in good if call.is_streamed))
            tally.tokens.append(_column(call.tokens for call in good))
            tally.prompt_tokens.append(_column(call.prompt_tokens for call in good))


def _amounts(task: TaskTrace) -> tuple[int, ...]:
    """Return the duration of a task, its amounts and its shares, in the order of a tally."""
    path = critical_path(task)
    times = (
        sum(step.model_ns for step in path),
        sum(step.tool_ns for step in path) + task.end_ns - path[-1].call.end_ns,
        sum(step.wait_ns for step in path),
    )
    whole = max(task.duration_ns, 1)
    return (
        task.duration_ns,
        len(task.calls),
        sum(call.tokens for call in task.calls),
        sum(call.prompt_tokens for call in task.calls),
        len(path),
        *times,
        *(part * PARTS // whole for part in times),
    )


def _column(values: Iterable[int]) -> Column:
    return np.fromiter(values, dtype=np.int64)


def join_tallies(parts: Sequence[TaskTally]) -> TaskTally:
    """Add up the tasks of consecutive windows."""
    turns = sorted({turn for part in parts for turn in part.turns})
    return TaskTally(
        **{
            name: sum(getattr(part, name) for part in parts)
            for name in ("complete", "limited", "failed", "retries", "prefix_expected", "prefix_found")
        },
        duration_ns=joined([part.duration_ns for part in parts]),
        amounts={name: joined([part.amounts[name] for part in parts]) for name in (*_AMOUNTS, *_SHARES)},
        turns={
            turn: _join_turns([part.turns[turn] for part in parts if turn in part.turns]) for turn in turns
        },
        sample=[task for part in parts for task in part.sample][-SAMPLE:],
    )


def _join_turns(parts: Sequence[TurnTally]) -> TurnTally:
    names = [each.name for each in fields(TurnTally) if each.name != "failed"]
    return TurnTally(
        sum(part.failed for part in parts),
        **{name: joined([getattr(part, name) for part in parts]) for name in names},
    )


def task_figures(tally: TaskTally, book: TaskBook, level_start_ns: int) -> TaskFigures:
    """Return the figures of all tasks of a level."""
    amounts = {name: _mean(series) for name, series in tally.amounts.items()}
    return TaskFigures(
        complete=tally.complete,
        limited=tally.limited,
        failed=tally.failed,
        retries=tally.retries,
        answers=book.answers,
        duration=with_intervals(tally.duration_ns),
        **{name: amounts[name] for name in _AMOUNTS},
        **{name: _scaled(amounts[name], 1 / PARTS) for name in _SHARES},
        prefix_expected=tally.prefix_expected,
        prefix_found=tally.prefix_found,
        turns=tuple(_turn(turn, tally.turns[turn]) for turn in sorted(tally.turns)),
        sample=tuple(_lane(task, book.kinds, level_start_ns) for task in tally.sample),
    )


def _mean(series: Series) -> Estimate:
    """Return the mean, which unlike that of the series is not rounded: amounts may be small numbers."""
    return mean_estimate(series.total / series.count, mean_margin(series)) if series.count else Estimate(0.0)


def _scaled(found: Estimate, factor: float) -> Estimate:
    limits = found.limits
    if limits is None:
        return Estimate(found.value * factor)
    return Estimate(found.value * factor, max(limits[0] * factor, 0.0), min(limits[1] * factor, 1.0))


def _turn(turn: int, tally: TurnTally) -> TurnFigures:
    return TurnFigures(
        turn=turn,
        calls=tally.latency_ns.count + tally.failed,
        failed=tally.failed,
        latency=with_intervals(tally.latency_ns),
        first=with_intervals(tally.first_ns) if tally.first_ns.count else None,
        prompt_tokens=_mean(tally.prompt_tokens),
        output_tokens=_mean(tally.tokens),
    )


def _lane(task: TaskTrace, kinds: Sequence[str], start_ns: int) -> TaskLane:
    path = {id(step.call) for step in critical_path(task)}
    return TaskLane(
        number=task.number + 1,
        name=task.graph.name,
        due_ns=task.due_ns - start_ns,
        end_ns=task.end_ns - start_ns,
        outcome=("", "complete", "failed", "limited")[task.outcome],
        calls=tuple(
            CallLane(
                step=kinds[task.graph.nodes[call.node].kind],
                turn=task.graph.nodes[call.node].turn,
                due_ns=call.due_ns - start_ns,
                sent_ns=(call.sent_ns or call.end_ns) - start_ns,
                first_ns=(call.first_ns or call.end_ns) - start_ns,
                end_ns=call.end_ns - start_ns,
                is_good=call.status in outcome.NEUTRAL,
                is_critical=id(call) in path,
            )
            for call in sorted(task.calls, key=lambda each: (each.due_ns, each.node))
        ),
    )
