"""Complete requests for the export: each worker appends finished requests to its own file.

An entry is a head of eight 64-bit integers (`SpoolHead`), then three for each response (arrival time, length of its
JSON part or -1, size), then the bytes of the responses. The file has no name, so it disappears in any case; its content
survives the death of the worker. An entry truncated by such a death is the last one, and is not read.
"""

import os
from collections.abc import Callable, Iterator
from struct import Struct
from typing import BinaryIO, NamedTuple

_HEAD = Struct("<8q")
_RESPONSE = Struct("<3q")
_TIME = Struct("<q")
_FULL = 1 << 20  # bytes written at a time

Buffer = bytes | bytearray | memoryview


class SpoolHead(NamedTuple):
    """Outcome of the request; times are `time.monotonic_ns`."""

    due_ns: int
    sent_ns: int
    end_ns: int
    status: int
    step: int
    sequence: int
    received: int
    responses: int  # number that follow


class Response(NamedTuple):
    """One response as received; `header_length` is that of an HTTP reply's JSON part, -1 if not given."""

    time_ns: int
    header_length: int
    body: bytes


class SpoolEntry(NamedTuple):
    """One request and its responses, with its position in the file."""

    offset: int
    head: SpoolHead
    responses: tuple[Response, ...]


class Spool:
    """Worker side: collects the responses of each slot's request, and writes them when it ends."""

    def __init__(self, fd: int) -> None:
        self.problem = ""  # why recording stopped; the load continues
        self._fd = fd
        self._live: dict[int, list[Response]] = {}
        self._buffer = bytearray()

    def begin(self, slot: int) -> None:
        self._live[slot] = []

    def respond(self, slot: int, time_ns: int, body: Buffer, header_length: int = -1) -> None:
        """Store a response with the time it was read from the socket.

        Responses from one read share its time; later ones get an additional nanosecond each, because readers of the
        export divide by the time between two responses.
        """
        if self.problem:
            return
        responses = self._live[slot]
        if responses and time_ns <= responses[-1].time_ns:
            time_ns = responses[-1].time_ns + 1
        responses.append(Response(time_ns, header_length, bytes(body)))

    def end(self, slot: int, head: SpoolHead) -> None:
        """Write the request of a slot; `head` does not count the responses yet."""
        if self.problem:
            return
        responses = self._live.pop(slot, [])
        buffer = self._buffer
        buffer += _HEAD.pack(*head._replace(responses=len(responses)))
        for time_ns, header_length, body in responses:
            buffer += _RESPONSE.pack(time_ns, header_length, len(body))
        for response in responses:
            buffer += response.body
        if len(buffer) >= _FULL:
            self.flush()

    def flush(self) -> None:
        rest = memoryview(self._buffer)
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError as error:
            self.problem = error.strerror or str(error)
            self._live.clear()
        self._buffer = bytearray()


def retimed(data: bytes, until_ns: int, change: Callable[[list[int]], list[int]]) -> tuple[bytes, bytes]:
    """Return the entries that ended by then with adjusted times, and the remaining bytes.

    The remainder has later entries and a possibly incomplete one. `change` receives all times at once.
    """
    taken, later = bytearray(), bytearray()
    times: list[int] = []
    places: list[int] = []  # of each time
    at = 0
    while (size := _entry_size(data, at)) is not None:
        head = SpoolHead(*_HEAD.unpack_from(data, at))
        if head.end_ns > until_ns:
            later += data[at : at + size]
        else:
            own = len(taken)
            rows = range(_HEAD.size, _HEAD.size + head.responses * _RESPONSE.size, _RESPONSE.size)
            offsets = [0, 8, 16, *rows]  # due, sent, end, then each response
            places += [own + offset for offset in offsets]
            times += [_TIME.unpack_from(data, at + offset)[0] for offset in offsets]
            taken += data[at : at + size]
        at += size
    for place, time_ns in zip(places, change(times), strict=True):
        _TIME.pack_into(taken, place, time_ns)
    return bytes(taken), bytes(later) + data[at:]


def _entry_size(data: bytes, at: int) -> int | None:
    """Return the size of an entry; None if it is incomplete."""
    table = at + _HEAD.size
    if table > len(data):
        return None
    responses = SpoolHead(*_HEAD.unpack_from(data, at)).responses
    end = table + responses * _RESPONSE.size
    if end > len(data):
        return None
    end += sum(size for _, _, size in _RESPONSE.iter_unpack(data[table:end]))
    return end - at if end <= len(data) else None


def read_spool(file: BinaryIO, offset: int = 0) -> Iterator[SpoolEntry]:
    """Yield the entries from `offset` on, in the order in which the requests ended."""
    file.seek(offset)
    while len(raw := file.read(_HEAD.size)) == _HEAD.size:
        head = SpoolHead(*_HEAD.unpack(raw))
        table = file.read(head.responses * _RESPONSE.size)
        if len(table) < head.responses * _RESPONSE.size:
            return
        rows = list(_RESPONSE.iter_unpack(table))
        responses = tuple(Response(time_ns, length, file.read(size)) for time_ns, length, size in rows)
        if any(len(response.body) < size for response, (_, _, size) in zip(responses, rows, strict=True)):
            return
        yield SpoolEntry(offset, head, responses)
        offset += _HEAD.size + len(table) + sum(size for _, _, size in rows)
