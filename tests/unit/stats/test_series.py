"""Many durations as sketches: close to the exact figures, whatever their distribution."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.stats.ends import Ends, join_ends
from inferometer.stats.intervals import mean_margin, percentile_estimates, rate_interval
from inferometer.stats.series import EXACT, PIECES, Series, join, joined, rank, sketch

ERROR = 1 / 2048  # as docs/measurement.md states it
MS = 1_000_000
RNG = np.random.default_rng(7)
COUNT = 60_000
SHAPES = {
    "constant": np.full(COUNT, 5 * MS),
    "small whole numbers": RNG.integers(0, 4096, COUNT),
    "zeros": np.zeros(COUNT),
    "uniform": RNG.uniform(1, 100 * MS, COUNT),
    "normal": RNG.normal(10 * MS, MS, COUNT),
    "exponential": RNG.exponential(MS, COUNT),
    "log-normal": RNG.lognormal(14, 2, COUNT),
    "pareto": MS * (1 + RNG.pareto(1.1, COUNT)),
    "two kinds": np.where(RNG.random(COUNT) < 0.3, 40 * MS, 2 * MS) + RNG.integers(0, 1000, COUNT),
    "hours": RNG.uniform(1e12, 1e13, COUNT),
    "one far out": np.append(np.full(COUNT - 1, 3 * MS), 10**12),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_sketch_is_close_to_the_exact_figures(shape):
    values = SHAPES[shape].astype(np.int64)
    series = Series(values)
    series.condense(16)
    found, exact = series.distribution((33,)), Series(values).distribution((33,))
    assert (found.count, found.mean_ns, found.min_ns, found.max_ns) == (
        exact.count,
        exact.mean_ns,
        exact.min_ns,
        exact.max_ns,
    )
    assert found.std_ns == pytest.approx(exact.std_ns, rel=1e-6, abs=1.5)
    for (p, value), (_, expected) in zip(found.percentiles, exact.percentiles, strict=True):
        assert value == pytest.approx(expected, rel=ERROR, abs=0), p
    assert sum(count for _, count in found.histogram) == exact.count


@given(st.lists(st.integers(0, 10**15), min_size=1, max_size=300), st.integers(1, 5))
def test_any_rank_is_within_the_stated_error_and_between_its_bounds(values, parts):
    whole = join([sketch(part) for part in np.array_split(np.array(values), parts) if len(part)])
    assert (whole.count, whole.total) == (len(values), sum(values))
    for index, exact in enumerate(sorted(values)):
        low, high = whole.around(index)
        assert low <= exact <= high
        assert abs(whole.at(index) - exact) <= ERROR * exact
        assert whole.up_to(exact) > index


def grown(values, batch, pieces=PIECES):
    series = Series(pieces=pieces)
    for start in range(0, len(values), batch):
        series.append(values[start : start + batch])
    return series


def test_few_values_are_stored_exactly():
    values = RNG.integers(0, 10**9, EXACT)
    series = grown(values, 9999)
    assert series.is_exact
    assert series.distribution() == Series(values).distribution()
    assert (series.values() == values).all()


@pytest.mark.parametrize("pieces", [1, PIECES])
@pytest.mark.parametrize("batch", [700, 100_000])
def test_many_values_are_stored_in_few_pieces_in_order(pieces, batch):
    values = np.arange(1, 4 * EXACT + 1)
    series = grown(values, batch, pieces)
    found = series.pieces()
    assert len(found) <= pieces + 1
    assert series.held <= 1 << 15
    assert series.count == len(values)
    assert series.total == int(values.sum())
    assert all(one.greatest < other.least for one, other in itertools.pairwise(found))
    for p in (1, 50, 99.9):
        assert series.percentile(p) == pytest.approx(values[rank(p, len(values))], rel=ERROR)


def test_the_last_values_are_those_at_the_end():
    values = np.arange(1, 2 * EXACT + 1)
    tail = grown(values, 5000).last(len(values) // 10)
    assert len(values) // 10 <= tail.count < len(values) // 8
    assert tail.percentile(50) == pytest.approx(0.945 * len(values), rel=0.02)
    assert Series(values[:100]).last(5).values().tolist() == [96, 97, 98, 99, 100]


def test_sections_of_sketches_give_the_same_interval_as_values():
    spells = np.repeat(RNG.gamma(4, 0.25, EXACT // 1000), 1000)  # neighbours are correlated
    values = (RNG.exponential(MS, len(spells)) * spells).astype(np.int64)
    exact, coarse = Series(values), Series(values, pieces=PIECES)
    coarse.condense(PIECES)
    for one, other in zip(mean_margin(exact), mean_margin(coarse), strict=True):
        assert other == pytest.approx(one, rel=0.5)
    fine, rough = (percentile_estimates(series, [50, 99])[99] for series in (exact, coarse))
    assert rough.value == pytest.approx(fine.value, rel=ERROR)
    assert rough.high - rough.low == pytest.approx(fine.high - fine.low, rel=0.5)


def test_joined_series_are_concatenated():
    one, other = Series(np.array([3, 1])), Series(np.array([2]))
    assert joined([one, other]).values().tolist() == [3, 1, 2]
    one.condense(1)
    assert joined([one, other]).total == 6
    assert joined([]).count == 0


def test_ends_of_many_requests_are_stored_in_groups():
    count = 3 * EXACT
    us, latency = np.arange(1, count + 1) * 10, np.ones(count, dtype=np.int64)
    latency[1_000_000] = 77
    ends = Ends()
    for start in range(0, count, 30_000):
        ends.append(us[start : start + 30_000], latency[start : start + 30_000])
    found = ends.groups()
    assert len(found) < 1 << 18
    assert (int(found.counts.sum()), int(found.last_us[-1])) == (count, 10 * count)
    assert (np.cumsum(found.counts) * 10 == found.last_us).all()
    (slow,) = found.last_us[found.slowest_ns == 77]
    assert slow == pytest.approx(10_000_000, abs=1000)
    assert rate_interval(1e5, found, 10 * count).relative_half_width < 1e-4


def test_ends_of_more_than_an_hour_are_in_order():
    """A time in microseconds does not fit into 32 bits after 71 minutes."""
    hour_us = 3_600_000_000
    parts = []
    for _ in range(3):
        ends = Ends()
        ends.append(np.array([1, 2]), np.array([5, 5]))
        parts.append(ends)
    whole = join_ends([(ends, number * hour_us) for number, ends in enumerate(parts)]).groups()
    assert whole.last_us.tolist() == [1, 2, hour_us + 1, hour_us + 2, 2 * hour_us + 1, 2 * hour_us + 2]
