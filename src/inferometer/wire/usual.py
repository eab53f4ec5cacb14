"""The reply that comes again and again: known whole, by one look instead of three frames.

A reply has the frames HEADERS, DATA and HEADERS. Of one that came before, everything is known but the stream id,
which must be the same in all three, and what the body says behind its opening. Servers often let a WINDOW_UPDATE
of the connection follow, which is as easily known.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from typing import Any

from inferometer.wire.frames import DATA, FRAME_HEAD, WINDOW_UPDATE, Buffer, frame_head

UPDATE = frame_head(4, WINDOW_UPDATE, 0, 0)
UPDATE_SIZE = FRAME_HEAD + 4
unpack_update = Struct(f">{FRAME_HEAD}sL").unpack_from
"""(UPDATE, the increment), if it is a WINDOW_UPDATE of the connection."""

_NEVER = 1 << 62  # more bytes than ever come


@dataclass(frozen=True, slots=True)
class UsualReply:
    """How to know the reply: `unpack` gives the stream ids of its frames and what must be `constants`, in turns."""

    size: int  # bytes of all its frames
    content: int  # bytes of its body
    unpack: Callable[[Buffer, int], tuple[Any, ...]]
    constants: tuple[bytes, ...]


UNKNOWN_REPLY = UsualReply(_NEVER, 0, Struct("").unpack_from, ())

Pieces = tuple[bytes, bytes]
"""A HEADERS frame, cut around the stream id."""


@lru_cache(256)
def usual_reply(head: Pieces, size: int, opening: bytes, trailers: Pieces) -> UsualReply:
    """Of a reply with this head, a body of `size` bytes that begins with `opening`, and these trailers."""
    first, block = head
    last, end = trailers
    middle = block + frame_head(size, DATA, 0, 0)[:5]
    whole = Struct(
        f">{len(first)}sL{len(middle)}sL{len(opening)}s{size - len(opening)}x{len(last)}sL{len(end)}s"
    )
    return UsualReply(whole.size, size, whole.unpack_from, (first, middle, opening, last, end))
