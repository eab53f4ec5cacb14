"""Conversion of elements to raw little-endian bytes and back, for every datatype.

Values are never changed silently: one that its datatype cannot hold is an `ElementError`. Fractions are the one
exception, as always with floating point: they are rounded to nearest, ties to even, including BF16.
"""

import contextlib
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Datatype(NamedTuple):
    """Memory layout of an element."""

    numpy: str  # dtype of the raw bytes; BF16 is the upper half of a float32
    size: int  # bytes per element; 0 for BYTES, whose elements carry their own length
    form: str = ""  # for `struct`, if it converts elements like numpy


DATATYPES = {
    "BOOL": Datatype("bool", 1, "?"),
    "UINT8": Datatype("uint8", 1, "B"),
    "UINT16": Datatype("uint16", 2, "H"),
    "UINT32": Datatype("uint32", 4, "I"),
    "UINT64": Datatype("uint64", 8, "Q"),
    "INT8": Datatype("int8", 1, "b"),
    "INT16": Datatype("int16", 2, "h"),
    "INT32": Datatype("int32", 4, "i"),
    "INT64": Datatype("int64", 8, "q"),
    "FP16": Datatype("float16", 2, "e"),
    "BF16": Datatype("uint16", 2),
    "FP32": Datatype("float32", 4, "f"),
    "FP64": Datatype("float64", 8, "d"),
    "BYTES": Datatype("object", 0),
}

_FLOATS = ("FP16", "BF16", "FP32", "FP64")
_LARGEST_BF16 = float.fromhex("0x1.fep127")
_BF16_TINIEST_EXPONENT = -133  # of the smallest subnormal
_BF16_SIGNIFICANT_BITS = 8
_LENGTH = struct.Struct("<I")
_FEW = 256  # elements that `struct` converts sooner than numpy, whose arrays cost most
_PIECE = 1 << 20  # fractions rounded at a time, to keep their wide copies small


@dataclass(eq=False)
class ElementError(ValueError):
    """The element at `index` is not a value of its datatype."""

    index: int
    expected: str
    found: object

    def __str__(self) -> str:
        return f"element {self.index} must be {self.expected}"


def encode(datatype: str, values: Sequence[Any]) -> bytes:
    """Encode elements for the wire; BYTES elements may be str (sent as UTF-8) or bytes."""
    if datatype == "BYTES":
        return _encode_strings(values)
    if datatype == "BOOL":
        _require_types(values, (bool,), "true or false")
        return np.array(values, dtype=bool).tobytes()
    if datatype in _FLOATS:
        return _encode_floats(datatype, values)
    return _encode_integers(datatype, values)


def decode(datatype: str, data: bytes) -> list[Any]:
    """Decode elements to Python values; BYTES elements as bytes. Raise ValueError on a partial element."""
    if datatype == "BYTES":
        return [data[begin:end] for begin, end in _spans(data)]
    known = DATATYPES[datatype]
    if known.form and len(data) <= _FEW * known.size and len(data) % known.size == 0:
        return list(struct.unpack(f"<{len(data) // known.size}{known.form}", data))
    return list(values(datatype, data).tolist())


def values(datatype: str, data: bytes) -> NDArray[Any]:
    """Return the numbers as an array; BF16 as float32."""
    raw: NDArray[Any] = np.frombuffer(data, dtype=little_endian(datatype))
    if datatype == "BF16":
        return (raw.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return raw


def count(datatype: str, data: bytes) -> int:
    """Count the elements. Raise ValueError on a partial element."""
    if datatype == "BYTES":
        return sum(1 for _ in _spans(data))
    whole, rest = divmod(len(data), DATATYPES[datatype].size)
    if rest:
        raise ValueError(f"{len(data)} bytes are not a whole number of {datatype} elements")
    return whole


def flat(nested: Any) -> list[Any]:
    """Flatten nested lists, row by row; a single element becomes a list of one."""
    elements = nested if isinstance(nested, list) else [nested]
    while elements and isinstance(elements[0], list):
        elements = [element for row in elements for element in row]
    return elements


def encode_fractions(datatype: str, values: NDArray[Any]) -> bytes:
    """Encode an array of numbers for a float datatype, row-major."""
    flat = values.reshape(-1)
    return b"".join(
        [
            _fraction_bytes(datatype, flat[begin : begin + _PIECE], begin)
            for begin in range(0, flat.size, _PIECE)
        ]
    )


def little_endian(datatype: str) -> np.dtype[Any]:
    """Return the dtype of the raw bytes, independent of the machine."""
    return np.dtype(DATATYPES[datatype].numpy).newbyteorder("<")


def bf16_bytes(values: NDArray[np.float32]) -> bytes:
    """Return the upper halves of float32 values, which must not need rounding."""
    return (values.view(np.uint32) >> np.uint32(16)).astype("<u2").tobytes()


def _require_types(values: Sequence[Any], accepted: tuple[type, ...], expected: str) -> None:
    """Check the set of types before the elements: lists of a million numbers are common, wrong types are rare."""
    wrong = {
        kind
        for kind in set(map(type, values))
        if not issubclass(kind, accepted) or (kind is bool and bool not in accepted)
    }
    if wrong:
        index = next(i for i, value in enumerate(values) if type(value) in wrong)
        raise ElementError(index, expected, values[index])


def _encode_integers(datatype: str, values: Sequence[Any]) -> bytes:
    if len(values) <= _FEW and set(map(type, values)) == {int}:
        with contextlib.suppress(struct.error):  # out of range
            return struct.pack(f"<{len(values)}{DATATYPES[datatype].form}", *values)
    limits = np.iinfo(DATATYPES[datatype].numpy)
    lowest, highest = int(limits.min), int(limits.max)
    expected = f"an integer from {lowest} to {highest}"
    _require_types(values, (int,), expected)
    if values and (min(values) < lowest or max(values) > highest):
        index = next(i for i, value in enumerate(values) if not lowest <= value <= highest)
        raise ElementError(index, expected, values[index])
    return np.array(values, dtype=little_endian(datatype)).tobytes()


def _encode_floats(datatype: str, values: Sequence[Any]) -> bytes:
    _require_types(values, (int, float), "a number")
    try:
        wide = np.array(values, dtype=np.float64)
    except OverflowError:
        index = next(i for i, value in enumerate(values) if _overflows(value))
        raise ElementError(index, _range(datatype), values[index]) from None
    try:
        return encode_fractions(datatype, wide)
    except ElementError as error:
        raise ElementError(error.index, error.expected, values[error.index]) from None


def _fraction_bytes(datatype: str, values: NDArray[Any], first: int) -> bytes:
    """Encode a flat piece of an array that starts at element `first`."""
    wide = values.astype(np.float64)
    narrow = _narrow(datatype, wide)
    lost = np.isinf(narrow) & np.isfinite(wide)
    if lost.any():
        index = int(lost.argmax())
        raise ElementError(first + index, _range(datatype), values[index].item())
    if datatype == "BF16":
        return bf16_bytes(narrow)
    return narrow.astype(little_endian(datatype)).tobytes()


def _range(datatype: str) -> str:
    largest = _LARGEST_BF16 if datatype == "BF16" else float(np.finfo(DATATYPES[datatype].numpy).max)
    return f"a number from {-largest:.6g} to {largest:.6g}"


def _overflows(value: float) -> bool:
    try:
        float(value)
    except OverflowError:
        return True
    return False


def _narrow(datatype: str, wide: NDArray[np.float64]) -> NDArray[Any]:
    """Round once, to nearest with ties to even; a value that is too large becomes infinite."""
    with np.errstate(over="ignore"):
        if datatype == "BF16":
            return _round_to_bf16(wide).astype(np.float32)
        return wide.astype(DATATYPES[datatype].numpy)


def _round_to_bf16(wide: NDArray[np.float64]) -> NDArray[np.float64]:
    # Going through float32 would round twice: scale the last kept bit to 1, round, and scale back.
    exponent = np.frexp(wide)[1]
    last_bit = np.maximum(exponent - _BF16_SIGNIFICANT_BITS, _BF16_TINIEST_EXPONENT)
    rounded: NDArray[np.float64] = np.ldexp(np.rint(np.ldexp(wide, -last_bit)), last_bit)
    return rounded


def _encode_strings(values: Sequence[Any]) -> bytes:
    _require_types(values, (str, bytes), "a string")
    parts: list[bytes] = []
    for index, value in enumerate(values):
        try:
            element = value.encode() if isinstance(value, str) else value
        except UnicodeEncodeError:
            raise ElementError(index, "a string without lone surrogates", value) from None
        parts += (_LENGTH.pack(len(element)), element)
    return b"".join(parts)


def _spans(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each BYTES element, after its length."""
    position = number = 0
    while position < len(data):
        begin = position + _LENGTH.size
        if begin > len(data):
            raise ValueError(
                f"byte {position} starts a length of {_LENGTH.size} bytes, but the data ends there"
            )
        (length,) = _LENGTH.unpack_from(data, position)
        position = begin + length
        if position > len(data):
            raise ValueError(
                f"element {number} has a length of {length} bytes, but only {len(data) - begin} follow"
            )
        yield begin, position
        number += 1
