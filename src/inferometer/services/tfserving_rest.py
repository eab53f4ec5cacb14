"""TensorFlow Serving over its REST API: the same signatures, tensors as JSON."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from inferometer.base.errors import MissingError, PeerError
from inferometer.model.answers import TFSERVING_METADATA
from inferometer.model.numbers import decode, encode
from inferometer.model.spec import ModelSpec
from inferometer.model.tensor import Tensor
from inferometer.options.options import Options
from inferometer.services.endpoint import Connection
from inferometer.services.http_control import HttpControl, reason_of
from inferometer.services.kind import Document
from inferometer.services.shared_memory import Placement
from inferometer.services.tfserving import maybe_number, model_of
from inferometer.services.traffic import Traffic, Wiring
from inferometer.wire.http1 import encode_request


class TfServingRest:
    """A TensorFlow Serving server's REST port."""

    def __init__(self, connection: Connection, options: Options) -> None:
        self._connection = connection
        self._options = options
        self._control = HttpControl(connection)
        self._outputs = Columns(())

    # --- control calls

    def server(self) -> Document:
        raise MissingError("TensorFlow Serving says nothing of itself")

    def models(self) -> Sequence[str]:
        raise MissingError("TensorFlow Serving has no call for that")

    def statistics(self, model: ModelSpec) -> Sequence[Document]:
        return ()

    def describe(self, name: str, version: str, called: Sequence[tuple[str, str]]) -> ModelSpec:
        path = f"{_path(name, version)}/metadata"
        try:
            answer = self._control.get(path, TFSERVING_METADATA)
        except PeerError as error:
            raise PeerError(f"failed to get model metadata: {error.message}", remedy=error.remedy) from error
        model = model_of(answer["metadata"]["signature_def"]["signature_def"], name, version, self._options)
        self._outputs = Columns(tuple((spec.name, spec.datatype) for spec in model.outputs))
        return model

    # --- inference

    def traffic(
        self, model: ModelSpec, steps: Sequence[Sequence[Tensor]], placement: Placement | None = None
    ) -> Traffic:
        wiring = Wiring(self._connection.endpoint, outputs=self._outputs)
        return Traffic(wiring, tuple(self._render(model, step) for step in steps))

    def read_outputs(self, body: bytes, header_length: int | None) -> Mapping[str, bytes]:
        return self._outputs(body)

    def infer(self, request: bytes) -> dict[str, Tensor]:
        """The outputs that come back for a rendered request, by name."""
        status, _, body = self._control.send(request)
        if status != 200:
            raise PeerError(reason_of(body) or f"the server answered with status {status}")
        return self._outputs.tensors(body)

    def _render(self, model: ModelSpec, step: Sequence[Tensor]) -> bytes:
        """Tensors by name, each whole: the form that also fits inputs without a batch dimension."""
        document = {
            "signature_name": self._options.signature,
            "inputs": {tensor.name: _nested(_elements(tensor), tensor.shape) for tensor in step},
        }
        body = json.dumps(document, separators=(",", ":")).encode()
        endpoint = self._connection.endpoint
        headers = (
            ("Host", endpoint.authority),
            ("Content-Type", "application/json"),
            *self._connection.headers,
        )
        path = f"{endpoint.prefix}{_path(model.name, model.version)}:predict"
        return encode_request("POST", path, headers, len(body)) + body


def _path(name: str, version: str) -> str:
    path = f"/v1/models/{quote(name, safe='')}"
    if not version:
        return path
    return f"{path}/{'labels' if maybe_number(version) is None else 'versions'}/{quote(version, safe='')}"


def _elements(tensor: Tensor) -> list[Any]:
    elements = decode(tensor.datatype, tensor.data)
    if tensor.datatype != "BYTES":
        return elements
    return [{"b64": base64.b64encode(element).decode()} for element in elements]


def _nested(elements: list[Any], shape: tuple[int, ...]) -> Any:
    if not shape:
        return elements[0]
    if len(shape) == 1:
        return elements
    size = len(elements) // shape[0] if shape[0] else 0
    return [_nested(elements[size * row : size * (row + 1)], shape[1:]) for row in range(shape[0])]


@dataclass(frozen=True, slots=True)
class Columns:
    """Reads the outputs of a reply, which does not say their datatypes."""

    outputs: tuple[tuple[str, str], ...]  # (name, datatype)

    def __call__(self, reply: bytes | bytearray | memoryview) -> Mapping[str, bytes]:
        return {name: tensor.data for name, tensor in self.tensors(reply).items()}

    def tensors(self, reply: bytes | bytearray | memoryview) -> dict[str, Tensor]:
        try:
            found = json.loads(bytes(reply))["outputs"]
            columns = {self.outputs[0][0]: found} if len(self.outputs) == 1 else found
            return {
                name: _tensor(name, datatype, columns[name])
                for name, datatype in self.outputs
                if name in columns
            }
        except (LookupError, OverflowError, RecursionError, TypeError, ValueError) as error:
            raise PeerError(f"the reply cannot be read: {error!r}") from error


def _tensor(name: str, datatype: str, value: Any) -> Tensor:
    data = encode(datatype, list(map(_element, _flat(value))))
    return Tensor(name, datatype, _shape(value), data)


def _shape(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list):
        return ()
    return (len(value), *(_shape(value[0]) if value else ()))


def _flat(value: Any) -> list[Any]:
    values = value if isinstance(value, list) else [value]
    while values and isinstance(values[0], list):
        values = [element for row in values for element in row]
    return values


def _element(value: Any) -> Any:
    return base64.b64decode(value["b64"]) if isinstance(value, dict) else value
