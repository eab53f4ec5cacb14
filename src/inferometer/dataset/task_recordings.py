"""Recordings of tasks: files of conversations, sessions, agent traces and spans, as graphs of calls.

    conversations    ShareGPT's `conversations`, or `messages` of chats: a task per conversation, a call per user turn
    sessions         Mooncake's lines with `session_id`, `input_length` and `output_length`: a task per session
    agent traces     Weka's `requests` with `in`, `out`, `t` and nested subagents: a task per trace
    rounds           TraceLab's lines with `session_id`, `round_index` and token counts: a task per session
    spans            OpenTelemetry's GenAI spans in OTLP's JSON: a task per trace, a call per inference span

Where a recording has token counts instead of texts, texts of that many tokens are generated. A call asks for as many
tokens as the recorded answer has. With recorded answers, later calls carry those of the recording, so that the context
grows exactly as recorded; with live answers they carry those of the server.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

from inferometer.base.drawn_times import NO_TIME, DrawnTime
from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.dataset.chat_rows import ROLES
from inferometer.dataset.dataset import parse_json, split_lines
from inferometer.dataset.tokens import Tokenizer
from inferometer.model.task import MOST_CALLS, TaskGraph, TaskMessage, TaskNode

MOST_TOKENS = 50_000_000  # generated for one recording
LONGEST_PAUSE_NS = 24 * 3600 * NS_PER_S
TURN = "turn"
AGENT, SUBAGENT = "agent", "subagent"
AFTER_USER, AFTER_TOOL = "after-user", "after-tool"  # steps of rounds
CACHE_BLOCK = 128  # tokens; reported cache hits are rounded down to blocks
_CALLS = ("chat", "text_completion", "generate_content")  # gen_ai.operation.name of inference spans
_REMEDY = (
    "give ShareGPT conversations, chats with 'messages', Mooncake lines with 'session_id', Weka traces with "
    "'requests', TraceLab rounds with 'round_index', or OpenTelemetry spans with 'resourceSpans'"
)


class RecordedCall(NamedTuple):
    """A recorded call. Some texts are known only by their number of tokens."""

    prompt: str | int  # what it adds to its context
    answer: str | int | None = None
    after: tuple[int, ...] = ()
    context: int = -1
    pause_ns: int = 0
    kind: str = TURN
    system: str = ""
    limit: int = 0  # tokens of the answer, if the recording says so
    messages: tuple[tuple[str, str], ...] = ()  # role and text, instead of a prompt


class RecordedTask(NamedTuple):
    """A recorded task; each call comes after those that it waits for."""

    name: str
    calls: tuple[RecordedCall, ...]


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
        raise UsageError(f"{path} contains no tasks", remedy=_REMEDY)
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
        raise UsageError(f"{path} is not JSON", remedy=_REMEDY)
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = [
            parse_json(line, f"line {number} of {path} is not JSON: ", remedy=_REMEDY)
            for number, line in enumerate(split_lines(data, path), start=1)
            if line.strip()
        ]
    for number, row in enumerate(found if isinstance(found, list) else [found], start=1):
        if not isinstance(row, dict):
            raise UsageError(f"entry {number} of {path} is not an object", remedy=_REMEDY)
        yield row


_Found = tuple[str, tuple[str, ...], list[RecordedTask]]


def _read(path: str, rows: Sequence[Mapping[str, Any]], rules: RecordingRules) -> _Found:
    first: Mapping[str, Any] = rows[0] if rows else {}
    if "resourceSpans" in first or "resource_spans" in first:
        return "OpenTelemetry spans", (), list(_traces(path, rows))
    if "requests" in first:
        tasks = [_agent_trace(path, number, row) for number, row in enumerate(rows, start=1)]
        return "Weka traces", (), tasks
    if "round_index" in first:
        return _rounds(path, rows)
    if "input_length" in first:
        return _sessions(path, rows, rules)
    if "conversations" in first or "messages" in first:
        tasks = [
            task
            for number, row in enumerate(rows, start=1)
            for task in _conversation(f"entry {number} of {path}", row)
        ]
        return "conversations", (), tasks
    names = ", ".join(map(repr, list(first)[:6])) or "nothing"
    raise UsageError(f"{path} is not a known recording: its first entry has {names}", remedy=_REMEDY)


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
        draw = Random(f"{what} {number} of {name} {self._rules.seed}")
        return self._rules.tokenizer.text(max(1, text), draw)


# --- conversations


def _conversation(place: str, row: Mapping[str, Any]) -> Iterator[RecordedTask]:
    """Yield the task of a conversation, if it has a user turn."""
    name = "conversations" if "conversations" in row else "messages"
    calls: list[RecordedCall] = []
    new: list[tuple[str, str]] = []
    system = ""
    for number, message in enumerate((*_listed(place, row.get(name), name), None)):
        role, text = (
            ("assistant", "") if message is None else _said(f"{place}: message {number + 1}", message)
        )
        if role == "system" and not calls and not new:
            system = text
        elif role != "assistant":
            new.append((role, text))
        elif any(who == "user" for who, _ in new):
            context = len(calls) - 1
            answer = None if message is None else text
            calls.append(RecordedCall("", answer, context=context, system=system, messages=tuple(new)))
            new = []
    if calls:
        yield RecordedTask(str(row.get("id", row.get("session_id", place))), tuple(calls))


def _said(place: str, message: Any) -> tuple[str, str]:
    """Return the role and the text of a message, in the format of ShareGPT or of chats."""
    if isinstance(message, Mapping):
        text = message.get("value", message.get("content"))
        role = str(message.get("from", message.get("role"))).lower()
        if isinstance(text, str) and (role in ROLES or role == "tool"):
            return ROLES.get(role, "user"), text
    raise UsageError(
        f"{place} is not a message with a role and a text", remedy="use from and value, or role and content"
    )


# --- sessions


def _sessions(path: str, rows: Sequence[Mapping[str, Any]], rules: RecordingRules) -> _Found:
    sessions: dict[str, list[tuple[int, int, float, Any]]] = {}
    for number, row in enumerate(rows, start=1):
        place = f"line {number} of {path}"
        sizes = [_count(place, row, name) for name in ("input_length", "output_length")]
        text = next((row[key] for key in ("text_input", "prompt") if isinstance(row.get(key), str)), None)
        key = str(row["session_id"]) if row.get("session_id") is not None else place
        sessions.setdefault(key, []).append((*sizes, _number(place, row, "delay"), text))  # type: ignore[arg-type]
    cumulative = rules.lengths == "cumulative" or (rules.lengths == "auto" and _grow(sessions.values()))
    tasks = [RecordedTask(name, tuple(_turns(name, turns, cumulative))) for name, turns in sessions.items()]
    how = "the whole context (cumulative)" if cumulative else "only what a turn adds (delta)"
    chosen = "" if rules.lengths != "auto" else "; set turn-lengths if that is wrong"
    findings = [f"{path}: input_length is assumed to count {how}{chosen}"]
    if not any(turn[2] for turns in sessions.values() for turn in turns):
        findings.append(f"{path}: no turn has a delay, so each is sent as soon as the previous answer ends")
    return "Mooncake sessions", tuple(findings), tasks


def _grow(sessions: Iterable[Sequence[tuple[int, int, float, Any]]]) -> bool:
    """Return whether every turn is at least as long as the previous one with its answer."""
    pairs = [pair for turns in sessions for pair in pairwise(turns)]
    return bool(pairs) and all(later[0] >= earlier[0] + earlier[1] for earlier, later in pairs)


def _turns(
    name: str, turns: Sequence[tuple[int, int, float, Any]], cumulative: bool
) -> Iterator[RecordedCall]:
    before = 0
    for number, (size, answer, delay_ms, text) in enumerate(turns):
        added = size - before if cumulative else size
        if added < 1:
            raise UsageError(
                f"session '{name}': turn {number + 1} has {size:,} tokens, but the context before it has {before:,}",
                remedy="set turn-lengths: delta if input_length counts only what a turn adds",
            )
        yield RecordedCall(
            added if text is None else text, answer, context=number - 1, pause_ns=round(delay_ms * NS_PER_MS)
        )
        before = size + answer


# --- agent traces


def _agent_trace(path: str, number: int, row: Mapping[str, Any]) -> RecordedTask:
    name = str(row.get("id", number))
    calls: list[RecordedCall] = []
    _add_agent(f"trace '{name}' of {path}", _listed(path, row.get("requests"), "requests"), calls, (), AGENT)
    return RecordedTask(name, tuple(calls))


def _add_agent(
    place: str, requests: Sequence[Any], calls: list[RecordedCall], after: tuple[int, ...], kind: str
) -> tuple[int, ...]:
    """Add the calls of an agent, which begin after the given ones, and return the last of them. Subagents that follow
    each other run in parallel, and the agent waits for all of them."""
    last = after
    waiting: tuple[int, ...] = ()
    before: Mapping[str, Any] | None = None
    context = -1
    for number, entry in enumerate(requests, start=1):
        where = f"{place}, request {number}"
        if not isinstance(entry, Mapping):
            raise UsageError(f"{where} is not an object", remedy=_REMEDY)
        if entry.get("type") == SUBAGENT:
            inner = _listed(where, entry.get("requests"), "requests")
            waiting = (*waiting, *_add_agent(where, inner, calls, last, SUBAGENT))
            continue
        size, answer = _count(where, entry, "in"), _count(where, entry, "out")
        is_continued = before is not None and _continues(before, entry)
        known = int(before["in"]) + int(before["out"]) if before is not None and is_continued else 0
        pause_ns = _think_ns(where, before, entry)
        calls.append(
            RecordedCall(
                max(1, size - known),
                answer,
                after=tuple(dict.fromkeys((*last, *waiting))),
                context=context if is_continued else -1,
                pause_ns=pause_ns if not waiting else 0,
                kind=kind,
            )
        )
        context = len(calls) - 1
        last, waiting, before = (context,), (), entry
    return tuple(dict.fromkeys((*last, *waiting)))


def _continues(before: Mapping[str, Any], entry: Mapping[str, Any]) -> bool:
    """Return whether a request repeats most of the previous request's context, judged by its blocks or else by its
    length."""
    ours, theirs = entry.get("hash_ids"), before.get("hash_ids")
    if isinstance(ours, list) and isinstance(theirs, list) and theirs:
        shared = next(
            (place for place, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]), None
        )
        common = min(len(ours), len(theirs)) if shared is None else shared
        return 2 * common > len(theirs) and int(entry["in"]) > int(before["in"])
    return int(entry["in"]) > int(before["in"])


def _think_ns(place: str, before: Mapping[str, Any] | None, entry: Mapping[str, Any]) -> int:
    """Return the time between a request and the answer before it."""
    if before is None:
        return 0
    if "think_time" in entry:
        return round(_number(place, entry, "think_time") * NS_PER_S)
    passed = _number(place, entry, "t") - _number(place, before, "t") - _number(place, before, "api_time")
    return max(0, round(passed * NS_PER_S))


# --- rounds


class _Round(NamedTuple):
    """A round of a session: one call of an agent."""

    number: int
    size: int  # tokens of its context
    cached: int  # of these, tokens that the recorded server had in its cache
    said: int  # tokens of its answer
    kept: int  # of these, tokens that later contexts can repeat: reasoning is dropped
    begun_ns: int  # when its last input arrived; 0 if unknown
    ended_ns: int  # when the last part of its answer arrived; 0 if unknown
    kind: str


def _rounds(path: str, rows: Sequence[Mapping[str, Any]]) -> _Found:
    sessions: dict[str, list[_Round]] = {}
    for number, row in enumerate(rows, start=1):
        place = f"line {number} of {path}"
        if row.get("session_id") is None:
            raise UsageError(f"{place} has no 'session_id'", remedy=_REMEDY)
        sessions.setdefault(str(row["session_id"]), []).append(_round(place, row))
    tasks, repeated, fresh = [], 0, 0
    for name, rounds in sessions.items():
        rounds.sort(key=lambda each: each.number)
        contexts = _contexts(rounds)
        added, kept = _amounts(rounds, contexts)
        repeated += sum(each.size for each in rounds) - sum(added)
        fresh += contexts.count(-1) - 1
        tasks.append(RecordedTask(name, tuple(_round_calls(rounds, contexts, added, kept))))
    cached = sum(each.cached for rounds in sessions.values() for each in rounds)
    findings = (
        f"{path}: prompts repeat {repeated:,} tokens of earlier calls, where the recorded server found {cached:,} "
        f"tokens in its cache; contexts that start over within a session: {fresh:,}",
        f"{path}: sessions of subagents are separate tasks, because rounds do not say which call started them",
    )
    return "TraceLab rounds", findings, tasks


def _round(place: str, row: Mapping[str, Any]) -> _Round:
    size, said = (_count(place, row, name) for name in ("input_tokens_total", "output_tokens"))
    hidden = row.get("reasoning_output_tokens") or 0
    if type(hidden) is not int or not 0 <= hidden <= said:
        raise UsageError(
            f"{place}: 'reasoning_output_tokens' is {hidden!r}, and 'output_tokens' is {said:,}",
            remedy="give a number of tokens that is not greater than 'output_tokens'",
        )
    heard, spoken = 0, 0
    for event in _listed(place, row.get("timing_events") or (), "timing_events"):
        kind = event.get("event_type") if isinstance(event, Mapping) else None
        if kind in ("user_message", "tool_result"):
            heard = max(heard, _moment_ns(place, event))
        elif kind in ("reasoning", "text", "tool_call"):
            spoken = max(spoken, _moment_ns(place, event))
    return _Round(
        number=_count(place, row, "round_index"),
        size=max(1, size),
        cached=min(_count(place, row, "prefix_tokens"), size) if row.get("prefix_tokens") is not None else 0,
        said=said,
        kept=said - hidden,
        begun_ns=heard,
        ended_ns=spoken,
        kind=AFTER_TOOL if row.get("first_input_event_type") == "tool_result" else AFTER_USER,
    )


def _moment_ns(place: str, event: Mapping[str, Any]) -> int:
    written = event.get("timestamp")
    try:
        found = datetime.fromisoformat(str(written))
    except ValueError:
        raise UsageError(
            f"{place}: the timestamp {written!r} cannot be read", remedy="write 2026-06-01T05:40:20.151Z"
        ) from None
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * NS_PER_S)


def _contexts(rounds: Sequence[_Round]) -> list[int]:
    """Return which earlier round each round continues; -1 if none.

    A context that has grown continues the round before it. One that has shrunk, because the agent dropped its reasoning
    or summarized, continues the last round whose whole context the recorded server found in its cache.
    """
    found = []
    for number, this in enumerate(rounds):
        context = number - 1
        if context >= 0 and this.size <= rounds[context].size:
            most = min(this.size - 1, this.cached + CACHE_BLOCK)
            context = next((each for each in range(number - 1, -1, -1) if rounds[each].size <= most), -1)
        found.append(context)
    return found


def _amounts(rounds: Sequence[_Round], contexts: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return how many tokens each round adds to its context, and how many of its answer later contexts repeat."""
    kept = [max(1, this.kept) for this in rounds]
    for number, context in enumerate(contexts):
        if context >= 0:
            kept[context] = max(1, min(kept[context], rounds[number].size - rounds[context].size - 1))
    known = [rounds[context].size + kept[context] if context >= 0 else 0 for context in contexts]
    return [max(1, this.size - before) for this, before in zip(rounds, known, strict=True)], kept


def _round_calls(
    rounds: Sequence[_Round], contexts: Sequence[int], added: Sequence[int], kept: Sequence[int]
) -> Iterator[RecordedCall]:
    """Yield the calls of a session, each of which waits for the previous one."""
    ended_ns = 0
    for number, this in enumerate(rounds):
        yield RecordedCall(
            added[number],
            kept[number],
            after=(number - 1,) if number else (),
            context=contexts[number],
            pause_ns=max(0, this.begun_ns - ended_ns) if this.begun_ns and ended_ns else 0,
            kind=this.kind,
            limit=max(1, this.said),
        )
        ended_ns = this.ended_ns


# --- spans


class _Span(NamedTuple):
    """A span of a trace."""

    identity: str
    parent: str
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Any]

    @property
    def is_call(self) -> bool:
        return self.attributes.get("gen_ai.operation.name") in _CALLS


def _traces(path: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[RecordedTask]:
    traces: dict[str, list[_Span]] = {}
    for row in rows:
        for trace, span in _spans(path, row):
            traces.setdefault(trace, []).append(span)
    for name, spans in traces.items():
        if any(span.is_call for span in spans):
            yield RecordedTask(name, tuple(_span_calls(spans)))


def _spans(path: str, document: Mapping[str, Any]) -> Iterator[tuple[str, _Span]]:
    resources = document.get("resourceSpans", document.get("resource_spans"))
    for resource in _listed(path, resources, "resourceSpans"):
        scopes = (
            resource.get("scopeSpans", resource.get("scope_spans", ()))
            if isinstance(resource, Mapping)
            else ()
        )
        for scope in _listed(path, scopes, "scopeSpans"):
            for span in _listed(path, scope.get("spans") if isinstance(scope, Mapping) else None, "spans"):
                yield _span(path, span)


def _span(path: str, span: Any) -> tuple[str, _Span]:
    try:
        attributes = {row["key"]: _value(row.get("value")) for row in span.get("attributes", ())}
        return str(span["traceId"]), _Span(
            str(span["spanId"]),
            str(span.get("parentSpanId") or ""),
            int(span["startTimeUnixNano"]),
            int(span["endTimeUnixNano"]),
            attributes,
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"a span of {path} cannot be read: {error}",
            remedy="write OTLP's JSON, as the collector's file exporter",
        ) from error


def _value(value: Any) -> Any:
    """Return the plain form of an OTLP value."""
    if not isinstance(value, Mapping):
        return None
    if "intValue" in value:
        return int(value["intValue"])
    if "arrayValue" in value:
        return [_value(part) for part in value["arrayValue"].get("values", ())]
    if "kvlistValue" in value:
        return {part["key"]: _value(part.get("value")) for part in value["kvlistValue"].get("values", ())}
    return next(iter(value.values()), None)


def _span_calls(spans: Sequence[_Span]) -> Iterator[RecordedCall]:
    """Yield the calls of a trace. A call waits for those whose branch of the trace ended before its own began."""
    by_identity = {span.identity: span for span in spans}
    calls = sorted((span for span in spans if span.is_call), key=lambda span: (span.start_ns, span.end_ns))
    lines = [_line(span, by_identity) for span in calls]
    begin_ns = min(span.start_ns for span in spans)
    earlier = [
        [other for other in range(number) if _precedes(lines[other], lines[number])]
        for number in range(len(calls))
    ]
    for number, span in enumerate(calls):
        before = [
            other
            for other in earlier[number]
            if not any(other in earlier[later] for later in earlier[number])
        ]
        ready_ns = max((calls[other].end_ns for other in earlier[number]), default=begin_ns)
        yield _span_call(number, calls, before, max(0, span.start_ns - ready_ns), earlier[number], lines)


def _line(span: _Span, spans: Mapping[str, _Span]) -> list[_Span]:
    """Return the ancestors of a span, from the root to the span itself."""
    found = [span]
    while found[0].parent in spans and len(found) < len(spans):
        found.insert(0, spans[found[0].parent])
    return found


def _precedes(one: Sequence[_Span], other: Sequence[_Span]) -> bool:
    """Return whether the branches of two calls, below their last common ancestor, follow each other."""
    for mine, theirs in zip(one, other, strict=False):
        if mine.identity != theirs.identity:
            return mine.end_ns <= theirs.start_ns
    return False


def _span_call(
    number: int,
    calls: Sequence[_Span],
    before: Sequence[int],
    pause_ns: int,
    earlier: Sequence[int],
    lines: Sequence[Sequence[_Span]],
) -> RecordedCall:
    found = calls[number].attributes
    messages = _span_messages(found.get("gen_ai.input.messages"))
    answer = _span_text(found.get("gen_ai.output.messages"))
    tokens, sent = (_tokens(found.get(f"gen_ai.usage.{name}_tokens")) for name in ("output", "input"))
    context, added = -1, max(1, sent)
    for other in reversed(earlier):
        theirs = calls[other].attributes
        said = _span_messages(theirs.get("gen_ai.input.messages"))
        if messages and said:
            if (
                len(messages) > len(said)
                and messages[: len(said)] == said
                and messages[len(said)][0] == "assistant"
            ):
                context, messages = other, messages[len(said) + 1 :]
                break
        elif not messages and lines[other][:-1] == lines[number][:-1]:
            known = _tokens(theirs.get("gen_ai.usage.input_tokens")) + _tokens(
                theirs.get("gen_ai.usage.output_tokens")
            )
            if sent > known:
                context, added = other, sent - known
            break
    system = _span_text(found.get("gen_ai.system_instructions")) or ""
    agent = next(
        (
            str(span.attributes["gen_ai.agent.name"])
            for span in reversed(lines[number])
            if "gen_ai.agent.name" in span.attributes
        ),
        str(found.get("gen_ai.operation.name")),
    )
    return RecordedCall(
        added,
        answer if answer else tokens or None,
        after=tuple(before),
        context=context,
        pause_ns=pause_ns,
        kind=agent[:60],
        system=system,
        limit=tokens,
        messages=tuple((role if role in ("user", "assistant") else "user", text) for role, text in messages),
    )


def _span_messages(value: Any) -> tuple[tuple[str, str], ...]:
    """Return role and text of the messages of a span, which may be a text with JSON."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return (("user", value),)
    if not isinstance(value, list):
        return ()
    return tuple(
        (str(row.get("role", "user")), _parts_text(row.get("parts", row.get("content"))))
        for row in value
        if isinstance(row, Mapping)
    )


def _span_text(value: Any) -> str | None:
    """Return the text of the messages or parts of a span; None if it has none."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return str(value)
    if not isinstance(value, list):
        return None
    texts = [
        _parts_text(row.get("parts", row.get("content"))) if "parts" in row else _parts_text([row])
        for row in value
        if isinstance(row, Mapping)
    ]
    return "\n".join(filter(None, texts)) or None


def _parts_text(parts: Any) -> str:
    if isinstance(parts, str):
        return parts
    found = []
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, Mapping):
            inner = next(
                (part[key] for key in ("content", "response", "arguments", "text") if key in part), ""
            )
            found.append(inner if isinstance(inner, str) else json.dumps(inner))
    return "\n".join(found)


# --- values


def _listed(place: str, value: Any, name: str) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise UsageError(f"{place}: '{name}' is not a list", remedy=_REMEDY)
    return value


def _count(place: str, row: Mapping[str, Any], name: str) -> int:
    value = row.get(name)
    if type(value) is not int or not 0 <= value <= MOST_TOKENS:
        raise UsageError(f"{place}: '{name}' is {value!r}", remedy="give a whole number of tokens")
    return value


def _tokens(value: Any) -> int:
    return value if type(value) is int and 0 < value <= MOST_TOKENS else 0


def _number(place: str, row: Mapping[str, Any], name: str) -> float:
    value = row.get(name) or 0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise UsageError(f"{place}: '{name}' is {value!r}", remedy="give a number of 0 or more")
    return float(value)
