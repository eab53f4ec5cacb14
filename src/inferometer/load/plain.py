"""Plain gRPC calls, which a load test makes by the ten thousand: one function handles the reply and the next call.

A unary call whose reply is only counted is **plain** as long as only its usual reply is expected: it went out in one
piece, as prepared bytes, and is identified by its stream ID. If its reply is like the previous one (UsualReply in
wire/frames.py) it is counted, and the next call of its slot replaces it. Everything else on the connection is read in
the general way (wire/http2.py), for which plain calls are first converted to streams.

The rule: frames handled here leave the connection as if they had been read and sent one by one: tests/unit/load/
test_plain.py compares the two. So this module, and no other outside of wire, updates the state of an Http2Connection:

    next_reply             the usual reply, while the connection is between two frames; only read
    plain, streams         the reply ends the stream; the next call opens one
    limit                  of both together; only read
    next_id                two more for each call
    unreturned             plus the bytes of a reply; from `return_at` on http2.py takes over and returns them
    sender.window          plus what the server returns, minus the bytes of a call
    sender.quick_limit     the longest body that fits in one frame; only read
    sender.queue           takes the frames of calls, except for the one left to the caller (`only`)

A reply that exceeds one of these limits is not handled here, so only http2.py detects errors.
"""

from typing import Any, Protocol

from inferometer.load.link import NextStep
from inferometer.wire.frames import (
    LARGEST_STREAM_ID,
    LARGEST_WINDOW,
    UPDATE,
    UPDATE_SIZE,
    Buffer,
    unpack_update,
)
from inferometer.wire.http2 import Http2Connection
from inferometer.wire.sender import ID, Http2Request, Stream, patch, put_id


class Steps(Protocol):
    """Requests to send, by step."""

    def __getitem__(self, step: int, /) -> Http2Request: ...


class Caller(Protocol):
    """The state of a slot's call that is needed here."""

    slot: int
    request: Any
    stream: Stream | None
    sent_ns: int
    wrote_ns: int


class PlainCalls:
    """Plain calls of one connection; their frames go to its queue, and the calls to `unwritten`."""

    __slots__ = ("_http2", "_next_step", "_requests", "_sender", "_unwritten", "late", "only")

    def __init__(
        self, http2: Http2Connection, requests: Steps, next_step: NextStep, unwritten: list[Any]
    ) -> None:
        self.late: list[Any] = []  # calls that exchange() could not queue
        self.only: Any = None  # the call that exchange() left to its caller to send
        self._http2 = http2
        self._sender = http2.sender
        self._requests = requests
        self._next_step = next_step
        self._unwritten = unwritten

    def open(self, call: Caller, request: Http2Request) -> bool:
        """Start the call if all of it can be queued at once; return whether it was started."""
        http2, sender = self._http2, self._sender
        size, stream_id = request.quick_size, http2.next_id
        has_room = size <= sender.quick_limit and size <= sender.window and http2.can_open
        if not has_room or stream_id >= LARGEST_STREAM_ID:
            return False
        http2.next_id = stream_id + 2
        sender.window -= size
        sender.queue.append(patch(request, stream_id))
        http2.plain[stream_id] = call
        call.request = request
        self._unwritten.append(call)
        return True

    def exchange(self, data: Buffer, length: int, now_ns: int) -> int:
        """Take usual replies at the start of data[:length], each with the call that follows it.

        Return the end of the last one taken. If there was only one, the following call is not queued: it is `only`, and
        its caller sends its frames. The function inlines open() and much of HTTP/2: between two replies the server has
        used the caches, and each further function is one more cache miss."""
        http2, sender, next_step = self._http2, self._sender, self._next_step
        plain, usual = http2.plain, http2.next_reply
        unpack, size = usual.unpack, usual.size
        at, stop = 0, size
        while stop <= length:
            first, stream_id, middle, body_id, opening, last, end_id, end = unpack(data, at)
            if (first, middle, opening, last, end) != usual.constants or not stream_id == body_id == end_id:
                break
            window = sender.window
            if length - stop >= UPDATE_SIZE:
                kind, increment = unpack_update(data, stop)
                if kind == UPDATE:
                    window += increment
                    stop += UPDATE_SIZE
                    if not increment or window > LARGEST_WINDOW:
                        break
            unreturned = http2.unreturned + usual.content
            if unreturned >= http2.return_at:
                break
            call = plain.get(stream_id)
            if call is not None:
                del plain[stream_id]
            elif (stream := http2.streams.get(stream_id)) is not None and stream.is_plain:
                call = stream.token
                call.stream = None
                del http2.streams[stream_id]
            else:
                break
            http2.unreturned = unreturned
            sender.window = window
            call.request = None
            step, due = next_step(call.slot, call.sent_ns, call.wrote_ns, now_ns, size)
            if step >= 0:
                call.request = request = self._requests[step]
                call.sent_ns = due
                call.wrote_ns = 0
                body, stream_id = request.quick_size, http2.next_id
                if (
                    body > sender.quick_limit
                    or body > window
                    or len(plain) + len(http2.streams) >= http2.limit
                    or stream_id >= LARGEST_STREAM_ID
                ):
                    self.late.append(call)
                else:
                    http2.next_id = stream_id + 2
                    sender.window = window - body
                    plain[stream_id] = call
                    frames = request.frames
                    put_id(frames, ID, stream_id)
                    put_id(frames, request.second, stream_id)
                    if not at and stop == length:
                        self.only = call
                        return length
                    sender.queue.append(bytes(frames))
                    self._unwritten.append(call)
            at = stop
            stop += size
        return at

    def make_streams(self) -> None:
        """Convert the plain calls to streams."""
        http2 = self._http2
        for stream_id, call in http2.plain.items():
            window = self._sender.initial_window - call.request.quick_size
            call.stream = stream = Stream(stream_id, call, False, window, True)
            stream.is_plain = True
            http2.streams[stream_id] = stream
        http2.plain.clear()
