"""The rule of every claim: what an interval shows, rules out, or leaves open."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.stats.estimate import Estimate
from inferometer.stats.verdict import (
    INCONCLUSIVE,
    NOT_SHOWN,
    SHOWN,
    is_precise,
    percent_words,
    rule,
    rule_either_way,
    times_longer,
)


@pytest.mark.parametrize(
    ("found", "given", "ruling"),
    [
        (Estimate(5.0, 1.0, 9.0), {}, SHOWN),
        (Estimate(5.0, -1.0, 9.0), {}, INCONCLUSIVE),
        (Estimate(0.0, -3.0, 3.0), {"matters": 10.0}, NOT_SHOWN),
        (Estimate(0.0, -30.0, 30.0), {"matters": 10.0}, INCONCLUSIVE),
        (Estimate(-40.8, -83.0, 107.0), {"matters": 10.0, "is_above": False}, INCONCLUSIVE),
        (Estimate(-5.0, -9.0, -1.0), {"matters": 10.0, "is_above": False}, SHOWN),
        (Estimate(0.0, -3.0, 3.0), {"matters": 10.0, "detectable": 61.0}, INCONCLUSIVE),  # without power
        (Estimate(0.0), {"matters": 10.0}, INCONCLUSIVE),
        (Estimate(0.0, -math.inf, math.inf), {"matters": 10.0}, INCONCLUSIVE),
        (Estimate(300.0, 60.0, math.inf), {}, SHOWN),  # at least 60
        (Estimate(0.0, -math.inf, 3.0), {"matters": 10.0}, INCONCLUSIVE),
        (Estimate(4.0, math.nan, 5.0), {"limit": 1.0}, INCONCLUSIVE),
        (Estimate(4.0, 2.0, 5.0), {"limit": 5.0}, NOT_SHOWN),
        (Estimate(4.0, 2.0, 5.1), {"limit": 5.0}, INCONCLUSIVE),
    ],
)
def test_rule(found, given, ruling):
    assert rule(found, **given).ruling == ruling


@pytest.mark.parametrize(
    ("percent", "words"),
    [
        (Estimate(3.1, 1.9, 4.4), "+3.1 % (+1.9 to +4.4)"),
        (Estimate(3.1), "+3.1 %"),
        (Estimate(95.9, -100.0, 570_920_956_967.0), "inconclusive (interval wider than a factor of 10)"),
        (Estimate(95.9, 10.0, 570_920_956_967.0), "+10.0 % or more"),
        (Estimate(1e5, 99_910.0, 1e6), "+99,910 % or more"),
        (Estimate(2e6, 1.5e6, 3e6), "+999,999 % or more"),
        (Estimate(1500.0, 1200.0, 1900.0), "+1,500 % (+1,200 to +1,900)"),
    ],
)
def test_intervals_without_an_end_are_not_printed(percent, words):
    assert percent_words(percent) == words


ENDS = st.floats(-99.99, 1e12)


@given(st.tuples(ENDS, ENDS, ENDS).map(sorted), st.floats(0.1, 100))
def test_a_ruling_is_what_the_interval_supports(ends, matters):
    low, value, high = ends
    ruling = rule_either_way(Estimate(value, low, high), matters).ruling
    assert (ruling == SHOWN) == (low > 0 or high < 0)
    assert ruling != NOT_SHOWN or (-matters < low <= 0 <= high < matters)


def test_precision_and_the_time_it_takes():
    assert is_precise(Estimate(100.0, 90.0, 110.0))
    assert not is_precise(Estimate(100.0, -95.0, 295.0))
    assert not is_precise(Estimate(100.0))
    assert times_longer(Estimate(0.0, -20.0, 25.0)) == pytest.approx(5.5, abs=0.1)
    assert times_longer(Estimate(0.0, -1.0, 1.0)) is None
    assert times_longer(Estimate(0.0, -99.0, 1e9)) is None
