"""Data files: an object whose `data` is a list of steps (one stream) or a list of lists of steps (streams).

A step maps input names to values, and a value is one of

    [1, 2, 3, 4]                                  flat, row-major
    {"content": [1, 2, 3, 4], "shape": [2, 2]}
    {"b64": "AQAAAA=="}                           raw little-endian bytes; "shape" may stand beside it
    {"content": {"b64": "AQAAAA=="}, "shape": [1]}

Every error keeps the phrase of contract 5.11, then says where: file, stream, step, tensor, expected, found.
"""

import base64
import binascii
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.dataset.dataset import Dataset, Step
from inferometer.dataset.shapes import Shape, dynamic_shape_error, fits, format_shape, maybe_shape
from inferometer.model.datatypes import DATATYPES
from inferometer.model.numbers import ElementError, decode, encode
from inferometer.model.spec import ModelSpec, TensorSpec
from inferometer.model.tensor import Tensor

_ELEMENT_NAMES = {
    "BOOL": "bool",
    "UINT8": "uint8_t",
    "UINT16": "uint16_t",
    "UINT32": "uint32_t",
    "UINT64": "uint64_t",
    "INT8": "int8_t",
    "INT16": "int16_t",
    "INT32": "int32_t",
    "INT64": "int64_t",
    "FP16": "half",
    "BF16": "bfloat16",
    "FP32": "float",
    "FP64": "double",
    "BYTES": "string",
}
_IGNORED_KEY = "model"
_TENSOR_KEYS = frozenset({"content", "b64", "shape"})
_MALFORMED = "Input data file is malformed."


class _Constant(float):
    """NaN or Infinity as written. A plain float that is infinite was a number too large for a double."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the files something stands; ids count within the file."""

    file: str
    stream: int
    step: int
    tensor: str = ""

    def __str__(self) -> str:
        tensor = f" for tensor '{self.tensor}'" if self.tensor else ""
        return f" ( Location stream id: {self.stream}, step id: {self.step}){tensor} in {self.file}"

    def error(self, phrase: str, detail: str = "", *, remedy: str = "") -> UsageError:
        return UsageError(f"{phrase}{self}{': ' if detail else ''}{detail}", remedy=remedy)


def read_json(model: ModelSpec, paths: Sequence[str], shapes: Mapping[str, Shape]) -> Dataset:
    """The streams of all files: flat files add steps to stream 0, nested files add streams."""
    streams: list[list[Step]] = []
    for path in paths:
        data = _load(path)
        if _is_nested(path, data):
            streams += [_steps(model, shapes, path, number, steps) for number, steps in enumerate(data)]
        else:
            streams = streams or [[]]
            streams[0] += _steps(model, shapes, path, 0, data)
    return Dataset("json", tuple(map(tuple, streams)))


def _load(path: str) -> list[Any]:
    """What the file holds under `data`."""
    document = _parse(path)
    if not isinstance(document, dict) or "data" not in document:
        raise UsageError(
            f"The json file doesn't contain data field: {path}", remedy='write {"data": [{"INPUT": [1, 2]}]}'
        )
    if "validation_data" in document:
        raise UsageError(
            f"{path} has the field 'validation_data', which is not supported yet", remedy="take the field out"
        )
    data = document["data"]
    if not isinstance(data, list):
        raise UsageError(f"{_MALFORMED} {path}: 'data' must be a list, but is {_describe(data)}")
    if not data:
        raise UsageError(f"{_MALFORMED} {path}: 'data' is empty", remedy="give at least one step")
    return data


def _parse(path: str) -> Any:
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the data file {path}: {error.strerror or error}") from None
    try:
        return json.loads(text, parse_constant=_Constant, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        reason = f"{path}, line {error.lineno}, column {error.colno}: {error.msg}"
    except UnicodeDecodeError as error:
        reason = f"{path}, byte {error.start}: not UTF-8 text"
    except RecursionError:
        reason = f"{path}: nested too deeply"
    except ValueError as error:
        reason = f"{path}: {error}"
    raise UsageError(f"failed to parse the specified json file for reading provided data: {reason}")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A dict of the pairs; a key that comes twice would lose data silently."""
    result = dict(pairs)
    if len(result) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key '{twice}' appears twice in one object")
    return result


def _is_nested(path: str, data: list[Any]) -> bool:
    kinds = set(map(type, data))
    if kinds == {list}:
        return True
    if kinds == {dict}:
        return False
    if kinds == {dict, list}:
        reason = "'data' mixes objects and lists"
    else:
        number = next(i for i, entry in enumerate(data) if not isinstance(entry, (dict, list)))
        reason = f"entry {number} of 'data' is {_describe(data[number])}"
    raise UsageError(
        f"{_MALFORMED} {path}: {reason}",
        remedy="write a list of objects (the steps of one stream) or a list of lists of objects (streams)",
    )


def _steps(
    model: ModelSpec, shapes: Mapping[str, Shape], path: str, stream: int, steps: list[Any]
) -> list[Step]:
    if not steps:
        raise UsageError(f"{_MALFORMED} {path}: stream {stream} is empty", remedy="give it at least one step")
    return [_step(model, shapes, _Place(path, stream, number), step) for number, step in enumerate(steps)]


def _step(model: ModelSpec, shapes: Mapping[str, Shape], place: _Place, step: Any) -> Step:
    if not isinstance(step, dict):
        raise place.error(_MALFORMED, f"a step must be an object, but is {_describe(step)}")
    names = [spec.name for spec in model.inputs]
    for name in step:
        if name not in names and name != _IGNORED_KEY:
            raise place.error(
                f"The input or output '{name}' is not found in the model configuration",
                f"expected inputs of model '{model.name}': {', '.join(names)}",
            )
    missing = [spec.name for spec in model.inputs if spec.name not in step and not spec.optional]
    if missing:
        found = ", ".join(step) if step else "none"
        raise place.error(
            f"missing tensor {missing[0]}", f"expected all of {', '.join(names)}, found {found}"
        )
    return tuple(
        _tensor(spec, shapes, _Place(place.file, place.stream, place.step, spec.name), step[spec.name])
        for spec in model.inputs
        if spec.name in step
    )


def _tensor(spec: TensorSpec, shapes: Mapping[str, Shape], place: _Place, value: Any) -> Tensor:
    content, written_shape = _split(place, value)
    if isinstance(content, str):
        data = _from_b64(place, content)
        elements = _count(spec, place, data)
    else:
        data = _from_list(spec, place, content)
        elements = len(content)
    shape = maybe_shape(spec, shapes) if written_shape is None else _checked(spec, place, written_shape)
    if shape is None:
        raise dynamic_shape_error(spec, elements=elements, place=str(place))
    _require_size(spec, place, shape, elements, len(data))
    return Tensor(spec.name, spec.datatype, shape, data)


def _split(place: _Place, value: Any) -> tuple[list[Any] | str, Any]:
    """The elements, or their base64 text, and the shape beside them if there is one."""
    if isinstance(value, list):
        return value, None
    if not isinstance(value, dict):
        raise place.error(_MALFORMED, f"expected a list or an object, found {_describe(value)}")
    unknown = sorted(value.keys() - _TENSOR_KEYS)
    if unknown:
        raise place.error(_MALFORMED, f"the key '{unknown[0]}' is none of content, b64 and shape")
    if "content" in value and "b64" in value:
        raise place.error(_MALFORMED, "'content' and 'b64' cannot both be given")
    if "content" not in value and "b64" not in value:
        raise place.error("missing content field.", "expected 'content' or 'b64'")
    if "shape" in value and value["shape"] is None:
        raise place.error(_MALFORMED, "expected 'shape' to be a list of integers, found null")
    content = value.get("content", value)
    if isinstance(content, list):
        return content, value.get("shape")
    if not isinstance(content, dict):
        raise place.error(
            _MALFORMED, f"expected 'content' to be a list or an object, found {_describe(content)}"
        )
    if content is not value and content.keys() != {"b64"}:
        raise place.error("missing b64 field.", "an object as 'content' must have the key 'b64' and no other")
    text = content["b64"]
    if not isinstance(text, str):
        raise place.error(_MALFORMED, f"expected 'b64' to be a string, found {_describe(text)}")
    return text, value.get("shape")


def _from_b64(place: _Place, text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise place.error("invalid base64 data in json", str(error)) from None


def _from_list(spec: TensorSpec, place: _Place, values: list[Any]) -> bytes:
    try:
        data = encode(spec.datatype, values)
        _require_no_overflow(values)
    except ElementError as error:
        raise place.error(
            f"unable to find {_ELEMENT_NAMES[spec.datatype]} data in json",
            f"element {error.index} must be {error.expected} ({spec.datatype}), "
            f"but is {_describe(error.found)}",
            remedy="write the elements as one flat list" if isinstance(error.found, list) else "",
        ) from None
    return data


def _require_no_overflow(values: list[Any]) -> None:
    if math.inf not in values and -math.inf not in values:
        return
    for index, value in enumerate(values):
        if type(value) is float and math.isinf(value):
            raise ElementError(index, "a number that fits a double", value)


def _count(spec: TensorSpec, place: _Place, data: bytes) -> int:
    """Whole elements in the data; what is left over shows as a wrong size."""
    if spec.datatype != "BYTES":
        return len(data) // DATATYPES[spec.datatype].size
    try:
        return len(decode("BYTES", data))
    except ValueError as error:
        raise place.error(
            f"mismatch in the data provided for {spec.name}.",
            f"BYTES elements need their length, 4 bytes little-endian, before them; {error}",
        ) from None


def _checked(spec: TensorSpec, place: _Place, shape: Any) -> Shape:
    if not isinstance(shape, list) or any(type(dim) is not int or dim < 0 for dim in shape):
        raise place.error(_MALFORMED, f"expected 'shape' to be a list of integers, found {_brief(shape)}")
    if not fits(tuple(shape), spec):
        raise place.error(
            f'The supplied shape of {format_shape(shape)} for input "{spec.name}" is incompatible with the '
            f"model's input shape of {format_shape(spec.shape)}"
        )
    return tuple(shape)


def _require_size(spec: TensorSpec, place: _Place, shape: Shape, elements: int, size: int) -> None:
    expected, unit, found = math.prod(shape) * DATATYPES[spec.datatype].size, "bytes", size
    if spec.datatype == "BYTES":
        expected, unit, found = math.prod(shape), "elements", elements
    if expected == found:
        return
    raise place.error(
        f"mismatch in the data provided for {spec.name}. Expected: {expected} {unit}, Got: {found} {unit}",
        f"shape {format_shape(shape)} of {spec.datatype} has {math.prod(shape)} elements",
    )


def _describe(value: Any) -> str:
    """A JSON value in a few words."""
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    return _brief(value)


def _brief(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
