"""Client side of one HTTP/2 connection (RFC 9113). No socket, no clock.

Usage:

    connection = Http2Connection(reader)          # queues preface, SETTINGS and the connection's window
    stream = connection.open(token, request)      # a Http2Request rendered once (sender.py)
    connection.receive(buffer, length)            # reader.head(), .body(), .ended() or .failed() per stream
    for chunk in connection.take(): ...           # whole frames; send all of them in this order

Calls that produce data to send (open, send, cancel, receive) only queue it; the owner of the socket
calls take() whenever the socket accepts data and `wants_to_send` is true, and must send all that take() returns.

Streams. The reader gets the events of every stream up to exactly one `ended` or `failed`; after cancel() it gets
none. A stream is removed from `streams` before its end is reported.

                 open                    last frame with END_STREAM
      idle ------------> open, half closed ------------------------> closed       reader.ended
                          |   |     |
                          |   |     +-- RST_STREAM, GOAWAY below it -> closed      reader.failed
                          |   +-- malformed, RST_STREAM sent --------> cancelled   reader.failed
                          +------ cancel(), RST_STREAM sent ---------> cancelled

The server may not know yet about a cancellation, so frames for cancelled streams are dropped, though DATA counts
for the connection's window; frames for closed streams, and for those never opened, end the connection. A
connection that has ended has `broken` set to the reason, has failed all its streams, and has a GOAWAY for the
server in its queue. receive() never raises: events before the error in the same bytes are still reported.

Windows. The client's windows are wide and are returned as soon as half is used, so they never hold up the server;
only TCP does if the client is slow. sender.py describes how the client observes the server's windows.

Bytes. The payload of DATA is passed on as it arrives, even parts of a frame; all other frames wait in `_held`
until they are complete. Header blocks are looked up by their bytes (headers.py), bodies are never copied.

Speed. A load test receives the same reply again and again. The last head and the last trailers are kept in raw form,
split around the stream ID: a reply of that head, one DATA frame and these trailers takes two comparisons. If two
replies in a row also have the same size, that reply is the usual one (frames.py): a caller that only counts replies
may recognise it by `next_reply`, and must then update this connection itself. Only load/plain.py does so, and lists
the attributes it reads and writes.
"""

from collections.abc import Callable
from struct import unpack_from
from typing import Any, NamedTuple, Protocol

from inferometer.base.errors import LocalError, PeerError
from inferometer.wire import frames
from inferometer.wire.frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    FRAME_HEAD,
    HEADERS,
    LARGEST_STREAM_ID,
    PADDED,
    SETTINGS,
    UNKNOWN_REPLY,
    Buffer,
    Fault,
    UsualReply,
    frame_head,
    name_of_error,
    name_of_kind,
    unpack_head,
    usual_reply,
)
from inferometer.wire.headers import LIST_LIMIT, BlockReader, Headers
from inferometer.wire.sender import Http2Request, Sender, Stream, pack_id

WINDOW = 2**30
OUR_FRAME_SIZE = 2**20
TAKE = 512 * 1024
BLOCK_FRAMES_LIMIT = 64
ANSWERS_LIMIT = 100_000  # pending acknowledgements a server may cause: far more than a busy one ever does
INTERIM_LIMIT = 100  # heads of one reply with a status below 200
CANCELLED_LIMIT = 1024  # cancelled streams to remember

MALFORMED, RESET, REFUSED, LOST, BROKEN = "malformed", "reset", "refused", "lost", "broken"

_TOO_HIGH = OUR_FRAME_SIZE >> 16


class StreamFault(Fault):
    """Rejection of a body by a reader: only the stream fails, and RST_STREAM carries the code."""


class Reader(Protocol):
    """Receiver of the events of streams; it must not use the connection while it is called."""

    def head(self, stream: Stream, headers: Headers) -> None: ...

    def body(self, stream: Stream, data: Buffer, start: int, stop: int) -> None:
        """Handle bytes of the body: data[start:stop], valid during this call. May raise StreamFault."""

    def ended(self, stream: Stream, trailers: Headers | None) -> None: ...

    def whole(self, stream: Stream, data: Buffer, start: int, stop: int, trailers: Headers) -> bytes:
        """Handle a complete reply. Return the opening of its body, with which every equivalent body of that size must
        begin; empty if the reply must be delivered in parts."""

    def failed(self, stream: Stream, cause: str, code: int, text: str) -> None:
        """Handle a failure. The cause is MALFORMED, RESET, REFUSED (safe to retry), LOST or BROKEN; the code is
        HTTP/2's."""


class Goaway(NamedTuple):
    """Announcement that the server accepts no more streams and answers none above the last."""

    last_stream_id: int
    code: int
    text: str


class _Usual(NamedTuple):
    """The last HEADERS frame in raw form, split around the stream ID."""

    pieces: tuple[bytes, bytes]
    size: int
    headers: Headers


_NONE = _Usual((b"", b"no frame"), 0, Headers((), 0, -1, ""))


class Http2Connection:
    """Client side of a connection: received bytes become calls to the reader; data to send waits for take()."""

    __slots__ = (
        "_block", "_block_flags", "_block_frames", "_block_stream", "_blocks", "_cancelled", "_expected",
        "_forgotten", "_held", "_last_size", "_left", "_left_ends", "_left_padding", "_left_stream", "_reader",
        "_usual_head", "_usual_trailers", "answers", "broken", "closing", "goaway", "limit", "next_id",
        "next_reply", "our_window", "plain", "ready", "return_at", "sender", "streams", "unreturned", "usual",
    )  # fmt: skip

    def __init__(self, reader: Reader, *, window: int = WINDOW) -> None:
        self.streams: dict[int, Stream] = {}
        # Tokens of requests without a Stream (load/plain.py), by stream ID.
        self.plain: dict[int, Any] = {}
        self.ready = False  # the server's SETTINGS have arrived
        self.closing = False  # no more streams can be opened; open ones continue unless it is broken
        self.goaway: Goaway | None = None  # the server's latest
        self.broken: PeerError | None = None  # why the connection is unusable
        self._reader = reader
        self.sender = Sender()
        self.next_id = 1
        self.limit = LARGEST_STREAM_ID  # streams open at once; 0 when closing
        self.our_window = window
        self.return_at = -(-window // 2)  # bytes returned at once
        self.unreturned = 0  # bytes received and not yet returned to the server's window
        self.answers = 0  # acknowledgements since the last take()
        self._expected = SETTINGS  # the only type of frame allowed next; -1 if any is
        self._held = bytearray()  # a partially received frame
        self._left = 0  # bytes left of the current DATA frame,
        self._left_padding = 0  # bytes of padding among them,
        self._left_stream: Stream | None = None  # its stream, unless cancelled,
        self._left_ends = False  # and whether it ends the stream
        self._blocks = BlockReader()
        self._block = bytearray()  # a header block in several frames,
        self._block_stream = 0  # its stream,
        self._block_flags = 0  # the flags of its HEADERS frame,
        self._block_frames = 0  # and its number of frames so far
        self._usual_head = self._usual_trailers = _NONE
        self._last_size = -1  # of the body of the last usual reply
        self.usual = UNKNOWN_REPLY
        self.next_reply: UsualReply = UNKNOWN_REPLY  # `usual` while between two frames
        self._cancelled: dict[int, None] = {}
        self._forgotten = 0  # streams up to this one may also have been cancelled
        self._greet()

    def _greet(self) -> None:
        ours = {
            frames.HEADER_TABLE_SIZE: 0,
            frames.ENABLE_PUSH: 0,
            frames.INITIAL_WINDOW_SIZE: self.our_window,
            frames.MAX_FRAME_SIZE: OUR_FRAME_SIZE,
            frames.MAX_HEADER_LIST_SIZE: LIST_LIMIT,
        }
        self._queue(frames.PREFACE + frames.settings(ours))
        if self.our_window > frames.DEFAULT_WINDOW:  # the connection's window is not a setting
            self._queue(frames.window_update(0, self.our_window - frames.DEFAULT_WINDOW))

    def _queue(self, frame: bytes) -> None:
        self.sender.queue.append(frame)

    # --- for the owner of the socket

    @property
    def can_open(self) -> bool:
        """Whether another stream may be opened now."""
        return len(self.streams) + len(self.plain) < self.limit

    @property
    def wants_to_send(self) -> bool:
        """Whether take() may return data."""
        sender = self.sender
        return bool(sender.queue) or (sender.window > 0 and bool(sender.ring))

    def open(self, token: Any, request: Http2Request, *, keep: bool = False) -> Stream:
        """Open a stream and queue its first frames, or all of them."""
        streams = self.streams
        if not self.can_open:
            raise LocalError("no more streams can be opened on this connection")
        stream_id = self.next_id
        self.next_id = stream_id + 2
        if stream_id == LARGEST_STREAM_ID:
            self._close()
        streams[stream_id] = stream = self.sender.start(stream_id, token, keep, request)
        return stream

    def send(self, stream: Stream, body: Buffer | tuple[Buffer, ...] = (), *, ends: bool = False) -> None:
        """Queue more of an unfinished request; do nothing if its stream is no longer open."""
        if stream.id not in self.streams:
            return
        if stream.ends:
            raise LocalError("cannot continue a request that has ended")
        self.sender.send(stream, body, ends=ends)

    def cancel(self, stream: Stream, code: int = frames.CANCEL) -> None:
        """Cancel a stream: notify the server and report no more events of it."""
        if self.streams.pop(stream.id, None) is not None:
            self._remember_cancelled(stream)
            self._queue(frames.rst_stream(stream.id, code))

    def take(self, limit: int = TAKE) -> list[Buffer]:
        """Return the data to send now: the queue, and about `limit` bytes of waiting data."""
        self.answers = 0
        return self.sender.take(limit)

    def receive(self, data: Buffer, length: int) -> None:
        """Handle data[:length]. Errors of the peer do not raise: see `broken`."""
        if self.broken is not None:
            return
        try:
            self._receive(data, length)
        except Fault as fault:
            self._break(fault)

    def eof(self) -> None:
        """Handle the end of the connection: open streams are lost."""
        if self.broken is None:
            self.broken = PeerError(f"the server closed the connection{self._goaway_reason()}")
            self._close()
            self._fail_all(LOST, frames.NO_ERROR, self.broken.message)

    # --- frames

    def _receive(self, data: Buffer, length: int) -> None:
        at = 0
        if self._left:
            at = self._read_on(data, length)
        elif self._held:
            self._held += data[:length]
            data, length = self._held, len(self._held)
        if isinstance(data, memoryview):
            data = bytes(data[:length])
        while length - at >= FRAME_HEAD:
            high, low, kind, flags, stream_id = unpack_head(data, at)
            start = at + FRAME_HEAD
            stop = start + (high << 16 | low)
            if kind != self._expected >= 0 or high >= _TOO_HIGH:
                self._check_frame(data, at, stop - start, kind)
            if stop > length:
                if kind != DATA or start == length:
                    break
                at = length
                self._read_data(flags, stream_id, data, start, stop, length)
                continue
            if kind == HEADERS and flags == END_HEADERS:
                end = self._read_usual(stream_id, data, at, length)
                if end:
                    at = end
                    continue
            at = stop
            if kind == DATA:
                self._read_data(flags, stream_id, data, start, stop, stop)
            elif kind in _READ:  # unknown types are ignored (4.1)
                _READ[kind](self, flags, stream_id & LARGEST_STREAM_ID, data, start, stop)
        if data is self._held:
            del self._held[:at]
        elif at < length:
            self._held += data[at:length]
        is_between = not self._held and not self._left and self._expected < 0
        self.next_reply = self.usual if is_between else UNKNOWN_REPLY

    def _check_frame(self, data: Buffer, at: int, size: int, kind: int) -> None:
        if not self.ready and kind != SETTINGS:
            began = repr(bytes(data[at : at + FRAME_HEAD]))[1:]
            raise Fault(f"the server does not speak HTTP/2: its reply begins with {began}")
        if size > OUR_FRAME_SIZE:
            text = f"a {name_of_kind(kind)} has {size} bytes, which exceeds the limit of {OUR_FRAME_SIZE}"
            raise Fault(text, frames.FRAME_SIZE_ERROR)
        if kind != self._expected >= 0:
            expected = name_of_kind(self._expected)
            raise Fault(f"a {name_of_kind(kind)} arrived where only a {expected} is allowed")

    def _read_usual(self, stream_id: int, data: bytes | bytearray, at: int, length: int) -> int:
        """Read a complete reply like the previous ones; return where it ends, or 0 if it differs."""
        stream = self.streams.get(stream_id)
        head, trailers = self._usual_head, self._usual_trailers
        middle = at + head.size
        if stream is None or stream.head is not None or length - middle < FRAME_HEAD:
            return 0
        high, low, kind, flags, body_id = unpack_head(data, middle)
        size = high << 16 | low
        start = middle + FRAME_HEAD
        stop = start + size
        if body_id != stream_id or kind != DATA or flags or high >= _TOO_HIGH or size >= self.return_at:
            return 0
        name = pack_id(stream_id)
        if not data.startswith(name.join(trailers.pieces), stop, length):
            return 0
        if not data.startswith(name.join(head.pieces), at):
            return 0
        self.unreturned += size
        if self.unreturned >= self.return_at:
            self._return_window()
        stream.head = head.headers
        stream.content = size
        stream.received = head.size + FRAME_HEAD + size + trailers.size
        if head.headers.length < 0 and stream.ends and not stream.waiting:
            opening = self._reader.whole(stream, data, start, stop, trailers.headers)
            if opening:
                if size == self._last_size:
                    self.usual = usual_reply(head.pieces, size, opening, trailers.pieces)
                self._last_size = size
                del self.streams[stream_id]
                return stop + trailers.size
        self._reader.head(stream, head.headers)
        self._pass_on(stream, data, start, stop)
        self._end(stream, trailers.headers)
        return stop + trailers.size

    # --- DATA

    def _read_data(
        self, flags: int, stream_id: int, data: Buffer, start: int, stop: int, length: int
    ) -> None:
        """Read a DATA frame that ends at `stop`, of which the bytes up to `length` are available."""
        size = stop - start
        self.unreturned += size
        if self.unreturned >= self.return_at:
            self._return_window()
        stream = self.streams.get(stream_id) or self._stray(stream_id, DATA)
        padding = 0
        if flags & PADDED:
            padding = frames.padding_of(data, start, stop)
            start += 1
        if stream is not None:
            stream = self._count_data(stream, size, stop - start - padding)
        if length < stop:
            self._left = stop - length
            self._left_padding = padding
            self._left_stream = stream
            self._left_ends = flags & END_STREAM > 0
        if stream is None:
            return
        self._pass_on(stream, data, start, stop - padding if stop - padding < length else length)
        if flags & END_STREAM and length == stop:
            self._end(stream, None)

    def _count_data(self, stream: Stream, size: int, content: int) -> Stream | None:
        """Return the stream, or None if this frame makes it fail."""
        stream.received += size + FRAME_HEAD
        stream.content += content
        if stream.head is None:
            self._fail(stream, "the body arrived before the headers")
            return None
        stream.unreturned += size
        if stream.unreturned < self.return_at:
            return stream
        if stream.unreturned > self.our_window:
            text = "the server sent more than the stream's window allows"
            self._fail(stream, text, frames.FLOW_CONTROL_ERROR)
            return None
        self._queue(frames.window_update(stream.id, stream.unreturned))
        stream.unreturned = 0
        return stream

    def _return_window(self) -> None:
        if self.unreturned > max(self.our_window, frames.DEFAULT_WINDOW):
            raise Fault("the server sent more than the connection's window allows", frames.FLOW_CONTROL_ERROR)
        self._queue(frames.window_update(0, self.unreturned))
        self.unreturned = 0

    def _read_on(self, data: Buffer, length: int) -> int:
        """Read the rest of a DATA frame, or a part of it."""
        taken = min(self._left, length)
        content = min(taken, self._left - self._left_padding)
        self._left -= taken
        stream = self._left_stream
        if stream is not None:
            self._pass_on(stream, data, 0, content)
            if self._left_ends and not self._left:
                self._end(stream, None)
        return taken

    def _pass_on(self, stream: Stream, data: Buffer, start: int, stop: int) -> None:
        if start >= stop:
            return
        try:
            self._reader.body(stream, data, start, stop)
        except StreamFault as fault:
            self._fail(stream, fault.message, fault.code)

    # --- header blocks

    def _read_headers(self, flags: int, stream_id: int, data: Buffer, start: int, stop: int) -> None:
        if flags & (PADDED | frames.PRIORITISED):
            start, stop = frames.strip(flags, data, start, stop)
        self._block_stream = stream_id
        self._block_flags = flags
        self._block_frames = 1
        block = bytes(data[start:stop])
        self._check_block(len(block))
        if flags & END_HEADERS:
            self._read_block(block)
        else:
            self._expected = CONTINUATION
            self._block = bytearray(block)

    def _read_continuation(self, flags: int, stream_id: int, data: Buffer, start: int, stop: int) -> None:
        if self._expected != CONTINUATION or stream_id != self._block_stream:
            raise Fault(f"a CONTINUATION frame of stream {stream_id} does not follow a HEADERS frame")
        self._block += data[start:stop]
        self._block_frames += 1
        self._check_block(len(self._block))
        if flags & END_HEADERS:
            self._expected = -1
            self._read_block(bytes(self._block))
            self._block.clear()

    def _check_block(self, size: int) -> None:
        if size > LIST_LIMIT or self._block_frames > BLOCK_FRAMES_LIMIT:
            text = f"a header block is too long: {size} bytes in {self._block_frames} frames"
            raise Fault(text, frames.ENHANCE_YOUR_CALM)

    def _read_block(self, block: bytes) -> None:
        headers = self._blocks.decode(block)
        stream_id, flags = self._block_stream, self._block_flags
        stream = self.streams.get(stream_id) or self._stray(stream_id, HEADERS)
        if stream is None:
            return
        stream.received += len(block) + FRAME_HEAD
        stream.is_plain = False
        if headers.fault:
            self._fail(stream, f"the reply has {headers.fault}")
        elif stream.head is None:
            self._read_head(stream, headers, block)
        elif headers.status:
            self._fail(stream, f"a second head arrived, with status {headers.status}")
        elif not flags & END_STREAM:
            self._fail(stream, "the trailers do not end the reply")
        else:
            if self._usual_trailers.headers is not headers and self._blocks.frozen:
                self._usual_trailers = _usual(block, END_HEADERS | END_STREAM, headers)
            self._end(stream, headers)

    def _read_head(self, stream: Stream, headers: Headers, block: bytes) -> None:
        ends = self._block_flags & END_STREAM
        if not headers.status:
            self._fail(stream, "the head of the reply has no status")
        elif headers.status >= 200:
            if self._usual_head.headers is not headers and self._blocks.frozen and not ends:
                self._usual_head = _usual(block, END_HEADERS, headers)
            stream.head = headers
            self._reader.head(stream, headers)
            if ends:
                self._end(stream, None)
        elif ends or headers.status == 101:
            self._fail(stream, f"the interim status {headers.status} ends the reply or switches protocols")
        else:
            stream.interim += 1
            if stream.interim > INTERIM_LIMIT:
                text = f"more than {INTERIM_LIMIT} interim replies arrived, the last with status {headers.status}"
                self._fail(stream, text, frames.ENHANCE_YOUR_CALM)

    # --- ends of streams

    def _end(self, stream: Stream, trailers: Headers | None) -> None:
        if stream.id not in self.streams:  # its last bytes failed it
            return
        head = stream.head
        if head is not None and 0 <= head.length != stream.content:
            self._fail(
                stream, f"the body has {stream.content} bytes, but its Content-Length is {head.length}"
            )
            return
        del self.streams[stream.id]
        if stream.waiting or not stream.ends:  # the reply is complete: the server does not need the rest
            self.sender.drop(stream)
            self._queue(frames.rst_stream(stream.id, frames.NO_ERROR))
        self._reader.ended(stream, trailers)

    def _fail(self, stream: Stream, text: str, code: int = frames.PROTOCOL_ERROR) -> None:
        """Handle a stream error (5.4.2)."""
        self.cancel(stream, code)
        self._reader.failed(stream, MALFORMED, code, text)

    def _remember_cancelled(self, stream: Stream) -> None:
        """Remember a cancelled stream: frames that the server sent before it knew may still arrive."""
        self.sender.drop(stream)
        if self._left_stream is stream:
            self._left_stream = None
        cancelled = self._cancelled
        cancelled[stream.id] = None
        if len(cancelled) > CANCELLED_LIMIT:
            oldest = next(iter(cancelled))
            del cancelled[oldest]
            self._forgotten = max(self._forgotten, oldest)

    def _fail_all(self, cause: str, code: int, text: str) -> None:
        streams = list(self.streams.values())
        self.streams.clear()
        for stream in streams:
            self.sender.drop(stream)
            self._reader.failed(stream, cause, code, text)

    def _break(self, fault: Fault) -> None:
        """Handle a connection error (5.4.1)."""
        self.broken = fault
        self.next_reply = UNKNOWN_REPLY
        self._close()
        self._queue(frames.goaway(0, fault.code, fault.message))
        self._fail_all(BROKEN, fault.code, fault.message)

    def _close(self) -> None:
        self.closing = True
        self.limit = 0

    def _goaway_reason(self) -> str:
        if self.goaway is None:
            return ""
        text = f": {self.goaway.text}" if self.goaway.text else ""
        return f" after a GOAWAY with {name_of_error(self.goaway.code)}{text}"

    def _stray(self, stream_id: int, kind: int) -> Stream | None:
        """Return the stream despite a reserved bit, which is ignored; None if it was cancelled."""
        stream_id &= LARGEST_STREAM_ID
        stream = self.streams.get(stream_id)
        if stream is not None or stream_id in self._cancelled:
            return stream
        self._check_opened(stream_id, kind)
        if stream_id > self._forgotten:
            text = f"a {name_of_kind(kind)} arrived for stream {stream_id}, which has ended"
            raise Fault(text, frames.STREAM_CLOSED)
        return None

    def _check_opened(self, stream_id: int, kind: int) -> None:
        if stream_id % 2 == 0 or stream_id >= self.next_id:
            raise Fault(f"a {name_of_kind(kind)} arrived for stream {stream_id}, which was never opened")

    # --- control frames

    def _read_priority(self, flags: int, stream_id: int, data: Buffer, start: int, stop: int) -> None:
        if not stream_id:
            raise Fault("a PRIORITY frame arrived on stream 0")
        stream = self.streams.get(stream_id)
        if stream is not None and stop - start != 5:
            self._fail(
                stream, f"a PRIORITY frame has {stop - start} bytes instead of 5", frames.FRAME_SIZE_ERROR
            )

    def _read_reset(self, flags: int, stream_id: int, data: Buffer, start: int, stop: int) -> None:
        frames.check_size(frames.RST_STREAM, 4, stop - start)
        self._check_opened(stream_id, frames.RST_STREAM)
        stream = self.streams.pop(stream_id, None)
        if stream is None:
            return
        self.sender.drop(stream)
        stream.received += FRAME_HEAD + 4
        (code,) = unpack_from(">L", data, start)
        # REFUSED_STREAM: "prior to any processing having occurred" (8.7).
        cause = REFUSED if code == frames.REFUSED_STREAM else RESET
        self._reader.failed(stream, cause, code, f"the server reset the stream with {name_of_error(code)}")

    def _read_settings(self, flags: int, stream_id: int, data: Buffer, start: int, stop: int) -> None:
        frames.check_connection(SETTINGS, stream_id)
        if flags & frames.ACK:
            frames.check_size(SETTINGS, 0, stop - start)
            if not self.ready:
                raise Fault("the server acknowledged settings before it sent its own")
            self._blocks.acknowledged()
            return
        values = frames.parse_settings(data[start:stop])
        if not self.ready:
            self.ready = True
            self._expected = -1
        for name, value in dict(values).items():  # the last value applies; each may affect every stream
            self._apply(name, value)
        self._answer(frames.frame(SETTINGS, frames.ACK, 0))

    def _apply(self, name: int, value: int) -> None:
        if name == frames.MAX_CONCURRENT_STREAMS:
            self.limit = 0 if self.closing else value
        elif name == frames.MAX_FRAME_SIZE:
            self.sender.frame_size = value
        elif name == frames.INITIAL_WINDOW_SIZE:
            self.sender.allow_all(value, self.streams.values())

    def _read_push_promise(self, flags: int, stream_id: int, data: Buffer, start: int, stop: int) -> None:
        raise Fault("a PUSH_PROMISE frame arrived although push is disabled")

    def _read_ping(self, flags: int, stream_id: int, data: Buffer, start: int, stop: int) -> None:
        frames.check_connection(frames.PING, stream_id)
        frames.check_size(frames.PING, 8, stop - start)
        if not flags & frames.ACK:
            self._answer(frames.frame(frames.PING, frames.ACK, 0, data[start:stop]))

    def _answer(self, reply: bytes) -> None:
        self._queue(reply)
        self.answers += 1
        if self.answers > ANSWERS_LIMIT:
            raise Fault("the server requests more acknowledgements than it reads", frames.ENHANCE_YOUR_CALM)

    def _read_goaway(self, flags: int, stream_id: int, data: Buffer, start: int, stop: int) -> None:
        frames.check_connection(frames.GOAWAY, stream_id)
        if stop - start < 8:
            raise Fault(f"a GOAWAY frame has only {stop - start} bytes", frames.FRAME_SIZE_ERROR)
        last, code = unpack_from(">LL", data, start)
        last &= LARGEST_STREAM_ID
        if self.goaway is not None and last > self.goaway.last_stream_id:
            raise Fault("a second GOAWAY frame names a higher stream ID than the first")
        text = bytes(data[start + 8 : min(stop, start + 8 + 1024)]).decode("utf-8", "replace")
        self.goaway = Goaway(last, code, text)
        self._close()
        reason = f"the server accepted no more streams{self._goaway_reason()}"
        for stream in [stream for stream in self.streams.values() if stream.id > last]:
            del self.streams[stream.id]
            self._remember_cancelled(stream)
            self._reader.failed(stream, REFUSED, code, reason)

    def _read_window_update(self, flags: int, stream_id: int, data: Buffer, start: int, stop: int) -> None:
        frames.check_size(frames.WINDOW_UPDATE, 4, stop - start)
        (increment,) = unpack_from(">L", data, start)
        increment &= frames.LARGEST_WINDOW
        if not stream_id:
            self.sender.allow(increment)
            return
        self._check_opened(stream_id, frames.WINDOW_UPDATE)
        stream = self.streams.get(stream_id)
        if stream is None:
            return
        if not increment:
            self._fail(stream, "a WINDOW_UPDATE frame has an increment of 0")
        elif stream.window + increment > frames.LARGEST_WINDOW:
            self._fail(stream, "the stream's window was raised above 2^31-1", frames.FLOW_CONTROL_ERROR)
        else:
            self.sender.allow_stream(stream, increment)


_READ: dict[int, Callable[[Http2Connection, int, int, Buffer, int, int], None]] = {
    HEADERS: Http2Connection._read_headers,
    frames.PRIORITY: Http2Connection._read_priority,
    frames.RST_STREAM: Http2Connection._read_reset,
    SETTINGS: Http2Connection._read_settings,
    frames.PUSH_PROMISE: Http2Connection._read_push_promise,
    frames.PING: Http2Connection._read_ping,
    frames.GOAWAY: Http2Connection._read_goaway,
    frames.WINDOW_UPDATE: Http2Connection._read_window_update,
    CONTINUATION: Http2Connection._read_continuation,
}


def _usual(block: bytes, flags: int, headers: Headers) -> _Usual:
    start = frame_head(len(block), HEADERS, flags, 0)[:5]
    return _Usual((start, block), FRAME_HEAD + len(block), headers)
