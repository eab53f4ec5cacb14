"""Rendered requests compared with those of the official client, over HTTP and gRPC."""

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tritonclient.grpc import service_pb2
from tritonclient.http import InferenceServerClient, InferInput, InferRequestedOutput
from tritonclient.utils import deserialize_bytes_tensor, triton_to_np_dtype

from inferometer.base.errors import UsageError
from inferometer.model.numbers import DATATYPES, encode
from inferometer.model.spec import ModelSpec, Tensor, TensorSpec
from inferometer.options.options import Options
from inferometer.services.endpoint import Connection, Endpoint
from inferometer.services.shared_memory import OutputPlaces, Placement, layout
from inferometer.services.triton_grpc import TritonGrpc
from inferometer.services.triton_http import TritonHttp

CONNECTION = Connection(Endpoint("server", 8000))
VALUES: dict[str, list[Any]] = {
    "BOOL": [True, False],
    "UINT8": [0, 255],
    "UINT16": [0, 65535],
    "UINT32": [0, 2**32 - 1],
    "UINT64": [0, 2**64 - 1],
    "INT8": [-128, 127],
    "INT16": [-(2**15), 2**15 - 1],
    "INT32": [-(2**31), 2**31 - 1],
    "INT64": [-(2**63), 2**63 - 1],
    "FP16": [-0.0, 65504.0],
    "BF16": [-0.0, 2.0**-133],
    "FP32": [-0.0, 0.10000000149011612, 1.401298464324817e-45, math.inf, -math.inf],
    "FP64": [-0.0, 0.1, 5e-324, 1.7976931348623157e308, math.inf],
    "BYTES": ["", "a", "Grüße 🙂", "\x00\x01", '"\\'],
}
SHAPES = ((1,), (2, 3), (1, 1, 1, 1), (7, 1, 33), (300, 300), (0,), (2, 0))
IN_JSON = [name for name in DATATYPES if name not in ("FP16", "BF16")]


def test_every_datatype_is_tried():
    assert set(VALUES) == set(DATATYPES)


def tensor(datatype: str, shape: tuple[int, ...], name: str = "IN") -> Tensor:
    return Tensor(name, datatype, shape, encode(datatype, elements(datatype, shape)))


def elements(datatype: str, shape: tuple[int, ...]) -> list[Any]:
    count, values = math.prod(shape), VALUES[datatype]
    return (values * (count // len(values) + 1))[:count]


def array(datatype: str, shape: tuple[int, ...]) -> "np.ndarray[Any, Any]":
    """Return an array for the official client."""
    values = elements(datatype, shape)
    if datatype == "BYTES":
        values = [value.encode() for value in values]
    return np.array(values, dtype=triton_to_np_dtype(datatype)).reshape(shape)


def model(*outputs: TensorSpec) -> ModelSpec:
    given = outputs if outputs else (TensorSpec("OUT", "FP32", (2,)),)
    return ModelSpec(name="m", version="", inputs=(), outputs=given)


def rendered(
    step: Sequence[Tensor],
    spec: ModelSpec,
    options: Options | None = None,
    placement: Placement | None = None,
) -> tuple[dict[str, str], dict[str, Any], bytes]:
    """Return headers, document and tensors of a request over HTTP."""
    (request,) = TritonHttp(CONNECTION, options).traffic(spec, [step], placement).requests
    head, _, body = request.partition(b"\r\n\r\n")
    line, *fields = head.decode().split("\r\n")
    headers = dict(field.split(": ", 1) for field in fields)
    assert line == "POST /v2/models/m/infer HTTP/1.1"
    assert int(headers["Content-Length"]) == len(body)
    split = int(headers["Inference-Header-Content-Length"])
    return headers, json.loads(body[:split]), body[split:]


def official(inputs: list[InferInput], outputs: list[InferRequestedOutput]) -> tuple[dict[str, Any], bytes]:
    body, split = InferenceServerClient.generate_request_body(inputs, outputs=outputs)
    split = len(body) if split is None else split
    return json.loads(body[:split]), body[split:]


def official_input(datatype: str, shape: tuple[int, ...], *, binary: bool) -> InferInput:
    made = InferInput("IN", list(shape), datatype)
    made.set_data_from_numpy(array(datatype, shape), binary_data=binary)
    return made


def assert_alike(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert ours["inputs"] == theirs["inputs"]
    assert ours["outputs"] == theirs["outputs"]


# --- HTTP


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("datatype", DATATYPES)
def test_binary_over_http(datatype: str, shape: tuple[int, ...]):
    step = [tensor(datatype, shape)]
    headers, document, data = rendered(step, model())
    theirs, their_data = official(
        [official_input(datatype, shape, binary=True)], [InferRequestedOutput("OUT", binary_data=True)]
    )
    assert_alike(document, theirs)
    assert data == their_data == step[0].data
    assert headers["Content-Type"] == ("application/octet-stream" if data else "application/json")


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("datatype", IN_JSON)
def test_json_over_http(datatype: str, shape: tuple[int, ...]):
    headers, document, data = rendered([tensor(datatype, shape)], model(), Options(input_format="json"))
    theirs, _ = official(
        [official_input(datatype, shape, binary=False)], [InferRequestedOutput("OUT", binary_data=True)]
    )
    assert_alike(document, theirs)
    assert document["inputs"][0]["data"] == elements(datatype, shape)
    assert "parameters" not in document["inputs"][0]
    assert data == b""
    assert headers["Content-Type"] == "application/json"


def test_json_keeps_non_finite_numbers():
    step = [Tensor("IN", "FP32", (3,), encode("FP32", [math.nan, math.inf, -math.inf]))]
    _, document, _ = rendered(step, model(), Options(input_format="json"))
    assert list(map(str, document["inputs"][0]["data"])) == ["nan", "inf", "-inf"]


@pytest.mark.parametrize("output_format", ["binary", "json"])
def test_the_format_of_outputs_is_requested(output_format: str):
    spec = model(TensorSpec("A", "INT8", (1,)), TensorSpec("B", "BYTES", (-1,)))
    _, document, _ = rendered([tensor("INT8", (1,))], spec, Options(output_format=output_format))
    asked = [InferRequestedOutput(name, binary_data=output_format == "binary") for name in "AB"]
    theirs, _ = official([official_input("INT8", (1,), binary=True)], asked)
    assert_alike(document, theirs)


@pytest.mark.parametrize("datatype", ["FP16", "BF16"])
def test_half_floats_are_refused_as_json(datatype: str):
    with pytest.raises(UsageError, match=f"input 'IN' is of datatype {datatype}"):
        rendered([tensor(datatype, (2,))], model(), Options(input_format="json"))
    with pytest.raises(UsageError, match=f"output 'HALF' is of datatype {datatype}"):
        rendered([], model(TensorSpec("HALF", datatype, (2,))), Options(output_format="json"))


def test_bytes_that_are_not_text_are_refused_as_json():
    step = [Tensor("IN", "BYTES", (2,), encode("BYTES", ["good", b"\xff\xfe"]))]
    with pytest.raises(UsageError, match="element 1 of input 'IN' is not UTF-8"):
        rendered(step, model(), Options(input_format="json"))


@pytest.mark.parametrize("input_format", ["binary", "json"])
def test_shared_memory_over_http(input_format: str):
    step = [tensor("FP16", (5,)), tensor("BYTES", (3,), "TEXT")]
    spec = model(TensorSpec("A", "FP16", (5,)), TensorSpec("B", "BYTES", (-1,)))
    placement = layout(spec, [step], OutputPlaces(batch=1, unknown_size=99), region="r")
    _, document, data = rendered(step, spec, Options(input_format=input_format), placement)

    inputs = [InferInput(one.name, list(one.shape), one.datatype) for one in step]
    outputs = [InferRequestedOutput(name) for name in "AB"]
    for made, part in zip(inputs, placement.inputs[0], strict=True):
        made.set_shared_memory("r", part.size, part.offset)
    for asked in outputs:
        part = placement.outputs[asked.name()]
        asked.set_shared_memory("r", part.size, part.offset)
    theirs, _ = official(inputs, outputs)
    for row in theirs["outputs"]:
        assert row["parameters"].pop("binary_data", False) is False  # newer clients also send the default
    assert_alike(document, theirs)
    assert data == b""


def test_outputs_that_are_read_come_back_in_the_reply():
    step = [tensor("INT8", (5,))]
    placement = layout(model(), [step], OutputPlaces(batch=1, unknown_size=99, are_inline=True), region="r")
    _, document, _ = rendered(step, model(), None, placement)
    assert document["outputs"] == [{"name": "OUT", "parameters": {"binary_data": True}}]


# --- gRPC


def message(
    step: Sequence[Tensor], spec: ModelSpec, placement: Placement | None = None
) -> "service_pb2.ModelInferRequest":
    service = TritonGrpc(CONNECTION)
    (request,) = service.traffic(spec, [step], placement).requests
    return service_pb2.ModelInferRequest.FromString(request)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("datatype", DATATYPES)
def test_binary_over_grpc(datatype: str, shape: tuple[int, ...]):
    request = message([tensor(datatype, shape)], model())
    (described,), (raw,) = request.inputs, request.raw_input_contents
    assert (described.name, described.datatype, tuple(described.shape)) == ("IN", datatype, shape)
    if datatype == "BYTES":
        found = deserialize_bytes_tensor(raw)
    elif datatype == "BF16":
        found = (np.frombuffer(raw, dtype="<u2").astype("<u4") << 16).view("<f4")
    else:
        found = np.frombuffer(raw, dtype=DATATYPES[datatype].numpy)
    assert found.reshape(shape).tolist() == array(datatype, shape).tolist()


def test_shared_memory_over_grpc():
    step = [tensor("FP16", (5,)), tensor("BYTES", (3,), "TEXT")]
    spec = model(TensorSpec("A", "FP16", (5,)), TensorSpec("B", "BYTES", (-1,)))
    placement = layout(spec, [step], OutputPlaces(batch=1, unknown_size=99), region="r")
    request = message(step, spec, placement)
    assert list(request.raw_input_contents) == []
    expected = [*placement.inputs[0], placement.outputs["A"], placement.outputs["B"]]
    for described, part in zip([*request.inputs, *request.outputs], expected, strict=True):
        found = {
            name: value.string_param if name == "shared_memory_region" else value.int64_param
            for name, value in described.parameters.items()
        }
        assert found == part.parameters()
