"""Conversion of call values to bytes, and of replies to answers."""

import json
from typing import Any

import numpy as np
import pytest

from inferometer.base.errors import PeerError, UsageError
from inferometer.model.spec import ModelSpec, Tensor, TensorSpec
from inferometer.model.visit import call
from inferometer.services import triton_grpc
from inferometer.services.calls import JsonCalls, KeptHeads, TensorCalls, made_tensor
from inferometer.services.endpoint import Connection, Endpoint
from inferometer.services.kserve import load_messages, raw_input

INTS = TensorSpec("X", "INT32", (2, 2))
OPEN = TensorSpec("X", "FP32", (-1, 2))
TEXTS = TensorSpec("X", "BYTES", (-1,))


def tensor(datatype, shape, *values):
    return Tensor("other", datatype, shape, np.array(values, dtype="<i4").tobytes())


@pytest.mark.parametrize(
    ("spec", "value", "shape", "data"),
    [
        (INTS, [[1, 2], [3, 4]], (2, 2), [1, 2, 3, 4]),
        (INTS, [1, 2, 3, 4], (2, 2), [1, 2, 3, 4]),
        (INTS, np.array([[1, 2], [3, 4]]), (2, 2), [1, 2, 3, 4]),
        (INTS, tensor("INT32", (2, 2), 1, 2, 3, 4), (2, 2), [1, 2, 3, 4]),
        (INTS, tensor("INT32", (4,), 1, 2, 3, 4), (2, 2), [1, 2, 3, 4]),
        (INTS, ((1, 2), (3, 4)), (2, 2), [1, 2, 3, 4]),
        (INTS, [np.int32(1), 2, np.array([3, 4])[0], 4], (2, 2), [1, 2, 3, 4]),
        (TensorSpec("X", "INT32", (1,)), 5, (1,), [5]),
        (TensorSpec("X", "INT32", ()), 5, (), [5]),
    ],
)
def test_values_become_tensors(spec, value, shape, data):
    made = made_tensor(spec, value)
    assert (made.name, made.datatype, made.shape) == ("X", "INT32", shape)
    assert np.frombuffer(made.data, "<i4").tolist() == data


def test_a_variable_dimension_is_as_large_as_the_value():
    assert made_tensor(OPEN, [[1.0, 2.0]]).shape == (1, 2)
    assert made_tensor(OPEN, [1, 2, 3, 4, 5, 6]).shape == (3, 2)
    assert made_tensor(TEXTS, ["a", b"b"]).data == b"\x01\0\0\0a\x01\0\0\0b"
    assert made_tensor(TEXTS, np.array([b"a"], dtype=object)).shape == (1,)


@pytest.mark.parametrize(
    ("spec", "value", "said"),
    [
        (INTS, [1, 2, 3], "'X' requires the shape [2,2], but the value has the shape [3]"),
        (INTS, [1, 2, 3, "4"], "'X' takes INT32: element 3 must be an integer"),
        (INTS, [1, 2, 3, 2.5], "'X' takes INT32: element 3 must be an integer"),
        (INTS, None, "'X' takes INT32"),
        (INTS, tensor("UINT32", (2, 2), 1, 2, 3, 4), "'X' takes INT32, but got UINT32"),
        (INTS, tensor("INT32", (3,), 1, 2, 3), "requires the shape [2,2], but the value has the shape [3]"),
        (OPEN, [1, 2, 3], "'X' requires the shape [-1,2], but the value has the shape [3]"),
    ],
)
def test_values_that_do_not_fit_are_refused(spec, value, said):
    with pytest.raises(UsageError) as caught:
        made_tensor(spec, value)
    assert said in str(caught.value)


def model(batch):
    return ModelSpec("m", "", (INTS, TensorSpec("Y", "INT32", (1,))), (INTS,), max_batch_size=batch)


def calls(batch, rest=None):
    shown: list[Any] = []

    def render(step):
        shown[:] = step
        return b"bytes"

    return TensorCalls(model(batch), render, rest or {}), shown


@pytest.mark.parametrize(("batch", "shape"), [(0, (2, 2)), (8, (1, 2, 2))])
def test_the_batch_dimension_is_added_and_removed(batch, shape):
    rest = {"Y": tensor("INT32", (1, 1), 9)}
    caller, shown = calls(batch, rest)
    assert caller.request(call("a", {"X": [1, 2, 3, 4]})) == b"bytes"
    assert (shown[0].shape, shown[1]) == (shape, rest["Y"])
    reply = {"outputs": [{"name": "O", "datatype": "INT32", "shape": shape, "data": [1, 2, 3, 4]}]}
    assert caller.http_answer(json.dumps(reply).encode(), None)["O"].tolist() == [[1, 2], [3, 4]]


def test_missing_and_surplus_inputs_are_named():
    caller, _ = calls(0)
    for given, said in (
        ({"X": [1, 2, 3, 4]}, "needs a value for 'Y'"),
        ({"X": [1, 2, 3, 4], "Y": 1, "Z": 1}, "has no input 'Z'"),
    ):
        with pytest.raises(UsageError, match=said):
            caller.request(call("a", given))
    with pytest.raises(UsageError, match="takes inputs, but got a body"):
        caller.request(call("a", body={}))
    with pytest.raises(PeerError):
        caller.http_answer(b"nonsense", None)


def test_json_is_sent_with_the_default_fields():
    connection = Connection(Endpoint("here", 1))
    caller = JsonCalls(connection, "/v1/x", {"model": "m"})
    head, _, body = caller.request(call("a", body={"n": np.int64(3)})).partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/x HTTP/1.1\r\n")
    assert json.loads(body) == {"model": "m", "n": 3}
    assert caller.http_answer(b'{"a": [1]}', None) == {"a": [1]}
    with pytest.raises(PeerError, match="not JSON"):
        caller.http_answer(b"<html>", None)
    with pytest.raises(UsageError, match="got inputs"):
        caller.request(call("a", {"X": 1}))
    with pytest.raises(UsageError, match="the body is not JSON: a set"):
        caller.request(call("a", body={"x": {1}}))
    plain = JsonCalls(connection, "/x")
    assert plain.request(call("a")).startswith(b"GET /x HTTP/1.1\r\n")
    assert plain.request(call("a", body=[1])).endswith(b"\r\n\r\n[1]")


def test_the_head_before_values_of_equal_sizes_is_built_once():
    made = []

    def whole(step):
        made.append(step)
        return b"head of %d;" % len(step[0].data) + step[0].data

    render = KeptHeads(whole, bytes)
    one, other, longer = (Tensor("X", "BYTES", (1,), data) for data in (b"ab", b"cd", b"efg"))
    assert [render([each]) for each in (one, other, longer, other)] == [
        b"head of 2;ab",
        b"head of 2;cd",
        b"head of 3;efg",
        b"head of 2;cd",
    ]
    assert len(made) == 2
    as_json = KeptHeads(lambda step: repr(step[0].data).encode() + b"}", bytes)
    assert [as_json([each]) for each in (one, other)] == [b"b'ab'}", b"b'cd'}"]


def replied(*values, shape=(1, 2)):
    data = np.array(values, dtype="<i4").tobytes()
    row = {"name": "O", "datatype": "INT32", "shape": shape, "parameters": {"binary_data_size": len(data)}}
    head = json.dumps({"outputs": [row]}).encode()
    return bytearray(head + data), str(len(head))


def test_answers_of_one_form_differ_in_their_values():
    caller, _ = calls(8)
    for values in ((1, 2), (3, 4), (5, 6)):
        assert caller.http_answer(*replied(*values))["O"].tolist() == list(values)
    assert caller.http_answer(*replied(1, 2, 3, shape=(1, 3)))["O"].tolist() == [1, 2, 3]
    body, length = replied(7, 8)
    with pytest.raises(PeerError, match="its header announces"):
        caller.http_answer(body + b"more", length)
    for length in ("x", "99999", ""):
        with pytest.raises(PeerError):
            caller.http_answer(body, length)


def test_the_same_over_grpc():
    service = load_messages()
    caller, _ = calls(8)
    for values in ((1, 2), (3, 4)):
        reply = service.ModelInferResponse(
            model_name="m", raw_output_contents=[np.array(values, "<i4").tobytes()]
        )
        reply.outputs.add(name="O", datatype="INT32", shape=[1, 2])
        assert caller.grpc_answer(reply.SerializeToString())["O"].tolist() == list(values)
    typed = service.ModelInferResponse()
    typed.outputs.add(name="O", datatype="INT32", shape=[1, 2]).contents.int_contents.extend([5, 6])
    assert caller.grpc_answer(typed.SerializeToString())["O"].tolist() == [5, 6]
    with pytest.raises(PeerError):
        caller.grpc_answer(b"\x32\x7fx")


def test_requests_over_grpc_are_those_of_the_official_messages():
    tensors = [Tensor("X", "INT32", (1, 2, 2), b"a" * 16), Tensor("Y", "BYTES", (1, 1), b"b" * 300)]
    sent = triton_grpc._Rendering(model(8), ())
    render = KeptHeads(sent, raw_input)
    for _ in range(2):
        assert render(tensors) == sent(tensors)
