"""When a server counts as warm, on simulated servers with a planted cold start."""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.load.plan import Closed, Constant, Open
from inferometer.measure.warming import Warming, is_quickening, warm_server
from inferometer.stats.watcher import Watcher
from tests.support.clock import FakeClock
from tests.support.simulation import FakeServer, Reply, SimulatedLoad

WARM_MS = 10
LIMIT_NS = 30 * NS_PER_S


def warmed(
    service_ms: Callable[[int], float],
    plan: Any,
    servers: int | None = None,
    limit_ns: int = LIMIT_NS,
    first_ns: int = 0,
) -> tuple[Warming, FakeServer]:
    clock = FakeClock()
    server = FakeServer(lambda number, sent_ns: Reply(round(service_ms(number) * NS_PER_MS)), servers)
    instrument: Any = type("I", (), {})()
    instrument.load, instrument.clock = SimulatedLoad(server, clock), clock
    instrument.watcher, instrument.silence_ns = Watcher(), 60 * NS_PER_S
    return warm_server(instrument, plan, limit_ns, first_ns), server


@pytest.mark.parametrize("users", [1, 2, 8, 32])
@pytest.mark.parametrize("servers", [None, 1, 4])
@pytest.mark.parametrize("slow", [0, 1, 3, 6])
def test_the_slow_first_requests_are_over_when_the_server_is_warm(users, servers, slow):
    found, _ = warmed(lambda number: WARM_MS * (20 if number < slow else 1), Closed(users), servers=servers)
    assert found.is_warm
    assert found.requests > slow
    cold_s = 20 * WARM_MS * slow / 1000
    round_s = WARM_MS / 1000 * users
    assert found.seconds <= cold_s + 4 * round_s + 0.5  # a warm server is not kept busy for long


@pytest.mark.parametrize("users", [4, 16])
def test_shapes_that_are_compiled_when_first_seen_are_compiled_before_the_server_is_warm(users):
    seen: Counter[int] = Counter()
    draw = random.Random(1)

    def service_ms(number: int) -> float:
        shape = draw.choice((64, 128, 256))
        seen[shape] += 1
        return WARM_MS * (30 if seen[shape] <= 2 else 1)

    found, _ = warmed(service_ms, Closed(users))
    assert found.is_warm
    assert min(seen.values()) > 2


@pytest.mark.parametrize(("servers", "wave_ms"), [(None, 700), (1, 700), (4, 700)])
def test_the_time_between_answers_that_end_together_is_known(servers, wave_ms):
    """A slow first request does not count; a measurement that is shorter than a wave may see no answer."""
    found, _ = warmed(lambda number: 5_000 if number == 0 else wave_ms, Closed(16), servers=servers)
    assert found.wave_s == pytest.approx(wave_ms / 1000, rel=0.01)


@pytest.mark.parametrize(
    ("first_s", "is_answered", "seconds"), [(0, False, 2), (30, True, 10), (5, False, 5)]
)
def test_a_short_warm_up_waits_for_the_first_answer(first_s, is_answered, seconds):
    """Otherwise a load whose first answers take longer than the limit would seem to be never answered."""
    limit_ns, first_ns = 2 * NS_PER_S, first_s * NS_PER_S
    found, _ = warmed(lambda number: 10_000, Closed(64), limit_ns=limit_ns, first_ns=first_ns)
    assert found.is_answered is is_answered
    assert found.seconds == pytest.approx(seconds, abs=0.1)


def test_long_answers_are_compared_one_by_one():
    found, _ = warmed(lambda number: 9_000 if number == 0 else 3_000, Closed(1))
    assert found.is_warm
    assert found.requests == 3


def test_an_erratic_server_is_warm():
    draw = random.Random(2)
    for users in (1, 8, 64):
        found, _ = warmed(lambda number: draw.expovariate(1 / WARM_MS), Closed(users), servers=4)
        assert found.is_warm
        assert found.requests < 40 * max(users, 8)


@pytest.mark.parametrize("users", [1, 8])
def test_a_server_that_never_stops_getting_faster_is_cold(users):
    draw = random.Random(3)
    found, _ = warmed(lambda number: 40_000 / (number + 5) * draw.uniform(0.3, 1.7), Closed(users))
    times = np.array([40_000 / (number + 5) for number in range(60)])
    assert is_quickening(times)
    assert found.is_warm or found.seconds >= LIMIT_NS / NS_PER_S


def test_a_rate_is_judged_by_latencies():
    plan = Open(Constant(100.0))
    found, server = warmed(lambda number: WARM_MS * (15 if number < 12 else 1), plan)
    assert found.is_warm
    assert 12 < found.requests < 100
    assert server.number >= found.requests


def test_nothing_is_answered():
    found, _ = warmed(lambda number: 3_600_000, Closed(4))
    assert not found.is_answered
    assert found.requests == 0
