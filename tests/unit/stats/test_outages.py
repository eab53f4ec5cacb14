"""Outages of a server, and its recovery."""

import numpy as np

from inferometer.base import status
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.stats.outages import OutageWatch


def records(*rows):
    """(end in ms, latency in ms, status)."""
    return np.array([(end_ms * NS_PER_MS, took_ms * NS_PER_MS, code) for end_ms, took_ms, code in rows])


def course(*rows, pieces=1):
    watch = OutageWatch(start_ns=0)
    for part in np.array_split(records(*rows), pieces):
        watch.add(*part.T)
    return watch.outages()


GOOD = [(ms, 5, status.OK) for ms in range(100, 2000, 100)]
LOST = [(ms, 1, status.CONNECT) for ms in range(2000, 4000, 100)]
SLOW = [(ms, 900, status.OK) for ms in range(4000, 4500, 100)]
BACK = [(ms, 5, status.OK) for ms in range(4500, 8000, 100)]


def test_a_server_that_answers_was_never_gone():
    assert course(*GOOD) == ()
    assert course((100, 5, status.HTTP + 500), (200, 5, status.OK)) == ()


def test_outage_times_are_exact_however_records_arrive():
    for pieces in (1, 2, 7, 50):
        (found,) = course(*GOOD, *LOST, *SLOW, *BACK, pieces=pieces)
        assert (found.gone_s, found.noticed_s, found.back_s, found.recovered_s) == (1.9, 2.0, 4.0, 4.5)
        assert (found.lost, found.down_s, found.recovery_s) == (20, 2.1, 0.5)


def test_an_answer_that_is_read_late_does_not_lengthen_an_outage():
    watch = OutageWatch(start_ns=0)
    for rows in (GOOD, [(300, 5, status.OK)], LOST[:3], [(400, 5, status.OK)], LOST[3:], BACK):
        watch.add(*records(*rows).T)
    assert watch.outages()[0].gone_s == 1.9


def test_an_outage_without_an_end_has_none():
    (found,) = course(*GOOD, *LOST)
    assert found.back_s is None
    assert found.down_s is None
    assert found.recovery_s is None


def test_a_server_that_stays_slow_has_not_recovered():
    (found,) = course(*GOOD, *LOST, *[(ms, 900, status.OK) for ms in range(4000, 9000, 100)])
    assert found.back_s == 4.0
    assert found.recovered_s is None


def test_close_outages_are_merged_and_later_ones_are_separate():
    flicker = [(4000, 5, status.OK), (4100, 1, status.RESET)]
    (found,) = course(*GOOD, *LOST, *flicker, *[(ms, 5, status.OK) for ms in range(4200, 8000, 100)])
    assert found.lost == 21
    assert found.back_s == 4.2
    again = [(9000, 1, status.CONNECT), *((ms, 5, status.OK) for ms in range(9100, 11000, 100))]
    assert len(course(*GOOD, *LOST, *BACK, *again)) == 2


def test_times_count_from_the_start_of_the_level():
    watch = OutageWatch(start_ns=NS_PER_S)
    watch.add(*records(*GOOD, *LOST, *BACK).T)
    assert round(watch.outages()[0].gone_s, 6) == 0.9
