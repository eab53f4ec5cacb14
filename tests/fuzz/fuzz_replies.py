"""What replies mean: OpenAI documents and streams, tensors of KServe v2 and of TensorFlow Serving."""

import json
from typing import Any

from inferometer.services.apis import BY_NAME
from inferometer.services.kserve import grpc_outputs, grpc_tensors, http_tensors, load_messages
from inferometer.services.template_api import template_api
from inferometer.services.text_reply import TextReader
from inferometer.services.tfserving import Columns, message, predicted
from tests.fuzz.harness import Choices, Family, corpus, damaged
from tests.support.strange import strange, text_of
from tests.support.text_apis import CUSTOM, STAND_INS

JSON_WORDS = (
    b"null",
    b"true",
    b"-1",
    b"1e999",
    b"NaN",
    b"[",
    b"]",
    b"{",
    b"}",
    b'"',
    b",",
    b":",
    b'"\\ud800"',
    b"[" * 3000,
)


def make_documents(name: str, documents: tuple[Any, ...]) -> Any:
    """Documents with odd parts, sometimes with damaged bytes too."""
    known = corpus(name)

    def make(choices: Choices) -> bytes:
        kind = choices.below(8)
        if kind == 7 and known:
            return damaged(choices.pick(known), choices, JSON_WORDS)
        document = choices.pick(documents)
        text = text_of(document if kind == 0 else strange(document, choices.below))
        return damaged(text, choices, JSON_WORDS) if kind == 6 else text

    return make


# --- OpenAI

ANSWERS = (
    {
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}
        ],
        "usage": {"completion_tokens": 2, "prompt_tokens": 3, "total_tokens": 5},
    },
    {"error": {"message": "no", "type": "bad", "code": 400}},
    {"error": "no"},
    {
        "object": "response",
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "x"}]}],
        "usage": {"input_tokens": 3, "output_tokens": 2, "output_tokens_details": {"reasoning_tokens": 1}},
    },
    {"object": "list", "data": [{"embedding": [0.5, 1]}], "usage": {"prompt_tokens": 3}},
)
DELTAS = (
    {"choices": [{"delta": {"role": "assistant"}}]},
    {"choices": [{"delta": {"content": "y"}, "finish_reason": None}]},
    {"choices": [{"text": "y", "finish_reason": "stop"}]},
    {"choices": [], "usage": {"completion_tokens": 2, "completion_tokens_details": {"reasoning_tokens": 1}}},
    {"error": {"message": "no"}},
    {"type": "response.output_text.delta", "delta": "y"},
    {"type": "response.completed", "response": {"error": None, "usage": {"output_tokens": 2}}},
    {"type": "response.failed", "response": {"error": {"message": "no"}}},
    {"type": "error", "message": "no"},
)


def head(kind: str) -> Any:
    class Told:
        length = 5

        def get(self, name: str) -> str:
            return kind

    return Told()


def finish(reader: TextReader, kind: str, data: bytes) -> None:
    reading = reader.start(head(kind))
    for piece in (data[: len(data) // 2], data[len(data) // 2 :]):
        reading.receive(piece, 5)
    reply = reading.end()
    assert 0 <= reply.tokens < 2**63
    assert 0 <= reply.prompt_tokens < 2**63
    assert 0 <= reply.reasoning_tokens < 2**63
    assert 0 <= reply.cached_tokens < 2**63
    reply.text.encode()
    json.dumps(reply.message)


def read_answer(data: bytes) -> None:
    finish(TextReader(keeps_message=True, keeps_texts=True), "application/json", data)


make_answer = make_documents("openai", ANSWERS)
make_delta = make_documents("openai-stream", DELTAS)


def make_stream(choices: Choices) -> bytes:
    events = b"".join(
        b"data: " + make_delta(choices).replace(b"\n", b" ") + b"\n\n" for _ in range(1 + choices.below(4))
    )
    whole = events + (b"data: [DONE]\n\n" if choices.below(2) else b"")
    return whole if choices.below(4) else whole[: -1 - choices.below(8)]


def read_stream(data: bytes) -> None:
    finish(TextReader(keeps_message=True, keeps_texts=True), "text/event-stream", data)


# --- every other API: the first byte of the data selects it, and the content type

ROWS = (*STAND_INS, CUSTOM)
TEMPLATE = template_api(
    '{"q": "{{prompt}}"}', ("text=answer.0.piece", "tokens=count.out", "end=state=finished"), "/"
)
FORMS = (*(BY_NAME[row.name].form for row in STAND_INS), TEMPLATE[0].form)
KINDS = ("application/json", "text/event-stream", "application/x-ndjson")


def _documents() -> tuple[tuple[Any, ...], ...]:
    """The documents that each API sends."""
    pieces = ((row.whole, *row.stream) for row in ROWS)
    texts = ([piece.rpartition(b"data:")[2].strip() for piece in row] for row in pieces)
    return tuple(tuple(json.loads(text) for text in row if text != b"[DONE]") for row in texts)


DOCUMENTS = _documents()


def make_text(choices: Choices) -> bytes:
    number, kind = choices.below(len(ROWS)), choices.below(len(KINDS))
    frames = (b"%s", b"data: %s\n\n", b"%s\n")
    make = make_documents("text-apis", DOCUMENTS[number])
    count = 1 if kind == 0 else 1 + choices.below(5)
    body = b"".join(frames[kind] % make(choices).replace(b"\n", b" ") for _ in range(count))
    return bytes([number * len(KINDS) + kind]) + body


def read_text(data: bytes) -> None:
    number, kind = divmod(data[0] if data else 0, len(KINDS))
    reader = TextReader(keeps_message=True, form=FORMS[number % len(FORMS)])
    finish(reader, KINDS[kind], data[1:])
    reader.refusal(400, data[1:].decode("utf-8", "replace")).encode()


# --- tensors

OUTPUTS = (
    {"outputs": [{"name": "A", "datatype": "INT32", "shape": [2], "data": [1, 2]}]},
    {"outputs": [{"name": "A", "datatype": "BYTES", "shape": [1], "data": ["x"]}]},
    {"outputs": [{"name": "A", "datatype": "FP32", "shape": [2], "parameters": {"binary_data_size": 8}}]},
    {"outputs": [{"name": "A", "datatype": "FP16", "shape": [1, 2], "data": [[1.5, 2]]}]},
)


def read_outputs(data: bytes) -> None:
    header = None if len(data) % 2 else str(len(data) - 8)
    for tensor in http_tensors(data + bytes(8 * (header is not None)), header).values():
        assert isinstance(tensor.data, bytes)


TF_OUTPUTS = ({"outputs": [[1.5, 2.5]]}, {"outputs": {"y": [1.0], "z": [{"b64": "YQ=="}]}})
READ_ONE, READ_TWO = Columns((("y", "FP32"),)), Columns((("y", "FP32"), ("z", "BYTES")))


def read_columns(data: bytes) -> None:
    (READ_ONE if len(data) % 2 else READ_TWO).tensors(data)


pb2 = load_messages()
INFER = [
    pb2.ModelInferResponse(
        model_name="m",
        id="5",
        outputs=[pb2.ModelInferResponse.InferOutputTensor(name="A", datatype="INT32", shape=[1])],
        raw_output_contents=[bytes(4)],
    ).SerializeToString(),
    pb2.ModelInferResponse(
        outputs=[
            pb2.ModelInferResponse.InferOutputTensor(
                name="A", datatype="INT32", shape=[2], contents=pb2.InferTensorContents(int_contents=[1, 2])
            ),
            pb2.ModelInferResponse.InferOutputTensor(
                name="B", datatype="BYTES", shape=[1], contents=pb2.InferTensorContents(bytes_contents=[b"x"])
            ),
        ]
    ).SerializeToString(),
]
PROTO_WORDS = (
    b"INT32",
    b"FP64",
    b"BYTES",
    b"\x12\x05INT32",
    b"\x2a\x02\x0a\x00",
    b"\x32\x04\x00\x00\x00\x00",
)


def make_infer(choices: Choices) -> bytes:
    return damaged(choices.pick([*INFER, *corpus("infer-response")]), choices, PROTO_WORDS)


def read_infer(data: bytes) -> None:
    grpc_outputs(data)
    grpc_tensors(data)


def _predict() -> bytes:
    made = message("PredictResponse")()
    made.outputs["y"].dtype = 1
    made.outputs["y"].tensor_shape.dim.add(size=2)
    made.outputs["y"].float_val.extend([1.5, 2.5])
    made.outputs["z"].dtype = 7
    made.outputs["z"].string_val.append(b"x")
    made.outputs["w"].dtype = 3
    made.outputs["w"].tensor_content = bytes(8)
    return bytes(made.SerializeToString(deterministic=True))


PREDICT = _predict()


def make_predict(choices: Choices) -> bytes:
    return damaged(choices.pick([PREDICT, *corpus("predict-response")]), choices)


FAMILIES = (
    Family("openai", make_answer, read_answer, 40),
    Family("openai-stream", make_stream, read_stream, 30),
    Family("text-apis", make_text, read_text, 40),
    Family("kserve-json", make_documents("kserve-json", OUTPUTS), read_outputs, 30),
    Family("tfserving-json", make_documents("tfserving-json", TF_OUTPUTS), read_columns, 30),
    Family("infer-response", make_infer, read_infer, 40),
    Family("predict-response", make_predict, predicted, 40),
)
