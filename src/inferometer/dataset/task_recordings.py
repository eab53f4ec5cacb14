"""Recordings of tasks: files of conversations, sessions, agent traces and spans, as graphs of calls.

    conversations    ShareGPT's `conversations`, or `messages` of chats: a task per conversation, a call per user turn
    sessions         Mooncake's lines with `session_id`, `output_length` and a length or messages: a task per session
    branches         aiperf's lines with `session_id` and `turns`, which fork and spawn sessions: a task per root
    agent traces     Weka's `requests` with `in`, `out`, `t` and nested subagents: a task per trace
    rounds           TraceLab's lines with `session_id`, `round_index` and token counts: a task per session
    spans            OpenTelemetry's GenAI spans in OTLP's JSON: a task per trace, a call per inference span

Where a recording has token counts instead of texts, texts of that many tokens are generated. A call asks for as many
tokens as the recorded answer has. With recorded answers, later calls carry those of the recording, so that the context
grows exactly as recorded; with live answers they carry those of the server.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

from inferometer.base.drawn_times import NO_TIME, DrawnTime
from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_S
from inferometer.dataset.dataset import parse_json, split_lines
from inferometer.dataset.recordings.agent_traces import agent_trace
from inferometer.dataset.recordings.branches import branches_of
from inferometer.dataset.recordings.conversations import conversation
from inferometer.dataset.recordings.parts import MOST_TOKENS, REMEDY, Found, RecordedCall, RecordedTask
from inferometer.dataset.recordings.rounds import rounds_of
from inferometer.dataset.recordings.sessions import sessions_of
from inferometer.dataset.recordings.spans import traces
from inferometer.dataset.tokens import Tokenizer
from inferometer.model.task import MOST_CALLS, TaskGraph, TaskMessage, TaskNode

LONGEST_PAUSE_NS = 24 * 3600 * NS_PER_S


@frozen
class Recording:
    """Tasks of a recording, and the assumptions of the reader."""

    format: str
    graphs: tuple[TaskGraph, ...]
    kinds: tuple[str, ...]
    findings: tuple[str, ...] = ()


@frozen
class RecordingRules:
    """How to read a recording. `lengths` says whether the input lengths of a session include its
    earlier turns: auto, cumulative or delta."""

    tokenizer: Tokenizer
    answers: str = "live"
    lengths: str = "auto"
    seed: int = 0


def read_recording(path: str, data: bytes, rules: RecordingRules) -> Recording:
    """Read the tasks of a file with this content; its format is detected."""
    documents = list(_documents(path, data))
    name, findings, found = _read(path, documents, rules)
    tasks = [task for task in found if task.calls]
    if not tasks:
        raise UsageError(f"{path} contains no tasks", remedy=REMEDY)
    longest = max(tasks, key=lambda task: len(task.calls))
    if len(longest.calls) > MOST_CALLS:
        raise UsageError(
            f"{path}: task '{longest.name}' has {len(longest.calls):,} calls, more than {MOST_CALLS:,}",
            remedy="split the task",
        )
    kinds = tuple(dict.fromkeys(call.kind for task in tasks for call in task.calls))
    writer = _Writer(path, rules, kinds)
    graphs = tuple(map(writer.graph, tasks))
    calls = sum(len(task.calls) for task in tasks)
    said = (
        f"{path}: {name} with {_plural(len(tasks), 'task')} and {_plural(calls, 'call')}; later calls carry "
        f"{rules.answers} answers"
    )
    return Recording(name, graphs, kinds, (said, *findings, *writer.findings))


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _documents(path: str, data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file: one document, a list of them, or one per line."""
    start = data.lstrip()[:1]
    if start not in (b"{", b"["):
        raise UsageError(f"{path} is not JSON", remedy=REMEDY)
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = [
            parse_json(line, f"line {number} of {path} is not JSON: ", remedy=REMEDY)
            for number, line in enumerate(split_lines(data, path), start=1)
            if line.strip()
        ]
    for number, row in enumerate(found if isinstance(found, list) else [found], start=1):
        if not isinstance(row, dict):
            raise UsageError(f"entry {number} of {path} is not an object", remedy=REMEDY)
        yield row


def _read(path: str, rows: Sequence[Mapping[str, Any]], rules: RecordingRules) -> Found:
    first: Mapping[str, Any] = rows[0] if rows else {}
    if "resourceSpans" in first or "resource_spans" in first:
        return "OpenTelemetry spans", (), list(traces(path, rows))
    if "requests" in first:
        tasks = [agent_trace(path, number, row) for number, row in enumerate(rows, start=1)]
        return "Weka traces", (), tasks
    if "round_index" in first:
        return rounds_of(path, rows)
    if "turns" in first or "orchestrator" in first:
        if rules.answers != "live":
            raise UsageError(f"{path} has no recorded answers", remedy="leave out 'answers: recorded'")
        return branches_of(path, rows)
    if "input_length" in first or "output_length" in first:
        return sessions_of(path, rows, rules.lengths)
    if "conversations" in first or "messages" in first:
        tasks = [
            task
            for number, row in enumerate(rows, start=1)
            for task in conversation(f"entry {number} of {path}", row)
        ]
        return "conversations", (), tasks
    names = ", ".join(map(repr, list(first)[:6])) or "nothing"
    raise UsageError(f"{path} is not a known recording: its first entry has {names}", remedy=REMEDY)


class _Writer:
    """Converter of recorded tasks to graphs; it generates missing texts."""

    def __init__(self, path: str, rules: RecordingRules, kinds: Sequence[str]) -> None:
        self._path = path
        self._rules = rules
        self._kinds = {kind: number for number, kind in enumerate(kinds)}
        self._made = 0  # tokens
        self._texts = 0

    @property
    def findings(self) -> tuple[str, ...]:
        if not self._texts:
            return ()
        return (f"{self._path}: the file has no texts; {self._made:,} tokens of random words replace them",)

    def graph(self, task: RecordedTask) -> TaskGraph:
        nodes: list[TaskNode] = []
        for number, call in enumerate(task.calls):
            messages = call.messages or (("user", self._text(call.prompt, task.name, number, "prompt")),)
            after = tuple(sorted({*call.after, *((call.context,) if call.context >= 0 else ())}))
            nodes.append(
                TaskNode(
                    kind=self._kinds[call.kind],
                    messages=tuple(TaskMessage(role, (text,)) for role, text in messages),
                    after=after,
                    context=call.context,
                    system=call.system,
                    pause=DrawnTime("fixed", min(call.pause_ns, LONGEST_PAUSE_NS))
                    if call.pause_ns > 0
                    else NO_TIME,
                    max_tokens=self._limit(call),
                    turn=1 + max((nodes[each].turn for each in after), default=0),
                    answer=self._answer(call, task.name, number),
                )
            )
        return TaskGraph(tuple(nodes), name=task.name)

    def _limit(self, call: RecordedCall) -> int:
        if call.limit or call.answer is None:
            return call.limit
        return max(
            1, call.answer if isinstance(call.answer, int) else self._rules.tokenizer.count(call.answer)
        )

    def _answer(self, call: RecordedCall, name: str, number: int) -> str | None:
        if self._rules.answers == "live" or call.answer is None:
            return None
        return self._text(call.answer, name, number, "answer")

    def _text(self, text: str | int, name: str, number: int, what: str) -> str:
        if isinstance(text, str):
            return text
        self._texts += 1
        self._made += text
        if self._made > MOST_TOKENS:
            raise UsageError(
                f"{self._path} needs more than {MOST_TOKENS:,} tokens of generated text",
                remedy="give fewer tasks",
            )
        draw = Random(f"{what} {number} of {name} {self._rules.seed}".encode("utf-8", "surrogatepass"))
        return self._rules.tokenizer.text(max(1, text), draw)
