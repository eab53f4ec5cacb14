"""Clocks with offset and drift: estimates are within the stated uncertainty, and conversions never change."""

import random

import numpy as np
import pytest

from inferometer.base.units import NS_PER_MS, NS_PER_S, NS_PER_US
from inferometer.cluster.clock import JUMP_NS, ClientClock, Exchange, fit

BEGIN_NS = 10**15


def planted(our_ns: int, offset_ns: int, drift: float) -> int:
    return our_ns + offset_ns + round((our_ns - BEGIN_NS) * drift)


def exchanges(offset_ns: int, drift: float, seed: int, seconds: int = 120) -> list[Exchange]:
    """Return exchanges every two seconds with asymmetric round trips of 50 µs to 20 ms."""
    draw = random.Random(seed)
    found = []
    for second in range(0, seconds, 2):
        asked_ns = BEGIN_NS + second * NS_PER_S + draw.randrange(NS_PER_MS)
        there, back = (round(50 * NS_PER_US * draw.paretovariate(1.5)) for _ in range(2))
        client_ns = planted(asked_ns + there, offset_ns, drift)
        found.append(Exchange(asked_ns, client_ns, asked_ns + there + min(back, 20 * NS_PER_MS)))
    return found


@pytest.mark.parametrize("seed", range(20))
def test_the_clock_is_within_the_stated_uncertainty(seed: int) -> None:
    draw = random.Random(seed)
    offset_ns, drift = draw.randrange(-50, 51) * NS_PER_MS, draw.uniform(-50e-6, 50e-6)
    clock = ClientClock()
    for exchange in exchanges(offset_ns, drift, seed):
        clock.add(exchange)
        for later_s in (0, 2, 10):
            at_ns = exchange.answered_ns + later_s * NS_PER_S
            wrong_ns = abs(clock.fit.to_client(at_ns) - planted(at_ns, offset_ns, drift))
            assert wrong_ns <= clock.fit.uncertainty_at(at_ns) + 1
    assert clock.jumps == 0
    assert clock.fit.uncertainty_ns < 100 * NS_PER_US
    assert abs(clock.fit.drift - drift) <= clock.fit.drift_uncertainty < 3e-6


@pytest.mark.parametrize("seed", range(5))
def test_past_conversions_never_change(seed: int) -> None:
    clock = ClientClock()
    first = dict[int, int]()
    for exchange in exchanges(30 * NS_PER_MS, -40e-6, seed):
        clock.add(exchange)
        fresh = np.arange(exchange.client_ns, exchange.client_ns + 2 * NS_PER_S, 97 * NS_PER_MS)
        times = np.concatenate((np.array(sorted(first), dtype=np.int64), fresh))
        found = clock.to_ours(times)
        assert (np.diff(found) > 0).all()
        for time_ns, our_ns in zip(times.tolist(), found.tolist(), strict=True):
            assert first.setdefault(time_ns, our_ns) == our_ns


@pytest.mark.parametrize("seed", range(5))
def test_converted_times_are_within_the_uncertainty(seed: int) -> None:
    clock = ClientClock()
    offset_ns, drift = -50 * NS_PER_MS, 50e-6
    widest = 0
    for exchange in exchanges(offset_ns, drift, seed):
        clock.add(exchange)
        widest = max(widest, clock.fit.uncertainty_at(exchange.answered_ns + 2 * NS_PER_S))
        ours = exchange.answered_ns + np.arange(0, 2 * NS_PER_S, 100 * NS_PER_MS)
        theirs = np.array([planted(int(time_ns), offset_ns, drift) for time_ns in ours])
        assert (np.abs(clock.to_ours(theirs) - ours) <= widest + 1).all()


def test_a_missing_time_stays_missing() -> None:
    clock = ClientClock()
    clock.add(Exchange(BEGIN_NS, BEGIN_NS + 5, BEGIN_NS + 10))
    assert clock.to_ours(np.array([0, BEGIN_NS])).tolist() == [0, BEGIN_NS]
    assert clock.to_ours(np.empty(0, dtype=np.int64)).tolist() == []


def test_schedules_start_together_and_run_at_the_same_speed() -> None:
    found = fit(exchanges(20 * NS_PER_MS, 50e-6, seed=1))
    assert found is not None
    timing = found.timing(found.at_ns + NS_PER_S)
    assert timing.start_ns == found.to_client(found.at_ns + NS_PER_S)
    assert timing.quicker == pytest.approx(50e-6, abs=2e-6)


def test_a_clock_that_jumps_is_noticed_and_followed() -> None:
    clock = ClientClock()
    for exchange in exchanges(0, 0.0, seed=2, seconds=20):
        clock.add(exchange)
    asked_ns = BEGIN_NS + 20 * NS_PER_S
    clock.add(Exchange(asked_ns, asked_ns + 10 * JUMP_NS, asked_ns + 100))
    assert clock.jumps == 1
    assert abs(clock.fit.offset_at(asked_ns) - 10 * JUMP_NS) <= 100
