"""Intervals cover the true value on five families of simulated servers: a short form of `python -m
benchmarks.coverage`."""

from functools import cache

import numpy as np
import pytest

from benchmarks.coverage import FAMILIES, FIGURES, SEED, Run, Server, scores, servers
from tests.support.samples import sample

pytestmark = pytest.mark.sampled

SERVERS, RUNS, JUDGED = sample(15, 60), sample(32, 48), sample(24, 32)


@cache
def found():
    made = servers(SERVERS, sizes=(400, 4000))
    return [row for number, server in enumerate(made) for row in scores(server, RUNS, JUDGED, (SEED, number))]


@pytest.mark.parametrize("figure", FIGURES)
def test_intervals_cover_the_truth_or_are_unknown(figure):
    rows = [row for row in found() if row.figure == figure]
    known = sum(row.known for row in rows)
    assert 0.9 <= sum(row.held for row in rows) / known <= 0.99
    assert known >= 0.2 * SERVERS * JUDGED


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("figure", FIGURES)
def test_no_intervals_are_three_times_wider_than_the_spread_of_runs(family, figure):
    rows = [row for row in found() if (row.family, row.figure) == (family, figure) and row.known]
    assert all(row.wider <= 3 for row in rows)


@pytest.mark.parametrize("figure", ["throughput", "mean"])
def test_intervals_of_a_family_are_hardly_wider_than_the_spread_of_runs(figure):
    for family in FAMILIES:
        rows = [row for row in found() if (row.family, row.figure) == (family, figure) and row.known]
        assert np.percentile([row.wider for row in rows], 90) <= 2.2


def test_the_median_keeps_its_interval_after_a_change_steeper_than_the_noise():
    """Half of the requests are below the median because they came earlier: a share that drops from 1 to 0 at once."""
    (row,) = (
        row for row in scores(Server("drifting", 2000, steep), RUNS, JUDGED, (SEED,)) if row.figure == "p50"
    )
    assert row.known >= 0.8 * JUDGED
    assert row.held >= 0.85 * row.known
    assert row.wider <= 2


def steep(rng: np.random.Generator) -> Run:
    latency = 10_000 * (1 + np.linspace(0, 1, 2000) ** 2) * np.exp(0.05 * rng.standard_normal(2000))
    ends = np.cumsum(latency)
    return Run(latency, ends, float(ends[-1]))
