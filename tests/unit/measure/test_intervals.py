"""Intervals cover the truth about as often as they promise, also when neighbours are alike."""

import numpy as np
import pytest

from inferometer.measure.intervals import estimate, mean_sections, percentile_sections, rate_interval

RUNS = 200


def mean_interval(value, durations):
    return estimate(value, mean_sections(durations))


def percentile_interval(value, durations, p):
    return estimate(value, percentile_sections(durations, p))


def correlated(rng, count, memory):
    """An autoregressive series with mean 1000: each value remembers the one before."""
    noise = rng.normal(0, 100, count)
    values = np.empty(count)
    level = rng.normal(0, 100 / np.sqrt(1 - memory**2))
    for index in range(count):
        level = memory * level + noise[index]
        values[index] = 1000 + level
    return (values * 1000).astype(np.int64)


@pytest.mark.parametrize("memory", [0.0, 0.9], ids=["independent", "correlated"])
def test_interval_of_the_mean_covers_it(memory):
    rng = np.random.default_rng(7)
    hits = 0
    for _ in range(RUNS):
        series = correlated(rng, 4000, memory)
        found = mean_interval(float(series.mean()), series)
        hits += found.low <= 1_000_000 <= found.high
    assert hits / RUNS >= 0.88


def test_interval_of_a_percentile_covers_it():
    rng = np.random.default_rng(8)
    truth = 1e6 * -np.log(0.05)  # p95 of an exponential
    hits = 0
    for _ in range(RUNS):
        series = rng.exponential(1e6, 5000).astype(np.int64)
        found = percentile_interval(float(np.percentile(series, 95)), series, 95)
        hits += found.low <= truth <= found.high
    assert hits / RUNS >= 0.88


def test_interval_of_the_rate_covers_it():
    rng = np.random.default_rng(9)
    hits = 0
    for _ in range(RUNS):
        ends = np.cumsum(rng.exponential(1000.0, 6000)).astype(np.uint32)  # 1000 per second, microseconds
        inside = ends[ends < 4_000_000]
        found = rate_interval(len(inside) / 4, inside, 4_000_000)
        hits += found.low <= 1000 <= found.high
    assert hits / RUNS >= 0.88


def test_steady_series_has_no_width():
    found = mean_interval(5.0, np.full(100, 5, dtype=np.int64))
    assert (found.low, found.high) == (5.0, 5.0)


@pytest.mark.parametrize("count", [0, 1, 7])
def test_too_few_values_give_no_interval(count):
    assert mean_interval(1.0, np.ones(count, dtype=np.int64)).low is None


def test_rare_percentile_needs_more_values():
    series = np.arange(400, dtype=np.int64)
    assert percentile_interval(396.0, series, 99).low is None
    assert percentile_interval(200.0, series, 50).low is not None
