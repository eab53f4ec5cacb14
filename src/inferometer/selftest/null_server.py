"""A server that answers as fast as Python can, with a constant reply, or stalls or fails in a known pattern.

Its behaviour depends only on the number and time of a request, so that the true figures can be computed.

Started as `python -m inferometer.selftest.null_server BEHAVIOUR`. It writes its port to stdout, answers each line on
stdin with a report, and ends with its stdin.

The codecs convert received bytes of a connection to bytes to send, without a socket. They support only the requests of
this client, because a null server must cost less than the client.
"""

import contextlib
import gc
import json
import os
import signal
import socket
import struct
import sys
import time
from abc import ABC, abstractmethod
from array import array
from dataclasses import asdict

from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_S, monotonic_ns, plain_number
from inferometer.base.varint import varint
from inferometer.load.reactor import READ, open_set
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
from inferometer.wire.sender import pack_id

# Fault by the request's number modulo CYCLE, named like the failure groups.
CYCLE = 100
FAULTS = {5: "http 503", 55: "http 503", 25: "reset", 45: "timeout", 85: "malformed"}


def fault(number: int) -> str | None:
    """Return the fault of request `number` of a failing server, if any."""
    return FAULTS.get(number % CYCLE)


def dealt(requests: int) -> dict[str, int]:
    """Count the requests with each fault among the first `requests`."""
    whole, rest = divmod(requests, CYCLE)
    counts = dict.fromkeys(FAULTS.values(), 0)
    for place, kind in FAULTS.items():
        counts[kind] += whole + (place < rest)
    return counts


@frozen
class Stall:
    """A server that freezes at the beginning of every period of the clock."""

    period_ns: int
    frozen_ns: int

    def thawed_ns(self, time_ns: int) -> int:
        """Return when a request that arrives at this time is processed."""
        return time_ns + max(self.frozen_ns - time_ns % self.period_ns, 0)

    def percentile_ns(self, p: float) -> int:
        """Return a percentile of the waits of evenly spaced requests: the share (frozen - w) / period waits longer than
        w."""
        return max(round(self.frozen_ns - (1 - p / 100) * self.period_ns), 0)

    def __str__(self) -> str:
        frozen, period = (plain_number(ns / NS_PER_S) for ns in (self.frozen_ns, self.period_ns))
        return f"freezes {frozen} s in every {period} s"


@frozen
class Behaviour:
    """Behaviour of one built-in server."""

    protocol: str = "http"  # or grpc
    stall: Stall | None = None
    is_failing: bool = False
    keeps_arrivals: bool = False
    reply_size: int = 0  # bytes added to the smallest reply

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> "Behaviour":
        document = json.loads(text)
        stall = document.pop("stall")
        return Behaviour(**document, stall=None if stall is None else Stall(**stall))


# --- the server's side of a connection


class Book:
    """Counter of the requests of all connections, which optionally records their arrival times."""

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
    """One connection to a client: it reads each head, skips the body, and answers."""

    greeting = b""  # sent as soon as the connection is open

    def __init__(self, book: Book, *, skipped: int = 0) -> None:
        self._book = book
        self._held = b""  # a partial head
        self._left = skipped  # bytes to skip

    def receive(self, data: bytearray, length: int) -> list[bytes]:
        """Return the data to send after data[:length]; BROKEN_OFF must be followed by a reset."""
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
        """Read a head and return its number of bytes; 0 if it is incomplete."""

    @abstractmethod
    def _answer(self, out: list[bytes]) -> None:
        """Answer a request whose body has arrived completely."""


# --- HTTP/1.1

_BODY = (
    b'{"model_name":"null","model_version":"1",'
    b'"outputs":[{"name":"OUTPUT","datatype":"INT8","shape":[1],"data":[0]}]}'
)


def _reply(status: bytes, body: bytes) -> bytes:
    head = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % (status, len(body)) + body


def http_reply(size: int) -> bytes:
    """Return a success reply with this many extra bytes."""
    return _reply(b"200 OK", _BODY + b" " * size)


GOOD = http_reply(0)
# A reset without a byte of the reply could be an idle close of a kept-alive connection; the client
# retries such a request. A reset in the middle of a reply is always a failure.
BROKEN_OFF = GOOD[: len(GOOD) // 2]
_BAD = {
    "http 503": _reply(b"503 Service Unavailable", b'{"error":"the self-test refuses this one"}'),
    "reset": BROKEN_OFF,
    "timeout": b"",
    "malformed": b"\x16\x03\x01 the self-test's garbage\r\n\r\n",
}
_LENGTH = b"\r\nContent-Length: "  # from the start of the line, to exclude Inference-Header-Content-Length


class NullHttp(Peer):
    """HTTP/1.1 connection; requests have a Content-Length or no body."""

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
    """Split frames around the stream ID; joining with the ID completes them."""
    zero = pack_id(0)
    pieces = [b""]
    for part in parts:
        assert part[5:FRAME_HEAD] == zero
        pieces[-1] += part[:5]
        pieces.append(part[FRAME_HEAD:])
    return tuple(pieces)


_NAME = b"\x0a\x04null"  # ModelInferResponse.model_name
_RAW = b"\x32"  # its raw_output_contents, with a length
_DATA = 16_384  # default maximum frame size


def grpc_reply(size: int) -> tuple[bytes, ...]:
    """Return a reply with this many extra bytes, split around the stream ID."""
    message = _NAME + (_RAW + varint(size) + bytes(size) if size else b"")
    body = b"\0" + len(message).to_bytes(4, "big") + message
    return _split_by_id(
        # SHRINK: the header table is empty, as the client requested, so blocks can be looked up by their bytes.
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
    """gRPC connection with unary calls. The server's window is maximal; TCP limits sending to what the client has
    read."""

    greeting = settings(
        {INITIAL_WINDOW_SIZE: LARGEST_WINDOW, MAX_FRAME_SIZE: LARGEST_FRAME_SIZE}
    ) + window_update(0, _OPENED)

    def __init__(self, book: Book, reply: tuple[bytes, ...] = SMALLEST) -> None:
        super().__init__(book, skipped=len(PREFACE))
        self._reply = reply
        self._stream = 0  # stream to answer after this frame; 0: none
        self._used = 0  # bytes of the connection's window

    def _read_head(self, data: bytearray, position: int, length: int, out: list[bytes]) -> int:
        """Read the head of DATA, whose payload is skipped, or any other frame completely."""
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
BACKLOG = 4096  # for connections while the server is frozen
STDIN = 0


def main() -> None:
    # Sent by a terminal to the whole group; stdin shows the end.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
    _say({"port": listener.getsockname()[1]})
    gc.freeze()
    gc.disable()
    _Server(listener, Behaviour.from_json(sys.argv[1])).run()


def _say(document: object) -> None:
    print(json.dumps(document), flush=True)


class _Server:
    """Server with one event loop. Sockets block: they are read only when data is available, and replies are small."""

    def __init__(self, listener: socket.socket, behaviour: Behaviour) -> None:
        self._listener = listener
        self._behaviour = behaviour
        self._book = Book(keeps_arrivals=behaviour.keeps_arrivals)
        self._buffer = bytearray(BUFFER)
        self._connections: dict[int, tuple[socket.socket, Peer]] = {}
        self._late_ns = 0
        self._received = self._sent = 0
        self._http, self._grpc = http_reply(behaviour.reply_size), grpc_reply(behaviour.reply_size)
        self._set, _ = open_set(monotonic_ns)
        for fd in (listener.fileno(), STDIN):
            self._set.register(fd, READ)

    def run(self) -> None:
        stall = self._behaviour.stall
        while True:
            for fd, _ in self._set.poll():
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
        self._set.register(sock.fileno(), READ)
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
        except OSError:  # the client is gone
            length, replies = 0, []
        if not length:
            self._drop(fd)
        elif replies and replies[-1] is BROKEN_OFF:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close with RST
            self._drop(fd)

    def _drop(self, fd: int) -> None:
        sock, _ = self._connections.pop(fd)
        self._set.unregister(fd)
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
    """Wait until the freeze is over; return by how much this machine prolonged it."""
    now = monotonic_ns()
    until = stall.thawed_ns(now)
    if until == now:
        return 0
    time.sleep((until - now) / NS_PER_S)
    return monotonic_ns() - until


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):  # the parent process has ended
        main()
