"""The server's end of an HTTP/2 connection for gRPC: it reads calls, and the backend answers them."""

import asyncio
import socket
import struct
import zlib
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

from hpack import Decoder

from inferometer.base.status import GRPC_CODES
from tests.torture.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEAD,
    HEADERS,
    LARGEST,
    PADDED,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    block,
    frame,
    goaway,
    message,
    settings,
    window_update,
)
from tests.torture.http1_wire import LINGER
from tests.torture.log import Log, Seen

GRPC_HEAD = ((":status", "200"), ("content-type", "application/grpc"))
PREFIX = 5
STREAM_ENDS = frozenset(
    {"malformed", "reset"}
)  # outcomes of requests on a stream that ends because of another request
STATUSES = {f"grpc {name}" for name in GRPC_CODES if name != "OK"}


@dataclass(slots=True, eq=False)
class Call:
    """A message from a client, and its stream."""

    stream: int
    path: str
    data: bytes
    is_stream: bool  # the call continues after the answer
    usual: bytes = b""  # the message that answers it
    entry: Seen | None = None

    def ends(self, *kinds: str) -> None:
        if self.entry is not None:
            self.entry.ends(*kinds)


Act = Callable[["Http2Wire", Call], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class GrpcFault:
    """A fault. `kinds` are the outcomes a client may report for the call; empty means the usual one.

    If it `breaks` the connection, waiting calls on it are malformed; if it `loses` the connection, they are lost.
    """

    name: str
    act: Act
    kinds: frozenset[str]
    may_repeat: bool = False
    is_mute: bool = False
    breaks: bool = False
    loses: bool = False

    @property
    def is_silent(self) -> bool:
        """Whether the client gets no valid answer, so that its pauses become longer."""
        return self.breaks or self.loses or bool(self.kinds & {"reset", "malformed", "timeout"})


@dataclass(frozen=True, slots=True)
class GrpcAnswer:
    """Answer of a backend to a call; a control call has no step."""

    usual: bytes
    fault: GrpcFault | None = None
    step: int | None = None
    call: str = ""


Decide = Callable[[Call], GrpcAnswer]


@dataclass(slots=True)
class _Stream:
    path: str = ""
    body: bytearray = field(default_factory=bytearray)
    has_head: bool = False  # whether the head of its reply was sent
    is_over: bool = False
    is_doubtful: bool = False  # whether the client may have cancelled it


class Http2Wire(asyncio.Protocol):
    """Plays faults on one connection."""

    def __init__(
        self,
        log: Log,
        random: Random,
        decide: Decide,
        greet: Callable[["Http2Wire"], Awaitable[None]] | None = None,
    ) -> None:
        self.random = random
        self.log = log
        self.ids: dict[int, str] = {}  # id of the last request on each stream
        self.last = LARGEST  # calls on streams above it are not served
        self._decide = decide
        self._greet = greet
        self._transport: Any = None  # until it is connected
        self._buffer = bytearray()
        self._has_preface = False
        self._decoder = Decoder()
        self._paths: dict[bytes, str] = {}
        self._block = bytearray()
        self._block_flags = 0
        self._streams: dict[int, _Stream] = {}
        self._waiting: dict[Seen, int] = {}  # calls without an answer, and their streams
        self._recent: deque[Seen] = deque(maxlen=64)  # the most recently answered calls
        self._is_over = False
        self._is_greeted = False
        self._early = b""  # data to send after the greeting
        self._fate: tuple[str, ...] = ()  # outcomes of every later call
        self._tasks: set[asyncio.Task[None]] = set()

    # --- what faults do

    def greeting(self, data: bytes) -> None:
        """Send our settings, which must come first."""
        self._is_greeted = True
        self.send(data + self._early)

    def send(self, data: bytes) -> None:
        if not self._is_greeted:
            self._early += data
        elif not self._is_over:
            self._transport.write(data)

    def close(self) -> None:
        self.lose()
        self._is_over = True
        self._transport.close()

    def reset(self) -> None:
        self.lose()
        self._is_over = True
        with suppress(OSError):
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER)
        self._transport.abort()

    def lose(self) -> None:
        """Waiting calls get no answer; a RST also discards data that the client has not read yet."""
        for entry in self._recent:
            entry.allowed.add("reset")
        self._doom("reset")

    def ruin(self) -> None:
        """A protocol violation was sent: every waiting call is malformed."""
        self.log.unseen.add("malformed")
        self._doom("malformed")

    def _doom(self, *kinds: str) -> None:
        self._fate = self._fate or kinds
        for entry in self._waiting:
            entry.ends(*kinds, *(entry.allowed & {"timeout"}))
        self._waiting.clear()

    def go_away(self, last: int, code: int = 0, text: bytes = b"") -> None:
        """Send GOAWAY: calls above this stream are not served, and the client may repeat them."""
        self.last = min(self.last, last)
        self.send(goaway(self.last, code, text))
        for entry, stream in list(self._waiting.items()):
            if stream > self.last:
                entry.ends("reset")
                entry.may_repeat = True
                del self._waiting[entry]

    def has_head(self, call: Call) -> bool:
        return self._streams[call.stream].has_head

    def head(self, call: Call, *more: tuple[str, str]) -> bytes:
        """Send the head of the reply, unless it was sent before."""
        stream = self._streams[call.stream]
        if stream.has_head:
            return b""
        stream.has_head = True
        return frame(HEADERS, END_HEADERS, call.stream, block(*GRPC_HEAD, *more))

    def data(self, call: Call, payload: bytes, flags: int = 0) -> bytes:
        return frame(DATA, flags, call.stream, payload)

    def trailers(self, call: Call, *pairs: tuple[str, str]) -> bytes:
        """Send the end of the reply."""
        self._streams[call.stream].is_over = True
        return frame(HEADERS, END_HEADERS | END_STREAM, call.stream, block(*pairs))

    def usual(self, call: Call) -> bytes:
        """Send the whole usual reply, or the usual message on a stream that continues."""
        text = self.head(call) + self.data(call, message(call.usual))
        return text if call.is_stream else text + self.trailers(call, ("grpc-status", "0"))

    def answer(self, call: Call) -> None:
        if self.last < call.stream or self._fate:
            return
        self.send(self.usual(call))
        self.answered(call)

    def answered(self, call: Call) -> None:
        """Mark the call as answered: later events do not change its outcome."""
        if call.entry is not None and not self._is_over:
            call.entry.is_answered = True
            self._recent.append(call.entry)
            self._waiting.pop(call.entry, None)

    def leave(self) -> None:
        """End the connection after the run."""
        if self._transport is not None:
            self._is_over = True
            self._transport.abort()

    # --- the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._greet is None:
            self.greeting(settings())
        else:
            self._start(self._greet(self))

    def connection_lost(self, error: Exception | None) -> None:
        self._is_over = True
        for task in self._tasks:
            task.cancel()

    def _start(self, act: Awaitable[None]) -> None:
        task = asyncio.ensure_future(act)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._has_preface:
            if len(self._buffer) < len(PREFACE):
                return
            if not self._buffer.startswith(PREFACE):
                if not self._buffer.startswith(
                    (b"GET ", b"\x16\x03")
                ):  # probes for the kind of server, or for TLS
                    self.log.misuse.append(f"preface {bytes(self._buffer[:24])!r}")
                self.close()
                return
            del self._buffer[: len(PREFACE)]
            self._has_preface = True
        at = 0
        while len(self._buffer) - at >= HEAD:
            high, low, kind, flags, stream = struct.unpack_from(">BHBBL", self._buffer, at)
            stop = at + HEAD + (high << 16 | low)
            if len(self._buffer) < stop:
                break
            self._read(kind, flags, stream, bytes(self._buffer[at + HEAD : stop]))
            at = stop
        del self._buffer[:at]

    def _read(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind in (HEADERS, CONTINUATION):
            self._block += payload
            if kind == HEADERS:
                self._block_flags = flags
            if flags & END_HEADERS:
                self._open(stream, bytes(self._block))
                self._block.clear()
        elif kind == DATA:
            if payload:
                self.send(window_update(0, len(payload)))
                if not flags & END_STREAM:
                    self.send(window_update(stream, len(payload)))
            if stream in self._streams:
                padding = payload[0] + 1 if flags & PADDED else 0
                self._streams[stream].body += payload[1 : len(payload) - padding + 1] if padding else payload
                self._take(stream, is_last=bool(flags & END_STREAM))
        elif kind == SETTINGS and not flags & ACK:
            self.send(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self.send(frame(PING, ACK, 0, payload))
        elif kind == RST_STREAM and stream in self._streams:
            self._streams[stream].is_over = True
        elif kind == GOAWAY:
            self.lose()

    def _open(self, stream: int, raw: bytes) -> None:
        path = self._paths.get(raw)
        if path is None:
            path = self._paths[raw] = _path(self._decoder, raw)
        self._streams[stream] = _Stream(path)
        if self._block_flags & END_STREAM:
            self._take(stream, is_last=True)

    def _take(self, number: int, *, is_last: bool) -> None:
        """Take the complete messages of a stream."""
        stream = self._streams[number]
        is_stream = stream.path.endswith("/ModelStreamInfer")
        while len(stream.body) >= PREFIX:
            flag, size = struct.unpack_from(">BL", stream.body)
            if len(stream.body) < PREFIX + size:
                break
            data = bytes(stream.body[PREFIX : PREFIX + size])
            del stream.body[: PREFIX + size]
            self._call(Call(number, stream.path, zlib.decompress(data, 47) if flag else data, is_stream))
        if is_last and is_stream:
            self._start(self._finish(number, stream))

    async def _finish(self, number: int, stream: _Stream) -> None:
        """The client sends no more requests on this stream: end it when all are answered."""
        while number in self._waiting.values():
            await asyncio.sleep(0.001)
        if stream.is_over:
            return
        stream.is_over = True
        head = b"" if stream.has_head else frame(HEADERS, END_HEADERS, number, block(*GRPC_HEAD))
        self.send(head + frame(HEADERS, END_HEADERS | END_STREAM, number, block(("grpc-status", "0"))))

    def _call(self, call: Call) -> None:
        if self._streams[call.stream].is_over:  # the client does not know yet that its stream has ended
            self._overtaken(call)
            return
        answer = self._decide(call)
        fault = answer.fault
        call.usual = answer.usual
        if answer.call:
            self.log.controls.append((answer.call, "" if fault is None else fault.name))
        if answer.step is not None:
            call.entry = self._note(call, answer.step, fault)
            if self._fate or call.stream > self.last:
                return
        if fault is None:
            self.answer(call)
        else:
            self._start(self._play(fault, call))

    def _overtaken(self, call: Call) -> None:
        answer = self._decide(call)
        if answer.step is not None:
            self.log.add(answer.step, "", {*STREAM_ENDS, *STATUSES, "timeout"}, may_repeat=True)

    def _note(self, call: Call, step: int, fault: GrpcFault | None) -> Seen:
        if (
            call.stream > self.last
        ):  # also if the connection has broken since: the client read the refusal first
            return self.log.add(step, "", {"reset"}, may_repeat=True)
        if self._fate:
            return self.log.add(step, "", set(self._fate))
        kinds = set(fault.kinds) if fault is not None and fault.kinds else {"ok"}
        name = "" if fault is None else fault.name
        entry = self.log.add(step, name, kinds, may_repeat=fault is not None and fault.may_repeat)
        if self._streams[call.stream].is_doubtful:
            entry.doubt(STREAM_ENDS)
        self._waiting[entry] = call.stream
        return entry

    async def _play(self, fault: GrpcFault, call: Call) -> None:
        if call.stream > self.last or self._fate or self._is_over or self._streams[call.stream].is_over:
            return  # another event has ended it in the meantime
        entry = call.entry
        if entry is not None and (fault.kinds or fault.breaks or fault.loses) and not fault.is_mute:
            self._waiting.pop(entry, None)  # the fault determines the outcome of its own call
        if fault.breaks:
            await fault.act(self, call)
            self.ruin()
            return
        await fault.act(self, call)
        if entry is not None and entry not in self._waiting:
            self._recent.append(entry)
        if fault.loses:
            self.lose()
        elif self._streams[call.stream].is_over and call.is_stream:
            self._end_others(call.stream, fault)
        elif entry is not None and "malformed" in entry.allowed and call.is_stream:
            self._doubt_others(call.stream)

    def _end_others(self, stream: int, fault: GrpcFault) -> None:
        """End all requests on the stream; a request that the client had not sent yet fails without being received."""
        kinds = fault.kinds | STREAM_ENDS
        self.log.unseen |= kinds
        for entry, number in list(self._waiting.items()):
            if number == stream:
                entry.ends(*kinds)
                entry.may_repeat = fault.may_repeat
                self._recent.append(entry)
                del self._waiting[entry]

    def _doubt_others(self, stream: int) -> None:
        """The client may cancel a stream that it cannot read, with all requests on it."""
        self.log.unseen |= STREAM_ENDS
        self._streams[stream].is_doubtful = True
        for entry, number in self._waiting.items():
            if number == stream:
                entry.doubt(STREAM_ENDS)


def _path(decoder: Decoder, raw: bytes) -> str:
    """Return the path in a header block."""
    return next((str(value) for name, value in decoder.decode(raw) if str(name) == ":path"), "")
