"""TensorFlow Serving: its PredictionService over gRPC, and its REST API, which has the same signatures."""

import base64
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory, wrappers_pb2
from google.protobuf.message import DecodeError

from inferometer.base.errors import MissingError, PeerError, UsageError
from inferometer.base.frozen import frozen
from inferometer.base.text import is_digits
from inferometer.model.answers import SIGNATURES, TFSERVING_METADATA
from inferometer.model.numbers import decode, encode, flat, little_endian
from inferometer.model.spec import ANY_BATCH, ModelSpec, Tensor, TensorSpec
from inferometer.options.names import option_name
from inferometer.options.options import Options
from inferometer.services.endpoint import Connection
from inferometer.services.grpc_control import GrpcControl, document
from inferometer.services.http_control import HttpControl
from inferometer.services.kind import Document, Service
from inferometer.services.shared_memory import Placement
from inferometer.services.traffic import Steps, Traffic, Wiring, render_http

if TYPE_CHECKING:  # only visits need these
    from inferometer.services.calls import JsonCalls

# --- messages
#
# Messages that a client needs, with the names and numbers of the official protos. They are built at run time from a
# table: the official Python packages include all of TensorFlow, or grpcio. They are in a separate pool, so that code
# that imports the official ones in the same process gets those. Fields that are not read are omitted; protobuf ignores
# what a server sends in them.

_PACKAGE = "tensorflow.serving"

_FIELDS = {
    "Dim": ("1 int64 size", "2 string name"),
    "TensorShapeProto": ("2 repeated Dim dim", "3 bool unknown_rank"),
    "TensorProto": (
        "1 DataType dtype",
        "2 TensorShapeProto tensor_shape",
        "4 bytes tensor_content",
        "5 repeated float float_val",
        "6 repeated double double_val",
        "7 repeated int32 int_val",
        "8 repeated bytes string_val",
        "10 repeated int64 int64_val",
        "11 repeated bool bool_val",
        "13 repeated int32 half_val",
        "16 repeated uint32 uint32_val",
        "17 repeated uint64 uint64_val",
    ),
    "TensorInfo": ("1 string name", "2 DataType dtype", "3 TensorShapeProto tensor_shape"),
    "SignatureDef": ("1 map TensorInfo inputs", "2 map TensorInfo outputs", "3 string method_name"),
    "ModelSpec": (
        "1 string name",
        "2 google.protobuf.Int64Value version",
        "3 string signature_name",
        "4 string version_label",
    ),
    "SignatureDefMap": ("1 map SignatureDef signature_def",),
    "GetModelMetadataRequest": ("1 ModelSpec model_spec", "2 repeated string metadata_field"),
    "GetModelMetadataResponse": ("1 ModelSpec model_spec", "2 map google.protobuf.Any metadata"),
    "PredictRequest": ("1 ModelSpec model_spec", "2 map TensorProto inputs"),
    "PredictResponse": ("1 map TensorProto outputs", "2 ModelSpec model_spec"),
}
"""Fields by message: number, optional `repeated` or `map` (from strings), type and name."""

DATA_TYPES = (
    *("INVALID", "FLOAT", "DOUBLE", "INT32", "UINT8", "INT16", "INT8", "STRING", "COMPLEX64", "INT64"),
    *("BOOL", "QINT8", "QUINT8", "QINT32", "BFLOAT16", "QINT16", "QUINT16", "UINT16", "COMPLEX128", "HALF"),
    *("RESOURCE", "VARIANT", "UINT32", "UINT64"),
)
"""Values of tensorflow.DataType in numerical order, without the prefix `DT_`."""

_Field = descriptor_pb2.FieldDescriptorProto


@cache
def message(name: str) -> Any:
    """Return the class of a message, such as `PredictRequest`."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{_PACKAGE}.{name}"))


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    made = descriptor_pb2.FileDescriptorProto(name=f"{_PACKAGE}.proto", package=_PACKAGE, syntax="proto3")
    for file in (any_pb2.DESCRIPTOR, wrappers_pb2.DESCRIPTOR):
        pool.AddSerializedFile(file.serialized_pb)
        made.dependency.append(file.name)
    data_type = made.enum_type.add(name="DataType")
    for number, value in enumerate(DATA_TYPES):
        data_type.value.add(name=f"DT_{value}", number=number)
    for name, fields in _FIELDS.items():
        described = made.message_type.add(name=name)
        for field in fields:
            _add_field(described, name, field)
    pool.AddSerializedFile(made.SerializeToString())
    return pool


def _add_field(described: descriptor_pb2.DescriptorProto, owner: str, text: str) -> None:
    number, *label, kind, name = text.split()
    field = described.field.add(name=name, number=int(number), label=_Field.LABEL_OPTIONAL)
    if label:
        field.label = _Field.LABEL_REPEATED
    if label == ["map"]:
        entry = f"{name.title().replace('_', '')}Entry"
        nested = described.nested_type.add(name=entry)
        nested.options.map_entry = True
        _add_field(nested, owner, "1 string key")
        _add_field(nested, owner, f"2 {kind} value")
        kind = f"{_PACKAGE}.{owner}.{entry}"
    if kind in _FIELDS or kind == "DataType":
        kind = f"{_PACKAGE}.{kind}"
    if "." in kind:
        field.type_name = f".{kind}"  # the pool determines from the name whether it is an enum or a message
    else:
        field.type = _Field.Type.Value(f"TYPE_{kind.upper()}")


# --- over gRPC

_ENDINGS = {
    "BOOL": ("BOOL", "bool_val"),
    "UINT8": ("UINT8", "int_val"),
    "UINT16": ("UINT16", "int_val"),
    "UINT32": ("UINT32", "uint32_val"),
    "UINT64": ("UINT64", "uint64_val"),
    "INT8": ("INT8", "int_val"),
    "INT16": ("INT16", "int_val"),
    "INT32": ("INT32", "int_val"),
    "INT64": ("INT64", "int64_val"),
    "FP16": ("HALF", "half_val"),
    "BF16": ("BFLOAT16", "half_val"),
    "FP32": ("FLOAT", "float_val"),
    "FP64": ("DOUBLE", "double_val"),
    "BYTES": ("STRING", "string_val"),
}
"""TensorFlow's name by datatype, and the field for its values if they are not raw bytes."""

_DATATYPES = {f"DT_{name}": datatype for datatype, (name, _) in _ENDINGS.items()}
_NUMBERS = {datatype: DATA_TYPES.index(name) for datatype, (name, _) in _ENDINGS.items()}
_MOST_ELEMENTS = 2**28  # limit of elements omitted from a reply because they are equal
_NO_LIST = "TensorFlow Serving does not support this call"
_BITS = ("FP16", "BF16")  # their field holds the bits of each value as an integer


class TfServing(Service):
    """A TensorFlow Serving server's gRPC port."""

    def __init__(self, connection: Connection, options: Options) -> None:
        self._options = options
        self._control = GrpcControl(connection, "tensorflow.serving.PredictionService")

    # --- control calls

    def models(self) -> Sequence[str]:
        raise MissingError(_NO_LIST)

    def describe(self, name: str, version: str, called: Sequence[tuple[str, str]]) -> ModelSpec:
        asked = message("GetModelMetadataRequest")(metadata_field=["signature_def"])
        _choose(asked.model_spec, name, version)
        try:
            reply = self._control.call("GetModelMetadata", asked, message("GetModelMetadataResponse"))
            found = message("SignatureDefMap").FromString(reply.metadata["signature_def"].value)
        except DecodeError as error:
            raise PeerError(f"failed to get model metadata: {error}") from error
        except PeerError as error:
            raise error.wrapped("failed to get model metadata: ", type(error)) from error
        signatures = document(found, {"signature_def": SIGNATURES}, "GetModelMetadata")
        return model_of(signatures.get("signature_def", {}), name, version, self._options)

    # --- inference

    def traffic(self, model: ModelSpec, steps: Steps, placement: Placement | None = None) -> Traffic:
        wiring = self._control.wiring("Predict", self._options, outputs=predicted)
        return Traffic(wiring, tuple(self._render(model, step) for step in steps))

    def read_outputs(self, body: bytes, header_length: int | None) -> Mapping[str, bytes]:
        return predicted(body)

    def infer(self, request: bytes) -> dict[str, Tensor]:
        """Send a rendered request and return the outputs by name."""
        body = self._control.call_bytes("Predict", request)
        predicted(body)  # raises if it cannot be read
        reply = message("PredictResponse").FromString(body)
        return {name: tensor_of(name, row) for name, row in reply.outputs.items()}

    def message_types(self) -> tuple[Any, Any]:
        return message("PredictRequest"), message("PredictResponse")

    def _render(self, model: ModelSpec, step: Sequence[Tensor]) -> bytes:
        request = message("PredictRequest")()
        _choose(request.model_spec, model.name, model.version)
        request.model_spec.signature_name = self._options.signature
        for tensor in step:
            _fill(request.inputs[tensor.name], tensor)
        return bytes(request.SerializeToString(deterministic=True))


def _choose(model_spec: Any, name: str, version: str) -> None:
    model_spec.name = name
    if is_digits(version):
        model_spec.version.value = int(version)
    elif version:
        model_spec.version_label = version


def _fill(described: Any, tensor: Tensor) -> None:
    """Fill in the values: numbers as raw bytes, which the server only copies; strings do not have this form."""
    described.dtype = _NUMBERS[tensor.datatype]
    described.tensor_shape.SetInParent()
    for dim in tensor.shape:
        described.tensor_shape.dim.add(size=dim)
    if tensor.datatype == "BYTES":
        described.string_val.extend(decode("BYTES", tensor.data))
    else:
        described.tensor_content = tensor.data


# --- replies


def predicted(reply: bytes | bytearray | memoryview) -> Mapping[str, bytes]:
    """Return the outputs of a PredictResponse."""
    try:
        response = message("PredictResponse").FromString(bytes(reply))
        return {name: content(tensor) for name, tensor in response.outputs.items()}
    except (DecodeError, LookupError, OverflowError, ValueError) as error:
        raise PeerError(f"the reply is not a PredictResponse ({error!r})") from error


def content(tensor: Any) -> bytes:
    """Return the values of a TensorProto in the encoding of a Tensor."""
    datatype = _datatype(tensor)
    if tensor.tensor_content and datatype != "BYTES":
        return bytes(tensor.tensor_content)
    values = list(getattr(tensor, _ENDINGS[datatype][1]))
    missing = math.prod(dim.size for dim in tensor.tensor_shape.dim) - len(values)
    if missing > _MOST_ELEMENTS:
        raise ValueError(f"a tensor of {missing} elements")
    if values and missing > 0:
        values += values[-1:] * missing  # TensorFlow omits repetitions of the last value
    if datatype == "BYTES":
        return encode("BYTES", values)
    dtype = "<u2" if datatype in _BITS else little_endian(datatype)
    return np.array(values, dtype=dtype).tobytes()


def tensor_of(name: str, tensor: Any) -> Tensor:
    """Convert a TensorProto to a Tensor."""
    shape = tuple(dim.size for dim in tensor.tensor_shape.dim)
    return Tensor(name, _datatype(tensor), shape, content(tensor))


def _datatype(tensor: Any) -> str:
    return _DATATYPES[f"DT_{DATA_TYPES[tensor.dtype]}"]


# --- signatures


def model_of(signatures: Document, name: str, version: str, options: Options) -> ModelSpec:
    """Return the model described by its signature, in the JSON form of the messages, which the REST API also uses."""
    signature = signatures.get(options.signature)
    if signature is None:
        known = ", ".join(sorted(signatures))
        raise UsageError(
            f"model '{name}' has no signature '{options.signature}'",
            remedy=f"choose one of its signatures with {option_name('--model-signature-name')}: {known}"
            if known
            else "export it with one",
        )
    inputs, outputs = (
        tuple(_tensor(name, row) for name, row in sorted(signature.get(noun, {}).items()))
        for noun in ("inputs", "outputs")
    )
    is_batched = options.batch is not None
    if is_batched:
        _require_batches(name, inputs)
        # Samples have no batch dimension, which only inputs must have.
        inputs, outputs = (
            tuple(replace(spec, shape=spec.shape[1:]) for spec in specs) for specs in (inputs, outputs)
        )
    return ModelSpec(
        name=name,
        version=version,
        inputs=inputs,
        outputs=outputs,
        max_batch_size=ANY_BATCH if is_batched else 0,
        config={"signature_def": {options.signature: signature}},
    )


def _tensor(name: str, row: Mapping[str, Any]) -> TensorSpec:
    described = row.get("tensor_shape", {})
    if described.get("unknown_rank"):
        raise PeerError(
            f"tensor '{name}' has an unknown rank, so no data can be generated for it",
            remedy="export the model with a signature that declares the number of dimensions",
        )
    shape = tuple(dim.get("size", 0) for dim in described.get("dim", ()))
    return TensorSpec(name, _DATATYPES.get(row["dtype"], row["dtype"]), shape)


def _require_batches(model: str, inputs: Sequence[TensorSpec]) -> None:
    for spec in inputs:
        if spec.shape[:1] != (-1,):
            raise UsageError(
                f"with {option_name('-b')} the first dimension of every input must be -1, but input "
                f"'{spec.name}' of '{model}' has the "
                f"shape [{','.join(map(str, spec.shape))}]",
                remedy=f"leave out {option_name('-b')}",
            )


# --- the REST API: tensors as JSON


class TfServingRest(Service):
    """A TensorFlow Serving server's REST port."""

    def __init__(self, connection: Connection, options: Options) -> None:
        self._connection = connection
        self._options = options
        self._control = HttpControl(connection)
        self._outputs = Columns(())

    def models(self) -> Sequence[str]:
        raise MissingError(_NO_LIST)

    def describe(self, name: str, version: str, called: Sequence[tuple[str, str]]) -> ModelSpec:
        path = f"{_path(name, version)}/metadata"
        try:
            answer = self._control.get(path, TFSERVING_METADATA)
        except PeerError as error:
            raise error.wrapped("failed to get model metadata: ", PeerError) from error
        model = model_of(answer["metadata"]["signature_def"]["signature_def"], name, version, self._options)
        self._outputs = Columns(tuple((spec.name, spec.datatype) for spec in model.outputs))
        return model

    def traffic(self, model: ModelSpec, steps: Steps, placement: Placement | None = None) -> Traffic:
        wiring = Wiring(self._connection.endpoint, outputs=self._outputs)
        return Traffic(wiring, tuple(self._render(model, step) for step in steps))

    def read_outputs(self, body: bytes, header_length: int | None) -> Mapping[str, bytes]:
        return self._outputs(body)

    def infer(self, request: bytes) -> dict[str, Tensor]:
        """Send a rendered request and return the outputs by name."""
        return self._outputs.tensors(self._control.infer(request)[1])

    def caller(self, model: ModelSpec, sample: Sequence[Tensor]) -> "JsonCalls":
        """Return the caller with bodies of the REST API: `instances` or `inputs`."""
        from inferometer.services.calls import JsonCalls

        return JsonCalls(self._connection, self._predict(model), {"signature_name": self._options.signature})

    def _predict(self, model: ModelSpec) -> str:
        return f"{self._connection.endpoint.prefix}{_path(model.name, model.version)}:predict"

    def _render(self, model: ModelSpec, step: Sequence[Tensor]) -> bytes:
        """Render complete tensors by name, which also supports inputs without a batch dimension."""
        document = {
            "signature_name": self._options.signature,
            "inputs": {tensor.name: _nested(tensor) for tensor in step},
        }
        body = json.dumps(document, separators=(",", ":")).encode()
        return render_http(self._connection, self._predict(model), body)


def _path(name: str, version: str) -> str:
    path = f"/v1/models/{quote(name, safe='')}"
    if not version:
        return path
    return f"{path}/{'versions' if is_digits(version) else 'labels'}/{quote(version, safe='')}"


def _nested(tensor: Tensor) -> Any:
    elements = decode(tensor.datatype, tensor.data)
    if tensor.datatype == "BYTES":
        elements = [{"b64": base64.b64encode(element).decode()} for element in elements]
    return np.array(elements, dtype=object).reshape(tensor.shape).tolist()


@frozen
class Columns:
    """Reader of the outputs of a reply, which does not contain their datatypes."""

    outputs: tuple[tuple[str, str], ...]  # (name, datatype)

    def __call__(self, reply: bytes | bytearray | memoryview) -> Mapping[str, bytes]:
        return {name: tensor.data for name, tensor in self.tensors(reply).items()}

    def tensors(self, reply: bytes | bytearray | memoryview) -> dict[str, Tensor]:
        try:
            found = json.loads(bytes(reply))["outputs"]
            columns = {self.outputs[0][0]: found} if len(self.outputs) == 1 else found
            return {
                name: Tensor(name, datatype, _shape(columns[name]), _encoded(datatype, columns[name]))
                for name, datatype in self.outputs
                if name in columns
            }
        except (LookupError, OverflowError, RecursionError, TypeError, ValueError) as error:
            raise PeerError(f"cannot read the reply: {error!r}") from error


def _shape(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list):
        return ()
    return (len(value), *(_shape(value[0]) if value else ()))


def _encoded(datatype: str, value: Any) -> bytes:
    elements = (base64.b64decode(row["b64"]) if isinstance(row, dict) else row for row in flat(value))
    return encode(datatype, list(elements))
