"""The fast path for replies to plain calls leaves the same state as reading frame by frame."""

from dataclasses import dataclass
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from inferometer.load.link import NOTHING
from inferometer.load.plain import PlainCalls
from inferometer.wire import frames
from inferometer.wire.grpc import GrpcConnection, encode_headers, render_call
from inferometer.wire.headers import encode_block
from inferometer.wire.sender import Stream, patch

HEAD = encode_block([(":status", "200"), ("content-type", "application/grpc")])
OTHER_HEAD = encode_block([(":status", "200"), ("content-type", "application/grpc"), ("x", "y")])
GOOD = encode_block([("grpc-status", "0")])
BAD = encode_block([("grpc-status", "13"), ("grpc-message", "no")])
REQUEST = render_call(encode_headers(path="/a.B/C", authority="x"), b"ask")
CALLS = 8
SHRINK = b"\x20"


def body(size: int) -> bytes:
    return b"\0" + size.to_bytes(4, "big") + b"x" * size


def reply(stream_id: int, *, head: bytes = HEAD, size: int = 9, trailers: bytes = GOOD) -> bytes:
    return (
        frames.frame(frames.HEADERS, frames.END_HEADERS, stream_id, head)
        + frames.frame(frames.DATA, 0, stream_id, body(size))
        + frames.frame(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, stream_id, trailers)
    )


@dataclass(slots=True)
class Caller:
    slot: int
    request: Any = None
    stream: Stream | None = None
    sent_ns: int = 0
    wrote_ns: int = 0


class Peer:
    """A connection with open plain calls, read on the fast path or frame by frame."""

    def __init__(self, *, is_quick: bool) -> None:
        self.connection = GrpcConnection(window=2**16)
        self.http2 = self.connection.http2
        self.unwritten: list[Caller] = []
        self.plain = PlainCalls(self.http2, (REQUEST,), self.next_step, self.unwritten)
        self.is_quick = is_quick
        self.ended: list[tuple[int, int]] = []  # slot and status
        self.quick = 0
        self.follows: set[int] = set()  # slots that continue
        self.feed(frames.frame(frames.SETTINGS, 0, 0) + frames.frame(frames.SETTINGS, frames.ACK, 0))
        for slot in range(4):
            self.connection.open(Caller(slot), REQUEST)
        for first in (1, 3, 5, 7):
            self.feed(reply(first, head=(SHRINK if first == 1 else b"") + HEAD))
        for slot in range(4, CALLS + 2):
            assert self.plain.open(Caller(slot), REQUEST)
        assert self.http2.usual.content == 14

    def feed(self, data: bytes) -> None:
        at = 0
        if self.is_quick:
            at = self.plain.exchange(data, len(data), 1)
            self.send_only()
        if at < len(data):
            self.plain.make_streams()
        for stream, ending, _ in self.connection.receive(data[at:], len(data) - at):
            if ending is not None:
                self.ended.append((stream.token.slot, ending.code))
                if not ending.code and stream.token.slot in self.follows and self.http2.can_open:
                    self.open_next(stream.token.slot)

    def open_next(self, slot: int) -> None:
        if not self.is_quick:
            self.connection.open(Caller(slot), REQUEST)
        else:
            assert self.plain.open(Caller(slot), REQUEST)

    def send_only(self) -> None:
        """Send the call that was left to the owner of the socket."""
        if self.plain.only is not None:
            self.http2.sender.queue.append(bytes(self.plain.only.request.frames))
            self.plain.only = None

    def next_step(
        self, slot: int, sent_ns: int, wrote_ns: int, now_ns: int, received: int
    ) -> tuple[int, int]:
        self.quick += 1
        self.ended.append((slot, 0))
        return (0, 7) if slot in self.follows else NOTHING

    def state(self) -> tuple[Any, ...]:
        http2 = self.http2
        sent = b"".join(map(bytes, self.connection.take()))
        return (
            self.ended,
            sorted([*http2.streams, *http2.plain]),
            http2.sender.window,
            str(http2.broken),
            http2.unreturned,
            sent,
        )


def update(increment: int) -> bytes:
    return frames.frame(frames.WINDOW_UPDATE, 0, 0, increment.to_bytes(4, "big"))


PARTS = st.one_of(
    st.builds(reply, st.sampled_from(range(9, 2 * CALLS, 2))),
    st.builds(
        reply,
        st.sampled_from(range(7, 2 * CALLS, 2)),
        head=st.sampled_from([HEAD, OTHER_HEAD]),
        size=st.sampled_from([0, 9, 10, 3000]),
        trailers=st.sampled_from([GOOD, BAD]),
    ),
    st.builds(update, st.sampled_from([0, 1, 500, 2**31 - 1, 2**31 + 4])),
    st.just(frames.frame(frames.PING, 0, 0, bytes(8))),
    st.just(frames.frame(frames.RST_STREAM, 0, 9, bytes(4))),
    st.just(frames.frame(frames.GOAWAY, 0, 0, (11).to_bytes(4, "big") + bytes(4))),
    st.just(
        frames.frame(frames.HEADERS, 0, 13, HEAD[:3]) + frames.frame(frames.CONTINUATION, 4, 13, HEAD[3:])
    ),
)


@given(st.lists(PARTS, max_size=10), st.lists(st.integers(1, 400), max_size=6))
def test_the_fast_path_leaves_the_same_state(parts: list[bytes], cuts: list[int]) -> None:
    whole = b"".join(parts)
    quick, slow = Peer(is_quick=True), Peer(is_quick=False)
    at = 0
    for cut in [*cuts, len(whole)]:
        for peer in (quick, slow):
            peer.feed(whole[at : at + cut])
        at += cut
    assert quick.state() == slow.state()


@given(
    st.lists(PARTS.filter(lambda part: part[3] != frames.GOAWAY), max_size=10),
    st.lists(st.integers(1, 400), max_size=6),
    st.sets(st.integers(4, CALLS + 1)),
)
def test_calls_after_replies_match_those_of_a_client_that_reads_first(
    parts: list[bytes], cuts: list[int], follows: set[int]
) -> None:
    whole = b"".join(parts)
    quick, slow = Peer(is_quick=True), Peer(is_quick=False)
    at = 0
    for cut in [*cuts, len(whole)]:
        for peer in (quick, slow):
            peer.follows = follows
            peer.feed(whole[at : at + cut])
        at += cut
    assume(slow.http2.broken is None)  # calls made before that differ
    *quickly, quick_sent = quick.state()
    *slowly, slow_sent = slow.state()
    assert quickly == slowly
    assert frames_of(quick_sent) == frames_of(slow_sent)


def frames_of(sent: bytes) -> list[bytes]:
    """Return the frames in sorted order: answers to the server may precede or follow requests."""
    found, at = [], len(frames.PREFACE)
    while at < len(sent):
        stop = at + frames.FRAME_HEAD + int.from_bytes(sent[at : at + 3], "big")
        found.append(sent[at:stop])
        at = stop
    return sorted(found)


def test_repeated_replies_are_taken_together_with_window_updates() -> None:
    peer = Peer(is_quick=True)
    window = peer.http2.sender.window
    peer.feed(reply(9) + update(100) + reply(13) + reply(11) + update(20))
    assert peer.quick == 3
    assert [slot for slot, _ in peer.ended[-3:]] == [4, 6, 5]
    assert peer.http2.sender.window == window + 120


def test_a_reply_is_followed_by_the_next_request() -> None:
    peer = Peer(is_quick=True)
    peer.connection.take()
    peer.follows = {4}
    peer.feed(reply(9) + reply(11))
    assert peer.quick == 2
    new = 2 * CALLS + 5  # the streams before it have odd numbers up to 2 * CALLS + 3
    assert b"".join(map(bytes, peer.connection.take())) == patch(REQUEST, new)
    peer.feed(reply(new))
    assert peer.ended[-1] == (4, 0)
    assert peer.quick == 3


def test_a_request_without_a_free_stream_is_late() -> None:
    peer = Peer(is_quick=True)
    peer.http2.limit = 1
    peer.connection.take()
    peer.follows = {4}
    peer.feed(reply(9))
    assert [call.slot for call in peer.plain.late] == [4]
    assert peer.connection.take() == []


def test_no_stream_is_opened_beyond_the_limit() -> None:
    peer = Peer(is_quick=True)
    peer.feed(limit(1))
    assert not peer.plain.open(Caller(99), REQUEST)


def limit(streams: int) -> bytes:
    """SETTINGS that allow this many concurrent streams."""
    setting = (frames.MAX_CONCURRENT_STREAMS << 32 | streams).to_bytes(6, "big")
    return frames.frame(frames.SETTINGS, 0, 0, setting)
