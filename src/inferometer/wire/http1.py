"""Client side of HTTP/1.1 (RFC 9112): encodes request heads, decodes replies. No socket, no clock.

A reply is read in steps, each of which consumes what it can of the available bytes:

    HEAD -> SIZED -----------------------------> DONE       Content-Length
         -> UNTIL_CLOSE ------------- eof() ---> DONE       no length at all
         -> CHUNK_SIZE -> CHUNK_DATA -> CHUNK_END -+
            ^   +-> TRAILERS -----------------> DONE        Transfer-Encoding: chunked
            +--------------------------------------+

A step that cannot continue leaves its bytes in `_pending` until more arrive. Only lines wait,
body bytes never do: they are counted and, on request, kept.

A load test receives the same few heads again and again. So a connection remembers its last one, and a reply of
the same size that begins with the same bytes takes only two comparisons. Other heads, and the lines of new
heads, are cached by their bytes, so that a new Date or request ID costs the parsing of one line.

Leniencies: a line may end with a bare LF (RFC 9112 2.2), and folded header lines are joined with a space
(as 5.2 requires of user agents). Replies to HEAD and CONNECT are not supported: the load generator sends neither.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

from inferometer.base.errors import PeerError, UsageError

CHUNKED = -1
UNTIL_CLOSE = -2

HEAD_LIMIT = 64 * 1024
CHUNK_LINE_LIMIT = 4 * 1024
TRAILERS_LIMIT = 64 * 1024
ERROR_BODY_LIMIT = 64 * 1024
LENGTH_LIMIT = 2**62
INTERIM_LIMIT = 100  # replies with a status below 200 before the real one

_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]++"
_NAME = re.compile(_TOKEN)
_PATH = re.compile(r"[!-~]+")
_STATUS_LINE = re.compile(rb"HTTP/1\.([0-9]) ([1-9][0-9][0-9])(?: ([^\r\n\0]*+))?\r?")
_FIELD = re.compile(rf"({_TOKEN}):[ \t]*+([^\r\n\0]*+)\r?")
_FOLD = re.compile(rb"\r?\n[ \t]++")
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*+(?:;[^\r\n\0]*+)?\r?\n")
_TRAILER = re.compile(rf"(?:{_TOKEN}:|[ \t])[^\r\n\0]*+\r?\n".encode())
_PREFIX = b"HTTP/1."
_FRAMING = frozenset({"content-length", "transfer-encoding", "connection"})


def encode_request(
    method: str, path: str, headers: Iterable[tuple[str, str]], body_length: int | None
) -> bytes:
    """Encode the head of a request; a body length, if given, becomes its Content-Length."""
    if _NAME.fullmatch(method) is None:
        raise UsageError(f"{method!r} is not an HTTP method")
    if _PATH.fullmatch(path) is None:
        raise UsageError(
            f"the path {path!r} is empty or contains a space, a control character or a non-ASCII character",
            remedy="percent-encode such characters (%XX)",
        )
    lines = [f"{method} {path} HTTP/1.1".encode("ascii")]
    lines += [_encode_field(name, value, body_length is not None) for name, value in headers]
    if body_length is not None:
        lines.append(b"Content-Length: %d" % body_length)
    return b"\r\n".join(lines) + b"\r\n\r\n"


def _encode_field(name: str, value: str, framed: bool) -> bytes:
    if _NAME.fullmatch(name) is None:
        raise UsageError(f"{name!r} is not a valid header name: use letters, digits and !#$%&'*+-.^_`|~")
    if framed and name.lower() in ("content-length", "transfer-encoding"):
        raise UsageError(f"the header {name!r} is set from the body", remedy="leave it out")
    if any(c in value for c in "\r\n\0"):
        raise UsageError(f"the header {name!r} has a line break or a NUL in its value {value!r}")
    try:
        # Send exactly the bytes of the command line.
        return f"{name}: {value}".encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise UsageError(f"the header {name!r} has a value that is not text: {value!r}") from None


class Head(NamedTuple):
    """Status line and headers of a reply, and their consequences for its body and the connection."""

    status: int
    reason: str
    headers: tuple[tuple[str, str], ...]  # names in lower case
    length: int  # of the body; CHUNKED or UNTIL_CLOSE if not known in advance
    reusable: bool  # the connection may carry another request after this reply

    def get(self, name: str) -> str | None:
        """Return the value of the first header with that name."""
        wanted = name.lower()
        return next((value for name, value in self.headers if name == wanted), None)


_known: dict[bytes, Head] = {}  # heads by their bytes, shared by all connections
_chunk_lines: dict[int, bytes] = {}  # size lines of whole chunks, by the length of chunk and line
_chunk_sizes: dict[bytes, int] = {}  # sizes of some chunks, by their size line
_KNOWN_HEADS = 1024
_KNOWN_BYTES = 2048  # longer heads are not cached,
_KNOWN_LINES = 8192  # nor the lines of heads longer than this

_HEAD, _SIZED, _UNTIL_CLOSE, _CHUNK_SIZE, _CHUNK_DATA, _CHUNK_END, _TRAILERS, _DONE = range(8)


class ReplyDecoder:
    """Decoder of the replies on one connection. The result does not depend on how the stream is split.

    A decoder that has raised an error cannot be used again.
    """

    __slots__ = (
        "_interim", "_last_head", "_last_size", "_left", "_pending", "_room", "_searched", "_step", "body",
        "chunks", "expected_size", "expected_start", "head", "keep", "limit", "received",
    )  # fmt: skip

    def __init__(self, *, keep: bool = False, limit: int = LENGTH_LIMIT) -> None:
        self.keep = (
            keep  # keep bodies of successful replies; error bodies are always kept, up to ERROR_BODY_LIMIT
        )
        self.limit = limit  # bytes of a body that is kept; a longer one is refused
        self.head: Head | None = None  # of the current reply, once it is complete
        self.received = 0  # bytes of the current reply, including its head and any 1xx before it
        self.body = bytearray()  # kept bytes; a stream reader may empty it at any time
        self.chunks = 0  # of all replies, except those received alone
        self._step = _HEAD
        self._interim = 0  # interim replies before this one
        self._left = 0  # bytes left of the body or the chunk, or still allowed for the trailers
        self._room = 0  # bytes of the body still to keep
        self._pending = bytearray()  # received, but not yet consumed by a step
        self._searched = 0  # bytes of it already searched for the end of the head or line
        # A complete reply like the last successful one has this size and begins with these bytes. A caller that has
        # read nothing of a reply and keeps no bodies may recognise it by these and skip the decoder.
        self.expected_size = -1
        self.expected_start = b""  # raw head of the last successful reply of known length,
        self._last_head: Head | None = None  # its parsed form,
        self._last_size = -1  # and the size of the whole reply; also `expected_size` if it was successful

    def receive(self, data: bytearray | bytes | memoryview, length: int) -> bool:
        """Decode data[:length]; return True when a reply is complete (then read head and body, and call next())."""
        if self._step == _SIZED and length < self._left and not self._room:
            self._left -= length
            self.received += length
            return False
        if isinstance(data, memoryview):
            data = bytes(data[:length])
        begin = self.whole_chunk(data, length)
        if begin and length - 2 - begin <= self._room:
            self._room -= length - 2 - begin
            self.body += data[begin : length - 2]
            self.received += length
            return False
        if (
            length == self._last_size
            and not self.received
            and data.startswith(self.expected_start)
            and (not self.keep or self._keeps_expected(length))
        ):
            if self.keep:
                self.body += data[len(self.expected_start) : length]
            self.head = self._last_head
            self.received = length
            self._step = _DONE
            return True
        return self._advance(data, length)

    def _keeps_expected(self, length: int) -> bool:
        """Return whether a reply like the last reply has a body to keep, within the limit."""
        return length == self.expected_size and length - len(self.expected_start) <= self.limit

    def maybe_body(self, data: bytearray, length: int) -> bytearray | None:
        """Return the body of data[:length] if that is a complete reply like the last one, which is not decoded then."""
        if self.received or not self._keeps_expected(length) or not data.startswith(self.expected_start):
            return None
        return data[len(self.expected_start) : length]

    def last_header(self, name: str) -> str | None:
        """Return the value of a header of the last reply of known length."""
        return None if self._last_head is None else self._last_head.get(name)

    def whole_chunk(self, data: bytearray | bytes, length: int) -> int:
        """Return where the content begins if data[:length] is one whole chunk and no partial data is pending, as for
        most events of a stream; otherwise 0. The chunk is not consumed."""
        if self._step != _CHUNK_SIZE or self._pending or not data.startswith(b"\r\n", length - 2, length):
            return 0
        line = _chunk_lines.get(length)
        if line is not None and data.startswith(line):
            return len(line)
        match = _CHUNK_LINE.match(data, 0, min(length, CHUNK_LINE_LIMIT))
        if match is None or not 0 < length - 2 - match.end() == int(match[1], 16):
            return 0
        if len(_chunk_lines) >= _KNOWN_HEADS:
            _chunk_lines.clear()
        _chunk_lines[length] = match[0]
        return match.end()

    def chunk_at(self, data: bytearray | bytes, at: int, length: int) -> tuple[int, int] | None:
        """Return the bounds of the content of the chunk at `at`, if all of it is in data[:length] and no partial data
        is pending, as for several events received together. The chunk is not consumed."""
        if self._step != _CHUNK_SIZE or self._pending:
            return None
        begin = data.find(b"\n", at, min(length, at + CHUNK_LINE_LIMIT)) + 1
        line = bytes(data[at:begin])
        size = _chunk_sizes.get(line)
        if size is None:
            match = _CHUNK_LINE.fullmatch(line)
            if match is None:
                return None
            size = int(match[1], 16)
            if len(_chunk_sizes) < _KNOWN_HEADS:
                _chunk_sizes[line] = size
        end = begin + size
        return (begin, end) if size and data.startswith(b"\r\n", end, length) else None

    def next(self) -> None:
        """Discard the finished reply; bytes received after it belong to the next one.

        They may contain a whole reply: call receive(b"", 0) to find out.
        """
        self.head = None
        self.received = len(self._pending)
        self._step = _HEAD
        if self.body:
            self.body = bytearray()  # a new object: the caller may still hold the old one

    @property
    def idle(self) -> bool:
        """Whether no byte of another reply has arrived, so that the peer may close the connection cleanly."""
        if self._step == _DONE:
            return not self._pending
        return not self.received

    def eof(self) -> bool:
        """Handle the end of the connection; return True if it completes a reply, False if none was in progress."""
        if self._step == _UNTIL_CLOSE:
            self._step = _DONE
            return True
        if self._step == _DONE or not self.received:
            return False
        raise PeerError(f"the server closed the connection {self._progress()}")

    def _progress(self) -> str:
        if self.head is None:
            return f"in the head of a reply, after {self.received} bytes"
        if self._step == _SIZED:
            length = self.head.length
            return f"in the body of a reply, after {length - self._left} of {length} bytes"
        return f"in a chunked body, before the last chunk, after {self.received} bytes of the reply"

    def _advance(self, data: bytearray | bytes, length: int) -> bool:
        pending = self._pending
        taken = self.received - len(pending)
        if pending:
            pending += data[:length]
            data, length = pending, len(pending)
        at, before = 0, -1
        while before < at < length and self._step != _DONE:  # a step that consumes nothing waits for more
            before = at
            at = _STEPS[self._step](self, data, at, length)
        if data is pending:
            del pending[:at]
        elif at < length:
            pending += data[at:length]
        done = self._step == _DONE
        self.received = taken + (at if done else length)
        return done

    def _take_head(self, data: bytearray | bytes, at: int, stop: int) -> int:
        end = _head_end(data, at + self._searched, min(stop, at + HEAD_LIMIT))
        if end < 0:
            _check_half_head(data, at, stop)
            self._searched = max(0, stop - at - 2)  # an empty line may start here
            return at
        self._searched = 0
        raw = bytes(data[at:end])
        head = _known.get(raw)
        if head is None:
            head = _learn_head(raw)
        if head.status >= 200:
            self._open(head, raw)
            if 0 <= head.length <= stop - end and not self._room:  # the whole body is here
                self._step = _DONE
                return end + head.length
            return end
        self._interim += 1
        if self._interim > INTERIM_LIMIT:
            raise PeerError(
                f"the server sent more than {INTERIM_LIMIT} interim replies, the last with {head.status}"
            )
        return end

    def _open(self, head: Head, raw: bytes) -> None:
        self.head = head
        self._interim = 0
        self._left = length = head.length
        if length > 0:
            self._step = _SIZED
        elif length == 0:
            self._step = _DONE
        else:
            self._step = _CHUNK_SIZE if length == CHUNKED else _UNTIL_CLOSE
        if head.status >= 400:
            self._room = ERROR_BODY_LIMIT
            return
        self._room = self.limit if self.keep else 0
        if length > self._room > 0:
            raise PeerError(_too_long(self.limit, length))
        if length >= 0:
            self._last_head = head
            is_good = head.reusable and 200 <= head.status < 300
            self.expected_size = len(raw) + length if is_good else -1
            self.expected_start = raw
            self._last_size = len(raw) + length

    def _take_sized(self, data: bytearray | bytes, at: int, stop: int) -> int:
        """Consume bytes of a body or of a chunk."""
        end = min(stop, at + self._left)
        self._keep(data, at, end)
        self._left -= end - at
        if not self._left:
            self._step = _DONE if self._step == _SIZED else _CHUNK_END
        return end

    def _take_until_close(self, data: bytearray | bytes, at: int, stop: int) -> int:
        self._keep(data, at, stop)
        return stop

    def _take_chunk_size(self, data: bytearray | bytes, at: int, stop: int) -> int:
        if self._searched and self._is_half_line(data, at, stop, CHUNK_LINE_LIMIT):
            return at
        match = _CHUNK_LINE.match(data, at, min(stop, at + CHUNK_LINE_LIMIT))
        if match is None:
            _check_half_line(data, at, stop, CHUNK_LINE_LIMIT, "chunk size line")
            self._searched = stop - at
            return at
        self._searched = 0
        self.chunks += 1
        size = int(match[1], 16)
        if size > LENGTH_LIMIT:
            raise PeerError(f"the reply has a chunk of {size} bytes, which exceeds any valid size")
        begin = match.end()
        if size and data.startswith(b"\r\n", begin + size, stop):  # the whole chunk is here
            self._keep(data, begin, begin + size)
            return begin + size + 2
        self._left = size or TRAILERS_LIMIT
        self._step = _CHUNK_DATA if size else _TRAILERS
        return begin

    def _take_chunk_end(self, data: bytearray | bytes, at: int, stop: int) -> int:
        if data.startswith(b"\r\n", at, stop):
            end = at + 2
        elif data.startswith(b"\n", at, stop):
            end = at + 1
        elif b"\r\n".startswith(data[at : min(stop, at + 2)]):
            return at
        else:
            raise PeerError(
                f"a chunk of the reply is longer than its declared size: {_quote(data, at, stop)} follows it"
            )
        self._step = _CHUNK_SIZE
        return end

    def _take_trailers(self, data: bytearray | bytes, at: int, stop: int) -> int:
        stop = min(stop, at + self._left)
        if self._searched and self._is_half_line(data, at, stop, self._left):
            return at
        match = _TRAILER.match(data, at, stop)
        if match is not None:
            self._searched = 0
            self._left -= match.end() - at
            return match.end()
        if data.startswith(b"\n", at, stop) or data.startswith(b"\r\n", at, stop):
            self._searched = 0
            self._step = _DONE
            return data.find(b"\n", at, stop) + 1
        _check_half_line(data, at, stop, self._left, "trailer line")
        self._searched = stop - at
        return at

    def _is_half_line(self, data: bytearray | bytes, at: int, stop: int, limit: int) -> bool:
        """Return whether the pending line is still incomplete; each byte is searched once."""
        if stop - at >= limit or data.find(b"\n", at + self._searched, stop) >= 0:
            return False
        self._searched = stop - at
        return True

    def _keep(self, data: bytearray | bytes, at: int, end: int) -> None:
        size = end - at
        if size > self._room:
            if self.keep and self.head is not None and self.head.status < 400:
                raise PeerError(_too_long(self.limit))
            size = self._room
        if size:
            self._room -= size
            self.body += memoryview(data)[at : at + size]


_STEPS: tuple[Callable[[ReplyDecoder, bytearray | bytes, int, int], int], ...] = (
    ReplyDecoder._take_head,
    ReplyDecoder._take_sized,
    ReplyDecoder._take_until_close,
    ReplyDecoder._take_chunk_size,
    ReplyDecoder._take_sized,
    ReplyDecoder._take_chunk_end,
    ReplyDecoder._take_trailers,
)


def _too_long(limit: int, length: int | None = None) -> str:
    size = f"{length}" if length is not None else f"more than {limit}"
    return f"the reply has {size} bytes, but the limit is {limit}"


def _head_end(data: bytearray | bytes, at: int, stop: int) -> int:
    """Return where the first empty line ends; -1 if there is none."""
    crlf = data.find(b"\n\r\n", at, stop)
    bare = data.find(b"\n\n", at, stop if crlf < 0 else crlf + 1)
    if bare >= 0:
        return bare + 2
    return crlf + 3 if crlf >= 0 else -1


def _check_half_head(data: bytearray | bytes, at: int, stop: int) -> None:
    if stop - at >= HEAD_LIMIT:
        raise PeerError(f"the head of the reply is longer than {HEAD_LIMIT} bytes: {_quote(data, at, stop)}")
    # Do not wait for the time-out: a peer that speaks TLS or HTTP/2 may never send an empty line.
    if not _PREFIX.startswith(data[at : min(stop, at + len(_PREFIX))]):
        raise PeerError(f"the reply is not HTTP/1.x: {_quote(data, at, stop)}")


def _check_half_line(data: bytearray | bytes, at: int, stop: int, limit: int, what: str) -> None:
    end = data.find(b"\n", at, min(stop, at + limit))
    if end >= 0:
        raise PeerError(f"the reply has an invalid {what}: {_quote(data, at, end + 1)}")
    if stop - at >= limit:
        raise PeerError(f"the reply has a {what} that is too long: {_quote(data, at, stop)}")


def _learn_head(raw: bytes) -> Head:
    head = _parse_head(raw)
    if len(_known) >= _KNOWN_HEADS:
        _known.clear()  # instead of no longer caching: heads with an old Date never recur
    if len(raw) <= _KNOWN_BYTES:
        _known[raw] = head
    return head


def _parse_head(raw: bytes) -> Head:
    lines = raw.split(b"\n")
    parse_status_line, parse_field, framing = _PARSERS if len(raw) <= _KNOWN_LINES else _UNCACHED
    version, status, reason = parse_status_line(lines[0])
    try:
        headers = tuple(map(parse_field, lines[1:-2]))  # the last two are empty
    except PeerError:
        start = len(lines[0]) + 1
        unfolded = raw[:start] + _FOLD.sub(b" ", raw[start:])
        if unfolded == raw:
            raise
        return _parse_head(unfolded)
    length, reusable = framing(version, status, tuple([field for field in headers if field[0] in _FRAMING]))
    return Head(status, reason, headers, length, reusable)


@lru_cache(_KNOWN_HEADS)
def _parse_status_line(line: bytes) -> tuple[bytes, int, str]:
    match = _STATUS_LINE.fullmatch(line)
    if match is None:
        raise PeerError(f"the reply has an invalid status line: {_quote(line, 0, len(line))}")
    version, status, reason = match.groups(b"")
    if status == b"101":
        raise PeerError("the server switched to another protocol (status 101) without being asked to")
    return version, int(status), reason.decode("latin-1")


@lru_cache(_KNOWN_HEADS)
def _parse_field(line: bytes) -> tuple[str, str]:
    match = _FIELD.fullmatch(line.decode("latin-1"))
    if match is None:
        raise PeerError(f"the reply has an invalid header line: {_quote(line, 0, len(line))}")
    name, value = match.groups()
    return name.lower(), value.rstrip(" \t")


@lru_cache(_KNOWN_HEADS)
def _framing(version: bytes, status: int, fields: tuple[tuple[str, str], ...]) -> tuple[int, bool]:
    """Return the length of the body, and whether the connection is reusable after it."""
    length = _body_length(fields)
    # Chunked together with a length, or from HTTP/1.0, may be an attack (RFC 9112 6.1, 6.3).
    trusted = length != CHUNKED or (version != b"0" and not _values(fields, "content-length"))
    if status < 200 or status in (204, 304):
        length = 0
    return length, length != UNTIL_CLOSE and trusted and _stays_open(version, fields)


_PARSERS = (_parse_status_line, _parse_field, _framing)
_UNCACHED = (_parse_status_line.__wrapped__, _parse_field.__wrapped__, _framing.__wrapped__)


def _body_length(fields: tuple[tuple[str, str], ...]) -> int:
    lengths = [_parse_length(value) for value in _values(fields, "content-length")]
    codings = _values(fields, "transfer-encoding")
    if any(length != lengths[0] for length in lengths):
        raise PeerError(f"the reply has two different Content-Lengths, {lengths[0]} and {lengths[-1]}")
    if not codings:
        return lengths[0] if lengths else UNTIL_CLOSE
    if len(codings) > 1 or codings[0].lower() != "chunked":
        raise PeerError(
            f"the reply has the Transfer-Encoding {', '.join(codings)[:80]!r} instead of 'chunked'"
        )
    return CHUNKED


def _parse_length(text: str) -> int:
    # In Latin-1, isdecimal accepts only 0 to 9; 19 digits are enough for the limit.
    if not text.isdecimal() or len(text) > 19 or int(text) > LENGTH_LIMIT:
        raise PeerError(f"the reply has the invalid Content-Length {text[:80]!r}")
    return int(text)


def _stays_open(version: bytes, fields: tuple[tuple[str, str], ...]) -> bool:
    options = [value.lower() for value in _values(fields, "connection")]
    return "close" not in options and (version != b"0" or "keep-alive" in options)


def _values(fields: tuple[tuple[str, str], ...], wanted: str) -> list[str]:
    """Return the members of the comma-separated lists in all headers with that name."""
    return [part.strip(" \t") for name, value in fields if name == wanted for part in value.split(",")]


def _quote(data: bytearray | bytes, at: int, stop: int) -> str:
    return repr(bytes(data[at : min(stop, at + 80)]))[1:]
