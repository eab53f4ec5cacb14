"""The fit of the limit: what its interval depends on."""

import math

import numpy as np
import pytest

from inferometer.find.fit import CURVE_ERROR, Capacity, Observed, fit

SHARE = 0.01
CAPACITY = Capacity(200.0, 0.02, ends=10_000)


def run(load, share, *, requests=4000.0, waiting=4.0):
    """A run with this share of its requests beyond the limit, spread evenly."""
    count = np.full(16, requests / 16)
    return Observed(load, count, count * share, waiting, half=count * math.sqrt(share))


@pytest.mark.parametrize("capacity", [None, CAPACITY])
def test_an_unlucky_run_does_not_count_less(capacity):
    """Its queue happened to be long. If its own variance reduced its weight, the limit would be too high."""
    lucky, unlucky = run(110.0, 0.005, waiting=2.0), run(110.0, 0.03, waiting=20.0)
    others = [run(90.0, 0.003), run(130.0, 0.04)]
    swapped = run(110.0, 0.005, waiting=20.0), run(110.0, 0.03, waiting=2.0)
    rows = [fit(SHARE, [*others, *pair], capacity) for pair in ((lucky, unlucky), swapped)]
    assert rows[0].quantile(0.5) == pytest.approx(rows[1].quantile(0.5), rel=1e-9)


def test_any_number_of_requests_leaves_the_error_of_the_curve():
    loads = (100.0, 105.0, 110.0, 115.0, 120.0)
    rows = [run(load, 0.01 * math.exp((load - 110) / 20), requests=1e8, waiting=1.0) for load in loads]
    found = fit(SHARE, rows)
    width = math.log(found.quantile(0.975) / found.quantile(0.025))
    assert width >= 3.8 * CURVE_ERROR / found.slope


def test_few_groups_beyond_the_limit_do_not_show_how_large_groups_are():
    """Groups of ten in every other section look more regular than chance allows; that proves nothing."""
    count, half = np.full(16, 500.0), np.full(16, 40.0)
    groups, single = np.zeros(16), np.full(16, 60 / 16)
    groups[1:12:2] = 10.0
    widths = []
    for beyond in (groups, single):
        runs = [Observed(load, count, beyond, 8.0, half=half) for load in (100.0, 104.0, 108.0, 112.0)]
        found = fit(SHARE, runs)
        widths.append(math.log(found.quantile(0.975) / found.quantile(0.025)))
    assert widths[0] > 0.9 * widths[1]
