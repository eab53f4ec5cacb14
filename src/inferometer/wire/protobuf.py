"""Minimal reader and writer of the protobuf wire format, which does not build messages."""

from collections.abc import Iterator

from inferometer.base.errors import PeerError
from inferometer.base.varint import varint

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5

Value = int | memoryview


def fields(message: memoryview) -> Iterator[tuple[int, Value]]:
    """Yield (number, value) of each field: integers for varints, views for all other types."""
    at, end = 0, len(message)
    try:
        while at < end:
            key, at = _varint(message, at)
            kind = key & 7
            if kind == VARINT:
                value, at = _varint(message, at)
                yield key >> 3, value
                continue
            if kind == LENGTH:
                size, at = _varint(message, at)
            elif kind in (FIXED64, FIXED32):
                size = 8 if kind == FIXED64 else 4
            else:
                raise PeerError(f"a message has a field of unknown wire type {kind}")
            if at + size > end:
                raise PeerError("a message ends in the middle of a field")
            yield key >> 3, message[at : at + size]
            at += size
    except IndexError:
        raise PeerError("a message ends in the middle of a field") from None


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise PeerError("a message has a varint longer than ten bytes")


def string_field(number: int, text: str) -> bytes:
    """Encode a string field, which can be appended to a message: fields may be in any order."""
    raw = text.encode()
    assert number < 16
    if len(raw) < 128:
        return bytes((number << 3 | LENGTH, len(raw))) + raw
    return bytes((number << 3 | LENGTH,)) + varint(len(raw)) + raw
