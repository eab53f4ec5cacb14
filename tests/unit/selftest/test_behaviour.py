"""The behaviour of the built-in servers is known exactly, for comparison with measurements."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.base.units import NS_PER_MS
from inferometer.selftest.check import FULL, QUICK, Thoroughness
from inferometer.selftest.null_server import Behaviour, Stall, dealt, fault
from inferometer.stats.series import percentile

ISSUE = Stall(2000 * NS_PER_MS, 500 * NS_PER_MS)


@pytest.mark.parametrize(
    ("p", "ms"), [(50, 0), (75, 0), (80, 100), (90, 300), (95, 400), (99, 480), (100, 500)]
)
def test_waits_of_half_a_second_in_every_two(p: float, ms: int) -> None:
    assert ISSUE.percentile_ns(p) == ms * NS_PER_MS


@given(st.integers(1, 4000), st.floats(0.01, 0.99), st.sampled_from([50, 90, 95, 99]))
def test_percentiles_are_those_of_even_arrivals(period_ms: int, share: float, p: int) -> None:
    period_ns = period_ms * NS_PER_MS
    stall = Stall(period_ns, round(period_ns * share))
    times = range(0, 3 * period_ns, period_ns // 500)
    waits = np.array([stall.thawed_ns(time) - time for time in times])
    assert abs(percentile(waits, p) - stall.percentile_ns(p)) <= period_ns / 200


def test_a_request_waits_only_while_the_server_is_frozen() -> None:
    stall = Stall(100, 30)
    assert [stall.thawed_ns(time) for time in (0, 29, 30, 99, 100, 110)] == [30, 30, 30, 99, 130, 130]


@given(st.integers(0, 1000))
def test_faults_are_counted_as_injected(requests: int) -> None:
    kinds = [fault(number) for number in range(requests)]
    assert dealt(requests) == {
        kind: kinds.count(kind) for kind in ("http 503", "reset", "timeout", "malformed")
    }


@pytest.mark.parametrize("pace", [FULL, QUICK])
def test_faults_have_the_documented_shares(pace: Thoroughness) -> None:
    total = pace.fault_requests
    shares = {kind: count / total for kind, count in dealt(total).items()}
    assert shares == {"http 503": 0.02, "reset": 0.01, "timeout": 0.01, "malformed": 0.01}


@pytest.mark.parametrize(
    "behaviour", [Behaviour(), Behaviour("grpc", ISSUE, is_failing=True, keeps_arrivals=True)]
)
def test_a_behaviour_survives_serialization(behaviour: Behaviour) -> None:
    assert Behaviour.from_json(behaviour.to_json()) == behaviour
