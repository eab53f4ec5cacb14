"""Faults of control calls: metadata, configuration, statistics and metrics."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from tests.torture import http1_faults
from tests.torture.backends import json_reply
from tests.torture.http1_faults import Act, Fault, Wire, status_reply


def _body(text: bytes) -> Act:
    async def act(wire: Wire, reply: bytes) -> None:
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))

    return act


def _changed(change: Callable[[Any], Any]) -> Act:
    """Fault that changes the usual document."""

    async def act(wire: Wire, reply: bytes) -> None:
        wire.send(json_reply(change(json.loads(reply.partition(b"\r\n\r\n")[2]))))

    return act


def _status(code: int) -> Act:
    async def act(wire: Wire, reply: bytes) -> None:
        wire.send(status_reply(code))

    return act


async def _slow(wire: Wire, reply: bytes) -> None:
    await asyncio.sleep(wire.random.random() * 0.3)
    wire.send(reply)


def _endless(begin: Callable[[bytes], bytes], piece: bytes) -> Act:
    """Fault that sends one piece every fifth of a second for a minute, after the start of the reply."""

    async def act(wire: Wire, reply: bytes) -> None:
        wire.send(begin(reply))
        for _ in range(DRIPS):
            await asyncio.sleep(0.2)
            wire.send(piece)

    return act


def every(value: object) -> Callable[[Any], Any]:
    """Replace each value of an object, recursively, but not the objects themselves."""

    def change(document: Any) -> Any:
        if isinstance(document, dict):
            return {name: change(inner) for name, inner in document.items()}
        if isinstance(document, list):
            return [change(inner) for inner in document]
        return value

    return change


def _first_key(value: object) -> Callable[[Any], Any]:
    def change(document: Any) -> Any:
        return {**document, next(iter(document)): value} if isinstance(document, dict) and document else value

    return change


def _backwards(document: Any) -> Any:
    """Decrease the counters, as after a restart of the server."""
    if isinstance(document, dict):
        return {name: _backwards(inner) for name, inner in document.items()}
    if isinstance(document, list):
        return [_backwards(inner) for inner in document]
    return max(0, document - 5) if isinstance(document, int) else document


def _lengthened(document: Any) -> Any:
    """Extend every list of objects by 20,000, each with a different name."""
    if isinstance(document, dict):
        return {name: _lengthened(inner) for name, inner in document.items()}
    if isinstance(document, list) and document and isinstance(document[0], dict):
        return [*document, *({**document[0], "name": f"more{number}"} for number in range(20_000))]
    return document


DRIPS = 300  # a minute, which is longer than a run may take

_ENDLESS: tuple[tuple[str, Act], ...] = (
    ("endless status line", _endless(lambda reply: b"HTTP/1.1 200 ", b"O")),
    ("endless headers", _endless(lambda reply: reply.partition(b"\r\n")[0] + b"\r\n", b"X: y\r\n")),
    ("endless body", _endless(lambda reply: b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n", b" ")),
    (
        "endless chunks",
        _endless(lambda reply: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    ),
    ("endless interim replies", _endless(lambda reply: b"", b"HTTP/1.1 100 Continue\r\n\r\n")),
)
"""Drips that only the deadline of the whole call ends."""

_ACTS: tuple[tuple[str, Act], ...] = (
    ("null", _body(b"null")),
    ("a list", _body(b"[1, 2]")),
    ("a number", _body(b"17")),
    ("a string", _body(b'"text"')),
    ("an empty object", _body(b"{}")),
    ("an empty body", _body(b"")),
    ("half a document", _body(b'{"name": "fa')),
    ("not UTF-8", _body(b'{"name": "\xff\xfe"}')),
    ("infinities", _body(b'{"name": Infinity, "max_batch_size": NaN}')),
    ("nested very deep", _body(b"[" * 100_000)),
    ("every value null", _changed(every(None))),
    ("every value a number", _changed(every(17))),
    ("every value negative", _changed(every(-1))),
    ("every value huge", _changed(every(10**400))),
    ("every value a fraction", _changed(every(0.5))),
    ("every value a string", _changed(every("text"))),
    ("every value a list", _changed(every([[]]))),
    ("every value an object", _changed(every({"a": {}}))),
    ("every value a lone surrogate", _changed(every("\ud800"))),
    ("first value null", _changed(_first_key(None))),
    ("first value a list", _changed(_first_key([]))),
    ("every value a very long string", _changed(every("x" * 100_000))),
    ("very long lists", _changed(_lengthened)),
    ("very many empty lists", _body(b"[" + b"[]," * 500_000 + b"[]]")),
    ("counters going backwards", _changed(_backwards)),
    ("status 404", _status(404)),
    ("status 400", _status(400)),
    ("status 500", _status(500)),
    ("status 503", _status(503)),
    ("slow", _slow),
)

_FROM_REPLIES = (
    "reset before the reply", "close before the reply", "close in the head", "close in the body", "slow drip",
    "content-length too long", "chunk size is not a number", "garbage", "one interim reply", "HTTP/1.0",
    "wrong status line", "two replies",
)  # fmt: skip

FAULTS: tuple[Fault, ...] = (
    *(Fault(f"control: {name}", act, frozenset()) for name, act in _ACTS),
    *(Fault(f"control: {name}", act, frozenset(), is_mute=True) for name, act in _ENDLESS),
    *(
        Fault(f"control: {fault.name}", fault.act, frozenset())
        for fault in http1_faults.FAULTS
        if fault.name in _FROM_REPLIES
    ),
)
