"""Intervals of differences: robust against drift and stalls, and still sensitive."""

import math

import numpy as np
import pytest

from inferometer.compare.differences import paired_percent, unpaired_percent
from inferometer.stats.estimate import Estimate
from inferometer.stats.intervals import student_t


@pytest.mark.parametrize(
    ("share", "freedom", "expected"),
    [
        (0.975, 1, 12.706),
        (0.975, 2, 4.303),
        (0.975, 3, 3.182),
        (0.995, 8, 3.355),
        (0.9975, 18, 3.197),
        (0.975, 31, 2.040),
    ],
)
def test_students_t_matches_the_tables(share, freedom, expected):
    assert student_t(share, freedom) == pytest.approx(expected, abs=5e-4)


def test_a_constant_ratio_is_found_exactly():
    base = [100.0, 90.0, 120.0, 80.0, 100.0]
    found = paired_percent(base, [1.1 * value for value in base], looks=4)
    assert found.value == pytest.approx(10)
    assert found.low == pytest.approx(10)
    assert found.high == pytest.approx(10)


def test_drift_is_not_a_difference():
    """The order alternates between rounds, and every turn is two percent slower than the last."""
    times = [1.02**turn for turn in range(40)]
    first, second = times[::2], times[1::2]
    base = [first[number] if number % 2 == 0 else second[number] for number in range(20)]
    other = [second[number] if number % 2 == 0 else first[number] for number in range(20)]
    found = paired_percent(base, other, looks=1)
    assert found.value == pytest.approx(0, abs=1e-9)
    assert found.high - found.low == pytest.approx(0, abs=1e-6)


def test_stalls_neither_hide_nor_create_a_difference():
    base = [100.0] * 30
    other = [110.0 + number % 3 for number in range(30)]
    for spoiled in (4, 11, 17, 22):
        other[spoiled] *= 5
    found = paired_percent(base, other, looks=4)
    assert 9 < found.low < 11 < found.high < 13


def test_too_few_pairs_have_no_interval():
    found = paired_percent([100, 100, 100], [110, 110, 110], looks=1)
    assert found.value == pytest.approx(10)
    assert found.low is None


def test_more_looks_make_wider_intervals():
    random = np.random.RandomState(1)
    other = np.exp(random.normal(0, 0.1, 30))
    widths = [
        found.high - found.low for found in (paired_percent([1.0] * 30, other, looks) for looks in (1, 4, 40))
    ]
    assert widths == sorted(widths)
    assert widths[0] < widths[2]


def test_false_alarms_are_within_the_stated_rate():
    random = np.random.RandomState(2)
    alarms = 0
    for _ in range(2000):
        found = paired_percent(np.exp(random.normal(0, 0.1, 30)), np.exp(random.normal(0, 0.1, 30)), looks=1)
        alarms += not found.low <= 0 <= found.high
    assert 15 <= alarms <= 65  # 2 % of 2000 is 40


def test_separately_measured_figures_add_their_uncertainties():
    found = unpaired_percent(Estimate(100, 97, 103), Estimate(110, 106, 114), looks=1)
    assert found.value == pytest.approx(10)
    assert found.low < 10 - 100 * math.hypot(0.03, 0.036)
    assert found.high > 10 + 100 * math.hypot(0.03, 0.036)


def test_asymmetric_intervals_count_on_their_side():
    found = unpaired_percent(Estimate(100, 99, 101), Estimate(100, 99, 150), looks=1)
    assert found.high > 50
    assert -3 < found.low < 0
    found = unpaired_percent(Estimate(100, 99, 150), Estimate(100, 99, 101), looks=1)
    assert found.low < -33
    assert 0 < found.high < 3


@pytest.mark.parametrize("base", [Estimate(100), Estimate(100, 0, 300)])
def test_a_figure_without_an_interval_gives_no_interval(base):
    assert unpaired_percent(base, Estimate(110, 106, 114), looks=1).low is None


def test_an_unbounded_interval_can_be_written():
    found = paired_percent([1, 1, 1, 1], [1e-9, 1e9, 1e-9, 1e8], looks=100)
    assert math.isfinite(found.high)
    assert found.low >= -100
