"""Faults of replies over HTTP/1.1, with the outcomes that a client must report."""

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Protocol


class Wire(Protocol):
    """Interface of faults to the server's end of a connection."""

    random: Random

    def send(self, data: bytes) -> None: ...

    def close(self) -> None:
        """Send the remaining data, then close cleanly."""

    def reset(self) -> None:
        """Close abruptly: the peer gets RST."""

    def poison(self, *kinds: str) -> None:
        """Allow these outcomes for later requests on this connection."""

    def excuse(self, *kinds: str) -> None:
        """Allow these outcomes for requests that never arrive."""


Act = Callable[[Wire, bytes], Awaitable[None]]
"""Plays a fault, given the usual reply."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault. `kinds` are the outcomes a client may report; empty means the usual one."""

    name: str
    act: Act
    kinds: frozenset[str]
    may_repeat: bool = False  # a client may send the request again if the connection has served others before
    is_mute: bool = False  # needs a timeout of requests

    @property
    def is_silent(self) -> bool:
        """Whether the client gets no valid answer, so that its pauses become longer."""
        return bool(self.kinds & {"reset", "malformed", "timeout"})


def _head(reply: bytes) -> tuple[bytes, bytes]:
    head, _, body = reply.partition(b"\r\n\r\n")
    return head + b"\r\n\r\n", body


async def _pause(wire: Wire, longest_s: float = 0.02) -> None:
    await asyncio.sleep(wire.random.random() * longest_s)


# --- the connection


async def _reset(wire: Wire, reply: bytes) -> None:
    wire.reset()


async def _close(wire: Wire, reply: bytes) -> None:
    wire.close()


def _cut(wire: Wire, low: int, high: int) -> int:
    return wire.random.randrange(low, max(high, low + 1))


async def _close_in_head(wire: Wire, reply: bytes) -> None:
    wire.send(reply[: _cut(wire, 1, len(_head(reply)[0]) - 1)])
    await _pause(wire)
    wire.close()


async def _reset_in_head(wire: Wire, reply: bytes) -> None:
    wire.send(reply[: _cut(wire, 1, len(_head(reply)[0]) - 1)])
    await _pause(wire)
    wire.reset()


async def _close_in_body(wire: Wire, reply: bytes) -> None:
    wire.send(reply[: _cut(wire, len(_head(reply)[0]), len(reply) - 1)])
    await _pause(wire)
    wire.close()


async def _reset_in_body(wire: Wire, reply: bytes) -> None:
    wire.send(reply[: _cut(wire, len(_head(reply)[0]), len(reply) - 1)])
    await _pause(wire)
    wire.reset()


async def _close_after(wire: Wire, reply: bytes) -> None:
    wire.send(reply)
    wire.close()


async def _close_later(wire: Wire, reply: bytes) -> None:
    """Close a little later, when the next request may be in flight."""
    wire.send(reply)
    await _pause(wire, 0.003)
    wire.close()


async def _close_announced(wire: Wire, reply: bytes) -> None:
    head, body = _head(reply)
    wire.send(head[:-2] + b"Connection: close\r\n\r\n" + body)
    wire.close()


async def _lie_about_close(wire: Wire, reply: bytes) -> None:
    """Announce a close without closing."""
    head, body = _head(reply)
    wire.send(head[:-2] + b"Connection: close\r\n\r\n" + body)


# --- time


async def _delay(wire: Wire, reply: bytes) -> None:
    await asyncio.sleep(0.005 + wire.random.random() * 0.05)
    wire.send(reply)


async def _drip(wire: Wire, reply: bytes) -> None:
    """Send a few bytes at a time."""
    size = max(1, len(reply) // 12)
    for start in range(0, len(reply), size):
        wire.send(reply[start : start + size])
        await asyncio.sleep(0.001)


async def _bytes(wire: Wire, reply: bytes) -> None:
    """Send byte by byte, each in its own packet if the kernel does so."""
    for at in range(min(len(reply), 200)):
        wire.send(reply[at : at + 1])
        if at % 16 == 0:
            await asyncio.sleep(0)
    wire.send(reply[200:])


async def _never(wire: Wire, reply: bytes) -> None:
    pass


async def _half_then_silence(wire: Wire, reply: bytes) -> None:
    wire.send(reply[: len(reply) // 2])


# --- framing


def _sized(reply: bytes, length: bytes, *more: bytes) -> bytes:
    """Return the reply with another Content-Length."""
    head, _ = _head(reply)
    lines = [line for line in head.split(b"\r\n") if line and not line.lower().startswith(FRAMING)]
    return b"\r\n".join([*lines, b"Content-Length: " + length, *more]) + b"\r\n\r\n" + _whole(reply)


FRAMING = (b"content-length", b"transfer-encoding")


def _whole(reply: bytes) -> bytes:
    """Return the body without chunks."""
    head, body = _head(reply)
    if b"chunked" not in head.lower():
        return body
    parts = []
    while body:
        size, _, rest = body.partition(b"\r\n")
        length = int(size, 16)
        parts.append(rest[:length])
        body = rest[length + 2 :]
    return b"".join(parts)


def _chunked(reply: bytes, *chunks: bytes) -> bytes:
    head, _ = _head(reply)
    lines = [line for line in head.split(b"\r\n") if line and not line.lower().startswith(FRAMING)]
    return b"\r\n".join([*lines, b"Transfer-Encoding: chunked"]) + b"\r\n\r\n" + b"".join(chunks)


def _chunks(wire: Wire, body: bytes) -> list[bytes]:
    parts, at = [], 0
    while at < len(body):
        size = wire.random.randrange(1, max(2, len(body)))
        piece = body[at : at + size]
        parts.append(b"%x\r\n%s\r\n" % (len(piece), piece))
        at += size
    return parts


async def _too_long(wire: Wire, reply: bytes) -> None:
    wire.send(_sized(reply, b"%d" % (len(_whole(reply)) + 7)))
    await _pause(wire)
    wire.close()


async def _too_short(wire: Wire, reply: bytes) -> None:
    """Send more than announced, at once or a little later, when it affects the next request."""
    surplus = b"surplus bytes"
    length = b"%d" % len(_whole(reply))
    wire.poison("malformed", "reset")
    if wire.random.random() < 0.5:
        wire.send(_sized(reply, length) + surplus)
        return
    wire.send(_sized(reply, length))
    await _pause(wire, 0.003)
    wire.send(surplus)


async def _two_replies(wire: Wire, reply: bytes) -> None:
    wire.poison("malformed", "reset", "ok")
    wire.send(reply + reply)


async def _chunked_well(wire: Wire, reply: bytes) -> None:
    wire.send(_chunked(reply, *_chunks(wire, _whole(reply)), b"0\r\nX-Trailer: 1\r\n\r\n"))


async def _chunk_extensions(wire: Wire, reply: bytes) -> None:
    """Send each byte as a chunk with an extension."""
    parts = [b"1;%s\r\n%c\r\n" % (b"e" * wire.random.randrange(0, 300), byte) for byte in _whole(reply)]
    wire.send(_chunked(reply, *parts, b"0\r\n\r\n"))


async def _endless_chunk_extension(wire: Wire, reply: bytes) -> None:
    wire.send(_chunked(reply, b"1;" + b"e" * 8_000))


async def _endless_trailers(wire: Wire, reply: bytes) -> None:
    wire.send(_chunked(reply, *_chunks(wire, _whole(reply)), b"0\r\n" + b"X: y\r\n" * 20_000))


async def _length_is_huge(wire: Wire, reply: bytes) -> None:
    wire.send(_sized(reply, b"%d" % 2**60))
    await _pause(wire)
    wire.close()


async def _endless_drip(wire: Wire, reply: bytes) -> None:
    """Send a byte of the body now and then, until the client gives up."""
    wire.send(_head(_sized(reply, b"1000000"))[0])
    for _ in range(50):
        wire.send(b" ")
        await asyncio.sleep(0.02)


async def _tiny_chunks(wire: Wire, reply: bytes) -> None:
    """Send tiny chunks endlessly."""
    wire.send(_chunked(reply))
    for _ in range(50):
        wire.send(b"1\r\n \r\n" * 10_000)
        await asyncio.sleep(0.01)


async def _packed_bomb(wire: Wire, reply: bytes) -> None:
    """Send a compressed body that the client did not ask for and must not decompress."""
    body = zlib.compress(bytes(20_000_000))
    wire.send(
        b"HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    )


async def _chunk_size_is_not_a_number(wire: Wire, reply: bytes) -> None:
    wire.send(_chunked(reply, *_chunks(wire, _whole(reply)), b"zz\r\n"))


async def _chunk_too_long(wire: Wire, reply: bytes) -> None:
    wire.send(_chunked(reply, b"2\r\nabcd\r\n", b"0\r\n\r\n"))


async def _chunk_is_huge(wire: Wire, reply: bytes) -> None:
    wire.send(_chunked(reply, b"fffffffffffffffff\r\nabcd\r\n"))


async def _chunks_end_early(wire: Wire, reply: bytes) -> None:
    wire.send(_chunked(reply, *_chunks(wire, _whole(reply))))
    await _pause(wire)
    wire.close()


async def _chunked_and_sized(wire: Wire, reply: bytes) -> None:
    head, _, body = _chunked(reply, *_chunks(wire, _whole(reply)), b"0\r\n\r\n").partition(b"\r\n\r\n")
    wire.send(head + b"\r\nContent-Length: 3\r\n\r\n" + body)


async def _two_lengths(wire: Wire, reply: bytes) -> None:
    wire.send(_sized(reply, b"%d" % len(_whole(reply)), b"Content-Length: 3"))


async def _length_is_not_a_number(wire: Wire, reply: bytes) -> None:
    wire.send(_sized(reply, wire.random.choice((b"-4", b"many", b"1e3", b"9" * 40, b"", b"0x10"))))


async def _old_version(wire: Wire, reply: bytes) -> None:
    wire.send(_sized(reply, b"%d" % len(_whole(reply))).replace(b"HTTP/1.1", b"HTTP/1.0", 1))
    wire.close()


async def _until_close(wire: Wire, reply: bytes) -> None:
    head, _ = _head(reply)
    lines = [line for line in head.split(b"\r\n") if line and not line.lower().startswith(FRAMING)]
    wire.send(b"\r\n".join([*lines, b"", b""]) + _whole(reply))
    await _pause(wire)
    wire.close()


# --- heads


def _interim(count: int) -> Act:
    async def act(wire: Wire, reply: bytes) -> None:
        for _ in range(count):
            code = wire.random.choice((b"100 Continue", b"102 Processing", b"103 Early Hints\r\nLink: </a>"))
            wire.send(b"HTTP/1.1 " + code + b"\r\n\r\n")
            if count < 5:
                await _pause(wire, 0.003)
        wire.send(reply)

    return act


async def _switch(wire: Wire, reply: bytes) -> None:
    wire.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n")


async def _garbage(wire: Wire, reply: bytes) -> None:
    wire.send(b"\x07" + wire.random.randbytes(wire.random.randrange(8, 400)))


async def _tls_alert(wire: Wire, reply: bytes) -> None:
    wire.send(b"\x15\x03\x01\x00\x02\x02\x28")
    await _pause(wire)
    wire.close()


async def _http2_greeting(wire: Wire, reply: bytes) -> None:
    wire.send(b"\x00\x00\x00\x04\x00\x00\x00\x00\x00")


async def _wrong_status_line(wire: Wire, reply: bytes) -> None:
    line = wire.random.choice(
        (
            b"HTTP/1.1 20 OK",
            b"HTTP/1.1 2000 OK",
            b"HTTP/1.1 abc",
            b"HTTP/2 200 OK",
            b"ICY 200 OK",
            b"http/1.1 200 OK",
        )
    )
    wire.send(line + reply[reply.index(b"\r\n") :])


async def _wrong_header_line(wire: Wire, reply: bytes) -> None:
    line = wire.random.choice((b"no colon here", b"Na me: 1", b": nothing", b"Nul: \0", b"Caf\xc3\xa9: 1"))
    head, body = _head(reply)
    wire.send(head[:-2] + line + b"\r\n\r\n" + body)


async def _many_headers(wire: Wire, reply: bytes) -> None:
    head, body = _head(reply)
    wire.send(head[:-2] + b"".join(b"X-%d: %s\r\n" % (n, b"v" * 40) for n in range(600)) + b"\r\n" + body)


async def _endless_head(wire: Wire, reply: bytes) -> None:
    wire.send(b"HTTP/1.1 200 OK\r\n" + b"X-Long: " + b"v" * 80_000)


async def _bare_newlines(wire: Wire, reply: bytes) -> None:
    head, body = _head(reply)
    wire.send(head.replace(b"\r\n", b"\n") + body)


async def _folded_header(wire: Wire, reply: bytes) -> None:
    head, body = _head(reply)
    wire.send(head[:-2] + b"X-Folded: one\r\n two\r\n\r\n" + body)


# --- statuses


def status_reply(code: int, body: bytes = b'{"error":"planted"}') -> bytes:
    return b"HTTP/1.1 %d Planted\r\nContent-Length: %d\r\n\r\n%s" % (code, len(body), body)


def _status(code: int, body: bytes = b'{"error":"planted"}') -> Act:
    async def act(wire: Wire, reply: bytes) -> None:
        wire.send(status_reply(code, body))

    return act


STATUSES = (300, 307, 400, 401, 403, 404, 408, 413, 418, 429, 500, 501, 502, 503, 504, 599, 999)
MARKUP = b"[click](http://x) <img src=x> \x1b[31m\r\n\t| =1+1 \xff\xfe &<>'\" " + "\u2028\ud7ff".encode()


def _row(name: str, act: Act, *kinds: str, may_repeat: bool = False, is_mute: bool = False) -> Fault:
    return Fault(name, act, frozenset(kinds), may_repeat, is_mute)


FAULTS: tuple[Fault, ...] = (
    _row("reset before the reply", _reset, "reset"),
    _row("close before the reply", _close, "reset", may_repeat=True),
    _row("close in the head", _close_in_head, "reset"),
    _row("reset in the head", _reset_in_head, "reset"),
    _row("close in the body", _close_in_body, "reset"),
    _row("reset in the body", _reset_in_body, "reset"),
    _row("close after the reply", _close_after),
    _row("close a little after the reply", _close_later),
    _row("close announced", _close_announced),
    _row("close announced and not done", _lie_about_close),
    _row("delay", _delay),
    _row("slow drip", _drip),
    _row("byte by byte", _bytes),
    _row("no answer", _never, "timeout", is_mute=True),
    _row("half an answer, then silence", _half_then_silence, "timeout", is_mute=True),
    _row("content-length too long", _too_long, "reset"),
    _row("content-length too short", _too_short),
    _row("two replies", _two_replies),
    _row("chunked", _chunked_well),
    _row("chunk extensions", _chunk_extensions),
    _row("chunk extension without end", _endless_chunk_extension, "malformed"),
    _row("trailers without end", _endless_trailers, "malformed"),
    _row("content-length of 2^60", _length_is_huge, "reset", "malformed"),
    _row("endless drip", _endless_drip, "timeout", is_mute=True),
    _row("flood of tiny chunks", _tiny_chunks, "timeout", "malformed", is_mute=True),
    _row("compressed bomb", _packed_bomb, "ok", "malformed"),
    _row("interim replies without end", _interim(150), "malformed"),
    _row("chunk size is not a number", _chunk_size_is_not_a_number, "malformed"),
    _row("chunk longer than it says", _chunk_too_long, "malformed"),
    _row("chunk of 2^68 bytes", _chunk_is_huge, "malformed"),
    _row("chunks end early", _chunks_end_early, "reset"),
    _row("chunked with a length", _chunked_and_sized),
    _row("two content-lengths", _two_lengths, "malformed"),
    _row("content-length is not a number", _length_is_not_a_number, "malformed"),
    _row("HTTP/1.0", _old_version),
    _row("reply until close", _until_close),
    _row("one interim reply", _interim(1)),
    _row("many interim replies", _interim(60)),
    _row("status 101", _switch, "malformed"),
    _row("garbage", _garbage, "malformed"),
    _row("TLS alert", _tls_alert, "malformed"),
    _row("HTTP/2 greeting", _http2_greeting, "malformed"),
    _row("wrong status line", _wrong_status_line, "malformed"),
    _row("wrong header line", _wrong_header_line, "malformed"),
    _row("many headers", _many_headers),
    _row("endless head", _endless_head, "malformed"),
    _row("bare newlines", _bare_newlines),
    _row("folded header", _folded_header),
    *(_row(f"status {code}", _status(code), f"http {code}") for code in STATUSES),
    _row("status 204", _status(204, b""), "ok", "malformed"),  # a call may require a document
    _row("status 304", _status(304, b""), "http 304"),
    _row("status 500 with markup", _status(500, MARKUP), "http 500"),
    _row("status 503 without a body", _status(503, b""), "http 503"),
    _row("status 500 with a large body", _status(500, b"x" * 300_000), "http 500"),
)


# --- of a whole connection


async def _greet_with_close(wire: Wire) -> None:
    wire.close()


async def _greet_with_reset(wire: Wire) -> None:
    wire.reset()


async def _greet_with_garbage(wire: Wire) -> None:
    wire.poison("malformed", "reset")
    wire.send(b"\x07\x07 welcome")


async def _greet_with_reply(wire: Wire) -> None:
    """Send an unsolicited answer, like an overloaded server."""
    wire.excuse("http 503")
    wire.send(status_reply(503).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
    wire.close()


GREETINGS = {
    "connect: close": _greet_with_close,
    "connect: reset": _greet_with_reset,
    "connect: garbage": _greet_with_garbage,
    "connect: reply": _greet_with_reply,
}
