"""Readings of the server's counters that fail or hang."""

import pytest

from inferometer.base.deadline import Deadline, End
from inferometer.base.errors import PeerError
from inferometer.base.units import NS_PER_S
from inferometer.measure.counters import LONGEST_READ_S, REST, BoundedReading
from tests.support.clock import FakeClock


class Statistics:
    """Statistics that take `takes_ns` and fail while `fails`."""

    def __init__(self, clock):
        self.clock, self.takes_ns, self.fails, self.asked, self.limits = clock, 0, False, 0, []

    def __call__(self):
        self.asked += 1
        self.limits.append(Deadline.after(20.0).left_s())
        self.clock.now_ns += self.takes_ns
        if self.fails:
            raise PeerError("no complete reply")
        return {}


@pytest.fixture
def statistics():
    return Statistics(FakeClock())


def reading(statistics):
    return BoundedReading(statistics, End("the run had to end"), statistics.clock)


def test_a_reading_has_a_limit_of_its_own(statistics):
    assert reading(statistics)() == {}
    assert statistics.limits[0] <= LONGEST_READ_S


def test_statistics_that_hang_are_asked_for_a_small_share_of_the_time(statistics):
    read = reading(statistics)
    statistics.takes_ns, statistics.fails = round(LONGEST_READ_S * NS_PER_S), True
    begun_ns, end_ns = statistics.clock.now_ns, statistics.clock.now_ns + 600 * NS_PER_S
    while statistics.clock.now_ns < end_ns:
        with pytest.raises(PeerError, match="no complete reply"):
            read()
        statistics.clock.now_ns += NS_PER_S  # the load in between
    hung_ns = statistics.asked * statistics.takes_ns
    assert hung_ns / (statistics.clock.now_ns - begun_ns) < 1.5 / REST


def test_statistics_that_fail_at_once_are_asked_again_at_once(statistics):
    read = reading(statistics)
    statistics.fails = True
    with pytest.raises(PeerError):
        read()
    statistics.fails = False
    assert read() == {}
