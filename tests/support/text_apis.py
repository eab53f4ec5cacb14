"""Stand-ins for the APIs of text servers: the same exchange in each vendor's form, and a server that plays them.

tests/peers/test_clients.py shows that the vendors' own clients read what these send.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from inferometer.services.text_api import ANSWER, REASONING, TOOL
from tests.support.openai import LAST_CHUNK, chunk
from tests.support.servers import Act, Request, ScriptedServer, Wire, answer, answer_json, both, raw

EVENTS, LINES, JSON = "text/event-stream", "application/x-ndjson", "application/json"
HM, SO = (REASONING, "hm"), (REASONING, "so")
WORDS = ((ANSWER, "one"), (ANSWER, " two"), (ANSWER, " three"))
ARGUMENTS = ('{"a":', "1}")
Deltas = tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Counts:
    """Tokens that a stand-in reports."""

    tokens: int = 0
    prompt_tokens: int = 0
    reasoning_tokens: int = 0
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class StandIn:
    """An API: a stream and a complete reply with known content."""

    name: str  # for --endpoint
    path: str  # of streams, or of complete replies if it does not stream
    whole: bytes
    counts: Counts = Counts()
    stream: tuple[bytes, ...] = ()  # events
    deltas: Deltas = ()  # of the stream
    content_type: str = EVENTS
    whole_path: str = ""  # if it differs
    headers: Mapping[str, str] = field(default_factory=dict)
    error: bytes = b""  # an event that fails
    has_end: bool = False  # its last event ends the stream
    refusal: Any = field(default_factory=lambda: {"error": {"message": "too much", "type": "overloaded"}})

    @property
    def answer_at(self) -> int:
        """Index of the first delta after the reasoning."""
        return next(
            (place for place, (kind, _) in enumerate(self.deltas) if kind != REASONING), len(self.deltas)
        )

    @property
    def tool_at(self) -> int:
        """Position, from 1, of the first delta of a tool call; 0 if there is none."""
        return next((place for place, (kind, _) in enumerate(self.deltas, 1) if kind & TOOL), 0)


def sse(document: Any, name: str = "", space: str = " ") -> bytes:
    begin = f"event: {name}\n" if name else ""
    return f"{begin}data:{space}{json.dumps(document)}\n\n".encode()


def line(document: Any) -> bytes:
    return json.dumps(document).encode() + b"\n"


def text(document: Any) -> bytes:
    return json.dumps(document).encode()


# --- OpenAI


def _chunk(delta: Mapping[str, Any] | None, finish: str | None = None, **more: Any) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    common = {"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": "tiny"}
    return sse({**common, "choices": choices, **more})


def _call(**function: str) -> dict[str, Any]:
    named = {"id": "call-1", "type": "function"} if "name" in function else {}
    return {"tool_calls": [{"index": 0, **named, "function": function}]}


CHAT_USAGE = {
    "completion_tokens": 9,
    "prompt_tokens": 15,
    "total_tokens": 24,
    "completion_tokens_details": {"reasoning_tokens": 2},
    "prompt_tokens_details": {"cached_tokens": 7},
}
COUNTS = Counts(9, 15, 2, 7)
CHAT = StandIn(
    "chat",
    "/v1/chat/completions",
    text(
        {
            "id": "c-1",
            "object": "chat.completion",
            "created": 1,
            "model": "tiny",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": "one two three", "reasoning_content": "hmso"},
                    "finish_reason": "stop",
                }
            ],
            "usage": CHAT_USAGE,
        }
    ),
    COUNTS,
    stream=(
        _chunk({"role": "assistant", "content": ""}),
        *(_chunk({"reasoning_content": word}) for word in ("hm", "so")),
        *(_chunk({"content": word}) for _, word in WORDS),
        _chunk(_call(name="add", arguments="")),
        *(_chunk(_call(arguments=piece)) for piece in ARGUMENTS),
        _chunk({}, "tool_calls"),
        _chunk(None, usage=CHAT_USAGE),
        b"data: [DONE]\n\n",
    ),
    deltas=(HM, SO, *WORDS, *((TOOL, ""),) * 3),
    error=sse({"error": {"message": "out of memory", "type": "server_error"}}),
)


def _completion(word: str, finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "text": word, "finish_reason": finish, "logprobs": None}
    return sse(
        {"id": "c-1", "object": "text_completion", "created": 1, "model": "tiny", "choices": [choice], **more}
    )


COMPLETIONS = StandIn(
    "completions",
    "/v1/completions",
    text(
        {
            "id": "c-1",
            "object": "text_completion",
            "created": 1,
            "model": "tiny",
            "choices": [{"index": 0, "text": "one two three", "finish_reason": "stop", "logprobs": None}],
            "usage": {"completion_tokens": 3, "prompt_tokens": 4, "total_tokens": 7},
        }
    ),
    Counts(3, 4),
    stream=(
        *(_completion(word) for _, word in WORDS),
        _completion("", "stop", usage={"completion_tokens": 3, "prompt_tokens": 4, "total_tokens": 7}),
        b"data: [DONE]\n\n",
    ),
    deltas=WORDS,
    error=CHAT.error,
)


def _typed(kind: str, number: int, **fields: Any) -> bytes:
    return sse({"type": kind, "sequence_number": number, **fields}, kind)


def _response(status: str, **more: Any) -> dict[str, Any]:
    return {
        "id": "r-1",
        "object": "response",
        "created_at": 1,
        "model": "tiny",
        "status": status,
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        **more,
    }


RESPONSE_USAGE = {
    "input_tokens": 15,
    "input_tokens_details": {"cached_tokens": 7},
    "output_tokens": 9,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 24,
}
_SAID = {
    "id": "m-1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "one two three", "annotations": []}],
}
_PLACE = {"item_id": "i-1", "output_index": 0}
RESPONSES = StandIn(
    "responses",
    "/v1/responses",
    text(_response("completed", output=[_SAID], usage=RESPONSE_USAGE)),
    COUNTS,
    stream=(
        _typed("response.created", 0, response=_response("in_progress")),
        *(
            _typed("response.reasoning_text.delta", number, **_PLACE, content_index=0, delta=word)
            for number, word in enumerate(("hm", "so"), 1)
        ),
        *(
            _typed("response.output_text.delta", number, **_PLACE, content_index=0, delta=word, logprobs=[])
            for number, (_, word) in enumerate(WORDS, 3)
        ),
        _typed(
            "response.output_item.added",
            6,
            output_index=1,
            item={"type": "function_call", "id": "f-1", "call_id": "call-1", "name": "add", "arguments": ""},
        ),
        *(
            _typed("response.function_call_arguments.delta", number, **_PLACE, delta=piece)
            for number, piece in enumerate(ARGUMENTS, 7)
        ),
        _typed("response.completed", 9, response=_response("completed", usage=RESPONSE_USAGE)),
    ),
    deltas=(HM, SO, *WORDS, (TOOL, ""), *((TOOL, piece) for piece in ARGUMENTS)),
    error=_typed("error", 3, code="server_error", message="out of memory", param=None),
)
TRANSCRIPTION_USAGE = {"type": "tokens", "input_tokens": 15, "output_tokens": 3, "total_tokens": 18}
TRANSCRIPTIONS = StandIn(
    "transcriptions",
    "/v1/audio/transcriptions",
    text({"text": "one two three", "usage": TRANSCRIPTION_USAGE}),
    Counts(3, 15),
    stream=(
        *(sse({"type": "transcript.text.delta", "delta": word}) for _, word in WORDS),
        sse({"type": "transcript.text.done", "text": "one two three", "usage": TRANSCRIPTION_USAGE}),
    ),
    deltas=WORDS,
    error=CHAT.error,
)
EMBEDDINGS = StandIn(
    "embeddings",
    "/v1/embeddings",
    text(
        {
            "object": "list",
            "model": "tiny",
            "data": [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}],
            "usage": {"prompt_tokens": 4, "total_tokens": 4},
        }
    ),
    Counts(0, 4),
)
RERANK = StandIn(
    "rerank",
    "/v1/rerank",
    text({"id": "r-1", "results": [{"index": 0, "relevance_score": 0.5}], "usage": {"total_tokens": 4}}),
    Counts(0, 4),
)

# --- Anthropic


def _block(number: int, kind: str, **fields: Any) -> bytes:
    block = {"type": kind, **fields}
    return sse(
        {"type": "content_block_start", "index": number, "content_block": block}, "content_block_start"
    )


def _delta(number: int, kind: str, **fields: Any) -> bytes:
    delta = {"type": kind, **fields}
    return sse({"type": "content_block_delta", "index": number, "delta": delta}, "content_block_delta")


def _stop(number: int) -> bytes:
    return sse({"type": "content_block_stop", "index": number}, "content_block_stop")


PROMPT_USAGE = {"input_tokens": 3, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 7}
_MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "tiny",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {**PROMPT_USAGE, "output_tokens": 1},
}
_TOTAL = {"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 2}}
ANTHROPIC = StandIn(
    "anthropic",
    "/v1/messages",
    text(
        {
            **_MESSAGE,
            "content": [
                {"type": "thinking", "thinking": "hmso", "signature": "s"},
                {"type": "text", "text": "one two three"},
                {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1}},
            ],
            "stop_reason": "tool_use",
            "usage": {**PROMPT_USAGE, **_TOTAL},
        }
    ),
    COUNTS,
    stream=(
        sse({"type": "message_start", "message": _MESSAGE}, "message_start"),
        _block(0, "thinking", thinking="", signature=""),
        *(_delta(0, "thinking_delta", thinking=word) for word in ("hm", "so")),
        _delta(0, "signature_delta", signature="c2lnbmVk"),
        _stop(0),
        sse({"type": "ping"}, "ping"),
        _block(1, "text", text=""),
        *(_delta(1, "text_delta", text=word) for _, word in WORDS),
        _stop(1),
        _block(2, "tool_use", id="toolu_1", name="add", input={}),
        *(_delta(2, "input_json_delta", partial_json=piece) for piece in ("", *ARGUMENTS)),
        _stop(2),
        sse(
            {
                "type": "message_delta",
                "delta": {"stop_reason": "tool_use", "stop_sequence": None},
                "usage": _TOTAL,
            },
            "message_delta",
        ),
        sse({"type": "message_stop"}, "message_stop"),
    ),
    deltas=(HM, SO, *WORDS, (TOOL, ""), *((TOOL, piece) for piece in ARGUMENTS)),
    error=sse({"type": "error", "error": {"type": "overloaded_error", "message": "out of memory"}}, "error"),
    has_end=True,
    refusal={"type": "error", "error": {"type": "rate_limit_error", "message": "too much"}},
)

# --- Ollama


def _line(number: int, *, done: bool = False, **fields: Any) -> dict[str, Any]:
    return {"model": "tiny", "created_at": f"2026-11-18T12:00:0{number}.5Z", **fields, "done": done}


def _said(number: int, **fields: Any) -> bytes:
    return line(_line(number, message={"role": "assistant", "content": "", **fields}))


_DONE = {
    "done_reason": "stop",
    "total_duration": 5,
    "load_duration": 1,
    "prompt_eval_count": 15,
    "prompt_eval_duration": 1,
    "eval_count": 9,
    "eval_duration": 3,
}
OLLAMA = StandIn(
    "ollama",
    "/api/chat",
    text(_line(0, done=True, message={"role": "assistant", "content": "one two three"}, **_DONE)),
    Counts(9, 15),
    stream=(
        *(_said(number, thinking=word) for number, word in enumerate(("hm", "so"))),
        *(_said(number, content=word) for number, (_, word) in enumerate(WORDS, 2)),
        _said(5, tool_calls=[{"function": {"name": "add", "arguments": {"a": 1}}}]),
        line(_line(6, done=True, message={"role": "assistant", "content": ""}, **_DONE)),
    ),
    deltas=(HM, SO, *WORDS, (TOOL, "")),
    content_type=LINES,
    error=line({"error": "out of memory"}),
    has_end=True,
    refusal={"error": "too much"},
)
OLLAMA_GENERATE = StandIn(
    "ollama-generate",
    "/api/generate",
    text(_line(0, done=True, response="one two three", **_DONE)),
    Counts(9, 15),
    stream=(
        *(line(_line(number, response="", thinking=word)) for number, word in enumerate(("hm", "so"))),
        *(line(_line(number, response=word)) for number, (_, word) in enumerate(WORDS, 2)),
        line(_line(6, done=True, response="", **_DONE)),
    ),
    deltas=(HM, SO, *WORDS),
    content_type=LINES,
    error=OLLAMA.error,
    has_end=True,
    refusal=OLLAMA.refusal,
)
OLLAMA_EMBED = StandIn(
    "ollama-embed",
    "/api/embed",
    text({"model": "tiny", "embeddings": [[0.5, 0.25]], "total_duration": 5, "prompt_eval_count": 4}),
    Counts(0, 4),
    refusal=OLLAMA.refusal,
)

# --- Hugging Face


def _token(number: int, word: str, *, special: bool = False, **end: Any) -> bytes:
    token = {"id": number, "text": word, "logprob": -0.5, "special": special}
    document = {"index": number, "token": token, "generated_text": None, "details": None, **end}
    return sse(document, space="")  # TGI leaves the space out


_DETAILS = {"finish_reason": "eos_token", "generated_tokens": 4, "seed": None, "input_length": 15}
TGI = StandIn(
    "tgi",
    "/generate_stream",
    text({"generated_text": "one two three", "details": {**_DETAILS, "prefill": [], "tokens": []}}),
    Counts(4, 15),
    stream=(
        *(_token(number, word) for number, (_, word) in enumerate(WORDS, 1)),
        _token(4, "</s>", special=True, generated_text="one two three", details=_DETAILS),
    ),
    deltas=WORDS,
    whole_path="/generate",
    headers={"x-prompt-tokens": "15", "x-generated-tokens": "4"},
    error=sse({"error": "out of memory", "error_type": "generation"}, space=""),
    has_end=True,
    refusal={"error": "too much", "error_type": "overloaded"},
)
TEI_EMBED = StandIn(
    "tei-embed",
    "/embed",
    text([[0.5, 0.25]]),
    Counts(0, 4),
    headers={"x-compute-tokens": "4"},
    refusal=TGI.refusal,
)
TEI_RERANK = StandIn(
    "tei-rerank",
    "/rerank",
    text([{"index": 0, "score": 0.5}]),
    Counts(0, 4),
    headers={"x-compute-tokens": "4"},
    refusal=TGI.refusal,
)

# --- Cohere

_META = {"api_version": {"version": "2"}, "billed_units": {"input_tokens": 4}}
COHERE_EMBED = StandIn(
    "cohere-embed",
    "/v2/embed",
    text(
        {"id": "e-1", "embeddings": {"float": [[0.5, 0.25]]}, "texts": ["x"], "meta": _META}
        | {"response_type": "embeddings_by_type"}
    ),
    Counts(0, 4),
    refusal={"message": "too much"},
)
COHERE_RERANK = StandIn(
    "cohere-rerank",
    "/v2/rerank",
    text({"id": "r-1", "results": [{"index": 0, "relevance_score": 0.5}], "meta": _META}),
    Counts(0, 4),
    refusal=COHERE_EMBED.refusal,
)

# --- Triton


def _output(word: str) -> dict[str, Any]:
    return {"model_name": "tiny", "model_version": "1", "text_output": word}


TRITON = StandIn(
    "triton-generate",
    "/v2/models/tiny/generate_stream",
    text(_output("one two three")),
    stream=tuple(sse(_output(word)) for _, word in WORDS),
    deltas=WORDS,
    whole_path="/v2/models/tiny/generate",
    error=sse({"error": "out of memory"}),
    refusal={"error": "too much"},
)

CUSTOM = StandIn(  # as in docs/apis.md
    "template",
    "/custom/v3/ask",
    text({"answer": [{"piece": "one two three"}], "count": {"out": 3}, "state": "finished"}),
    Counts(3),
    stream=(
        *(line({"answer": [{"piece": word}], "state": "busy"}) for _, word in WORDS),
        line({"answer": [], "count": {"out": 3}, "state": "finished"}),
    ),
    deltas=WORDS,
    content_type=LINES,
)

STAND_INS = (
    *(CHAT, COMPLETIONS, RESPONSES, TRANSCRIPTIONS, EMBEDDINGS, RERANK, ANTHROPIC),
    *(OLLAMA, OLLAMA_GENERATE, OLLAMA_EMBED, TGI, TEI_EMBED, TEI_RERANK, COHERE_EMBED, COHERE_RERANK, TRITON),
)


# --- a server

Speak = Callable[[StandIn, Request], Act | None]
LISTS = {
    "/v1/models": {
        "object": "list",
        "data": [{"id": "tiny", "object": "model", "created": 1, "owned_by": "x"}],
    },
    "/api/tags": {"models": [{"name": "tiny", "model": "tiny"}]},
    "/info": {"model_id": "tiny"},
}


def played(stand_in: StandIn, *, events: tuple[bytes, ...] | None = None) -> Act:
    """Send the stream, an event at a time."""

    def act(wire: Wire) -> None:
        head = (
            f"HTTP/1.1 200 OK\r\nContent-Type: {stand_in.content_type}\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        wire.send(head.encode())
        for piece in stand_in.stream if events is None else events:
            wire.send(chunk(piece))

    return both(act, raw(LAST_CHUNK))


def usual(stand_in: StandIn, request: Request) -> Act:
    """Send a stream if the request asks for one, else the complete reply."""
    body = request.body.replace(b" ", b"")
    asks = any(word in body for word in (b'"stream":true', b'"streaming":true', b'name="stream"\r\n\r\ntrue'))
    is_streamed = request.path == stand_in.path if stand_in.whole_path else asks
    if is_streamed and stand_in.stream:
        return played(stand_in)
    return answer(stand_in.whole, headers={"Content-Type": JSON, **stand_in.headers})


class TextServer:
    """A server with all APIs. Use as a context manager."""

    def __init__(self, speak: Speak = usual, pages: Mapping[str, Any] | None = None) -> None:
        self._pages = LISTS if pages is None else pages  # answers to GET, by path
        self.server = ScriptedServer(self._act)
        self.calls: list[Request] = []
        self._speak = speak

    def __enter__(self) -> Self:
        self.server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.__exit__()

    @property
    def address(self) -> str:
        return self.server.address

    def _act(self, request: Request) -> Act:
        if request.method != "POST":
            found = self._pages.get(request.path.partition("?")[0])
            return answer_json({"error": "no such path"}, 404) if found is None else answer_json(found)
        self.calls.append(request)
        rows = (*STAND_INS, CUSTOM)
        stand_in = next((row for row in rows if request.path in (row.path, row.whole_path)), None)
        if stand_in is None:
            return answer_json({"error": f"no such path: {request.path}"}, 404)
        return self._speak(stand_in, request) or usual(stand_in, request)
