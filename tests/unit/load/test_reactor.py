"""The reactor with more ready events than a round handles: nothing waits forever."""

import socket
import time
from collections.abc import Iterator
from functools import partial

import pytest

from inferometer.load.reactor import AT_ONCE, FEW, LONGEST_LATER, READ, EpollReactor

BUSY = 3 * AT_ONCE  # descriptors that are always ready


@pytest.fixture
def busy() -> Iterator[EpollReactor]:
    reactor = EpollReactor(time.monotonic_ns)
    pairs = [socket.socketpair() for _ in range(BUSY)]
    for ours, theirs in pairs:
        theirs.send(b"x")
        reactor.add(ours.fileno(), READ, lambda mask: None)
    yield reactor
    for pair in pairs:
        for each in pair:
            each.close()


def test_the_controller_is_served_in_every_round(busy: EpollReactor) -> None:
    ours, theirs = socket.socketpair()
    heard: list[bytes] = []
    busy.add_urgent(ours.fileno(), lambda mask: heard.append(ours.recv(1)))
    for number in range(10):
        theirs.send(b"%d" % number)
        busy.wait(None)
        assert len(heard) == number + 1
    ours.close()
    theirs.close()


def test_deferred_work_is_done_even_under_constant_load(busy: EpollReactor) -> None:
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
