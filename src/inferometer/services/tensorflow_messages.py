"""The messages of TensorFlow Serving that a client needs, with the names and numbers of the official protos.

They are made at run time from the table below: the official Python packages bring all of TensorFlow, or grpcio. A pool
of our own holds them, so that whoever imports the official ones in the same process gets those. Fields that nobody
here reads are left out; what a server sends in them is passed over, as protobuf wants it.
"""

from functools import cache
from typing import Any

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory, wrappers_pb2

_FIELDS = {
    "tensorflow.TensorShapeProto.Dim": ("1 int64 size", "2 string name"),
    "tensorflow.TensorShapeProto": (
        "2 repeated tensorflow.TensorShapeProto.Dim dim",
        "3 bool unknown_rank",
    ),
    "tensorflow.TensorProto": (
        "1 enum dtype",
        "2 tensorflow.TensorShapeProto tensor_shape",
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
    "tensorflow.TensorInfo": (
        "1 string name",
        "2 enum dtype",
        "3 tensorflow.TensorShapeProto tensor_shape",
    ),
    "tensorflow.SignatureDef": (
        "1 map tensorflow.TensorInfo inputs",
        "2 map tensorflow.TensorInfo outputs",
        "3 string method_name",
    ),
    "tensorflow.serving.ModelSpec": (
        "1 string name",
        "2 google.protobuf.Int64Value version",
        "3 string signature_name",
        "4 string version_label",
    ),
    "tensorflow.serving.SignatureDefMap": ("1 map tensorflow.SignatureDef signature_def",),
    "tensorflow.serving.GetModelMetadataRequest": (
        "1 tensorflow.serving.ModelSpec model_spec",
        "2 repeated string metadata_field",
    ),
    "tensorflow.serving.GetModelMetadataResponse": (
        "1 tensorflow.serving.ModelSpec model_spec",
        "2 map google.protobuf.Any metadata",
    ),
    "tensorflow.serving.PredictRequest": (
        "1 tensorflow.serving.ModelSpec model_spec",
        "2 map tensorflow.TensorProto inputs",
    ),
    "tensorflow.serving.PredictResponse": (
        "1 map tensorflow.TensorProto outputs",
        "2 tensorflow.serving.ModelSpec model_spec",
    ),
}
"""By message: number, perhaps `repeated` or `map` (from strings), type and name of each field."""

DATA_TYPES = (
    *(
        "INVALID",
        "FLOAT",
        "DOUBLE",
        "INT32",
        "UINT8",
        "INT16",
        "INT8",
        "STRING",
        "COMPLEX64",
        "INT64",
        "BOOL",
    ),
    *("QINT8", "QUINT8", "QINT32", "BFLOAT16", "QINT16", "QUINT16", "UINT16", "COMPLEX128", "HALF"),
    *("RESOURCE", "VARIANT", "UINT32", "UINT64"),
)
"""The values of tensorflow.DataType from 0 on, without their `DT_`."""

_ENUM = ".tensorflow.DataType"
_Field = descriptor_pb2.FieldDescriptorProto


@cache
def message(name: str) -> Any:
    """The class of a message, such as `serving.PredictRequest`."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"tensorflow.{name}"))


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    known = [any_pb2.DESCRIPTOR, wrappers_pb2.DESCRIPTOR]
    for file in known:
        pool.AddSerializedFile(file.serialized_pb)
    names: list[str] = [file.name for file in known]
    for package in ("tensorflow", "tensorflow.serving"):
        made = _file(package, names)
        pool.AddSerializedFile(made.SerializeToString())
        names.append(made.name)
    return pool


def _file(package: str, dependencies: list[str]) -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    file.dependency.extend(dependencies)
    if package == "tensorflow":
        data_type = file.enum_type.add(name="DataType")
        for number, value in enumerate(DATA_TYPES):
            data_type.value.add(name=f"DT_{value}", number=number)
    own = {name: fields for name, fields in _FIELDS.items() if _package(name) == package}
    made = {name: descriptor_pb2.DescriptorProto(name=name.rpartition(".")[2]) for name in own}
    for name, fields in own.items():
        for field in fields:
            _add_field(made[name], name, field)
    for name, described in made.items():  # inner messages stand before the outer ones
        outer = name.rpartition(".")[0]
        (made[outer].nested_type if outer in made else file.message_type).append(described)
    return file


def _package(name: str) -> str:
    return "tensorflow.serving" if name.startswith("tensorflow.serving.") else "tensorflow"


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
        kind = f"{owner}.{entry}"
    if kind == "enum":
        field.type, field.type_name = _Field.TYPE_ENUM, _ENUM
    elif "." in kind:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{kind}"
    else:
        field.type = _Field.Type.Value(f"TYPE_{kind.upper()}")
