"""Decoder of streams of lines, each a JSON document (NDJSON, JSON lines). No socket, no clock.

A line ends with LF or CRLF; empty lines keep connections alive. The work is linear in the number of bytes, however they
are split, and a line of more than EVENT_LIMIT bytes is refused.
"""

from inferometer.base.errors import PeerError
from inferometer.wire.sse import EVENT_LIMIT, Event


class LineDecoder:
    """Decoder of lines, with the interface of `SseDecoder`. The result does not depend on how the stream is split."""

    __slots__ = ("_pending", "is_between")

    def __init__(self) -> None:
        self._pending = bytearray()  # an incomplete line
        self.is_between = True  # nothing received since the last line

    def receive(self, data: bytes) -> list[Event]:
        """Return the lines completed by this piece."""
        if b"\n" not in data:  # join a long line once, not with each piece
            self._hold(data)
            return []
        if self._pending:
            self._pending += data
            data, self._pending = bytes(self._pending), bytearray()
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._check_size(len(line))
        self._hold(rest)
        return [Event(line) for line in map(bytes.strip, lines) if line]

    def rest(self) -> Event | None:
        """Return the rest when the stream has ended: a partial line, or one without its end."""
        line = bytes(self._pending).strip()
        return Event(line) if line else None

    @staticmethod
    def event_end(data: bytes, at: int) -> int:
        """Return where the line at `at` ends; the end of the data if it does not."""
        return data.find(b"\n", at) + 1 or len(data)

    @staticmethod
    def framed(event: Event) -> bytes:
        """Encode a line as it is sent."""
        return event.data + b"\n"

    def _hold(self, rest: bytes) -> None:
        self._pending += rest
        self.is_between = not self._pending
        self._check_size(len(self._pending))

    def _check_size(self, size: int) -> None:
        if size > EVENT_LIMIT:
            raise PeerError(f"a line of the stream is longer than {EVENT_LIMIT} bytes")
