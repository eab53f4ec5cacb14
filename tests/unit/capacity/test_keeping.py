"""SLOs that no number of replicas can meet are rejected at once; the position of the peak does not matter."""

import json
from dataclasses import replace

import numpy as np
import pytest

from inferometer import api
from inferometer.base.slo import parse_slo
from inferometer.capacity import keeping
from inferometer.capacity.keeping import MOST_REPLICAS, NoNumber, Simulator
from inferometer.capacity.replica import replica_of
from inferometer.capacity.traffic import ExpectedTraffic, Stretch, read_traffic
from tests.support.reports import sample_result
from tests.support.samples import sample

BASE = replica_of(sample_result(), "a")
EXACT = replace(BASE, places=1, per_s=(50.0,), edges=(1.0, 1.0), shares=(0.0, 1.0), delay_s=0.0)
# One of 200 requests takes ten times as long as the others.
TAILED = replace(EXACT, edges=(0.957, 0.957, 9.57, 9.57), shares=(0.0, 0.995, 0.995, 1.0))


def simulator(replica, traffic, promise="p99<100ms", balancer="round-robin"):
    return Simulator(replica, traffic, parse_slo(promise), balancer=balancer, seed=1)


def of_rate(rate, seconds=60.0):
    return ExpectedTraffic("rate", "rate", (Stretch(0.0, seconds, rate),))


def of_times(times_s, tmp_path, stretch_s=None):
    path = tmp_path / "trace.jsonl"
    path.write_text("\n".join(json.dumps({"timestamp_s": time}) for time in times_s))
    return read_traffic(str(path), stretch_s)


# --- no number


@pytest.mark.parametrize("balancer", ["round-robin", "random", "least-outstanding"])
@pytest.mark.parametrize("rate", [2.0, 200.0])
def test_replicas_do_not_help_against_a_tail_in_short_stretches(balancer, rate):
    """Two slow requests out of 120 violate the SLO, and occur more often than once in fifty stretches."""
    with pytest.raises(NoNumber, match="stretches of 120 requests") as refused:
        simulator(TAILED, of_rate(rate, 120 / rate), balancer=balancer).needed(0)
    assert refused.value.remedy


def test_the_same_tail_is_acceptable_in_long_stretches():
    assert simulator(TAILED, of_rate(2.0, 5000.0)).surely_needed(0) == 1


def test_an_slo_without_room_for_queueing_is_rejected():
    broken = simulator(EXACT, of_rate(100.0), "p99<20ms")
    for ask in (broken.needed, broken.surely_needed):
        with pytest.raises(NoNumber, match="even requests without queueing violate 'p99<20ms'"):
            ask(0)


def test_the_search_stops_at_the_maximum_of_replicas():
    with pytest.raises(NoNumber, match=f"more than {MOST_REPLICAS:,} replicas"):
        simulator(EXACT, of_rate(1e9)).needed(0)
    (option,) = api.capacity(sample_result(), traffic="100000000/s", slo="p99<1s").options
    assert "the traffic needs more than" in option.reason


# --- errors


def _failing(result, number):
    """Half of the requests at one level fail."""
    levels = list(result.levels)
    found = levels[number].measurement
    levels[number] = replace(levels[number], measurement=replace(found, failed_count=found.request_count))
    return replace(result, levels=tuple(levels))


def test_replicas_do_not_help_against_failures_at_the_lightest_load():
    """An option without a number does not affect the others."""
    plan = api.capacity(_failing(sample_result(), 0), sample_result(), traffic="50/s", slo="p99<200ms")
    assert plan.options[0].reason == "the error rate violates 'errors<0.1%' even at the lightest load"
    assert [option.replicas > 0 for option in plan.options] == [False, True]
    assert plan.best == 1


def test_failures_at_a_heavy_load_require_more_replicas():
    plain, failing = (
        simulator(replica_of(result, ""), of_rate(60.0), "p99<1s").needed(0)
        for result in (sample_result(), _failing(sample_result(), -1))
    )
    assert failing > plain


def test_failed_requests_are_not_throughput():
    """A server that rejects half of the requests has the same capacity as one that answers as many and rejects none."""
    plain, failing = (replica_of(result, "") for result in (sample_result(), _failing(sample_result(), -1)))
    assert failing.per_s == plain.per_s
    assert failing.loads[-1].sent_per_s == pytest.approx(2 * plain.loads[-1].sent_per_s)


# --- one load only


@pytest.mark.parametrize("mode", ["concurrency", "request_rate"])
def test_one_measured_load_is_enough(mode):
    base = sample_result()
    replica = replica_of(replace(base, levels=(replace(base.levels[0], mode=mode),)), "")
    assert replica.is_growing
    traffic = of_rate(100.0)
    assert simulator(replica, traffic, "p99<1s").needed(0) >= simulator(BASE, traffic, "p99<1s").needed(0)


# --- where the peak is


@pytest.mark.parametrize("at_s", [0, 55, 99], ids=["at the beginning", "in the middle", "at the end"])
def test_a_burst_counts_anywhere(tmp_path, at_s):
    """Ten requests at once on top of one per second: two in a replica meet 50 ms if no other is there."""
    times = sorted([*np.arange(0.5, 100.0, 1.0).tolist(), 0.0, 100.0, *[at_s + 0.25] * 10])
    traffic = of_times(times, tmp_path, stretch_s=20.0)
    found = simulator(EXACT, traffic, "p99<50ms")
    needed = [found.needed(place) for place in range(len(traffic.stretches))]
    assert needed == [5 if place == at_s // 20 else 1 for place in range(5)]


def test_requests_at_the_edge_of_a_stretch_belong_to_one_of_them(tmp_path):
    traffic = of_times([0.1 * number for number in range(1000)], tmp_path, stretch_s=0.3)
    places = range(len(traffic.stretches))
    numbers = [traffic.numbers(place) for place in places]
    assert [first for first, _ in numbers[1:]] == [last for _, last in numbers[:-1]]
    assert (numbers[0][0], numbers[-1][1]) == (0, 1000)
    assert [last - first for first, last in numbers] == [round(row.requests) for row in traffic.stretches]
    assert all(simulator(EXACT, traffic).needed(place) == 1 for place in list(places)[:20])


def test_an_hour_without_requests_needs_no_replicas(tmp_path):
    traffic = of_times([*range(10), *range(7200, 7210)], tmp_path, stretch_s=600.0)
    plan = api.capacity(
        sample_result(), traffic=tmp_path / "trace.jsonl", slo="p99<1s", stretch_s=600, spare=0
    )
    assert plan.chosen.over_time == (1, *[0] * (len(traffic.stretches) - 2), 1)
    assert plan.chosen.autoscaling.is_kept


# --- large fleets


@pytest.mark.sampled
@pytest.mark.parametrize("balancer", sample(["round-robin"], ["round-robin", "random"]))
def test_part_of_a_large_fleet_represents_it(monkeypatch, balancer):
    whole = simulator(EXACT, of_rate(1000.0), balancer=balancer).needed(0)
    monkeypatch.setattr(keeping, "WHOLE_FLEET", 10)
    part = simulator(EXACT, of_rate(1000.0), balancer=balancer).needed(0)
    assert whole > 20
    assert whole <= part <= whole + 1
