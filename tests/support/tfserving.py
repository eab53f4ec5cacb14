"""A fake TensorFlow Serving on loopback: its gRPC and REST APIs for one model, which doubles its inputs.

It uses the official messages from another project, so that a wrong field number in ours is detected. A request is
checked against the signature: names, datatypes, shapes, and the number of values. Batching, warm-up and the details of
the real REST API are not implemented.
"""

import base64
import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from ovmsclient.tfs_compat.protos.tensorflow.core.framework import tensor_pb2, types_pb2
from ovmsclient.tfs_compat.protos.tensorflow_serving.apis import get_model_metadata_pb2, predict_pb2

from tests.support import grpc_servers as grpc
from tests.support import servers as http

SERVICE = "/tensorflow.serving.PredictionService/"
INVALID_ARGUMENT, NOT_FOUND, UNIMPLEMENTED = 3, 5, 12
_TYPE_URL = "type.googleapis.com/tensorflow.serving.SignatureDefMap"

_DTYPES = {
    "DT_FLOAT": ("<f4", "float_val"),
    "DT_DOUBLE": ("<f8", "double_val"),
    "DT_INT32": ("<i4", "int_val"),
    "DT_UINT8": ("u1", "int_val"),
    "DT_INT16": ("<i2", "int_val"),
    "DT_INT8": ("i1", "int_val"),
    "DT_INT64": ("<i8", "int64_val"),
    "DT_BOOL": ("?", "bool_val"),
    "DT_UINT16": ("<u2", "int_val"),
    "DT_HALF": ("<f2", "half_val"),
    "DT_UINT32": ("<u4", "uint32_val"),
    "DT_UINT64": ("<u8", "uint64_val"),
    "DT_BFLOAT16": ("<u2", "half_val"),
    "DT_STRING": ("O", "string_val"),
}
"""By datatype: what its bytes are, and the field that may hold its values instead."""

_NOT_IN_JSON = ("DT_HALF", "DT_BFLOAT16", "DT_UINT16")  # as in the real server

Tensors = Mapping[str, tuple[str, tuple[int, ...]]]
"""(datatype, shape) by name; an output is called `twice_` and the input's name."""


class Refused(Exception):
    """The server's error for an invalid request."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


@dataclass(frozen=True, slots=True)
class ServedModel:
    """One model with one signature."""

    name: str = "resnet50"
    inputs: Tensors = field(default_factory=lambda: {"x": ("DT_FLOAT", (-1, 4))})
    signature: str = "serving_default"
    versions: tuple[int, ...] = (1, 3)
    labels: Mapping[str, int] = field(default_factory=lambda: {"stable": 1})

    def signature_map(self) -> Any:
        made = get_model_metadata_pb2.SignatureDefMap()
        signature = made.signature_def[self.signature]
        signature.method_name = "tensorflow/serving/predict"
        for name, (dtype, shape) in self.inputs.items():
            _describe(signature.inputs[name], dtype, shape)
            _describe(signature.outputs[f"twice_{name}"], dtype, shape)
        return made

    def predict(self, signature: str, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Double every value: strings are repeated, booleans inverted."""
        if signature not in ("", self.signature):
            raise Refused(
                INVALID_ARGUMENT, f'Serving signature name: "{signature}" not found in signature def'
            )
        if inputs.keys() != self.inputs.keys():
            raise Refused(
                INVALID_ARGUMENT, f"expected the inputs {sorted(self.inputs)}, got {sorted(inputs)}"
            )
        outputs = {}
        for name, values in inputs.items():
            dtype, shape = self.inputs[name]
            is_fitting = len(shape) == values.ndim and all(
                size in (-1, found) for size, found in zip(shape, values.shape, strict=True)
            )
            if not is_fitting:
                raise Refused(INVALID_ARGUMENT, f"input {name} has the shape {values.shape}, not {shape}")
            outputs[f"twice_{name}"] = _twice(dtype, values)
        return outputs


def _describe(info: Any, dtype: str, shape: tuple[int, ...]) -> None:
    info.name = "tensor:0"
    info.dtype = types_pb2.DataType.Value(dtype)
    info.tensor_shape.SetInParent()
    for size in shape:
        info.tensor_shape.dim.add(size=size)


def _twice(dtype: str, values: NDArray[Any]) -> NDArray[Any]:
    if dtype == "DT_BOOL":
        return ~values
    if dtype == "DT_BFLOAT16":
        wide = (values.astype(np.uint32) << np.uint32(16)).view(np.float32) * np.float32(2)
        return (wide.view(np.uint32) >> np.uint32(16)).astype("<u2")
    with np.errstate(over="ignore"):
        doubled: NDArray[Any] = values + values
    return doubled


Disturb = Callable[[int], grpc.Act | None]
"""(number of the prediction from 0) -> what happens to it over gRPC; None is the usual answer."""


class FakeTfServing:
    """Both ports of a server. Use as a context manager. `is_typed` answers with typed values, like the real server."""

    def __init__(
        self,
        model: ServedModel | None = None,
        *,
        is_typed: bool = True,
        disturb: Disturb = lambda number: None,
    ) -> None:
        self.model = ServedModel() if model is None else model
        self.grpc = grpc.GrpcServer(self._call)
        self.http = http.ScriptedServer(self._request)
        self.predictions: list[Any] = []  # requests over gRPC
        self.documents: list[Any] = []  # requests over REST
        self.paths: list[str] = []
        self._is_typed = is_typed
        self._disturb = disturb
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self.grpc.__enter__()
        self.http.__enter__()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.http.__exit__()
        self.grpc.__exit__(kind)

    # --- gRPC

    def _call(self, call: grpc.Call) -> grpc.Act:
        methods = {"GetModelMetadata": self._metadata, "Predict": self._predict}
        path = call.header(":path") or ""
        method = methods.get(path.removeprefix(SERVICE)) if path.startswith(SERVICE) else None
        if method is None:
            return grpc.refuse(UNIMPLEMENTED, "")
        try:
            return method(call.message)
        except Refused as refused:
            return grpc.refuse(refused.code, refused.text)

    def _metadata(self, body: bytes) -> grpc.Act:
        request = get_model_metadata_pb2.GetModelMetadataRequest.FromString(body)
        if not request.HasField("model_spec"):
            raise Refused(INVALID_ARGUMENT, "Missing ModelSpec")
        if list(request.metadata_field) != ["signature_def"]:
            raise Refused(INVALID_ARGUMENT, f"Metadata field {list(request.metadata_field)} is not supported")
        reply = get_model_metadata_pb2.GetModelMetadataResponse()
        reply.model_spec.name = self.model.name
        reply.model_spec.version.value = self._version(request.model_spec)
        found = reply.metadata["signature_def"]
        found.type_url, found.value = _TYPE_URL, self.model.signature_map().SerializeToString()
        return grpc.answer(reply.SerializeToString())

    def _predict(self, body: bytes) -> grpc.Act:
        request = predict_pb2.PredictRequest.FromString(body)
        with self._lock:
            number = len(self.predictions)
            self.predictions.append(request)
        act = self._disturb(number)
        if act is not None:
            return act
        version = self._version(request.model_spec)
        inputs = {name: _read(name, tensor, self.model.inputs) for name, tensor in request.inputs.items()}
        reply = predict_pb2.PredictResponse()
        reply.model_spec.name = self.model.name
        reply.model_spec.version.value = version
        for name, values in self.model.predict(request.model_spec.signature_name, inputs).items():
            dtype = self.model.inputs[name.removeprefix("twice_")][0]
            _write(reply.outputs[name], dtype, values, is_typed=self._is_typed)
        return grpc.answer(reply.SerializeToString())

    def _version(self, spec: Any) -> int:
        model = self.model
        if spec.name != model.name:
            raise Refused(NOT_FOUND, f"Servable not found for request: Latest({spec.name})")
        choice = spec.WhichOneof("version_choice")
        if choice == "version_label":
            if spec.version_label not in model.labels:
                raise Refused(INVALID_ARGUMENT, f"Unrecognized servable version label: {spec.version_label}")
            return model.labels[spec.version_label]
        if choice is None:
            return max(model.versions)
        number = int(spec.version.value)
        if number not in model.versions:
            raise Refused(NOT_FOUND, f"Servable not found for request: Specific({spec.name}, {number})")
        return number

    # --- REST

    def _request(self, request: http.Request) -> http.Act:
        with self._lock:
            self.paths.append(f"{request.method} {request.path}")
        try:
            return http.answer_json(self._rest(request))
        except Refused as refused:
            return http.answer_json({"error": refused.text}, 404 if refused.code == NOT_FOUND else 400)

    def _rest(self, request: http.Request) -> Any:
        found = re.fullmatch(
            r"/v1/models/([^/:]+)(?:/versions/(\d+)|/labels/([^/:]+))?(/metadata|:predict)?", request.path
        )
        if found is None:
            raise Refused(INVALID_ARGUMENT, f"Malformed request: {request.method} {request.path}")
        name, number, label, verb = found.groups()
        if name != self.model.name and verb is None:
            raise Refused(NOT_FOUND, f"Could not find any versions of model {name}")
        spec = predict_pb2.PredictRequest().model_spec
        spec.name = name
        if number:
            spec.version.value = int(number)
        if label:
            spec.version_label = label
        version = self._version(spec)
        if verb is None:
            return {"model_version_status": [{"version": str(version), "state": "AVAILABLE"}]}
        if verb == "/metadata":
            return self._rest_metadata(version)
        document = json.loads(request.body)
        with self._lock:
            self.documents.append(document)
        columns = {key: self._column(key, value) for key, value in document["inputs"].items()}
        outputs = self.model.predict(document.get("signature_name", ""), columns)
        nested = {key: _rest_values(values) for key, values in outputs.items()}
        return {"outputs": nested if len(nested) > 1 else next(iter(nested.values()))}

    def _rest_metadata(self, version: int) -> Any:
        from google.protobuf.json_format import MessageToDict

        signatures = MessageToDict(
            self.model.signature_map(),
            preserving_proto_field_name=True,
        )
        return {
            "model_spec": {"name": self.model.name, "signature_name": "", "version": str(version)},
            "metadata": {"signature_def": signatures},
        }

    def _column(self, name: str, value: Any) -> NDArray[Any]:
        if name not in self.model.inputs:
            raise Refused(INVALID_ARGUMENT, f"JSON object: does not have named input: {name}")
        dtype = self.model.inputs[name][0]
        if dtype in _NOT_IN_JSON:
            raise Refused(UNIMPLEMENTED, f"Conversion of JSON Value to type: {dtype}")
        kind = _DTYPES[dtype][0]
        return np.array(_strings(value) if kind == "O" else value, dtype=kind)


def _strings(value: Any) -> Any:
    if isinstance(value, list):
        return [_strings(one) for one in value]
    return base64.b64decode(value["b64"]) if isinstance(value, dict) else value.encode()


def _rest_values(values: NDArray[Any]) -> Any:
    if values.dtype != object:
        return values.tolist()
    return json.loads(json.dumps(values.tolist(), default=lambda one: one.decode()))


def _read(name: str, tensor: tensor_pb2.TensorProto, inputs: Tensors) -> NDArray[Any]:
    dtype = types_pb2.DataType.Name(tensor.dtype)
    if name in inputs and dtype != inputs[name][0]:
        raise Refused(INVALID_ARGUMENT, f"input {name} is {dtype}, not {inputs[name][0]}")
    kind, typed = _DTYPES[dtype]
    shape = [dim.size for dim in tensor.tensor_shape.dim]
    if tensor.tensor_content:
        values = np.frombuffer(tensor.tensor_content, dtype=kind)
    else:
        given = list(getattr(tensor, typed))
        values = np.array(given, dtype="<u2" if typed == "half_val" else kind).view(kind)
    if values.size != int(np.prod(shape)):
        raise Refused(INVALID_ARGUMENT, f"input {name} has {values.size} values for the shape {shape}")
    return values.reshape(shape)


def _write(tensor: Any, dtype: str, values: NDArray[Any], *, is_typed: bool) -> None:
    tensor.dtype = types_pb2.DataType.Value(dtype)
    tensor.tensor_shape.SetInParent()
    for size in values.shape:
        tensor.tensor_shape.dim.add(size=size)
    kind, typed = _DTYPES[dtype]
    if is_typed or kind == "O":
        flat = values.reshape(-1)
        getattr(tensor, typed).extend((flat.view("<u2") if typed == "half_val" else flat).tolist())
    else:
        tensor.tensor_content = values.astype(kind).tobytes()
