"""Requests of a trace or a prompt file as columns: times, lengths and shared prefixes. Nothing is sent.

The tokens a prefix cache could serve are exact for a trace with named blocks; for texts, the reader counts them.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence

from inferometer.base.frozen import frozen
from inferometer.dataset.chat_rows import Reading, RequestsRead, read_requests
from inferometer.dataset.dataset import Step, read_bytes, split_lines
from inferometer.dataset.payloads import parse_payloads
from inferometer.dataset.prompts import text_of
from inferometer.dataset.replay import TIMES, Trace, parse_trace
from inferometer.dataset.rows import CHAT_FIELDS, PROMPT_FIELDS, is_rows
from inferometer.dataset.tokens import Tokenizer
from inferometer.dataset.trace_tables import TABLES
from inferometer.dataset.trace_tokens import cacheable_in_blocks

_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


@frozen
class Contents:
    """Contents of a file. A column is empty if the file lacks it; `cacheable_tokens` is None if unknown, or if `texts`
    determine it."""

    format: str
    counted_in: str  # how tokens are counted: by the trace itself, in words, or by the named tokenizer
    requests: int
    times_ns: tuple[int, ...] = ()
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()
    cacheable_tokens: int | None = None
    sessions: tuple[int, ...] = ()  # requests per session
    findings: tuple[str, ...] = ()


def read_contents(path: str, tokenizer: Tokenizer, column: str | None = None) -> Contents:
    """Read the contents of a file in any supported format."""
    data = read_bytes(path)
    if _is_trace(path, data):
        return _of_trace(parse_trace(path, data))
    reading = Reading(column, count=tokenizer.count)
    if data.lstrip().startswith(b"{") and not is_rows(path, data):
        streams, _ = parse_payloads(path, data)
        steps = tuple(step for stream in streams for step in stream)
        return _of_requests("payloads", RequestsRead("payloads", steps), tokenizer)
    found = read_requests(path, data, reading)
    return _of_requests(found.format, found, tokenizer)


def _is_trace(path: str, data: bytes) -> bool:
    """Return whether the first line has a time, but no data to send."""
    first = next((line for line in split_lines(data[:1_000_000], path) if line.strip()), b"")
    if any(table.is_header(first) for table in TABLES):
        return True
    try:
        fields = json.loads(first)
    except (ValueError, RecursionError):
        return False
    if not isinstance(fields, dict) or set(fields) & {*CHAT_FIELDS, *PROMPT_FIELDS}:
        return False
    return bool(set(fields) & set(TIMES))


def _of_trace(trace: Trace) -> Contents:
    tokens = [entry.tokens for entry in trace.entries if entry.tokens is not None]
    has_blocks = any(each.blocks for each in tokens)
    sessions = Counter(each.session for each in tokens if each.session is not None)
    unanswered = sum(each.output == 0 for each in tokens)
    return Contents(
        format=trace.format,
        counted_in="the trace",
        requests=len(trace.entries),
        times_ns=tuple(entry.time_ns for entry in trace.entries),
        inputs=tuple(each.input for each in tokens),
        outputs=tuple(each.output for each in tokens if each.output is not None),
        cacheable_tokens=cacheable_in_blocks(tokens) if has_blocks else None,
        sessions=tuple(sessions.values()),
        findings=(f"{unanswered:,} requests have an answer without tokens",) if unanswered else (),
    )


def _of_requests(name: str, found: RequestsRead, tokenizer: Tokenizer) -> Contents:
    texts = [text_of(step, None).before for step in found.steps]
    limits = (_limit(step) for step in found.steps)
    return Contents(
        format=name,
        counted_in=tokenizer.name,
        requests=len(texts),
        inputs=tuple(map(tokenizer.count, texts)),
        outputs=tuple(limit for limit in limits if limit is not None),
        texts=tuple(texts),
        sessions=found.turns or tuple(Counter(_sessions(found.steps)).values()),
        findings=found.findings,
    )


def _sessions(steps: Sequence[Step]) -> Iterator[bytes]:
    return (tensor.data for step in steps for tensor in step if tensor.name == "session_id")


def _limit(step: Step) -> int | None:
    tensors = {tensor.name: tensor.data for tensor in step}
    if "max_tokens" in tensors:
        return int(tensors["max_tokens"])
    payload = json.loads(tensors["payload"]) if "payload" in tensors else {}
    return next((payload[name] for name in _LIMITS if type(payload.get(name)) is int), None)
