"""The planned number of replicas is exact or one too many, never too few, compared with a simulation of known servers.

Servers are measured on a simulated clock, as `inferometer measure` does, and the plan uses those measurements.
"""

import json
from functools import cache

import pytest

from inferometer import api
from inferometer.base.slo import parse_slo
from inferometer.capacity.keeping import NoNumber, Simulator
from inferometer.capacity.replica import replica_of
from inferometer.capacity.traffic import ExpectedTraffic, Stretch
from tests.support.replicas import exponential, fixed, measured, replicas_it_takes, spread
from tests.support.samples import sample

SECONDS = 6.0
ONE = fixed("one instance", 1, 20.0)
TWO = fixed("two instances", 2, 40.0)
UNEVEN = spread("uneven", 1, 5.0, 25.0)
WILD = exponential("exponential", 2, 20.0)
FAR = fixed("far away", 1, 10.0, outside_ms=5.0)
LOADS = (1, 2, 4, 8)

CASES = [
    (ONE, 200.0, 60, "round-robin"),
    (TWO, 120.0, 120, "round-robin"),
    (UNEVEN, 150.0, 80, "round-robin"),
    (WILD, 150.0, 150, "round-robin"),
    (FAR, 200.0, 40, "round-robin"),
    (ONE, 60.0, 60, "random"),
    (UNEVEN, 150.0, 60, "least-outstanding"),
]


measured_once = cache(measured)


def planned(result, rate, limit_ms, balancer, seconds=SECONDS):
    """Return the fewest replicas for a rate that lasts for a few seconds."""
    traffic = ExpectedTraffic("a few seconds", "rate", (Stretch(0.0, seconds, rate),))
    promise = parse_slo(f"p99<{limit_ms}ms")
    return Simulator(replica_of(result, ""), traffic, promise, balancer=balancer, seed=1).surely_needed(0)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("server", "rate", "limit_ms", "balancer"),
    sample(CASES[3::2], CASES),
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_the_number_is_exact_or_one_too_many(server, rate, limit_ms, balancer):
    said = planned(measured_once(server, LOADS), rate, limit_ms, balancer)
    truth = replicas_it_takes(server, rate, SECONDS, limit_ms, balancer)
    assert truth <= said <= truth + 1
    assert truth > 1


@pytest.mark.sampled
@pytest.mark.parametrize("server", sample([TWO], [TWO, UNEVEN]), ids=lambda server: server.name)
def test_measured_rates_are_enough(server):
    """A result of rates up to beyond the capacity, as `find` produces, with the instances of its configuration."""
    result = measured(server, (5, 20, 40, 100), by_rate=True)
    said = planned(result, 120.0, 120, "round-robin")
    truth = replicas_it_takes(server, 120.0, SECONDS, 120, "round-robin")
    assert truth <= said <= truth + 1


def test_bursts_of_a_trace_count(tmp_path):
    """Twenty requests at once, every second, which a mean rate of 20/s hides."""
    trace = tmp_path / "bursts.jsonl"
    rows = [json.dumps({"timestamp": 1000 * second}) for second in range(60) for _ in range(20)]
    trace.write_text("\n".join(rows))
    result = measured_once(ONE, LOADS)
    plan = api.capacity(result, traffic=trace, slo="p99<100ms")
    assert plan.chosen.fewest.replicas == 5  # four rounds of 20 ms fit into the limit, the fifth ends at it
    # The same rate without bursts.
    assert planned(result, 20.0, 100, "round-robin", seconds=60.0) == 1


def test_fewer_measured_loads_never_lead_to_too_few_replicas():
    truth = replicas_it_takes(TWO, 120.0, SECONDS, 120, "round-robin")
    for loads in ((1,), (1, 8)):
        assert planned(measured_once(TWO, loads), 120.0, 120, "round-robin") >= truth, loads


def test_without_a_light_load_there_is_no_number():
    """At concurrency 8 a request takes 160 ms; its time alone was not measured."""
    result = measured_once(TWO, (8,))
    with pytest.raises(NoNumber, match="without queueing"):
        planned(result, 120.0, 120, "round-robin")
    (option,) = api.capacity(result, traffic="120/s", slo="p99<120ms").options
    assert option.reason == "requests violate 'p99<120ms' at concurrency 8, and no lighter load was measured"
    truth = replicas_it_takes(TWO, 120.0, SECONDS, 400, "round-robin")
    assert planned(result, 120.0, 400, "round-robin") >= truth
