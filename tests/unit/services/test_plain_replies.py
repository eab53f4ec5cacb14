"""Replies of plain KServe v2 servers."""

import json
import struct
from typing import Any

import pytest

from inferometer.services.kserve import grpc_outputs, http_outputs, load_messages

service_pb2 = load_messages()


@pytest.mark.parametrize("more", [{}, {"parameters": None}, {"parameters": {}}, {"parameters": {"a": 1}}])
@pytest.mark.parametrize("data", [[1, 2], [[1], [2]]])
def test_json_with_and_without_parameters(more: dict[str, Any], data: list[Any]):
    row = {"name": "OUT", "datatype": "INT32", "shape": [2], "data": data, **more}
    body = json.dumps({"model_name": "m", "outputs": [row]}).encode()
    assert http_outputs(body, None) == {"OUT": struct.pack("<2i", 1, 2)}


def test_contents_with_a_type_instead_of_raw_ones():
    reply = service_pb2.ModelInferResponse(model_name="m")
    output = reply.outputs.add(name="OUT", datatype="INT32", shape=[2])
    output.contents.int_contents.extend([1, 2])
    text = reply.outputs.add(name="TEXT", datatype="BYTES", shape=[1])
    text.contents.bytes_contents.append(b"abc")
    assert grpc_outputs(reply.SerializeToString()) == {
        "OUT": struct.pack("<2i", 1, 2),
        "TEXT": b"\x03\x00\x00\x00abc",
    }
