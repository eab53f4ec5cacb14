"""The fast reader of a ModelStreamInferResponse compared with the official message."""

import contextlib

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2

from inferometer.base.errors import PeerError
from inferometer.services.kserve import StreamReply, read_stream_reply

FINAL = "triton_final_response"

texts = st.text("ab é☃\n\0", max_size=30)
parameters = st.one_of(
    st.builds(lambda value: service_pb2.InferParameter(bool_param=value), st.booleans()),
    st.builds(lambda value: service_pb2.InferParameter(int64_param=value), st.integers(-(2**63), 2**63 - 1)),
    st.builds(lambda value: service_pb2.InferParameter(string_param=value), texts),
    st.just(service_pb2.InferParameter()),
)
outputs = st.builds(
    lambda name, shape: service_pb2.ModelInferResponse.InferOutputTensor(
        name=name, datatype="FP32", shape=shape
    ),
    texts,
    st.lists(st.integers(-1, 2**40), max_size=3),
)


@st.composite
def responses(draw: st.DrawFn) -> service_pb2.ModelStreamInferResponse:
    inner = service_pb2.ModelInferResponse(
        model_name=draw(texts),
        model_version=draw(texts),
        id=draw(texts),
        outputs=draw(st.lists(outputs, max_size=3)),
        raw_output_contents=draw(st.lists(st.binary(max_size=300), max_size=3)),
    )
    names = st.sampled_from([FINAL, "sequence_id", "", "triton_final"])
    for name, value in draw(st.dictionaries(names, parameters)).items():
        inner.parameters[name].CopyFrom(value)
    whole = service_pb2.ModelStreamInferResponse(error_message=draw(texts))
    if draw(st.booleans()):
        whole.infer_response.CopyFrom(inner)
    return whole


def by_the_book(message: service_pb2.ModelStreamInferResponse) -> StreamReply:
    inner = message.infer_response
    return StreamReply(
        request_id=inner.id.encode(),
        error=message.error_message,
        has_data=len(inner.outputs) > 0,
        is_final=inner.parameters[FINAL].bool_param if FINAL in inner.parameters else True,
    )


@given(responses())
def test_it_reads_the_same_as_the_official_message(message: service_pb2.ModelStreamInferResponse) -> None:
    assert read_stream_reply(message.SerializeToString()) == by_the_book(message)


@given(responses(), st.sampled_from([bytes, bytearray, memoryview]))
def test_any_buffer_works(message: service_pb2.ModelStreamInferResponse, kind: type) -> None:
    assert read_stream_reply(kind(message.SerializeToString())) == by_the_book(message)


@given(responses(), responses())
def test_two_messages_in_a_row_are_merged_as_protobuf_says(
    one: service_pb2.ModelStreamInferResponse, two: service_pb2.ModelStreamInferResponse
) -> None:
    data = one.SerializeToString() + two.SerializeToString()
    official = service_pb2.ModelStreamInferResponse.FromString(data)
    assert read_stream_reply(data) == by_the_book(official)


@given(responses(), st.data())
def test_a_truncated_message_is_an_error_or_another_message(
    message: service_pb2.ModelStreamInferResponse, data: st.DataObject
) -> None:
    whole = message.SerializeToString()
    part = whole[: data.draw(st.integers(0, len(whole)))]
    try:
        official = service_pb2.ModelStreamInferResponse.FromString(part)
    except DecodeError:
        # Lengths inside the tensors are not checked, so some of these can still be read.
        with contextlib.suppress(PeerError):
            read_stream_reply(part)
    else:
        assert read_stream_reply(part) == by_the_book(official)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_reply_or_an_error(data: bytes) -> None:
    with contextlib.suppress(PeerError):
        assert isinstance(read_stream_reply(data), StreamReply)


@pytest.mark.parametrize(
    ("parameter", "is_final"),
    [
        (b"\x08\x01", True),
        (b"\x08\x00", False),
        (b"\x08\x02", True),  # any number but 0 is true
        (b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", True),
        (b"", False),
        (b"\x1a\x04true", False),
    ],
    ids=["true", "false", "two", "minus one", "nothing", "a string"],
)
def test_the_final_flag(parameter: bytes, is_final: bool) -> None:
    name = FINAL.encode()
    entry = b"\x0a" + bytes([len(name)]) + name + b"\x12" + bytes([len(parameter)]) + parameter
    inner = b"\x22" + bytes([len(entry)]) + entry
    data = b"\x12" + bytes([len(inner)]) + inner
    assert by_the_book(service_pb2.ModelStreamInferResponse.FromString(data)).is_final == is_final
    assert read_stream_reply(data).is_final == is_final


def test_error_texts_that_are_not_utf_8_are_still_shown() -> None:
    assert read_stream_reply(b"\x0a\x03a\xffb").error == "a\ufffdb"
