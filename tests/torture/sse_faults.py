"""Faults inside a stream of server-sent events, and inside a JSON answer of an OpenAI-style server."""

import asyncio
import json

from inferometer.wire.sse import EVENT_LIMIT
from tests.support.openai import DONE, END, ROLE, delta, event, response, response_event, usage
from tests.torture.backends import json_reply, sse
from tests.torture.http1_faults import Act, Fault, Wire

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
WORDS = (delta("one"), delta("two"))
REST = (END, usage(2, 4), DONE)
_PIECE = 65536


def _say(*pieces: bytes) -> Act:
    """Send a complete stream of these pieces, each as a chunk."""

    async def act(wire: Wire, reply: bytes) -> None:
        wire.send(sse(*pieces))

    return act


def _say_until_close(*pieces: bytes) -> Act:
    async def act(wire: Wire, reply: bytes) -> None:
        wire.send(HEAD + b"\r\n" + b"".join(pieces))
        wire.close()

    return act


async def _cut_anywhere(wire: Wire, reply: bytes) -> None:
    """Send chunks that end in the middle of events, one by one."""
    text = b"".join((ROLE, *WORDS, *REST))
    wire.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    while text:
        size = wire.random.randrange(1, 60)
        wire.send(b"%x\r\n%s\r\n" % (len(text[:size]), text[:size]))
        text = text[size:]
        await asyncio.sleep(0)
    wire.send(b"0\r\n\r\n")


async def _slow_words(wire: Wire, reply: bytes) -> None:
    wire.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    for piece in (ROLE, *WORDS, *REST):
        wire.send(b"%x\r\n%s\r\n" % (len(piece), piece))
        await asyncio.sleep(0.004)
    wire.send(b"0\r\n\r\n")


async def _close_in_event(wire: Wire, reply: bytes) -> None:
    wire.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"%x\r\n%s\r\n" % (20, (ROLE + WORDS[0])[:20]))
    await asyncio.sleep(0.002)
    wire.close()


def _in_pieces(*events: bytes, size: int = 1000) -> Act:
    """Send chunks of `size` bytes."""
    text = b"".join(events)
    return _say(*(text[at : at + size] for at in range(0, len(text), size)))


async def _endless(wire: Wire, reply: bytes) -> None:
    """Send one endless line, longer than the limit of an event."""
    wire.send(HEAD + b"\r\ndata: ")
    for _ in range(EVENT_LIMIT // _PIECE + 16):
        wire.send(b"x" * _PIECE)
        await asyncio.sleep(0)
    wire.close()


def event_text(text: str) -> bytes:
    """An event with these characters unescaped."""
    document = {"choices": [{"index": 0, "delta": {"content": text}}]}
    return b"data: " + json.dumps(document, ensure_ascii=False).encode() + b"\n\n"


def _body(body: bytes, *, content_type: str = "application/json") -> Act:
    async def act(wire: Wire, reply: bytes) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        wire.send(head.encode() + body)

    return act


def _document(document: object) -> Act:
    async def act(wire: Wire, reply: bytes) -> None:
        wire.send(json_reply(document))

    return act


def _crlf(piece: bytes, end: bytes) -> bytes:
    return piece.replace(b"\n", end)


def _row(name: str, act: Act, *kinds: str) -> Fault:
    return Fault(name, act, frozenset(kinds))


_HUGE = 10**30
_STRANGE: tuple[dict[str, object], ...] = (
    {"type": "response.output_text.delta"},
    {"type": "response.output_text.delta", "delta": 5},
    {"type": "response.", "delta": "x"},
    {"type": 5},
    {
        "type": "response.completed",
        "response": {"usage": {"output_tokens_details": [], "output_tokens": "x"}},
    },
    {"type": "response.completed", "response": 5},
)
_DEEP = b'{"choices":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
_REFUSED = "error in the reply"

STREAM_FAULTS: tuple[Fault, ...] = (
    _row("SSE: cut anywhere", _cut_anywhere),
    _row("SSE: slow words", _slow_words),
    _row("SSE: flood of blank lines", _say(ROLE, *WORDS, b"\n" * 300_000, *REST)),
    _row("SSE: flood of blank lines, as CRLF", _say(ROLE, WORDS[0], b"\r\n" * 100_000, WORDS[1], *REST)),
    _row("SSE: flood of comments", _say(ROLE, b":\n\n" * 50_000, *WORDS, *REST)),
    _row("SSE: no [DONE]", _say(ROLE, *WORDS, END)),
    _row("SSE: no end at all", _say(ROLE, *WORDS)),
    _row("SSE: no end, until close", _say_until_close(ROLE, *WORDS), "reset"),
    _row("SSE: until close", _say_until_close(ROLE, *WORDS, *REST)),
    _row("SSE: close in an event", _close_in_event, "reset"),
    _row("SSE: error event", _say(ROLE, b'event: error\ndata: {"x": 1}\n\n', DONE), _REFUSED),
    _row("SSE: error document", _say(WORDS[0], event({"error": {"message": "planted"}})), _REFUSED),
    _row("SSE: error of a strange shape", _say(event({"error": [1, {"a": None}]})), _REFUSED),
    _row("SSE: usage twice", _say(*WORDS, usage(2, 4), usage(7, 9), DONE)),
    _row("SSE: usage of strange shapes", _say(*WORDS, event({"usage": [1]}), event({"usage": "x"}), *REST)),
    _row("SSE: huge token count", _say(*WORDS, usage(_HUGE, _HUGE), END, DONE)),
    _row(
        "SSE: token counts that are not integers",
        _say(*WORDS, event({"usage": {"completion_tokens": 1.5}}), *REST),
    ),
    _row("SSE: event of 1 MB", _say(delta("x" * 1_000_000), *REST)),
    _row("SSE: half an event", _say(ROLE, *WORDS, WORDS[0][:-9]), "malformed"),
    _row("SSE: half an event, until close", _say_until_close(ROLE, *WORDS, WORDS[0][:-9]), "reset"),
    _row("SSE: no empty line behind the last event", _say(ROLE, *WORDS, END, usage(2, 4)[:-2])),
    _row("SSE: no empty line behind [DONE]", _say(ROLE, *WORDS, DONE[:-2])),
    _row("SSE: half an event behind the end", _say(*WORDS, *REST, WORDS[0][:-9])),
    _row("SSE: no usage", _say(ROLE, *WORDS, END, DONE)),
    _row("SSE: event of 1 MB in small pieces", _in_pieces(delta("x" * 1_000_000), *REST)),
    _row("SSE: event without end", _endless, "malformed", "timeout"),
    _row("SSE: byte by byte", _in_pieces(ROLE, *WORDS, *REST, size=1)),
    _row("SSE: characters cut in two", _in_pieces(event_text("\u00fc\U0001f600"), *REST, size=1)),
    _row("SSE: half a character", _say(b'data: {"a": "\xc3"}\n\n', *REST), "malformed"),
    _row("SSE: responses", _say(response(("one", "two")))),
    _row("SSE: responses, no usage", _say(response_event("response.completed", response={}))),
    _row(
        "SSE: responses, failed", _say(response_event("response.failed", response={"error": None})), _REFUSED
    ),
    _row("SSE: responses, error", _say(response_event("error", message="planted")), _REFUSED),
    _row("SSE: responses of strange shapes", _say(*map(event, _STRANGE))),
    _row("SSE: CRLF", _say(*(_crlf(piece, b"\r\n") for piece in (ROLE, *WORDS, *REST)))),
    _row("SSE: CR", _say(*(_crlf(piece, b"\r") for piece in (ROLE, *WORDS, *REST)))),
    _row("SSE: comments", _say(b": keep-alive\n\n", ROLE, b":\n", *WORDS, b"id: 1\nretry: 5\n\n", *REST)),
    _row("SSE: byte order mark", _say(b"\xef\xbb\xbf" + ROLE, *WORDS, *REST)),
    _row("SSE: not JSON", _say(ROLE, b"data: {half\n\n", *REST), "malformed"),
    _row("SSE: not an object", _say(ROLE, b"data: 17\n\n", *REST), "malformed"),
    _row("SSE: nested very deep", _say(b"data: " + _DEEP + b"\n\n", *REST), "malformed", "ok"),
    _row("SSE: choices of strange shapes", _say(event({"choices": [None, 1, {"delta": 3}]}), *REST)),
    _row("SSE: choices is a number", _say(event({"choices": 5}), *REST), "malformed", "ok"),
    _row("SSE: content is a list", _say(event({"choices": [{"delta": {"content": [1, 2]}}]}), *REST)),
    _row("SSE: lone surrogates", _say(b'data: {"choices":[{"delta":{"content":"\\ud800"}}]}\n\n', *REST)),
    _row("SSE: nothing", _say()),
    _row("SSE: only [DONE]", _say(DONE)),
    _row("SSE: words after [DONE]", _say(*WORDS, *REST, *WORDS)),
    _row("SSE: infinities", _say(b'data: {"choices":[],"usage":{"completion_tokens":Infinity}}\n\n', *REST)),
)

WHOLE_FAULTS: tuple[Fault, ...] = (
    _row("JSON: null", _document(None), "malformed"),
    _row("JSON: list", _document([1]), "malformed"),
    _row("JSON: half", _body(b'{"choices": ['), "malformed"),
    _row("JSON: empty", _body(b""), "malformed"),
    _row("JSON: not UTF-8", _body(b'{"a": "\xff"}'), "malformed"),
    _row("JSON: nested very deep", _body(_DEEP), "malformed", "ok"),
    _row("JSON: error inside", _document({"error": {"message": "planted"}}), _REFUSED),
    _row("JSON: error is a number", _document({"error": 5}), _REFUSED),
    _row("JSON: huge token count", _document({"choices": [], "usage": {"completion_tokens": _HUGE}})),
    _row(
        "JSON: long number", _body(b'{"usage":{"completion_tokens":' + b"9" * 5000 + b"}}"), "malformed", "ok"
    ),
    _row("JSON: choices is a number", _document({"choices": 5})),
    _row("JSON: as an empty stream", _body(b"", content_type="text/event-stream")),
    _row("JSON: 1 MB", _body(json.dumps({"choices": [], "pad": "x" * 1_000_000}).encode())),
)
