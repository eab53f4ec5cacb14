"""Chat sessions: each turn carries all that was said before it in its session, answers included."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from inferometer.services.traffic import Conversations, Reply
from inferometer.wire.http1 import encode_request


@dataclass(frozen=True, slots=True)
class Chat:
    """What the turns of all sessions have in common."""

    path: str
    headers: tuple[tuple[str, str], ...]

    def start(self) -> Conversations:
        return _Chats(self)


class _Chats:
    """The sessions of one worker: a slot has one at a time."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._said: dict[int, list[Any]] = {}

    def request(self, slot: int, rendered: bytes | memoryview, *, is_start: bool) -> bytes:
        """The turn with what was said before it; its own messages are remembered."""
        body = bytes(rendered).partition(b"\r\n\r\n")[2]
        payload: dict[str, Any] = json.loads(body)
        said = self._said[slot] = [] if is_start else self._said.get(slot, [])
        messages = payload.get("messages")
        if isinstance(messages, list):
            said.extend(messages)
            payload["messages"] = said
        whole = json.dumps(payload, separators=(",", ":"), ensure_ascii=False).encode(
            "utf-8", "surrogatepass"
        )
        return encode_request("POST", self._chat.path, self._chat.headers, len(whole)) + whole

    def answered(self, slot: int, reply: Reply) -> None:
        message: Mapping[str, Any] | None = reply.message
        if message is not None:
            self._said.setdefault(slot, []).append(message)
