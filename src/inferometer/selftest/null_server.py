"""A server that answers as fast as Python can, with a constant reply; or stalls, or fails, by a known pattern.

What it does with each request are pure numbers, so that the truth can be computed.

Started as `python -m inferometer.selftest.null_server BEHAVIOUR`. It writes its port to stdout, answers each line on
stdin with a report, and ends with its stdin.

The codecs take the bytes of one connection and give the bytes to send, without a socket. They know only what our own
client sends: a null server has to cost less than the client it is measured with.
"""

import contextlib
import gc
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from abc import ABC, abstractmethod
from array import array
from dataclasses import asdict, dataclass

from inferometer.base.units import NS_PER_S, monotonic_ns, plain_number
from inferometer.wire.frames import (
    ACK,
    DATA,
    DEFAULT_WINDOW,
    END_HEADERS,
    END_STREAM,
    FRAME_HEAD,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    LARGEST_FRAME_SIZE,
    LARGEST_WINDOW,
    MAX_FRAME_SIZE,
    PING,
    PREFACE,
    SETTINGS,
    frame,
    frame_head,
    settings,
    unpack_head,
    window_update,
)
from inferometer.wire.headers import SHRINK, encode_block
from inferometer.wire.protobuf import varint
from inferometer.wire.sender import pack_id

# By the request's number modulo CYCLE, what goes wrong with it, in the words the failure groups have for it.
CYCLE = 100
FAULTS = {5: "http 503", 55: "http 503", 25: "reset", 45: "timeout", 85: "malformed"}


def fault(number: int) -> str | None:
    """What happens to request `number` of a failing server, if anything."""
    return FAULTS.get(number % CYCLE)


def dealt(requests: int) -> dict[str, int]:
    """How many requests of each fault there are among the first so many."""
    whole, rest = divmod(requests, CYCLE)
    counts = dict.fromkeys(FAULTS.values(), 0)
    for place, kind in FAULTS.items():
        counts[kind] += whole + (place < rest)
    return counts


@dataclass(frozen=True, slots=True)
class Stall:
    """A server that freezes at the beginning of every period of the clock."""

    period_ns: int
    frozen_ns: int

    def thawed_ns(self, time_ns: int) -> int:
        """When a request that comes at this time is looked at."""
        return time_ns + max(self.frozen_ns - time_ns % self.period_ns, 0)

    def percentile_ns(self, p: float) -> int:
        """Of the waits of requests that come evenly: a wait of more than w has the share (frozen - w) / period."""
        return max(round(self.frozen_ns - (1 - p / 100) * self.period_ns), 0)

    def __str__(self) -> str:
        frozen, period = (plain_number(ns / NS_PER_S) for ns in (self.frozen_ns, self.period_ns))
        return f"freezes {frozen} s in every {period} s"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Of one built-in server."""

    protocol: str = "http"  # or grpc
    stall: Stall | None = None
    is_failing: bool = False
    keeps_arrivals: bool = False
    reply_size: int = 0  # bytes that are added to the smallest reply

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> "Behaviour":
        document = json.loads(text)
        stall = document.pop("stall")
        return Behaviour(**document, stall=None if stall is None else Stall(**stall))


# --- the server's side of a connection


class Book:
    """Numbers the requests of all connections, and keeps when they came if that is wanted."""

    def __init__(self, *, keeps_arrivals: bool) -> None:
        self.requests = 0
        self._keeps_arrivals = keeps_arrivals
        self._arrivals_ns = array("q")

    def enter(self) -> int:
        number = self.requests
        self.requests += 1
        if self._keeps_arrivals:
            self._arrivals_ns.append(monotonic_ns())
        return number

    def take_arrivals(self) -> list[int]:
        taken = self._arrivals_ns.tolist()
        del self._arrivals_ns[:]
        return taken


class Peer(ABC):
    """One connection to a client: heads are read, what follows each of them is skipped and then answered."""

    greeting = b""  # sent as soon as the connection stands

    def __init__(self, book: Book, *, skipped: int = 0) -> None:
        self._book = book
        self._held = b""  # the beginning of a head
        self._left = skipped  # bytes to skip

    def receive(self, data: bytearray, length: int) -> list[bytes]:
        """What to send after data[:length]; BROKEN_OFF is to be followed by a reset."""
        if self._held:
            data = bytearray(self._held) + data[:length]
            length, self._held = len(data), b""
        out: list[bytes] = []
        position = 0
        while position < length:
            if self._left:
                step = min(self._left, length - position)
                self._left -= step
            else:
                step = self._read_head(data, position, length, out)
                if not step:
                    self._held = bytes(data[position:length])
                    break
            position += step
            if not self._left:
                self._answer(out)
        return out

    @abstractmethod
    def _read_head(self, data: bytearray, position: int, length: int, out: list[bytes]) -> int:
        """How many bytes were taken; 0 when the head is not complete."""

    @abstractmethod
    def _answer(self, out: list[bytes]) -> None:
        """All that was to be skipped is there."""


# --- HTTP/1.1

_BODY = (
    b'{"model_name":"null","model_version":"1",'
    b'"outputs":[{"name":"OUTPUT","datatype":"INT8","shape":[1],"data":[0]}]}'
)


def _reply(status: bytes, body: bytes) -> bytes:
    head = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % (status, len(body)) + body


def http_reply(size: int) -> bytes:
    """A good one with so many bytes more than it needs."""
    return _reply(b"200 OK", _BODY + b" " * size)


GOOD = http_reply(0)
# A reset without a byte of the reply could be a kept-alive connection that the server was done with; the client
# sends such a request again. One in the middle of a reply is always a failure.
BROKEN_OFF = GOOD[: len(GOOD) // 2]
_BAD = {
    "http 503": _reply(b"503 Service Unavailable", b'{"error":"the self-test refuses this one"}'),
    "reset": BROKEN_OFF,
    "timeout": b"",
    "malformed": b"\x16\x03\x01 the self-test's garbage\r\n\r\n",
}
_LENGTH = b"\r\nContent-Length: "  # with the line's beginning: Inference-Header-Content-Length is another one


class NullHttp(Peer):
    """Requests with a Content-Length, or none."""

    def __init__(self, book: Book, *, is_failing: bool, good: bytes = GOOD) -> None:
        super().__init__(book)
        self._is_failing = is_failing
        self._good = good

    def _read_head(self, data: bytearray, position: int, length: int, out: list[bytes]) -> int:
        end = data.find(b"\r\n\r\n", position, length)
        if end < 0:
            return 0
        place = data.find(_LENGTH, position, end)
        self._left = 0 if place < 0 else int(data[place + len(_LENGTH) : end + 2].partition(b"\r\n")[0])
        return end + 4 - position

    def _answer(self, out: list[bytes]) -> None:
        number = self._book.enter()
        kind = fault(number) if self._is_failing else None
        out.append(self._good if kind is None else _BAD[kind])


# --- gRPC


def _split_by_id(*parts: bytes) -> tuple[bytes, ...]:
    """Frames cut where the stream id goes: joining with the id makes them whole."""
    zero = pack_id(0)
    pieces = [b""]
    for part in parts:
        assert part[5:FRAME_HEAD] == zero
        pieces[-1] += part[:5]
        pieces.append(part[FRAME_HEAD:])
    return tuple(pieces)


_NAME = b"\x0a\x04null"  # ModelInferResponse.model_name
_RAW = b"\x32"  # its raw_output_contents, with a length
_DATA = 16_384  # what a frame may hold where nothing else was agreed


def grpc_reply(size: int) -> tuple[bytes, ...]:
    """With so many bytes more than it needs, cut where the stream id goes."""
    message = _NAME + (_RAW + varint(size) + bytes(size) if size else b"")
    body = b"\0" + len(message).to_bytes(4, "big") + message
    return _split_by_id(
        # SHRINK: our header table is empty, as the client asked; then blocks may be looked up by their bytes.
        frame(
            HEADERS,
            END_HEADERS,
            0,
            SHRINK + encode_block(((":status", "200"), ("content-type", "application/grpc"))),
        ),
        *(frame(DATA, 0, 0, body[start : start + _DATA]) for start in range(0, len(body), _DATA)),
        frame(HEADERS, END_HEADERS | END_STREAM, 0, encode_block((("grpc-status", "0"),))),
    )


SMALLEST = grpc_reply(0)
_OPENED = LARGEST_WINDOW - DEFAULT_WINDOW


class NullGrpc(Peer):
    """Unary calls. Our window is as wide as it gets; of the client's, TCP keeps us within what it has read."""

    greeting = settings(
        {INITIAL_WINDOW_SIZE: LARGEST_WINDOW, MAX_FRAME_SIZE: LARGEST_FRAME_SIZE}
    ) + window_update(0, _OPENED)

    def __init__(self, book: Book, reply: tuple[bytes, ...] = SMALLEST) -> None:
        super().__init__(book, skipped=len(PREFACE))
        self._reply = reply
        self._stream = 0  # to answer after this frame; 0 is none
        self._used = 0  # of the connection's window

    def _read_head(self, data: bytearray, position: int, length: int, out: list[bytes]) -> int:
        """The head of DATA, whose payload is skipped; any other frame is taken whole."""
        if length - position < FRAME_HEAD:
            return 0
        high, low, kind, flags, stream = unpack_head(data, position)
        size = high << 16 | low
        if kind == DATA:
            self._left = size
            self._stream = stream if flags & END_STREAM else 0
            self._used += size
            if self._used > _OPENED // 2:
                out.append(window_update(0, self._used))
                self._used = 0
            return FRAME_HEAD
        end = position + FRAME_HEAD + size
        if end > length:
            return 0
        if kind == SETTINGS and not flags & ACK:
            out.append(frame_head(0, SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            out.append(frame(PING, ACK, 0, bytes(data[position + FRAME_HEAD : end])))
        return FRAME_HEAD + size

    def _answer(self, out: list[bytes]) -> None:
        if self._stream:
            self._book.enter()
            out.append(pack_id(self._stream).join(self._reply))
            self._stream = 0


# --- the process

BUFFER = 1024 * 1024
BACKLOG = 4096  # while the server is frozen, connections wait here
STDIN = 0


def main() -> None:
    for number in (
        signal.SIGINT,
        signal.SIGHUP,
    ):  # of a terminal, which reach the whole group; our stdin tells us
        signal.signal(number, signal.SIG_IGN)
    listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
    _say({"port": listener.getsockname()[1]})
    gc.freeze()
    gc.disable()
    _Server(listener, Behaviour.from_json(sys.argv[1])).run()


def _say(document: object) -> None:
    print(json.dumps(document), flush=True)


class _Server:
    """One epoll loop. Sockets block: there is always something to read when we do, and replies are small."""

    def __init__(self, listener: socket.socket, behaviour: Behaviour) -> None:
        self._listener = listener
        self._behaviour = behaviour
        self._book = Book(keeps_arrivals=behaviour.keeps_arrivals)
        self._buffer = bytearray(BUFFER)
        self._connections: dict[int, tuple[socket.socket, Peer]] = {}
        self._late_ns = 0
        self._received = self._sent = 0
        self._http, self._grpc = http_reply(behaviour.reply_size), grpc_reply(behaviour.reply_size)
        self._epoll = select.epoll()
        for fd in (listener.fileno(), STDIN):
            self._epoll.register(fd, select.EPOLLIN)

    def run(self) -> None:
        stall = self._behaviour.stall
        while True:
            for fd, _ in self._epoll.poll():
                if stall is not None:
                    self._late_ns = max(self._late_ns, _freeze(stall))
                if fd in self._connections:
                    self._serve(fd)
                elif fd == STDIN:
                    if not os.read(STDIN, 4096):
                        return
                    self._report()
                else:
                    self._accept()

    def _accept(self) -> None:
        sock, _ = self._listener.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer: Peer = NullHttp(self._book, is_failing=self._behaviour.is_failing, good=self._http)
        if self._behaviour.protocol == "grpc":
            peer = NullGrpc(self._book, self._grpc)
        self._connections[sock.fileno()] = (sock, peer)
        self._epoll.register(sock.fileno(), select.EPOLLIN)
        if peer.greeting:
            sock.sendall(peer.greeting)

    def _serve(self, fd: int) -> None:
        sock, peer = self._connections[fd]
        try:
            length = sock.recv_into(self._buffer)
            replies = peer.receive(self._buffer, length) if length else []
            self._received += length
            if replies:
                reply = replies[0] if len(replies) == 1 else b"".join(replies)
                self._sent += len(reply)
                sock.sendall(reply)
        except OSError:  # the client has gone
            length, replies = 0, []
        if not length:
            self._drop(fd)
        elif replies and replies[-1] is BROKEN_OFF:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close with RST
            self._drop(fd)

    def _drop(self, fd: int) -> None:
        sock, _ = self._connections.pop(fd)
        self._epoll.unregister(fd)
        sock.close()

    def _report(self) -> None:
        _say(
            {
                "now_ns": monotonic_ns(),
                "cpu_ns": time.process_time_ns(),
                "requests": self._book.requests,
                "late_ns": self._late_ns,
                "received_bytes": self._received,
                "sent_bytes": self._sent,
                "arrivals_ns": self._book.take_arrivals(),
            }
        )


def _freeze(stall: Stall) -> int:
    """Wait until the freeze of the pattern is over; returns by how much this machine made it longer."""
    now = monotonic_ns()
    until = stall.thawed_ns(now)
    if until == now:
        return 0
    time.sleep((until - now) / NS_PER_S)
    return monotonic_ns() - until


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):  # the process that started us has ended
        main()
