"""gRPC on HTTP/2: requests, messages, endings."""

import gzip
import zlib
from typing import Any

import pytest
from hpack import Decoder

from inferometer.base.errors import UsageError
from inferometer.base.status import GRPC_CODES
from inferometer.wire import frames, grpc
from inferometer.wire.grpc import (
    Ending,
    GrpcConnection,
    encode_headers,
    frame_message,
    render_call,
)
from inferometer.wire.headers import encode_block
from inferometer.wire.sender import render

PLAIN = [(":status", "200"), ("content-type", "application/grpc")]
PATH = "/pkg.Service/Method"
BLOCK = encode_headers(path=PATH, authority="host:1")
CALL = render_call(BLOCK, b"question")
SHRINK = b"\x20"


def message(body: bytes, flag: int = 0) -> bytes:
    return bytes([flag]) + len(body).to_bytes(4, "big") + body


def block(fields: list[tuple[str, str]], *, ends: bool = False, stream_id: int = 1) -> bytes:
    return frames.frame(frames.HEADERS, 5 if ends else 4, stream_id, SHRINK + encode_block(fields))


def data(body: bytes, *, ends: bool = False, stream_id: int = 1) -> bytes:
    return frames.frame(frames.DATA, 1 if ends else 0, stream_id, body)


def status(code: object, text: str | None = None, stream_id: int = 1) -> bytes:
    fields = [("grpc-status", str(code))]
    return block(
        fields if text is None else [*fields, ("grpc-message", text)], ends=True, stream_id=stream_id
    )


def connect(calls: int = 1, *, keep: bool = True, largest: int = grpc.LARGEST_MESSAGE) -> GrpcConnection:
    connection = GrpcConnection(largest_message=largest)
    for n in range(calls):
        connection.open(n, CALL, keep=keep)
    receive(connection, frames.settings({}) + frames.frame(frames.SETTINGS, frames.ACK, 0))
    connection.take()
    return connection


def receive(connection: GrpcConnection, raw: bytes) -> list[tuple[int, Ending | None, bytes | None]]:
    events = connection.receive(bytearray(raw + b"stale"), len(raw))
    return [(call.token, ending, None if kept is None else bytes(kept)) for call, ending, kept in events]


def ending_of(*parts: bytes, largest: int = grpc.LARGEST_MESSAGE) -> Ending:
    *_, last = receive(connect(largest=largest), b"".join(parts))
    assert last[1] is not None
    return last[1]


# --- requests


def decoded(raw: bytes) -> dict[str, str]:
    rows: list[Any] = list(Decoder().decode(raw))
    assert [name for name, _ in rows[:4]] == [":method", ":scheme", ":path", ":authority"]
    found = dict(rows)
    assert len(found) == len(rows)
    return found


def test_headers_of_a_call() -> None:
    assert decoded(BLOCK) == {
        ":method": "POST",
        ":scheme": "http",
        ":path": PATH,
        ":authority": "host:1",
        "te": "trailers",
        "content-type": "application/grpc",
        "grpc-accept-encoding": "identity, deflate, gzip",
        "user-agent": "inferometer",
    }


def test_headers_with_all_options() -> None:
    raw = encode_headers(
        path=PATH,
        authority="host:1",
        scheme="https",
        metadata=[
            ("authorization", "Bearer t"),
            ("x-bin", "\0\udcff"),
            ("y-bin", "é"),
            ("user-agent", "me"),
            ("a", " b "),
        ],
        compression="gzip",
    )
    found = decoded(raw)
    assert found[":scheme"] == "https"
    assert found["grpc-encoding"] == "gzip"
    assert (found["authorization"], found["user-agent"], found["a"]) == ("Bearer t", "me", " b ")
    assert (found["x-bin"], found["y-bin"]) == ("AP8", "w6k")


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("X-Upper", "secret", "'X-Upper' has upper-case"),
        ("a b", "secret", "'a b' is not a valid metadata name"),
        ("", "secret", "'' is not a valid metadata name"),
        (":path", "secret", "':path' is not a valid metadata name"),
        ("te", "secret", "'te' is set by gRPC"),
        ("grpc-timeout", "secret", "'grpc-timeout' is set by gRPC"),
        ("token", "secret\n", "'token' has a value that is not printable"),
        ("token", "secrét", "'token' has a value that is not printable"),
        ("token", "secret\udcff", "'token' has a value that is not printable"),
    ],
)
def test_bad_metadata_is_named_without_its_value(name: str, value: str, match: str) -> None:
    with pytest.raises(UsageError) as caught:
        encode_headers(path=PATH, authority="a", metadata=[(name, value)])
    assert match in str(caught.value)
    assert "secr" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "authority"), [("pkg/Method", "a"), ("/a b", "a"), ("", "a"), ("/a", ""), ("/a", "é")]
)
def test_bad_path_or_authority_is_refused(path: str, authority: str) -> None:
    with pytest.raises(UsageError):
        encode_headers(path=path, authority=authority)


def test_messages_are_framed_and_compressed() -> None:
    body = b"abc" * 100
    assert b"".join(frame_message(body)) == message(body)
    assert frame_message(body)[1] is body
    prefix, packed = frame_message(body, "gzip")
    assert prefix == bytes([1]) + len(packed).to_bytes(4, "big")
    assert gzip.decompress(packed) == body
    assert zlib.decompress(frame_message(body, "deflate")[1]) == body


def test_codes_have_names() -> None:
    assert (grpc.name_of_code(0), grpc.name_of_code(16), grpc.name_of_code(17)) == (
        "OK",
        "UNAUTHENTICATED",
        "status 17",
    )
    assert GRPC_CODES[grpc.UNAVAILABLE] == "UNAVAILABLE"


# --- replies


def test_unary_reply() -> None:
    raw = block(PLAIN) + data(message(b"answer")) + status(0)
    assert receive(connect(), raw) == [(0, None, b"answer"), (0, Ending(0, ""), None)]
    assert receive(connect(keep=False), raw) == [(0, None, None), (0, Ending(0, ""), None)]


def test_usual_replies_one_after_another() -> None:
    connection = connect(4)
    raw = block(PLAIN) + data(message(b"answer 0")) + status(0)
    for n in (3, 5, 7):
        raw += frames.frame(1, 4, n, encode_block(PLAIN)) + data(message(b"answer %d" % n), stream_id=n)
        raw += frames.frame(1, 5, n, encode_block([("grpc-status", "0")]))
    assert receive(connection, raw) == [
        row
        for n, text in enumerate([b"answer 0", b"answer 3", b"answer 5", b"answer 7"])
        for row in ((n, None, text), (n, Ending(0, ""), None))
    ]


def test_messages_and_frames_need_not_be_aligned() -> None:
    bodies = [b"one", b"", b"three" * 10, b"", b"5"]
    stream = b"".join(map(message, bodies))
    for size in range(1, len(stream) + 1):
        parts = [data(stream[n : n + size]) for n in range(0, len(stream), size)]
        seen = receive(connect(), block(PLAIN) + b"".join(parts) + status(0))
        assert seen == [*((0, None, body) for body in bodies), (0, Ending(0, ""), None)]


def test_message_is_reported_by_the_call_that_completes_it() -> None:
    raw = data(message(b"abcdef"))
    connection = connect()
    receive(connection, block(PLAIN))
    assert receive(connection, raw[:-1]) == []
    assert receive(connection, raw[-1:]) == [(0, None, b"abcdef")]


@pytest.mark.parametrize(("name", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_compressed_message_is_unpacked_on_request(name: str, pack) -> None:
    raw = (
        block([*PLAIN, ("grpc-encoding", name)])
        + data(message(pack(b"answer" * 9), 1) + message(b"x"))
        + status(0)
    )
    assert receive(connect(), raw)[:2] == [(0, None, b"answer" * 9), (0, None, b"x")]
    assert receive(connect(keep=False), raw)[:2] == [(0, None, None), (0, None, None)]


GZIP = [*PLAIN, ("grpc-encoding", "gzip")]


@pytest.mark.parametrize(
    ("parts", "code", "match"),
    [
        ([block(PLAIN), data(message(b"x", 2))], grpc.INTERNAL, "compression flag 2"),
        ([block(PLAIN), data(message(b"x", 1))], grpc.INTERNAL, "grpc-encoding None"),
        ([block([*PLAIN, ("grpc-encoding", "zstd")]), data(message(b"x", 1))], grpc.INTERNAL, "'zstd'"),
        ([block(GZIP), data(message(b"no gzip", 1))], grpc.INTERNAL, "cannot decompress"),
        ([block(GZIP), data(message(gzip.compress(b"x")[:-1], 1))], grpc.INTERNAL, "length is wrong"),
        ([block(GZIP), data(message(gzip.compress(b"x") + b"y", 1))], grpc.INTERNAL, "length is wrong"),
        ([block(GZIP), data(message(b"", 1))], grpc.INTERNAL, "length is wrong"),
        ([block(GZIP), data(message(gzip.compress(bytes(1001)), 1))], grpc.RESOURCE_EXHAUSTED, "limit of 1000"),
        ([block(PLAIN), data(message(bytes(1001)))], grpc.RESOURCE_EXHAUSTED, "at least 1001 bytes"),
        ([block(PLAIN), data(b"\0\xff\xff\xff\xff")], grpc.RESOURCE_EXHAUSTED, "4294967295 bytes"),
        ([block(PLAIN), data(message(b"abc")[:-1]), status(0)], grpc.INTERNAL, "in the middle of a message"),
        ([block(PLAIN), data(b"\0"), status(0)], grpc.INTERNAL, "in the middle of a message"),
        ([block(PLAIN), data(message(b"abc"), ends=True)], grpc.UNKNOWN, "without a grpc-status"),
        ([block(PLAIN, ends=True)], grpc.UNKNOWN, "without a grpc-status"),
        ([block(PLAIN), block([("x", "y")], ends=True)], grpc.UNKNOWN, "without a grpc-status"),
        ([block(PLAIN), status("x")], grpc.UNKNOWN, "grpc-status 'x'"),
        ([block(PLAIN), status("-1")], grpc.UNKNOWN, "grpc-status '-1'"),
        ([block(PLAIN), status("²")], grpc.UNKNOWN, "grpc-status '²'"),
        ([data(message(b"abc"))], grpc.INTERNAL, "before the headers"),
    ],
)  # fmt: skip
def test_malformed_reply_is_a_named_ending(parts: list[bytes], code: int, match: str) -> None:
    ending = ending_of(*parts, largest=1000)
    assert (ending.code, ending.cause) == (code, grpc.MALFORMED)
    assert match in ending.text
    assert not ending.is_retriable


def test_status_and_message_of_the_server() -> None:
    assert ending_of(block(PLAIN), status(5, "no%20model %E2%82%AC %zz ")) == Ending(5, "no model € %zz ")
    assert ending_of(block(PLAIN), status(5)) == Ending(5, "")
    assert ending_of(block(PLAIN), status(5, "%ff")) == Ending(5, "\ufffd")
    assert ending_of(block(PLAIN), status(99, "odd")) == Ending(grpc.UNKNOWN, "grpc-status 99: odd")
    assert ending_of(block(PLAIN), data(b"\0\0"), status(13, "cut")) == Ending(13, "cut")


def test_reply_of_trailers_only() -> None:
    assert ending_of(block([*PLAIN, ("grpc-status", "12"), ("grpc-message", "no")], ends=True)) == Ending(
        12, "no"
    )
    assert ending_of(block([(":status", "200"), ("grpc-status", "7")], ends=True)) == Ending(7, "")


@pytest.mark.parametrize(
    ("http_status", "code"),
    [
        (400, 13),
        (401, 16),
        (403, 7),
        (404, 12),
        (429, 14),
        (502, 14),
        (503, 14),
        (504, 14),
        (500, 2),
        (302, 2),
        (200, 2),
    ],
)
def test_reply_that_is_not_grpc_is_judged_by_its_http_status(http_status: int, code: int) -> None:
    head = block([(":status", str(http_status)), ("content-type", "text/html")])
    ending = ending_of(head, data(b"<h1>" + b"x" * 5000), data(b"", ends=True))
    assert (ending.code, ending.cause) == (code, grpc.HTTP)
    assert ending.text.startswith(f"HTTP status {http_status}, content type 'text/html': <h1>xxx")
    assert len(ending.text) < 2200
    assert ending_of(block([(":status", str(http_status))], ends=True)).code == code


def test_grpc_status_takes_precedence_over_the_http_status() -> None:
    assert ending_of(block([(":status", "503"), ("grpc-status", "8")], ends=True)) == Ending(8, "")


@pytest.mark.parametrize(
    ("content_type", "good"),
    [
        ("application/grpc+proto", True),
        ("application/grpc;x=y", True),
        ("application/grpcx", False),
        ("APPLICATION/GRPC", True),
    ],
)
def test_content_types(content_type: str, good: bool) -> None:
    ending = ending_of(
        block([(":status", "200"), ("content-type", content_type)]), data(message(b""), ends=True)
    )
    assert ending.cause == (grpc.MALFORMED if good else grpc.HTTP)


@pytest.mark.parametrize(
    ("error", "code", "cause"),
    [
        (0, 13, "reset"),
        (2, 13, "reset"),
        (7, 14, "refused"),
        (8, 1, "reset"),
        (11, 8, "reset"),
        (12, 7, "reset"),
        (99, 2, "reset"),
    ],
)
def test_reset_becomes_a_code(error: int, code: int, cause: str) -> None:
    ending = ending_of(frames.rst_stream(1, error))
    assert (ending.code, ending.cause) == (code, cause)
    assert frames.name_of_error(error) in ending.text


def test_every_call_ends_when_the_connection_does() -> None:
    connection = connect(3)
    assert [row[1].cause for row in receive(connection, frames.goaway(3, 0, "bye")) if row[1]] == ["refused"]
    connection.take()
    events = connection.eof()
    assert [(call.token, ending and (ending.code, ending.cause)) for call, ending, _ in events] == [
        (0, (grpc.UNAVAILABLE, grpc.LOST)),
        (1, (grpc.UNAVAILABLE, grpc.LOST)),
    ]
    broken = connect(2)
    endings = [row[1] for row in receive(broken, frames.frame(frames.PUSH_PROMISE, 0, 1))]
    assert [ending and (ending.code, ending.cause) for ending in endings] == [
        (grpc.INTERNAL, grpc.BROKEN)
    ] * 2


def test_refused_call_may_be_retried() -> None:
    (row,) = receive(connect(), frames.goaway(0, 0))
    assert row[1] is not None
    assert row[1].is_retriable


# --- streaming


def test_both_directions() -> None:
    connection = GrpcConnection()
    connection.take()
    call = connection.open(7, render(BLOCK, frame_message(b"one"), ends=False), keep=True)
    sent = b"".join(connection.take())
    assert sent.endswith(data(message(b"one")))
    connection.http2.send(call, frame_message(b"two"))
    assert b"".join(connection.take()) == data(message(b"two"))
    greeting = frames.settings({}) + frames.frame(frames.SETTINGS, frames.ACK, 0)
    assert receive(connection, greeting + block(PLAIN) + data(message(b"eins"))) == [(7, None, b"eins")]
    connection.take()
    connection.http2.send(call, frame_message(b"three", "gzip"))
    connection.http2.send(call, ends=True)
    assert b"".join(connection.take())[9:10] == b"\1"
    assert receive(connection, data(message(b"zwei") + message(b"drei"))) == [
        (7, None, b"zwei"),
        (7, None, b"drei"),
    ]
    assert receive(connection, status(0)) == [(7, Ending(0, ""), None)]
    connection.http2.send(call, frame_message(b"too late"))
    assert connection.take() == []
