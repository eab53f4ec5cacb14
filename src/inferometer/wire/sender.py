"""Sending half of an HTTP/2 connection: requests as frames, within the server's windows.

Headers and control frames never wait. Data waits in its stream for two windows: the connection's and the
stream's. Streams whose own window is open form a ring; each in turn sends one frame of at most QUANTUM
bytes. A stream's window can become negative after the server lowers INITIAL_WINDOW_SIZE (RFC 9113 6.9.2); then
the stream waits until the window is open again.

    start, send --> stream.waiting --> ring --> turn --+
    headers, answers, small requests ------------------+--> queue --> take

A request that fits one frame of each type and both windows is rendered once; each send puts the stream ID
into its two frames. Larger bodies are split as memoryviews: they are referenced, never copied.
"""

from collections import deque
from collections.abc import Iterable
from struct import Struct
from typing import Any

from inferometer.wire import frames
from inferometer.wire.frames import DATA, END_HEADERS, END_STREAM, HEADERS, Buffer, Fault, frame_head
from inferometer.wire.headers import SHRINK, Headers

QUANTUM = 64 * 1024  # bytes of one stream before the next one's turn

pack_id = Struct(">L").pack
put_id = Struct(">L").pack_into
ID = 5  # position of the stream ID in a frame
_NEVER = frames.LARGEST_WINDOW + 1  # larger than any window


class Http2Request:
    """Headers and body of a request, rendered for sending it many times."""

    __slots__ = ("block", "body", "ends", "frames", "quick_size", "second")

    def __init__(
        self,
        block: bytes,
        body: tuple[Buffer, ...],
        ends: bool,
        frames: bytearray,
        second: int,
        quick_size: int,
    ) -> None:
        self.block = block  # header block from encode_block()
        self.body = body
        self.ends = ends  # nothing follows the body
        self.frames = frames  # all frames, with the last stream ID; empty if they do not fit one each
        self.second = second  # position of the stream ID in the second frame, or the only one
        self.quick_size = quick_size  # size of the body if there are frames, else larger than any window


def render(block: bytes, body: Buffer | tuple[Buffer, ...] = (), *, ends: bool = True) -> Http2Request:
    """Render a request for sending; a large body is referenced, so it must not change."""
    parts = _parts(body)
    size = sum(map(len, parts))
    if len(block) > frames.LEAST_FRAME_SIZE or size > frames.LEAST_FRAME_SIZE:
        return Http2Request(block, parts, ends, bytearray(), 0, _NEVER)
    end = END_STREAM if ends else 0
    if not size:
        head = frame_head(len(block), HEADERS, END_HEADERS | end, 0) + block
        return Http2Request(block, parts, ends, bytearray(head), ID, 0)
    head = frame_head(len(block), HEADERS, END_HEADERS, 0) + block
    whole = bytearray().join((head, frame_head(size, DATA, end, 0), *parts))
    return Http2Request(block, parts, ends, whole, len(head) + ID, size)


def patch(request: Http2Request, stream_id: int) -> bytes:
    """Return the prepared frames of a request with this stream ID."""
    put_id(request.frames, ID, stream_id)
    put_id(request.frames, request.second, stream_id)
    return bytes(request.frames)


def _parts(body: Buffer | tuple[Buffer, ...]) -> tuple[Buffer, ...]:
    return tuple(part for part in (body if isinstance(body, tuple) else (body,)) if len(part))


class Stream:
    """One request and its reply."""

    __slots__ = (
        "content", "ends", "head", "id", "interim", "is_plain", "keep", "reading", "received", "ringed", "sent",
        "token", "unreturned", "waiting", "window",
    )  # fmt: skip

    def __init__(self, stream_id: int, token: Any, keep: bool, window: int, ends: bool) -> None:
        self.id = stream_id
        self.token = token  # belongs to the caller
        self.keep = keep  # for the reader: whether to keep bodies
        self.is_plain = False  # made by make_streams(), without any part of the reply so far
        self.head: Headers | None = None  # of the reply, once received
        self.interim = 0  # interim heads
        self.reading: Any = None  # belongs to the reader
        self.received = 0  # bytes of all its frames
        self.content = 0  # bytes of the reply's body
        self.unreturned = 0  # bytes received and not yet returned to the server's window
        self.window = window  # bytes that the server allows
        self.ends = ends  # the last byte is sent or waiting
        self.waiting: deque[memoryview] | None = None
        self.sent = 0  # bytes that had waited, and were queued as frames
        self.ringed = False  # is in the ring


class Sender:
    """Data waiting to be sent on one connection."""

    __slots__ = ("frame_size", "initial_window", "queue", "quick_limit", "ring", "window")

    def __init__(self) -> None:
        self.queue: list[Buffer] = []  # whole frames to send as soon as possible
        self.ring: deque[Stream] = deque()  # streams with waiting data and an open window
        self.window = frames.DEFAULT_WINDOW
        self.initial_window = frames.DEFAULT_WINDOW
        self.frame_size = frames.LEAST_FRAME_SIZE
        # Bytes of a body that may use prepared frames; none at first: see _start_slowly.
        self.quick_limit = -1

    def start(self, stream_id: int, token: Any, keep: bool, request: Http2Request) -> Stream:
        """Open a stream and queue its first frames, or all of them."""
        size = request.quick_size
        if size <= self.quick_limit and size <= self.window:
            self.window -= size
            self.queue.append(patch(request, stream_id))
            return Stream(stream_id, token, keep, self.initial_window - size, request.ends)
        stream = Stream(stream_id, token, keep, self.initial_window, request.ends)
        self._start_slowly(stream, request)
        return stream

    def _start_slowly(self, stream: Stream, request: Http2Request) -> None:
        block = request.block
        if self.quick_limit < 0:  # the first block of a connection shrinks the table (headers.py)
            block = SHRINK + block
            self.quick_limit = self.initial_window
        ends = request.ends and not request.body
        self.queue += frames.header_frames(stream.id, block, ends=ends, largest=self.frame_size)
        self._wait(stream, request.body)

    def send(self, stream: Stream, body: Buffer | tuple[Buffer, ...], *, ends: bool) -> None:
        """Queue more of an unfinished request."""
        stream.ends = ends
        self._wait(stream, _parts(body))
        if ends and not stream.waiting:
            self.queue.append(frames.frame(DATA, END_STREAM, stream.id))

    def drop(self, stream: Stream) -> None:
        """Discard the stream's pending data."""
        stream.waiting = None
        if stream.ringed:
            stream.ringed = False
            self.ring.remove(stream)

    def take(self, limit: int) -> list[Buffer]:
        """Return the queue and about `limit` bytes of waiting data."""
        if self.ring:
            self._turn(limit)
        queue, self.queue = self.queue, []
        return queue

    def _wait(self, stream: Stream, parts: Iterable[Buffer]) -> None:
        waiting = [memoryview(part) for part in parts]
        if not waiting:
            return
        if stream.waiting is None:
            stream.waiting = deque()
        stream.waiting += waiting
        self._enter_ring(stream)

    def _enter_ring(self, stream: Stream) -> None:
        if stream.waiting and stream.window > 0 and not stream.ringed:
            stream.ringed = True
            self.ring.append(stream)

    def _turn(self, limit: int) -> None:
        ring = self.ring
        while ring and self.window > 0 and limit > 0:
            stream = ring.popleft()
            stream.ringed = False
            if stream.waiting and stream.window > 0:
                limit -= self._send_frame(stream, stream.waiting)
                self._enter_ring(stream)

    def _send_frame(self, stream: Stream, waiting: deque[memoryview]) -> int:
        """Queue one DATA frame, in as many parts as necessary; return its size."""
        room = size = min(self.frame_size, QUANTUM, stream.window, self.window)
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
        stream.sent += size
        self.window -= size
        end = END_STREAM if stream.ends and not waiting else 0
        self.queue.append(frame_head(size, DATA, end, stream.id))
        self.queue += parts
        return size

    # --- the server's windows

    def allow(self, increment: int) -> None:
        """Handle a WINDOW_UPDATE of the connection."""
        if not increment:
            raise Fault("a WINDOW_UPDATE frame has an increment of 0")
        self.window += increment
        if self.window > frames.LARGEST_WINDOW:
            raise Fault("the connection's window was raised above 2^31-1", frames.FLOW_CONTROL_ERROR)

    def allow_stream(self, stream: Stream, increment: int) -> None:
        """Handle a WINDOW_UPDATE of one stream."""
        stream.window += increment
        self._enter_ring(stream)

    def allow_all(self, initial: int, streams: Iterable[Stream]) -> None:
        """Apply a new INITIAL_WINDOW_SIZE, also to open streams."""
        change = initial - self.initial_window
        self.initial_window = initial
        if self.quick_limit >= 0:
            self.quick_limit = initial
        for stream in streams:
            if stream.window + change > frames.LARGEST_WINDOW:
                text = f"the new INITIAL_WINDOW_SIZE raises the window of stream {stream.id} above 2^31-1"
                raise Fault(text, frames.FLOW_CONTROL_ERROR)
            self.allow_stream(stream, change)
