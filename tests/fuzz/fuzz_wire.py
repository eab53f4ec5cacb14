"""Codecs: HTTP/1.1 replies, HTTP/2 frames with gRPC in them, header blocks, events, protobuf, metrics."""

import zlib

from inferometer.observe.metrics import sample
from inferometer.services.kserve import infer_response, read_stream_reply
from inferometer.services.torchserve import counters
from inferometer.wire.frames import DATA, END_HEADERS, HEADERS, Fault, frame, settings
from inferometer.wire.grpc import GrpcConnection, encode_headers, render_call
from inferometer.wire.headers import BlockReader, encode_block
from inferometer.wire.protobuf import fields
from inferometer.wire.sse import SseDecoder
from tests.fuzz import test_http1_fuzz as http1
from tests.fuzz import test_http2_fuzz as http2
from tests.fuzz.harness import Choices, Family, damaged, damaged_seeds


def cuts(data: bytes) -> bytes:
    """Where to cut an input, which depends on nothing but the input."""
    return zlib.crc32(data).to_bytes(4, "big") * 2


# --- HTTP/1.1

REPLIES = (
    b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\nX: y\r\n\r\n",
    b"HTTP/1.0 200 OK\r\n\r\nuntil the end",
)


def make_replies(choices: Choices) -> bytes:
    if choices.below(3) == 0:
        return b"".join(choices.pick(http1.FRAGMENTS) for _ in range(choices.below(12)))
    whole = b"".join(choices.pick(REPLIES) for _ in range(1 + choices.below(3)))
    return damaged(whole, choices, http1.FRAGMENTS)


def read_replies(data: bytes) -> None:
    whole = http1.ours([data])
    assert http1.ours(http1.split(data, cuts(data))) == whole
    assert http1.ours([data[i : i + 1] for i in range(len(data))]) == whole


# --- HTTP/2


def make_frames(choices: Choices) -> bytes:
    kind, raw = choices.below(3), choices.some(160)
    found = http2.right_frames(raw) if kind else http2.any_frames(raw)
    return found if kind == 1 else damaged(found, choices)


def read_frames(data: bytes) -> None:
    greeting = http2.GREETING + (http2.FREEZE if len(data) % 2 else b"")
    raw, keep = greeting + data, len(data) % 3 == 0
    assert http2.outcome(http2.split(raw, cuts(data)), keep=keep) == http2.outcome([raw], keep=keep)


BLOCKS = (*http2.BLOCKS, encode_block([("grpc-status", "3"), ("grpc-message", "x" * 30), ("a", "b")]))


def read_block(data: bytes) -> None:
    reader = BlockReader()
    for _ in range(3):
        try:
            reader.decode(data)
        except Fault:
            return
        reader.acknowledged()


# --- compressed messages

LARGEST = 1 << 16
BITS = {"gzip": 31, "deflate": 15}


def packed(size: int, wbits: int) -> bytes:
    packer = zlib.compressobj(wbits=wbits)
    return packer.compress(bytes(size)) + packer.flush()


PACKED = tuple(packed(size, wbits) for size in (0, 100, LARGEST, 1 << 22) for wbits in BITS.values())


def read_packed(data: bytes) -> None:
    """As a gRPC message that is kept: what comes out is within the limit, or the call has failed."""
    for name in BITS:
        connection = GrpcConnection(largest_kept=LARGEST)
        connection.open(None, render_call(encode_headers(path="/a.B/C", authority="h"), b""), keep=True)
        head = encode_block(
            [(":status", "200"), ("content-type", "application/grpc"), ("grpc-encoding", name)]
        )
        body = (b"\1" + len(data).to_bytes(4, "big") + data)[: 1 << 20]
        raw = settings({}) + frame(HEADERS, END_HEADERS, 1, head) + frame(DATA, 0, 1, body)
        for _, ending, message in connection.receive(raw, len(raw)):
            assert len(message or b"") <= LARGEST if ending is None else ending.code


# --- events

EVENTS = (
    b'data: {"a": 1}\n\ndata: [DONE]\n\n',
    b"\xef\xbb\xbfid: 5\r\nevent: error\r\ndata: x\r\ndata: y\r\n\r\n: comment\r\rdata\r\r",
)
LINES = (
    b"data:",
    b"data: x\n\n",
    b"\r",
    b"\n",
    b"\r\n",
    b"event: e\n",
    b"id:\x00\n",
    b":\n",
    b"retry: 1\n",
    b"\xef\xbb\xbf",
    b"\n" * 2000,
    b"\r\n" * 1000,
    b":\n\n" * 500,
)


def read_events(data: bytes) -> None:
    def events(pieces: list[bytes]) -> list[object]:
        decoder = SseDecoder()
        return [event for piece in pieces for event in decoder.receive(piece)]

    whole = events([data])
    assert events(http1.split(data, cuts(data))) == whole
    assert events([data[i : i + 1] for i in range(len(data))]) == whole


# --- protobuf

MESSAGES = (
    b"\x12\x0c\n\x01m\x1a\x015\x2a\x02\x0a\x00\x22\x1b\n\x15triton_final_response\x12\x02\x08\x01",
    b"\n\x05error\x12\x03\x1a\x019",
    b"\x08\x96\x01\x11\x00\x00\x00\x00\x00\x00\x00\x00\x1d\x00\x00\x00\x00",
)


def read_message(data: bytes) -> None:
    list(fields(memoryview(data)))
    read_stream_reply(data)
    infer_response(data)


# --- metrics

PAGES = (
    b'# HELP x y\nnv_gpu_utilization{gpu_uuid="GPU-1"} 0.5\nnv_inference_request_success{model="m"} 5 1000\n'
    b"nv_cpu_utilization 0.25\nnv_cpu_memory_total_bytes 1e9\n",
    b'ts_inference_requests_total{uuid="a",model_name="m",model_version="1.0",hostname="h",} 5.0 1700000000\n'
    b'ts_queue_latency_microseconds{model_name="m",model_version="1.0"} 1e3\n',
)
WORDS = (
    b"{",
    b"}",
    b'"',
    b"\\",
    b"NaN",
    b"+Inf",
    b"1e999",
    b"-1",
    b" ",
    b"\t",
    b"nv_gpu_power_usage{",
    b'gpu_uuid="',
    b" " * 500,
    b"}" * 99,
)


def read_page(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    sample(text, at_ns=0)
    counters(text, "m")


FAMILIES = (
    Family("http1", make_replies, read_replies, 50),
    Family("http2", make_frames, read_frames, 50),
    Family("packed", damaged_seeds("packed", PACKED), read_packed, 20),
    Family("hpack", damaged_seeds("hpack", BLOCKS), read_block, 40),
    Family("sse", damaged_seeds("sse", EVENTS, LINES), read_events, 40),
    Family("protobuf", damaged_seeds("protobuf", MESSAGES), read_message, 40),
    Family("metrics", damaged_seeds("metrics", PAGES, WORDS), read_page, 40),
)
