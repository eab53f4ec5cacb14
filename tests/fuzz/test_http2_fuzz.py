"""HTTP/2 and gRPC against nonsense: events or a PeerError, nothing else, and the same in any split of the bytes."""

import gzip
from typing import Any, TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from inferometer.base.errors import PeerError
from inferometer.wire import frames, grpc
from inferometer.wire.grpc import GrpcConnection, encode_headers, frame_message, render_call
from inferometer.wire.headers import encode_block
from inferometer.wire.sender import render
from tests.support.samples import examples

T = TypeVar("T")
EXAMPLES = examples(80)
fuzz = settings(max_examples=EXAMPLES, deadline=None)

BLOCK = encode_headers(path="/a/b", authority="c")
SMALL = render_call(BLOCK, b"small")
LARGE = render_call(BLOCK, bytes(100_000))
OPEN = render(BLOCK, frame_message(b"open"), ends=False)
GREETING = frames.settings({4: 1000, 5: 20_000}) + frames.frame(frames.SETTINGS, frames.ACK, 0)
HEAD = encode_block([(":status", "200"), ("content-type", "application/grpc"), ("grpc-encoding", "gzip")])
TRAILERS = encode_block([("grpc-status", "0")])
FREEZE = frames.frame(frames.HEADERS, 5, 1, b"\x20\x88" + TRAILERS)


def message(body: bytes, flag: int = 0) -> bytes:
    return bytes([flag]) + len(body).to_bytes(4, "big") + body


# Frames, most of them nearly right. They are made of random bytes, which hypothesis draws, and makes smaller, in one
# go: a drawing for every field would take ten times as long as what is tested.


STREAM_IDS = [0, 1, 2, 3, 3, 5, 5, 7, 7, 9, 11, 0x80000003, 2**31 - 1]
FLAGS = [0, 0, 1, 4, 4, 5, 5, 8, 9, 0x0C, 0x0D, 0x20, 0x2D, 0xFF]
KINDS = [0, 0, 0, 1, 1, 1, 1, 2, 3, 3, 4, 5, 6, 7, 8, 8, 9, 9, 12]
NUMBERS = [0, 1, 2, 5, 7, 8, 1000, 16384, 20_000, 2**20, 2**24, 2**31 - 1, 2**31, 2**32 - 1]
BLOCKS = [
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
BODIES = [
    message(b"abc"),
    message(b""),
    message(b"abc") * 2 + b"\0",
    message(gzip.compress(b"abc"), 1),
    message(gzip.compress(bytes(5000)), 1),
    message(b"no gzip", 1),
    message(bytes(3000)),
    message(bytes(3000)) * 5,  # half a window
    b"\0\0\0\0",
    b"\0\xff\xff\xff\xff",
    b"\2" + message(b""),
    b"\3abcd123",
    b"",
]


def pick(table: list[T], number: int) -> T:
    return table[number % len(table)]


def some(raw: bytes) -> bytes:
    """Any number of the bytes, also none."""
    return raw[1 : 1 + raw[0] % len(raw)]


def block(raw: bytes) -> bytes:
    return pick(BLOCKS, raw[0] >> 1) if raw[0] % 2 else some(raw[1:])


def body(raw: bytes) -> bytes:
    return pick(BODIES, raw[0] >> 1) if raw[0] % 2 else some(raw[1:])


def word(raw: bytes) -> bytes:
    return pick(NUMBERS, raw[0]).to_bytes(4, "big")


def new_settings(raw: bytes) -> bytes:
    return b"".join(bytes([0, raw[n] % 9]) + word(raw[n + 1 :]) for n in range(1, 1 + 2 * (raw[0] % 4), 2))


PAYLOADS = {
    frames.DATA: body,
    frames.HEADERS: block,
    frames.PRIORITY: lambda raw: bytes(5),
    frames.RST_STREAM: word,
    frames.SETTINGS: new_settings,
    frames.PUSH_PROMISE: block,
    frames.PING: lambda raw: raw[:8],
    frames.GOAWAY: lambda raw: word(raw) + word(raw[1:]) + raw[8:],
    frames.WINDOW_UPDATE: word,
    frames.CONTINUATION: block,
}


def any_frame(raw: bytes) -> bytes:
    kind = pick(KINDS, raw[0])
    payload = some(raw[4:]) if raw[3] % 10 == 9 else PAYLOADS.get(kind, body)(raw[4:])
    is_for_all = kind in (frames.SETTINGS, frames.PING, frames.GOAWAY) and raw[3] % 2
    stream_id = 0 if is_for_all else pick(STREAM_IDS, raw[2])
    return frames.frame(kind, pick(FLAGS, raw[1]), stream_id, payload)


def right_frame(raw: bytes) -> bytes:
    """A frame that is legal in itself, on a stream that is open at first."""
    stream_id = pick([3, 5, 7], raw[0])
    kind = pick(["head", "body", "body", "trailers", "reply", "update", "ping", "split"], raw[1])
    if kind == "head":
        return frames.frame(frames.HEADERS, 4, stream_id, HEAD)
    if kind == "body":
        return frames.frame(frames.DATA, pick([0, 0, 0, 1], raw[2]), stream_id, body(raw[3:]))
    if kind == "trailers":
        return frames.frame(frames.HEADERS, 5, stream_id, TRAILERS)
    if kind == "update":
        step = 1 + int.from_bytes(raw[3:5], "big") % 9000
        return frames.window_update(pick([0, stream_id], raw[2]), step)
    if kind == "ping":
        return frames.frame(frames.PING, raw[2] % 2, 0, bytes(8))
    if kind == "split":
        first = frames.frame(frames.HEADERS, 0, stream_id, HEAD[:5])
        return first + frames.frame(frames.CONTINUATION, 4, stream_id, HEAD[5:])
    return (
        frames.frame(frames.HEADERS, 4, stream_id, HEAD)
        + frames.frame(frames.DATA, 0, stream_id, message(b"abc"))
        + frames.frame(frames.HEADERS, 5, stream_id, TRAILERS)
    )


def place(raw: bytes, length: int) -> int:
    return int.from_bytes(raw[:2], "big") % (length + 1)


def mutate(raw: bytes, edits: bytes) -> bytes:
    """Some bytes, at each of a few places, are replaced by others."""
    mutated = bytearray(raw)
    for edit in parts(edits, 8):
        at = place(edit[1:], len(mutated))
        mutated[at : at + edit[3] % 5] = edit[5 : 5 + edit[4] % 4]
    return bytes(mutated)


def split(raw: bytes, cuts: bytes) -> list[bytes]:
    """Cut where each two bytes of `cuts` say."""
    places = sorted(place(cuts[n:], len(raw)) for n in range(0, len(cuts), 2))
    return [raw[i:j] for i, j in zip([0, *places], [*places, len(raw)], strict=True)]


def parts(raw: bytes, size: int) -> list[bytes]:
    """Pieces of so many bytes; one that begins with a multiple of 4 is none, so that zeros leave things out."""
    return [raw[n : n + size] for n in range(0, len(raw) - size + 1, size) if raw[n] % 4]


def any_frames(raw: bytes) -> bytes:
    return b"".join(any_frame(part[1:]) for part in parts(raw, 16))


def right_frames(raw: bytes) -> bytes:
    return b"".join(right_frame(part[1:]) for part in parts(raw, 12))


random_frames = st.binary(min_size=80, max_size=200).map(any_frames)
legal_frames = st.binary(min_size=60, max_size=180).map(right_frames)
mutated_frames = st.builds(mutate, legal_frames, st.binary(min_size=8, max_size=30))
cuts = st.binary(min_size=4, max_size=16)


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


def check_endings(events: list[grpc.Event], calls: list[Any]) -> None:
    """Every call ends exactly once, with nothing behind it."""
    for call in calls:
        own = [ending for owner, ending, _ in events if owner is call]
        assert own
        assert own[-1] is not None
        assert all(ending is None for ending in own[:-1])


def check(raw: bytes, cuts: bytes, keep: bool) -> None:
    whole = outcome([raw], keep=keep)
    assert outcome(split(raw, cuts), keep=keep) == whole
    if len(raw) < 150:
        assert outcome([raw[i : i + 1] for i in range(len(raw))], keep=keep) == whole


@fuzz
@given(random_frames, cuts, st.booleans(), st.booleans())
def test_random_frames(raw: bytes, cuts: bytes, keep: bool, frozen: bool) -> None:
    check(GREETING + (FREEZE if frozen else b"") + raw, cuts, keep)


@fuzz
@given(legal_frames, cuts, st.booleans())
def test_right_frames_in_a_random_order(raw: bytes, cuts: bytes, keep: bool) -> None:
    check(GREETING + FREEZE + raw, cuts, keep)


@fuzz
@given(mutated_frames, cuts, st.booleans())
def test_mutated_frames(raw: bytes, cuts: bytes, keep: bool) -> None:
    check(GREETING + FREEZE + raw, cuts, keep)


@fuzz
@given(st.one_of(st.binary(max_size=100), mutated_frames), cuts, st.booleans())
def test_random_bytes_from_the_start(raw: bytes, cuts: bytes, keep: bool) -> None:
    check(raw, cuts, keep)


@fuzz
@given(st.lists(st.binary(min_size=1, max_size=41), max_size=6), st.integers(1, 30), cuts)
def test_messages_survive_any_framing(drawn: list[bytes], size: int, cuts: bytes) -> None:
    messages = [(raw[1:], raw[0] % 2 == 1) for raw in drawn]
    stream = b"".join(
        message(gzip.compress(body), 1) if packed else message(body) for body, packed in messages
    )
    raw = GREETING + FREEZE + frames.frame(frames.HEADERS, 4, 3, HEAD)
    raw += b"".join(
        frames.frame(frames.DATA, 0, 3, stream[n : n + size]) for n in range(0, len(stream), size)
    )
    raw += frames.frame(frames.HEADERS, 5, 3, TRAILERS)
    events, broken, _, _ = outcome(split(raw, cuts), keep=True)
    assert broken == "None"
    assert [body for token, _, body in events if token == 1] == [*(body for body, _ in messages), None]


def test_sanity_of_the_strategies() -> None:
    raw = GREETING + FREEZE + frames.frame(1, 4, 3, HEAD) + frames.frame(0, 0, 3, message(b"abc"))
    events, broken, running, _ = outcome([raw], keep=True)
    assert broken == "None"
    assert running == [3, 5, 7]
    assert events == [(0, grpc.Ending(0, ""), None), (1, None, b"abc")]
