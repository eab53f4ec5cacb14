"""Percentiles follow one definition: index floor(p/100 * (n-1) + 0.5) of the sorted values."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.stats.series import Series, percentile

durations = st.lists(st.integers(0, 10**10), min_size=1, max_size=200)


def array(values):
    return np.array(values, dtype=np.int64)


@pytest.mark.parametrize(
    ("values", "p", "expected"),
    [
        ([5], 99, 5),
        ([1, 2], 50, 2),
        ([1, 2, 3], 50, 2),
        ([1, 2, 3, 4], 50, 3),
        (list(range(1, 101)), 50, 51),
        (list(range(1, 101)), 90, 90),
        (list(range(1, 101)), 95, 95),
        (list(range(1, 101)), 99, 99),
        (list(range(1, 102)), 99, 100),
    ],
)
def test_percentile_takes_the_nearest_rank(values, p, expected):
    assert percentile(array(values[::-1]), p) == expected


@given(durations)
def test_mean_and_deviation_are_whole_and_truncated(values):
    assert Series(array(values)).mean == sum(values) // len(values)
    if len(values) > 1:
        exact = statistics.stdev(values)
        assert math.isclose(Series(array(values)).deviation, exact, rel_tol=1e-6, abs_tol=1.5)


def test_deviation_of_one_value_is_zero():
    assert Series(array([7])).deviation == 0


@given(durations)
def test_distribution_holds_every_value_once(values):
    found = Series(array(values)).distribution((33,))
    assert found.count == len(values) == sum(count for _, count in found.histogram)
    assert (found.min_ns, found.max_ns) == (min(values), max(values))
    assert found.percentile_ns(33) == sorted(values)[math.floor(0.33 * (len(values) - 1) + 0.5)]
    for bound, _ in found.histogram:
        assert bound > found.min_ns


def test_no_values_give_an_empty_distribution():
    assert Series(array([])).distribution().percentile_ns(50) == 0
