"""The estimate of the limit, given its posterior."""

import math

import numpy as np
import pytest

from inferometer.base.slo import parse_slo
from inferometer.find.fit import Capacity, Posterior
from inferometer.find.keeping import Counts, LoadRun
from inferometer.find.search import Knowledge, known

SLO = parse_slo("p99<40ms")


def ran(load, beyond):
    """A run of 400 requests with this many beyond the limit, spread evenly."""
    each = np.full(16, 25.0)
    counts = Counts(each, np.full(16, beyond / 16), each * 1e6)
    return LoadRun(load, 4.0, (counts, Counts(each, np.zeros(16), np.zeros(16))), np.full(16, 1e6))


@pytest.mark.parametrize("unlikely", [0.0, 0.026, 0.029, 0.2])
def test_the_estimate_is_at_most_a_tenth_above_the_low_end(unlikely):
    """Also if a limit far below the likely one is just likely enough to be in the interval."""
    places = np.log(np.linspace(50.0, 130.0, 161))
    weights = np.where(abs(np.exp(places) - 120) < 8, 1 - unlikely, 0.0) / 31
    weights = weights + np.where(np.exp(places) < 60, unlikely, 0.0) / 20
    runs = (ran(90.0, 0), ran(110.0, 2), ran(125.0, 20))
    found = Knowledge(SLO, runs, Posterior(places, weights / weights.sum()), ((), (), ("p99",)))
    bracket = found.bracket()
    assert bracket.low <= found.estimate(bracket) <= 1.1 * bracket.low * (1 + 1e-3)


def test_the_estimate_of_a_narrow_interval_is_the_most_likely_limit():
    found = known(SLO, [ran(198.0, 0), ran(202.0, 400)], Capacity(200.0, 0.01, ends=50_000))
    bracket = found.bracket()
    assert bracket.high < 1.1 * bracket.low
    assert found.estimate(bracket) == pytest.approx(
        math.exp(found.posterior.places @ found.posterior.weights), rel=0.02
    )
