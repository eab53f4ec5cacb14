"""Output of -v -v for every request and reply: their JSON, the size of binary data, and no secrets."""

import json

import pytest

from inferometer.base.messages import messages_shown
from inferometer.load.link import Replies, RequestLog, shown_body
from inferometer.services.endpoint import Endpoint
from inferometer.services.kserve import load_messages
from inferometer.services.traffic import Wiring

JSON = b'{"inputs":[{"name":"X"}],"token":"s3cret"}'
HEAD = (
    b"POST /v2/models/m/infer HTTP/1.1\r\nAuthorization: Bearer s3cret\r\n"
    b"Inference-Header-Content-Length: %d\r\n\r\n" % len(JSON)
)


def wiring(protocol, block=b""):
    return Wiring(Endpoint("127.0.0.1", 1), protocol=protocol, block=block)


def shown(capsys, wiring, request, reply, header_length=None):
    with messages_shown(2):
        RequestLog([request], wiring).sent(0, 0, None)
        replies = Replies(None, None, shown=shown_body(wiring, is_reply=True))
        assert replies.wants(0)
        if wiring.protocol == "http":
            replies.judge_http(0, 0, 1, bytearray(reply), header_length)
        else:
            replies.judge_grpc(0, 0, 1, reply)
    _, sent, received = capsys.readouterr().err.splitlines()
    return sent, received


def test_http_json_is_shown_without_headers_and_secrets(capsys):
    reply = b'{"outputs":[]}' + b"\xff" * 8
    sent, received = shown(capsys, wiring("http"), HEAD + JSON + b"\xff" * 64, reply, "14")
    assert sent == '> [0] {"inputs":[{"name":"X"}],"token":"***"} + 64 bytes of binary data'
    assert received == '< [0] {"outputs":[]} + 8 bytes of binary data'


def test_grpc_messages_are_shown_as_json(capsys):
    messages = load_messages()
    request = messages.ModelInferRequest(model_name="m", raw_input_contents=[b"12345678"])
    reply = messages.ModelInferResponse(model_name="m", raw_output_contents=[b"1234"])
    path = wiring("grpc", b"/inference.GRPCInferenceService/ModelInfer")
    sent, received = shown(capsys, path, request.SerializeToString(), reply.SerializeToString())
    document, end = json.JSONDecoder().raw_decode(sent.removeprefix("> [0] "))
    assert document == {"model_name": "m"}
    assert sent[len("> [0] ") + end :] == " + raw_input_contents of [8] bytes"
    assert "raw_output_contents of [4] bytes" in received


@pytest.mark.parametrize("data", [b"\xff\xfe", b"\x0a\xff"])
def test_other_messages_are_shown_by_their_size(capsys, data):
    sent, received = shown(capsys, wiring("grpc", b"/some.Service/Call"), data, data)
    assert (sent, received) == ("> [0] 2 bytes", "< [0] 2 bytes")
