"""The reply that comes again and again, as a pattern: one comparison instead of three frames.

A reply has the frames HEADERS, DATA and HEADERS. Of one that came before, everything is known but the stream id,
which must be the same in all three, and what the body says behind its opening. Servers often let a WINDOW_UPDATE
of the connection follow; the pattern takes it along. Group 1 is the id, group 2 the increment, if there is one.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from inferometer.wire import frames
from inferometer.wire.frames import DATA, FRAME_HEAD, Buffer, frame_head

Match = Callable[[Buffer, int, int], "re.Match[bytes] | None"]

# Neither 0 nor above 2^31-1: those are left to the general way, which knows what is wrong with them.
_INCREMENT = rb"(?!\0{4})[\0-\x7f].{3}"


def match_nothing(data: Buffer, at: int, length: int) -> "re.Match[bytes] | None":
    """No reply is usual yet."""
    return None


@dataclass(frozen=True, slots=True)
class UsualReply:
    """How to know the reply, and what it counts for."""

    match: Match
    received: int  # bytes of all its frames
    content: int  # bytes of its body


UNKNOWN_REPLY = UsualReply(match_nothing, 0, 0)

Pieces = tuple[bytes, bytes]
"""A HEADERS frame, cut around the stream id."""


@lru_cache(256)
def usual_reply(head: Pieces, size: int, opening: bytes, trailers: Pieces) -> UsualReply:
    """Of a reply with this head, a body of `size` bytes that begins with `opening`, and these trailers."""
    body_head = frame_head(size, DATA, 0, 0)[:5]
    update = frame_head(4, frames.WINDOW_UPDATE, 0, 0)
    first, block = map(re.escape, head)
    last, end = map(re.escape, trailers)
    pattern = b"".join(
        (
            first + rb"([\0-\x7f].{3})" + block,
            re.escape(body_head) + rb"\1" + re.escape(opening) + b".{%d}" % (size - len(opening)),
            last + rb"\1" + end,
            b"(?:" + re.escape(update) + b"(" + _INCREMENT + b"))?",
        )
    )
    received = sum(map(len, (*head, *trailers))) + 2 * 4 + FRAME_HEAD + size
    return UsualReply(re.compile(pattern, re.DOTALL).match, received, size)
