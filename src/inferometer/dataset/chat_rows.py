"""Conversion of rows of prompt and chat files to requests.

A conversation of several turns becomes one request per user turn, which carries the preceding conversation with the
file's answers; or, in sessions, only the new messages, because the server's own answers go in between.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.text import encode_json
from inferometer.dataset.dataset import EXPECTED, Step
from inferometer.dataset.rows import A_TRACE, ACCEPTED, CHAT_FIELDS, PROMPT_FIELDS, Row, Rows, read_rows
from inferometer.dataset.trace_tokens import LONGEST
from inferometer.model.spec import Tensor
from inferometer.options.names import with_names

ROLES: Mapping[str, str] = {
    **dict.fromkeys(("human", "user"), "user"),
    **dict.fromkeys(("gpt", "chatgpt", "assistant", "model", "bing", "bard"), "assistant"),
    "system": "system",
}
_ASKED = ("max_tokens", "output_length", "output_tokens")
_LONGEST_MS = 1e15


@frozen
class Reading:
    """How to read rows: `column` names the field of prompts; `count` counts the tokens of answers in the file,
    which are then requested."""

    column: str | None = None
    has_sessions: bool = False
    count: Callable[[str], int] | None = None


@frozen
class RequestsRead:
    """Requests read from a file, and findings about it."""

    format: str
    steps: tuple[Step, ...]
    turns: tuple[int, ...] = ()  # number per conversation
    findings: tuple[str, ...] = ()


def read_requests(path: str, data: bytes, reading: Reading) -> RequestsRead:
    """Read the requests from a file with this content."""
    return requests_of(path, read_rows(path, data, reading.column), reading)


def requests_of(path: str, found: Rows, reading: Reading) -> RequestsRead:
    """Convert rows to steps, one per request, in the order of the file."""
    steps: list[Step] = []
    turns: list[int] = []
    empty = 0
    urls: dict[str, Row] = {}
    for row in found.rows:
        if "body" in row.fields:
            urls.setdefault(str(row.fields.get("url")), row)
        made = tuple(_steps(row, reading))
        empty += not made
        steps += made
        if made and "conversations" in row.fields:
            turns.append(len(made))
    if len(urls) > 1:
        (one, _), (other, row) = list(urls.items())[:2]
        raise row.error(
            f"'url' is {other}, but earlier rows have {one}",
            remedy="give one file per endpoint: a run has a single endpoint",
        )
    if not steps:
        raise found.rows[0].error("no row has a user turn")
    name = "ShareGPT" if turns else "OpenAI batch" if urls else found.format
    return RequestsRead(name, tuple(steps), tuple(turns), tuple(_findings(path, reading, turns, empty)))


def _findings(path: str, reading: Reading, each: Sequence[int], empty: int) -> Iterator[str]:
    conversations, turns = len(each), sum(each)
    if conversations and reading.has_sessions:
        yield (
            f"{path}: {conversations:,} conversations with {turns:,} turns in total are sent as sessions; the "
            "server's answers replace those in the file"
        )
    elif turns > conversations:
        yield (
            f"{path}: {conversations:,} conversations are sent as {turns:,} requests, one per user turn, with the "
            "preceding turns of the file as history; --session-concurrency sends them as sessions"
        )
    if conversations and reading.count is not None:
        yield f"{path}: each request asks for as many tokens as the file's answer has"
    if empty:
        yield f"{path}: {empty:,} conversations without a user turn were left out"


def _steps(row: Row, reading: Reading) -> Iterator[Step]:
    fields = row.fields
    if reading.column is not None:
        yield _with_common(row, _prompt(row, reading.column))
        return
    if isinstance(fields.get("query"), str) and isinstance(fields.get("documents"), list):
        yield (
            _tensor("query", fields["query"].encode("utf-8", "replace")),
            _tensor("documents", encode_json(fields["documents"])),
        )
        return
    if (name := next((name for name in CHAT_FIELDS if name in fields), None)) is None:
        name = next((name for name in PROMPT_FIELDS if isinstance(fields.get(name), str)), None)
        if name is None:
            raise _nothing_to_send(row)
        yield _with_common(row, _prompt(row, name))
    elif name == "body":
        yield _with_common(row, _body(row))
    elif name == "messages" and not reading.has_sessions:
        yield _with_common(row, _messages_tensor(_messages(row, name, "role", "content")))
    else:
        keys = ("role", "content") if name == "messages" else _keys(fields[name])
        yield from _turns(row, _messages(row, name, *keys), reading)


def _nothing_to_send(row: Row) -> UsageError:
    if "timestamp" in row.fields or "input_length" in row.fields:
        return row.error("this is a line of a trace without a prompt", remedy=with_names(A_TRACE))
    names = ", ".join(map(repr, row.fields))
    but = f", only {names[:200]}" if names else ""
    return UsageError(f"{row.place} has neither 'prompt' nor 'messages'{but}", remedy=with_names(ACCEPTED))


def _keys(conversation: Any) -> tuple[str, str]:
    """Return ShareGPT's keys, or those of chats, which some files use under `conversations`."""
    first = conversation[0] if isinstance(conversation, list) and conversation else None
    is_chat = isinstance(first, Mapping) and "role" in first
    return ("role", "content") if is_chat else ("from", "value")


# --- one row


def _prompt(row: Row, name: str) -> Tensor:
    text = row.fields.get(name)
    if not isinstance(text, str) or not text.strip():
        said = "missing" if text is None else "empty" if isinstance(text, str) else f"a {type(text).__name__}"
        raise row.error(f"'{name}' is {said}", remedy="give every row a text there, or leave the row out")
    return _tensor("prompt", text.encode("utf-8", "replace"))


def _body(row: Row) -> Tensor:
    body, method = row.fields["body"], row.fields.get("method", "POST")
    if not isinstance(body, Mapping) or method != "POST":
        raise row.error(
            f"'method' is {method!r}" if method != "POST" else "'body' is not an object",
            remedy='rows of a batch file are {"method": "POST", "url": "/v1/...", "body": {...}}',
        )
    return _tensor("payload", encode_json(body))


def _messages(row: Row, name: str, who: str, what: str) -> list[dict[str, Any]]:
    """Return messages in the form of chats: role and content. Other fields of chat messages are kept."""
    said = row.fields[name]
    if not isinstance(said, list):
        raise row.error(f"'{name}' is not a list")
    if who == "role" and name == "messages":
        return said
    messages = []
    for number, message in enumerate(said, start=1):
        if not isinstance(message, Mapping) or not isinstance(message.get(what), str):
            raise row.error(f"message {number} of '{name}' has no text '{what}'")
        role = ROLES.get(str(message.get(who)).lower())
        if role is None:
            raise row.error(
                f"message {number} of '{name}': '{who}' is {str(message.get(who))[:80]!r}",
                remedy=f"use one of {', '.join(ROLES)}",
            )
        messages.append({"role": role, "content": message[what]})
    return messages


def _turns(row: Row, messages: Sequence[Any], reading: Reading) -> Iterator[Step]:
    """Yield a step for each user turn, which needs an answer."""
    session = str(row.fields.get("session_id", row.fields.get("id", row.place)))
    history: list[Any] = []
    new: list[Any] = []
    for number, message in enumerate((*messages, None)):
        role = message.get("role", "") if isinstance(message, Mapping) else "assistant"
        if role != "assistant":
            new.append(message)
            continue
        if any(part.get("role") == "user" for part in new):
            sent = new if reading.has_sessions else history + new
            step = [_messages_tensor(sent)]
            answer = None if message is None else message.get("content")
            if reading.count is not None and isinstance(answer, str):
                step.append(_tensor("max_tokens", b"%d" % max(1, reading.count(answer))))
            if reading.has_sessions:
                step += [_tensor("session_id", session.encode("utf-8", "replace")), _tensor("delay", b"0")]
            yield tuple(step)
            history, new = history + new, []
        if history and number < len(messages):
            history = [*history, message]


def _messages_tensor(messages: Any) -> Tensor:
    return _tensor("messages", encode_json(messages))


def _with_common(row: Row, sent: Tensor) -> Step:
    """Add the fields that any row may have: the number of tokens to request, its place in a session, and the expected
    answer."""
    step = [sent]
    if sent.name != "payload" and (name := next((name for name in _ASKED if row.fields.get(name)), None)):
        step.append(_tensor("max_tokens", b"%d" % _whole(row, name)))
    if row.fields.get("session_id") is not None:
        step.append(_tensor("session_id", str(row.fields["session_id"]).encode("utf-8", "replace")))
        step.append(_tensor("delay", str(_delay(row)).encode()))
    if isinstance(row.fields.get(EXPECTED), str):
        step.append(_tensor(EXPECTED, row.fields[EXPECTED].encode("utf-8", "replace")))
    return tuple(step)


def _whole(row: Row, name: str) -> int:
    value = row.fields[name]
    try:
        found = int(value) if type(value) in (int, str) else 0
    except ValueError:
        found = 0
    if not 1 <= found <= LONGEST:
        raise row.error(f"'{name}' is {value!r}", remedy="give a whole number of tokens, 1 or more")
    return found


def _delay(row: Row) -> float:
    value = row.fields.get("delay") or 0
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = -1.0
    if not 0 <= found < _LONGEST_MS:
        raise row.error(f"'delay' is {value!r}", remedy="give a number of milliseconds")
    return found


def _tensor(name: str, data: bytes) -> Tensor:
    return Tensor(name, "JSON", (1,), data)
