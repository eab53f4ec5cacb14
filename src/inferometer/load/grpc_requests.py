"""gRPC requests in wire format: rendered before the load, with unique IDs, or generated while it runs."""

from collections.abc import Sequence
from itertools import count

from inferometer.load.link import Request
from inferometer.services.kserve import REQUEST_ID
from inferometer.services.traffic import Wiring
from inferometer.wire.grpc import render_call
from inferometer.wire.protobuf import string_field
from inferometer.wire.sender import Http2Request, render


def rendered_calls(wiring: Wiring, messages: Sequence[Request]) -> list[Http2Request | Request]:
    """Render complete calls, or only the messages for streams."""
    if wiring.is_streaming:
        return list(messages)
    if wiring.is_whole_calls:
        return [render(wiring.block, (message,)) for message in messages]
    return [render_call(wiring.block, message, compression=wiring.compression) for message in messages]


class NumberedCalls:
    """Unary calls with a different ID each, like asynchronous calls of the classic tool.

    The ID is a field at the end of the message, so requests with IDs of equal length differ in nothing else."""

    def __init__(self, block: bytes, messages: Sequence[Request], first: int) -> None:
        self._block = self._usual = block
        self._messages = messages
        self._numbers = count(first)
        self._made: dict[tuple[int, int], Http2Request] = {}  # by step and length of the ID
        self._usual_made = self._made

    def __getitem__(self, step: int) -> Http2Request:
        name = b"%d" % next(self._numbers)
        made = self._made.get((step, len(name)))
        if made is None:
            made = self._made[step, len(name)] = self._rendered(step, string_field(REQUEST_ID, name.decode()))
        if not made.frames:
            return self._rendered(step, string_field(REQUEST_ID, name.decode()))
        whole = bytearray(made.frames)
        whole[-len(name) :] = name
        body = memoryview(whole)[len(whole) - made.quick_size :]
        return Http2Request(made.block, (body,), made.ends, whole, made.second, made.quick_size)

    def use(self, block: bytes) -> None:
        """Send further calls with this header block."""
        if block == self._usual:
            self._block, self._made = block, self._usual_made
        else:
            self._block, self._made = block, {}

    def marked(self, step: int, mark: bytes) -> Http2Request:
        """Return the call with fields that mark it as part of a sequence."""
        return self._rendered(step, mark + string_field(REQUEST_ID, str(next(self._numbers))))

    def _rendered(self, step: int, tail: bytes) -> Http2Request:
        return render_parts(self._block, self._messages[step], tail)


def render_parts(block: bytes, message: Request, tail: bytes) -> Http2Request:
    """Render a call whose message has fields appended, without copying a large message."""
    return render(block, (b"\0" + (len(message) + len(tail)).to_bytes(4, "big"), message, tail))


class MadeCalls:
    """Unary calls whose messages are generated while the load runs."""

    def __init__(self, wiring: Wiring, messages: Sequence[Request]) -> None:
        self._wiring = wiring
        self._messages = messages

    def __getitem__(self, step: int) -> Http2Request:
        return render_call(self._wiring.block, self._messages[step], compression=self._wiring.compression)
