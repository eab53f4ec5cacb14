"""Wire readers: linear in their input, however it is split, and bounded in memory.

Time on a shared machine says little, so a reader gets n and 8n bytes, and the CPU time may grow by three times as
much as the input; that of a quadratic reader grows by far more. tracemalloc measures the memory of a reader.
"""

import struct
import time
import tracemalloc
import zlib
from collections.abc import Callable

import pytest

from inferometer.base.errors import PeerError
from inferometer.services import text_reply
from inferometer.services.apis import BY_NAME
from inferometer.services.text_reply import TextReader
from inferometer.wire import grpc
from inferometer.wire.frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    PING,
    SETTINGS,
    frame,
    settings,
)
from inferometer.wire.grpc import GrpcConnection, encode_headers, render_call
from inferometer.wire.headers import encode_block
from inferometer.wire.http1 import LENGTH_LIMIT, Head, ReplyDecoder
from inferometer.wire.sse import EVENT_LIMIT, SseDecoder

MANY = 8  # times the input
LINEAR = 3 * MANY  # maximum growth of the CPU time
ATTEMPTS = 5

STREAM = Head(200, "OK", (("content-type", "text/event-stream"),), -1, True)
LINES = Head(200, "OK", (("content-type", "application/x-ndjson"),), STREAM.length, True)
LINE = b'{"message": {"role": "assistant", "content": "word"}, "done": false}\n'
ROLE = b'data: {"choices":[{"delta":{"role":"assistant"}}]}\n\n'
WORD = b'data: {"choices":[{"delta":{"content":"one"}}]}\n\n'
OTHER = b'data: {"id":1,"choices":[{"delta":{"content":"one"}}]}\n\n'
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
GRPC_HEAD = frame(
    HEADERS, END_HEADERS, 1, encode_block([(":status", "200"), ("content-type", "application/grpc")])
)
LONG_MESSAGE = GRPC_HEAD + frame(DATA, 0, 1, b"\0\0\xff\xff\xff")  # its beginning
GZIP_HEAD = frame(
    HEADERS,
    END_HEADERS,
    1,
    encode_block([(":status", "200"), ("content-type", "application/grpc"), ("grpc-encoding", "gzip")]),
)


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def read_sse(parts: list[bytes]) -> None:
    decoder = SseDecoder()
    for part in parts:
        decoder.receive(part)


def read_openai(parts: list[bytes], *, keeps: bool = False) -> None:
    body = TextReader(keeps_texts=keeps, keeps_message=keeps).start(STREAM)
    for part in parts:
        body.receive(part, 1)


def read_lines(parts: list[bytes]) -> None:
    body = TextReader(form=BY_NAME["ollama"].form).start(LINES)
    for part in parts:
        body.receive(part, 1)


def read_http1(parts: list[bytes], *, keep: bool = False, limit: int = LENGTH_LIMIT) -> None:
    decoder = ReplyDecoder(keep=keep, limit=limit)
    for part in parts:
        decoder.receive(part, len(part))


def read_grpc(parts: list[bytes], *, keep: bool = False) -> None:
    connection = GrpcConnection()
    block = encode_headers(path="/a.B/C", authority="host")
    for _ in range(8):
        connection.open(None, render_call(block, b""), keep=keep)
    connection.receive(settings({}), len(settings({})))
    for part in parts:
        connection.receive(part, len(part))
        connection.take()
    assert connection.http2.broken is None


def keep_http1(parts: list[bytes]) -> None:
    read_http1(parts, keep=True)


def keep_openai(parts: list[bytes]) -> None:
    read_openai(parts, keeps=True)


def keep_grpc(parts: list[bytes]) -> None:
    read_grpc(parts, keep=True)


Read = Callable[[list[bytes]], object]
READERS: list[tuple[str, Read, bytes, bytes, int, int]] = [
    # name, reader, beginning, repeated part, bytes of it, size of a read
    ("blank lines", read_openai, b"", b"\n", 16_000, 1 << 20),
    ("blank lines, as CRLF", read_openai, b"", b"\r\n", 16_000, 1 << 20),
    ("blank lines after a response", read_openai, WORD, b"\n", 16_000, 1 << 20),
    ("comments", read_openai, b"", b":\n\n", 16_000, 1 << 20),
    ("responses alike", read_openai, ROLE + WORD, WORD, 100_000, 1 << 22),
    ("responses unlike", read_openai, ROLE, OTHER + WORD, 20_000, 1 << 22),
    ("responses that are kept", keep_openai, ROLE, WORD, 20_000, 1 << 22),
    ("responses byte by byte", read_openai, ROLE, WORD, 5_000, 1),
    ("an endless line byte by byte", read_sse, b"data: ", b"x", 20_000, 1),
    ("an endless event", read_sse, b"", b"data: x\n", 20_000, 100),
    ("lines alike", read_lines, b"", LINE, 100_000, 1 << 22),
    ("lines byte by byte", read_lines, b"", LINE, 5_000, 1),
    ("blank lines of JSON", read_lines, LINE, b"\n", 16_000, 1 << 20),
    ("an endless line of JSON", read_lines, b"{", b"x", 20_000, 1),
    ("a head byte by byte", read_http1, b"HTTP/1.1 200 OK\r\n", b"A: b\r\n", 7_000, 1),
    ("a header byte by byte", read_http1, b"HTTP/1.1 200 OK\r\nA: ", b"b", 7_000, 1),
    ("a trailer byte by byte", read_http1, CHUNKED + b"0\r\nA: ", b"b", 7_000, 1),
    ("trailers", read_http1, CHUNKED + b"0\r\n", b"A: b\r\n", 7_000, 1),
    ("chunks of a byte", read_http1, CHUNKED, b"1\r\nx\r\n", 20_000, 1 << 20),
    ("chunks of a byte that are kept", keep_http1, CHUNKED, b"1\r\nx\r\n", 20_000, 1 << 20),
    ("chunk extensions", read_http1, CHUNKED, b"1;" + b"e" * 4000 + b"\r\nx\r\n", 40_000, 7),
    ("interim replies", read_http1, b"", b"HTTP/1.1 100 Continue\r\n\r\n", 300, 1),
    ("a body byte by byte", keep_http1, b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n", b"x", 20_000, 1),
    ("empty DATA frames", read_grpc, GRPC_HEAD, frame(DATA, 0, 1), 9_000, 1 << 20),
    ("DATA frames of a byte", keep_grpc, LONG_MESSAGE, frame(DATA, 0, 1, b"x"), 20_000, 1 << 20),
    ("empty messages", keep_grpc, GRPC_HEAD, frame(DATA, 0, 1, b"\0\0\0\0\0" * 20), 20_000, 1 << 20),
    ("a message byte by byte", keep_grpc, LONG_MESSAGE, frame(DATA, 0, 1, b"x" * 1000), 10_000, 1),
    ("PING frames", read_grpc, b"", frame(PING, 0, 0, b"torture!"), 17_000, 1 << 20),
    ("PING frames byte by byte", read_grpc, b"", frame(PING, 0, 0, b"torture!"), 5_000, 1),
    ("SETTINGS frames", read_grpc, b"", settings({INITIAL_WINDOW_SIZE: 5}), 15_000, 1 << 20),
    ("frames of an unknown kind", read_grpc, b"", frame(0x77, 0, 0, b"x"), 10_000, 1 << 20),
]  # fmt: skip


def cost_s(read: Read, parts: list[bytes]) -> float:
    began = time.process_time()
    read(parts)
    return time.process_time() - began


@pytest.mark.parametrize(
    ("read", "start", "unit", "size", "cut"),
    [row[1:] for row in READERS],
    ids=[row[0] for row in READERS],
)
def test_a_reader_is_linear(read: Read, start: bytes, unit: bytes, size: int, cut: int) -> None:
    few, many = (pieces(start + unit * (count * size // len(unit)), cut) for count in (1, MANY))
    read(few)  # warm the caches
    for _ in range(ATTEMPTS):
        once, often = min(cost_s(read, few) for _ in range(3)), cost_s(read, many)
        if often <= LINEAR * once:
            return
    assert often <= LINEAR * once


def test_settings_of_a_frame_are_applied_once_not_to_every_stream_each_time() -> None:
    pairs = b"".join(struct.pack(">HL", INITIAL_WINDOW_SIZE, value % 100) for value in range(100_000))
    connection = GrpcConnection()
    block = encode_headers(path="/a.B/C", authority="host")
    for _ in range(2000):
        connection.open(None, render_call(block, b""))
    flood = settings({}) + frame(SETTINGS, 0, 0, pairs)
    assert cost_s(lambda parts: connection.receive(parts[0], len(parts[0])), [flood]) < 10
    assert connection.http2.sender.initial_window == 99


# --- bounds


def peak(read: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        read()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def call(*, keep: bool, largest: int) -> GrpcConnection:
    connection = GrpcConnection(largest_kept=largest)
    connection.open(None, render_call(encode_headers(path="/a.B/C", authority="host"), b""), keep=keep)
    connection.receive(settings({}), len(settings({})))
    return connection


def bomb(wbits: int, size: int) -> bytes:
    packer = zlib.compressobj(wbits=wbits)
    return packer.compress(bytes(size)) + packer.flush()


@pytest.mark.parametrize("name", ["gzip", "deflate"])
@pytest.mark.parametrize("lie", [None, 100, 2**32 - 1], ids=["honest", "says 100", "says 2^32"])
@pytest.mark.parametrize("size", [2 << 20, 8 << 20])
def test_a_message_is_not_inflated_beyond_its_limit(name: str, lie: int | None, size: int) -> None:
    packed = bomb(31 if name == "gzip" else 15, size)
    if lie is not None:
        packed = packed[:-4] + struct.pack("<L", lie)
    head = encode_block([(":status", "200"), ("content-type", "application/grpc"), ("grpc-encoding", name)])
    body = struct.pack(">BL", 1, len(packed)) + packed
    flood = frame(HEADERS, END_HEADERS, 1, head)
    flood += b"".join(frame(DATA, 0, 1, body[at : at + 16384]) for at in range(0, len(body), 16384))
    connection = call(keep=True, largest=1 << 20)
    events = []
    assert peak(lambda: events.extend(connection.receive(flood, len(flood)))) < 4 << 20
    ((_, ending, _),) = events
    assert ending is not None
    assert ending.cause == grpc.MALFORMED
    assert "limit of 1048576" in ending.text or "decompress" in ending.text


def test_a_message_at_its_limit_is_inflated() -> None:
    packed = bomb(31, 1 << 20)
    flood = GZIP_HEAD + frame(DATA, 0, 1, struct.pack(">BL", 1, len(packed)) + packed)
    ((_, ending, message),) = call(keep=True, largest=1 << 20).receive(flood, len(flood))
    assert ending is None
    assert message == bytes(1 << 20)


@pytest.mark.parametrize("size", [1001, 2**31 - 1])
def test_a_message_that_announces_too_much_is_refused_at_its_prefix(size: int) -> None:
    flood = GRPC_HEAD + frame(DATA, 0, 1, struct.pack(">BL", 0, size) + b"x")
    ((_, ending, _),) = call(keep=True, largest=1000).receive(flood, len(flood))
    assert ending is not None
    assert "limit of 1000" in ending.text
    assert not call(keep=False, largest=1000).receive(flood, len(flood))  # only counted: needs no memory


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n" + b"x" * 1001,
        b"HTTP/1.1 200 OK\r\nContent-Length: 4611686018427387904\r\n\r\n",
        CHUNKED + b"3e9\r\n" + b"x" * 1001 + b"\r\n0\r\n\r\n",
        CHUNKED + b"1;x=y\r\nx\r\n" * 1001 + b"0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1001,
    ],
    ids=["length", "huge length", "a chunk", "many chunks", "until close"],
)
@pytest.mark.parametrize("cut", [1, 100, 1 << 20])
def test_a_body_that_is_kept_is_refused_beyond_its_limit(reply: bytes, cut: int) -> None:
    with pytest.raises(PeerError, match="the limit is 1000"):
        read_http1(pieces(reply, cut), keep=True, limit=1000)
    read_http1(pieces(reply, cut), limit=1000)


def test_a_body_at_its_limit_is_kept_completely() -> None:
    decoder = ReplyDecoder(keep=True, limit=1000)
    reply = CHUNKED + b"1\r\nx\r\n" * 1000 + b"0\r\n\r\n"
    assert decoder.receive(reply, len(reply))
    assert decoder.body == b"x" * 1000


def test_a_header_block_in_many_frames_is_refused_before_it_is_large() -> None:
    connection = call(keep=False, largest=1000)
    flood = frame(HEADERS, 0, 1) + frame(CONTINUATION, 0, 1) * 100_000
    assert peak(lambda: connection.receive(flood, len(flood))) < 1 << 20
    assert "64 frames" in str(connection.http2.broken) or "too long" in str(connection.http2.broken)


def test_a_line_of_an_event_stream_is_buffered_once() -> None:
    def feed() -> None:
        with pytest.raises(PeerError, match="longer than"):
            read_sse([b"x" * 4096] * (EVENT_LIMIT // 4096 + 2))

    assert peak(feed) < 3 * EVENT_LIMIT


def test_a_stream_of_more_responses_than_any_answer_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_reply, "MOST_RESPONSES", 1000)
    body = TextReader().start(STREAM)
    body.receive(ROLE + WORD * 900, 1)
    taken = sum(body.takes(WORD, 0, len(WORD), 2) for _ in range(200))
    assert taken == 100
    with pytest.raises(PeerError, match="more than 1000 responses"):
        body.receive(WORD, 3)


def test_kept_events_have_a_total_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_reply, "BODY_LIMIT", 10_000)
    with pytest.raises(PeerError, match="exceed 10000 bytes in total"):
        keep_openai([WORD] * 100)
    read_openai([WORD] * 100)


def test_large_heads_are_not_cached() -> None:
    def feed() -> None:
        for number in range(300):
            head = b"HTTP/1.1 200 %d\r\nContent-Length: 0\r\nX: %s\r\n\r\n" % (
                number,
                b"%d" % number * 15_000,
            )
            ReplyDecoder().receive(head, len(head))

    assert peak(feed) < 4 << 20
