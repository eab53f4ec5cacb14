"""The HTTP/2 client against h2 as the server, back to back in memory."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferometer.wire import frames, http2
from inferometer.wire.headers import Headers, encode_block
from inferometer.wire.http2 import Http2Connection
from inferometer.wire.sender import Stream, render
from tests.support.samples import examples, sample

EXAMPLES = examples(60)
BLOCK = encode_block([(":method", "POST"), (":scheme", "http"), (":path", "/a"), (":authority", "b")])
MiB = 2**20


@dataclass
class Reply:
    """Events of one stream at the client."""

    head: Headers | None = None
    body: bytearray = field(default_factory=bytearray)
    ends: list[object] = field(default_factory=list)

    @property
    def end(self) -> object:
        (end,) = self.ends
        return end


@dataclass
class Replies:
    by_token: dict[object, Reply] = field(default_factory=dict)

    def __getitem__(self, token: object) -> Reply:
        return self.by_token.setdefault(token, Reply())

    def head(self, stream: Stream, headers: Headers) -> None:
        assert self[stream.token].head is None
        self[stream.token].head = headers

    def body(self, stream: Stream, data: bytes | bytearray | memoryview, start: int, stop: int) -> None:
        assert not self[stream.token].ends
        self[stream.token].body += data[start:stop]

    def whole(self, stream, data, start, stop, trailers):
        return b""

    def ended(self, stream: Stream, trailers: Headers | None) -> None:
        self[stream.token].ends.append(() if trailers is None else trailers.fields)

    def failed(self, stream: Stream, cause: str, code: int, text: str) -> None:
        self[stream.token].ends.append((cause, code))


class Pair:
    """The client and h2's server; bytes travel in random pieces."""

    def __init__(self, *, seed: int = 0, window: int = http2.WINDOW, **values: int) -> None:
        self.random = random.Random(seed)
        self.replies = Replies()
        self.client = Http2Connection(self.replies, window=window)
        self.server = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        )
        names = h2.settings.SettingCodes
        self.server.local_settings = h2.settings.Settings(
            client=False, initial_values={names[name]: value for name, value in values.items()}
        )
        self.server.initiate_connection()
        self.received: dict[int, bytearray] = {}
        self.ended: set[int] = set()
        self.log: list[tuple[int, int]] = []  # stream and size of each DATA frame received by the server
        self.greeting = self.server.data_to_send()
        self.deliver(self.greeting)  # h2 enforces its windows before the client can know them

    def travel(self) -> None:
        """Exchange bytes until neither side sends more."""
        while True:
            up = b"".join(self.client.take())
            down = self.server.data_to_send()
            if not up and not down:
                return
            for event in self.server.receive_data(up) if up else ():
                self._note(event)
            self.deliver(down)

    def deliver(self, down: bytes) -> None:
        while down:
            size = self.random.choice([1, 2, 9, 10, 100, 1000, len(down)])
            self.client.receive(bytearray(down[:size] + b"stale"), len(down[:size]))
            down = down[size:]

    def _note(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.DataReceived):
            self.received.setdefault(event.stream_id, bytearray()).extend(event.data)
            self.log.append((event.stream_id, len(event.data)))
            if event.flow_controlled_length:
                self.server.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            self.ended.add(event.stream_id)
        else:
            assert not isinstance(event, h2.events.ConnectionTerminated), event


HEAD = [(":status", "200"), ("content-type", "application/grpc")]
TRAILERS = [("grpc-status", "0")]


def test_one_call() -> None:
    pair = Pair()
    pair.client.open("a", render(BLOCK, b"question"))
    pair.travel()
    assert pair.received == {1: b"question"}
    assert pair.ended == {1}
    pair.server.send_headers(1, HEAD)
    pair.server.send_data(1, b"answer", pad_length=3)
    pair.server.send_headers(1, TRAILERS, end_stream=True)
    pair.travel()
    reply = pair.replies["a"]
    assert (bytes(reply.body), reply.end) == (b"answer", tuple(TRAILERS))


def test_thousand_calls_on_one_connection() -> None:
    pair = Pair()
    request = render(BLOCK, b"question")
    for n in range(1000):
        stream = pair.client.open(n, request)
        pair.travel()
        pair.server.send_headers(stream.id, HEAD)
        pair.server.send_data(stream.id, b"answer %d" % n)
        pair.server.send_headers(stream.id, TRAILERS, end_stream=True)
        pair.travel()
        assert bytes(pair.replies[n].body) == b"answer %d" % n
        assert pair.replies[n].end == tuple(TRAILERS)
    assert pair.client.broken is None


def test_large_tensor_goes_through_small_windows() -> None:
    pair = Pair(INITIAL_WINDOW_SIZE=65_535)
    tensor = random.Random(1).randbytes(MiB) * 64
    pair.client.open("a", render(BLOCK, (b"12345", tensor)))
    pair.travel()
    assert pair.ended == {1}
    assert pair.received[1] == b"12345" + tensor


@pytest.mark.parametrize("window", [1, 1000, 65_535, 2**20])
def test_streams_share_the_connection_fairly(window: int) -> None:
    size = 300_000 if window > 1 else 300
    pair = Pair(INITIAL_WINDOW_SIZE=window)
    for token in "abcd":
        pair.client.open(token, render(BLOCK, token.encode() * size))
    pair.travel()
    assert pair.ended == {1, 3, 5, 7}
    totals = dict.fromkeys((1, 3, 5, 7), 0)
    for stream_id, amount in pair.log:
        totals[stream_id] += amount
        unfinished = [total for total in totals.values() if total < size]
        # The first stream of a ring may be two frames ahead of one that has just had to wait for its window.
        assert not unfinished or max(totals.values()) - min(unfinished) <= 3 * 16384
    assert {len(body) for body in pair.received.values()} == {size}


def test_small_call_passes_large_ones() -> None:
    pair = Pair()
    for token in "ab":
        pair.client.open(token, render(BLOCK, bytes(20 * MiB)))
    for _ in range(20):
        for event in pair.server.receive_data(b"".join(pair.client.take())):
            pair._note(event)
        pair.deliver(pair.server.data_to_send())
    pair.client.open("c", render(BLOCK, b"small"))
    for _ in range(2):
        for event in pair.server.receive_data(b"".join(pair.client.take())):
            pair._note(event)
        pair.deliver(pair.server.data_to_send())
    assert pair.ended == {5}


def test_concurrent_streams_stay_within_the_limit() -> None:
    pair = Pair(MAX_CONCURRENT_STREAMS=3)
    request = render(BLOCK, b"x")
    pair.client.open(0, request)
    pair.travel()
    done, opened, running = 0, 1, [1]
    while done < 50:
        while pair.client.can_open:
            running.append(pair.client.open(opened, request).id)
            opened += 1
        assert len(running) == 3
        pair.travel()
        pair.server.send_headers(running.pop(pair.random.randrange(3)), HEAD + TRAILERS, end_stream=True)
        pair.travel()
        done += 1


# --- replies of every shape


@dataclass(frozen=True)
class Plan:
    """Actions of the server on one stream."""

    steps: tuple[tuple[object, ...], ...]
    size: int  # of the body
    end: object


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    steps: list[tuple[object, ...]] = [("interim",)] * draw(st.integers(0, 2))
    steps.append(("head", draw(st.booleans())))
    bodies = draw(
        st.lists(
            st.tuples(st.sampled_from([0, 1, 5, 300, 20_000]), st.none() | st.integers(0, 255)), max_size=4
        )
    )
    steps += [("body", size, padding) for size, padding in bodies]
    whole = sum(size for size, _ in bodies)
    kind = draw(st.sampled_from(["end", "trailers", "reset"]))
    if kind == "reset":
        cut = draw(st.integers(0, len(steps)))
        code = draw(st.sampled_from([0, 2, 8, 11]))
        sizes = [step[1] for step in steps[:cut] if step[0] == "body"]
        return Plan((*steps[:cut], ("reset", code)), sum(sizes), (http2.RESET, code))  # type: ignore[arg-type]
    trailers = tuple(TRAILERS) if kind == "trailers" else ()
    return Plan((*steps, (kind,)), whole, trailers)


def send_body(pair: Pair, stream_id: int, size: int, padding: int | None) -> None:
    overhead = 0 if padding is None else padding + 1
    while True:
        room = pair.server.local_flow_control_window(stream_id) - overhead
        part = min(size, 16_384 - overhead, max(room, 0))
        if part < min(size, 100) or room < 0:  # too little to continue
            pair.travel()
            room_then = pair.server.local_flow_control_window(stream_id) - overhead
            assert room_then > room, "the window is never given back"
            continue
        pair.server.send_data(stream_id, b"x" * part, pad_length=padding)
        size -= part
        if not size:
            return


def perform(pair: Pair, stream_id: int, step: tuple[Any, ...]) -> None:
    server = pair.server
    kind, *rest = step
    if kind == "interim":
        server.send_headers(stream_id, [(":status", "103"), ("link", "x")])
    elif kind == "head":
        extra = [("x-id", str(stream_id))] if rest[0] else []
        server.send_headers(stream_id, HEAD + extra)
    elif kind == "body":
        size, padding = rest
        send_body(pair, stream_id, size, padding)
    elif kind == "reset":
        server.reset_stream(stream_id, rest[0])
    elif kind == "end":
        server.end_stream(stream_id)
    else:
        server.send_headers(stream_id, TRAILERS, end_stream=True)


OTHER: tuple[Callable[[Pair], None], ...] = (
    lambda pair: pair.server.ping(b"12345678"),
    lambda pair: pair.server.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 70_000}),
    lambda pair: pair.server.increment_flow_control_window(5),
    lambda pair: None,
)


@settings(max_examples=max(EXAMPLES // 2, 1), deadline=None)
@given(
    st.lists(plans(), min_size=1, max_size=4),
    st.integers(0, 2**32),
    st.sampled_from([2000, 40_000, 65_535, 200_000, http2.WINDOW]),
)
def test_replies_are_what_the_server_sent(given_plans: list[Plan], seed: int, window: int) -> None:
    pair = Pair(seed=seed, window=window)
    for n in range(len(given_plans)):
        pair.client.open(n, render(BLOCK, b"question"))
    pair.travel()
    left = {2 * n + 1: list(plan.steps) for n, plan in enumerate(given_plans)}
    while left:
        stream_id = pair.random.choice(list(left))
        perform(pair, stream_id, left[stream_id].pop(0))
        if not left[stream_id]:
            del left[stream_id]
        pair.random.choice(OTHER)(pair)
        if pair.random.random() < 0.5:
            pair.travel()
    pair.travel()
    assert pair.client.broken is None
    assert not pair.client.streams
    for n, plan in enumerate(given_plans):
        assert bytes(pair.replies[n].body) == b"x" * plan.size
        assert pair.replies[n].end == plan.end


# --- GOAWAY and the end of the connection at every point


SCRIPT = [
    *((n, ("head", False)) for n in (1, 3, 5)),
    *((n, ("body", 100, None)) for n in (5, 3, 1)),
    *((n, ("trailers",)) for n in (3, 1, 5)),
]


@pytest.mark.parametrize("last", [0, 1, 3, 5])
@pytest.mark.parametrize("moment", range(len(SCRIPT) + 1))
def test_goaway_at_every_point(moment: int, last: int) -> None:
    pair = Pair(seed=moment)
    for token in (1, 3, 5):
        pair.client.open(token, render(BLOCK, b"question"))
    pair.travel()
    for stream_id, step in SCRIPT[:moment]:
        perform(pair, stream_id, step)
    finished = {stream_id for stream_id, step in SCRIPT[:moment] if step == ("trailers",)}
    pair.deliver(pair.server.data_to_send() + frames.goaway(last, 0, "restart"))
    assert not pair.client.can_open
    for stream_id, step in SCRIPT[moment:]:
        if stream_id <= last:
            perform(pair, stream_id, step)
    pair.deliver(pair.server.data_to_send())
    pair.client.eof()
    for stream_id in (1, 3, 5):
        answered = stream_id in finished or stream_id <= last
        expected = tuple(TRAILERS) if answered else (http2.REFUSED, 0)
        assert pair.replies[stream_id].end == expected


def test_connection_that_ends_at_every_byte() -> None:
    pair = Pair()
    for token in (1, 3, 5):
        pair.client.open(token, render(BLOCK, b"question"))
    up = b"".join(pair.client.take())
    pair.server.receive_data(up)
    for stream_id, step in SCRIPT:
        perform(pair, stream_id, step)
    raw = pair.greeting + pair.server.data_to_send()
    for cut in range(len(raw) + 1):
        replies = Replies()
        client = Http2Connection(replies)
        for token in (1, 3, 5):
            client.open(token, render(BLOCK, b"question"))
        client.receive(raw, cut)
        client.eof()
        ends = [replies[token].end for token in (1, 3, 5)]
        assert all(end in (tuple(TRAILERS), (http2.LOST, 0)) for end in ends)
        assert (cut == len(raw)) == (ends == [tuple(TRAILERS)] * 3)


@pytest.mark.sampled
def test_cancelling_at_random_never_confuses_either_side() -> None:
    for seed in range(sample(25, 400)):
        pair = Pair(seed=seed, window=70_000)
        choose = pair.random
        living: dict[int, Stream] = {}
        steps: dict[int, list[tuple[object, ...]]] = {}
        for n in range(40):
            stream = pair.client.open(n, render(BLOCK, bytes(choose.choice([10, 100_000]))))
            living[stream.id] = stream
            pair.travel()
            steps[stream.id] = [("head", True), ("body", 15_000, 3), ("trailers",)]
            for stream_id in list(steps):
                if choose.random() < 0.5:
                    try:
                        perform(pair, stream_id, steps[stream_id].pop(0))
                    except h2.exceptions.ProtocolError:  # the server knows that it was cancelled
                        steps[stream_id].clear()
                    if not steps[stream_id]:
                        del steps[stream_id]
            if choose.random() < 0.4:
                victim = choose.choice(list(living.values()))
                pair.client.cancel(victim)
                if not pair.replies[victim.token].ends:
                    pair.replies[victim.token].ends.append("cancelled")
            assert pair.client.broken is None
        pair.travel()
        assert pair.client.broken is None
        assert all(len(reply.ends) <= 1 for reply in pair.replies.by_token.values())
