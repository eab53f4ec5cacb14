"""Start of a closed load: new connections in bursts, open ones at once."""

from types import SimpleNamespace
from typing import cast

import pytest

from inferometer.load.engine import Engine
from inferometer.load.link import OpenLink
from inferometer.load.plan import Closed
from inferometer.load.plan_clock import BURST, PACE_NS
from inferometer.records.ring import RingWriter
from tests.support.clock import FakeClock
from tests.support.simulation import new_cells


class SlowLink:
    """Link whose connections open when the reactor waits; it never answers."""

    def __init__(self, clock: FakeClock, *, is_open: bool) -> None:
        self.opening = 0
        self.sent: dict[int, int] = {}  # send time by slot
        self._clock = clock
        self._is_open = is_open

    def send(self, slot, step, now_ns, mark) -> None:
        self.sent[slot] = now_ns
        self.opening += not self._is_open

    def wait(self, until_ns) -> None:
        self.opening = 0
        if until_ns is not None:
            self._clock.move_to(until_ns)


@pytest.mark.parametrize("is_open", [False, True], ids=["new", "open"])
def test_new_connections_are_opened_in_bursts(is_open):
    clock = FakeClock()
    link = SlowLink(clock, is_open=is_open)
    engine = Engine(
        steps=1,
        open_link=cast("OpenLink", lambda callbacks: link),
        reactor=SimpleNamespace(wait=link.wait),
        ring=RingWriter(new_cells()),
        clock=clock,
        on_crowded=lambda: None,
    )
    begun_ns = clock()
    engine.apply(Closed(300))
    engine.run(None, lambda: engine.is_applied)
    assert sorted(link.sent) == list(range(300))
    bursts = 1 if is_open else -(-300 // BURST)
    times = [
        sum(when == begun_ns + number * PACE_NS for when in link.sent.values()) for number in range(bursts)
    ]
    assert sum(times) == 300
    assert is_open or max(times) == BURST
