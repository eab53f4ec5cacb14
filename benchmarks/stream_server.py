"""An OpenAI-style chat server with exact timing: `python -m benchmarks.stream_server` prints its port and serves.

Every answer has TOKENS tokens, the first FIRST_NS after the request was read, the others GAP_NS apart. All events are
rendered in advance. Since every stream has the same delays, two queues are enough, without a timer wheel or a heap:
first tokens are due in the order of their requests, later ones in the order of the tokens before them. Times are
absolute: a late token does not delay the next one.

`GET /truth` returns what was sent since the last such call, so that errors of a client can be distinguished from
errors of this server.
"""

import contextlib
import json
import os
import re
import resource
import socket
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferometer.base.units import monotonic_ns
from inferometer.load.reactor import READ, SocketReactor

TOKENS = 50
FIRST_NS = 50_000_000
GAP_NS = 10_000_000
PROMPT_TOKENS = 20
MODEL = "exact"

_AT_ONCE = (
    32  # tokens sent before sockets are polled again, so that a request does not wait for a thousand of them
)
_IDLE_NS = 100_000_000
_READ_SIZE = 65536
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
_STREAM = re.compile(rb'"stream"\s*:\s*true')


Quantiles = tuple[float, float]  # p50 and p90
NOTHING: Quantiles = (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Truth:
    """What was sent, and its delay behind the due times."""

    streams: int = 0
    tokens: int = 0
    ttft_ms: Quantiles = NOTHING
    gap_ms: Quantiles = NOTHING  # of the mean gap of each stream
    late_p50_ms: float = 0.0
    late_p99_ms: float = 0.0
    cut: int = 0  # streams that the client closed before their end
    cpu_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Sent:
    """One complete stream: the time its request was read, and the send time of each token."""

    read_ns: int
    times: tuple[int, ...]


def truth(streams: Iterable[Sent], *, cut: int = 0, cpu_s: float = 0.0) -> Truth:
    found = list(streams)
    if not found:
        return Truth(cut=cut, cpu_s=cpu_s)
    times = np.array([stream.times for stream in found], np.int64)
    read = np.array([stream.read_ns for stream in found], np.int64)
    due = read[:, None] + FIRST_NS + GAP_NS * np.arange(times.shape[1])
    late = times - due
    return Truth(
        streams=len(found),
        tokens=times.size,
        ttft_ms=_quantiles(times[:, 0] - read),
        gap_ms=_quantiles(np.diff(times).mean(axis=1)),
        late_p50_ms=float(np.median(late)) / 1e6,
        late_p99_ms=float(np.percentile(late, 99)) / 1e6,
        cut=cut,
        cpu_s=cpu_s,
    )


def _quantiles(values_ns: NDArray[Any]) -> Quantiles:
    half, most = np.percentile(values_ns, (50, 90)) / 1e6
    return float(half), float(most)


# --- what is sent


def _chunk(*events: bytes) -> bytes:
    text = b"".join(b"data: %s\n\n" % event for event in events)
    return b"%x\r\n%s\r\n" % (len(text), text)


def _event(content: str | None, finish: str | None = None, role: str | None = None) -> bytes:
    delta = {key: value for key, value in (("role", role), ("content", content)) if value is not None}
    return _document([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}])


def _document(choices: list[object], **more: object) -> bytes:
    document = {
        "id": "chatcmpl-3f1c0a5b7d9e4c62",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": MODEL,
        "choices": choices,
    }
    return json.dumps({**document, **more}, separators=(",", ":")).encode()


def pieces() -> tuple[bytes, ...]:
    """One piece per token: the head comes with the first, the finish reason and the usage with the last."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    usage = {
        "prompt_tokens": PROMPT_TOKENS,
        "completion_tokens": TOKENS,
        "total_tokens": PROMPT_TOKENS + TOKENS,
    }
    found = [_chunk(_event(f" token{number:02}")) for number in range(TOKENS)]
    found[0] = head + _chunk(_event("", role="assistant")) + found[0]
    found[-1] += _chunk(_event(None, finish="length")) + _chunk(_document([], usage=usage))
    found[-1] += _chunk(b"[DONE]") + b"0\r\n\r\n"
    return tuple(found)


def _answer(document: object, status: str = "200 OK") -> bytes:
    body = json.dumps(document).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


# --- connections


class _Stream:
    """An answer in progress."""

    __slots__ = ("connection", "number", "read_ns", "times")

    def __init__(self, connection: "_Connection", read_ns: int) -> None:
        self.connection = connection
        self.number = 0  # index of the next token
        self.read_ns = read_ns
        self.times: list[int] = []


class _Connection:
    """A client's connection, with the received part of its next request."""

    __slots__ = ("_pending", "_server", "is_open", "send", "socket")

    def __init__(self, server: "StreamServer", connection: socket.socket) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = connection
        self.send = connection.send
        self.is_open = True
        self._server = server
        self._pending = b""

    def ready(self, mask: int) -> None:
        try:
            data = self.socket.recv(_READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        now_ns = monotonic_ns()
        self._pending += data
        while (request := self._maybe_request()) is not None:
            self._server.asked(self, request, now_ns)

    def _maybe_request(self) -> bytes | None:
        end = self._pending.find(b"\r\n\r\n") + 4
        if end < 4:
            return None
        found = _LENGTH.search(self._pending, 0, end)
        end += int(found[1]) if found else 0
        if len(self._pending) < end:
            return None
        request, self._pending = self._pending[:end], self._pending[end:]
        return request

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self._server.reactor.remove(self.socket.fileno())
            self.socket.close()


class StreamServer:
    """A server on a free loopback port."""

    def __init__(self) -> None:
        self.reactor = SocketReactor(monotonic_ns)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self._listener.setblocking(False)
        self.reactor.add(self._listener.fileno(), READ, self._accept)
        self.port: int = self._listener.getsockname()[1]
        self._first: deque[tuple[int, _Stream]] = deque()  # due time of its first token, stream
        self._next: deque[tuple[int, _Stream]] = deque()  # the same for the later tokens
        self._pieces = pieces()
        self._sent: list[Sent] = []
        self._cut = 0
        self._cpu_s = time.process_time()

    def serve(self) -> None:
        while True:
            self.reactor.wait(self._send_due())

    # --- requests

    def _accept(self, mask: int) -> None:
        try:
            while True:
                accepted, _ = self._listener.accept()
                self.reactor.add(accepted.fileno(), READ, _Connection(self, accepted).ready)
        except BlockingIOError:
            return

    def asked(self, connection: _Connection, request: bytes, now_ns: int) -> None:
        line = request.partition(b"\r\n")[0]
        if line.startswith(b"POST "):
            if _STREAM.search(request) is None:
                _reply(connection, _answer({"error": {"message": "only streams here"}}, "400 Bad Request"))
                return
            self._first.append((now_ns + FIRST_NS, _Stream(connection, now_ns)))
        elif b"/truth" in line:
            _reply(connection, _answer(asdict(self._truth())))
        elif b"/models" in line:
            _reply(connection, _answer({"object": "list", "data": [{"id": MODEL, "object": "model"}]}))
        elif b"/health" in line:
            _reply(connection, _answer({}))
        else:
            _reply(connection, _answer({"error": {"message": "no such page"}}, "404 Not Found"))

    def _truth(self) -> Truth:
        cpu_s = time.process_time()
        found = truth(self._sent, cut=self._cut, cpu_s=cpu_s - self._cpu_s)
        self._sent, self._cut, self._cpu_s = [], 0, cpu_s
        return found

    # --- tokens

    def _send_due(self) -> int:
        """Send all due tokens and return the time until the next one."""
        first, later, pieces, clock = self._first, self._next, self._pieces, monotonic_ns
        now = clock()
        for _ in range(_AT_ONCE):
            queue = later if later and (not first or later[0][0] <= first[0][0]) else first
            if not queue:
                return now + _IDLE_NS
            due = queue[0][0]
            if due > now:
                return due
            stream = queue.popleft()[1]
            number = stream.number
            piece = pieces[number]
            try:
                is_sent = stream.connection.send(piece) == len(piece)
            except OSError:
                is_sent = False
            now = clock()
            if not is_sent:
                self._cut += 1
                stream.connection.close()
                continue
            stream.times.append(now)
            stream.number = number + 1
            if number + 1 < TOKENS:
                later.append((due + GAP_NS, stream))
            else:
                self._sent.append(Sent(stream.read_ns, tuple(stream.times)))
        return now


def _reply(connection: _Connection, answer: bytes) -> None:
    try:
        connection.send(answer)
    except OSError:
        connection.close()


def main() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with contextlib.suppress(
        PermissionError
    ):  # the tools may use every core; the server's timing has priority
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    server = StreamServer()
    print(server.port, flush=True)
    server.serve()


if __name__ == "__main__":
    main()
