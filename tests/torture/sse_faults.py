"""What can go wrong inside a stream of server-sent events, and inside a JSON answer of an OpenAI-style server."""

import asyncio
import json

from tests.support.openai import DONE, END, ROLE, delta, event, usage
from tests.torture.backends import json_reply, sse
from tests.torture.http1_faults import Act, Fault, Wire

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
WORDS = (delta("one"), delta("two"))
REST = (END, usage(2, 4), DONE)


def _say(*pieces: bytes) -> Act:
    """A whole stream of these pieces, each a chunk."""

    async def act(wire: Wire, reply: bytes) -> None:
        wire.send(sse(*pieces))

    return act


def _say_until_close(*pieces: bytes) -> Act:
    async def act(wire: Wire, reply: bytes) -> None:
        wire.send(HEAD + b"\r\n" + b"".join(pieces))
        wire.close()

    return act


async def _cut_anywhere(wire: Wire, reply: bytes) -> None:
    """Chunks end in the middle of events, and come one by one."""
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
_DEEP = b'{"choices":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
_REFUSED = "error in the reply"

STREAM_FAULTS: tuple[Fault, ...] = (
    _row("SSE: cut anywhere", _cut_anywhere),
    _row("SSE: slow words", _slow_words),
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
        "SSE: token counts that are no integers",
        _say(*WORDS, event({"usage": {"completion_tokens": 1.5}}), *REST),
    ),
    _row("SSE: event of 1 MB", _say(delta("x" * 1_000_000), *REST)),
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
