"""Faults of gRPC calls and their HTTP/2 connections, with the outcomes that a client must report."""

import asyncio
import struct
import zlib
from functools import cache

from hpack import Encoder
from tritonclient.grpc import service_pb2

from inferometer.base.status import GRPC_CODES
from inferometer.services.traffic import REPLY_LIMIT
from tests.support.grpc_servers import error_response, response
from tests.torture.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    LARGEST,
    MAX_CONCURRENT_STREAMS,
    MAX_FRAME_SIZE,
    PADDED,
    PING,
    PRIORITY,
    PUSH_PROMISE,
    SETTINGS,
    block,
    frame,
    goaway,
    message,
    rst_stream,
    settings,
    window_update,
)
from tests.torture.http1_faults import MARKUP
from tests.torture.http2_wire import GRPC_HEAD, Act, Call, GrpcFault, Http2Wire

GOOD = (("grpc-status", "0"),)
PLENTY = 1000  # streams
DRIPS = 50  # longer than the time limits of requests
RESETS = (0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 255)  # error codes, except for REFUSED_STREAM


def _then_answer(*sent: bytes) -> Act:
    """Send these bytes, then the usual answer."""

    async def act(wire: Http2Wire, call: Call) -> None:
        wire.send(b"".join(sent))
        wire.answer(call)

    return act


def _only(*sent: bytes) -> Act:
    async def act(wire: Http2Wire, call: Call) -> None:
        wire.send(b"".join(sent))

    return act


# --- time


async def _delay(wire: Http2Wire, call: Call) -> None:
    await asyncio.sleep(0.005 + wire.random.random() * 0.05)
    wire.answer(call)


async def _never(wire: Http2Wire, call: Call) -> None:
    pass


async def _head_then_silence(wire: Http2Wire, call: Call) -> None:
    wire.send(wire.head(call))


async def _half_then_silence(wire: Http2Wire, call: Call) -> None:
    wire.send(wire.head(call) + wire.data(call, message(call.usual)[:7]))
    wire.trailers(call)  # nothing can follow on this stream


async def _bytes(wire: Http2Wire, call: Call) -> None:
    """Send the reply in packets of a few bytes, with nothing in between."""
    text = wire.usual(call)
    for at in range(len(text)):
        wire.send(text[at : at + 1])
    wire.answered(call)


# --- statuses


def _status(code: str, *more: tuple[str, str]) -> Act:
    async def act(wire: Http2Wire, call: Call) -> None:
        wire.send(wire.head(call) + wire.trailers(call, ("grpc-status", code), *more))

    return act


def _refuse(code: str) -> Act:
    """Refuse in the head of the reply, which has no other content."""

    async def act(wire: Http2Wire, call: Call) -> None:
        head = () if wire.has_head(call) else GRPC_HEAD
        wire.send(wire.trailers(call, *head, ("grpc-status", code), ("grpc-message", "planted")))

    return act


async def _status_after_message(wire: Http2Wire, call: Call) -> None:
    text = wire.head(call) + wire.data(call, message(call.usual)) + wire.trailers(call, ("grpc-status", "14"))
    wire.send(text)
    if call.is_stream:  # the message ended the request
        call.ends("ok")


async def _no_status(wire: Http2Wire, call: Call) -> None:
    wire.send(wire.head(call) + wire.trailers(call, ("x", "y")))


async def _no_trailers(wire: Http2Wire, call: Call) -> None:
    wire.send(wire.head(call) + wire.data(call, message(call.usual), END_STREAM))
    wire.trailers(call)
    if call.is_stream:
        call.ends("ok")


async def _no_message(wire: Http2Wire, call: Call) -> None:
    wire.send(wire.head(call) + wire.trailers(call, *GOOD))


async def _two_messages(wire: Http2Wire, call: Call) -> None:
    wire.send(wire.head(call) + wire.data(call, message(call.usual) * 2))
    if call.is_stream:
        call.ends("ok")
        wire.answered(call)
    else:
        wire.send(wire.trailers(call, *GOOD))


def _http(status: int, kind: str = "text/html", body: bytes = b"<html>planted</html>") -> Act:
    """Send the reply of a proxy that does not support gRPC."""

    async def act(wire: Http2Wire, call: Call) -> None:
        if wire.has_head(call):
            call.ends("malformed")  # a second head
        head = block((":status", str(status)), ("content-type", kind))
        wire.head(call)
        wire.trailers(call)
        wire.send(frame(HEADERS, END_HEADERS, call.stream, head) + wire.data(call, body, END_STREAM))

    return act


# --- the connection


def _reset_stream(code: int) -> Act:
    async def act(wire: Http2Wire, call: Call) -> None:
        wire.trailers(call)
        wire.send(rst_stream(call.stream, code))

    return act


async def _reset_in_message(wire: Http2Wire, call: Call) -> None:
    wire.send(wire.head(call) + wire.data(call, message(call.usual)[:7]) + rst_stream(call.stream, 2))
    wire.trailers(call)


async def _reset_after_reply(wire: Http2Wire, call: Call) -> None:
    if call.is_stream:
        wire.send(wire.usual(call) + wire.trailers(call, *GOOD) + rst_stream(call.stream, 0))
    else:
        wire.send(wire.usual(call) + rst_stream(call.stream, 0))
    wire.answered(call)


async def _close(wire: Http2Wire, call: Call) -> None:
    wire.close()


async def _reset(wire: Http2Wire, call: Call) -> None:
    wire.reset()


async def _close_in_frame(wire: Http2Wire, call: Call) -> None:
    wire.send(wire.usual(call)[: wire.random.randrange(1, 20)])
    wire.close()


async def _goaway_below(wire: Http2Wire, call: Call) -> None:
    wire.go_away(max(0, call.stream - 2))


async def _goaway_at(wire: Http2Wire, call: Call) -> None:
    wire.go_away(call.stream)
    wire.answer(call)


async def _goaway_above(wire: Http2Wire, call: Call) -> None:
    wire.go_away(LARGEST)
    await asyncio.sleep(0.002)
    wire.answer(call)


async def _goaway_twice(wire: Http2Wire, call: Call) -> None:
    """Send GOAWAY twice, like servers that shut down gracefully."""
    wire.go_away(LARGEST, 0, b"soon")
    await asyncio.sleep(0.002)
    wire.go_away(call.stream, 0, b"now")
    wire.answer(call)


async def _goaway_rising(wire: Http2Wire, call: Call) -> None:
    """Send a second GOAWAY that violates the protocol, when no call is left."""
    wire.go_away(0)
    wire.send(goaway(LARGEST))


async def _goaway_and_close(wire: Http2Wire, call: Call) -> None:
    wire.send(goaway(wire.last, 11, b"too_many_pings"))
    wire.close()


def _settings_for_a_while(name: int, value: int, back: int) -> Act:
    async def act(wire: Http2Wire, call: Call) -> None:
        wire.send(settings((name, value)))
        wire.answer(call)
        await asyncio.sleep(0.02 + wire.random.random() * 0.03)
        wire.send(settings((name, back)))

    return act


async def _stream_window_overflow(wire: Http2Wire, call: Call) -> None:
    wire.send(window_update(call.stream, LARGEST))
    wire.trailers(call)


async def _stream_window_nothing(wire: Http2Wire, call: Call) -> None:
    wire.send(window_update(call.stream, 0))
    wire.trailers(call)


async def _pings(wire: Http2Wire, call: Call) -> None:
    wire.send(frame(PING, 0, 0, b"torture!") * 200)
    wire.answer(call)


def _after_end(*kinds: int) -> Act:
    """Send frames for a stream that has ended."""

    async def act(wire: Http2Wire, call: Call) -> None:
        text = wire.usual(call) + (wire.trailers(call, *GOOD) if call.is_stream else b"")
        wire.send(text + b"".join(frame(kind, 0, call.stream, b"late!") for kind in kinds))
        wire.answered(call)

    return act


# --- header blocks


async def _split_blocks(wire: Http2Wire, call: Call) -> None:
    """Split head and trailers into many frames."""
    text = b""
    if not wire.has_head(call):
        wire.head(call)
        text += _pieces(wire, call.stream, block(*GRPC_HEAD), 0)
    text += wire.data(call, message(call.usual))
    if not call.is_stream:
        wire.trailers(call)
        text += _pieces(wire, call.stream, block(*GOOD, ("grpc-message", "")), END_STREAM)
    wire.send(text)
    wire.answered(call)


def _pieces(wire: Http2Wire, stream: int, raw: bytes, flags: int) -> bytes:
    cuts = sorted(wire.random.randrange(0, len(raw) + 1) for _ in range(4))
    parts = [raw[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    frames = [frame(HEADERS, flags, stream, parts[0])]
    frames += [frame(CONTINUATION, 0, stream, part) for part in parts[1:-1]]
    return b"".join(frames) + frame(CONTINUATION, END_HEADERS, stream, parts[-1])


async def _padded(wire: Http2Wire, call: Call) -> None:
    size = wire.random.randrange(0, 200)
    text = b""
    if not wire.has_head(call):
        wire.head(call)
        padded = bytes([size]) + block(*GRPC_HEAD) + bytes(size)
        text = frame(HEADERS, END_HEADERS | PADDED, call.stream, padded)
    text += frame(DATA, PADDED, call.stream, bytes([size]) + message(call.usual) + bytes(size))
    wire.send(text if call.is_stream else text + wire.trailers(call, *GOOD))
    wire.answered(call)


async def _padding_too_long(wire: Http2Wire, call: Call) -> None:
    wire.send(wire.head(call) + frame(DATA, PADDED, call.stream, b"\xffshort"))


async def _huffman(wire: Http2Wire, call: Call) -> None:
    """Encode blocks with a standard encoder, without a table because the client has none."""
    encoder = Encoder()
    encoder.header_table_size = 0
    text = b""
    if not wire.has_head(call):
        wire.head(call)
        text = frame(HEADERS, END_HEADERS, call.stream, encoder.encode(GRPC_HEAD, huffman=True))
    text += wire.data(call, message(call.usual))
    if not call.is_stream:
        wire.trailers(call)
        text += frame(HEADERS, END_HEADERS | END_STREAM, call.stream, encoder.encode(GOOD, huffman=True))
    wire.send(text)
    wire.answered(call)


def _interim(count: int) -> Act:
    async def act(wire: Http2Wire, call: Call) -> None:
        if not wire.has_head(call):
            wire.send(
                frame(HEADERS, END_HEADERS, call.stream, block((":status", "103"), ("link", "</a>"))) * count
            )
        wire.answer(call)

    return act


def _head_of(*pairs: tuple[str, str]) -> Act:
    """Send a wrong head, then the usual rest."""

    async def act(wire: Http2Wire, call: Call) -> None:
        wire.head(call)
        wire.send(
            frame(HEADERS, END_HEADERS, call.stream, block(*pairs))
            + wire.data(call, message(call.usual))
            + wire.trailers(call, *GOOD)
        )

    return act


async def _second_head(wire: Http2Wire, call: Call) -> None:
    wire.send(wire.head(call) + frame(HEADERS, END_HEADERS, call.stream, block(*GRPC_HEAD)))
    wire.trailers(call)


async def _body_before_head(wire: Http2Wire, call: Call) -> None:
    if wire.has_head(call):
        call.ends("ok")
        wire.answer(call)
        return
    wire.send(wire.data(call, message(call.usual)))
    wire.trailers(call)


async def _wrong_content_length(wire: Http2Wire, call: Call) -> None:
    if call.is_stream or wire.has_head(call):
        call.ends("ok")
        wire.answer(call)
        return
    wire.send(
        wire.head(call, ("content-length", "3"))
        + wire.data(call, message(call.usual))
        + wire.trailers(call, *GOOD)
    )


async def _trailers_go_on(wire: Http2Wire, call: Call) -> None:
    wire.send(wire.head(call) + frame(HEADERS, END_HEADERS, call.stream, block(*GOOD)))
    wire.trailers(call)


# --- messages


async def _every_byte_a_frame(wire: Http2Wire, call: Call) -> None:
    text = wire.head(call)
    text += b"".join(wire.data(call, bytes([byte])) for byte in message(call.usual))
    wire.send(text if call.is_stream else text + wire.trailers(call, *GOOD))
    wire.answered(call)


async def _empty_frames(wire: Http2Wire, call: Call) -> None:
    empty = wire.data(call, b"") * 5
    text = wire.head(call) + empty + wire.data(call, message(call.usual)) + empty
    wire.send(text if call.is_stream else text + wire.trailers(call, *GOOD))
    wire.answered(call)


async def _message_too_short(wire: Http2Wire, call: Call) -> None:
    longer = struct.pack(">BL", 0, len(call.usual) + 10) + call.usual
    wire.send(wire.head(call) + wire.data(call, longer) + wire.trailers(call, *GOOD))


def _message_of(data: bytes) -> Act:
    async def act(wire: Http2Wire, call: Call) -> None:
        wire.send(wire.head(call) + wire.data(call, data) + wire.trailers(call, *GOOD))

    return act


def _gzip(*, is_right: bool) -> Act:
    async def act(wire: Http2Wire, call: Call) -> None:
        if wire.has_head(call):
            call.ends("ok")
            wire.answer(call)
            return
        packer = zlib.compressobj(wbits=31)
        packed = packer.compress(call.usual) + packer.flush()
        text = wire.head(call, ("grpc-encoding", "gzip"))
        text += wire.data(call, message(packed if is_right else packed[:-3] + b"!!!", flag=1))
        wire.send(text if call.is_stream else text + wire.trailers(call, *GOOD))
        if is_right:
            wire.answered(call)

    return act


@cache
def _bomb(wbits: int) -> bytes:
    """Send a message that decompresses to more than the size limit of replies."""
    packer = zlib.compressobj(wbits=wbits)
    return packer.compress(bytes(REPLY_LIMIT + 1)) + packer.flush()


def _packed_bomb(name: str, wbits: int) -> Act:
    async def act(wire: Http2Wire, call: Call) -> None:
        if wire.has_head(call):
            call.ends("ok")
            wire.answer(call)
            return
        text, packed = wire.head(call, ("grpc-encoding", name)), message(_bomb(wbits), flag=1)
        text += b"".join(wire.data(call, packed[at : at + 16384]) for at in range(0, len(packed), 16384))
        wire.send(text if call.is_stream else text + wire.trailers(call, *GOOD))

    return act


def _flood(count: int) -> Act:
    """Send empty DATA frames around the message."""

    async def act(wire: Http2Wire, call: Call) -> None:
        text = wire.head(call) + wire.data(call, b"") * count + wire.data(call, message(call.usual))
        wire.send(text if call.is_stream else text + wire.trailers(call, *GOOD))
        wire.answered(call)

    return act


async def _drip(wire: Http2Wire, call: Call) -> None:
    """Send a byte of the message now and then, until the client gives up."""
    text = wire.head(call) + wire.data(call, struct.pack(">BL", 0, 1 << 20))
    wire.trailers(call)  # nothing can follow on this stream
    for _ in range(DRIPS):
        wire.send(text)
        await asyncio.sleep(0.02)
        text = frame(DATA, 0, call.stream, b"x")


async def _large_message(wire: Http2Wire, call: Call) -> None:
    """Send the message in frames of 16 KiB, after an unknown field of 300 kB."""
    padding = b"\xfa\x7f" + b"\xe0\xa7\x12" + bytes(300_000)  # field 2047, length 300,000
    text = message(call.usual + padding) if not call.is_stream else message(call.usual)
    frames = [wire.data(call, text[at : at + 16384]) for at in range(0, len(text), 16384)]
    wire.send(wire.head(call) + b"".join(frames) + (b"" if call.is_stream else wire.trailers(call, *GOOD)))
    wire.answered(call)


# --- greetings of a connection


async def greet_with_http1(wire: Http2Wire) -> None:
    wire.ruin()
    wire.greeting(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


async def greet_late(wire: Http2Wire) -> None:
    await asyncio.sleep(0.02)
    wire.greeting(settings((MAX_CONCURRENT_STREAMS, 2)))
    await asyncio.sleep(0.02)
    wire.send(settings((MAX_CONCURRENT_STREAMS, PLENTY)))


async def greet_and_go_away(wire: Http2Wire) -> None:
    wire.greeting(settings())
    wire.go_away(0)


async def greet_and_close(wire: Http2Wire) -> None:
    wire.close()


async def greet_with_tls_alert(wire: Http2Wire) -> None:
    wire.ruin()
    wire.greeting(b"\x15\x03\x01\x00\x02\x02\x28\x00\x00\x00\x00\x00")


def _row(
    name: str,
    act: Act,
    *kinds: str,
    may_repeat: bool = False,
    is_mute: bool = False,
    breaks: bool = False,
    loses: bool = False,
) -> GrpcFault:
    if breaks and not kinds:
        kinds = ("malformed",)
    if loses and not kinds:
        kinds = ("reset",)
    return GrpcFault(f"gRPC: {name}", act, frozenset(kinds), may_repeat, is_mute, breaks, loses)


_UNAVAILABLE = ("grpc-message", "planted%20%E2%82%AC%")

FAULTS: tuple[GrpcFault, ...] = (
    _row("delay", _delay),
    _row("no answer", _never, "timeout", is_mute=True),
    _row("a head, then silence", _head_then_silence, "timeout", is_mute=True),
    _row("half a message, then silence", _half_then_silence, "timeout", is_mute=True),
    _row("byte by byte", _bytes),
    *(_row(f"status {code}", _status(str(code)), f"grpc {GRPC_CODES[code]}") for code in range(1, 17)),
    *(_row(f"refused with {code}", _refuse(str(code)), f"grpc {GRPC_CODES[code]}") for code in (1, 3, 8, 13, 14)),
    _row("status with a message", _status("14", _UNAVAILABLE), "grpc UNAVAILABLE"),
    _row("status with markup", _status("3", ("grpc-message", MARKUP.decode("latin-1").replace("\r\n", " "))),
         "grpc INVALID_ARGUMENT", "malformed"),
    _row("status 17", _status("17"), "grpc UNKNOWN"),
    _row("status of 40 digits", _status("9" * 40), "malformed"),
    _row("status is not a number", _status("good"), "malformed"),
    _row("status is empty", _status(""), "malformed"),
    _row("status after the message", _status_after_message, "grpc UNAVAILABLE"),
    _row("no status", _no_status, "malformed"),
    _row("no trailers", _no_trailers, "malformed"),
    _row("no message", _no_message, "malformed"),
    _row("two messages", _two_messages, "malformed"),
    _row("HTTP 400", _http(400), "grpc INTERNAL"),
    _row("HTTP 401", _http(401), "grpc UNAUTHENTICATED"),
    _row("HTTP 403", _http(403), "grpc PERMISSION_DENIED"),
    _row("HTTP 404", _http(404), "grpc UNIMPLEMENTED"),
    _row("HTTP 429", _http(429), "grpc UNAVAILABLE"),
    _row("HTTP 500", _http(500), "grpc UNKNOWN"),
    _row("HTTP 503", _http(503, body=MARKUP * 100), "grpc UNAVAILABLE"),
    _row("HTTP 302", _http(302), "grpc UNKNOWN"),
    _row("HTTP 200 with a page", _http(200), "grpc UNKNOWN"),
    *(_row(f"RST_STREAM {code}", _reset_stream(code), "reset") for code in RESETS),
    _row("RST_STREAM REFUSED", _reset_stream(7), "reset", may_repeat=True),
    _row("RST_STREAM in the message", _reset_in_message, "reset"),
    _row("RST_STREAM after the reply", _reset_after_reply),
    _row("close", _close, loses=True),
    _row("reset", _reset, loses=True),
    _row("close in a frame", _close_in_frame, loses=True),
    _row("GOAWAY below", _goaway_below, "reset", may_repeat=True),
    _row("GOAWAY at", _goaway_at),
    _row("GOAWAY above", _goaway_above),
    _row("GOAWAY twice", _goaway_twice),
    _row("GOAWAY and close", _goaway_and_close, loses=True),
    _row("GOAWAY twice, rising", _goaway_rising, "reset", may_repeat=True),
    _row("no streams for a while", _settings_for_a_while(MAX_CONCURRENT_STREAMS, 0, PLENTY)),
    _row("one stream for a while", _settings_for_a_while(MAX_CONCURRENT_STREAMS, 1, PLENTY)),
    _row("no window for a while", _settings_for_a_while(INITIAL_WINDOW_SIZE, 0, 65535)),
    _row("window of 1 for a while", _settings_for_a_while(INITIAL_WINDOW_SIZE, 1, 65535)),
    _row("largest window for a while", _settings_for_a_while(INITIAL_WINDOW_SIZE, LARGEST, 65535)),
    _row("largest frames for a while", _settings_for_a_while(MAX_FRAME_SIZE, 2**24 - 1, 16384)),
    _row("window above the limit", _only(settings((INITIAL_WINDOW_SIZE, 2**31))), breaks=True),
    _row("frame size below the limit", _only(settings((MAX_FRAME_SIZE, 100))), breaks=True),
    _row("unknown settings", _then_answer(settings((0x99, 7), (0xFFFF, 2**32 - 1)))),
    _row("settings of 5 bytes", _only(frame(SETTINGS, 0, 0, b"12345")), breaks=True),
    _row("settings on a stream", _only(frame(SETTINGS, 0, 1)), breaks=True),
    _row("settings flood", _then_answer(settings((MAX_CONCURRENT_STREAMS, PLENTY)) * 300)),
    _row("acknowledgement of nothing", _then_answer(frame(SETTINGS, ACK, 0))),
    _row("pings", _pings),
    _row("ping of 7 bytes", _only(frame(PING, 0, 0, b"1234567")), breaks=True),
    _row("ping on a stream", _only(frame(PING, 0, 1, b"12345678")), breaks=True),
    _row("window update of 0", _only(window_update(0, 0)), breaks=True),
    _row("window overflow", _only(window_update(0, LARGEST)), breaks=True),
    _row("window update of 3 bytes", _only(frame(8, 0, 0, b"123")), breaks=True),
    _row("window update of an idle stream", _only(window_update(99_999, 1)), breaks=True),
    _row("stream window overflow", _stream_window_overflow, "malformed"),
    _row("stream window update of 0", _stream_window_nothing, "malformed"),
    _row("DATA on stream 0", _only(frame(DATA, 0, 0, b"x")), breaks=True),
    _row("DATA on an idle stream", _only(frame(DATA, 0, 99_999, b"x")), breaks=True),
    _row("HEADERS on an even stream", _only(frame(HEADERS, END_HEADERS, 2, block(*GRPC_HEAD))), breaks=True),
    _row("HEADERS on an idle stream", _only(frame(HEADERS, END_HEADERS, 99_999, block(*GRPC_HEAD))), breaks=True),
    _row("DATA after the end", _after_end(DATA), "ok", breaks=True),
    _row("PUSH_PROMISE", _only(frame(PUSH_PROMISE, END_HEADERS, 1, struct.pack(">L", 2))), breaks=True),
    _row("RST_STREAM of an idle stream", _only(rst_stream(99_999, 8)), breaks=True),
    _row("CONTINUATION alone", _only(frame(CONTINUATION, END_HEADERS, 1, b"")), breaks=True),
    _row("CONTINUATION flood", _only(frame(HEADERS, 0, 1, b""), frame(CONTINUATION, 0, 1, b"") * 200), breaks=True),
    _row("a frame inside a block", _only(frame(HEADERS, 0, 1, b""), frame(PING, 0, 0, b"12345678")), breaks=True),
    _row("invalid HPACK block", _only(frame(HEADERS, END_HEADERS, 1, b"\xff" * 12)), breaks=True),
    _row("frame of 2 MB", _only(frame(DATA, 0, 1, bytes(2**21))), breaks=True),
    _row("no frames", _only(b"HTTP/1.1 500 Oops\r\n\r\n"), breaks=True),
    _row("PRIORITY on stream 0", _only(frame(PRIORITY, 0, 0, bytes(5))), breaks=True),
    _row("PRIORITY", _then_answer(frame(PRIORITY, 0, 1, bytes(5)), frame(PRIORITY, 0, 999, bytes(5)))),
    _row("unknown frames", _then_answer(frame(0xA, 0, 0, b"altsvc"), frame(0xEE, 255, 77, bytes(100)))),
    _row("blocks in many frames", _split_blocks),
    _row("padding", _padded),
    _row("padding too long", _padding_too_long, breaks=True),
    _row("Huffman blocks", _huffman),
    _row("one interim reply", _interim(1)),
    _row("many interim replies", _interim(50)),
    _row("no status in the head", _head_of(("content-type", "application/grpc")), "malformed"),
    _row("upper-case header", _head_of(*GRPC_HEAD, ("X-Upper", "1")), "malformed"),
    _row("connection header", _head_of(*GRPC_HEAD, ("connection", "close")), "malformed"),
    _row("status behind a header", _head_of(("a", "b"), (":status", "200")), "malformed"),
    _row("unknown pseudo-header", _head_of(*GRPC_HEAD[:1], (":strange", "1"), *GRPC_HEAD[1:]), "malformed"),
    _row("second head", _second_head, "malformed"),
    _row("body before the head", _body_before_head, "malformed"),
    _row("wrong content-length", _wrong_content_length, "malformed"),
    _row("trailers that go on", _trailers_go_on, "malformed"),
    _row("every byte a frame", _every_byte_a_frame),
    _row("empty frames", _empty_frames),
    _row("message shorter than it says", _message_too_short, "malformed"),
    _row("message of 4 GB", _message_of(b"\0\xff\xff\xff\xffabc"), "malformed"),
    _row("compressed without an encoding", _message_of(b"\1\0\0\0\3abc"), "malformed"),
    _row("compression flag 7", _message_of(b"\7\0\0\0\3abc"), "malformed"),
    _row("half a prefix", _message_of(b"\0\0"), "malformed"),
    _row("gzip", _gzip(is_right=True)),
    _row("invalid gzip", _gzip(is_right=False), "ok", "malformed"),
    _row("gzip bomb", _packed_bomb("gzip", 31), "ok", "malformed"),
    _row("deflate bomb", _packed_bomb("deflate", 15), "ok", "malformed"),
    _row("flood of empty frames", _flood(10_000)),
    _row("flood of PINGs", _then_answer(frame(PING, 0, 0, b"torture!") * 5_000)),
    _row("flood of SETTINGS", _then_answer(settings((INITIAL_WINDOW_SIZE, 65_535)) * 2_000)),
    _row("flood of unknown frames", _then_answer(frame(0x77, 0, 0, b"x") * 10_000)),
    _row("large message", _large_message),
)  # fmt: skip


# --- only of unary calls, and only of streams


async def _garbage_message(wire: Http2Wire, call: Call) -> None:
    wire.send(wire.head(call) + wire.data(call, message(b"\xff\xff\xff\xff\x07nonsense")))
    if not call.is_stream:
        wire.send(wire.trailers(call, *GOOD))


UNARY_FAULTS: tuple[GrpcFault, ...] = (
    _row("drip of a message", _drip, "timeout", is_mute=True),
    _row(
        "a length of 2 GiB and few bytes", _message_of(struct.pack(">BL", 0, 2**31 - 1) + b"x"), "malformed"
    ),
    _row("interim replies without end", _interim(150), "malformed"),
    _row("message that is not protobuf", _garbage_message, "ok", "mismatch", "malformed"),
    _row("empty message", _message_of(b"\0\0\0\0\0"), "ok", "mismatch"),
)


def _id(call: Call) -> str:
    return str(service_pb2.ModelInferRequest.FromString(call.data).id)


async def _error_response(wire: Http2Wire, call: Call) -> None:
    wire.send(wire.head(call) + wire.data(call, message(error_response(_id(call), "planted"))))


async def _error_without_id(wire: Http2Wire, call: Call) -> None:
    wire.send(wire.head(call) + wire.data(call, message(error_response("", "planted"))))


async def _response_of_another(wire: Http2Wire, call: Call) -> None:
    """Send the response of an earlier request on the same stream."""
    earlier = wire.ids.setdefault(call.stream, _id(call))
    if earlier != _id(call):
        wire.send(wire.head(call) + wire.data(call, message(response(earlier))))
    wire.answer(call)


def _strange_id(name: str) -> Act:
    async def act(wire: Http2Wire, call: Call) -> None:
        wire.send(wire.head(call) + wire.data(call, message(response(name))))
        wire.trailers(call)  # the client abandons the stream

    return act


async def _responses_after_the_final_one(wire: Http2Wire, call: Call) -> None:
    wire.answer(call)
    wire.send(wire.data(call, message(response(_id(call)))) * 3)


async def _several_responses(wire: Http2Wire, call: Call) -> None:
    several = message(response(_id(call), is_final=False)) * 4
    last = message(response(_id(call), has_data=False, is_final=True))
    wire.send(wire.head(call) + wire.data(call, several + last))
    wire.answered(call)


async def _no_flag(wire: Http2Wire, call: Call) -> None:
    wire.send(wire.head(call) + wire.data(call, message(response(_id(call), is_final=None))))
    wire.answered(call)


async def _empty_response(wire: Http2Wire, call: Call) -> None:
    wire.send(wire.head(call) + wire.data(call, message(response(_id(call), has_data=False))))
    wire.answered(call)


STREAM_FAULTS: tuple[GrpcFault, ...] = (
    _row("message that is not protobuf", _garbage_message, "malformed"),
    _row("error on the stream", _error_response, "grpc UNKNOWN"),
    _row("error without an id", _error_without_id, "grpc UNKNOWN"),
    _row("response of another request", _response_of_another),
    _row("response of no request", _strange_id("of nobody"), "malformed"),
    _row("response with an id of 5,000 digits", _strange_id("9" * 5000), "malformed"),
    _row("responses after the final one", _responses_after_the_final_one),
    _row("several responses", _several_responses),
    _row("no final flag", _no_flag),
    _row("response without data", _empty_response),
)

# --- of a whole connection

GREETINGS = {
    "connect: HTTP/1.1": greet_with_http1,
    "connect: late settings": greet_late,
    "connect: GOAWAY": greet_and_go_away,
    "connect: close": greet_and_close,
    "connect: TLS alert": greet_with_tls_alert,
}
