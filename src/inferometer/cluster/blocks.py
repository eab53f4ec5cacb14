"""Wire format of records from a client to its controller: compressed columns of differences.

    block  = rows u32, times u32, column for each of `COLUMNS`, column of `times`
    column = kind u8 [, first i64 [, length u32, packed differences]]

The times of a request are close together, and so are those of consecutive requests: each column is written as its
difference from another column or from the previous row. A column of equal differences is just that number. Unpacking
restores the records exactly.
"""

import zlib
from collections.abc import Iterator
from struct import Struct

import numpy as np

from inferometer.records.records import COLUMNS, EMPTY, Column, Records

LEVEL = 1  # of zlib: higher levels take several times as long and save a tenth

_HEAD = Struct("<II")
_KIND = Struct("<Bq")
_LENGTH = Struct("<I")
_SAME = 255
_KINDS = (np.dtype("<u1"), np.dtype("<u2"), np.dtype("<u4"), np.dtype("<i8"))
_LIMITS = (1 << 8, 1 << 16, 1 << 32)
_BEFORE = {"sent_ns": "end_ns", "due_ns": "sent_ns", "wrote_ns": "sent_ns", "first_ns": "end_ns"}
_ORDER = ("end_ns", "sent_ns", *(name for name in COLUMNS if name not in ("end_ns", "sent_ns")))
_BY_ROW = ("end_ns",)  # sorted


def pack(records: Records) -> bytes:
    """Pack records into a block; no records give empty bytes."""
    if not len(records):
        return b""
    parts = [_HEAD.pack(len(records), len(records.times))]
    for name in _ORDER:
        parts += _column(_differences(records, name))
    parts += _column(_rise(records.times))
    return b"".join(parts)


def unpack(block: bytes) -> Records:
    if not block:
        return EMPTY
    rows, times = _HEAD.unpack_from(block)
    at = _HEAD.size
    found = dict[str, Column]()
    for name in _ORDER:
        column, at = _read(block, at, rows)
        found[name] = _restored(found, name, column)
    stamps, at = _read(block, at, times)
    np.cumsum(stamps, out=stamps)
    return Records(*[found[name] for name in COLUMNS] + [stamps])


def _differences(records: Records, name: str) -> Column:
    column: Column = getattr(records, name)
    if name in _BY_ROW:
        return _rise(column)
    return getattr(records, _BEFORE[name]) - column if name in _BEFORE else column


def _restored(found: dict[str, Column], name: str, column: Column) -> Column:
    if name in _BY_ROW:
        return np.cumsum(column, out=column)
    return found[_BEFORE[name]] - column if name in _BEFORE else column


def _rise(column: Column) -> Column:
    return np.diff(column, prepend=column.dtype.type(0))


def _column(values: Column) -> Iterator[bytes]:
    """Yield the first value, then the others relative to their minimum."""
    rest = values[1:]
    first = int(values[0]) if len(values) else 0
    if not len(rest) or (rest == first).all():
        yield _KIND.pack(_SAME, first)
        return
    least, most = int(rest.min()), int(rest.max())
    kind = next((kind for kind, limit in enumerate(_LIMITS) if most - least < limit), len(_LIMITS))
    shift = 0 if kind == len(_LIMITS) else least
    packed = zlib.compress((rest - shift).astype(_KINDS[kind]).tobytes(), LEVEL)
    yield _KIND.pack(kind, first)
    yield _KIND.pack(0, shift)
    yield _LENGTH.pack(len(packed))
    yield packed


def _read(block: bytes, at: int, rows: int) -> tuple[Column, int]:
    kind, first = _KIND.unpack_from(block, at)
    at += _KIND.size
    column = np.empty(rows, dtype=np.int64)
    if kind == _SAME:
        column[:] = first
        return column, at
    _, shift = _KIND.unpack_from(block, at)
    at += _KIND.size
    (length,) = _LENGTH.unpack_from(block, at)
    at += _LENGTH.size
    rest = np.frombuffer(zlib.decompress(block[at : at + length]), dtype=_KINDS[kind])
    column[0] = first
    np.add(rest, shift, out=column[1:], dtype=np.int64, casting="unsafe")
    return column, at + length
