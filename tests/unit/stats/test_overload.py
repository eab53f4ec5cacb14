"""Rates beyond the capacity of a server."""

import heapq
import random

import numpy as np
import pytest

from inferometer.stats.ends import Groups
from inferometer.stats.estimate import Estimate
from inferometer.stats.overload import busy_rate, is_beyond, is_within


@pytest.mark.parametrize(
    ("capacity", "per_s", "beyond", "within"),
    [
        (Estimate(100.0, 99.0, 101.0), 102.0, True, False),
        (Estimate(100.0, 98.0, 102.0), 102.0, True, False),
        (Estimate(100.0, 95.0, 105.0), 102.5, True, False),  # above 98 % of the one-sided 95 % bound
        (Estimate(100.0, 95.0, 105.0), 102.0, False, False),
        (Estimate(100.0, 80.0, 120.0), 115.0, False, False),  # perhaps less than 95 % of the capacity
        (Estimate(100.0, 80.0, 120.0), 120.0, True, False),
        (Estimate(100.0, 90.0, 101.0), 99.5, False, False),  # below the estimate
        (Estimate(100.0, 100.0, 100.0), 100.2, False, False),  # no more than rounding
        (Estimate(100.0, 98.0, 102.0), 95.0, False, True),
        (Estimate(100.0), 150.0, False, False),  # the precision is unknown
    ],
)
def test_a_rate_is_compared_with_the_bounds_of_the_capacity(capacity, per_s, beyond, within):
    assert (is_beyond(capacity, per_s), is_within(capacity, per_s)) == (beyond, within)


@pytest.mark.parametrize(
    ("capacity", "beyond"),
    [
        (Estimate(100.0, 90.0, 110.0), True),
        (Estimate(100.0, 85.0, 115.0), False),  # perhaps less than 95 % of the capacity
        (Estimate(105.0, 95.0, 115.0), False),  # above the rate
        (Estimate(100.0), True),
    ],
)
def test_a_server_that_falls_behind_needs_less_certainty(capacity, beyond):
    assert is_beyond(capacity, 105.0, falls_behind=True) == beyond
    assert not is_beyond(capacity, 105.0)


MS = 1000  # microseconds


def ends_of(seed: int, per_s: float, servers: int, mean_ms: float) -> Groups:
    """Ends within 10 s of random arrivals at servers with exponential service times."""
    source, ended, free = random.Random(seed), [], [0.0] * servers
    at_us = 0.0
    while at_us < 10_000 * MS:
        at_us += source.expovariate(per_s / 1e6)
        end_us = max(at_us, free[0]) + source.expovariate(1 / (mean_ms * MS))
        heapq.heapreplace(free, end_us)
        ended.append((round(end_us), round(end_us - at_us)))
    known = np.array(sorted(row for row in ended if row[0] < 10_000 * MS), dtype=np.int64)
    return Groups(known[:, 0], np.ones(len(known), dtype=np.int64), known[:, 1] * 1000)


@pytest.mark.parametrize("servers", [1, 16, 64])
def test_servers_that_are_not_all_busy_show_no_capacity(servers: int) -> None:
    """The more requests they have, the faster they answer, although fast requests are far shorter than usual."""
    for seed in range(8):
        found = busy_rate(ends_of(seed, 80.0, servers, 10.0 * servers), 80.0)
        assert found is None or not is_beyond(found, 80.0)


@pytest.mark.parametrize("servers", [1, 16])
def test_the_capacity_of_busy_servers_is_found(servers: int) -> None:
    found = [busy_rate(ends_of(seed, 115.0, servers, 10.0 * servers), 115.0) for seed in range(8)]
    rates = [row.value for row in found if row is not None]
    assert np.mean(rates) == pytest.approx(100, rel=0.05)


def test_bunches_of_ends_count_together() -> None:
    """A batch ends at once, so that the time after each end seems to depend on the requests in flight."""
    begun, ended = [], []
    for batch in range(100):
        ended += [80 * MS * (batch + 1)] * 8
        begun += [round(76.19 * MS * batch)] * 8  # 105 requests/s, of which 100 are answered
    ends, took = np.array(ended), np.array(ended) - np.array(begun)
    found = busy_rate(Groups(ends, np.ones(len(ends), dtype=np.int64), took * 1000), 105.0)
    assert found is not None
    assert found.value == pytest.approx(100, rel=0.001)
    assert is_beyond(found, 105.0)
