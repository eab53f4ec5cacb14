"""Sessions: Mooncake's lines with `session_id`, `input_length` and `output_length`; a task per session.

A line may have a text (`text_input`) or messages instead of a length. Messages are the whole context of a turn, or with
`message_mode: delta` only what it adds.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from inferometer.base.errors import UsageError
from inferometer.base.units import NS_PER_MS
from inferometer.dataset.recordings.conversations import message_of
from inferometer.dataset.recordings.parts import (
    REMEDY,
    Found,
    RecordedCall,
    RecordedTask,
    count_of,
    list_of,
    number_of,
)

DELTA = "delta"


class _Turn(NamedTuple):
    """A line of a session."""

    size: int  # tokens of the context, or of what the turn adds; 0 if it has messages
    said: int  # tokens of its answer
    pause_ns: int
    text: str | None = None
    messages: tuple[tuple[str, str], ...] = ()
    is_delta: bool = False  # the messages are only those that the turn adds


def sessions_of(path: str, rows: Sequence[Mapping[str, Any]], lengths: str) -> Found:
    """Read the sessions; `lengths` is as in the rules of a recording."""
    sessions: dict[str, list[_Turn]] = {}
    for number, row in enumerate(rows, start=1):
        place = f"line {number} of {path}"
        key = str(row["session_id"]) if row.get("session_id") is not None else place
        sessions.setdefault(key, []).append(_turn(place, row))
    counted = {name: turns for name, turns in sessions.items() if not any(turn.messages for turn in turns)}
    cumulative = lengths == "cumulative" or (lengths == "auto" and _grow(counted.values()))
    tasks = [
        RecordedTask(
            name, tuple(_turns(name, turns, cumulative) if name in counted else _spoken_turns(name, turns))
        )
        for name, turns in sessions.items()
    ]
    findings = []
    if counted:
        how = "the whole context (cumulative)" if cumulative else "only what a turn adds (delta)"
        chosen = "" if lengths != "auto" else "; set turn-lengths if that is wrong"
        findings.append(f"{path}: input_length is assumed to count {how}{chosen}")
    if not any(turn.pause_ns for turns in sessions.values() for turn in turns):
        findings.append(f"{path}: no turn has a delay, so each is sent as soon as the previous answer ends")
    return "Mooncake sessions", tuple(findings), tasks


def _turn(place: str, row: Mapping[str, Any]) -> _Turn:
    said = count_of(place, row, "output_length")
    pause_ns = round(number_of(place, row, "delay") * NS_PER_MS)
    if "messages" not in row:
        text = next((row[key] for key in ("text_input", "prompt") if isinstance(row.get(key), str)), None)
        return _Turn(count_of(place, row, "input_length"), said, pause_ns, text)
    found = list_of(place, row["messages"], "messages")
    messages = tuple(
        message_of(f"{place}: message {number}", message) for number, message in enumerate(found, start=1)
    )
    if not any(role == "user" for role, _ in messages):
        raise UsageError(f"{place}: 'messages' has none of a user", remedy=REMEDY)
    return _Turn(0, said, pause_ns, None, messages, row.get("message_mode") == DELTA)


def _grow(sessions: Iterable[Sequence[_Turn]]) -> bool:
    """Return whether every turn is at least as long as the previous one with its answer."""
    pairs = [pair for turns in sessions for pair in pairwise(turns)]
    return bool(pairs) and all(later.size >= earlier.size + earlier.said for earlier, later in pairs)


def _turns(name: str, turns: Sequence[_Turn], cumulative: bool) -> Iterator[RecordedCall]:
    before = 0
    for number, turn in enumerate(turns):
        added = turn.size - before if cumulative else turn.size
        if added < 1:
            raise UsageError(
                f"session '{name}': turn {number + 1} has {turn.size:,} tokens, but the context before it has "
                f"{before:,}",
                remedy="set turn-lengths: delta if input_length counts only what a turn adds",
            )
        yield RecordedCall(
            added if turn.text is None else turn.text, turn.said, context=number - 1, pause_ns=turn.pause_ns
        )
        before = turn.size + turn.said


def _spoken_turns(name: str, turns: Sequence[_Turn]) -> Iterator[RecordedCall]:
    """Yield the calls of a session with messages. A whole context that begins with the previous one and an answer
    continues it."""
    if len({(bool(turn.messages), turn.is_delta) for turn in turns}) > 1:
        raise UsageError(
            f"session '{name}' has turns of several kinds", remedy="give each of them messages in one mode"
        )
    system = ""
    for number, turn in enumerate(turns):
        new, is_continued = turn.messages, number > 0
        if number and not turn.is_delta:
            new = _added(turns[number - 1].messages, turn.messages)
            is_continued = len(new) < len(turn.messages)
        if not is_continued:
            system, new = _apart(new)
        following = () if number + 1 == len(turns) or turn.is_delta else turns[number + 1].messages
        answer: str | int = turn.said
        if len(_added(turn.messages, following)) < len(following):
            answer = following[len(turn.messages)][1]
        yield RecordedCall(
            "",
            answer,
            after=(number - 1,) if number else (),
            context=number - 1 if is_continued else -1,
            pause_ns=turn.pause_ns,
            system=system,
            limit=turn.said,
            messages=new,
        )


def _added(
    before: Sequence[tuple[str, str]], messages: Sequence[tuple[str, str]]
) -> tuple[tuple[str, str], ...]:
    """Return the messages after the previous context and its answer; all of them if they do not begin with these."""
    size = len(before)
    if (
        len(messages) > size + 1
        and tuple(messages[:size]) == tuple(before)
        and messages[size][0] == "assistant"
    ):
        return tuple(messages[size + 1 :])
    return tuple(messages)


def _apart(messages: Sequence[tuple[str, str]]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the system prompt and the other messages."""
    if messages[0][0] == "system":
        return messages[0][1], tuple(messages[1:])
    return "", tuple(messages)
