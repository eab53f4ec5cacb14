"""Random and zero data.

The same seed gives the same bytes on every machine and with every numpy: only raw words of PCG64 are drawn, whose
sequence numpy guarantees, and each tensor draws from its own stream, keyed by step and input name. So an input keeps
its values when another input is added or the pool grows.
"""

import math
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferometer.base.errors import UsageError
from inferometer.dataset.dataset import Step
from inferometer.dataset.shapes import Shape, dynamic_shape_error, format_shape, maybe_shape
from inferometer.model.numbers import DATATYPES, bf16_bytes, encode, little_endian
from inferometer.model.spec import Tensor, TensorSpec
from inferometer.options.names import option_name
from inferometer.options.options import DataOptions

POOL_BYTES = 64 << 20  # of all generated requests, if there is more than one
POOL_TENSORS = 16384  # tensors of all generated requests
_LARGEST_REQUEST = 4 << 30
_LARGEST_TENSOR = (2 << 30) - 1
_ALPHABET = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .?!"
_LENGTH_BYTES = 4
_FRACTIONS = {  # type of the drawn words, bits used of each, and float type of the result
    "FP16": ("<u2", 11, "<f2"),
    "BF16": ("<u2", 8, "<f4"),
    "FP32": ("<u4", 24, "<f4"),
    "FP64": ("<u8", 53, "<f8"),
}


def generate_steps(
    specs: tuple[TensorSpec, ...], options: DataOptions, origin: str, *, given: tuple[Step, ...] = ((),)
) -> tuple[Step, ...]:
    """Generate tensors of these inputs to complete the given steps: one step each, or a pool for a single given step.

    The pool is a single step if nothing varies.
    """
    if options.seed < 0:
        raise UsageError(f"{option_name('--seed')} must be 0 or more, but is {options.seed}")
    wanted = [(spec, _shape(spec, options)) for spec in specs]
    size = sum(_byte_size(spec, shape, options) for spec, shape in wanted)
    if size > _LARGEST_REQUEST:
        raise UsageError(
            f"the {len(wanted):,} inputs of a request would take {size:,} bytes, but a generated request holds at most "
            f"{_LARGEST_REQUEST:,}",
            remedy=f"give smaller shapes with {option_name('--shape')}, or shorter strings with "
            f"{option_name('--string-length')}",
        )
    count = len(given)
    if count == 1 and any(_varies(spec, options, origin) for spec in specs):
        most = min(options.pool, max(1, POOL_TENSORS // len(specs)))
        count = pool_size(most, size + sum(len(tensor.data) for tensor in given[0]))
    return tuple(
        tuple(
            Tensor(spec.name, spec.datatype, shape, _data(spec, shape, options, origin, number))
            for spec, shape in wanted
        )
        for number in range(count)
    )


def pool_size(wanted: int, request_bytes: int) -> int:
    """Return the number of requests of this size to hold in memory."""
    return max(1, min(wanted, POOL_BYTES // max(1, request_bytes)))


def _shape(spec: TensorSpec, options: DataOptions) -> Shape:
    if spec.is_shape_tensor:
        raise UsageError(
            f"input '{spec.name}' is a shape tensor, whose values cannot be generated",
            remedy=f"give them with {option_name('--input')} {spec.name}=VALUE,VALUE or in a JSON file with "
            f"{option_name('data.sources')}",
        )
    shape = maybe_shape(spec, options.shapes)
    if shape is None:
        raise dynamic_shape_error(spec)
    return shape


def _byte_size(spec: TensorSpec, shape: Shape, options: DataOptions) -> int:
    length = options.string_length if options.string_data is None else len(_string(options.string_data))
    size = math.prod(shape) * (DATATYPES[spec.datatype].size or _LENGTH_BYTES + length)
    if size > _LARGEST_TENSOR:
        raise UsageError(
            f"input '{spec.name}' of shape {format_shape(shape)} would take {size} bytes, "
            f"but a tensor holds at most {_LARGEST_TENSOR}",
            remedy=f"give a smaller shape with {option_name('--shape')}, or shorter strings with "
            f"{option_name('--string-length')}",
        )
    return size


def _varies(spec: TensorSpec, options: DataOptions, origin: str) -> bool:
    return options.string_data is None if spec.datatype == "BYTES" else origin == "random"


def _string(text: str) -> bytes:
    # Bytes of a command line that are not UTF-8 arrive as lone surrogates; this restores them.
    return text.encode(errors="surrogateescape")


def _data(spec: TensorSpec, shape: Shape, options: DataOptions, origin: str, step: int) -> bytes:
    elements = math.prod(shape)
    if spec.datatype == "BYTES" and options.string_data is not None:
        return encode("BYTES", (_string(options.string_data),)) * elements
    if spec.datatype != "BYTES" and origin == "zero":
        return bytes(elements * DATATYPES[spec.datatype].size)
    stream = np.random.PCG64(
        np.random.SeedSequence(options.seed, spawn_key=(step, zlib.crc32(spec.name.encode())))
    )
    if spec.datatype == "BYTES":
        return _strings(stream, elements, options.string_length)
    return _numbers(stream, elements, spec.datatype)


def _draw(stream: np.random.PCG64, count: int, dtype: str) -> NDArray[Any]:
    """Draw `count` words of an unsigned type, uniformly distributed."""
    width = np.dtype(dtype).itemsize
    words: NDArray[np.uint64] = stream.random_raw(math.ceil(count * width / 8))
    return words.astype("<u8").view(dtype)[:count]


def _numbers(stream: np.random.PCG64, count: int, datatype: str) -> bytes:
    """Draw integers of the full range, or fractions from 0 up to but excluding 1, as fine as the datatype allows near
    1."""
    if datatype in _FRACTIONS:
        words, bits, floats = _FRACTIONS[datatype]
        drawn = _fractions(_draw(stream, count, words), bits, floats)
        return bf16_bytes(drawn) if datatype == "BF16" else drawn.tobytes()
    drawn = _draw(stream, count, f"<u{little_endian(datatype).itemsize}")
    return (drawn & np.uint8(1) if datatype == "BOOL" else drawn).tobytes()


def _fractions(words: NDArray[Any], bits: int, dtype: str) -> NDArray[Any]:
    """Convert the top `bits` of each word to a fraction, which the float type represents exactly."""
    drop = words.dtype.type(words.dtype.itemsize * 8 - bits)
    result: NDArray[Any] = (words >> drop).astype(dtype) * np.dtype(dtype).type(2.0**-bits)
    return result


def _strings(stream: np.random.PCG64, count: int, length: int) -> bytes:
    letters = np.frombuffer(_ALPHABET, dtype=np.uint8)
    drawn = letters[_draw(stream, count * length, "<u2") % np.uint16(len(_ALPHABET))]
    table = np.empty((count, _LENGTH_BYTES + length), dtype=np.uint8)
    table[:, :_LENGTH_BYTES] = np.frombuffer(length.to_bytes(_LENGTH_BYTES, "little"), dtype=np.uint8)
    table[:, _LENGTH_BYTES:] = drawn.reshape(count, length)
    return table.tobytes()
