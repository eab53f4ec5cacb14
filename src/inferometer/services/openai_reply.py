"""What replies of OpenAI-style servers mean: whole JSON documents, or streams of server-sent events.

A response is an event that carries some of the answer. The first event of a chat often only names the role, the last
ones give the reason for the end and the usage; none of these is a response. Tokens are what the server says under
`usage`. Servers end a stream with `[DONE]`, but not all do: a body that is whole by its own framing is whole.

Latency runs to the last event before `[DONE]`, whatever it carries, as in the classic tool: `[DONE]` and the end of the
body carry nothing.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inferometer.base import status as outcome
from inferometer.base.errors import PeerError
from inferometer.base.text import encodable
from inferometer.services.traffic import Reply, ReplyBody, WholeBody
from inferometer.wire.http1 import UNTIL_CLOSE, Head
from inferometer.wire.sse import Event, SseDecoder

DONE = b"[DONE]"
_MOST_TOKENS = 2**31
_PARTS = ("content", "reasoning_content", "reasoning", "tool_calls", "function_call", "refusal", "audio")
"""Where a chat's answer may be, in a delta or a message."""


@dataclass(frozen=True, slots=True)
class OpenAiReader:
    """Reads every reply, for its tokens and its errors."""

    keeps_message: bool = False  # for the next turn of its session
    keeps_texts: bool = False  # for an export

    def start(self, head: Head) -> ReplyBody:
        if (head.get("content-type") or "").lower().startswith("text/event-stream"):
            return _Events(self, is_framed=head.length != UNTIL_CLOSE)
        return WholeBody(self._whole)

    def _whole(self, body: bytes, last_ns: int) -> Reply:
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            return Reply(outcome.MALFORMED, f"the reply is not JSON: {body[:80]!r}", 0)
        if not isinstance(document, dict):
            return Reply(outcome.MALFORMED, f"the reply is not a JSON object: {body[:80]!r}", 0)
        if error := maybe_error(document):
            return Reply(outcome.REFUSED, error, 0)
        tokens, prompt_tokens = usage(document)
        return Reply(
            tokens=tokens,
            prompt_tokens=prompt_tokens,
            texts=((last_ns, body),) if self.keeps_texts else (),
            message=_message(document) if self.keeps_message else None,
        )

    def refusal(self, status: int, text: str) -> str:
        """In the classic tool's words, then the server's."""
        return f"OpenAI response returns HTTP code {status}{f': {text}' if text else ''}"


class _Events:
    """A reply as a stream of events."""

    __slots__ = (
        "_decoder",
        "_error",
        "_is_ended",
        "_is_framed",
        "_last_ns",
        "_prompt_tokens",
        "_said",
        "_texts",
        "_times",
        "_tokens",
    )

    def __init__(self, reader: OpenAiReader, *, is_framed: bool) -> None:
        self._decoder = SseDecoder()
        self._is_framed = is_framed  # the body says itself where it ends
        self._is_ended = False  # by [DONE], or by a reason for the end
        self._last_ns = 0
        self._times: list[int] = []
        self._tokens = self._prompt_tokens = 0
        self._error: Reply | None = None
        self._said: list[str] | None = [] if reader.keeps_message else None
        self._texts: list[tuple[int, bytes]] | None = [] if reader.keeps_texts else None

    @property
    def times(self) -> Sequence[int]:
        return self._times

    def receive(self, data: bytes, now_ns: int) -> None:
        for event in self._decoder.receive(data):
            is_done = event.data == DONE
            if self._texts is not None:  # [DONE] is kept as a response without content
                self._texts.append((now_ns, b"" if is_done else b"data: " + event.data + b"\n\n"))
            if is_done:
                self._is_ended = True
            elif self._error is None:
                self._last_ns = now_ns
                self._take(event, now_ns)

    def _take(self, event: Event, now_ns: int) -> None:
        try:
            document = json.loads(event.data)
        except (ValueError, RecursionError):
            raise PeerError(f"an event of the stream is not JSON: {event.data[:80]!r}") from None
        if not isinstance(document, dict):
            raise PeerError(f"an event of the stream is not a JSON object: {event.data[:80]!r}")
        error = maybe_error(document)
        if error or event.name == b"error":
            self._error = Reply(outcome.REFUSED, error or encodable(str(document)), len(self._times))
            return
        tokens, prompt_tokens = usage(document)
        self._tokens = tokens or self._tokens
        self._prompt_tokens = prompt_tokens or self._prompt_tokens
        found = document.get("choices")
        choices = [choice for choice in found if isinstance(choice, dict)] if isinstance(found, list) else []
        if any(map(_carries, choices)):
            self._times.append(now_ns)
        if self._said is not None and choices and isinstance(delta := choices[0].get("delta"), dict):
            content = delta.get("content")
            self._said.append(content if isinstance(content, str) else "")
        if any(choice.get("finish_reason") for choice in choices):
            self._is_ended = True

    def end(self) -> Reply:
        if self._error is not None:
            return self._error
        if not self._is_framed and not self._is_ended:
            text = f"the connection was closed in the stream, after {len(self._times)} responses"
            return Reply(outcome.RESET, text, len(self._times))
        return Reply(
            responses=len(self._times),
            times=tuple(self._times),
            tokens=self._tokens,
            prompt_tokens=self._prompt_tokens,
            texts=() if self._texts is None else tuple(self._texts),
            message=None if self._said is None else {"role": "assistant", "content": "".join(self._said)},
            end_ns=self._last_ns,
        )


def _carries(choice: Mapping[str, Any]) -> bool:
    """Whether there is something of the answer in it."""
    if choice.get("text"):
        return True
    delta = choice.get("delta")
    return isinstance(delta, dict) and any(delta.get(part) for part in _PARTS)


def _message(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What a whole answer says, as the next turn repeats it."""
    try:
        message = document["choices"][0]["message"]
    except (KeyError, IndexError, TypeError):
        return None
    return message if isinstance(message, dict) else None


def usage(document: Mapping[str, Any]) -> tuple[int, int]:
    """Tokens of the answer and of the request; 0 where the server does not say."""
    found = document.get("usage")
    if not isinstance(found, dict):
        return 0, 0
    return _tokens(found.get("completion_tokens")), _tokens(found.get("prompt_tokens"))


def _tokens(value: Any) -> int:
    return value if isinstance(value, int) and 0 < value < _MOST_TOKENS else 0


def maybe_error(document: Mapping[str, Any]) -> str:
    """The words of an error inside a document; empty when there is none."""
    error = document.get("error")
    if not error:
        return ""
    message = error.get("message") if isinstance(error, dict) else error
    return encodable(str(message)) if message else json.dumps(error)
