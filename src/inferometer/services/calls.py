"""Requests generated while the load runs, for visits: from values to bytes, and from replies to answers.

Each class generates the calls of one step (`StepCaller`); instances are sent to the workers, so they must pickle.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from inferometer.base.errors import PeerError, UsageError
from inferometer.base.frozen import frozen
from inferometer.model.numbers import ElementError, encode, flat
from inferometer.model.spec import ModelSpec, Tensor, TensorSpec
from inferometer.model.visit import Call, VisitAnswer
from inferometer.services.endpoint import Connection
from inferometer.services.kserve import OUTPUTS, RAW_CONTENTS, grpc_tensors, http_tensors
from inferometer.services.traffic import render_http
from inferometer.wire.protobuf import fields

MOST_KEPT = 1024  # cached layouts of requests and of answers; texts may have any length

_Layout = tuple[str, str, tuple[int, ...], int]
"""Name, datatype and shape of an output, and for HTTP its number of bytes."""


class Rendering(Protocol):
    """Renderer of a request with tensors to bytes."""

    def __call__(self, step: Sequence[Tensor]) -> bytes: ...


@frozen
class KeptHeads:
    """Cache of request heads: the part before the values is the same for all values of equal sizes."""

    whole: Rendering
    value: Callable[[bytes], bytes]  # encoding of a value at the end of the request
    _heads: dict[Any, bytes] = field(default_factory=dict, compare=False)

    def __call__(self, step: Sequence[Tensor]) -> bytes:
        key = tuple([(tensor.name, tensor.shape, len(tensor.data)) for tensor in step])
        tail = b"".join([self.value(tensor.data) for tensor in step])
        head = self._heads.get(key)
        if head is not None:
            return head + tail
        whole = self.whole(step)
        if whole.endswith(tail):  # not if values are written as JSON
            if len(self._heads) >= MOST_KEPT:
                self._heads.clear()
            self._heads[key] = whole[: len(whole) - len(tail)]
        return whole


@frozen
class TensorCalls:
    """Calls of a model with tensors. Values have no batch dimension, neither here nor in answers."""

    model: ModelSpec
    render: Rendering
    rest: Mapping[str, Tensor]  # encoded defaults for inputs that a call does not give
    _layouts: dict[bytes, tuple[_Layout, ...]] = field(default_factory=dict, compare=False)

    def request(self, call: Call) -> bytes:
        if call.body is not None:
            raise UsageError(f"'{self.model.name}' takes inputs, but got a body")
        tensors, given = [], 0
        for spec in self.model.inputs:
            if spec.name in call.inputs:
                given += 1
                tensors.append(self._batched(spec, made_tensor(spec, call.inputs[spec.name])))
            elif spec.name in self.rest:
                tensors.append(self.rest[spec.name])
            elif not spec.optional:
                raise UsageError(f"'{self.model.name}' needs a value for '{spec.name}'")
        if given < len(call.inputs):
            unknown = call.inputs.keys() - {spec.name for spec in self.model.inputs}
            raise UsageError(f"'{self.model.name}' has no input '{min(unknown)}'")
        return self.render(tensors)

    def http_answer(self, body: bytes | bytearray, header_length: str | None) -> VisitAnswer:
        """Return the outputs of a reply; answers of equal sizes have the same header, which is parsed once."""
        if header_length is None or not header_length.isdecimal():
            return VisitAnswer(self._unbatched(http_tensors(body, header_length)))
        length = int(header_length)
        layout = self._layouts.get(bytes(body[:length]))
        if layout is None:
            outputs = self._unbatched(http_tensors(body, header_length))
            if length + sum(len(row.data) for row in outputs.values()) == len(body):
                rows = tuple((row.name, row.datatype, row.shape, len(row.data)) for row in outputs.values())
                self._keep(bytes(body[:length]), rows)
            return VisitAnswer(outputs)
        found, position = {}, length
        for name, datatype, shape, size in layout:
            found[name] = Tensor(name, datatype, shape, bytes(body[position : position + size]))
            position += size
        if position != len(body):
            raise PeerError(f"the reply has {len(body)} bytes, but its header announces {position}")
        return VisitAnswer(found)

    def grpc_answer(self, message: bytes) -> VisitAnswer:
        """Return the outputs of a message; descriptions of outputs of the same shape are parsed once."""
        rows: list[_Layout] = []
        raw: list[bytes] = []
        for number, value in fields(memoryview(message)):
            if not isinstance(value, memoryview):
                continue
            if number == RAW_CONTENTS:
                raw.append(bytes(value))
            elif number == OUTPUTS:
                layout = self._layouts.get(bytes(value))
                if layout is None:
                    return self._grpc_first(message)
                rows += layout
        if len(raw) != len(rows):
            return self._grpc_first(message)
        pairs = zip(rows, raw, strict=True)
        return VisitAnswer({row[0]: Tensor(row[0], row[1], row[2], data) for row, data in pairs})

    def _grpc_first(self, message: bytes) -> VisitAnswer:
        outputs = self._unbatched(grpc_tensors(message))
        described = [value for number, value in fields(memoryview(message)) if number == OUTPUTS]
        for value, row in zip(described, outputs.values(), strict=False):
            if isinstance(value, memoryview):
                self._keep(bytes(value), ((row.name, row.datatype, row.shape, 0),))
        return VisitAnswer(outputs)

    def _keep(self, described: bytes, rows: tuple[_Layout, ...]) -> None:
        if len(self._layouts) >= MOST_KEPT:
            self._layouts.clear()
        self._layouts[described] = rows

    def _batched(self, spec: TensorSpec, tensor: Tensor) -> Tensor:
        if not self.model.max_batch_size or spec.is_shape_tensor:
            return tensor
        return Tensor(tensor.name, tensor.datatype, (1, *tensor.shape), tensor.data)

    def _unbatched(self, outputs: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        if not self.model.max_batch_size:
            return outputs
        shapes = {
            name: row.shape[1:] if row.shape[:1] == (1,) else row.shape for name, row in outputs.items()
        }
        return {name: Tensor(name, row.datatype, shapes[name], row.data) for name, row in outputs.items()}


def made_tensor(spec: TensorSpec, value: Any) -> Tensor:
    """Convert the value to a tensor for this input; raise UsageError if that is impossible."""
    if isinstance(value, Tensor):
        if value.datatype != spec.datatype:
            raise UsageError(f"'{spec.name}' takes {spec.datatype}, but got {value.datatype}")
        shape = fitting_shape(spec, value.shape)
        return Tensor(spec.name, spec.datatype, shape, value.data)
    nested = _listed(value)
    elements = flat(nested)
    try:
        data = encode(spec.datatype, elements)
    except ElementError as error:
        raise UsageError(f"'{spec.name}' takes {spec.datatype}: {error}, but is {error.found!r}") from error
    except (TypeError, ValueError) as error:
        raise UsageError(f"'{spec.name}' takes {spec.datatype}: {error}") from error
    shape = tuple(value.shape) if hasattr(value, "shape") else _shape_of(nested)
    return Tensor(spec.name, spec.datatype, fitting_shape(spec, shape, len(elements)), data)


def fitting_shape(spec: TensorSpec, shape: tuple[int, ...], elements: int | None = None) -> tuple[int, ...]:
    """Return the shape itself, or the model's shape if the elements fill it in exactly one way."""
    if shape == spec.shape or (
        len(shape) == len(spec.shape)
        and all(mine == theirs or theirs < 0 for mine, theirs in zip(shape, spec.shape, strict=True))
    ):
        return shape
    count = math.prod(shape) if elements is None else elements
    fixed = math.prod(dim for dim in spec.shape if dim >= 0)
    variable = sum(dim < 0 for dim in spec.shape)
    if (not variable and count == fixed) or (variable == 1 and fixed and count % fixed == 0):
        return tuple(count // fixed if dim < 0 else dim for dim in spec.shape)
    wanted, got = (f"[{','.join(map(str, each))}]" for each in (spec.shape, shape))
    raise UsageError(f"'{spec.name}' requires the shape {wanted}, but the value has the shape {got}")


def _listed(value: Any) -> Any:
    """Convert the value to nested lists of plain elements."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return [_listed(part) for part in value] if isinstance(value, list | tuple) else value


def _shape_of(nested: Any) -> tuple[int, ...]:
    shape = []
    while isinstance(nested, list):
        shape.append(len(nested))
        nested = nested[0] if nested else None
    return tuple(shape)


@frozen
class JsonCalls:
    """Calls of a server that takes and returns JSON, at one path."""

    connection: Connection
    path: str  # complete
    fixed: Mapping[str, Any] = field(default_factory=dict)  # default fields of every body
    method: str | None = None  # None: POST, or GET for a call without a body

    def request(self, call: Call) -> bytes:
        if call.inputs:
            raise UsageError("the server takes a JSON body, but got inputs")
        body = {**self.fixed, **(call.body or {})} if self._is_completed(call.body) else call.body
        method = self.method or ("GET" if body is None else "POST")
        if body is None:
            return render_http(
                self.connection, self.path, None if method == "GET" else b"", (), method=method
            )
        try:
            text = json.dumps(body, separators=(",", ":"), default=_plain).encode()
        except (TypeError, ValueError) as error:
            raise UsageError(f"the body is not JSON: {error}") from error
        return render_http(self.connection, self.path, text, method=method)

    def _is_completed(self, body: Any) -> bool:
        return bool(self.fixed) and (body is None or isinstance(body, Mapping))

    def http_answer(self, body: bytes | bytearray, header_length: str | None) -> Any:
        try:
            return json.loads(body) if body else None
        except (ValueError, RecursionError) as error:
            raise PeerError(f"the reply is not JSON: {error}") from error

    def grpc_answer(self, message: bytes) -> Any:
        raise PeerError("received JSON over gRPC")


def _plain(value: Any) -> Any:
    """Convert numpy arrays and numbers to JSON types."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON")
