"""The messages of TensorFlow Serving match the official ones, as included in another project."""

import pytest
from google.protobuf.descriptor import FieldDescriptor
from ovmsclient.tfs_compat.protos.tensorflow.core.framework import tensor_pb2, tensor_shape_pb2, types_pb2
from ovmsclient.tfs_compat.protos.tensorflow.core.protobuf import meta_graph_pb2
from ovmsclient.tfs_compat.protos.tensorflow_serving.apis import (
    get_model_metadata_pb2,
    model_pb2,
    predict_pb2,
)

from inferometer.services.tfserving import DATA_TYPES, message

OFFICIAL = {
    "Dim": tensor_shape_pb2.TensorShapeProto.Dim,
    "TensorShapeProto": tensor_shape_pb2.TensorShapeProto,
    "TensorProto": tensor_pb2.TensorProto,
    "TensorInfo": meta_graph_pb2.TensorInfo,
    "SignatureDef": meta_graph_pb2.SignatureDef,
    "ModelSpec": model_pb2.ModelSpec,
    "SignatureDefMap": get_model_metadata_pb2.SignatureDefMap,
    "GetModelMetadataRequest": get_model_metadata_pb2.GetModelMetadataRequest,
    "GetModelMetadataResponse": get_model_metadata_pb2.GetModelMetadataResponse,
    "PredictRequest": predict_pb2.PredictRequest,
    "PredictResponse": predict_pb2.PredictResponse,
}


def wire_form(field: FieldDescriptor) -> tuple[object, ...]:
    """Return the properties of a field that affect the wire format."""
    kind = field.message_type
    is_map = kind is not None and kind.GetOptions().map_entry
    inner = tuple(map(wire_form, kind.fields)) if is_map else kind and kind.full_name.rpartition(".")[2]
    return field.name, field.number, field.type, field.is_repeated, field.is_packed, inner


@pytest.mark.parametrize("name", OFFICIAL)
def test_every_field_is_as_in_the_official_message(name: str) -> None:
    official = {field.name: wire_form(field) for field in OFFICIAL[name].DESCRIPTOR.fields}
    ours = {field.name: wire_form(field) for field in message(name).DESCRIPTOR.fields}
    assert ours == {field: official[field] for field in ours}


def test_datatypes_have_the_official_numbers() -> None:
    official = {value.name: value.number for value in types_pb2.DataType.DESCRIPTOR.values}
    ours = {f"DT_{name}": number for number, name in enumerate(DATA_TYPES)}
    assert ours == {name: official[name] for name in ours}
