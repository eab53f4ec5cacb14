"""An autoscaler follows the traffic, too late if replicas start slowly, and removes idle replicas."""

import pytest

from inferometer.base.slo import parse_slo
from inferometer.capacity.autoscaling import Scaler, autoscale, parse_rule
from inferometer.capacity.replica import replica_of
from inferometer.capacity.traffic import ExpectedTraffic, Stretch
from tests.support.reports import sample_result

HOUR_S = 3600.0
PROMISE = parse_slo("p99<300ms")
REPLICA = replica_of(sample_result(), "a")  # 48.5 requests/s
JUMP = ExpectedTraffic(
    "jump",
    "daily curve",
    tuple(Stretch(HOUR_S * n, HOUR_S, rate) for n, rate in enumerate((40, 40, 400, 40))),
)
RISE = ExpectedTraffic(
    "rise", "daily curve", tuple(Stretch(600.0 * n, 600.0, 20.0 + 4 * n) for n in range(60))
)


def scaled(traffic, rule="utilisation:60%", startup_s=60.0, spare=0):
    needed = [-(-row.rate // 38) for row in traffic.stretches]
    scaler = Scaler(parse_rule(rule), startup_s, spare)
    return autoscale(scaler, REPLICA, traffic, [int(number) for number in needed], PROMISE, seed=1)


@pytest.mark.parametrize("rule", ["utilisation:60%", "queue:1.5"])
def test_a_slow_rise_is_followed(rule):
    found = scaled(RISE, rule)
    assert found.broken_share < 0.001
    assert found.fewest < 4 < found.most
    assert found.replica_hours < found.most * 10


def test_a_jump_arrives_before_the_replicas():
    found = scaled(JUMP, startup_s=300.0)
    assert not found.is_kept
    assert found.broken == (2 * HOUR_S,)
    # More than the arrivals until they were ready: the backlog is worked off first.
    assert found.broken_share > 400 * 300 / sum(row.requests for row in JUMP.stretches)
    assert found.steps[0].ready == 2
    assert found.most >= 11


def test_faster_replica_start_reduces_violations():
    assert scaled(JUMP, startup_s=30.0).broken_share < scaled(JUMP, startup_s=300.0).broken_share


def test_spare_replicas_are_added():
    plain, spare = scaled(RISE), scaled(RISE, spare=1)
    assert spare.fewest == plain.fewest + 1
    assert spare.is_kept


def test_replicas_are_removed_after_a_quiet_period():
    found = scaled(JUMP)
    assert found.steps[-1].ready < found.most
    ended_s = next(step.start_s for step in found.steps if step.start_s > 3 * HOUR_S)
    assert 300 <= ended_s - 3 * HOUR_S <= 400
