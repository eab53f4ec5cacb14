"""Data files: an object whose `data` is a list of steps (one stream) or a list of lists of steps (streams).

A step maps input names to values, and a value is one of

    [1, 2, 3, 4]                                  flat, row-major
    {"content": [1, 2, 3, 4], "shape": [2, 2]}
    {"b64": "AQAAAA=="}                           raw little-endian bytes; "shape" is optional
    {"content": {"b64": "AQAAAA=="}, "shape": [1]}

Optional `validation_data`, of the same form and lengths, contains the expected outputs of each step; outputs that a
step does not name are not compared. With a fixed schedule each step also has a send time: `"timestamp": [250]`,
in milliseconds after the start.

Tensors are built while the file is read, so that memory holds little else. Every error begins with the classic tool's
phrase, followed by the position: file, stream, step, tensor, expected, found.
"""

import binascii
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from itertools import zip_longest
from typing import Any

from inferometer.base.confined import check_path
from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.reading import STREAMED, opened
from inferometer.dataset.dataset import AS_JSON, DATA_FILE, MALFORMED, UNPARSED, Dataset, Step, add_streams
from inferometer.dataset.json_reader import JsonError, JsonReader
from inferometer.dataset.shapes import Shape, data_shape, fits, format_shape, require_known_datatypes
from inferometer.model.numbers import DATATYPES, ElementError, count, encode
from inferometer.model.spec import ModelSpec, Tensor, TensorSpec

_ELEMENT_NAMES = {  # for integers: uint8_t etc.
    "BOOL": "bool",
    "FP16": "half",
    "BF16": "bfloat16",
    "FP32": "float",
    "FP64": "double",
    "BYTES": "string",
}
_IGNORED_KEY = "model"
_TIMESTAMP = "timestamp"


@frozen
class _Part:
    """One of the two parts of a file: its field, and the tensors of the model that it may name."""

    file: str
    field: str
    noun: str  # input or output
    model: str
    specs: tuple[TensorSpec, ...]
    shapes: Mapping[str, Shape]
    is_scheduled: bool = False

    @property
    def is_data(self) -> bool:
        return self.field == "data"

    def error(self, detail: str, *, remedy: str = "") -> UsageError:
        return UsageError(f"{MALFORMED} {self.file}: {detail}", remedy=remedy)


@frozen
class _Place:
    """Position in the data files; IDs count within the file."""

    part: _Part
    stream: int
    step: int
    tensor: str = ""

    def __str__(self) -> str:
        tensor = f" for tensor '{self.tensor}'" if self.tensor else ""
        field = "" if self.part.is_data else f"'{self.part.field}' of "
        return (
            f" ( Location stream id: {self.stream}, step id: {self.step}){tensor} in {field}{self.part.file}"
        )

    def error(self, phrase: str, detail: str = "", *, remedy: str = "") -> UsageError:
        return UsageError(f"{phrase}{self}{': ' if detail else ''}{detail}", remedy=remedy)


@frozen
class _Content:
    """Content of one part of a file; a flat list is a single stream."""

    is_nested: bool
    streams: list[list[Step]]
    times_ms: list[float]  # of a fixed schedule


def read_json(
    model: ModelSpec, paths: Sequence[str], shapes: Mapping[str, Shape], *, is_scheduled: bool = False
) -> Dataset:
    """Read the streams of all files."""
    streams: list[list[Step]] = []
    expected: list[list[Step]] = []
    times_ms: list[float] = []
    is_checked = False
    for path in paths:
        data, outputs = _read(model, path, shapes, is_scheduled=is_scheduled)
        times_ms += data.times_ms
        is_checked = is_checked or outputs is not None
        unchecked: list[list[Step]] = [[()] * len(stream) for stream in data.streams]
        checks = unchecked if outputs is None else outputs.streams
        add_streams(streams, data.streams, is_nested=data.is_nested)
        add_streams(expected, checks, is_nested=data.is_nested)
    return Dataset(
        "json",
        tuple(map(tuple, streams)),
        expected=tuple(map(tuple, expected)) if is_checked else None,
        times_ms=tuple(times_ms) if is_scheduled else None,
    )


def read_step(model: ModelSpec, text: bytes, origin: str, shapes: Mapping[str, Shape]) -> Step:
    """Read a single step in the form of a data file; every error names `origin`."""
    part = _Part(origin, "data", "input", model.name, model.inputs, shapes)
    try:
        return _step(_Place(part, 0, 0), JsonReader(BytesIO(text)))[0]
    except JsonError as error:
        raise UsageError(f"{origin} is not JSON: {error}") from None


def _read(
    model: ModelSpec, path: str, shapes: Mapping[str, Shape], *, is_scheduled: bool
) -> tuple[_Content, _Content | None]:
    """Read the content under `data`, and under `validation_data` if present."""
    check_path(path)
    try:
        with opened(path, STREAMED, DATA_FILE) as file:
            data = _Part(path, "data", "input", model.name, model.inputs, shapes, is_scheduled)
            return _document(model, data, JsonReader(file))
    except JsonError as error:
        raise UsageError(f"{UNPARSED.format(path)}{error}", remedy=AS_JSON) from None


def _document(model: ModelSpec, part: _Part, reader: JsonReader) -> tuple[_Content, _Content | None]:
    path = part.file
    data: _Content | None = None
    outputs: _Content | None = None
    if reader.peek() != "{":
        reader.value()
    else:
        for key in reader.names():
            if key == "data":
                data = _content(part, reader)
            elif key == "validation_data":
                require_known_datatypes(model.name, "output", model.outputs)
                outputs = _content(_Part(path, key, "output", model.name, model.outputs, {}), reader)
            else:
                reader.value()
        reader.end()
    if data is None:
        raise UsageError(
            f"The json file doesn't contain data field: {path}", remedy='write {"data": [{"INPUT": [1, 2]}]}'
        )
    if outputs is not None:
        _require_aligned(path, data, outputs)
    return data, outputs


def _require_aligned(path: str, data: _Content, outputs: _Content) -> None:
    pairs = zip_longest(map(len, data.streams), map(len, outputs.streams), fillvalue=0)
    unequal = next(((number, *pair) for number, pair in enumerate(pairs) if pair[0] != pair[1]), None)
    if unequal is not None:
        stream, steps, checks = unequal
        reason = f"stream {stream} has {steps} steps in 'data', but {checks} in 'validation_data'"
    elif data.is_nested != outputs.is_nested:
        reason = "one is a list of steps, the other a list of streams"
    else:
        return
    raise UsageError(
        f"The 'validation_data' field doesn't align with 'data' field in the json file {path}: {reason}",
        remedy="give the expected outputs of every step, in lists of the same form",
    )


def _content(part: _Part, reader: JsonReader) -> _Content:
    if reader.peek() != "[":
        raise part.error(f"'{part.field}' must be a list, but is {_describe(reader.glance())}")
    streams: list[list[Step]] = []
    times_ms: list[float] = []
    kinds: set[str] = set()
    for number in reader.items():
        kind = reader.peek()
        kinds.add(kind)
        if kinds == {"{"}:
            streams = streams or [[]]
            step, time_ms = _step(_Place(part, 0, number), reader)
            streams[0].append(step)
            times_ms.append(time_ms)
        elif kinds == {"["}:
            if part.is_scheduled:
                raise part.error("a fixed schedule needs one flat list of steps, but 'data' holds lists")
            streams.append(_stream(part, number, reader))
        else:
            found = reader.glance()
            raise part.error(
                f"'{part.field}' mixes objects and lists"
                if isinstance(found, (dict, list))
                else f"entry {number} of '{part.field}' is {_describe(found)}",
                remedy="write a list of objects (the steps of one stream) or a list of lists of objects (streams)",
            )
    if not streams and part.is_data:
        raise part.error("'data' is empty", remedy="give at least one step")
    return _Content("[" in kinds, streams, times_ms)


def _stream(part: _Part, stream: int, reader: JsonReader) -> list[Step]:
    steps = [_step(_Place(part, stream, number), reader)[0] for number in reader.items()]
    if not steps and part.is_data:
        raise part.error(f"stream {stream} is empty", remedy="give it at least one step")
    return steps


def _step(place: _Place, reader: JsonReader) -> tuple[Step, float]:
    """Read a step, and its send time if there is a schedule."""
    if reader.peek() != "{":
        raise place.error(MALFORMED, f"a step must be an object, but is {_describe(reader.glance())}")
    specs = {spec.name: spec for spec in place.part.specs}
    found: dict[str, Tensor] = {}
    time_ms: float | None = None
    for name in reader.names():
        if name == _TIMESTAMP and place.part.is_scheduled:
            time_ms = _time_ms(replace(place, tensor=name), reader.value())
        elif name in specs:
            found[name] = _tensor(specs[name], replace(place, tensor=name), reader)
        elif name == _IGNORED_KEY:
            reader.value()
        else:
            raise place.error(
                f"The input or output '{name}' is not found in the model configuration",
                f"expected {place.part.noun}s of model '{place.part.model}': {', '.join(specs)}",
            )
    for name, spec in specs.items():
        if place.part.is_data and name not in found and not spec.optional:
            named = ", ".join(found) if found else "none"
            raise place.error(f"missing tensor {name}", f"expected all of {', '.join(specs)}, found {named}")
    if time_ms is None and place.part.is_scheduled:
        raise place.error(f"missing tensor {_TIMESTAMP}", "with a fixed schedule every step needs one")
    return tuple(found[name] for name in specs if name in found), time_ms or 0.0


def _time_ms(place: _Place, value: Any) -> float:
    time = value[0] if isinstance(value, list) and len(value) == 1 else value
    if type(time) not in (int, float) or not 0 <= time < math.inf:
        raise place.error(MALFORMED, f"expected milliseconds, 0 or more, as in [250], found {_brief(value)}")
    return float(time)


def _tensor(spec: TensorSpec, place: _Place, reader: JsonReader) -> Tensor:
    begin = reader.peek()
    if begin == "[":
        return _finished(spec, place, _from_list(spec, place, reader), None)
    if begin != "{":
        raise place.error(MALFORMED, f"expected a list or an object, found {_describe(reader.glance())}")
    data: bytes | None = None
    shape: Shape | None = None
    for key in reader.names():
        if key == "shape":
            shape = _checked(spec, place, reader.value())
        elif key not in ("content", "b64"):
            raise place.error(MALFORMED, f"the key '{key}' is not content, b64 or shape")
        elif data is not None:
            raise place.error(MALFORMED, "'content' and 'b64' cannot both be given")
        else:
            data = _from_content(spec, place, reader) if key == "content" else _from_b64(place, reader)
    if data is None:
        raise place.error("missing content field.", "expected 'content' or 'b64'")
    return _finished(spec, place, data, shape)


def _from_content(spec: TensorSpec, place: _Place, reader: JsonReader) -> bytes:
    begin = reader.peek()
    if begin == "[":
        return _from_list(spec, place, reader)
    if begin != "{":
        found = _describe(reader.glance())
        raise place.error(MALFORMED, f"expected 'content' to be a list or an object, found {found}")
    data: bytes | None = None
    for key in reader.names():
        if key != "b64":
            data = None
            break
        data = _from_b64(place, reader)
    if data is None:
        raise place.error("missing b64 field.", "an object as 'content' must have the key 'b64' and no other")
    return data


def _from_b64(place: _Place, reader: JsonReader) -> bytes:
    if reader.peek() != '"':
        raise place.error(MALFORMED, f"expected 'b64' to be a string, found {_describe(reader.glance())}")
    decoded = BytesIO()
    rest = ""
    try:
        for piece in reader.pieces():
            text = rest + "".join(piece.split())
            # The last four may contain padding and are decoded at the end.
            whole = max(0, len(text) - 1) // 4 * 4
            if "=" in text[:whole]:
                raise ValueError("Excess data after padding")
            decoded.write(binascii.a2b_base64(text[:whole], strict_mode=True))
            rest = text[whole:]
        decoded.write(binascii.a2b_base64(rest, strict_mode=True))
    except JsonError:
        raise
    except ValueError as error:
        raise place.error("invalid base64 data in json", str(error)) from None
    return decoded.getvalue()


def _from_list(spec: TensorSpec, place: _Place, reader: JsonReader) -> bytes:
    encoded = BytesIO()  # getbuffer() does not copy
    before = 0
    for values in reader.runs():
        try:
            encoded.write(encode(spec.datatype, values))
            _require_no_overflow(values)
        except ElementError as error:
            name = _ELEMENT_NAMES.get(spec.datatype, f"{spec.datatype.lower()}_t")
            raise place.error(
                f"unable to find {name} data in json",
                f"element {before + error.index} must be {error.expected} ({spec.datatype}), "
                f"but is {_describe(error.found)}",
                remedy="write the elements as one flat list" if isinstance(error.found, list) else "",
            ) from None
        before += len(values)
    return encoded.getvalue()


def _require_no_overflow(values: list[Any]) -> None:
    if math.inf not in values and -math.inf not in values:
        return
    for index, value in enumerate(values):
        if type(value) is float and math.isinf(value):
            raise ElementError(index, "a number that fits a double", value)


def _finished(spec: TensorSpec, place: _Place, data: bytes, written: Shape | None) -> Tensor:
    """Check the size and return the tensor."""
    elements = _count(spec, place, data)
    part, shape = place.part, written
    if shape is None:
        shape = data_shape(spec, elements, part.shapes, is_input=part.is_data, place=str(place))
    expected, unit, found = math.prod(shape) * DATATYPES[spec.datatype].size, "bytes", len(data)
    if spec.datatype == "BYTES":
        expected, unit, found = math.prod(shape), "elements", elements
    if found != expected:
        raise place.error(
            f"mismatch in the data provided for {spec.name}. Expected: {expected} {unit}, Got: {found} {unit}",
            f"shape {format_shape(shape)} of {spec.datatype} has {math.prod(shape)} elements",
        )
    return Tensor(spec.name, spec.datatype, shape, data)


def _count(spec: TensorSpec, place: _Place, data: bytes) -> int:
    """Return the number of whole elements in the data; a remainder shows up as a wrong size."""
    if spec.datatype != "BYTES":
        return len(data) // DATATYPES[spec.datatype].size
    try:
        return count("BYTES", data)
    except ValueError as error:
        raise place.error(
            f"mismatch in the data provided for {spec.name}.",
            f"each BYTES element must be preceded by its length, 4 bytes little-endian; {error}",
        ) from None


def _checked(spec: TensorSpec, place: _Place, shape: Any) -> Shape:
    if not isinstance(shape, list) or any(type(dim) is not int or dim < 0 for dim in shape):
        raise place.error(MALFORMED, f"expected 'shape' to be a list of integers, found {_brief(shape)}")
    if not fits(tuple(shape), spec):
        noun = place.part.noun
        raise place.error(
            f'The supplied shape of {format_shape(shape)} for {noun} "{spec.name}" is incompatible with the '
            f"model's {noun} shape of {format_shape(spec.shape)}"
        )
    return tuple(shape)


def _describe(value: Any) -> str:
    """Describe a JSON value in a few words."""
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    return _brief(value)


def _brief(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
