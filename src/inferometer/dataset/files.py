"""Inputs given individually on the command line, `NAME=@FILE` and `NAME=value,value`, or in a directory.

Given individually, each input has a list of tensors; request k takes the k-th of every list. A list with a single
tensor is used in all requests, and inputs that are not named get generated data.

A directory has one file per input and per expected output; the file's name is the tensor's. Numbers
are raw little-endian bytes of a batch-1 tensor, row-major; BYTES are text with one element per line.
"""

import glob
import math
import os
import os.path
import re
import shlex
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from inferometer.base.confined import check_path, maybe_folder
from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.reading import DATA, size_text
from inferometer.dataset.dataset import MOST_LINES, Dataset, Step, read_bytes, split_lines
from inferometer.dataset.generate import generate_steps
from inferometer.dataset.shapes import (
    Shape,
    data_shape,
    dynamic_shape_error,
    fits,
    format_shape,
    maybe_filled,
    maybe_shape,
    require_input,
    require_known_datatypes,
)
from inferometer.dataset.wav import WavError, parse_wav
from inferometer.model.numbers import DATATYPES, ElementError, encode, encode_fractions, little_endian
from inferometer.model.spec import ModelSpec, Tensor, TensorSpec
from inferometer.options.names import option_name
from inferometer.options.options import DataOptions


def read_files(model: ModelSpec, options: DataOptions, origin: str) -> Dataset:
    """Return one stream of the given tensors, completed with random or zero data."""
    given = _steps(_lists(model, options))
    named = {tensor.name for tensor in given[0]}
    rest = tuple(spec for spec in model.inputs if spec.name not in named)
    generated = generate_steps(rest, options, origin, given=given)
    order = {spec.name: position for position, spec in enumerate(model.inputs)}
    return Dataset(
        "files",
        (
            tuple(
                tuple(sorted((*given[number % len(given)], *step), key=lambda tensor: order[tensor.name]))
                for number, step in enumerate(generated)
            ),
        ),
    )


def _lists(model: ModelSpec, options: DataOptions) -> dict[str, list[Tensor]]:
    lists: dict[str, list[Tensor]] = {}
    for name, source in options.files:
        spec = require_input(model, name, option_name("--input"))
        lists.setdefault(name, []).extend(_tensors(spec, source, options.shapes))
    return lists


def _steps(lists: Mapping[str, list[Tensor]]) -> tuple[Step, ...]:
    lengths = {name: len(tensors) for name, tensors in lists.items()}
    count = max(lengths.values())
    if not set(lengths.values()) <= {1, count}:
        found = ", ".join(f"{length} for '{name}'" for name, length in lengths.items())
        raise UsageError(
            f"{option_name('--input')} gives different numbers of requests: {found}",
            remedy="give the same number of files or lines for each input, or one for all requests",
        )
    return tuple(
        tuple(tensors[number % len(tensors)] for tensors in lists.values()) for number in range(count)
    )


def _tensors(spec: TensorSpec, source: str, shapes: Mapping[str, Shape]) -> Iterator[Tensor]:
    shape = maybe_shape(spec, shapes)
    if source.startswith("@"):
        for path in _paths(spec, source[1:]):
            read = READERS.get(os.path.splitext(path)[1].lower(), read_raw)
            yield from read(Wanted(spec, path, shape))
        return
    if maybe_folder() is None and os.path.isfile(source):
        raise UsageError(
            f"{option_name('--input')} {spec.name}={source} is a value, but a file with that name exists",
            remedy=f"to send the file, write {option_name('--input')} "
            f"{shlex.quote(f'{spec.name}=@{source}')}",
        )
    yield read_literal(Wanted(spec, source, shape))


def _paths(spec: TensorSpec, pattern: str) -> list[str]:
    """Return the file with that name, or all files that match the pattern, sorted by name."""
    path = os.path.expanduser(pattern)
    check_path(path)
    if os.path.exists(path) and not os.path.isdir(path):
        return [path]
    found = sorted(match for match in glob.glob(path, recursive=True) if os.path.isfile(match))
    if found:
        return found
    if os.path.isdir(path):
        remedy = f"to send each file in it, write {option_name('--input')} {shlex.quote(f'{spec.name}=@{pattern}/*')}"
        raise UsageError(f"{option_name('--input')} {spec.name}=@{pattern} is a directory", remedy=remedy)
    raise UsageError(
        f"{option_name('--input')} {spec.name}=@{pattern}: there is no such file",
        remedy="give the path of a file after '@', or a pattern such as 'photos/*.jpg'",
    )


# --- file formats, by suffix: shape and datatype are checked, never changed silently

_FLOATS = ("FP16", "BF16", "FP32", "FP64")
_ARRAY_TYPES = {"BF16": "float32"}  # type to save for a datatype that numpy lacks
_BF16_BITS = np.dtype("V2")  # numpy's type for bfloat16 arrays of other packages
_BROKEN = (  # errors raised by the parsers of arrays and archives for a damaged file
    ValueError, TypeError, KeyError, EOFError, SyntaxError, RuntimeError, MemoryError, OSError, AttributeError,
    BadZipFile, TokenError, zlib.error, struct.error,
)  # fmt: skip
_ZIP, _NPY = b"PK", b"\x93NUMPY"
_INTEGER = re.compile(r"[+-]?[0-9]+")
_UNDECODED = "such files are sent as they are: decode and resize them first, for example to .npy"
_ONE_ELEMENT = (
    "each file or line is one element; for requests with several elements use a JSON file "
    f"({option_name('data.sources')})"
)
_BOOLEANS = {"true": True, "false": False}


@frozen
class Wanted:
    """The input, its source (a path, or the values themselves), and its shape if known."""

    spec: TensorSpec
    source: str
    shape: Shape | None

    @property
    def asked(self) -> Shape | None:
        """The shape from --shape, which takes precedence over that of the data."""
        return self.shape if self.spec.is_dynamic else None

    def misfit(self, found: str, *, remedy: str = "") -> UsageError:
        shape = format_shape(self.spec.shape if self.shape is None else self.shape)
        return UsageError(
            f"{self.source} does not fit input '{self.spec.name}', which takes {self.spec.datatype} of shape {shape}: "
            f"{found}",
            remedy=remedy,
        )

    def tensor(self, shape: Shape, data: bytes) -> Tensor:
        return Tensor(self.spec.name, self.spec.datatype, shape, data)


def read_raw(wanted: Wanted) -> list[Tensor]:
    """Read the bytes of the file: one element of BYTES, or binary numbers."""
    data = read_bytes(wanted.source)
    if wanted.spec.datatype == "BYTES":
        return [_flat(wanted, encode("BYTES", [data]), 1)]
    size = DATATYPES[wanted.spec.datatype].size
    if not data:
        raise wanted.misfit("the file is empty")
    if len(data) % size:
        raise wanted.misfit(
            f"its {len(data)} bytes are not a multiple of the element size of {size} bytes",
            remedy="raw files contain the numbers in binary, little-endian; or save an array as .npy",
        )
    return [_flat(wanted, data, len(data) // size, remedy=_UNDECODED)]


def read_text(wanted: Wanted) -> list[Tensor]:
    """Read a tensor of one element per line."""
    if wanted.spec.datatype == "UINT8":
        return read_raw(wanted)
    if wanted.spec.datatype != "BYTES":
        raise wanted.misfit(
            "text files are for BYTES inputs", remedy="save numbers as .npy, or put them into a JSON file"
        )
    lines = split_lines(read_bytes(wanted.source), wanted.source)
    if not lines:
        raise wanted.misfit("the file is empty", remedy="write one element per line")
    return [_flat(wanted, encode("BYTES", [line]), 1) for line in lines]


def read_npy(wanted: Wanted) -> list[Tensor]:
    """Read the array, or each of its rows if it has one dimension more than the input."""
    data = read_bytes(wanted.source)
    if data.startswith(_ZIP):
        raise wanted.misfit("it is an .npz file, not an .npy file")
    with _damaged(wanted, ".npy"):
        return _from_npy(wanted, lambda: BytesIO(data))


def read_npz(wanted: Wanted) -> list[Tensor]:
    """Read the array with the name of the input, or the only array in the file."""
    data = read_bytes(wanted.source)
    if data.startswith(_NPY):
        raise wanted.misfit("it is an .npy file, not an .npz file")
    with _damaged(wanted, ".npz"), ZipFile(BytesIO(data)) as archive:
        members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
        if wanted.spec.name not in members and len(members) != 1:
            raise wanted.misfit(
                f"none of its arrays has that name: {', '.join(members)[:200] if members else 'it is empty'}",
                remedy=f"save it with np.savez(file, **{{'{wanted.spec.name}': array}})",
            )
        member = members.get(wanted.spec.name, next(iter(members.values())))
        if member.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise wanted.misfit("numpy does not support its compression method")
        return _from_npy(wanted, lambda: archive.open(member))


def read_wav(wanted: Wanted) -> list[Tensor]:
    """Read the samples, frames first: integers unchanged, scaled to -1..1 for floats. BYTES inputs get the raw file."""
    datatype = wanted.spec.datatype
    if datatype in ("UINT8", "BYTES"):
        return read_raw(wanted)
    try:
        sound = parse_wav(read_bytes(wanted.source))
    except WavError as error:
        raise wanted.misfit(f"it is not a readable .wav file: {error}") from None
    if datatype in _FLOATS:
        data = _rounded(wanted, sound.fractions())
    elif sound.samples.dtype == little_endian(datatype) and sound.bits == 8 * DATATYPES[datatype].size:
        data = sound.samples.tobytes()
    else:
        raise wanted.misfit(f"it holds {sound.form} samples", remedy=_conversion(wanted))
    frames, channels = sound.samples.shape
    if channels == 1:
        return [_flat(wanted, data, frames)]
    return [wanted.tensor(_arranged(wanted, (frames, channels)), data)]


def read_literal(wanted: Wanted) -> Tensor:
    """Parse comma-separated values; a text is a single element."""
    spec = wanted.spec
    if spec.datatype == "BYTES":
        return _flat(wanted, encode("BYTES", [wanted.source.encode(errors="surrogateescape")]), 1)
    values = [_value(spec, text.strip()) for text in wanted.source.split(",")]
    try:
        data = encode(spec.datatype, values)
    except ElementError as error:
        raise UsageError(
            f"{option_name('--input')} {spec.name}={wanted.source}: element {error.index} must be "
            f"{error.expected} "
            f"({spec.datatype}), but is {wanted.source.split(',')[error.index]}",
            remedy=_as_values(wanted) if isinstance(error.found, str) else "",
        ) from None
    return _flat(wanted, data, len(values))


READERS = {
    ".npy": read_npy,
    ".npz": read_npz,
    ".txt": read_text,
    ".wav": read_wav,
}  # other files are sent as they are


@contextmanager
def _damaged(wanted: Wanted, ending: str) -> Iterator[None]:
    """Convert errors raised while reading an array or an archive."""
    try:
        yield
    except _BROKEN as error:
        raise wanted.misfit(f"it cannot be read as {ending}: {error}") from None


def _from_npy(wanted: Wanted, open_array: Callable[[], IO[bytes]]) -> list[Tensor]:
    """Return the tensors of an array. Its header is checked before its values are decompressed: few bytes can expand to
    very many."""
    with open_array() as file:
        shape, kind = _array_header(file)
    layout = _layout(wanted, shape)
    _check_kind(wanted, kind)
    _check_size(wanted, shape, kind, requests=layout[0])
    with open_array() as file:
        array = np.lib.format.read_array(file, allow_pickle=False)  # type: ignore[no-untyped-call]
    return [wanted.tensor(row.shape, _array_bytes(wanted, row)) for row in array.reshape(layout)]


def _array_header(file: IO[bytes]) -> tuple[Shape, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)  # type: ignore[no-untyped-call]
    # Version 3 differs from 2 only in the characters allowed in field names.
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, kind = read(file)  # type: ignore[no-untyped-call]
    if any(dim < 0 for dim in shape):
        raise ValueError("its shape has a negative dimension")
    return shape, kind


def _check_size(wanted: Wanted, shape: Shape, kind: np.dtype[Any], *, requests: int) -> None:
    elements = math.prod(shape)
    size = elements * max(kind.itemsize, 1)
    items = elements if wanted.spec.datatype == "BYTES" else requests
    if size > DATA or items > MOST_LINES:
        noun = "strings" if wanted.spec.datatype == "BYTES" else "requests"
        raise wanted.misfit(
            f"it holds {items:,} {noun} with {size:,} bytes, which exceeds the limit of {MOST_LINES:,} {noun} or "
            f"{size_text(DATA)}",
            remedy="save only a part of it",
        )


def _value(spec: TensorSpec, text: str) -> bool | int | float | str:
    """Parse the text as a value close to the datatype."""
    if spec.datatype == "BOOL":
        return _BOOLEANS.get(text.lower(), text)
    if _INTEGER.fullmatch(text) is not None and len(text) < 1000:
        return int(text)
    try:
        return float(text)
    except ValueError:
        return text


def _flat(wanted: Wanted, data: bytes, elements: int, *, remedy: str = "") -> Tensor:
    """Return a tensor from flat data; a single variable dimension adapts to its size."""
    spec = wanted.spec
    shape = maybe_filled(spec, elements) if wanted.shape is None else wanted.shape
    if shape is not None and math.prod(shape) == elements:
        return wanted.tensor(shape, data)
    if shape is None and sum(dim < 0 for dim in spec.shape) > 1:
        place = f" for the {elements} elements of {wanted.source}"
        raise dynamic_shape_error(spec, elements=elements, place=place)
    fixed = math.prod(dim for dim in spec.shape if dim >= 0)
    expected = f"a multiple of {fixed}" if shape is None else str(math.prod(shape))
    raise wanted.misfit(
        f"it has {elements} elements, expected {expected}",
        remedy=_ONE_ELEMENT if spec.datatype == "BYTES" else remedy,
    )


def _layout(wanted: Wanted, shape: Shape) -> Shape:
    """Return the array's shape with the requests as the first dimension."""
    asked = wanted.asked

    def suits(found: Shape) -> bool:
        return fits(found, wanted.spec) if asked is None else found == asked

    if suits(shape):
        return (1, *shape)
    if shape and shape[0] and suits(shape[1:]):
        return shape
    if asked is not None and math.prod(asked) == math.prod(shape):
        return (1, *asked)
    raise wanted.misfit(
        f"it holds an array of shape {format_shape(shape)}",
        remedy="reshape it; an extra first dimension means several requests",
    )


def _check_kind(wanted: Wanted, kind: np.dtype[Any]) -> None:
    datatype, kind = wanted.spec.datatype, kind.newbyteorder("=")
    if datatype == "BYTES":
        if kind.kind not in "SU":
            remedy = "save an array of strings: np.array([...], dtype='S')"
            raise wanted.misfit(f"it holds {kind.name}", remedy=remedy)
        return
    saved = _ARRAY_TYPES.get(datatype, DATATYPES[datatype].numpy)
    if kind != np.dtype(saved) and not (datatype == "BF16" and kind == _BF16_BITS):
        raise wanted.misfit(f"it holds {kind.name}", remedy=f"save it with .astype('{saved}')")


def _array_bytes(wanted: Wanted, array: NDArray[Any]) -> bytes:
    datatype, kind = wanted.spec.datatype, array.dtype.newbyteorder("=")
    if datatype == "BYTES":
        try:
            return encode("BYTES", array.reshape(-1).tolist())
        except (SystemError, ValueError) as error:  # raised for code points that are not characters
            raise wanted.misfit(f"its strings cannot be decoded: {error}", remedy="save it again") from error
    if datatype == "BF16" and kind == _BF16_BITS:
        return array.tobytes()
    return _rounded(wanted, array) if datatype == "BF16" else array.astype(little_endian(datatype)).tobytes()


def _rounded(wanted: Wanted, values: NDArray[Any]) -> bytes:
    try:
        return encode_fractions(wanted.spec.datatype, values)
    except ElementError as error:
        raise wanted.misfit(f"element {error.index} must be {error.expected}, but is {error.found}") from None


def _arranged(wanted: Wanted, shape: Shape) -> Shape:
    """Return the shape of shaped data as the input requires it."""
    asked = wanted.asked
    if asked is None and fits(shape, wanted.spec):
        return shape
    if asked is not None and math.prod(asked) == math.prod(shape):
        return asked
    raise wanted.misfit(
        f"it holds samples of shape {format_shape(shape)}, which means frames by channels",
        remedy=f"mix it down to mono, or give the shape with {option_name('--shape')}",
    )


def _conversion(wanted: Wanted) -> str:
    codec = {"INT16": "pcm_s16le", "INT32": "pcm_s32le"}.get(wanted.spec.datatype)
    if codec is None:
        return "sound files are for INT16, INT32 and float inputs; for other inputs use .npy"
    return f"convert it: ffmpeg -i {shlex.quote(wanted.source)} -c:a {codec} converted.wav"


def _as_values(wanted: Wanted) -> str:
    """Return how to write values that are not numbers: with commas between them, or as a file."""
    name, source = wanted.spec.name, wanted.source
    numbers = re.split(r"[;\s]+", source)
    if len(numbers) > 1 and all(re.fullmatch(r"[-+0-9.eE]+", number) for number in numbers):
        return f"separate numbers with commas: {option_name('--input')} {name}={','.join(numbers)}"
    return f"to send a file, write {option_name('--input')} {shlex.quote(f'{name}=@{source}')}"


# --- a directory


def read_directory(model: ModelSpec, directory: str, shapes: Mapping[str, Shape]) -> Dataset:
    """Read a directory as one stream of one step. Outputs without a file are not checked."""
    names = _names(directory)
    _require_known(model, directory, names)
    for spec in model.inputs:
        if spec.name not in names and not spec.optional:
            raise UsageError(
                f"missing tensor {spec.name} in {directory}: expected a file for each of "
                f"{', '.join(spec.name for spec in model.inputs)}, found {', '.join(names) or 'none'}"
            )
    step = tuple(
        _tensor(spec, "input", Path(directory, spec.name), shapes)
        for spec in model.inputs
        if spec.name in names
    )
    checked = [spec for spec in model.outputs if spec.name in names]
    require_known_datatypes(model.name, "output", checked)
    outputs: Step = tuple(_tensor(spec, "output", Path(directory, spec.name), {}) for spec in checked)
    return Dataset("directory", ((step,),), expected=((outputs,),) if outputs else None)


def _names(directory: str) -> list[str]:
    check_path(directory)
    try:
        found = sorted(path.name for path in Path(directory).iterdir())
    except OSError as error:
        raise UsageError(f"cannot read the directory {directory}: {error.strerror or error}") from None
    return [
        name for name in found if not name.startswith(".")
    ]  # such as .inferometer, which has the stored runs


def _require_known(model: ModelSpec, directory: str, names: list[str]) -> None:
    known = [spec.name for spec in (*model.inputs, *model.outputs)]
    for name in names:
        if name not in known:
            raise UsageError(
                f"Provided data file '{name}' does not correspond to a valid model input or output.",
                remedy=f"take it out of {directory}, or name it after one of {', '.join(known)}",
            )


def _tensor(spec: TensorSpec, noun: str, path: Path, shapes: Mapping[str, Shape]) -> Tensor:
    data, is_bytes = read_bytes(path), spec.datatype == "BYTES"
    if is_bytes:
        lines = split_lines(data, path)
        data, elements = encode("BYTES", lines), len(lines)
    else:
        elements = len(data) // DATATYPES[spec.datatype].size
    shape = data_shape(spec, elements, shapes, is_input=noun == "input", place=f" in {path}")
    where = f"file {path}, for which the model takes {spec.datatype} of shape {format_shape(shape)}"
    expected = math.prod(shape)
    if is_bytes and elements != expected:
        raise UsageError(
            f"provided data for {noun} {spec.name} has {elements} elements, expect {expected}: {where}",
            remedy="write one element per line",
        )
    size = expected * DATATYPES[spec.datatype].size
    if not is_bytes and len(data) != size:
        raise UsageError(
            f"provided data for {noun} {spec.name} has byte size {len(data)}, expect {size}: {where}"
        )
    return Tensor(spec.name, spec.datatype, shape, data)
