"""TensorFlow Serving: signatures, requests and replies."""

import json
import pickle
from typing import Any

import pytest
from ovmsclient.tfs_compat.protos.tensorflow.core.framework import types_pb2
from ovmsclient.tfs_compat.protos.tensorflow_serving.apis import predict_pb2

from inferometer.base.errors import PeerError, UsageError
from inferometer.model.numbers import encode
from inferometer.model.spec import ANY_BATCH, ModelSpec, Tensor, TensorSpec
from inferometer.options.options import Options
from inferometer.services.endpoint import Connection, Endpoint
from inferometer.services.tfserving import Columns, TfServing, TfServingRest, content, model_of, predicted

HERE = Connection(Endpoint("localhost", 1), (("x-key", "v"),))
MODEL = ModelSpec("m", "", (TensorSpec("x", "INT64", (2,)),), ())


def info(dtype: str, *dims: int) -> dict[str, object]:
    return {"dtype": dtype, "tensor_shape": {"dim": [{"size": dim, "name": ""} for dim in dims]}}


def signatures(**inputs: object) -> dict[str, object]:
    return {"serving_default": {"inputs": inputs, "outputs": {"y": info("DT_FLOAT", -1, 2)}}}


# --- signatures


def test_without_a_batch_size_the_shape_is_the_signatures() -> None:
    model = model_of(signatures(b=info("DT_INT64", 3), a=info("DT_HALF", -1, 4)), "m", "7", Options())
    assert model.inputs == (TensorSpec("a", "FP16", (-1, 4)), TensorSpec("b", "INT64", (3,)))
    assert model.outputs == (TensorSpec("y", "FP32", (-1, 2)),)
    assert (model.max_batch_size, model.version) == (0, "7")


@pytest.mark.parametrize("size", [1, 8])
def test_with_a_batch_size_the_first_dimension_is_the_batch(size: int) -> None:
    model = model_of(signatures(a=info("DT_STRING", -1)), "m", "", Options(batch=size))
    assert model.inputs == (TensorSpec("a", "BYTES", ()),)
    assert model.outputs == (TensorSpec("y", "FP32", (2,)),)
    assert model.max_batch_size == ANY_BATCH


@pytest.mark.parametrize(
    ("found", "options", "sentence"),
    [
        (
            signatures(a=info("DT_INT8", 1, 4)),
            Options(batch=1),
            "must be -1, but input 'a' of 'm' has the",
        ),
        (signatures(a=info("DT_INT8")), Options(batch=1), "shape []"),
        (signatures(), Options(signature="other"), "no signature 'other'; choose one"),
        ({}, Options(), "export it with one"),
        (
            signatures(a={"dtype": "DT_INT8", "tensor_shape": {"unknown_rank": True}}),
            Options(),
            "'a' has an unknown rank",
        ),
    ],
)
def test_unsupported_signatures(found, options: Options, sentence: str) -> None:
    with pytest.raises((UsageError, PeerError), match=r".*") as caught:
        model_of(found, "m", "", options)
    assert sentence in str(caught.value)


def test_an_unknown_datatype_keeps_its_name() -> None:
    model = model_of(signatures(a=info("DT_COMPLEX64", 1)), "m", "", Options())
    assert model.inputs[0].datatype == "DT_COMPLEX64"


# --- requests


def sent(tensor: Tensor, version: str = "") -> predict_pb2.PredictRequest:
    model = ModelSpec("m", version, (), ())
    traffic = TfServing(HERE, Options(protocol="grpc", signature="other")).traffic(model, [[tensor]])
    assert traffic.wiring.protocol == "grpc"
    return predict_pb2.PredictRequest.FromString(traffic.requests[0])


def test_numbers_are_sent_as_raw_bytes() -> None:
    request = sent(Tensor("x", "INT64", (1, 2), encode("INT64", [1, -2])))
    tensor = request.inputs["x"]
    assert types_pb2.DataType.Name(tensor.dtype) == "DT_INT64"
    assert [dim.size for dim in tensor.tensor_shape.dim] == [1, 2]
    assert tensor.tensor_content == (1).to_bytes(8, "little") + (-2).to_bytes(8, "little", signed=True)
    assert not tensor.int_val
    assert request.model_spec.signature_name == "other"
    assert request.model_spec.WhichOneof("version_choice") is None


def test_strings_are_sent_one_by_one() -> None:
    tensor = sent(Tensor("x", "BYTES", (2,), encode("BYTES", [b"\xff", b""]))).inputs["x"]
    assert list(tensor.string_val) == [b"\xff", b""]
    assert not tensor.tensor_content


def test_a_scalar_has_a_shape_without_dimensions() -> None:
    tensor = sent(Tensor("x", "BOOL", (), b"\x01")).inputs["x"]
    assert tensor.HasField("tensor_shape")
    assert not tensor.tensor_shape.unknown_rank


@pytest.mark.parametrize(
    ("version", "choice", "value"),
    [
        ("3", "version", 3),
        ("007", "version", 7),
        ("stable", "version_label", "stable"),
        ("-1", "version_label", "-1"),
        ("1.0", "version_label", "1.0"),
        ("9" * 30, "version_label", "9" * 30),
    ],
)
def test_a_number_is_a_version_and_anything_else_a_label(version: str, choice: str, value: object) -> None:
    spec = sent(Tensor("x", "BOOL", (), b"\x01"), version).model_spec
    assert spec.WhichOneof("version_choice") == choice
    assert (spec.version.value if choice == "version" else spec.version_label) == value


# --- replies


def reply(**fields: Any) -> bytes:
    response = predict_pb2.PredictResponse()
    tensor = response.outputs["y"]
    shape = fields.pop("shape")
    tensor.dtype = types_pb2.DataType.Value(fields.pop("dtype"))
    for dim in shape:
        tensor.tensor_shape.dim.add(size=dim)
    for name, value in fields.items():
        if isinstance(value, bytes):
            setattr(tensor, name, value)
        else:
            getattr(tensor, name).extend(value)
    return response.SerializeToString()


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"dtype": "DT_FLOAT", "float_val": [1.5, 2]}, encode("FP32", [1.5, 2])),
        ({"dtype": "DT_FLOAT", "tensor_content": encode("FP32", [1.5, 2])}, encode("FP32", [1.5, 2])),
        ({"dtype": "DT_INT64", "int64_val": [-1, 2]}, encode("INT64", [-1, 2])),
        ({"dtype": "DT_UINT8", "int_val": [255, 2]}, b"\xff\x02"),
        ({"dtype": "DT_BOOL", "bool_val": [True, False]}, b"\x01\x00"),
        ({"dtype": "DT_HALF", "half_val": [0x3C00, 0]}, encode("FP16", [1, 0])),
        ({"dtype": "DT_BFLOAT16", "half_val": [0x3F80, 0]}, encode("BF16", [1, 0])),
        ({"dtype": "DT_STRING", "string_val": [b"a", b"\xff"]}, encode("BYTES", [b"a", b"\xff"])),
        ({"dtype": "DT_INT32", "int_val": [7]}, encode("INT32", [7, 7])),
        ({"dtype": "DT_DOUBLE"}, b""),
    ],
)
def test_outputs_in_any_form(fields: dict[str, object], wanted: bytes) -> None:
    assert predicted(memoryview(reply(shape=(1, 2), **fields))) == {"y": wanted}


@pytest.mark.parametrize("data", [b"\xff", reply(shape=(1,), dtype="DT_VARIANT")])
def test_malformed_replies_are_peer_errors(data: bytes) -> None:
    with pytest.raises(PeerError, match="not a PredictResponse"):
        predicted(data)


def test_a_scalar_output_has_one_value() -> None:
    response = predict_pb2.PredictResponse.FromString(reply(shape=(), dtype="DT_INT8", int_val=[-3]))
    assert content(response.outputs["y"]) == b"\xfd"


# --- REST


@pytest.mark.parametrize(
    ("tensor", "value"),
    [
        (Tensor("x", "INT32", (2, 2), encode("INT32", [1, 2, 3, 4])), [[1, 2], [3, 4]]),
        (Tensor("x", "FP32", (2, 1, 1), encode("FP32", [0.5, 2])), [[[0.5]], [[2.0]]]),
        (Tensor("x", "BOOL", (), b"\x01"), True),
        (Tensor("x", "BYTES", (1,), encode("BYTES", [b"\xff"])), [{"b64": "/w=="}]),
        (Tensor("x", "INT8", (0, 3), b""), []),
        (Tensor("x", "INT8", (2, 0), b""), [[], []]),
    ],
)
def test_tensors_are_nested_lists(tensor: Tensor, value: object) -> None:
    rest = TfServingRest(HERE, Options(signature="s"))
    (request,) = rest.traffic(MODEL, [[tensor]]).requests
    head, _, body = request.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/models/m:predict HTTP/1.1\r\n")
    assert b"x-key: v" in head
    assert json.loads(body) == {"signature_name": "s", "inputs": {"x": value}}


@pytest.mark.parametrize(("version", "place"), [("3", "/versions/3"), ("a b", "/labels/a%20b")])
def test_a_version_or_label_is_in_the_path(version: str, place: str) -> None:
    model = ModelSpec("m", version, (), ())
    (request,) = TfServingRest(HERE, Options()).traffic(model, [[]]).requests
    assert request.startswith(f"POST /v1/models/m{place}:predict ".encode())


@pytest.mark.parametrize(
    ("outputs", "document", "wanted"),
    [
        ((("y", "INT16"),), {"outputs": [[1], [2]]}, {"y": b"\x01\x00\x02\x00"}),
        ((("y", "FP32"),), {"outputs": 2}, {"y": encode("FP32", [2])}),
        ((("y", "BYTES"),), {"outputs": ["a", {"b64": "/w=="}]}, {"y": encode("BYTES", [b"a", b"\xff"])}),
        ((("y", "BOOL"), ("z", "INT8")), {"outputs": {"y": [True], "z": [3]}}, {"y": b"\x01", "z": b"\x03"}),
    ],
)
def test_outputs_of_a_rest_reply(outputs, document: object, wanted: dict[str, bytes]) -> None:
    reader = pickle.loads(pickle.dumps(Columns(outputs)))
    assert reader(bytearray(json.dumps(document).encode())) == wanted


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"outputs": ["a"]}'])
def test_a_malformed_rest_reply(body: bytes) -> None:
    with pytest.raises(PeerError, match="cannot read"):
        Columns((("y", "INT8"),))(body)
