"""Header blocks (RFC 7541, HPACK) without a dynamic table: encoded as literals, and decoded through a cache.

HPACK lets a block depend on all earlier blocks, through a table that both ends keep. This client avoids it:

* It sends literals and static names. The first block of a connection begins with SHRINK, which sets
  its table to size 0, so that a block never depends on it and can be rendered once and sent any number of times.
* It announces SETTINGS_HEADER_TABLE_SIZE 0 to the server. Once the server has acknowledged that and stated in a
  block that its table shrank to 0, as it must (RFC 7541 4.2), the table may never grow again: from then on a block
  means the same in any position. `BlockReader.frozen` is then True, and decoding is a pure function with a
  cache. Blocks before that point, a handful per connection, go through one HPACK decoder in order.

A literal "with indexing" is legal for a table of size 0 and changes nothing (4.4); grpc servers send many.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from inferometer.base.varint import varint
from inferometer.wire.frames import COMPRESSION_ERROR, ENHANCE_YOUR_CALM, Fault

if TYPE_CHECKING:
    from hpack import Decoder

SHRINK = b"\x20"  # set the dynamic table to size 0
LIST_LIMIT = 64 * 1024  # size of the decoded headers, counted like MAX_HEADER_LIST_SIZE
_KNOWN_LIMIT = 2 * 1024  # longer blocks are not cached

_NAME = re.compile(r":?[!#$%&'*+\-.^_`|~0-9a-z]+")
_STATUS = re.compile(r"[1-9][0-9][0-9]")
_LENGTH = re.compile(r"[0-9]{1,18}")
_ADDRESS = re.compile(r"(:| from) <memory at [^>]*>")  # memory addresses are useless in a message
_ABOUT_CONNECTIONS = frozenset(
    {"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"}
)

_WHOLE = {(":method", "GET"): 2, (":method", "POST"): 3, (":scheme", "http"): 6, (":scheme", "https"): 7}
_NAMES = {
    ":authority": 1, ":method": 2, ":path": 4, ":scheme": 6,
    "authorization": 23, "content-type": 31, "cookie": 32, "user-agent": 58,
}  # fmt: skip
_SECRET = frozenset({"authorization", "proxy-authorization", "cookie"})


def encode_block(headers: Iterable[tuple[str, str]]) -> bytes:
    """Encode a header block that is the same for every stream; values are Latin-1, names must be lower case."""
    return b"".join(_encode_field(name, value) for name, value in headers)


def _encode_field(name: str, value: str) -> bytes:
    whole = _WHOLE.get((name, value))
    if whole is not None:
        return bytes([0x80 | whole])
    # "Never indexed" also applies to proxies: secrets stay out of their tables (RFC 7541 7.1.3).
    mark = 0x10 if name in _SECRET else 0x00
    index = _NAMES.get(name, 0)
    start = _encode_integer(index, 4, mark)
    return start + (b"" if index else _encode_text(name)) + _encode_text(value)


def _encode_text(text: str) -> bytes:
    raw = text.encode("latin-1")
    return _encode_integer(len(raw), 7, 0) + raw


def _encode_integer(value: int, bits: int, mark: int) -> bytes:
    """Encode an integer (RFC 7541 5.1): in the low bits of the first byte, continued as a varint if it is too large."""
    full = (1 << bits) - 1
    if value < full:
        return bytes([mark | value])
    return bytes([mark | full]) + varint(value - full)


class Headers:
    """One decoded block. Blocks with the same bytes are usually the same object, so comparison is by identity."""

    __slots__ = ("fault", "fields", "length", "status")

    def __init__(self, fields: tuple[tuple[str, str], ...], status: int, length: int, fault: str) -> None:
        self.fields = fields  # without :status; values as Latin-1
        self.status = status  # of the reply; 0 in trailers
        self.length = length  # from Content-Length; -1 if absent
        self.fault = fault  # why the message is malformed, or empty

    def get(self, name: str) -> str | None:
        """Return the value of the first header with that name."""
        return next((value for known, value in self.fields if known == name), None)


class BlockReader:
    """Decoder of the server's header blocks of one connection, in order."""

    __slots__ = ("_decoder", "frozen")

    def __init__(self) -> None:
        self._decoder = _new_decoder()
        self.frozen = False  # blocks no longer depend on each other

    def acknowledged(self) -> None:
        """Note that the server has acknowledged the client's SETTINGS, and with them a table of size 0."""
        self._decoder.max_allowed_table_size = 0
        self._check_frozen()

    def decode(self, block: bytes) -> Headers:
        if self.frozen:
            return _decode_known(block) if len(block) <= _KNOWN_LIMIT else _decode_anew(block)
        headers = _decode(self._decoder, block)
        self._check_frozen()
        return headers

    def _check_frozen(self) -> None:
        decoder = self._decoder
        self.frozen = decoder.max_allowed_table_size == 0 and decoder.header_table_size == 0


def _decode_anew(block: bytes) -> Headers:
    """Decode a block with an empty dynamic table."""
    decoder = _new_decoder()
    decoder.max_allowed_table_size = decoder.header_table_size = 0
    try:
        return _decode(decoder, block)
    except _TooLong as fault:  # decoded partially, which leaves no state behind
        return Headers((), 0, -1, fault.message)


_decode_known = lru_cache(1024)(_decode_anew)


class _TooLong(Fault):
    pass


def _new_decoder() -> "Decoder":
    from hpack import Decoder

    return Decoder(max_header_list_size=LIST_LIMIT)


def _decode(decoder: "Decoder", block: bytes) -> Headers:
    from hpack import HPACKError, OversizedHeaderListError

    try:
        pairs = decoder.decode(block, raw=True)
    except OversizedHeaderListError:
        raise _TooLong(
            f"headers that exceed the announced limit of {LIST_LIMIT} bytes", ENHANCE_YOUR_CALM
        ) from None
    except HPACKError as error:
        reason = _ADDRESS.sub("", str(error))
        raise Fault(f"cannot decode a header block: {reason}", COMPRESSION_ERROR) from None
    return parse_fields([(str(name, "latin-1"), str(value, "latin-1")) for name, value in pairs])


def parse_fields(fields: list[tuple[str, str]]) -> Headers:
    """Check and collect fields (RFC 9113 8.2 and 8.3); a violation fails the stream, not the connection.

    One leniency: a value may begin or end with a space, because a percent-encoded grpc-message may.
    """
    pseudo = [(name, value) for name, value in fields if name.startswith(":")]
    plain = tuple(fields[len(pseudo) :])
    fault = _find_fault(fields, pseudo)
    status = int(pseudo[0][1]) if pseudo and not fault else 0
    lengths = {value for name, value in plain if name == "content-length"}
    if not fault and (len(lengths) > 1 or any(_LENGTH.fullmatch(value) is None for value in lengths)):
        fault = "an invalid Content-Length"
    length = int(lengths.pop()) if lengths and not fault else -1
    return Headers(plain, status, length, fault)


def _find_fault(fields: list[tuple[str, str]], pseudo: list[tuple[str, str]]) -> str:
    if fields[: len(pseudo)] != pseudo:
        return f"the pseudo-header {pseudo[-1][0][:80]!r} after regular headers"
    if len(pseudo) > 1 or (pseudo and pseudo[0][0] != ":status"):
        return f"the pseudo-header {pseudo[-1][0][:80]!r}, which is duplicated or not allowed in replies"
    if pseudo and _STATUS.fullmatch(pseudo[0][1]) is None:
        return f"the invalid status {pseudo[0][1][:80]!r}"
    for name, value in fields:
        if _NAME.fullmatch(name) is None:
            return f"the invalid header name {name[:80]!r}"
        if name in _ABOUT_CONNECTIONS:
            return f"the header {name!r}, which HTTP/2 forbids"
        if any(c in value for c in "\r\n\0"):
            return f"a line break or a NUL in the header {name[:80]!r}"
    return ""
