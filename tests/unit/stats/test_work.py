"""Requests per second of few and long requests: Little's law, narrowed by the precision of tokens."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.base.units import NS_PER_S
from inferometer.stats.measurement import Estimate
from inferometer.stats.work import LEAST, narrowed, request_rate

share = st.floats(0.0, 0.5)
level = st.floats(0.01, 1000.0)


def estimate(value, down, up):
    return Estimate(value, value * (1 - down), value * (1 + up))


@given(level, level, level, share, share, st.tuples(share, share, share))
@pytest.mark.hypothesis
def test_users_over_latency_are_within_an_interval_that_tokens_can_only_narrow(
    users, latency_s, per_token, latency_share, error, shares
):
    """Tokens per second and the mean length may disagree with the mean latency by chance."""
    latency = estimate(latency_s * NS_PER_S, latency_share, latency_share)
    own = request_rate(users, latency)
    tokens = estimate(own.value * per_token * (1 + error), shares[0], shares[1])
    found = narrowed(own, tokens, estimate(per_token, shares[2], shares[2]))
    by_latency = users / latency_s
    assert found.value == own.value == pytest.approx(by_latency)
    assert found.low <= found.value <= found.high
    assert found.high - found.low <= own.high - own.low
    assert own.relative_half_width >= 0.999 * LEAST


def test_requests_of_equal_lengths_are_as_precise_as_tokens():
    own = request_rate(8, estimate(2.0 * NS_PER_S, 0.3, 0.3))
    found = narrowed(own, estimate(4.0 * 64, 0.02, 0.02), Estimate(64.0, 64.0, 64.0))
    assert (found.low, found.high) == pytest.approx((3.92, 4.08))


def test_lengths_that_vary_add_to_the_interval():
    own = request_rate(8, estimate(2.0 * NS_PER_S, 0.3, 0.3))
    found = narrowed(own, estimate(4.0 * 64, 0.03, 0.03), estimate(64.0, 0.04, 0.04))
    assert found.relative_half_width == pytest.approx(math.hypot(0.03, 0.04))


@pytest.mark.parametrize(
    ("tokens", "length"),
    [
        (Estimate(256.0), Estimate(64.0, 64.0, 64.0)),
        (Estimate(256.0, 250.0, 260.0), Estimate(64.0)),
        (Estimate(256.0, 250.0, 260.0), Estimate(0.0, 0.0, 0.0)),
    ],
)
def test_without_both_intervals_latency_decides(tokens, length):
    own = request_rate(8, estimate(2.0 * NS_PER_S, 0.3, 0.3))
    assert narrowed(own, tokens, length) is own
