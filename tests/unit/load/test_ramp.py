"""Closed plans whose users start one after the other, on a simulated clock."""

import pytest

from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.load.plan import Closed
from tests.support.clock import FakeClock
from tests.support.simulation import FakeServer, Reply, SimulatedLoad

MS = NS_PER_MS
BEGUN_NS = 1000 * MS  # start of the clock


@pytest.fixture
def load():
    clock = FakeClock()
    server = FakeServer(lambda number, sent_ns: Reply(NS_PER_S, responses_ns=(100 * MS, 600 * MS, NS_PER_S)))
    return clock, SimulatedLoad(server, clock)


def running(simulated, after_ns):
    return simulated.collect(BEGUN_NS + after_ns, with_running=True).running


def sent_ms(simulated, after_ns):
    return sorted((int(sent_ns) - BEGUN_NS) // MS for sent_ns in running(simulated, after_ns).sent_ns)


def collect(clock, simulated, after_ns):
    until_ns = BEGUN_NS + after_ns
    while clock() < until_ns and not simulated.collect(until_ns).is_finished:
        pass


def test_users_start_evenly_over_the_ramp(load):
    clock, simulated = load
    simulated.apply(Closed(4, ramp_ns=400 * MS))
    assert clock() == BEGUN_NS  # apply() does not wait for the ramp
    collect(clock, simulated, 350 * MS)
    assert sent_ms(simulated, 350 * MS) == [0, 100, 200, 300]


def test_waiting_users_follow_the_ramp_of_a_later_plan(load):
    clock, simulated = load
    simulated.apply(Closed(4, ramp_ns=400 * MS))
    collect(clock, simulated, 150 * MS)
    simulated.apply(Closed(4, ramp_ns=600 * MS))  # two are left, 300 ms apart
    collect(clock, simulated, 800 * MS)
    assert sent_ms(simulated, 800 * MS) == [0, 100, 400, 700]


def test_waiting_users_do_not_start_if_a_later_plan_has_fewer(load):
    clock, simulated = load
    simulated.apply(Closed(4, ramp_ns=400 * MS))
    collect(clock, simulated, 150 * MS)
    simulated.apply(Closed(0))
    collect(clock, simulated, 1500 * MS)
    assert not len(running(simulated, 1500 * MS))
    assert simulated.totals().sent == 2


def test_requests_in_flight_are_reported_with_their_responses_so_far(load):
    clock, simulated = load
    simulated.apply(Closed(1))
    collect(clock, simulated, 700 * MS)
    found = running(simulated, 700 * MS)
    assert (found.times - BEGUN_NS).tolist() == [100 * MS, 600 * MS]
    assert (found.end_ns - BEGUN_NS).tolist() == [700 * MS]
    assert simulated.collect(BEGUN_NS + 710 * MS).running is None
