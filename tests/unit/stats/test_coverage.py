"""Intervals hold the truth on five families of simulated servers: a short form of `python -m benchmarks.coverage`."""

from functools import cache

import numpy as np
import pytest

from benchmarks.coverage import FAMILIES, FIGURES, SEED, scores, servers

SERVERS, RUNS, JUDGED = 50, 24, 8


@cache
def found():
    made = servers(SERVERS, sizes=(400, 4000))
    return [row for number, server in enumerate(made) for row in scores(server, RUNS, JUDGED, (SEED, number))]


@pytest.mark.parametrize("figure", FIGURES)
def test_intervals_hold_the_truth_or_are_unknown(figure):
    rows = [row for row in found() if row.figure == figure]
    known = sum(row.known for row in rows)
    assert 0.9 <= sum(row.held for row in rows) / known <= 0.99
    assert known >= 0.2 * SERVERS * JUDGED


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("figure", FIGURES)
def test_intervals_of_a_family_are_not_three_times_as_wide_as_runs_differ(family, figure):
    rows = [row for row in found() if (row.family, row.figure) == (family, figure) and row.known]
    assert not rows or np.median([row.wider for row in rows]) <= 3
