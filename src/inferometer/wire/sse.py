"""Server-sent events (WHATWG HTML, 9.2): the bytes of a text/event-stream body in, events out. No socket, no clock.

A line ends with LF, CR or CRLF; an empty line ends an event, and half an event at the end of the stream is dropped.
Lines that begin with a colon are comments, which keep connections alive. A byte order mark may stand at the very
beginning. Reconnection (`id`, `retry`) is not for us.
"""

from typing import NamedTuple

from inferometer.base.errors import PeerError

EVENT_LIMIT = 16 * 1024 * 1024  # of the bytes of one event
_MARK = b"\xef\xbb\xbf"


class Event(NamedTuple):
    """One event: its `data` lines joined by LF, and its type (empty for the usual one)."""

    data: bytes
    name: bytes = b""


class SseDecoder:
    """Body bytes in, events out. Feed it any split of the stream; the events are the same."""

    __slots__ = ("_data", "_is_begun", "_name", "_pending", "_size", "_skips_lf")

    def __init__(self) -> None:
        self._pending = b""  # a line that has not ended yet
        self._data: list[bytes] = []
        self._name = b""
        self._size = 0  # of the event so far
        self._is_begun = False
        self._skips_lf = False  # the last line ended with the CR of what may be a CRLF

    @property
    def is_between(self) -> bool:
        """Whether whatever comes next begins a new event."""
        return self._is_begun and not (
            self._pending or self._size or self._data or self._name or self._skips_lf
        )

    def receive(self, data: bytes) -> list[Event]:
        """The events that are whole now."""
        if not data:
            return []
        if self._skips_lf:
            self._skips_lf = False
            data = data.removeprefix(b"\n")
        text = self._pending + data if self._pending else data
        if not self._is_begun:
            if len(text) < len(_MARK) and _MARK.startswith(text):
                self._pending = text
                return []
            self._is_begun = True
            text = text.removeprefix(_MARK)
        if b"\r" in text:
            self._skips_lf = text.endswith(b"\r")
            text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, self._pending = text.split(b"\n")
        events: list[Event] = []
        for line in lines:
            if line:
                self._take(line)
            else:
                self._dispatch(events)
        self._check_size(len(self._pending))
        return events

    def _take(self, line: bytes) -> None:
        self._size += len(line)
        self._check_size(0)
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
        elif field == b"event":
            self._name = value.removeprefix(b" ")

    def _dispatch(self, events: list[Event]) -> None:
        if self._data:  # one without data is none
            events.append(Event(b"\n".join(self._data), self._name))
            self._data = []
        self._name = b""
        self._size = 0

    def _check_size(self, more: int) -> None:
        if self._size + more > EVENT_LIMIT:
            raise PeerError(f"an event of the stream is longer than {EVENT_LIMIT} bytes")
