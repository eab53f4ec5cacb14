"""HTTP/2 and gRPC against nonsense: events or a PeerError, nothing else, and the same in any split of the bytes."""

import gzip
import os

from hypothesis import given, settings
from hypothesis import strategies as st

from inferometer.base.errors import PeerError
from inferometer.wire import frames, grpc
from inferometer.wire.grpc import GrpcConnection, encode_headers, render_call
from inferometer.wire.headers import encode_block

EXAMPLES = int(os.environ.get("INFEROMETER_FUZZ", "1200"))
fuzz = settings(max_examples=EXAMPLES, deadline=None)

BLOCK = encode_headers(path="/a/b", authority="c")
SMALL = render_call(BLOCK, b"small")
LARGE = render_call(BLOCK, bytes(100_000))
OPEN = render_call(BLOCK, b"open", ends=False)
GREETING = frames.settings({4: 1000, 5: 20_000}) + frames.frame(frames.SETTINGS, frames.ACK, 0)
HEAD = encode_block([(":status", "200"), ("content-type", "application/grpc"), ("grpc-encoding", "gzip")])
TRAILERS = encode_block([("grpc-status", "0")])
FREEZE = frames.frame(frames.HEADERS, 5, 1, b"\x20\x88" + TRAILERS)


def message(body: bytes, flag: int = 0) -> bytes:
    return bytes([flag]) + len(body).to_bytes(4, "big") + body


# Frames, most of them nearly right


stream_ids = st.sampled_from([0, 1, 2, 3, 3, 5, 5, 7, 7, 9, 11, 0x80000003, 2**31 - 1])
flags = st.sampled_from([0, 0, 1, 4, 4, 5, 5, 8, 9, 0x0C, 0x0D, 0x20, 0x2D, 0xFF])
blocks = st.one_of(
    st.sampled_from(
        [
            HEAD,
            TRAILERS,
            b"\x88",
            b"\x88\xbe",
            b"\x20" + HEAD,
            b"\x3f\xe1\x1f" + HEAD,
            HEAD[:-1],
            encode_block([(":status", "100")]),
            encode_block([(":status", "503"), ("content-type", "text/html")]),
            encode_block([("grpc-status", "5"), ("grpc-message", "a%20%ff%")]),
            encode_block([("grpc-status", "x")]),
            encode_block([(":status", "200"), ("content-length", "5")]),
        ]
    ),
    st.binary(max_size=12),
)
bodies = st.one_of(
    st.sampled_from(
        [
            message(b"abc"),
            message(b""),
            message(b"abc") * 2 + b"\0",
            message(gzip.compress(b"abc"), 1),
            message(gzip.compress(bytes(5000)), 1),
            message(b"no gzip", 1),
            message(bytes(3000)),
            b"\0\0\0\0",
            b"\0\xff\xff\xff\xff",
            b"\2" + message(b""),
            b"\3abcd123",
            b"",
        ]
    ),
    st.binary(max_size=12),
)
numbers = st.sampled_from([0, 1, 2, 5, 7, 8, 1000, 16384, 20_000, 2**20, 2**24, 2**31 - 1, 2**31, 2**32 - 1])
words = numbers.map(lambda number: number.to_bytes(4, "big"))
setting = st.builds(lambda name, value: bytes([0, name]) + value, st.integers(0, 8), words)
payloads = {
    frames.DATA: bodies,
    frames.HEADERS: blocks,
    frames.PRIORITY: st.just(bytes(5)),
    frames.RST_STREAM: words,
    frames.SETTINGS: st.lists(setting, max_size=3).map(b"".join),
    frames.PUSH_PROMISE: blocks,
    frames.PING: st.binary(min_size=8, max_size=8),
    frames.GOAWAY: st.tuples(words, words, st.binary(max_size=5)).map(b"".join),
    frames.WINDOW_UPDATE: words,
    frames.CONTINUATION: blocks,
}


@st.composite
def one_frame(draw: st.DrawFn) -> bytes:
    kind = draw(st.sampled_from([0, 0, 0, 1, 1, 1, 1, 2, 3, 3, 4, 5, 6, 7, 8, 8, 9, 9, 12]))
    payload = draw(payloads.get(kind, bodies) if draw(st.integers(0, 9)) else st.binary(max_size=10))
    return frames.frame(kind, draw(flags), draw(stream_ids), payload)


@st.composite
def right_frame(draw: st.DrawFn) -> bytes:
    """A frame that is legal in itself, on a stream that is open at first."""
    stream_id = draw(st.sampled_from([3, 5, 7]))
    kind = draw(st.sampled_from(["head", "body", "body", "trailers", "reply", "update", "ping", "split"]))
    if kind == "head":
        return frames.frame(frames.HEADERS, 4, stream_id, HEAD)
    if kind == "body":
        return frames.frame(frames.DATA, draw(st.sampled_from([0, 0, 0, 1])), stream_id, draw(bodies))
    if kind == "trailers":
        return frames.frame(frames.HEADERS, 5, stream_id, TRAILERS)
    if kind == "update":
        return frames.window_update(draw(st.sampled_from([0, stream_id])), draw(st.integers(1, 9000)))
    if kind == "ping":
        return frames.frame(frames.PING, draw(st.integers(0, 1)), 0, bytes(8))
    if kind == "split":
        first = frames.frame(frames.HEADERS, 0, stream_id, HEAD[:5])
        return first + frames.frame(frames.CONTINUATION, 4, stream_id, HEAD[5:])
    return (
        frames.frame(frames.HEADERS, 4, stream_id, HEAD)
        + frames.frame(frames.DATA, 0, stream_id, message(b"abc"))
        + frames.frame(frames.HEADERS, 5, stream_id, TRAILERS)
    )


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    raw = bytearray(b"".join(draw(st.lists(right_frame(), min_size=1, max_size=8))))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(raw)))
        raw[at : at + draw(st.integers(0, 4))] = draw(st.binary(max_size=3))
    return bytes(raw)


@st.composite
def splits(draw: st.DrawFn, raw: bytes) -> list[bytes]:
    cuts = sorted(draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    return [raw[i:j] for i, j in zip([0, *cuts], [*cuts, len(raw)], strict=True)]


# What comes of them


Outcome = tuple[list[tuple[int, object, object]], str, list[int], bytes]


def outcome(pieces: list[bytes], *, keep: bool, window: int = 30_000) -> Outcome:
    """Events, why the connection broke, the streams that are open, and what is sent in answer."""
    connection = GrpcConnection(window=window, largest_message=4000)
    calls = [connection.open(n, request, keep=keep) for n, request in enumerate((SMALL, SMALL, LARGE, OPEN))]
    connection.take()
    events = []
    for piece in pieces:
        events += connection.receive(bytearray(piece + b"stale"), len(piece))
    broken = connection.http2.broken
    assert broken is None or isinstance(broken, PeerError)
    running = list(connection.http2.streams)
    answer = b"".join(connection.take())
    assert broken is None or not running
    finish = connection.eof()
    check_endings([*events, *finish], calls)
    return (
        [(call.token, end, body and bytes(body)) for call, end, body in events],
        str(broken),
        running,
        answer,
    )


def check_endings(events: list[grpc.Event], calls: list[grpc.Stream]) -> None:
    """Every call ends exactly once, with nothing behind it."""
    for call in calls:
        own = [ending for owner, ending, _ in events if owner is call]
        assert own
        assert own[-1] is not None
        assert all(ending is None for ending in own[:-1])


def check(data: st.DataObject, raw: bytes, keep: bool) -> Outcome:
    whole = outcome([raw], keep=keep)
    assert outcome(data.draw(splits(raw)), keep=keep) == whole
    if len(raw) < 150:
        assert outcome([raw[i : i + 1] for i in range(len(raw))], keep=keep) == whole
    return whole


@fuzz
@given(st.data(), st.lists(one_frame(), max_size=10).map(b"".join), st.booleans(), st.booleans())
def test_random_frames(data: st.DataObject, raw: bytes, keep: bool, frozen: bool) -> None:
    check(data, GREETING + (FREEZE if frozen else b"") + raw, keep)


@fuzz
@given(st.data(), st.lists(right_frame(), max_size=12).map(b"".join), st.booleans())
def test_right_frames_in_a_random_order(data: st.DataObject, raw: bytes, keep: bool) -> None:
    check(data, GREETING + FREEZE + raw, keep)


@fuzz
@given(st.data(), mutated(), st.booleans())
def test_mutated_frames(data: st.DataObject, raw: bytes, keep: bool) -> None:
    check(data, GREETING + FREEZE + raw, keep)


@fuzz
@given(st.data(), st.one_of(st.binary(max_size=100), mutated()), st.booleans())
def test_random_bytes_from_the_start(data: st.DataObject, raw: bytes, keep: bool) -> None:
    check(data, raw, keep)


@fuzz
@given(st.data(), st.lists(st.tuples(st.binary(max_size=40), st.booleans()), max_size=6), st.integers(1, 30))
def test_messages_survive_any_framing(data: st.DataObject, messages, size: int) -> None:
    stream = b"".join(
        message(gzip.compress(body), 1) if packed else message(body) for body, packed in messages
    )
    raw = GREETING + FREEZE + frames.frame(frames.HEADERS, 4, 3, HEAD)
    raw += b"".join(
        frames.frame(frames.DATA, 0, 3, stream[n : n + size]) for n in range(0, len(stream), size)
    )
    raw += frames.frame(frames.HEADERS, 5, 3, TRAILERS)
    events, broken, _, _ = outcome(data.draw(splits(raw)), keep=True)
    assert broken == "None"
    assert [body for token, _, body in events if token == 1] == [*(body for body, _ in messages), None]


def test_sanity_of_the_strategies() -> None:
    raw = GREETING + FREEZE + frames.frame(1, 4, 3, HEAD) + frames.frame(0, 0, 3, message(b"abc"))
    events, broken, running, _ = outcome([raw], keep=True)
    assert broken == "None"
    assert running == [3, 5, 7]
    assert events == [(0, grpc.Ending(0, ""), None), (1, None, b"abc")]
