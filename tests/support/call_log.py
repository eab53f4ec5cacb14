"""A scripted server of chats that logs when each call arrives and when its answer ends.

It runs on an event loop in a thread of its own, so that thousands of connections cost little.
"""

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic_ns
from typing import Any, NamedTuple, Self

from tests.support.openai import DONE, END, LAST_CHUNK, ROLE, chunk, delta, usage

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
MODELS = json.dumps({"object": "list", "data": [{"id": "tiny"}]}).encode()


class Heard(NamedTuple):
    """A call as the server saw it."""

    arrived_ns: int
    ended_ns: int  # before its last byte was written
    messages: tuple[dict[str, Any], ...]
    said: str
    body: dict[str, Any]


class Speech(NamedTuple):
    """What the server does with a call."""

    words: tuple[str, ...]
    delay_s: float = 0.0
    status: int = 200


Speak = Callable[[int, dict[str, Any]], Speech]


@dataclass(slots=True)
class CallLog:
    """Answers every chat with `speak(number, body)`, as a stream with one token per word. A context manager."""

    speak: Speak
    heard: list[Heard] = field(default_factory=list)
    port: int = 0
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _thread: threading.Thread | None = None
    _tasks: set["asyncio.Task[None]"] = field(default_factory=set)
    _number: int = 0

    def __enter__(self) -> Self:
        ready = threading.Event()

        def serve() -> None:
            asyncio.set_event_loop(self._loop)
            server = self._loop.run_until_complete(
                asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 22, backlog=4096)
            )
            self.port = server.sockets[0].getsockname()[1]
            ready.set()
            self._loop.run_forever()
            server.close()
            for task in asyncio.all_tasks(self._loop):
                task.cancel()
            self._loop.run_until_complete(
                asyncio.gather(*asyncio.all_tasks(self._loop), return_exceptions=True)
            )
            self._loop.close()

        self._thread = threading.Thread(target=serve)
        self._thread.start()
        ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        assert self._thread is not None
        self._thread.join()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    (
                        int(line[15:])
                        for line in head.split(b"\r\n")
                        if line.lower().startswith(b"content-length:")
                    ),
                    0,
                )
                body = await reader.readexactly(length)
                if head.startswith(b"HEAD"):
                    writer.write(_plain(404, b""))
                elif head.startswith(b"GET"):
                    writer.write(_plain(200 if b"/v1/models" in head else 404, MODELS))
                else:
                    await self._answer(json.loads(body), writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        arrived_ns = monotonic_ns()
        number, self._number = self._number, self._number + 1
        speech = self.speak(number, body)
        messages = tuple(body["messages"])
        if speech.status != 200:
            await asyncio.sleep(speech.delay_s)
            self.heard.append(Heard(arrived_ns, monotonic_ns(), messages, "", body))
            writer.write(_plain(speech.status, b'{"error":{"message":"no"}}'))
            return
        first, *rest = speech.words
        writer.write(_HEAD + _chunks(ROLE, delta(first)))
        if speech.delay_s:
            await asyncio.sleep(speech.delay_s)
        prompt = sum(len(message["content"].split()) for message in messages)
        last = _chunks(*map(delta, rest), END, usage(len(speech.words), prompt), DONE)
        self.heard.append(Heard(arrived_ns, monotonic_ns(), messages, "".join(speech.words), body))
        writer.write(last + LAST_CHUNK)


def _chunks(*events: bytes) -> bytes:
    """Return events as chunks; those of an answer name their kind, as other clients expect."""
    named = (
        each.replace(b'{"choices"', b'{"object": "chat.completion.chunk", "choices"', 1) for each in events
    )
    return b"".join(map(chunk, named))


def _plain(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        status,
        len(body),
        body,
    )
