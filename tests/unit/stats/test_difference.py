"""Differences between two measurements."""

import math

import pytest

from inferometer.stats.estimate import Estimate
from inferometer.stats.intervals import relative_difference


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (Estimate(100, 99, 101), Estimate(110, 109, 111), "higher"),
        (Estimate(110, 109, 111), Estimate(100, 99, 101), "lower"),
        (Estimate(100, 95, 105), Estimate(104, 99, 109), "none shown"),
        (Estimate(100, 99, 101), Estimate(110), "unknown"),
        (Estimate(100, 0, 300), Estimate(110, 109, 111), "none shown"),
        (Estimate(0, 0, 0), Estimate(110, 109, 111), "unknown"),
    ],
)
def test_figures_differ_when_the_interval_of_their_ratio_leaves_zero_out(before, after, change):
    found = relative_difference(before, after)
    if found.low is None or found.high is None:
        assert change == "unknown"
    else:
        assert change == ("higher" if found.low > 0 else "lower" if found.high < 0 else "none shown")


def test_difference_has_a_size_and_an_interval():
    found = relative_difference(Estimate(100, 98, 102), Estimate(110, 107, 113))
    assert found.value == pytest.approx(0.1)
    assert found.low < 0.1 < found.high
    assert found.high - found.low == pytest.approx(2 * math.hypot(0.02, 3 / 110) * 1.1, rel=0.02)


def test_swapping_both_inverts_the_result():
    one, other = Estimate(100, 90, 115), Estimate(140, 130, 155)
    there, back = relative_difference(one, other), relative_difference(other, one)
    assert (1 + there.low) * (1 + back.high) == pytest.approx(1)
    assert (1 + there.high) * (1 + back.low) == pytest.approx(1)


def test_a_figure_that_was_zero_has_no_relative_difference():
    assert relative_difference(Estimate(0), Estimate(0)) == Estimate(0.0)
    assert relative_difference(Estimate(0), Estimate(0.5)) == Estimate(math.inf)
    assert relative_difference(Estimate(0.5), Estimate(1)).value == 1
    assert relative_difference(Estimate(1), Estimate(0.5)).value == -0.5
