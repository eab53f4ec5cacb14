"""A window in a line."""

import numpy as np
import pytest

from inferometer.measure.windows import THINNED_COUNT, Window, figures


def window(durations):
    values = np.array(durations, dtype=np.int64)
    empty = np.array([], dtype=np.int64)
    return Window(0, 10**9, values, values, empty, np.zeros(len(values), np.uint32), 0, 0, 0, 0, {})


@pytest.mark.parametrize(
    ("durations", "p50", "p99"),
    [
        ((), 0, 0),
        ((7,), 7, 7),
        (tuple(range(100, 0, -1)), 51, 99),
    ],
)
def test_percentiles_of_a_window_are_those_of_its_requests(durations, p50, p99):
    row = figures(window(durations), level_start_ns=0, batch=1, chosen=None)
    assert (row.p50_ns, row.p99_ns) == (p50, p99)


def test_a_huge_window_is_thinned_evenly():
    row = figures(window(np.arange(3 * THINNED_COUNT)), level_start_ns=0, batch=1, chosen=None)
    assert row.p50_ns == pytest.approx(1.5 * THINNED_COUNT, rel=1e-3)
    assert row.p99_ns == pytest.approx(2.97 * THINNED_COUNT, rel=1e-3)
