"""Plain gRPC calls: what a load test makes by the ten thousand, answered and followed in one function.

A unary call whose reply is only counted is **plain** while nothing but its usual reply can be said about it: it went
out whole, as bytes made beforehand, and is known by the four bytes of its stream's id. When its reply is like the one
before (wire/usual.py) it is counted, and the next call of its slot takes its place. Whatever else happens on the
connection is read in the general way (wire/http2.py), for which plain calls are unfolded: they become streams.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from inferometer.load.engine import Turn
from inferometer.wire.frames import LARGEST_STREAM_ID, LARGEST_WINDOW, Buffer
from inferometer.wire.http2 import Http2Connection
from inferometer.wire.sender import Request, Stream, pack_id

number = int.from_bytes


class Caller(Protocol):
    """What a slot is doing, as far as it matters here."""

    slot: int
    request: Any
    stream: Stream | None
    sent_ns: int
    wrote_ns: int


class PlainCalls:
    """Those of one connection; frames that they cause are put into its queue, and they into `unwritten`."""

    __slots__ = ("_http2", "_requests", "_sender", "_turn", "_unwritten", "late")

    def __init__(
        self, http2: Http2Connection, requests: Sequence[Request], turn: Turn, unwritten: list[Any]
    ) -> None:
        self.late: list[Any] = []  # calls that found no place in exchange()
        self._http2 = http2
        self._sender = http2.sender
        self._requests = requests
        self._turn = turn
        self._unwritten = unwritten

    def open(self, call: Caller, request: Request) -> bool:
        """Start the call, if all of it can be queued at once."""
        http2, sender = self._http2, self._sender
        size, stream_id = request.quick_size, http2.next_id
        has_room = size <= sender.quick_limit and size <= sender.window and http2.can_open
        if not has_room or stream_id >= LARGEST_STREAM_ID:
            return False
        http2.next_id = stream_id + 2
        name = pack_id(stream_id)
        sender.window -= size
        sender.queue.append(name.join(request.pieces))
        http2.plain[name] = call
        call.request = request
        self._unwritten.append(call)
        return True

    def exchange(self, data: Buffer, length: int, now_ns: int) -> int:
        """Take usual replies, as long as data[:length] has nothing else, each with the call that follows it.

        Returns how far it came. It does what open() does, and much of HTTP/2, without calling them: between two
        replies the server has had the caches, and each further function is one more place that is not in them."""
        http2, sender = self._http2, self._sender
        plain = http2.plain
        at = 0
        while (found := http2.match(data, at, length)) is not None:
            name, update = found.groups()
            call = plain.get(name)
            unreturned = http2.unreturned + http2.usual.content
            window = sender.window if update is None else sender.window + number(update)
            if unreturned * 2 >= http2.our_window or window > LARGEST_WINDOW:
                break
            if call is not None:
                del plain[name]
            elif (stream := http2.streams.get(number(name))) is not None and stream.is_plain:
                call = stream.token
                del http2.streams[stream.id]
            else:
                break
            http2.unreturned = unreturned
            sender.window = window
            at = found.end()
            call.request = call.stream = None
            step, due = self._turn(call.slot, call.sent_ns, call.wrote_ns, now_ns, http2.usual.received)
            if step >= 0:
                call.request = request = self._requests[step]
                call.sent_ns = due
                call.wrote_ns = 0
                size, stream_id = request.quick_size, http2.next_id
                window = sender.window - size
                is_full = (
                    size > sender.quick_limit or window < 0 or len(plain) + len(http2.streams) >= http2.limit
                )
                if is_full or stream_id >= LARGEST_STREAM_ID:
                    self.late.append(call)
                else:
                    http2.next_id = stream_id + 2
                    name = pack_id(stream_id)
                    sender.window = window
                    sender.queue.append(name.join(request.pieces))
                    plain[name] = call
                    self._unwritten.append(call)
            if at == length:
                break
        return at

    def unfold(self) -> None:
        """Make streams of them."""
        http2 = self._http2
        for name, call in http2.plain.items():
            window = self._sender.initial_window - call.request.quick_size
            call.stream = stream = Stream(number(name), call, False, window, True)
            stream.is_plain = True
            http2.streams[stream.id] = stream
        http2.plain.clear()
