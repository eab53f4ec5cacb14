"""Whether trials show that a configuration meets its SLO."""

from dataclasses import replace

import pytest

from inferometer.stats.estimate import Estimate
from inferometer.stats.verdict import INCONCLUSIVE, NOT_SHOWN, SHOWN
from inferometer.tune.keeping import any_keeps, keeps
from inferometer.tune.scoring import Constraint, Goal, RankedVariant
from inferometer.tune.trial import ClientLoad, Figures, Trial, TrialPart

P99, ERRORS, RATE = "perf_latency_p99", "perf_error_rate", "perf_throughput"


def trial(*figures, seconds=10.0, rate=100.0):
    """A trial of about a thousand requests."""
    values = ((RATE, Estimate(rate, 0.98 * rate, 1.02 * rate)), *figures)
    part = TrialPart("m", "m_config_default", ClientLoad(concurrency=1), Figures(values))
    return Trial(1, (part,), measuring_s=seconds)


def goals(tag, *, high=None, low=None):
    return (Goal("m", constraints=(Constraint(tag, low, high),)),)


@pytest.mark.parametrize(
    ("limit", "found", "seconds", "ruling"),
    [
        ({"high": 10.0}, Estimate(8.0, 7.0, 9.0), 10, SHOWN),
        ({"high": 10.0}, Estimate(9.5, 8.0, 11.0), 10, INCONCLUSIVE),
        ({"high": 10.0}, Estimate(10.5, 9.0, 12.0), 10, INCONCLUSIVE),
        ({"high": 10.0}, Estimate(13.0, 11.0, 15.0), 10, NOT_SHOWN),
        ({"high": 10.0}, Estimate(9.0), 1, INCONCLUSIVE),  # a hundred requests say little about a p99
        ({"high": 10.0}, Estimate(9.0), 10, SHOWN),  # a thousand are enough
        ({"high": 900.0}, Estimate(9.0), 0.1, SHOWN),  # and so are ten if the limit is far away
        ({"high": 900.0}, Estimate(9.0), 0, INCONCLUSIVE),
        ({"high": 10.0}, Estimate(11.0), 10, INCONCLUSIVE),
    ],
)
def test_a_percentile_is_ruled_by_its_interval_or_its_requests(limit, found, seconds, ruling):
    assert keeps(goals(P99, **limit), trial((P99, found), seconds=seconds)) == ruling


@pytest.mark.parametrize(
    ("percent", "seconds", "ruling"),
    [
        (0.0, 0.1, SHOWN),
        (1.0, 1, INCONCLUSIVE),
        (0.4, 10, INCONCLUSIVE),
        (0.4, 1000, SHOWN),
        (9.0, 10, NOT_SHOWN),
    ],
)
def test_an_error_rate_is_ruled_by_the_number_of_failures(percent, seconds, ruling):
    assert keeps(goals(ERRORS, high=0.5), trial((ERRORS, Estimate(percent)), seconds=seconds)) == ruling


@pytest.mark.parametrize("is_limited", [False, True])
def test_a_client_at_its_own_limit_violates_nothing(is_limited):
    """Its waits are in every latency; an SLO that is met all the same is met, and failures are the server's."""

    def found(limits, *figures):
        return keeps(limits, replace(trial(*figures), is_client_limited=is_limited))

    open_ = INCONCLUSIVE if is_limited else NOT_SHOWN
    assert found(goals(P99, high=10.0), (P99, Estimate(13.0, 11.0, 15.0))) == open_
    assert found(goals(P99, high=10.0), (P99, Estimate(8.0, 7.0, 9.0))) == SHOWN
    assert found(goals(RATE, low=200.0)) == open_
    assert found(goals(ERRORS, high=0.5), (ERRORS, Estimate(9.0))) == NOT_SHOWN


def test_a_mean_beyond_the_limit_decides_a_percentile():
    slow = trial((P99, Estimate(30.0)), ("perf_latency_avg", Estimate(20.0, 19.0, 21.0)))
    assert keeps(goals(P99, high=10.0), slow) == NOT_SHOWN


def test_a_figure_that_was_not_measured_shows_nothing():
    assert keeps(goals(P99, high=10.0), trial()) == INCONCLUSIVE
    assert keeps((Goal("m"),), trial()) == SHOWN  # no limit


def test_no_configuration_is_shown_to_meet_the_slo_while_one_may():
    slow, near = trial((P99, Estimate(30.0, 25.0, 35.0))), trial((P99, Estimate(10.5, 9.0, 12.0)))
    limit = goals(P99, high=10.0)
    assert any_keeps(limit, (RankedVariant("a", (slow,), False),)) == NOT_SHOWN
    assert any_keeps(limit, (RankedVariant("a", (slow, near), False),)) == INCONCLUSIVE
