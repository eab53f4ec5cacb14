"""The HTTP/2 client always observes the server's windows, however they change, and all data arrives."""

import random
from collections.abc import Iterator
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from inferometer.wire import frames
from inferometer.wire.headers import Headers, encode_block
from inferometer.wire.http2 import Http2Connection
from inferometer.wire.sender import Stream, render
from tests.support.samples import examples

EXAMPLES = examples(60)
BLOCK = encode_block([(":method", "POST"), (":scheme", "http"), (":path", "/a"), (":authority", "b")])
POOL = random.Random(1).randbytes(300_000)


class Ignore:
    def head(self, stream: Stream, headers: Headers) -> None: ...

    def body(self, stream: Stream, data: bytes | bytearray | memoryview, start: int, stop: int) -> None: ...

    def whole(self, stream, data, start, stop, trailers):
        return b""

    def ended(self, stream: Stream, trailers: Headers | None) -> None: ...

    def failed(self, stream: Stream, cause: str, code: int, text: str) -> None: ...


class Ledger:
    """The windows from the client's point of view, and the received data."""

    def __init__(self) -> None:
        self.client = Http2Connection(Ignore())
        self.initial = self.connection = 65_535
        self.frame_size = 16_384
        self.announced: list[tuple[int, int]] = []  # unacknowledged settings
        self.windows: dict[int, int] = {}
        self.early: dict[int, int] = {}  # window updates for streams without received data
        self.received: dict[int, bytes] = {}
        self.ended: list[int] = []

    def set(self, initial: int, frame_size: int) -> None:
        self.announced.append((initial, frame_size))
        self._tell(frames.settings({frames.INITIAL_WINDOW_SIZE: initial, frames.MAX_FRAME_SIZE: frame_size}))

    def _acknowledged(self) -> None:
        """Apply the settings; data sent before the acknowledgement was bound by the old ones."""
        initial, self.frame_size = self.announced.pop(0)
        change = initial - self.initial
        self.initial = initial
        self.windows = {stream_id: window + change for stream_id, window in self.windows.items()}

    def open(self, size: int, cut: int) -> None:
        stream = self.client.open(None, render(BLOCK, (POOL[:cut], memoryview(POOL)[cut:size])))
        self.received[stream.id] = b""

    def widen(self, stream_id: int, increment: int) -> None:
        if stream_id in self.windows:
            self.windows[stream_id] += increment
        elif stream_id:
            self.early[stream_id] = self.early.get(stream_id, 0) + increment
        else:
            self.connection += increment
        self._tell(frames.window_update(stream_id, increment))

    def _tell(self, raw: bytes) -> None:
        self.client.receive(raw, len(raw))
        assert self.client.broken is None

    def read(self, limit: int) -> int:
        """Read and check the client's data; return its size."""
        before = sum(map(len, self.received.values()))
        for kind, flags, stream_id, payload in read_frames(b"".join(self.client.take(limit))):
            if kind == frames.HEADERS:
                self.windows[stream_id] = self.initial + self.early.pop(stream_id, 0)
            if kind == frames.SETTINGS and flags & frames.ACK:
                self._acknowledged()
            if kind != frames.DATA:
                continue
            assert stream_id not in self.ended
            assert 0 < len(payload) <= self.frame_size
            self.windows[stream_id] -= len(payload)
            self.connection -= len(payload)
            assert self.windows[stream_id] >= 0
            assert self.connection >= 0
            self.received[stream_id] += payload
            if flags & frames.END_STREAM:
                self.ended.append(stream_id)
        return sum(map(len, self.received.values())) - before


def read_frames(raw: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    raw = raw.removeprefix(frames.PREFACE)
    while raw:
        size = int.from_bytes(raw[:3], "big")
        yield raw[3], raw[4], int.from_bytes(raw[5:9], "big"), raw[9 : 9 + size]
        raw = raw[9 + size :]


AMOUNTS = (0, 1, 100, 16_383, 16_384, 65_535, 200_000)
MOVES = (
    *product(["set"], AMOUNTS, (16_384, 20_000, 2**20)),
    *product(["open"], (1, 100, 16_384, 16_385, 65_536, 300_000), AMOUNTS),
    *product(["widen"], range(4), AMOUNTS[1:]),
    *product(["read"] * 9, (1, 50_000, 2**20), [None]),
)


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(st.sampled_from(MOVES), max_size=25))
def test_every_byte_arrives_within_the_windows(given_moves) -> None:
    ledger = Ledger()
    ledger.set(65_535, 16_384)
    lengths: dict[int, int] = {}
    for move, first, second in given_moves:
        if move == "set":
            ledger.set(first, second)
        elif move == "open":
            lengths[2 * len(lengths) + 1] = first
            ledger.open(first, min(first, second))
        elif move == "read":
            ledger.read(first)
        elif not first or 2 * first - 1 in set(lengths) - set(ledger.ended):
            ledger.widen(max(2 * first - 1, 0), second)
    ledger.read(2**30)
    assert not ledger.client.wants_to_send
    blocked = [window for stream_id, window in ledger.windows.items() if stream_id not in ledger.ended]
    assert ledger.connection == 0 or all(window <= 0 for window in blocked)  # data waits only for a window
    ledger.set(2**30, 2**20)
    ledger.widen(0, 2**30)
    while ledger.read(2**20):
        pass
    assert {stream_id: len(body) for stream_id, body in ledger.received.items()} == lengths
    assert all(body == POOL[: len(body)] for body in ledger.received.values())
    assert sorted(ledger.ended) == sorted(lengths)
