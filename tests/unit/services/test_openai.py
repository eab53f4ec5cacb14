"""OpenAI-style servers: requests and the meaning of replies. The caller sets the times."""

import json
import pickle
from typing import Any

import pytest

from inferometer.base import status as outcome
from inferometer.base.errors import PeerError, UsageError
from inferometer.model.spec import Tensor
from inferometer.options.options import Options
from inferometer.services import text_reply
from inferometer.services.endpoint import Connection, Endpoint
from inferometer.services.openai import Chats, OpenAi
from inferometer.services.text_reply import TextReader
from inferometer.services.traffic import Reply
from inferometer.wire.http1 import CHUNKED, UNTIL_CLOSE, Head


def tensor(name: str, text: str) -> Tensor:
    return Tensor(name, "JSON", (1,), text.encode())


def sent(step: Tensor, prefix: str = "", **options: Any) -> tuple[str, Any]:
    """Return path and document of a request."""
    service = OpenAi(Connection(Endpoint("h", 1, prefix)), Options(**options))
    (request,) = service.traffic(service.describe("gpt", "", ()), [[step]]).requests
    head, _, body = request.partition(b"\r\n\r\n")
    method, path, _ = head.decode().split("\r\n")[0].split(" ")
    assert method == "POST"
    assert f"Content-Length: {len(body)}" in head.decode()
    return path, json.loads(body)


# --- requests

HELLO = [{"role": "user", "content": "Hello"}]
USAGE = {"stream": True, "stream_options": {"include_usage": True}}


@pytest.mark.parametrize(
    ("step", "options", "document"),
    [
        (tensor("payload", '{"a":1}'), {}, {"a": 1}),
        (tensor("payload", '{"a":1}'), {"streaming": True, "output_tokens": 3}, {"a": 1}),
        (tensor("prompt", "Hello"), {}, {"model": "gpt", "messages": HELLO}),
        (tensor("prompt", "Hello"), {"streaming": True}, {"model": "gpt", "messages": HELLO, **USAGE}),
        (
            tensor("prompt", "Hello"),
            {"output_tokens": 3},
            {"model": "gpt", "messages": HELLO, "max_tokens": 3},
        ),
        (tensor("prompt", "Hello"), {"endpoint": "v1/completions"}, {"model": "gpt", "prompt": "Hello"}),
        (tensor("prompt", "Hello"), {"endpoint": "completions"}, {"model": "gpt", "prompt": "Hello"}),
        (
            tensor("prompt", "Hello"),
            {"endpoint": "responses", "streaming": True, "output_tokens": 3},
            {"model": "gpt", "input": "Hello", "max_output_tokens": 3, "stream": True},
        ),
        (
            tensor("prompt", "a b c d"),
            {"endpoint": "rerank"},
            {"model": "gpt", "query": "a", "documents": ["b", "c", "d"]},
        ),
        (tensor("prompt", "a"), {"endpoint": "rerank"}, {"model": "gpt", "query": "a", "documents": ["a"]}),
        (
            tensor("prompt", "Hello"),
            {"endpoint": "/generate", "output_tokens": 3},
            {"model": "gpt", "prompt": "Hello", "max_tokens": 3},
        ),
        (
            tensor("payload", '{"a":1,"b":{"c":2}}'),
            {"bodies": ("b.d=x", "a=[true]")},
            {"a": [True], "b": {"c": 2, "d": "x"}},
        ),
        (
            tensor("prompt", "Hello"),
            {"output_tokens": 3, "bodies": ("max_tokens=5", "response_format.type=json_object", "x=")},
            {
                "model": "gpt",
                "messages": HELLO,
                "max_tokens": 5,
                "response_format": {"type": "json_object"},
                "x": "",
            },
        ),
        (
            tensor("prompt", "Hello"),
            {"endpoint": "v1/embeddings"},
            {"model": "gpt", "input": "Hello"},
        ),
        (tensor("messages", json.dumps(HELLO)), {}, {"model": "gpt", "messages": HELLO}),
        (
            tensor("messages", r'["half a pair: \ud800"]'),
            {},
            {"model": "gpt", "messages": ["half a pair: \ud800"]},
        ),
    ],
)
def test_payloads_are_sent_as_given_and_prompts_in_the_endpoints_form(step, options, document):
    assert sent(step, **options)[1] == document


@pytest.mark.parametrize(
    ("prefix", "endpoint", "path"),
    [
        ("", "", "/v1/chat/completions"),
        ("", "v1/completions", "/v1/completions"),
        ("", "/v1/completions", "/v1/completions"),
        ("/api", "v1/embeddings", "/api/v1/embeddings"),
        ("/v1", "", "/v1/chat/completions"),
        ("/v1/completions", "", "/v1/completions"),
        ("", "chat", "/v1/chat/completions"),
        ("", "responses", "/v1/responses"),
        ("", "rerank", "/v1/rerank"),
        ("", "/rerank", "/rerank"),
        ("/v1", "embeddings", "/v1/embeddings"),
        ("/v1/rerank", "", "/v1/rerank"),
    ],
)
def test_the_endpoint_is_appended_to_the_address(prefix: str, endpoint: str, path: str):
    assert sent(tensor("prompt", "x"), prefix, endpoint=endpoint)[0] == path


def test_in_the_classic_script_an_endpoint_is_always_a_path():
    assert sent(tensor("prompt", "x"), endpoint="rerank", is_lenient=True)[0] == "/rerank"


def test_the_token_limit_of_one_answer_overrides_the_global_one():
    service = OpenAi(Connection(Endpoint("h", 1)), Options(output_tokens=3))
    steps = [[tensor("prompt", "a")], [tensor("prompt", "a"), tensor("max_tokens", "9")]]
    requests = service.traffic(service.describe("gpt", "", ()), steps).requests
    bodies = [json.loads(request.partition(b"\r\n\r\n")[2]) for request in requests]
    assert [body["max_tokens"] for body in bodies] == [3, 9]


def test_documents_of_the_data_are_ranked():
    service = OpenAi(Connection(Endpoint("h", 1)), Options(endpoint="rerank"))
    step = [tensor("query", "What?"), tensor("documents", '["a", {"text": "b"}]')]
    (request,) = service.traffic(service.describe("gpt", "", ()), [step]).requests
    assert json.loads(request.partition(b"\r\n\r\n")[2]) == {
        "model": "gpt",
        "query": "What?",
        "documents": ["a", {"text": "b"}],
    }


PARTS = [
    {"type": "text", "text": "Look"},
    {"type": "image_url", "image_url": {"url": "data:x", "detail": "low"}},
    {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
]


def test_messages_are_converted_for_the_responses_api():
    answer = {"role": "assistant", "content": [{"type": "text", "text": "yes"}]}
    messages = [*HELLO, {"role": "user", "content": PARTS}, answer]
    found = sent(tensor("messages", json.dumps(messages)), endpoint="responses")[1]["input"]
    assert found == [
        *HELLO,
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Look"},
                {"type": "input_image", "image_url": "data:x", "detail": "low"},
                PARTS[2],
            ],
        },
        {"role": "assistant", "content": [{"type": "output_text", "text": "yes"}]},
    ]


REFUSED = [
    (
        {"endpoint": "embeddings", "streaming": True},
        "--streaming requests a stream, but v1/embeddings does",
    ),
    ({"endpoint": "rerank", "output_tokens": 3}, "--output-tokens limits generated text"),
    (
        {"endpoint": "completions", "images": ((8, 8),)},
        "--image is for chat messages, but v1/completions takes",
    ),
    ({"endpoint": "completions", "audio_s": 1.0}, "--audio is for chat messages, but v1/completions takes"),
    ({"endpoint": "completions", "session_concurrency": 1}, "--session-concurrency replays chats"),
    ({"bodies": ("hello",)}, "--body hello is not a valid body field"),
    ({"bodies": ("a..b=1",)}, "is not a valid body field"),
    ({"bodies": ("stop=[half",)}, "--body stop=... begins like JSON, but is invalid"),
    ({"bodies": ("model.name=x",)}, "whose 'model' is not an object"),
]


@pytest.mark.parametrize(("options", "says"), REFUSED)
def test_what_an_endpoint_cannot_do_is_refused(options: dict[str, Any], says: str):
    with pytest.raises(UsageError) as caught:
        sent(tensor("prompt", "x"), **options)
    assert says in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize("endpoint", ["completions", "rerank"])
def test_messages_need_an_endpoint_that_takes_them(endpoint: str):
    with pytest.raises(UsageError, match="takes only text"):
        sent(tensor("messages", json.dumps(HELLO)), endpoint=endpoint)


@pytest.mark.parametrize("step", [tensor("payload", "{}"), tensor("messages", json.dumps(HELLO))])
def test_generated_images_are_not_added_to_whole_messages(step: Tensor):
    with pytest.raises(UsageError, match="are added to prompts"):
        sent(step, images=((8, 8),))


# --- replies


def event(document: Any) -> bytes:
    return b"data: " + (document if isinstance(document, bytes) else json.dumps(document).encode()) + b"\n\n"


def delta(**fields: Any) -> bytes:
    return event({"choices": [{"index": 0, "delta": fields}]})


def choice(index: int, content: str, **fields: Any) -> bytes:
    return event({"choices": [{"index": index, "delta": {"content": content, **fields}}]})


def both(*contents: str) -> bytes:
    """Return an event with a token of each choice."""
    rows = [{"index": index, "delta": {"content": content}} for index, content in enumerate(contents)]
    return event({"choices": rows})


def ended(reason: Any) -> bytes:
    return event({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})


ANSWERED = Reply(0, "", 1, (10,), end_ns=10)
ROLE = delta(role="assistant", content=None)
END = event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
COUNT = event({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 5}})
DONE = event(b"[DONE]")
DETAILS = {
    "prompt_tokens": 7,
    "completion_tokens": 5,
    "completion_tokens_details": {"reasoning_tokens": 4},
    "prompt_tokens_details": {"cached_tokens": 6},
}
RESPONSE_USAGE = {
    "input_tokens": 7,
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 2},
    "input_tokens_details": {"cached_tokens": 3},
}


def head(content_type: str = "text/event-stream; charset=utf-8", length: int = CHUNKED) -> Head:
    return Head(200, "OK", (("content-type", content_type),), length, True)


def read(*pieces: tuple[int, bytes], length: int = CHUNKED, reader: TextReader | None = None) -> Reply:
    """Read the reply whose pieces arrived at these times."""
    reading = (TextReader() if reader is None else reader).start(head(length=length))
    for now, piece in pieces:
        reading.receive(piece, now)
    return reading.end()


STREAMS = [
    (
        "a role first, usage last",
        [(10, ROLE), (20, delta(content="a")), (35, delta(content="b")), (36, END), (37, COUNT), (38, DONE)],
        Reply(0, "", 2, (20, 35), 5, 7, end_ns=35),
    ),
    (
        "several tokens in an event are one response",
        [(20, delta(content="one two three")), (30, COUNT + DONE)],
        Reply(0, "", 1, (20,), 5, 7, end_ns=20),
    ),
    (
        "without usage nothing is said of tokens",
        [(20, delta(content="a")), (30, delta(content="b") + END + DONE)],
        Reply(0, "", 2, (20, 30), end_ns=30),
    ),
    (
        "an event in two packets has come with the second",
        [(20, delta(content="a")[:9]), (50, delta(content="a")[9:]), (60, DONE)],
        Reply(0, "", 1, (50,), end_ns=50),
    ),
    (
        "two events in a packet came together",
        [(20, delta(content="a") + delta(content="b")), (30, DONE)],
        Reply(0, "", 2, (20, 20), end_ns=20),
    ),
    (
        "comments keep the connection alive and are nothing",
        [(5, b": ping\n\n"), (20, delta(content="a")), (25, b":\n\n"), (30, DONE)],
        Reply(0, "", 1, (20,), end_ns=20),
    ),
    (
        "half a character is no response",
        [(20, delta(content="")), (30, delta(content="é")), (40, DONE)],
        Reply(0, "", 1, (30,), end_ns=30),
    ),
    ("no [DONE], but a whole body", [(20, delta(content="a"))], Reply(0, "", 1, (20,), end_ns=20)),
    (
        "completions",
        [(20, event({"choices": [{"text": "a"}]})), (30, DONE)],
        Reply(0, "", 1, (20,), end_ns=20),
    ),
    (
        "an answer that ends within its reasoning has no first token of its own",
        [(20, delta(reasoning_content="hm")), (25, delta(reasoning_content="so")), (30, DONE)],
        Reply(0, "", 2, (20, 25), end_ns=25, answer_at=2),
    ),
    *(
        (
            f"the answer begins behind the {part}",
            [
                (9, ROLE),
                (10, delta(**{part: "hm", "content": None})),
                (20, delta(**{part: "so"})),
                (30, delta(**answer)),
                (40, delta(content="b")),
                (50, END + DONE),
            ],
            Reply(0, "", 4, (10, 20, 30, 40), end_ns=40, answer_at=2, tool_at=3 * ("tool_calls" in answer)),
        )
        for part in ("reasoning_content", "reasoning")
        for answer in ({"content": "a"}, {"tool_calls": [{"index": 0}]}, {"refusal": "no"})
    ),
    (
        "choices in turns: each has its times together, the one that began last first",
        [
            (10, choice(0, "a")),
            (12, choice(1, "b")),
            (20, choice(0, "c")),
            (22, choice(1, "d")),
            (30, END + DONE),
        ],
        Reply(0, "", 4, (12, 22, 10, 20), end_ns=22, first_ns=10),
    ),
    (
        "choices one after the other",
        [(10, choice(0, "a")), (20, choice(0, "b")), (30, choice(1, "c")), (40, choice(1, "d")), (50, DONE)],
        Reply(0, "", 4, (30, 40, 10, 20), end_ns=40, first_ns=10),
    ),
    (
        "choices in one event are a response each",
        [(10, both("a", "b")), (20, both("c", "d")), (30, both("e", "")), (40, DONE)],
        Reply(0, "", 5, (10, 20, 30, 10, 20), end_ns=30, first_ns=10),
    ),
    (
        "individual tokens of two choices in one read",
        [(10, choice(0, "a") + choice(1, "b")), (40, DONE)],
        Reply(0, "", 2, (11, 10), end_ns=10, first_ns=10),
    ),
    (
        "two choices that reason",
        [
            (10, choice(0, "", reasoning="hm")),
            (11, choice(1, "", reasoning="hm")),
            (20, choice(1, "a")),
            (21, choice(0, "b")),
            (30, DONE),
        ],
        Reply(0, "", 4, (11, 20, 10, 21), end_ns=21, first_ns=10, answer_at=1),
    ),
    *(
        (
            f"an end with the reason {reason}",
            [(10, delta(content="a")), (20, ended(reason)), (30, DONE)],
            Reply(outcome.REFUSED, f"the server ended the answer with finish_reason '{name}'", 1),
        )
        for reason, name in (("error", "error"), ("abort", "abort"), ({"type": "abort"}, "abort"))
    ),
    *(
        (f"an end with the reason {reason}", [(10, delta(content="a")), (20, ended(reason))], ANSWERED)
        for reason in ("stop", "length", "tool_calls", "content_filter", {"type": "stop"})
    ),
    (
        "an answer without a token is a good reply without a response",
        [(10, ROLE), (20, END), (25, COUNT), (30, DONE)],
        Reply(0, "", 0, (), 5, 7, end_ns=25),
    ),
    (
        "usage in every event: the last counts",
        [
            (20, event({"choices": [{"delta": {"content": "a"}}], "usage": {"completion_tokens": 1}})),
            (30, event({"choices": [{"delta": {"content": "b"}}], "usage": {"completion_tokens": 2}})),
            (40, DONE),
        ],
        Reply(0, "", 2, (20, 30), 2, end_ns=30),
    ),
    (
        "an error inside",
        [
            (20, delta(content="a")),
            (30, event({"error": {"message": "out of memory", "code": 500}})),
            (40, DONE),
        ],
        Reply(outcome.REFUSED, "out of memory", 1),
    ),
    (
        "the responses API",
        [
            (5, event({"type": "response.created", "response": {"status": "in_progress"}})),
            (10, event({"type": "response.reasoning_text.delta", "delta": "hm"})),
            (20, event({"type": "response.output_text.delta", "delta": "a"})),
            (30, event({"type": "response.output_text.delta", "delta": ""})),
            (40, event({"type": "response.output_text.done", "text": "a"})),
            (50, event({"type": "response.completed", "response": {"usage": RESPONSE_USAGE}})),
        ],
        Reply(0, "", 2, (10, 20), 5, 7, end_ns=20, reasoning_tokens=2, cached_tokens=3, answer_at=1),
    ),
    (
        "a response that is cut by its limit is whole",
        [
            (20, event({"type": "response.output_text.delta", "delta": "a"})),
            (30, event({"type": "response.incomplete", "response": {"usage": RESPONSE_USAGE}})),
        ],
        Reply(0, "", 1, (20,), 5, 7, end_ns=20, reasoning_tokens=2, cached_tokens=3),
    ),
    (
        "a response that failed",
        [
            (20, event({"type": "response.output_text.delta", "delta": "a"})),
            (30, event({"type": "response.failed", "response": {"error": {"message": "out of memory"}}})),
        ],
        Reply(outcome.REFUSED, "out of memory", 1),
    ),
    (
        "a response that failed without a word",
        [(30, event({"type": "response.failed", "response": None}))],
        Reply(outcome.REFUSED, "the response failed", 0),
    ),
    (
        "an error of the responses API",
        [(30, event({"type": "error", "code": "x", "message": "no"}))],
        Reply(outcome.REFUSED, "no", 0),
    ),
    (
        "half an event at the end",
        [(20, delta(content="a")), (30, delta(content="b")[:-9])],
        Reply(outcome.MALFORMED, "the stream ended in the middle of an event, after 1 responses", 1),
    ),
    (
        "only the empty line behind the last event is missing",
        [(20, delta(content="a")), (30, delta(content="b")[:-2])],
        Reply(0, "", 2, (20, 30), end_ns=30),
    ),
    (
        "only the empty line behind [DONE] is missing",
        [(20, delta(content="a")), (30, DONE[:-1])],
        Reply(0, "", 1, (20,), end_ns=20),
    ),
    (
        "what comes after the end does not matter",
        [(20, delta(content="a")), (30, END), (40, b"data: {hal")],
        Reply(0, "", 1, (20,), end_ns=20),
    ),
    (
        "usage with its details",
        [(20, delta(content="a")), (30, event({"choices": [], "usage": DETAILS})), (40, DONE)],
        Reply(0, "", 1, (20,), 5, 7, end_ns=20, reasoning_tokens=4, cached_tokens=6),
    ),
    (
        "usage twice: the last counts, and what it leaves out stays",
        [
            (20, delta(content="a")),
            (30, event({"usage": DETAILS})),
            (40, event({"usage": {"prompt_tokens": 8, "completion_tokens": 6}})),
        ],
        Reply(0, "", 1, (20,), 6, 8, end_ns=20, reasoning_tokens=4, cached_tokens=6),
    ),
    ("an error as text", [(30, event({"error": "no"}))], Reply(outcome.REFUSED, "no", 0)),
    (
        "an event of type error",
        [(30, b'event: error\ndata: {"message":"no"}\n\n')],
        Reply(outcome.REFUSED, "no", 0),
    ),
]


@pytest.mark.parametrize(("pieces", "reply"), [row[1:] for row in STREAMS], ids=[row[0] for row in STREAMS])
def test_streams(pieces: list[tuple[int, bytes]], reply: Reply):
    assert read(*pieces) == reply


def test_a_conversation_continues_with_the_first_choice():
    reply = read(
        (10, choice(1, "b")), (20, choice(0, "a")), (30, DONE), reader=TextReader(keeps_message=True)
    )
    assert reply.message == {"role": "assistant", "content": "a"}


def test_a_stream_that_ends_with_its_connection_must_announce_its_end():
    assert read((20, delta(content="a")), (30, DONE), length=UNTIL_CLOSE).status == 0
    assert read((20, delta(content="a")), (30, END), length=UNTIL_CLOSE).status == 0
    cut = read((20, delta(content="a")), length=UNTIL_CLOSE)
    assert (cut.status, cut.text) == (
        outcome.RESET,
        "the connection was closed in the middle of the stream, after 1 responses",
    )
    half = read((20, delta(content="a")), (30, b"data: {"), length=UNTIL_CLOSE)
    assert (half.status, half.text) == (
        outcome.RESET,
        "the stream ended in the middle of an event, after 1 responses",
    )


def test_an_endless_whole_reply_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(text_reply, "BODY_LIMIT", 1000)
    reading = TextReader().start(head("application/json"))
    reading.receive(b" " * 1000, 1)
    with pytest.raises(PeerError, match="exceeds 1000 bytes"):
        reading.receive(b" ", 2)


@pytest.mark.parametrize("nonsense", [b"no JSON", b"[1]", b'"text"', b"{"])
def test_malformed_events_are_refused(nonsense: bytes):
    with pytest.raises(PeerError, match="event of the stream is not"):
        read((20, event(nonsense)))


def whole(body: bytes) -> Reply:
    reading = TextReader().start(head("application/json", len(body)))
    for at in range(0, len(body), 7):
        reading.receive(body[at : at + 7], at)
    return reading.end()


@pytest.mark.parametrize(
    ("body", "reply"),
    [
        (
            b'{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}',
            Reply(tokens=2, prompt_tokens=3),
        ),
        (b'{"data":[],"usage":{"prompt_tokens":3,"total_tokens":3}}', Reply(prompt_tokens=3)),
        (b'{"results":[],"usage":{"total_tokens":9}}', Reply(prompt_tokens=9)),
        (
            json.dumps({"output": [], "error": None, "usage": RESPONSE_USAGE}).encode(),
            Reply(tokens=5, prompt_tokens=7, reasoning_tokens=2, cached_tokens=3),
        ),
        (
            json.dumps({"choices": [], "usage": DETAILS}).encode(),
            Reply(tokens=5, prompt_tokens=7, reasoning_tokens=4, cached_tokens=6),
        ),
        (b'{"usage":{"completion_tokens_details":3,"prompt_tokens_details":[]}}', Reply()),
        (b'{"choices":[]}', Reply()),
        (b'{"choices":[],"usage":null}', Reply()),
        (b'{"usage":{"prompt_tokens":"3","completion_tokens":-1}}', Reply()),
        (b'{"error":{"message":"no such model"}}', Reply(outcome.REFUSED, "no such model", 0)),
        (b'{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}', Reply()),
        (b'{"choices":[{"text":"a"}]}', Reply()),
        (b'{"choices":[{"message":{"content":null,"tool_calls":[{}]}}]}', Reply()),
        (b'{"choices":[{"message":{"content":""}}]}', Reply(responses=0)),
        (b'{"choices":[{"text":""}]}', Reply(responses=0)),
        (
            b'{"choices":[{"message":{"content":"a"}},{"message":{"content":"b"},"finish_reason":"error"}]}',
            Reply(outcome.REFUSED, "the server ended the answer with finish_reason 'error'", 0),
        ),
        (b"busy", Reply(outcome.MALFORMED, "the reply is not JSON: b'busy'", 0)),
        (b"[]", Reply(outcome.MALFORMED, "the reply is not a JSON object: b'[]'", 0)),
    ],
)
def test_whole_replies(body: bytes, reply: Reply):
    assert whole(body) == reply


def test_an_error_status_is_reported_in_the_classic_words():
    reader = TextReader()
    assert reader.refusal(429, "slow down") == "OpenAI response returns HTTP code 429: slow down"
    assert reader.refusal(500, "") == "OpenAI response returns HTTP code 500"


# --- sessions


def test_a_turn_carries_the_conversation_so_far():
    reader = pickle.loads(pickle.dumps(TextReader(keeps_message=True)))
    chats = pickle.loads(pickle.dumps(Chats(Connection(Endpoint("h", 80)), "/v1/chat/completions")))

    def turn(slot: int, text: str, *, is_start: bool) -> list[str]:
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()
        request = chats.request(slot, b"POST / HTTP/1.1\r\n\r\n" + body, is_start=is_start)
        chats.answered(
            slot, read((1, delta(content="re: ")), (2, delta(content=text)), (3, DONE), reader=reader)
        )
        return [message["content"] for message in json.loads(request.partition(b"\r\n\r\n")[2])["messages"]]

    assert turn(0, "a", is_start=True) == ["a"]
    assert turn(1, "x", is_start=True) == ["x"]
    assert turn(0, "b", is_start=False) == ["a", "re: a", "b"]
    assert turn(0, "c", is_start=True) == ["c"]
