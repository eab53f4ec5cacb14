"""Http2Request ids, as asynchronous calls of the classic tool carry them: every request another number.

Of a step's request all but the id is made beforehand. Each time it is asked for it comes with the next id; only where
ids are asked for, so other requests cost nothing more.
"""

from collections.abc import Sequence
from itertools import count
from typing import Protocol, TypeVar

from inferometer.services.kserve import ID_PLACE, REQUEST_ID
from inferometer.wire.protobuf import string_field
from inferometer.wire.sender import Http2Request, render

_WIDTH = len(ID_PLACE)
_Request_co = TypeVar("_Request_co", covariant=True)


class Steps(Protocol[_Request_co]):
    """The request of a step, as it is to be sent this time."""

    def __getitem__(self, step: int, /) -> _Request_co: ...


class NumberedRequests:
    """Over HTTP. Requests too large to be copied each time, which lie in shared memory, keep the empty id."""

    def __init__(self, requests: Sequence[bytes | memoryview], first: int) -> None:
        self._numbers = count(first)
        self._parts = [
            (request, b"") if isinstance(request, memoryview) else request.split(ID_PLACE, 1)
            for request in requests
        ]

    def __getitem__(self, step: int) -> bytes | memoryview:
        before, after = self._parts[step]
        if not after:
            return before
        return b"".join((before, (b'"%d"' % next(self._numbers)).ljust(_WIDTH), after))


class NumberedCalls:
    """Over gRPC, unary: the id is a field at the end of the message, so requests with ids of one length are alike."""

    def __init__(self, block: bytes, messages: Sequence[bytes | memoryview], first: int) -> None:
        self._block = block
        self._messages = messages
        self._numbers = count(first)
        self._made: dict[tuple[int, int], Http2Request] = {}  # by step and length of the id

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

    def marked(self, step: int, mark: bytes) -> Http2Request:
        """With fields that mark it as part of a sequence."""
        return self._rendered(step, mark + string_field(REQUEST_ID, str(next(self._numbers))))

    def _rendered(self, step: int, tail: bytes) -> Http2Request:
        message = self._messages[step]
        prefix = b"\0" + (len(message) + len(tail)).to_bytes(4, "big")
        return render(self._block, (prefix, message, tail))
