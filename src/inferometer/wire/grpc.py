"""Client side of gRPC over HTTP/2: renders requests, reads messages and statuses. No socket, no clock.

Usage, with one GrpcConnection per socket:

    block = encode_headers(path="/inference.GRPCInferenceService/ModelInfer", authority="host:8001")
    request = render_call(block, message)               # once per step of the dataset

    connection = GrpcConnection()
    call = connection.open(slot, request)               # while connection.http2.can_open; queues the frames
    for chunk in connection.take(): ...                 # send all; again when connection.http2.wants_to_send
    for call, ending, message in connection.receive(buffer, length):
        if ending is None: ...                          # a message is complete
        else: ...                                       # the call is over; ending.code is 0 on success
    connection.http2.closing, connection.http2.broken   # look after receive(): open a new one; drop this one

A message is returned as bytes, decompressed if necessary, if the call was opened with keep=True; otherwise it is only
counted and the event carries None. Kept messages have a limit, which applies after decompression: a call that
exceeds it is reset and ends as malformed. Every call that was opened and not cancelled ends with exactly one Ending.
Its code is always a gRPC code, by the mappings of the gRPC specification; `cause` states its origin.

The wire format: each message has a prefix of five bytes, a flag (1 when compressed) and the length; messages
and DATA frames need not be aligned. The status arrives in trailers, or in the head of a reply that has
nothing else ("trailers-only"). A reply that is not gRPC at all, from a proxy for instance, is recognised by its HTTP
status or content type; the beginning of its body then becomes part of the ending's text.
"""

import base64
import re
import zlib
from collections.abc import Iterable
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from inferometer.base.errors import UsageError
from inferometer.base.status import GRPC_CODES as CODES
from inferometer.wire import frames, http2
from inferometer.wire.frames import Buffer
from inferometer.wire.headers import Headers, encode_block
from inferometer.wire.http2 import Http2Connection, StreamFault
from inferometer.wire.sender import Http2Request, Stream, render

(
    OK, CANCELLED, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, ALREADY_EXISTS,
    PERMISSION_DENIED, RESOURCE_EXHAUSTED, FAILED_PRECONDITION, ABORTED, OUT_OF_RANGE,
    UNIMPLEMENTED, INTERNAL, UNAVAILABLE, DATA_LOSS, UNAUTHENTICATED,
) = range(17)  # fmt: skip

LARGEST_MESSAGE = 2**31 - 1  # limit of a message that is only counted
LARGEST_KEPT = 64 * 1024 * 1024  # limit of a message that is kept, after decompression
PREFIX = 5

# Origin of a call's ending.
STATUS = "status"  # the server, with a grpc-status
HTTP = "http"  # a peer that answered without gRPC
RESET, REFUSED, LOST, BROKEN = http2.RESET, http2.REFUSED, http2.LOST, http2.BROKEN
MALFORMED = http2.MALFORMED

_prefix = Struct(">BL")
_unpack_prefix = _prefix.unpack_from

_WINDOW_BITS = {"gzip": 31, "deflate": 15}
_NAME = re.compile(r"[0-9a-z_.\-]+")
_TEXT = re.compile(r"[ -~]*")
_PATH = re.compile(r"/[!-~]*")
_OURS = frozenset(
    {
        "connection", "content-length", "content-type", "grpc-accept-encoding", "grpc-encoding", "grpc-message",
        "grpc-status", "grpc-timeout", "host", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
_EXCERPT = 2 * 1024  # bytes quoted from the body of a non-gRPC reply
_GZIP_SIZE = Struct("<L")  # the last four bytes of gzip: the decompressed size, modulo 2^32 (RFC 1952 2.3.1)
_MOST_PACKED = 1032  # highest compression ratio of deflate

# https://github.com/grpc/grpc/blob/master/doc/http-grpc-status-mapping.md
_BY_HTTP_STATUS = {
    400: INTERNAL,
    401: UNAUTHENTICATED,
    403: PERMISSION_DENIED,
    404: UNIMPLEMENTED,
    429: UNAVAILABLE,
    502: UNAVAILABLE,
    503: UNAVAILABLE,
    504: UNAVAILABLE,
}

# https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md, "Errors"
_INTERNAL_ERRORS = (
    frames.NO_ERROR, frames.PROTOCOL_ERROR, frames.INTERNAL_ERROR, frames.FLOW_CONTROL_ERROR, frames.SETTINGS_TIMEOUT,
    frames.FRAME_SIZE_ERROR, frames.COMPRESSION_ERROR, frames.CONNECT_ERROR,
)  # fmt: skip
_BY_HTTP2_ERROR = dict.fromkeys(_INTERNAL_ERRORS, INTERNAL) | {
    frames.REFUSED_STREAM: UNAVAILABLE,
    frames.CANCEL: CANCELLED,
    frames.ENHANCE_YOUR_CALM: RESOURCE_EXHAUSTED,
    frames.INADEQUATE_SECURITY: PERMISSION_DENIED,
}


def name_of_code(code: int) -> str:
    return CODES[code] if code < len(CODES) else f"status {code}"


# --- requests


def encode_headers(
    *,
    path: str,
    authority: str,
    scheme: str = "http",
    metadata: Iterable[tuple[str, str]] = (),
    compression: str | None = None,
) -> bytes:
    """Encode the header block of a call; it is the same for every stream of every connection."""
    if _PATH.fullmatch(path) is None:
        raise UsageError(f"the method {path!r} is not of the form /package.Service/Method")
    if not authority or _TEXT.fullmatch(authority) is None:
        raise UsageError(f"the server name {authority!r} is empty or contains a non-ASCII character")
    given = [_metadatum(name, value) for name, value in metadata]
    headers = [(":method", "POST"), (":scheme", scheme), (":path", path), (":authority", authority)]
    headers += [("te", "trailers"), ("content-type", "application/grpc")]
    if compression is not None:
        headers.append(("grpc-encoding", compression))
    headers.append(("grpc-accept-encoding", "identity, deflate, gzip"))
    if all(name != "user-agent" for name, _ in given):
        headers.append(("user-agent", "inferometer"))
    return encode_block(headers + given)


def _metadatum(name: str, value: str) -> tuple[str, str]:
    """Check a metadata entry; errors never show the value, which may be secret."""
    if name != name.lower():
        raise UsageError(
            f"the metadata name {name!r} has upper-case letters", remedy="write it in lower case"
        )
    if _NAME.fullmatch(name) is None:
        raise UsageError(f"{name!r} is not a valid metadata name: use letters, digits and _.-")
    if name in _OURS:
        raise UsageError(f"the metadata {name!r} is set by gRPC itself", remedy="leave it out")
    if name.endswith("-bin"):
        raw = value.encode("utf-8", "surrogateescape")
        return name, base64.b64encode(raw).decode("ascii").rstrip("=")
    if _TEXT.fullmatch(value) is None:
        raise UsageError(
            f"the metadata {name!r} has a value that is not printable ASCII",
            remedy="for binary values use a name that ends with -bin",
        )
    return name, value


def frame_message(message: Buffer, compression: str | None = None) -> tuple[Buffer, ...]:
    """Return prefix and message; an uncompressed message is not copied."""
    if compression is None:
        return _prefix.pack(0, len(message)), message
    packer = zlib.compressobj(wbits=_WINDOW_BITS[compression])
    packed = packer.compress(message) + packer.flush()
    return _prefix.pack(1, len(packed)), packed


def render_call(block: bytes, message: Buffer, *, compression: str | None = None) -> Http2Request:
    """Render a call with a single message, for GrpcConnection.open()."""
    return render(block, frame_message(message, compression))


# --- endings


class Ending(NamedTuple):
    """Outcome of a call."""

    code: int  # of gRPC; 0 is success
    text: str
    cause: str = STATUS

    @property
    def is_retriable(self) -> bool:
        """Whether the server did not process the call, so that it may be retried."""
        return self.cause == REFUSED


Event = tuple[Stream, Ending | None, Buffer | None]


@lru_cache(1024)
def _ending(headers: Headers) -> Ending | None:
    """Return the ending given by a header block, or None if it has no grpc-status."""
    status = headers.get("grpc-status")
    if status is None:
        return None
    text = _unquoted(headers.get("grpc-message") or "")
    if not status.isdecimal() or not status.isascii() or len(status) > 9:
        return Ending(UNKNOWN, f"the reply has the invalid grpc-status {status[:80]!r}", MALFORMED)
    if int(status) >= len(CODES):
        return Ending(UNKNOWN, f"grpc-status {int(status)}: {text}" if text else f"grpc-status {int(status)}")
    return Ending(int(status), text)


def _unquoted(text: str) -> str:
    if "%" not in text:
        return text.encode("latin-1").decode("utf-8", "replace")
    from urllib.parse import unquote_to_bytes

    return unquote_to_bytes(text.encode("latin-1")).decode("utf-8", "replace")


@lru_cache(1024)
def _is_grpc(head: Headers) -> bool:
    kind = head.get("content-type") or ""
    return head.status == 200 and re.match(r"application/grpc(?:[+;]|$)", kind, re.IGNORECASE) is not None


# --- the connection


class _Partial:
    """A partially received message."""

    __slots__ = ("body", "compressed", "left", "prefix")

    def __init__(self) -> None:
        self.prefix = bytearray()
        self.compressed = False
        self.left = 0  # bytes still to come after the prefix
        self.body = bytearray()


class _Calls:
    """Collector of the events of one receive(). A stream's `reading` is its partial message, if any,
    or the beginning of a non-gRPC body."""

    __slots__ = ("_kept", "_known", "_largest", "events")

    def __init__(self, largest: int, kept: int) -> None:
        self._largest = largest
        self._kept = kept
        self._known: tuple[Headers, Headers, Ending | None] | None = None  # head, trailers and their ending
        self.events: list[Event] = []

    def head(self, stream: Stream, headers: Headers) -> None:
        if not _is_grpc(headers):
            stream.reading = bytearray()

    def whole(self, stream: Stream, data: Buffer, start: int, stop: int, trailers: Headers) -> bytes:
        """Record one counted message and a successful ending. Its body begins with the message's prefix."""
        head, known = stream.head, self._known
        if known is None or known[0] is not head or known[1] is not trailers:
            assert head is not None
            known = self._known = (head, trailers, _ending(trailers) if _is_grpc(head) else None)
        ending, size = known[2], stop - start - PREFIX
        if ending is None or ending.code or stream.keep or not 0 <= size <= self._largest:
            return b""
        if _unpack_prefix(data, start) != (0, size):
            return b""
        self.events += ((stream, None, None), (stream, ending, None))
        return _prefix.pack(0, size)

    def body(self, stream: Stream, data: Buffer, start: int, stop: int) -> None:
        if stream.reading is None and stop - start >= PREFIX:
            flag, size = _unpack_prefix(data, start)
            if (
                size + PREFIX == stop - start
                and not flag
                and size <= (self._kept if stream.keep else self._largest)
            ):
                kept = bytes(memoryview(data)[start + PREFIX : stop]) if stream.keep else None
                self.events.append((stream, None, kept))
                return
        if isinstance(stream.reading, bytearray):
            stream.reading += data[start : min(stop, start + _EXCERPT - len(stream.reading))]
        else:
            self._read_messages(stream, data, start, stop)

    def _read_messages(self, stream: Stream, data: Buffer, start: int, stop: int) -> None:
        partial: _Partial = stream.reading or _Partial()
        while start < stop:
            if len(partial.prefix) < PREFIX:
                end = min(stop, start + PREFIX - len(partial.prefix))
                partial.prefix += data[start:end]
                start = end
                if len(partial.prefix) < PREFIX:
                    break
                self._begin(stream, partial)
            end = min(stop, start + partial.left)
            if stream.keep:
                partial.body += memoryview(data)[start:end]
            partial.left -= end - start
            start = end
            if not partial.left:
                self._complete(stream, partial)
                partial = _Partial()
        stream.reading = partial if partial.prefix else None

    def _begin(self, stream: Stream, partial: _Partial) -> None:
        flag, partial.left = _unpack_prefix(partial.prefix)
        if flag > 1:
            raise StreamFault(f"a message has the invalid compression flag {flag}")
        _check_size(partial.left, self._kept if stream.keep else self._largest)
        partial.compressed = flag == 1
        if partial.compressed:
            _compression(stream)

    def _complete(self, stream: Stream, partial: _Partial) -> None:
        kept: Buffer | None = None
        if stream.keep:
            kept = self._decompress(stream, partial.body) if partial.compressed else partial.body
        self.events.append((stream, None, kept))

    def _decompress(self, stream: Stream, packed: bytearray) -> bytes:
        """Decompress a message; stop at the limit, or before if gzip announces a larger size."""
        name, limit = _compression(stream), self._kept
        if name == "gzip" and len(packed) >= _GZIP_SIZE.size:
            (size,) = _GZIP_SIZE.unpack_from(packed, len(packed) - _GZIP_SIZE.size)
            # Otherwise the message is damaged, which decompression detects.
            if size <= len(packed) * _MOST_PACKED:
                _check_size(size, limit)
        unpacker = zlib.decompressobj(_WINDOW_BITS[name])
        try:
            message = unpacker.decompress(packed, limit + 1)
        except zlib.error as error:
            raise StreamFault(f"cannot decompress a message: {error}") from None
        _check_size(len(message), limit)
        if not unpacker.eof or unpacker.unused_data:
            raise StreamFault("cannot decompress a message: its length is wrong")
        return message

    def ended(self, stream: Stream, trailers: Headers | None) -> None:
        block = stream.head if trailers is None else trailers
        ending = None if block is None else _ending(block)
        if ending is None or stream.reading is not None:
            ending = _judge(stream, ending)
        self.events.append((stream, ending, None))

    def failed(self, stream: Stream, cause: str, code: int, text: str) -> None:
        mapped = UNAVAILABLE if cause in (LOST, REFUSED) else _BY_HTTP2_ERROR.get(code, UNKNOWN)
        self.events.append((stream, Ending(mapped, text, cause), None))


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise StreamFault(
            f"a message has at least {size} bytes, which exceeds the limit of {limit}",
            frames.ENHANCE_YOUR_CALM,
        )


def _compression(stream: Stream) -> str:
    """Return the compression that the server declares."""
    name = None if stream.head is None else stream.head.get("grpc-encoding")
    if name not in _WINDOW_BITS:
        raise StreamFault(f"a message is compressed with the unsupported grpc-encoding {name!r:.80}")
    return name


def _judge(stream: Stream, ending: Ending | None) -> Ending:
    """Return the ending of a call without a regular answer."""
    head, reading = stream.head, stream.reading
    if isinstance(reading, bytearray):
        if ending is not None:
            return ending
        assert head is not None
        text = f"HTTP status {head.status}, content type {head.get('content-type')!r:.80}"
        excerpt = reading.decode("utf-8", "replace").strip()
        code = _BY_HTTP_STATUS.get(head.status, UNKNOWN)
        return Ending(code, f"{text}: {excerpt}" if excerpt else text, HTTP)
    if ending is None:
        return Ending(UNKNOWN, "the reply ended without a grpc-status", MALFORMED)
    if ending.code != OK:
        return ending
    return Ending(INTERNAL, "the reply ended in the middle of a message", MALFORMED)


class GrpcConnection:
    """Calls on one HTTP/2 connection: bytes in, messages and endings out."""

    __slots__ = ("_calls", "cancel", "http2", "open", "take")

    def __init__(
        self,
        *,
        window: int = http2.WINDOW,
        largest_message: int = LARGEST_MESSAGE,
        largest_kept: int = LARGEST_KEPT,
    ) -> None:
        self._calls = _Calls(largest_message, min(largest_message, largest_kept))
        self.http2 = Http2Connection(self._calls, window=window)
        self.open = self.http2.open
        self.cancel = self.http2.cancel
        self.take = self.http2.take

    def receive(self, data: Buffer, length: int) -> list[Event]:
        """Return the events completed by data[:length], in order."""
        events: list[Event] = []
        self._calls.events = events
        self.http2.receive(data, length)
        return events

    def eof(self) -> list[Event]:
        """Return the endings of all calls after the server closed the connection."""
        events: list[Event] = []
        self._calls.events = events
        self.http2.eof()
        return events
