"""A connection of the HTTP link: the fast path to the next request, and replies that need full parsing."""

import itertools
import random
import socket
import struct
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from inferometer.base import status as outcome
from inferometer.base.units import monotonic_ns
from inferometer.load.connection import SMALL_BUFFER
from inferometer.load.http1 import Http1Link
from inferometer.load.link import NOTHING, Callbacks, LinkSetup
from inferometer.load.reactor import AT_ONCE, READ, SocketReactor
from inferometer.services.endpoint import Endpoint
from inferometer.services.text_reply import TextReader
from inferometer.services.traffic import Wiring
from tests.support.openai import DONE, END, LAST_CHUNK, ROLE, chunk, delta

REQUEST = b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n"
USUAL = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
CHUNK = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % len(USUAL)
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKS_END = b"\r\n0\r\n\r\n"


class BusyReactor(SocketReactor):
    """Reactor that does no deferred work while it is busy."""

    is_busy = False

    def _do_some(self, due_ns: int | None, *, is_more: bool) -> None:
        if not self.is_busy:
            super()._do_some(due_ns, is_more=is_more)


class Pair:
    """The link's connection for slot 0, and the server's end of it. One thread, so a piece sent is a piece read."""

    def __init__(self, reader: TextReader | None = None) -> None:
        self.quick: list[int] = []  # bytes of replies taken on the fast path
        self.slow: list[tuple[int, int]] = []  # status and bytes of all others
        self.responses: list[tuple[int, int]] = []  # responses of these, and how many have a time
        self.goes_on = True
        self.reactor = BusyReactor(monotonic_ns)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            wiring = Wiring(Endpoint("127.0.0.1", listener.getsockname()[1]), reader=reader)
            setup = LinkSetup(wiring, [REQUEST], None, self.reactor, monotonic_ns)
            self.link = Http1Link(setup, Callbacks(self._finish, self._next_step, lambda status, text: None))
            self.link.prepare(1)
            while self.link.opening:
                self.reactor.wait(None)
            self.server, _ = listener.accept()
        self.ask()
        self.answer(USUAL)  # now the usual reply

    def _finish(self, slot: int, status: int, *times_and_size: Any, **more: Any) -> None:
        received, responses, times = times_and_size[4:7]
        self.slow.append((status, received))
        self.responses.append((responses, len(times)))

    def _next_step(
        self, slot: int, sent_ns: int, wrote_ns: int, now_ns: int, received: int
    ) -> tuple[int, int]:
        self.quick.append(received)
        return (0, now_ns) if self.goes_on else NOTHING

    def ask(self) -> None:
        self.link.send(0, 0, monotonic_ns(), None)
        assert self.server.recv(1000) == REQUEST

    def answer(self, piece: bytes) -> None:
        self.server.sendall(piece)
        self.reactor.wait(None)


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.link.close(0)
    made.server.close()


def test_a_flood_of_tiny_chunks_is_received_in_small_portions(pair: Pair) -> None:
    """The controller is served between two portions."""
    pair.ask()
    pair.answer(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    flood = b"1\r\nx\r\n" * 5000
    pair.answer(flood)
    before = pair.link.heard
    pair.answer(flood)
    assert 0 < pair.link.heard - before <= SMALL_BUFFER


def test_a_repeated_reply_is_followed_by_the_next_request_at_once(pair: Pair) -> None:
    pair.ask()
    for _ in range(3):
        pair.answer(USUAL)
        assert pair.server.recv(1000) == REQUEST
    assert (pair.slow, pair.quick) == ([(outcome.OK, len(USUAL))], [len(USUAL)] * 3)


def test_the_usual_reply_inside_another_does_not_end_a_request(pair: Pair) -> None:
    pair.ask()
    pair.slow.clear()
    pair.answer(CHUNK)
    pair.answer(USUAL)
    assert (pair.slow, pair.quick) == ([], [])
    pair.answer(CHUNKS_END)
    assert (pair.slow, pair.quick) == ([(outcome.OK, len(CHUNK + USUAL + CHUNKS_END))], [])


def test_an_unsolicited_usual_reply_closes_the_connection(pair: Pair) -> None:
    pair.ask()
    pair.slow.clear()
    pair.goes_on = False
    pair.answer(USUAL)
    pair.answer(USUAL)
    assert (pair.slow, pair.quick) == ([], [len(USUAL)])
    assert pair.server.recv(1000) == b""


@pytest.mark.parametrize("seed", range(20))
def test_events_are_counted_in_any_grouping(seed: int) -> None:
    """One by one, several at once, with a part of the next, or split: as for a slow client."""
    draw = random.Random(seed)
    words = ["x" * draw.choice((1, 5, 5, 5, 12)) for _ in range(draw.randrange(2, 40))]
    chunks = [chunk(piece) for piece in (ROLE, *map(delta, words), END, DONE)]
    whole = b"".join((STREAM, *chunks, LAST_CHUNK))
    ends = list(itertools.accumulate(map(len, (STREAM, *chunks))))
    cuts = {*draw.sample(ends, len(ends) // 3), *draw.sample(range(1, len(whole)), 3)}
    made = Pair(TextReader())
    made.ask()
    for begin, end in itertools.pairwise((0, *sorted(cuts), len(whole))):
        made.answer(whole[begin:end])
    assert made.slow[1:] == [(outcome.OK, len(whole))]
    assert made.responses[1:] == [(len(words), len(words))]
    made.link.close(0)
    made.server.close()


RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing resets


@pytest.mark.parametrize("is_reset", [False, True])
@pytest.mark.parametrize("is_whole", [False, True])
def test_the_end_of_a_connection_follows_earlier_data(is_reset: bool, is_whole: bool) -> None:
    made = Pair(TextReader())
    made.ask()
    made.reactor.is_busy = True
    words = b"".join(map(chunk, (ROLE, delta("one"), delta("two"), END, DONE)))
    made.answer(STREAM + words + (LAST_CHUNK if is_whole else b""))
    if is_reset:
        made.server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    made.server.close()
    made.reactor.wait(None)
    made.reactor.wait(None)
    assert len(made.slow) == 1  # the usual reply at the start
    made.reactor.is_busy = False
    made.reactor.wait(None)
    (status, received) = made.slow[1]
    assert status == (outcome.OK if is_whole else outcome.RESET)
    assert received == len(STREAM + words + (LAST_CHUNK if is_whole else b""))
    assert len(made.slow) == 2
    made.link.close(0)


def test_deferred_data_is_read_after_all_received_data_is_timestamped() -> None:
    reactor, seen = SocketReactor(monotonic_ns), []
    pairs = [socket.socketpair() for _ in range(AT_ONCE + 10)]

    def ready(number: int, mask: int) -> None:
        pairs[number][0].recv(1)
        seen.append("came")
        reactor.do_later(lambda: seen.append("done"))

    for number, (ours, theirs) in enumerate(pairs):
        reactor.add(ours.fileno(), READ, partial(ready, number))
        theirs.send(b"x")
    while len(seen) < 2 * len(pairs):
        reactor.wait(None)
    assert seen.count("came") == seen.count("done") == len(pairs)
    assert "done" not in seen[: len(pairs)]
    for pair in pairs:
        for end in pair:
            end.close()
