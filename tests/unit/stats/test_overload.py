"""Rates beyond the capacity of a server."""

import pytest

from inferometer.stats.measurement import Estimate
from inferometer.stats.overload import is_beyond, is_within


@pytest.mark.parametrize(
    ("capacity", "per_s", "beyond", "within"),
    [
        (Estimate(100.0, 99.0, 101.0), 102.0, True, False),
        (Estimate(100.0, 98.0, 102.0), 102.0, True, False),  # above the one-sided 95 % bound
        (Estimate(100.0, 97.0, 103.0), 102.0, False, False),
        (Estimate(100.0, 100.0, 100.0), 100.2, False, False),  # no more than rounding
        (Estimate(100.0, 98.0, 102.0), 95.0, False, True),
        (Estimate(100.0), 150.0, False, False),  # the precision is unknown
    ],
)
def test_a_rate_is_compared_with_the_bounds_of_the_capacity(capacity, per_s, beyond, within):
    assert (is_beyond(capacity, per_s), is_within(capacity, per_s)) == (beyond, within)
