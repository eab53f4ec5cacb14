"""A scripted OpenAI-style server on loopback, event by event."""

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any, Self

from tests.support.servers import (
    ANYWHERE,
    Act,
    Request,
    ScriptedServer,
    Wire,
    answer,
    answer_json,
    both,
    raw,
    serviced,
)

DONE = b"data: [DONE]\n\n"
LAST_CHUNK = b"0\r\n\r\n"

Speak = Callable[[int, Request], Act | None]
"""(number of the call from 0, its request) -> what happens to it; None is the usual answer."""


def event(document: Any) -> bytes:
    return b"data: " + json.dumps(document).encode() + b"\n\n"


def delta(text: str | None, **more: Any) -> bytes:
    """An event that carries part of a chat answer."""
    return event({"choices": [{"index": 0, "delta": {"content": text, **more}, "finish_reason": None}]})


ROLE = delta(None, role="assistant")
END = event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})


def usage(tokens: int, prompt_tokens: int) -> bytes:
    return event(
        {"choices": [], "usage": {"completion_tokens": tokens, "prompt_tokens": prompt_tokens}},
    )


def response_event(kind: str, **fields: Any) -> bytes:
    """An event of the responses API, which names its type twice."""
    return f"event: {kind}\n".encode() + event({"type": kind, **fields})


def response(words: tuple[str, ...], **details: Any) -> bytes:
    """The events of a complete stream of the responses API."""
    usage_given = {"input_tokens": 4, "output_tokens": len(words), **details}
    return b"".join(
        (
            response_event("response.created", response={"status": "in_progress"}),
            *(response_event("response.output_text.delta", delta=word) for word in words),
            response_event("response.output_text.done", text="".join(words)),
            response_event("response.completed", response={"status": "completed", "usage": usage_given}),
        )
    )


def stream(*pieces: bytes, is_whole: bool = True) -> Act:
    """A chunked answer, each piece sent separately; without `is_whole` it is cut off before its end."""
    return both(begun(*pieces), raw(LAST_CHUNK) if is_whole else Wire.close)


def begun(*pieces: bytes) -> Act:
    """The first pieces of a chunked answer."""

    def act(wire: Wire) -> None:
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in pieces:
            wire.send(chunk(piece))

    return act


def chunk(piece: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(piece), piece)


def stream_until_close(*pieces: bytes) -> Act:
    """An answer without a length, like those of old servers."""

    def act(wire: Wire) -> None:
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        for piece in pieces:
            wire.send(piece)

    return both(act, Wire.close)


def counted(words: tuple[str, ...], prompt_tokens: int = 4) -> Act:
    """The usual stream: a role, the words, the end, and a usage with one token per word."""
    return stream(ROLE, *map(delta, words), END, usage(len(words), prompt_tokens), DONE)


class FakeOpenAi:
    """A server with every endpoint for one model. Use as a context manager."""

    def __init__(
        self,
        speak: Speak = lambda number, request: None,
        *,
        models: tuple[str, ...] = ("tiny",),
        metrics: str = "",  # the text at /metrics
        is_queue: bool = False,  # usual answers are generated one after the other
    ) -> None:
        self.server = ScriptedServer(self._act)
        self.calls: list[Request] = []
        self._models = models
        self._metrics = metrics
        self._speak = speak
        self._place = threading.Lock() if is_queue else ANYWHERE
        self._counting = threading.Lock()

    def __enter__(self) -> Self:
        self.server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.__exit__()

    @property
    def payloads(self) -> list[dict[str, Any]]:
        return [json.loads(call.body) for call in self.calls]

    def _act(self, request: Request) -> Act:
        if request.method != "POST":
            if request.path == "/v1/models":
                return answer_json({"object": "list", "data": [{"id": name} for name in self._models]})
            if request.path == "/metrics" and self._metrics:
                return answer(self._metrics.encode())
            return answer_json({"error": {"message": f"no such path: {request.path}"}}, 404)
        with self._counting:
            number = len(self.calls)
            self.calls.append(request)
        act = self._speak(number, request)
        return serviced(_usual(request), self._place) if act is None else act


def _usual(request: Request) -> Act:
    payload: Mapping[str, Any] = json.loads(request.body)
    if request.path.endswith("/embeddings"):
        return answer_json({"data": [{"embedding": [0.5]}], "usage": {"prompt_tokens": 4, "total_tokens": 4}})
    if request.path.endswith("/rerank"):
        results = [{"index": n, "relevance_score": 0.5} for n, _ in enumerate(payload["documents"])]
        return answer_json({"results": results, "usage": {"total_tokens": 4}})
    if request.path.endswith("/responses"):
        return _response(payload)
    if payload.get("stream"):
        return counted(("one", "two", "three"))
    message = {"role": "assistant", "content": "one two three"}
    usage_given = {"completion_tokens": 3, "prompt_tokens": 4}
    return answer_json({"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage_given})


def _response(payload: Mapping[str, Any]) -> Act:
    if payload.get("stream"):
        return stream(response(("one", "two", "three")))
    content = [{"type": "output_text", "text": "one two three"}]
    usage_given = {"input_tokens": 4, "output_tokens": 3, "output_tokens_details": {"reasoning_tokens": 2}}
    output = [{"type": "message", "role": "assistant", "content": content}]
    return answer_json({"status": "completed", "error": None, "output": output, "usage": usage_given})
