"""Conversations: ShareGPT's `conversations`, or `messages` of chats; a task each, with a call per user turn."""

from collections.abc import Iterator, Mapping
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.dataset.chat_rows import ROLES
from inferometer.dataset.recordings.parts import RecordedCall, RecordedTask, list_of


def conversation(place: str, row: Mapping[str, Any]) -> Iterator[RecordedTask]:
    """Yield the task of a conversation, if it has a user turn."""
    name = "conversations" if "conversations" in row else "messages"
    calls: list[RecordedCall] = []
    new: list[tuple[str, str]] = []
    system = ""
    for number, message in enumerate((*list_of(place, row.get(name), name), None)):
        role, text = (
            ("assistant", "") if message is None else message_of(f"{place}: message {number + 1}", message)
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


def message_of(place: str, message: Any) -> tuple[str, str]:
    """Return the role and the text of a message, in the format of ShareGPT or of chats."""
    if isinstance(message, Mapping):
        text = message.get("value", message.get("content"))
        role = str(message.get("from", message.get("role"))).lower()
        if isinstance(text, str) and (role in ROLES or role == "tool"):
            return ROLES.get(role, "user"), text
    raise UsageError(
        f"{place} is not a message with a role and a text", remedy="use from and value, or role and content"
    )
