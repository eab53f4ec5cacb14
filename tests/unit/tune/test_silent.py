"""Missing replies make a trial fail."""

from types import SimpleNamespace
from typing import Any

import pytest

from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.load.plan import Closed
from inferometer.stats.watcher import Watcher
from inferometer.tune.meter import DRAIN_S, QUIET_NS, drained
from tests.support.clock import FakeClock
from tests.support.simulation import FakeServer, Reply, SimulatedLoad


@pytest.mark.parametrize(("lost", "slow_ns"), [(0, 40 * NS_PER_MS), (3, 40 * NS_PER_MS), (0, 3 * NS_PER_S)])
def test_unanswered_requests_are_counted_and_slow_ones_awaited(lost, slow_ns):
    clock = FakeClock()
    script = lambda number, sent: Reply(3600 * NS_PER_S if number < lost else slow_ns)  # noqa: E731
    load = SimulatedLoad(FakeServer(script), clock)
    load.apply(Closed(8))
    load.collect(clock() + 5 * slow_ns)
    instrument: Any = SimpleNamespace(load=load, clock=clock, watcher=Watcher())
    level: Any = SimpleNamespace(measurement=SimpleNamespace(latency=SimpleNamespace(max_ns=slow_ns)))
    ended_ns = clock()
    assert drained(instrument, level) == lost
    assert clock() - ended_ns < max(QUIET_NS, 3 * slow_ns) + NS_PER_S


@pytest.mark.parametrize(("lost", "slow_ns"), [(3, 40 * NS_PER_MS), (0, 9 * NS_PER_S)])
def test_slow_answers_are_awaited_for_a_limited_time(lost, slow_ns):
    clock = FakeClock()
    script = lambda number, sent: Reply(3600 * NS_PER_S if number < lost else slow_ns)  # noqa: E731
    load = SimulatedLoad(FakeServer(script), clock)
    load.apply(Closed(8))
    load.collect(clock() + slow_ns + NS_PER_MS)
    instrument: Any = SimpleNamespace(load=load, clock=clock, watcher=Watcher())
    level: Any = SimpleNamespace(measurement=SimpleNamespace(latency=SimpleNamespace(max_ns=slow_ns)))
    ended_ns = clock()
    assert drained(instrument, level, DRAIN_S) == lost
    assert lost or clock() - ended_ns < 2 * DRAIN_S * NS_PER_S
