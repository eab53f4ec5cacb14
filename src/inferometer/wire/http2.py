"""The client side of one HTTP/2 connection (RFC 9113). No socket, no clock.

How it is used:

    connection = Http2Connection(reader)          # queues preface, SETTINGS and the connection's window
    stream = connection.open(token, request)      # a Request rendered once, by render()
    connection.receive(buffer, length)            # reader.head(), .body(), .ended() or .failed() per stream
    for chunk in connection.take(): ...           # whole frames, to be sent in this order, all of them

Whatever may cause something to send (open, send, cancel, receive) only queues it; the owner of the socket
calls take() whenever the socket can take more and `wants_to_send` says so. It must send all that it took.

Streams. The reader hears of every stream until exactly one of `ended` and `failed`; after cancel() it hears
nothing. A stream leaves `streams` before its end is told, so the reader may count on `can_open` being right.

                 open                    last frame with END_STREAM
      idle ------------> open, half closed ------------------------> closed       reader.ended
                          |   |     |
                          |   |     +-- RST_STREAM, GOAWAY below it -> closed      reader.failed
                          |   +-- malformed, we send RST_STREAM -----> cancelled   reader.failed
                          +------ cancel(), we send RST_STREAM ------> cancelled

The server may not know yet that we cancelled, so frames for cancelled streams are dropped; frames for closed
ones, and for those never opened, end the connection. A connection that has ended has `broken` set to the
reason, has failed all its streams, and has a GOAWAY for the server in its queue.

Sending. Headers and control frames never wait. Data waits in its stream for two windows that the server
opens: the connection's and the stream's. Streams whose own window is open stand in a ring; each in turn gives
one frame of at most QUANTUM bytes. A stream's window can be below zero, after the server lowered
INITIAL_WINDOW_SIZE (6.9.2); then it waits until the window is open again.

Receiving. Our windows are wide and are given back as soon as half is used: reading is never what holds the
server up, TCP does that if we are slow. The payload of DATA is passed on as it arrives, also half a frame;
all other frames wait in `_held` until they are complete.

What makes it fast: a request that fits one frame and both windows is three constant pieces with the stream
id between them; the header blocks of replies are looked up by their bytes (see headers.py); bodies are never
copied here.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from struct import Struct, unpack_from
from typing import Any, Protocol

from inferometer.base.errors import LocalError, PeerError
from inferometer.wire.frames import (
    ACK,
    CANCEL,
    CONTINUATION,
    DATA,
    DEFAULT_WINDOW,
    ENABLE_PUSH,
    END_HEADERS,
    END_STREAM,
    ENHANCE_YOUR_CALM,
    FLOW_CONTROL_ERROR,
    FRAME_HEAD,
    FRAME_SIZE_ERROR,
    GOAWAY,
    HEADER_TABLE_SIZE,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    LARGEST_STREAM_ID,
    LARGEST_WINDOW,
    LEAST_FRAME_SIZE,
    MAX_CONCURRENT_STREAMS,
    MAX_FRAME_SIZE,
    MAX_HEADER_LIST_SIZE,
    NO_ERROR,
    PADDED,
    PING,
    PREFACE,
    PRIORITISED,
    PRIORITY,
    PROTOCOL_ERROR,
    PUSH_PROMISE,
    REFUSED_STREAM,
    RST_STREAM,
    SETTINGS,
    STREAM_CLOSED,
    WINDOW_UPDATE,
    Buffer,
    Fault,
    frame,
    frame_head,
    goaway,
    header_frames,
    name_of_error,
    name_of_kind,
    parse_settings,
    rst_stream,
    settings,
    unpack_head,
    window_update,
)
from inferometer.wire.headers import LIST_LIMIT, SHRINK, BlockReader, Headers

WINDOW = 2**30
OUR_FRAME_SIZE = 2**20
QUANTUM = 64 * 1024  # of one stream's data before the next has its turn
TAKE = 512 * 1024
BLOCK_LIMIT = LIST_LIMIT  # bytes of a header block over all its frames
CONTINUATION_LIMIT = 64
QUEUE_LIMIT = 10_000  # answers to control frames that a server may make us owe
CANCELLED_LIMIT = 1024  # streams we remember to have cancelled

MALFORMED, RESET, REFUSED, LOST, BROKEN = "malformed", "reset", "refused", "lost", "broken"

_pack_id = Struct(">L").pack
_NEVER = LARGEST_WINDOW + 1  # larger than any window


@dataclass(frozen=True, slots=True)
class Request:
    """Headers and body of a request, rendered for sending it many times."""

    block: bytes  # of the headers, as encode_block() makes it
    body: tuple[Buffer, ...]
    ends: bool  # nothing follows the body
    pieces: tuple[bytes, ...]  # the frames, cut where the stream id goes; () when they do not fit one each
    quick_size: int  # of the body when there are pieces, else larger than any window


def render(block: bytes, body: Buffer | tuple[Buffer, ...] = (), *, ends: bool = True) -> Request:
    """A request ready for open(). Large bodies are referred to, never copied."""
    parts = tuple(part for part in (body if isinstance(body, tuple) else (body,)) if len(part))
    size = sum(map(len, parts))
    if len(block) > LEAST_FRAME_SIZE or size > LEAST_FRAME_SIZE:
        return Request(block, parts, ends, (), _NEVER)
    end = END_STREAM if ends else 0
    if not size:
        return Request(block, parts, ends, (frame_head(len(block), HEADERS, END_HEADERS | end, 0)[:5], block), 0)
    pieces = (
        frame_head(len(block), HEADERS, END_HEADERS, 0)[:5],
        block + frame_head(size, DATA, end, 0)[:5],
        b"".join(parts),
    )
    return Request(block, parts, ends, pieces, size)


def patch(request: Request, stream_id: int) -> bytes:
    """The frames of a request that has pieces."""
    return _pack_id(stream_id).join(request.pieces)


class Stream:
    """One request and its reply."""

    __slots__ = (
        "content",
        "ends",
        "head",
        "id",
        "keep",
        "received",
        "ringed",
        "token",
        "unreturned",
        "waiting",
        "window",
    )

    def __init__(self, stream_id: int, token: Any, keep: bool, window: int, ends: bool) -> None:
        self.id = stream_id
        self.token = token  # the caller's
        self.keep = keep  # for the reader: whether bodies are wanted
        self.head: Headers | None = None  # of the reply, when it has come
        self.received = 0  # bytes of all its frames
        self.content = 0  # bytes of the reply's body
        self.window = window  # what the server lets us send
        self.ends = ends  # our last byte is sent or waiting
        self.waiting: deque[memoryview] | None = None
        self.ringed = False  # stands in the ring
        self.unreturned = 0  # bytes received and not yet given back to the server's window


class Reader(Protocol):
    """Who is told what happened on the streams. It may cancel streams, and open none, from within."""

    def head(self, stream: Stream, headers: Headers) -> None: ...

    def body(self, stream: Stream, data: Buffer, start: int, stop: int) -> None:
        """Some bytes of the body: data[start:stop], valid during this call."""

    def ended(self, stream: Stream, trailers: Headers | None) -> None: ...

    def failed(self, stream: Stream, cause: str, code: int, text: str) -> None:
        """The cause is MALFORMED, RESET, REFUSED (safe to try again), LOST or BROKEN; the code is HTTP/2's."""


@dataclass(frozen=True, slots=True)
class Goaway:
    """The server will take no more streams, and answers none above the last."""

    last_stream_id: int
    code: int
    text: str


class Http2Connection:
    """Bytes in, calls to the reader out; what is to be sent waits for take()."""

    __slots__ = (
        "_block",
        "_block_flags",
        "_block_frames",
        "_block_stream",
        "_blocks",
        "_cancelled",
        "_expected",
        "_forgotten",
        "_frame_size",
        "_held",
        "_initial_window",
        "_left",
        "_left_ends",
        "_left_padding",
        "_left_stream",
        "_limit",
        "_next_id",
        "_our_window",
        "_outgoing",
        "_owed",
        "_quick_limit",
        "_reader",
        "_ring",
        "_unreturned",
        "_window",
        "broken",
        "closing",
        "goaway",
        "ready",
        "streams",
    )

    def __init__(self, reader: Reader, *, window: int = WINDOW) -> None:
        self.streams: dict[int, Stream] = {}
        self.ready = False  # the server's SETTINGS have come
        self.closing = False  # no more streams can be opened; those open go on unless it is broken
        self.goaway: Goaway | None = None  # the server's, the last one
        self.broken: PeerError | None = None  # why the connection is of no further use
        self._reader = reader
        # --- sending
        self._outgoing: list[Buffer] = []
        self._ring: deque[Stream] = deque()  # with data waiting and their own window open
        self._next_id = 1
        self._limit = LARGEST_STREAM_ID  # streams open at once; 0 when closing
        self._window = DEFAULT_WINDOW
        self._initial_window = DEFAULT_WINDOW
        self._quick_limit = -1  # body size up to which pieces may be used: the first block must shrink our table
        self._frame_size = LEAST_FRAME_SIZE
        self._owed = 0  # answers to control frames since the last take()
        # --- receiving
        self._our_window = window
        self._unreturned = 0
        self._blocks = BlockReader()
        self._expected = SETTINGS  # the only kind of frame that is legal next; -1 when any is
        self._held = bytearray()  # a frame that has not arrived completely; never DATA with a byte of payload
        self._left = 0  # bytes to come of the DATA frame being read,
        self._left_padding = 0  # those of padding among them,
        self._left_stream: Stream | None = None  # whose they are, if anyone still wants them,
        self._left_ends = False  # and whether they are the last
        self._block = bytearray()  # of a header block in several frames,
        self._block_stream = 0  # its stream,
        self._block_flags = 0  # the flags of its HEADERS frame,
        self._block_frames = 0  # and how many frames it has had
        self._cancelled: dict[int, None] = {}
        self._forgotten = 0  # streams up to this one may have been cancelled, too
        self._greet()

    def _greet(self) -> None:
        ours = {
            HEADER_TABLE_SIZE: 0,
            ENABLE_PUSH: 0,
            INITIAL_WINDOW_SIZE: self._our_window,
            MAX_FRAME_SIZE: OUR_FRAME_SIZE,
            MAX_HEADER_LIST_SIZE: LIST_LIMIT,
        }
        self._outgoing += [PREFACE, settings(ours)]
        if self._our_window > DEFAULT_WINDOW:  # the connection's window is not a setting
            self._outgoing.append(window_update(0, self._our_window - DEFAULT_WINDOW))

    # --- requests

    @property
    def can_open(self) -> bool:
        """One more stream is allowed now."""
        return len(self.streams) < self._limit

    def open(self, token: Any, request: Request, *, keep: bool = False) -> Stream:
        """Start a stream; its first frames, or all of them, are queued."""
        if len(self.streams) >= self._limit:
            raise LocalError("no further stream can be opened on this connection")
        stream_id = self._next_id
        self._next_id = stream_id + 2
        if stream_id == LARGEST_STREAM_ID:
            self._close()
        size = request.quick_size
        if size <= self._quick_limit and size <= self._window:
            self._window -= size
            stream = Stream(stream_id, token, keep, self._initial_window - size, request.ends)
            self._outgoing.append(_pack_id(stream_id).join(request.pieces))
        else:
            stream = self._open_slowly(Stream(stream_id, token, keep, self._initial_window, False), request)
        self.streams[stream_id] = stream
        return stream

    def _open_slowly(self, stream: Stream, request: Request) -> Stream:
        block = request.block
        if self._quick_limit < 0:
            block = SHRINK + block
            self._quick_limit = self._initial_window
        ends = request.ends and not request.body
        self._outgoing += header_frames(stream.id, block, ends=ends, largest=self._frame_size)
        self._wait(stream, request.body)
        stream.ends = request.ends
        return stream

    def send(self, stream: Stream, body: Buffer | tuple[Buffer, ...] = (), *, ends: bool = False) -> None:
        """More of a request that has not ended; nothing happens when its stream is no longer open."""
        if stream.id not in self.streams:
            return
        if stream.ends:
            raise LocalError("a request that has ended cannot go on")
        parts = tuple(part for part in (body if isinstance(body, tuple) else (body,)) if len(part))
        stream.ends = ends
        self._wait(stream, parts)
        if ends and not stream.waiting:
            self._outgoing.append(frame(DATA, END_STREAM, stream.id))

    def cancel(self, stream: Stream, code: int = CANCEL) -> None:
        """Give up a stream: the server is told, the reader hears no more of it."""
        if self.streams.pop(stream.id, None) is not None:
            self._forsake(stream)
            self._outgoing.append(rst_stream(stream.id, code))

    def close(self) -> None:
        """Take leave of the server; streams that are open may still be answered."""
        self._close()
        self._outgoing.append(goaway(0, NO_ERROR))

    # --- sending

    @property
    def wants_to_send(self) -> bool:
        """take() is worth a call, though it may find nothing after all."""
        return bool(self._outgoing) or (self._window > 0 and bool(self._ring))

    def take(self, limit: int = TAKE) -> list[Buffer]:
        """What to send now: all that is queued, and of waiting data about `limit` bytes."""
        if self._ring:
            self._turn(limit)
        self._owed = 0
        outgoing, self._outgoing = self._outgoing, []
        return outgoing

    def _wait(self, stream: Stream, parts: Iterable[Buffer]) -> None:
        waiting = [memoryview(part).cast("B") for part in parts]
        if not waiting:
            return
        if stream.waiting is None:
            stream.waiting = deque()
        stream.waiting += waiting
        self._enter_ring(stream)

    def _enter_ring(self, stream: Stream) -> None:
        if stream.waiting and stream.window > 0 and not stream.ringed:
            stream.ringed = True
            self._ring.append(stream)

    def _drop_waiting(self, stream: Stream) -> None:
        stream.waiting = None
        if stream.ringed:
            stream.ringed = False
            self._ring.remove(stream)

    def _turn(self, limit: int) -> None:
        ring = self._ring
        while ring and self._window > 0 and limit > 0:
            stream = ring.popleft()
            stream.ringed = False
            if stream.waiting and stream.window > 0:
                limit -= self._send_frame(stream, stream.waiting)
                self._enter_ring(stream)

    def _send_frame(self, stream: Stream, waiting: deque[memoryview]) -> int:
        """One DATA frame, of as many parts as it takes; returns its size."""
        room = size = min(self._frame_size, QUANTUM, stream.window, self._window)
        parts: list[Buffer] = []
        while waiting and room:
            part = waiting.popleft()
            if len(part) > room:
                waiting.appendleft(part[room:])
                part = part[:room]
            room -= len(part)
            parts.append(part)
        size -= room
        stream.window -= size
        self._window -= size
        end = END_STREAM if stream.ends and not waiting else 0
        self._outgoing.append(frame_head(size, DATA, end, stream.id))
        self._outgoing += parts
        return size

    # --- receiving

    def receive(self, data: Buffer, length: int) -> None:
        """Take data[:length]. It never raises for what the peer did: see `broken`."""
        if self.broken is not None:
            return
        try:
            self._receive(data, length)
        except Fault as fault:
            self._break(fault)

    def eof(self) -> None:
        """The server closed the connection: streams that are open are lost."""
        if self.broken is not None:
            return
        self.broken = PeerError(f"the server closed the connection{self._farewell()}")
        self._close()
        self._fail_all(LOST, NO_ERROR, self.broken.message)

    def _receive(self, data: Buffer, length: int) -> None:
        at = 0
        if self._left:
            at = self._read_on(data, length)
        elif self._held:
            self._held += data[:length]
            data, length = self._held, len(self._held)
        while length - at >= FRAME_HEAD:
            high, low, kind, flags, stream_id = unpack_head(data, at)
            start = at + FRAME_HEAD
            stop = start + (high << 16 | low)
            if kind != self._expected >= 0 or high >= OUR_FRAME_SIZE >> 16:
                self._check_frame(data, at, stop - start, kind)
            if stop > length:
                if kind != DATA or start == length:
                    break
                self._read_data(flags, stream_id, data, start, stop, length)
                at = length
            else:
                at = stop
                if kind == DATA:
                    self._read_data(flags, stream_id, data, start, stop, stop)
                elif kind in _READ:  # others are from the future, and to be ignored (4.1)
                    _READ[kind](self, flags, stream_id, data, start, stop)
        if data is self._held:
            del self._held[:at]
        elif at < length:
            self._held += data[at:length]

    def _check_frame(self, data: Buffer, at: int, size: int, kind: int) -> None:
        if not self.ready and kind != SETTINGS:
            raise Fault(PROTOCOL_ERROR, f"the server does not speak HTTP/2: it began with {_quote(data, at)}")
        if size > OUR_FRAME_SIZE:
            raise Fault(FRAME_SIZE_ERROR, f"a {name_of_kind(kind)} has {size} bytes, {OUR_FRAME_SIZE} are allowed")
        if kind != self._expected >= 0:
            expected = name_of_kind(self._expected)
            raise Fault(PROTOCOL_ERROR, f"a {name_of_kind(kind)} came where only a {expected} may come")

    # --- DATA

    def _read_data(self, flags: int, stream_id: int, data: Buffer, start: int, stop: int, length: int) -> None:
        """A DATA frame that ends at `stop`, of which all bytes up to `length` are here."""
        size = stop - start
        self._unreturned += size
        if self._unreturned * 2 >= self._our_window:
            self._return_window()
        stream = self.streams.get(stream_id) or self._stray(stream_id, DATA)
        padding = 0
        if flags & PADDED:
            padding = _padding(data, start, stop)
            start += 1
        if stream is not None:
            stream = self._count_data(stream, size, stop - start - padding)
        if length < stop:
            self._left = stop - length
            self._left_padding = padding
            self._left_stream = stream
            self._left_ends = bool(flags & END_STREAM)
        if stream is None:
            return
        end = min(length, stop - padding)
        if end > start:
            self._reader.body(stream, data, start, end)
        if flags & END_STREAM and length == stop:
            self._end(stream, None)

    def _count_data(self, stream: Stream, size: int, content: int) -> Stream | None:
        """The stream, unless this frame makes it fail."""
        stream.received += size + FRAME_HEAD
        stream.content += content
        if stream.head is None:
            self._fail(stream, PROTOCOL_ERROR, "a body came before the headers")
            return None
        stream.unreturned += size
        if stream.unreturned * 2 < self._our_window:
            return stream
        if stream.unreturned > self._our_window:
            self._fail(stream, FLOW_CONTROL_ERROR, "the server sent more than the stream's window allows")
            return None
        self._outgoing.append(window_update(stream.id, stream.unreturned))
        stream.unreturned = 0
        return stream

    def _return_window(self) -> None:
        if self._unreturned > max(self._our_window, DEFAULT_WINDOW):
            raise Fault(FLOW_CONTROL_ERROR, "the server sent more than the connection's window allows")
        self._outgoing.append(window_update(0, self._unreturned))
        self._unreturned = 0

    def _read_on(self, data: Buffer, length: int) -> int:
        """The rest of a DATA frame, or some of it."""
        taken = min(self._left, length)
        content = min(taken, self._left - self._left_padding)
        self._left -= taken
        stream = self._left_stream
        if stream is not None and content > 0:
            self._reader.body(stream, data, 0, content)
        if not self._left and self._left_stream is not None:
            self._left_stream = None
            if stream is not None and self._left_ends:
                self._end(stream, None)
        return taken

    # --- header blocks

    def _read_headers(self, flags: int, stream_id: int, data: Buffer, start: int, stop: int) -> None:
        if flags & (PADDED | PRIORITISED):
            start, stop = _strip(flags, data, start, stop)
        if flags & END_HEADERS:
            self._read_block(flags, stream_id, bytes(data[start:stop]))
            return
        self._block = bytearray(data[start:stop])
        self._block_stream, self._block_flags, self._block_frames = stream_id & LARGEST_STREAM_ID, flags, 1
        self._expected = CONTINUATION
        self._check_block()

    def _read_continuation(self, flags: int, stream_id: int, data: Buffer, start: int, stop: int) -> None:
        stream_id &= LARGEST_STREAM_ID
        if self._expected != CONTINUATION or stream_id != self._block_stream:
            raise Fault(PROTOCOL_ERROR, f"a CONTINUATION frame of stream {stream_id} continues nothing")
        self._block += data[start:stop]
        self._block_frames += 1
        self._check_block()
        if flags & END_HEADERS:
            self._expected = -1
            self._read_block(self._block_flags, self._block_stream, bytes(self._block))
            self._block = bytearray()

    def _check_block(self) -> None:
        if len(self._block) > BLOCK_LIMIT or self._block_frames > CONTINUATION_LIMIT:
            size = f"{len(self._block)} bytes in {self._block_frames} frames"
            raise Fault(ENHANCE_YOUR_CALM, f"a header block is too long: {size}")

    def _read_block(self, flags: int, stream_id: int, block: bytes) -> None:
        headers = self._blocks.decode(block)
        stream = self.streams.get(stream_id) or self._stray(stream_id, HEADERS)
        if stream is None:
            return
        stream.received += len(block) + FRAME_HEAD
        if headers.fault:
            self._fail(stream, PROTOCOL_ERROR, f"the reply has {headers.fault}")
        elif stream.head is None:
            self._read_head(stream, headers, bool(flags & END_STREAM))
        elif headers.status:
            self._fail(stream, PROTOCOL_ERROR, f"a second head came, with status {headers.status}")
        elif not flags & END_STREAM:
            self._fail(stream, PROTOCOL_ERROR, "the trailers do not end the reply")
        else:
            self._end(stream, headers)

    def _read_head(self, stream: Stream, headers: Headers, ends: bool) -> None:
        if not headers.status:
            self._fail(stream, PROTOCOL_ERROR, "the head of the reply has no status")
        elif headers.status >= 200:
            stream.head = headers
            self._reader.head(stream, headers)
            if ends:
                self._end(stream, None)
        elif ends or headers.status == 101:
            self._fail(stream, PROTOCOL_ERROR, f"the status {headers.status} ends the reply or the protocol")

    # --- ends of streams

    def _end(self, stream: Stream, trailers: Headers | None) -> None:
        if self.streams.get(stream.id) is not stream:  # the reader cancelled it meanwhile
            return
        head = stream.head
        if head is not None and 0 <= head.length != stream.content:
            text = f"the body has {stream.content} bytes, its Content-Length is {head.length}"
            self._fail(stream, PROTOCOL_ERROR, text)
            return
        del self.streams[stream.id]
        if stream.waiting or not stream.ends:  # the answer is complete: the server does not want the rest
            self._drop_waiting(stream)
            self._outgoing.append(rst_stream(stream.id, NO_ERROR))
        self._reader.ended(stream, trailers)

    def _fail(self, stream: Stream, code: int, text: str) -> None:
        """A stream error (5.4.2)."""
        self.cancel(stream, code)
        self._reader.failed(stream, MALFORMED, code, text)

    def _forsake(self, stream: Stream) -> None:
        """Frames that the server sent before it knew may still arrive."""
        self._drop_waiting(stream)
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
        self._ring.clear()
        for stream in streams:
            stream.waiting = None
            self._reader.failed(stream, cause, code, text)

    def _break(self, fault: Fault) -> None:
        """A connection error (5.4.1)."""
        self.broken = fault
        self._close()
        self._outgoing.append(goaway(0, fault.code, fault.message))
        self._fail_all(BROKEN, fault.code, fault.message)

    def _close(self) -> None:
        self.closing = True
        self._limit = 0

    def _farewell(self) -> str:
        if self.goaway is None:
            return ""
        text = f": {self.goaway.text}" if self.goaway.text else ""
        return f" after a GOAWAY with {name_of_error(self.goaway.code)}{text}"

    def _stray(self, stream_id: int, kind: int) -> Stream | None:
        """The stream after all (the reserved bit is to be ignored); None when we cancelled it."""
        stream_id &= LARGEST_STREAM_ID
        stream = self.streams.get(stream_id)
        if stream is not None or stream_id in self._cancelled:
            return stream
        self._check_opened(stream_id, kind)
        if stream_id > self._forgotten:
            raise Fault(STREAM_CLOSED, f"a {name_of_kind(kind)} came for stream {stream_id}, which has ended")
        return None

    def _check_opened(self, stream_id: int, kind: int) -> None:
        if stream_id % 2 == 0 or stream_id >= self._next_id:
            raise Fault(PROTOCOL_ERROR, f"a {name_of_kind(kind)} came for stream {stream_id}, which was never opened")

    # --- control frames

    def _read_priority(self, flags: int, stream_id: int, data: Buffer, start: int, stop: int) -> None:
        stream_id &= LARGEST_STREAM_ID
        if not stream_id:
            raise Fault(PROTOCOL_ERROR, "a PRIORITY frame came for no stream")
        stream = self.streams.get(stream_id)
        if stream is not None and stop - start != 5:
            self._fail(stream, FRAME_SIZE_ERROR, f"a PRIORITY frame has {stop - start} bytes, not 5")

    def _read_reset(self, flags: int, stream_id: int, data: Buffer, start: int, stop: int) -> None:
        _check_size(RST_STREAM, 4, stop - start)
        stream_id &= LARGEST_STREAM_ID
        self._check_opened(stream_id, RST_STREAM)
        stream = self.streams.pop(stream_id, None)
        if stream is None:
            return
        self._drop_waiting(stream)
        stream.received += FRAME_HEAD + 4
        (code,) = unpack_from(">L", data, start)
        # REFUSED_STREAM: "prior to any processing having occurred" (8.7).
        cause = REFUSED if code == REFUSED_STREAM else RESET
        self._reader.failed(stream, cause, code, f"the server reset the stream with {name_of_error(code)}")

    def _read_settings(self, flags: int, stream_id: int, data: Buffer, start: int, stop: int) -> None:
        _check_connection(SETTINGS, stream_id)
        if flags & ACK:
            _check_size(SETTINGS, 0, stop - start)
            if not self.ready:
                raise Fault(PROTOCOL_ERROR, "the server acknowledged settings before it sent its own")
            self._blocks.acknowledged()
            return
        values = parse_settings(data[start:stop])
        if not self.ready:
            self.ready = True
            self._expected = -1
        for name, value in values:
            self._apply(name, value)
        self._answer(frame(SETTINGS, ACK, 0))

    def _apply(self, name: int, value: int) -> None:
        if name == MAX_CONCURRENT_STREAMS:
            self._limit = 0 if self.closing else value
        elif name == MAX_FRAME_SIZE:
            self._frame_size = value
        elif name == INITIAL_WINDOW_SIZE:
            change = value - self._initial_window
            self._initial_window = value
            if self._quick_limit >= 0:
                self._quick_limit = value
            for stream in self.streams.values():
                self._widen(stream, change)

    def _widen(self, stream: Stream, change: int) -> None:
        stream.window += change
        if stream.window > LARGEST_WINDOW:
            raise Fault(FLOW_CONTROL_ERROR, f"the new INITIAL_WINDOW_SIZE lifts stream {stream.id} above 2^31-1")
        self._enter_ring(stream)

    def _read_push_promise(self, flags: int, stream_id: int, data: Buffer, start: int, stop: int) -> None:
        raise Fault(PROTOCOL_ERROR, "a PUSH_PROMISE frame came, though push is switched off")

    def _read_ping(self, flags: int, stream_id: int, data: Buffer, start: int, stop: int) -> None:
        _check_connection(PING, stream_id)
        _check_size(PING, 8, stop - start)
        if not flags & ACK:
            self._answer(frame(PING, ACK, 0, data[start:stop]))

    def _answer(self, reply: bytes) -> None:
        self._outgoing.append(reply)
        self._owed += 1
        if self._owed > QUEUE_LIMIT:
            raise Fault(ENHANCE_YOUR_CALM, "the server asks for more answers than it reads")

    def _read_goaway(self, flags: int, stream_id: int, data: Buffer, start: int, stop: int) -> None:
        _check_connection(GOAWAY, stream_id)
        if stop - start < 8:
            raise Fault(FRAME_SIZE_ERROR, f"a GOAWAY frame has {stop - start} bytes")
        last, code = unpack_from(">LL", data, start)
        last &= LARGEST_STREAM_ID
        if self.goaway is not None and last > self.goaway.last_stream_id:
            raise Fault(PROTOCOL_ERROR, "a second GOAWAY frame names a higher stream than the first")
        text = bytes(data[start + 8 : min(stop, start + 8 + 1024)]).decode("utf-8", "replace")
        self.goaway = Goaway(last, code, text)
        self._close()
        reason = f"the server took no more streams{self._farewell()}"
        for stream in [stream for stream in self.streams.values() if stream.id > last]:
            del self.streams[stream.id]
            self._forsake(stream)
            self._reader.failed(stream, REFUSED, code, reason)

    def _read_window_update(self, flags: int, stream_id: int, data: Buffer, start: int, stop: int) -> None:
        _check_size(WINDOW_UPDATE, 4, stop - start)
        (increment,) = unpack_from(">L", data, start)
        increment &= LARGEST_WINDOW
        stream_id &= LARGEST_STREAM_ID
        if stream_id:
            self._widen_stream(stream_id, increment)
            return
        self._window += increment
        if not increment:
            raise Fault(PROTOCOL_ERROR, "a WINDOW_UPDATE frame has an increment of 0")
        if self._window > LARGEST_WINDOW:
            raise Fault(FLOW_CONTROL_ERROR, "the connection's window was lifted above 2^31-1")

    def _widen_stream(self, stream_id: int, increment: int) -> None:
        self._check_opened(stream_id, WINDOW_UPDATE)
        stream = self.streams.get(stream_id)
        if stream is None:
            return
        if not increment:
            self._fail(stream, PROTOCOL_ERROR, "a WINDOW_UPDATE frame has an increment of 0")
        elif stream.window + increment > LARGEST_WINDOW:
            self._fail(stream, FLOW_CONTROL_ERROR, "the stream's window was lifted above 2^31-1")
        else:
            stream.window += increment
            self._enter_ring(stream)


_READ: dict[int, Callable[[Http2Connection, int, int, Buffer, int, int], None]] = {
    HEADERS: Http2Connection._read_headers,
    PRIORITY: Http2Connection._read_priority,
    RST_STREAM: Http2Connection._read_reset,
    SETTINGS: Http2Connection._read_settings,
    PUSH_PROMISE: Http2Connection._read_push_promise,
    PING: Http2Connection._read_ping,
    GOAWAY: Http2Connection._read_goaway,
    WINDOW_UPDATE: Http2Connection._read_window_update,
    CONTINUATION: Http2Connection._read_continuation,
}


def _check_size(kind: int, wanted: int, size: int) -> None:
    if size != wanted:
        raise Fault(FRAME_SIZE_ERROR, f"a {name_of_kind(kind)} has {size} bytes, not {wanted}")


def _check_connection(kind: int, stream_id: int) -> None:
    if stream_id & LARGEST_STREAM_ID:
        raise Fault(PROTOCOL_ERROR, f"a {name_of_kind(kind)} came for stream {stream_id}, not for the connection")


def _padding(data: Buffer, start: int, stop: int) -> int:
    if start == stop:
        raise Fault(FRAME_SIZE_ERROR, "a padded frame is empty")
    padding = data[start]
    if padding >= stop - start:
        raise Fault(PROTOCOL_ERROR, f"a frame of {stop - start} bytes has {padding} bytes of padding")
    return padding


def _strip(flags: int, data: Buffer, start: int, stop: int) -> tuple[int, int]:
    """A HEADERS frame without its padding and its priority."""
    if flags & PADDED:
        padding = _padding(data, start, stop)
        start, stop = start + 1, stop - padding
    if flags & PRIORITISED:
        start += 5
    if start > stop:
        raise Fault(FRAME_SIZE_ERROR, "a HEADERS frame is too short for its priority")
    return start, stop


def _quote(data: Buffer, at: int) -> str:
    return repr(bytes(data[at : at + FRAME_HEAD]))[1:]
