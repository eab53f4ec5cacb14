"""Decoder of server-sent events (WHATWG HTML, 9.2) in a text/event-stream body. No socket, no clock.

A line ends with LF, CR or CRLF; an empty line ends an event, and an unfinished event at the end of the stream is
dropped: `rest` returns it.
Lines that begin with a colon are comments, which keep connections alive. A byte order mark is allowed at the very
beginning. Reconnection (`id`, `retry`) is ignored.

The work is linear in the number of bytes, however they are split, and an event of more than EVENT_LIMIT bytes is
refused: blank lines, an endless line, or individual bytes do not cost more than their share of time and memory.
"""

import re
from typing import NamedTuple

from inferometer.base.errors import PeerError

EVENT_LIMIT = 16 * 1024 * 1024  # bytes of one event
_MARK = b"\xef\xbb\xbf"
_EVENT_END = re.compile(rb"\n\n(?:(?::[^\n]*+)?\n)*+")


class Event(NamedTuple):
    """One event: its `data` lines joined by LF, and its type (empty for the default)."""

    data: bytes
    name: bytes = b""


class SseDecoder:
    """Decoder of events. The result does not depend on how the stream is split."""

    __slots__ = ("_data", "_is_begun", "_name", "_pending", "_size", "_skips_lf", "is_between")

    def __init__(self) -> None:
        self._pending = bytearray()  # an incomplete line
        self._data: list[bytes] = []
        self._name = b""
        self._size = 0  # size of the event so far
        self._is_begun = False
        self.is_between = False  # started, and nothing received since the last event
        self._skips_lf = False  # the last line ended with a CR that may be part of a CRLF

    def receive(self, data: bytes) -> list[Event]:
        """Return the events completed by this piece."""
        if (  # the usual piece: one whole event of one line
            self.is_between
            and data.startswith(b"data: ")
            and data.find(b"\n") == len(data) - 2
            and data.endswith(b"\n")
            and b"\r" not in data
        ):
            return [Event(data[6:-2])]
        if not data:
            return []
        self.is_between = False
        if self._skips_lf:
            self._skips_lf = False
            data = data.removeprefix(b"\n")
        if not self._is_begun:
            data = self._joined(data)
            if len(data) < len(_MARK) and _MARK.startswith(data):
                self._hold(data)
                return []
            self._is_begun = True
            data = data.removeprefix(_MARK)
        if b"\r" in data:
            self._skips_lf = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" not in data:  # split a long line once, not with each piece
            self._hold(data)
            return []
        *lines, rest = self._joined(data).split(b"\n")
        events: list[Event] = []
        for line in lines:
            if line:
                self._take(line)
            else:
                self._dispatch(events)
        self.is_between = not (rest or self._size or self._skips_lf)
        self._hold(rest)
        return events

    def rest(self) -> Event | None:
        """Return the rest when the stream has ended: a partial event, or one without its final empty line."""
        if self._pending:
            self._take(self._joined(b""))
        return Event(b"\n".join(self._data), self._name) if self._data else None

    @staticmethod
    def event_end(data: bytes, at: int) -> int:
        """Return where the event at `at` ends, including all empty lines and comments after it; the end of the data if
        none ends."""
        found = _EVENT_END.search(data, at)
        return len(data) if found is None else found.end()

    @staticmethod
    def framed(event: Event) -> bytes:
        """Encode an event of one line of data in its usual layout."""
        name = b"event: " + event.name + b"\n" if event.name else b""
        return name + b"data: " + event.data + b"\n\n"

    def _joined(self, data: bytes) -> bytes:
        """Return the pending bytes followed by this piece."""
        if not self._pending:
            return data
        self._pending += data
        whole = bytes(self._pending)
        self._pending = bytearray()
        return whole

    def _hold(self, data: bytes) -> None:
        if data:
            self._pending += data
            self._check_size(len(self._pending))

    def _take(self, line: bytes) -> None:
        self._size += len(line)
        self._check_size(0)
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
        elif field == b"event":
            self._name = value.removeprefix(b" ")

    def _dispatch(self, events: list[Event]) -> None:
        if self._data:  # an event without data is ignored
            events.append(Event(b"\n".join(self._data), self._name))
            self._data = []
        self._name = b""
        self._size = 0

    def _check_size(self, more: int) -> None:
        if self._size + more > EVENT_LIMIT:
            raise PeerError(f"an event of the stream is longer than {EVENT_LIMIT} bytes")
