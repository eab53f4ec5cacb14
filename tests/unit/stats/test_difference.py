"""What two measurements say about each other."""

import math

import numpy as np
import pytest

from inferometer.stats.difference import Direction, difference, difference_of_samples
from inferometer.stats.measurement import Estimate


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (Estimate(100, 99, 101), Estimate(110, 109, 111), Direction.HIGHER),
        (Estimate(110, 109, 111), Estimate(100, 99, 101), Direction.LOWER),
        (Estimate(100, 95, 105), Estimate(104, 99, 109), Direction.NONE_SHOWN),
        (Estimate(100, 99, 101), Estimate(110), Direction.UNKNOWN),
        (Estimate(100, 0, 300), Estimate(110, 109, 111), Direction.NONE_SHOWN),
        (Estimate(0, 0, 0), Estimate(110, 109, 111), Direction.UNKNOWN),
    ],
)
def test_figures_differ_when_the_interval_of_their_ratio_leaves_zero_out(before, after, change):
    assert difference(before, after).change is change


def test_difference_has_a_size_and_an_interval():
    found = difference(Estimate(100, 98, 102), Estimate(110, 107, 113))
    assert found.relative == pytest.approx(0.1)
    assert found.low < 0.1 < found.high
    assert found.high - found.low == pytest.approx(2 * math.hypot(0.02, 3 / 110) * 1.1, rel=0.02)


def test_swapping_the_two_turns_the_answer_round():
    one, other = Estimate(100, 90, 115), Estimate(140, 130, 155)
    there, back = difference(one, other), difference(other, one)
    assert (1 + there.low) * (1 + back.high) == pytest.approx(1)
    assert (1 + there.high) * (1 + back.low) == pytest.approx(1)


@pytest.mark.parametrize(
    ("shift", "change"), [(0.0, Direction.NONE_SHOWN), (0.1, Direction.HIGHER), (-0.1, Direction.LOWER)]
)
def test_samples_of_windows_are_compared_by_their_means(shift, change):
    rng = np.random.default_rng(4)
    before, after = rng.normal(100, 2, 20), rng.normal(100, 2, 20) * (1 + shift)
    assert difference_of_samples(before, after).change is change


@pytest.mark.parametrize("few", [(), (1.0,), (1.0,) * 7])
def test_too_few_samples_tell_nothing(few):
    assert difference_of_samples(few, (1.0,) * 20).change is Direction.UNKNOWN
