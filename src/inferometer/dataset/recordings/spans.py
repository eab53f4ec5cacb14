"""Spans: OpenTelemetry's GenAI spans in OTLP's JSON; a task per trace, with a call per inference span."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from inferometer.base.errors import UsageError
from inferometer.dataset.recordings.parts import MOST_TOKENS, RecordedCall, RecordedTask, list_of

_CALLS = ("chat", "text_completion", "generate_content")  # gen_ai.operation.name of inference spans


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


def traces(path: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[RecordedTask]:
    traces: dict[str, list[_Span]] = {}
    for row in rows:
        for trace, span in _spans(path, row):
            traces.setdefault(trace, []).append(span)
    for name, spans in traces.items():
        if any(span.is_call for span in spans):
            yield RecordedTask(name, tuple(_span_calls(spans)))


def _spans(path: str, document: Mapping[str, Any]) -> Iterator[tuple[str, _Span]]:
    resources = document.get("resourceSpans", document.get("resource_spans"))
    for resource in list_of(path, resources, "resourceSpans"):
        scopes = (
            resource.get("scopeSpans", resource.get("scope_spans", ()))
            if isinstance(resource, Mapping)
            else ()
        )
        for scope in list_of(path, scopes, "scopeSpans"):
            for span in list_of(path, scope.get("spans") if isinstance(scope, Mapping) else None, "spans"):
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
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
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


def _tokens(value: Any) -> int:
    return value if type(value) is int and 0 < value <= MOST_TOKENS else 0
