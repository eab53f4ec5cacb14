"""Tasks of agents: how long they take and where the time goes, their calls by turn, and timelines of some tasks."""

from collections.abc import Iterator, Sequence

from inferometer.base.units import NS_PER_S
from inferometer.report.document import (
    Chart,
    ChartAxis,
    ChartLine,
    ChartPoint,
    Column,
    Figure,
    Message,
    Messages,
    Section,
    Table,
    Tone,
    text_columns,
)
from inferometer.report.documents.answer import middle_and_tail
from inferometer.report.format import (
    NONE,
    at_percentile,
    average,
    duration,
    interval,
    level_label,
    level_value,
    plural,
    quantity,
    share,
)
from inferometer.stats.estimate import Estimate
from inferometer.stats.measurement import ClassFigures, Level
from inferometer.stats.result import Result, best
from inferometer.stats.task_figures import CallLane, TaskFigures, TaskLane

LANE_HEIGHT = 10  # pixels
LANES = 120  # most calls drawn
PHASES = (("tool or waiting", "grey"), ("to the first token", "orange"), ("tokens", "blue"))
FAILED = ("failed", "red")


def task_rows(result: Result) -> list[tuple[Level, ClassFigures, TaskFigures]]:
    """Every class of tasks at every level."""
    return [
        (level, row, row.tasks)
        for level in result.levels
        for row in level.classes
        if row.tasks is not None and row.tasks.ended
    ]


def task_figures(result: Result) -> Iterator[Figure]:
    """The duration of tasks at the best level."""
    top = best(result)
    for level, row, found in task_rows(result):
        if top is not None and level is top[0] and found.complete:
            (middle, p50_ns), *tail = middle_and_tail(found.duration)
            more = "".join(f"{name} {duration(ns)}, " for name, ns in tail)
            yield Figure(
                f"{row.name} task {middle}",
                duration(p50_ns),
                f"{more}at {level_label(level.mode, level.value)}",
            )


def tasks_section(result: Result) -> Section | None:
    """Durations of tasks, their critical paths, and their calls by turn; None if there are no tasks."""
    rows = task_rows(result)
    if not rows:
        return None
    lead = (
        "A task lasts from its due time to the end of its last call. On its critical path, the calls that determined "
        "this time, every moment is spent in the model, in a tool, or waiting; the shares are means per task."
    )
    messages = Messages(tuple(_messages(rows)))
    return Section("tasks", "Tasks", lead, (_durations(rows), _paths(rows), _turns(rows), messages))


def _durations(rows: Sequence[tuple[Level, ClassFigures, TaskFigures]]) -> Table:
    columns = (
        *text_columns("Phase", "Class"),
        *(Column(name) for name in ("Tasks", "Failed")),
        Column("Avg"),
        Column("±95 %", rank=1),
        *(Column(name) for name in ("p50", "p95", "p99")),
        *(Column(name, rank=1) for name in ("Calls", "Answer tokens", "Prompt tokens")),
    )
    cells = tuple(
        (
            *(level_value(level.mode, level.value), row.name, f"{found.ended:,}", f"{found.failed:,}"),
            average(found.duration) if found.complete else NONE,
            _interval(found.duration.interval("mean")),
            *(at_percentile(found.duration, p) if found.complete else NONE for p in (50, 95, 99)),
            *(_amount(amount, found) for amount in (found.calls, found.tokens, found.prompt_tokens)),
        )
        for level, row, found in rows
    )
    return Table("Duration, and means per task", columns, cells)


def _paths(rows: Sequence[tuple[Level, ClassFigures, TaskFigures]]) -> Table:
    parts = ("Model", "Tools", "Waiting")
    columns = (
        *text_columns("Phase", "Class"),
        Column("Calls on it"),
        *(Column(name) for name in parts),
        *(Column(f"{name} share") for name in parts),
        *(Column(f"{name} ±", rank=2) for name in parts),
    )
    cells = []
    for level, row, found in rows:
        times = (found.model_ns, found.tool_ns, found.wait_ns)
        shares = (found.model_share, found.tool_share, found.wait_share)
        cells.append(
            (
                *(level_value(level.mode, level.value), row.name, _amount(found.path_calls, found)),
                *(duration(time.value) if found.complete else NONE for time in times),
                *(share(part.value) if found.complete else NONE for part in shares),
                *(_interval(time) for time in times),
            )
        )
    return Table("Critical path, as means per task", columns, tuple(cells))


def _turns(rows: Sequence[tuple[Level, ClassFigures, TaskFigures]]) -> Table:
    columns = (
        *text_columns("Phase", "Class"),
        *(Column(name) for name in ("Turn", "Calls", "Failed", "p50", "p99")),
        Column("±95 % of p50", rank=2),
        *(Column(name, rank=1) for name in ("TTFT p50", "TTFT p99", "Prompt tokens", "Answer tokens")),
    )
    cells = tuple(
        (
            *(level_value(level.mode, level.value), row.name, str(turn.turn)),
            *(f"{turn.calls:,}", f"{turn.failed:,}"),
            *(at_percentile(turn.latency, p) if turn.latency.count else NONE for p in (50, 99)),
            _interval(turn.latency.interval("p50")),
            *(NONE if turn.first is None else at_percentile(turn.first, p) for p in (50, 99)),
            *(quantity(amount.value) for amount in (turn.prompt_tokens, turn.output_tokens)),
        )
        for level, row, found in rows
        for turn in found.turns
    )
    return Table("Calls by turn", columns, cells)


def _interval(found: Estimate | None) -> str:
    return NONE if found is None else interval(found) or NONE


def _amount(found: Estimate, of: TaskFigures) -> str:
    return quantity(found.value) if of.complete else NONE


def _messages(rows: Sequence[tuple[Level, ClassFigures, TaskFigures]]) -> Iterator[Message]:
    for level, row, found in rows:
        for words in _notes(found):
            yield Message(f"{level_label(level.mode, level.value)}, {row.name}: {words}", tone=Tone.PLAIN)


def _notes(found: TaskFigures) -> Iterator[str]:
    if found.failed:
        yield f"{plural(found.failed, 'task')} of {found.ended:,} failed; durations are those of the others"
    if found.limited:
        yield f"{plural(found.limited, 'task')} ended at the limit of turns"
    if found.retries:
        yield f"{plural(found.retries, 'call')} repeated an attempt that had failed"
    whose = "the server's" if found.answers == "live" else "the recorded"
    yield f"later calls carry {whose} answers"
    if found.prefix_expected:
        part = share(found.prefix_found / found.prefix_expected)
        yield (
            f"continued conversations repeat {found.prefix_expected:,} prompt tokens, of which the server reports "
            f"{found.prefix_found:,} ({part}) as cached"
        )


# --- timelines


def task_lanes_section(result: Result) -> Section | None:
    """The calls of some tasks as swim lanes, one task below the other; None if there are no tasks."""
    charts = tuple(_chart(level, row, found) for level, row, found in task_rows(result) if found.sample)
    return Section("task-lanes", "Timelines of tasks", "", charts, is_detail=True) if charts else None


def _chart(level: Level, row: ClassFigures, found: TaskFigures) -> Chart:
    tasks = _shown(found.sample)
    start_ns = min(task.due_ns for task in tasks)
    calls = [(task, call) for task in tasks for call in task.calls]
    names = (*PHASES, FAILED)
    count = f"{len(tasks)} tasks" if len(tasks) > 1 else "task"
    lines = tuple(
        ChartLine(name, runs, colour, is_thick=True)
        for number, (name, colour) in enumerate(names)
        if (runs := tuple(_runs(calls, number, start_ns)))
    )
    return Chart(
        title=f"The last {count} of {row.name}, at {level_label(level.mode, level.value)}",
        x=ChartAxis("seconds"),
        y=ChartAxis("call, task by task", is_whole=True),
        series=lines,
        height=90 + LANE_HEIGHT * len(calls),
        note="One line per call, in the order they were due. Grey parts are tools, or waits.",
    )


def _shown(sample: Sequence[TaskLane]) -> list[TaskLane]:
    """As many of the last tasks as fit, at least one."""
    kept: list[TaskLane] = []
    for task in reversed(sample):
        if kept and sum(len(each.calls) for each in (*kept, task)) > LANES:
            break
        kept.append(task)
    return kept[::-1]


def _runs(
    calls: Sequence[tuple[TaskLane, CallLane]], phase: int, start_ns: int
) -> Iterator[tuple[ChartPoint, ...]]:
    for number, (task, call) in enumerate(calls, start=1):
        begin_ns, end_ns = _span(task, call, phase)
        if end_ns > begin_ns:
            begin, end = ((ns - start_ns) / NS_PER_S for ns in (begin_ns, end_ns))
            yield (ChartPoint(begin, number, _tip(task, call)), ChartPoint(end, number, ""))


def _span(task: TaskLane, call: CallLane, phase: int) -> tuple[int, int]:
    """Start and end of a phase of a call. From the end of the previous call until it was sent, it waited for a tool."""
    ended = [each.end_ns for each in task.calls if each.end_ns <= call.due_ns]
    ready_ns = max(ended, default=task.due_ns)
    if phase == len(PHASES):
        return (call.sent_ns, call.sent_ns if call.is_good else call.end_ns)
    times = (min(ready_ns, call.sent_ns), call.sent_ns, call.first_ns, call.end_ns)
    return (times[phase], times[phase + 1]) if call.is_good or phase == 0 else (0, 0)


def _tip(task: TaskLane, call: CallLane) -> str:
    words = [f"task {task.number}{f' ({task.name})' if task.name else ''}, {call.step}, turn {call.turn}"]
    words.append(f"{duration(call.end_ns - call.sent_ns)}{'' if call.is_good else ', failed'}")
    if call.sent_ns > call.due_ns:
        words.append(f"sent {duration(call.sent_ns - call.due_ns)} after it was due")
    if call.is_critical:
        words.append("on the critical path")
    return ", ".join(words)
