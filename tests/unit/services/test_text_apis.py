"""Every API of text servers: its requests, and its replies read exactly however they are split."""

import json
import pickle
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from inferometer.base import status as outcome
from inferometer.base.errors import PeerError, UsageError
from inferometer.model.spec import Tensor
from inferometer.options.options import ENDPOINTS, Options
from inferometer.services.apis import APIS, BY_NAME, maybe_api, maybe_requested
from inferometer.services.endpoint import Connection, Endpoint
from inferometer.services.openai import Chats, OpenAi
from inferometer.services.openai_api import OPENAI
from inferometer.services.text_api import Delta, Usage
from inferometer.services.text_reply import TextReader
from inferometer.services.traffic import Reply
from inferometer.wire.http1 import CHUNKED, UNTIL_CLOSE, Head
from tests.support.text_apis import ANTHROPIC, EVENTS, JSON, LINES, OLLAMA, STAND_INS, StandIn, line, sse

STREAMED = [row for row in STAND_INS if row.stream]
NAMES = [row.name for row in STREAMED]


def head(content_type: str, length: int = CHUNKED, more: Mapping[str, str] | None = None) -> Head:
    return Head(200, "OK", (("content-type", content_type), *(more or {}).items()), length, True)


def read(row: StandIn, pieces: Iterable[bytes], *, in_place: bool = False, length: int = CHUNKED) -> Reply:
    """Read a stream whose pieces arrive at 1, 2, 3."""
    body = TextReader(form=BY_NAME[row.name].form).start(head(row.content_type, length))
    for number, piece in enumerate(pieces, 1):
        if not (in_place and body.takes(bytearray(piece), 0, len(piece), number)):
            body.receive(piece, number)
    return body.end()


def figures(reply: Reply) -> tuple[int, ...]:
    """Return everything that does not depend on the time of pieces."""
    assert not reply.status, reply.text
    counts = (reply.tokens, reply.prompt_tokens, reply.reasoning_tokens, reply.cached_tokens)
    return reply.responses, reply.answer_at, reply.tool_at, *counts


def expected(row: StandIn) -> tuple[int, ...]:
    found = row.counts
    counts = (found.tokens, found.prompt_tokens, found.reasoning_tokens, found.cached_tokens)
    return len(row.deltas), row.answer_at, row.tool_at, *counts


# --- streams


@pytest.mark.parametrize("row", STREAMED, ids=NAMES)
def test_every_part_of_a_stream_is_read_as_what_it_is(row: StandIn) -> None:
    form = BY_NAME[row.name].form
    found: list[Delta] = []
    for piece in row.stream:
        data = piece.rpartition(b"data:")[2].strip()
        if data != b"[DONE]":
            name = piece.partition(b"event: ")[2].partition(b"\n")[0]
            found += form.event(json.loads(data), name).deltas
    assert tuple((delta.carries, delta.text) for delta in found) == row.deltas


@pytest.mark.parametrize("row", STREAMED, ids=NAMES)
def test_a_stream_split_at_any_byte_gives_the_same_figures(row: StandIn) -> None:
    whole = b"".join(row.stream)
    assert figures(read(row, row.stream)) == expected(row)
    assert figures(read(row, row.stream, in_place=True)) == expected(row)
    assert figures(read(row, (whole[place : place + 1] for place in range(len(whole))))) == expected(row)
    for cut in range(1, len(whole)):
        assert figures(read(row, (whole[:cut], whole[cut:]))) == expected(row)


@pytest.mark.parametrize("row", STREAMED, ids=NAMES)
def test_the_first_token_answer_and_tool_call_have_their_own_times(row: StandIn) -> None:
    reply = read(row, row.stream)
    carrying = [number for number, piece in enumerate(row.stream, 1) if _carries(row, piece)]
    assert list(reply.times) == carrying
    assert reply.times[0] == carrying[0]
    assert reply.times[reply.answer_at] == carrying[row.answer_at]
    if row.tool_at:
        assert reply.times[reply.tool_at - 1] == carrying[row.tool_at - 1]


def _carries(row: StandIn, piece: bytes) -> bool:
    body = TextReader(form=BY_NAME[row.name].form).start(head(row.content_type))
    body.receive(piece, 1)
    return bool(body.times)


def _text_delta(word: str) -> bytes:
    delta = {"type": "text_delta", "text": word}
    return sse({"type": "content_block_delta", "index": 1, "delta": delta}, "content_block_delta")


def _answer_line(word: str) -> bytes:
    return line({"model": "m", "message": {"role": "assistant", "content": word}, "done": False})


@pytest.mark.parametrize(("row", "make"), [(ANTHROPIC, _text_delta), (OLLAMA, _answer_line)])
def test_alike_events_are_recognised_by_their_bytes(row: StandIn, make: Any) -> None:
    events = [make(f"word {number}") for number in range(20)]
    end = row.stream[-1]
    body = TextReader(form=BY_NAME[row.name].form).start(head(row.content_type))
    body.receive(events[0], 1)
    assert [body.takes(piece, 0, len(piece), 2) for piece in events[1:]] == [True] * 19
    assert not body.takes(end, 0, len(end), 3)
    body.receive(b"".join(events) + end, 3)
    assert body.end().responses == 40


# --- failures


@pytest.mark.parametrize("row", STREAMED, ids=NAMES)
def test_an_error_in_a_stream_fails_with_the_servers_message(row: StandIn) -> None:
    reply = read(row, (*row.stream[:3], row.error, *row.stream[3:]))
    assert (reply.status, reply.text) == (outcome.REFUSED, "out of memory")


@pytest.mark.parametrize("row", STREAMED, ids=NAMES)
def test_a_stream_that_ends_early_fails(row: StandIn) -> None:
    cut = b"".join(row.stream[:3])[:-20]
    assert read(row, [cut]).status == outcome.MALFORMED
    assert read(row, [cut], length=UNTIL_CLOSE).status == outcome.RESET
    if row.has_end:
        reply = read(row, row.stream[:-1])
        assert reply.status == outcome.MALFORMED
        assert "ended before the event that ends an answer" in reply.text


@pytest.mark.parametrize("row", STAND_INS, ids=[row.name for row in STAND_INS])
def test_a_refusal_has_the_servers_message(row: StandIn) -> None:
    reader = pickle.loads(pickle.dumps(TextReader(key="secret", form=BY_NAME[row.name].form)))
    assert reader.refusal(404, "").startswith("OpenAI") == (BY_NAME[row.name].form is OPENAI)
    said = reader.refusal(429, json.dumps(row.refusal))
    assert "429" in said
    assert "too much" in said
    assert "secret" not in reader.refusal(401, "the key 'secret' is wrong")


@pytest.mark.parametrize("row", STAND_INS, ids=[row.name for row in STAND_INS])
def test_complete_replies_are_counted(row: StandIn) -> None:
    reader = TextReader(keeps_message=True, form=BY_NAME[row.name].form)
    body = reader.start(head(JSON, more=row.headers))
    body.receive(row.whole, 5)
    reply = body.end()
    assert (reply.status, reply.responses) == (0, 1)
    found = row.counts
    counts = (reply.tokens, reply.prompt_tokens, reply.reasoning_tokens, reply.cached_tokens)
    assert counts == (found.tokens, found.prompt_tokens, found.reasoning_tokens, found.cached_tokens)
    assert BY_NAME[row.name].turns == "" or reply.message["role"] == "assistant"


def test_a_line_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inferometer.wire.lines.EVENT_LIMIT", 1000)
    body = TextReader(form=BY_NAME["ollama"].form).start(head(LINES))
    for _ in range(10):
        body.receive(b"x" * 100, 1)
    with pytest.raises(PeerError, match="longer than 1000 bytes"):
        body.receive(b"x", 1)


# --- requests

HELLO = [{"role": "user", "content": "Hello"}]


def tensor(name: str, value: Any) -> Tensor:
    data = value if isinstance(value, str) else json.dumps(value)
    return Tensor(name, "JSON", (1,), data.encode())


def rendered(
    *step: Tensor, headers: tuple[tuple[str, str], ...] = (), **options: Any
) -> tuple[str, str, bytes]:
    """Return the path, the head and the body of a request."""
    service = OpenAi(Connection(Endpoint("h", 1), headers), Options(model="m", **options))
    (request,) = service.traffic(service.describe("m", "", ()), [step]).requests
    first, _, body = request.partition(b"\r\n\r\n")
    return first.split(b" ")[1].decode(), first.decode(), body


ASKED = [
    ("anthropic", "/v1/messages", {"model": "m", "messages": HELLO, "max_tokens": 3, "stream": True}),
    ("ollama", "/api/chat", {"model": "m", "messages": HELLO, "options": {"num_predict": 3}, "stream": True}),
    (
        "ollama-generate",
        "/api/generate",
        {"model": "m", "prompt": "Hello", "options": {"num_predict": 3}, "stream": True},
    ),
    ("tgi", "/generate_stream", {"inputs": "Hello", "parameters": {"details": True, "max_new_tokens": 3}}),
    (
        "triton-generate",
        "/v2/models/m/generate_stream",
        {"text_input": "Hello", "max_tokens": 3, "stream": True},
    ),
]
WHOLE = [
    ("anthropic", "/v1/messages", {"model": "m", "messages": HELLO, "max_tokens": 4096}),
    ("ollama", "/api/chat", {"model": "m", "messages": HELLO, "stream": False}),
    ("ollama-embed", "/api/embed", {"model": "m", "input": "Hello"}),
    ("tgi", "/generate", {"inputs": "Hello", "parameters": {"details": True}}),
    ("triton-generate", "/v2/models/m/generate", {"text_input": "Hello"}),
    ("tei-embed", "/embed", {"inputs": "Hello"}),
    ("tei-rerank", "/rerank", {"query": "Hello", "texts": ["Hello"]}),
    (
        "cohere-embed",
        "/v2/embed",
        {"model": "m", "texts": ["Hello"], "input_type": "search_document", "embedding_types": ["float"]},
    ),
    ("cohere-rerank", "/v2/rerank", {"model": "m", "query": "Hello", "documents": ["Hello"]}),
]


@pytest.mark.parametrize(("name", "path", "document"), ASKED, ids=[row[0] for row in ASKED])
def test_each_api_requests_streams_in_its_own_form(name: str, path: str, document: Any) -> None:
    found = rendered(tensor("prompt", "Hello"), endpoint=name, streaming=True, output_tokens=3)
    assert (found[0], json.loads(found[2])) == (path, document)


@pytest.mark.parametrize(("name", "path", "document"), WHOLE, ids=[row[0] for row in WHOLE])
def test_each_api_requests_complete_replies_in_its_own_form(name: str, path: str, document: Any) -> None:
    found = rendered(tensor("prompt", "Hello"), endpoint=name)
    assert (found[0], json.loads(found[2])) == (path, document)


def test_names_and_paths_lead_to_the_same_api() -> None:
    assert set(ENDPOINTS) == set(BY_NAME) == {row.name for row in STAND_INS}
    assert len(BY_NAME) == len(APIS)
    for row in STAND_INS:
        if row.name != "tei-rerank":  # its path is also that of others
            assert maybe_api(row.path) is BY_NAME[row.name]
            assert maybe_requested(f"https://h:8/prefix{row.path}") is BY_NAME[row.name]


@pytest.mark.parametrize("row", STAND_INS, ids=[row.name for row in STAND_INS])
def test_every_rerank_api_ranks_the_documents_of_the_data(row: StandIn) -> None:
    api = BY_NAME[row.name]
    if api.rank is None:
        return
    step = (tensor("query", "What?"), tensor("documents", ["a", {"text": "b"}]))
    document = json.loads(rendered(*step, endpoint=row.name)[2])
    assert document["query"] == "What?"
    assert document.get("texts", document.get("documents")) in (["a", "b"], ["a", {"text": "b"}])


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}
CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
CONVERSATION = [
    {"role": "system", "content": "Be short."},
    {"role": "user", "content": [{"type": "text", "text": "Look"}, IMAGE]},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "2"},
]


def test_messages_of_a_chat_are_converted_for_anthropic() -> None:
    document = json.loads(rendered(tensor("messages", CONVERSATION), endpoint="anthropic")[2])
    assert document["system"] == "Be short."
    assert document["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}},
            ],
        },
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "2"}]},
    ]


def test_messages_of_a_chat_are_converted_for_ollama() -> None:
    document = json.loads(rendered(tensor("messages", CONVERSATION), endpoint="ollama")[2])
    system, look, call, result = document["messages"]
    assert (system, result) == (CONVERSATION[0], CONVERSATION[3])
    assert look == {"role": "user", "content": "Look", "images": ["QUJD"]}
    assert call["tool_calls"][0]["function"] == {"name": "add", "arguments": {"a": 1}}
    assert call["content"] == ""


@pytest.mark.parametrize("name", ["chat", "anthropic", "ollama", "responses"])
def test_sessions_repeat_the_conversation(name: str) -> None:
    turns = BY_NAME[name].turns
    chats = Chats(Connection(Endpoint("h", 1)), "/x", turns)
    first = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "a"}]
    sent = []
    for number, messages in enumerate((first, [{"role": "user", "content": "b"}])):
        step = rendered(tensor("messages", messages), endpoint=name, session_concurrency=1)[2]
        sent.append(
            json.loads(chats.request(0, b"\r\n\r\n" + step, is_start=not number).partition(b"\r\n\r\n")[2])
        )
        chats.answered(0, Reply(message={"role": "assistant", "content": "yes"}))
    contents = [row["content"] for row in sent[1][turns]]
    assert contents[-3:] == ["a", "yes", "b"]
    assert sent[1].get("system", contents[0]) == "Be short."


def test_anthropic_gets_its_version_unless_the_user_gives_one() -> None:
    assert "anthropic-version: 2023-06-01" in rendered(tensor("prompt", "x"), endpoint="anthropic")[1]
    given = (("Anthropic-Version", "2030-01-01"),)
    found = rendered(tensor("prompt", "x"), endpoint="anthropic", headers=given)[1]
    assert found.lower().count("anthropic-version") == 1
    assert "2030-01-01" in found


def test_a_limit_required_by_the_api_does_not_count_as_given() -> None:
    service = OpenAi(Connection(Endpoint("h", 1)), Options(endpoint="anthropic"))
    steps = [[tensor("prompt", "a")], [tensor("prompt", "a"), tensor("max_tokens", "9")]]
    assert service.traffic(service.describe("m", "", ()), steps).asked_tokens == (0, 9)
    asked = {"ollama": 7, "tgi": 7, "triton-generate": 7}
    for name, limit in asked.items():
        service = OpenAi(Connection(Endpoint("h", 1)), Options(endpoint=name, output_tokens=limit))
        assert service.traffic(service.describe("m", "", ()), steps[:1]).asked_tokens == (limit,)


def test_a_field_set_inside_an_apis_own_fields_is_set_for_that_run_only() -> None:
    step = tensor("prompt", "x")
    asked: dict[str, Any] = {"endpoint": "chat", "streaming": True}
    changed = rendered(step, bodies=("stream_options.include_usage=false",), **asked)[2]
    assert json.loads(changed)["stream_options"] == {"include_usage": False}
    assert json.loads(rendered(step, **asked)[2])["stream_options"] == {"include_usage": True}


# --- uploads


def test_a_sound_is_uploaded_as_a_form() -> None:
    from email import message_from_bytes

    path, first, body = rendered(
        tensor("prompt", "unused"),
        endpoint="transcriptions",
        audio_s=0.01,
        streaming=True,
        bodies=("language=en",),
    )
    assert path == "/v1/audio/transcriptions"
    content_type = next(row for row in first.split("\r\n") if row.lower().startswith("content-type"))
    parts: Any = message_from_bytes(f"{content_type}\r\n\r\n".encode() + body).get_payload()
    found = {part.get_param("name", header="content-disposition"): part for part in parts}
    file = found.pop("file")
    values = {name: part.get_payload(decode=True) for name, part in found.items()}
    assert values == {"model": b"m", "stream": b"true", "language": b"en"}
    assert file.get_filename() == "sound.wav"
    assert file.get_payload(decode=True).startswith(b"RIFF")


@pytest.mark.parametrize(
    ("step", "options", "says"),
    [
        (tensor("prompt", "a"), {}, "one sound per request, but got none"),
        (tensor("payload", {"a": 1}), {}, "takes an upload"),
        (tensor("prompt", "a"), {"images": ((8, 8),), "audio_s": 0.1}, "--image is for chat messages"),
    ],
)
def test_a_transcription_needs_one_sound(step: Tensor, options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        rendered(step, endpoint="transcriptions", **options)


# --- templates

TEMPLATE = (
    '{"q": "{{prompt}}", "m": "{{model}}", "cfg": {"max": "{{max_tokens}}", "s": "{{stream}}"}, '
    '"x": ["a {{prompt}} b"]}'
)
PATHS = (
    *("text=out.0.t", "reasoning=think", "tool=call", "tokens=n.out", "prompt_tokens=n.in"),
    *("end=kind=last", "error=oops"),
)
MESSAGES = '{"turns": "{{messages}}"}'


def test_a_template_makes_the_body() -> None:
    path, _, body = rendered(
        tensor("prompt", 'say "hi"'),
        body_template=TEMPLATE,
        endpoint="/my/api",
        output_tokens=5,
        streaming=True,
    )
    assert path == "/my/api"
    document = {"q": 'say "hi"', "m": "m", "cfg": {"max": 5, "s": True}, "x": ['a say "hi" b']}
    assert json.loads(body) == document
    body = rendered(tensor("prompt", "x"), body_template=TEMPLATE, bodies=("cfg.k=1",))[2]
    assert json.loads(body)["cfg"] == {"s": False, "k": 1}


def test_a_template_may_take_messages() -> None:
    for step in (tensor("messages", HELLO), tensor("prompt", "Hello")):
        assert json.loads(rendered(step, body_template=MESSAGES)[2]) == {"turns": HELLO}
    with pytest.raises(UsageError, match="takes only text"):
        rendered(tensor("messages", HELLO), body_template='{"q": "{{prompt}}"}')


@pytest.mark.parametrize("content_type", [EVENTS, LINES, "text/plain"])
def test_replies_to_a_template_are_read_by_paths(content_type: str) -> None:
    asked = Options(body_template=TEMPLATE, reply_paths=PATHS, streaming=True)
    service = OpenAi(Connection(Endpoint("h", 1)), asked)
    form, frame = service.api.form, sse if content_type == EVENTS else line
    events = (
        frame({"think": "hm"}),
        *(frame({"out": [{"t": word}]}) for word in ("one", "two", "three")),
        frame({"call": {"name": "add"}}),
        frame({"kind": "last", "n": {"out": 9, "in": 4}}),
    )
    whole = b"".join(events)
    for cut in range(len(whole)):
        body = TextReader(form=form).start(head(content_type))
        body.receive(whole[:cut], 1)
        body.receive(whole[cut:], 2)
        assert figures(body.end()) == (5, 1, 5, 9, 4, 0, 0)
    body = TextReader(form=form).start(head(content_type))
    body.receive(b"".join(events[:-1]), 1)
    assert body.end().status == outcome.MALFORMED  # the end never came
    body = TextReader(form=form).start(head(content_type))
    body.receive(frame({"oops": {"message": "no"}}), 1)
    assert (body.end().status, body.end().text) == (outcome.REFUSED, "no")
    assert form.whole({"out": [{"t": "x"}], "n": {"out": 2, "in": 1}}).usage == Usage(2, 1)
    assert form.whole({"out": [{"t": ""}]}).is_blank


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"body_template": "{"}, "is not JSON"),
        ({"body_template": '{"q": 1}'}, "contains neither"),
        ({"body_template": '{"q": "{{prompt}} {{name}}"}'}, "unknown placeholder '{{name}}'"),
        ({"body_template": TEMPLATE, "reply_paths": ("words=x",)}, "does not name a part"),
        ({"body_template": TEMPLATE, "reply_paths": ("text=",)}, "does not name a part"),
    ],
)
def test_mistakes_in_templates_are_named(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        rendered(tensor("prompt", "a"), **options)


def test_a_template_is_read_from_a_file(tmp_path) -> None:
    path = tmp_path / "body.json"
    path.write_text('{"q": "{{prompt}}"}')
    assert json.loads(rendered(tensor("prompt", "a"), body_template=str(path))[2]) == {"q": "a"}
