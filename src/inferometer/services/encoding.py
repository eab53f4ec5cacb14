"""Decoding of compressed replies before they are read; an error names an unsupported encoding.

Requests do not ask for compression, but some proxies compress anyway, and users may request it with a header.
"""

import zlib
from collections.abc import Sequence

from inferometer.base import status as outcome
from inferometer.base.errors import PeerError
from inferometer.services.traffic import Reply, ReplyBody, ReplyReader
from inferometer.wire.http1 import Head

_STEP = 1 << 20  # bytes decoded at a time, so that readers can refuse long replies
_PLAIN = ("", "identity")
_GZIP = ("gzip", "x-gzip")
_AUTOMATIC = zlib.MAX_WBITS | 32  # detect gzip or zlib from the header


def start_reading(reader: ReplyReader, head: Head) -> ReplyBody:
    """Start reading a reply with a success status; raise PeerError if its encoding is unknown."""
    body, encoding = reader.start(head), _encoding(head)
    if encoding in _PLAIN:
        return body
    if encoding != "deflate" and encoding not in _GZIP:
        from inferometer.options.names import option_name

        raise PeerError(
            f"the reply has the Content-Encoding '{encoding}', but only gzip and deflate are supported: request "
            f"an uncompressed reply with {option_name('-H')} 'Accept-Encoding: identity'"
        )
    return _Inflated(body, encoding)


def decoded(head: Head, body: bytes) -> bytes:
    """Return the beginning of an error body, decoded if possible."""
    if _encoding(head) not in ("deflate", *_GZIP):
        return body
    try:
        return zlib.decompressobj(_window(body)).decompress(body, _STEP)
    except zlib.error:
        return body


def _encoding(head: Head) -> str:
    return (head.get("content-encoding") or "").strip().lower()


def _window(data: bytes) -> int:
    """Return zlib's window parameter: some servers send raw deflate without the two-byte zlib header."""
    return (
        _AUTOMATIC if data[:1] == b"\x1f" or (data[:1] and data[0] & 15 == zlib.DEFLATED) else -zlib.MAX_WBITS
    )


class _Inflated:
    """A reply whose body is decoded in pieces; decoded data has the time of its compressed piece."""

    __slots__ = ("_body", "_encoding", "_inflate")

    def __init__(self, body: ReplyBody, encoding: str) -> None:
        self._body = body
        self._encoding = encoding
        self._inflate = zlib.decompressobj(_AUTOMATIC) if encoding in _GZIP else None

    @property
    def said(self) -> Sequence[str]:
        return self._body.said

    @property
    def times(self) -> Sequence[int]:
        return self._body.times

    def takes(self, data: bytearray | bytes, begin: int, end: int, now_ns: int) -> bool:
        return False

    def receive(self, data: bytes, now_ns: int) -> None:
        is_full = False
        while data or is_full:
            if self._inflate is None or self._inflate.eof:  # a gzip body may have several members
                self._inflate = zlib.decompressobj(_window(data))
            try:
                piece = self._inflate.decompress(data, _STEP)
            except zlib.error as error:
                raise PeerError(
                    f"the reply does not match its Content-Encoding '{self._encoding}': {error}"
                ) from None
            is_full = len(piece) == _STEP and not self._inflate.eof
            data = self._inflate.unused_data if self._inflate.eof else self._inflate.unconsumed_tail
            if piece:
                self._body.receive(piece, now_ns)

    def end(self) -> Reply:
        if self._inflate is not None and not self._inflate.eof:
            return Reply(outcome.MALFORMED, f"the reply ends in the middle of its {self._encoding} data", 0)
        return self._body.end()
