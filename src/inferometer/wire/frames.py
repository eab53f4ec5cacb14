"""HTTP/2 frames (RFC 9113 4 and 6): names, encoding of client frames, recognition of a complete reply.

+-----------+------+-------+---+-----------+
| size (24) | kind | flags | R | stream 31 |   then `size` bytes of payload
+-----------+------+-------+---+-----------+
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from struct import Struct, pack, unpack_from
from typing import Any

from inferometer.base.errors import PeerError

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    range(10)
)
KINDS = (
    "DATA", "HEADERS", "PRIORITY", "RST_STREAM", "SETTINGS", "PUSH_PROMISE",
    "PING", "GOAWAY", "WINDOW_UPDATE", "CONTINUATION",
)  # fmt: skip

END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
PRIORITISED = 0x20

(
    HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE,
) = range(1, 7)  # fmt: skip

ERRORS = (
    "NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT",
    "STREAM_CLOSED", "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR",
    "CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
)  # fmt: skip
(
    NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR, SETTINGS_TIMEOUT,
    STREAM_CLOSED, FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL, COMPRESSION_ERROR,
    CONNECT_ERROR, ENHANCE_YOUR_CALM, INADEQUATE_SECURITY, HTTP_1_1_REQUIRED,
) = range(14)  # fmt: skip

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_HEAD = 9
LEAST_FRAME_SIZE = 16 * 1024  # accepted by every peer
LARGEST_FRAME_SIZE = 2**24 - 1
DEFAULT_WINDOW = 65_535
LARGEST_WINDOW = 2**31 - 1
LARGEST_STREAM_ID = 2**31 - 1

Buffer = bytes | bytearray | memoryview

_HEAD = Struct(">BHBBL")
unpack_head: Callable[[Buffer, int], tuple[int, int, int, int, int]] = _HEAD.unpack_from
"""(size >> 16, size & 0xffff, kind, flags, reserved bit and stream)."""


class Fault(PeerError):
    """Error of the peer that ends the connection; the code goes into the client's GOAWAY."""

    def __init__(self, message: str, code: int = PROTOCOL_ERROR) -> None:
        super().__init__(message)
        self.code = code


def name_of_kind(kind: int) -> str:
    return f"{KINDS[kind]} frame" if kind < len(KINDS) else f"frame of unknown type {kind}"


def name_of_error(code: int) -> str:
    return ERRORS[code] if code < len(ERRORS) else f"error {code:#x}"


def frame_head(size: int, kind: int, flags: int, stream_id: int) -> bytes:
    return _HEAD.pack(size >> 16, size & 0xFFFF, kind, flags, stream_id)


def frame(kind: int, flags: int, stream_id: int, payload: Buffer = b"") -> bytes:
    return frame_head(len(payload), kind, flags, stream_id) + payload


def settings(values: dict[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(pack(">HL", name, value) for name, value in values.items()))


def rst_stream(stream_id: int, code: int) -> bytes:
    return frame(RST_STREAM, 0, stream_id, pack(">L", code))


def window_update(stream_id: int, increment: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream_id, pack(">L", increment))


def goaway(last_stream_id: int, code: int, text: str = "") -> bytes:
    return frame(GOAWAY, 0, 0, pack(">LL", last_stream_id, code) + text.encode("utf-8", "replace"))


def header_frames(stream_id: int, block: bytes, *, ends: bool, largest: int) -> Iterator[bytes]:
    """Yield one HEADERS frame and as many CONTINUATION frames as the peer's frame size requires."""
    kind, flags = HEADERS, END_STREAM if ends else 0
    while len(block) > largest:
        yield frame(kind, flags, stream_id, block[:largest])
        kind, flags, block = CONTINUATION, 0, block[largest:]
    yield frame(kind, flags | END_HEADERS, stream_id, block)


def parse_settings(payload: Buffer) -> list[tuple[int, int]]:
    """Return names and values in the order in which they were sent and apply."""
    if len(payload) % 6:
        raise Fault(
            f"a SETTINGS frame has {len(payload)} bytes, which is not a multiple of 6", FRAME_SIZE_ERROR
        )
    found = [unpack_from(">HL", payload, at) for at in range(0, len(payload), 6)]
    for name, value in found:
        _check_setting(name, value)
    return found


def _check_setting(name: int, value: int) -> None:
    if name == ENABLE_PUSH and value:
        raise Fault(f"the server set ENABLE_PUSH to {value}, but a server may only set it to 0")
    if name == INITIAL_WINDOW_SIZE and value > LARGEST_WINDOW:
        raise Fault(
            f"the server set INITIAL_WINDOW_SIZE to {value}, which exceeds 2^31-1", FLOW_CONTROL_ERROR
        )
    if name == MAX_FRAME_SIZE and not LEAST_FRAME_SIZE <= value <= LARGEST_FRAME_SIZE:
        raise Fault(f"the server set MAX_FRAME_SIZE to {value}, which is outside 2^14 to 2^24-1")


def check_size(kind: int, wanted: int, size: int) -> None:
    if size != wanted:
        raise Fault(f"a {name_of_kind(kind)} has {size} bytes instead of {wanted}", FRAME_SIZE_ERROR)


def check_connection(kind: int, stream_id: int) -> None:
    if stream_id:
        raise Fault(f"a {name_of_kind(kind)} arrived on stream {stream_id} instead of stream 0")


def padding_of(data: Buffer, start: int, stop: int) -> int:
    if start == stop:
        raise Fault("a padded frame is empty", FRAME_SIZE_ERROR)
    padding = data[start]
    if padding >= stop - start:
        raise Fault(f"a frame of {stop - start} bytes has {padding} bytes of padding")
    return padding


def strip(flags: int, data: Buffer, start: int, stop: int) -> tuple[int, int]:
    """Return the bounds of a HEADERS frame without its padding and priority."""
    if flags & PADDED:
        padding = padding_of(data, start, stop)
        start, stop = start + 1, stop - padding
    if flags & PRIORITISED:
        start += 5
    if start > stop:
        raise Fault("a HEADERS frame is too short for its priority", FRAME_SIZE_ERROR)
    return start, stop


# --- the usual reply: recognised by one comparison instead of three frames
#
# A reply has the frames HEADERS, DATA and HEADERS. If it repeats an earlier reply, everything is known except the
# stream ID, which must be the same in all three, and the body after its opening. Servers often append a WINDOW_UPDATE
# of the connection, which is as easily recognised.

UPDATE = frame_head(4, WINDOW_UPDATE, 0, 0)
UPDATE_SIZE = FRAME_HEAD + 4
unpack_update = Struct(f">{FRAME_HEAD}sL").unpack_from
"""(UPDATE, the increment), if it is a WINDOW_UPDATE of the connection."""

_NEVER = 1 << 62  # more bytes than can arrive


class UsualReply:
    """Pattern of a reply: `unpack` returns, alternately, the stream IDs of its frames and bytes that must equal
    `constants`."""

    __slots__ = ("constants", "content", "size", "unpack")

    def __init__(
        self,
        size: int,
        content: int,
        unpack: Callable[[Buffer, int], tuple[Any, ...]],
        constants: tuple[bytes, ...],
    ) -> None:
        self.size = size  # bytes of all its frames
        self.content = content  # bytes of its body
        self.unpack = unpack
        self.constants = constants


UNKNOWN_REPLY = UsualReply(_NEVER, 0, Struct("").unpack_from, ())

Pieces = tuple[bytes, bytes]
"""A HEADERS frame, split around the stream ID."""


@lru_cache(256)
def usual_reply(head: Pieces, size: int, opening: bytes, trailers: Pieces) -> UsualReply:
    """Return the pattern of a reply with this head, a body of `size` bytes that begins with `opening`, and these
    trailers."""
    first, block = head
    last, end = trailers
    middle = block + frame_head(size, DATA, 0, 0)[:5]
    whole = Struct(
        f">{len(first)}sL{len(middle)}sL{len(opening)}s{size - len(opening)}x{len(last)}sL{len(end)}s"
    )
    return UsualReply(whole.size, size, whole.unpack_from, (first, middle, opening, last, end))
