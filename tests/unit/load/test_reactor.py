"""The reactor, over epoll and over the selector of other systems."""

import select
import selectors
import socket
import time
from collections.abc import Iterator
from functools import partial

import pytest

from inferometer.load.reactor import AT_ONCE, FEW, LONGEST_LATER, READ, WRITE, SocketReactor

BUSY = 3 * AT_ONCE  # descriptors that are always ready


@pytest.fixture(params=["epoll", "selector"])
def reactor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SocketReactor:
    if request.param == "selector":
        monkeypatch.delattr(select, "epoll")
        monkeypatch.setattr(selectors, "DefaultSelector", selectors.PollSelector)
    return SocketReactor(time.monotonic_ns)


@pytest.fixture
def busy(reactor: SocketReactor) -> Iterator[SocketReactor]:
    pairs = [socket.socketpair() for _ in range(BUSY)]
    for ours, theirs in pairs:
        theirs.send(b"x")
        reactor.add(ours.fileno(), READ, lambda mask: None)
    yield reactor
    for pair in pairs:
        for each in pair:
            each.close()


def test_the_controller_is_served_in_every_round(busy: SocketReactor) -> None:
    ours, theirs = socket.socketpair()
    heard: list[bytes] = []
    busy.add_urgent(ours.fileno(), lambda mask: heard.append(ours.recv(1)))
    for number in range(10):
        theirs.send(b"%d" % number)
        busy.wait(None)
        assert len(heard) == number + 1
    ours.close()
    theirs.close()


def test_deferred_work_is_done_even_under_constant_load(busy: SocketReactor) -> None:
    done: list[int] = []
    for number in range(1000):
        busy.do_later(partial(done.append, number))
    rounds = 0
    while len(done) < 1000:
        busy.wait(None)
        rounds += 1
        assert len(done) >= rounds // FEW
    assert done == list(range(1000))
    assert rounds <= LONGEST_LATER + 1


def test_deferred_work_stops_for_what_is_due() -> None:
    now = [0]
    reactor, done = SocketReactor(lambda: now[0]), []

    def work(number: int) -> None:
        done.append(number)
        now[0] += 1000

    for number in range(3 * FEW):
        reactor.do_later(partial(work, number))
    reactor.wait(1500)
    assert len(done) == 2
    reactor.wait(1500)  # a caller that is behind must not starve the answers
    assert len(done) == 2 + FEW
    reactor.wait(None)
    assert done == list(range(2 + 2 * FEW))


def test_a_wait_ends_at_its_time_and_not_before(reactor: SocketReactor) -> None:
    for wait_ns in (0, 30_000, 300_000, 1_200_000, 3_700_000):
        until_ns = time.monotonic_ns() + wait_ns
        reactor.wait(until_ns)
        assert time.monotonic_ns() >= until_ns


def test_an_event_ends_a_wait_early(reactor: SocketReactor) -> None:
    ours, theirs = socket.socketpair()
    heard: list[int] = []
    reactor.add(ours.fileno(), READ, heard.append)
    theirs.send(b"x")
    reactor.wait(time.monotonic_ns() + 3_600_000_000_000)
    assert heard == [READ]
    reactor.change(ours.fileno(), READ | WRITE)
    reactor.wait(None)
    assert heard == [READ, READ | WRITE]
    reactor.change(ours.fileno(), WRITE)
    reactor.wait(None)
    assert heard[2:] == [WRITE]
    reactor.remove(ours.fileno())
    ours.close()
    theirs.close()
