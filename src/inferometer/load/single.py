"""A single request: the bytes that a run would send first, and the reply to them alone.

The links of the load generate the bytes, on connections that only record them: IDs, sequence
marks and compression are those of a run. Sending uses a blocking socket and the codecs of the load.
"""

import socket
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from inferometer.base import status as outcome
from inferometer.base.deadline import Deadline
from inferometer.base.errors import PeerError
from inferometer.base.frozen import frozen
from inferometer.base.units import monotonic_ns, plain_number
from inferometer.load.grpc import GrpcLink
from inferometer.load.http1 import Http1Link
from inferometer.load.link import Callbacks, LinkSetup, always_finish
from inferometer.load.reactor import SocketReactor
from inferometer.load.sequences import Mark, SequencePlan, Sequences
from inferometer.load.worker import SMALL
from inferometer.services.encoding import start_reading
from inferometer.services.endpoint import Endpoint
from inferometer.services.http_control import why_unreachable
from inferometer.services.kserve import read_stream_reply
from inferometer.services.timed_socket import connect, receive_into, send_all
from inferometer.services.tls import tls_context
from inferometer.services.traffic import IN_PROCESS, Reply, Traffic, Wiring
from inferometer.wire.frames import Buffer
from inferometer.wire.grpc import OK, PREFIX, UNKNOWN, Ending, GrpcConnection, name_of_code
from inferometer.wire.http1 import Head, ReplyDecoder
from inferometer.wire.sender import Http2Request, render

BUFFER = 256 * 1024
NO_LIMIT_S = 1e9  # effectively unlimited
_ANY = 47  # zlib: detect gzip or deflate from the header


@frozen
class FirstRequest:
    """First request of a run. For HTTP `data` is the whole request; for gRPC, all framed messages of the call."""

    data: bytes
    call: Http2Request | None = None  # gRPC

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Headers of a gRPC call, including pseudo-headers such as `:path`."""
        if self.call is None:
            return ()
        import hpack

        found = hpack.Decoder().decode(self.call.block, raw=True)
        return tuple((str(name, "latin-1"), str(value, "latin-1")) for name, value in found)


def first_request(traffic: Traffic, *, step: int = 0, sequences: SequencePlan | None = None) -> FirstRequest:
    """Return the first request of a run's first worker: this step, or the first one of its first sequence."""
    mark: Mark | None = None
    if sequences is not None:
        step, mark = Sequences(sequences).next(0, 0)
    wiring = traffic.wiring
    if wiring.protocol == IN_PROCESS:  # there is no wire
        return FirstRequest(traffic.requests[step])
    requests = [data if len(data) <= SMALL else memoryview(data) for data in traffic.requests]
    setup = LinkSetup(wiring, requests, None, SocketReactor(monotonic_ns), monotonic_ns)
    callbacks = Callbacks(_nothing, always_finish(_nothing), lambda status, text: None)
    note = _Note(wiring)
    link = (_NotingGrpc if wiring.protocol == "grpc" else _NotingHttp)(note, setup, callbacks)
    link.send(0, step, 0, mark)
    return note.made()


def _nothing(*_: Any, **__: Any) -> None:
    """Do nothing: requests on a recording link never end."""


class _Note:
    """Stand-in for a link's connection that records the data to send."""

    is_quick = is_leaving = is_corked = False
    waiting: Sequence[Any] = ()

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring
        self._parts: list[Buffer] = []
        self._call: Http2Request | None = None
        self.step = -1
        self.http2 = self  # a shared stream sends its messages here

    def send(self, what: Any, body: Any = (), **_: Any) -> None:
        """Record a whole HTTP request, a gRPC call, or the messages of a shared stream."""
        if isinstance(what, bytes | memoryview):
            self._parts.append(what)
        elif what is self:
            self._parts += body
        elif isinstance(what.request, Http2Request):
            self._call, self._parts = what.request, list(what.request.body)
        else:
            what.shared.send(what, what.request, self, self._wiring)

    def open(self, token: object, request: Http2Request, *, keep: bool) -> "_Note":
        self._call = request
        return self

    def made(self) -> FirstRequest:
        data = b"".join(self._parts)
        call = self._call
        if call is not None and not call.body:  # a stream stays open
            call = render(call.block, data, ends=False)
        return FirstRequest(data, call)


class _NotingHttp(Http1Link):
    def __init__(self, note: _Note, setup: LinkSetup, callbacks: Callbacks) -> None:
        super().__init__(setup, callbacks)
        self._connections = [note]  # type: ignore[list-item]


class _NotingGrpc(GrpcLink):
    def __init__(self, note: _Note, setup: LinkSetup, callbacks: Callbacks) -> None:
        self._note = note
        super().__init__(setup, callbacks)

    def channel(self, lane: int, *, own: bool = False) -> Any:
        return self._note


def messages_of(data: bytes) -> Iterator[tuple[bytes, int | None]]:
    """Yield the messages of a call, each with its compressed size, or None if uncompressed."""
    while data:
        end = PREFIX + int.from_bytes(data[1:PREFIX], "big")
        message = data[PREFIX:end]
        yield (zlib.decompress(message, _ANY), len(message)) if data[0] else (message, None)
        data = data[end:]


# --- exchange

Piece = tuple[int, bytes]
"""Part of a body, or a message, with its arrival time in nanoseconds since the request was sent."""


@frozen
class SingleReply:
    """Reply to a single request."""

    status: str  # the status line, or the gRPC status
    is_good: bool
    text: str = ""  # the server's error text
    headers: tuple[tuple[str, str], ...] = ()
    pieces: tuple[Piece, ...] = ()
    took_ns: int = 0

    @property
    def body(self) -> bytes:
        return b"".join(data for _, data in self.pieces)


def exchange(wiring: Wiring, request: FirstRequest, *, timeout_s: float = 0.0) -> SingleReply:
    """Send the request on a new connection and return the reply; a time-out of 0 waits forever."""
    protocols = ["h2"] if wiring.protocol == "grpc" else []
    pieces: list[Piece] = []
    try:
        deadline = Deadline.after(timeout_s or NO_LIMIT_S)
        with _connect(wiring.endpoint, protocols, deadline) as sock:
            wire = _Wire(sock, monotonic_ns(), deadline, pieces)
            return _grpc(wiring, wire, request) if wiring.protocol == "grpc" else _http(wiring, wire, request)
    except TimeoutError as error:
        if pieces:
            text = f"not complete after {plain_number(timeout_s)} s"
            return SingleReply("no status", False, text, pieces=tuple(pieces), took_ns=pieces[-1][0])
        from inferometer.options.names import option_name

        raise PeerError(
            f"{wiring.endpoint.authority} did not answer within {plain_number(timeout_s)} s",
            remedy=f"allow more time with {option_name('--timeout')}",
        ) from error
    except OSError as error:
        why, remedy = why_unreachable(error)
        raise PeerError(f"{wiring.endpoint.authority} cannot be reached: {why}", remedy=remedy) from error


def _connect(endpoint: Endpoint, protocols: list[str], deadline: Deadline) -> socket.socket:
    context = None if endpoint.tls is None else tls_context(endpoint.tls)
    if context is not None and protocols:
        context.set_alpn_protocols(protocols)
    return connect(endpoint, deadline, context)


@dataclass(slots=True)
class _Wire:
    """A blocking socket with a deadline, and the data received on it."""

    sock: socket.socket
    sent_ns: int
    deadline: Deadline
    pieces: list[Piece]
    buffer: bytearray = field(default_factory=lambda: bytearray(BUFFER))

    @property
    def age_ns(self) -> int:
        return monotonic_ns() - self.sent_ns

    def receive(self) -> int:
        """Receive into the buffer and return the number of bytes; 0 means that the peer closed its side."""
        return receive_into(self.sock, self.buffer, self.deadline)

    def send(self, data: Buffer) -> None:
        send_all(self.sock, data, self.deadline)

    def keep(self, data: Buffer) -> None:
        self.pieces.append((self.age_ns, bytes(data)))


def _http(wiring: Wiring, wire: _Wire, request: FirstRequest) -> SingleReply:
    decoder = ReplyDecoder(keep=True, limit=wiring.reply_limit)
    wire.send(request.data)
    is_whole = False
    while not is_whole:
        length = wire.receive()
        is_whole = decoder.receive(wire.buffer, length) if length else decoder.eof()
        if not length and not is_whole:
            raise PeerError("the server closed the connection before it answered")
        if decoder.body:
            wire.keep(decoder.body)
            decoder.body.clear()
    took_ns, head = wire.age_ns, decoder.head
    assert head is not None
    is_good = 200 <= head.status < 300
    found = _judged(wiring, head, wire.pieces) if is_good else Reply()
    return SingleReply(
        status=f"HTTP/1.1 {head.status} {head.reason}".rstrip(),
        is_good=is_good and not found.status,
        text=found.text,
        headers=head.headers,
        pieces=tuple(wire.pieces),
        took_ns=took_ns,
    )


def _judged(wiring: Wiring, head: Head, pieces: Sequence[Piece]) -> Reply:
    """Return the judgement of the reply reader on a reply with a success status."""
    if wiring.reader is None:
        return Reply()
    try:
        reading = start_reading(wiring.reader, head)
        for time_ns, data in pieces:
            reading.receive(data, time_ns)
        return reading.end()
    except PeerError as error:
        return Reply(outcome.MALFORMED, str(error))


def _grpc(wiring: Wiring, wire: _Wire, request: FirstRequest) -> SingleReply:
    assert request.call is not None
    is_single = not wiring.is_streaming and (wiring.has_one_reply or not wiring.is_whole_calls)
    connection = GrpcConnection(largest_kept=wiring.reply_limit)
    stream = connection.open(None, request.call, keep=True)
    while True:
        while connection.http2.wants_to_send:
            for chunk in connection.take():
                wire.send(chunk)
        length = wire.receive()
        for _, ending, message in connection.receive(wire.buffer, length) if length else connection.eof():
            if ending is None:
                wire.keep(message or b"")
                ending = _maybe_ending(wiring, message or b"")
            elif not ending.code and is_single and len(wire.pieces) != 1:
                ending = Ending(
                    UNKNOWN, f"the call ended without an error status after {len(wire.pieces)} messages"
                )
            if ending is not None:
                return SingleReply(
                    status=f"gRPC status {ending.code} {name_of_code(ending.code)}",
                    is_good=not ending.code,
                    text=ending.text,
                    headers=() if stream.head is None else stream.head.fields,
                    pieces=tuple(wire.pieces),
                    took_ns=wire.age_ns,
                )


def _maybe_ending(wiring: Wiring, message: Buffer) -> Ending | None:
    """Return the end of a stream that its response announces; None if more responses may follow."""
    if not wiring.is_streaming:
        return None
    reply = read_stream_reply(message)
    if reply.error:
        return Ending(UNKNOWN, reply.error)
    return Ending(OK, "") if reply.is_final else None
