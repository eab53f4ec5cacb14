"""Bidirectional gRPC streams: each carries the requests of several slots, or those of a sequence.

A request on a stream has an id of its own, which its responses repeat: so each is matched with its request, and one to
a request that was cancelled is dropped. Requests go out in the order in which they were sent, so those of a sequence,
which keeps its stream, reach the server in order.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from inferometer.base.errors import PeerError
from inferometer.services.kserve import REQUEST_ID, StreamReply
from inferometer.services.traffic import Wiring
from inferometer.wire.grpc import GrpcConnection, frame_message
from inferometer.wire.protobuf import string_field
from inferometer.wire.sender import Stream, render

LONGEST_ID = 20  # digits


@dataclass(slots=True)
class SharedStream:
    """The stream with this number, on one channel; a channel that goes away takes its streams along."""

    number: int
    channel: Any
    stream: Stream | None = None  # None until there is a request for it
    first_id: int = 0
    calls: dict[bytes, Any] = field(default_factory=dict)  # outstanding, by request id, the oldest first
    _sent: int = 0  # requests
    _counted: int = 0  # bytes that came and belong to some request

    @property
    def next_id(self) -> int:
        return self.first_id + self._sent

    @property
    def is_over(self) -> bool:
        """It has ended, and its end is about to be reported; or its connection is closing."""
        has_ended = self.stream is not None and self.stream.id not in self.channel.http2.streams
        return has_ended or self.channel.is_leaving

    def send(
        self, call: Any, message: bytes | memoryview, connection: GrpcConnection, wiring: Wiring
    ) -> None:
        """One more request; the stream is opened for the first."""
        if self.stream is None:
            self.stream = connection.open(self, render(wiring.block, ends=False), keep=True)
            self._counted = 0
        name = str(self.next_id)
        self._sent += 1
        call.request_id = name.encode()
        self.calls[call.request_id] = call
        tail = string_field(REQUEST_ID, name)
        if wiring.compression is None:
            prefix = b"\0" + (len(message) + len(tail)).to_bytes(4, "big")
            connection.http2.send(self.stream, (prefix, message, tail))
        else:
            connection.http2.send(self.stream, frame_message(bytes(message) + tail, wiring.compression))

    def maybe_owner(self, reply: StreamReply) -> Any:
        """The call that the response is for; None when that was given up. PeerError for an id that was never sent."""
        name = reply.request_id
        if name in self.calls:
            return self.calls[name]
        is_number = name.isdigit() and len(name) <= LONGEST_ID
        if not name or (reply.error and not is_number):  # servers answer in order where they name no request
            return next(iter(self.calls.values()), None)
        if not is_number or not self.first_id <= int(name) < self.next_id:
            raise PeerError(f"a response has the id {name[:40]!r}, which no request on its stream had")
        return None

    def take_count(self) -> int:
        """Bytes that have come since the last time."""
        assert self.stream is not None
        before, self._counted = self._counted, self.stream.received
        return self._counted - before

    def forget(self, call: Any) -> None:
        self.calls.pop(call.request_id, None)

    def leave(self) -> list[Any]:
        """The stream is over: the calls that it did not answer."""
        left = list(self.calls.values())
        self.calls.clear()
        self.stream = None
        return left


ChannelOf = Callable[[int], Any]
"""(number of a stream) -> the channel it is to be on."""


class SharedStreams:
    """Those of one worker. At most `wiring.streams` of them, 0 is one for each that asks."""

    def __init__(self, wiring: Wiring, channel_of: ChannelOf) -> None:
        self._wiring = wiring
        self._limit = wiring.streams
        self._channel_of = channel_of
        self._streams: dict[int, SharedStream] = {}

    def of(self, lane: int) -> SharedStream:
        """The stream of this slot or sequence."""
        number = lane % self._limit if self._limit else lane
        found = self._streams.get(number)
        if found is None or found.is_over:
            first_id = self._wiring.first_id(number) if found is None else found.next_id
            found = self._streams[number] = SharedStream(number, self._channel_of(number), first_id=first_id)
        return found
