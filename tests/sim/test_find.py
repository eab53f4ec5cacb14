"""The search lands on the capacity of servers whose capacity is known."""

from dataclasses import replace

import pytest

from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.measure.slo import parse_slo
from inferometer.profile.find import Quest, find
from inferometer.records import status
from inferometer.testing.target import Reply


def search(made, recipe, promise, **more):
    quest = Quest(parse_slo(promise), 60 * NS_PER_S, **more)
    return [step.finding for step in find(made.bench, recipe(), quest)][-1]


@pytest.mark.parametrize(("service_ms", "servers"), [(5, 1), (10, 4), (0.7, 1)])
def test_highest_rate_is_within_five_percent_of_the_capacity(rig, recipe, service_ms, servers):
    made = rig(lambda number, sent: Reply(round(service_ms * NS_PER_MS)), servers=servers)
    finding = search(made, recipe, "p99<50ms")
    capacity = servers * 1000 / service_ms
    assert 0.95 * capacity <= finding.value <= capacity
    assert finding.low <= finding.high
    assert made.clock() < 120 * NS_PER_S


def test_highest_concurrency_is_exact(rig, recipe):
    made = rig(lambda number, sent: Reply(5 * NS_PER_MS), servers=1)
    finding = search(made, recipe, "p99<41ms", is_rate=False)
    assert finding.value == 8
    assert finding.high == 9
    assert finding.limited_by == "p99"


def test_errors_limit_too(rig, recipe):
    """Above 100 requests a second every tenth is refused."""
    last = [0]

    def picky(number, sent):
        gap, last[0] = sent - last[0], sent
        if gap < 10 * NS_PER_MS and number % 10 == 0:
            return Reply(NS_PER_MS, status.HTTP + 503)
        return Reply(NS_PER_MS)

    finding = search(rig(picky), recipe, "p99<50ms, errors<1%", start=20.0)
    assert 90 <= finding.value <= 100
    assert finding.limited_by == "errors"


def test_promise_that_cannot_be_kept_is_said(rig, recipe):
    finding = search(rig(lambda number, sent: Reply(80 * NS_PER_MS)), recipe, "p99<50ms", is_rate=False)
    assert finding.value == 0


def test_knee_is_where_latency_has_not_doubled(rig, recipe):
    made = rig(lambda number, sent: Reply(5 * NS_PER_MS), servers=2)
    finding = search(made, recipe, "p99<100ms", is_rate=False)
    assert 2 <= finding.knee < 4
    assert finding.value in (38, 39)


def test_too_little_time_still_gives_what_was_kept(rig, recipe):
    """Each level takes longer than it should, and nothing breaks the promise before the time is over."""
    made = rig(lambda number, sent: Reply(NS_PER_MS))
    slow = replace(made.bench, read_counters=lambda: made.clock.move_to(made.clock() + NS_PER_S))
    quest = Quest(parse_slo("p99<10s"), 60 * NS_PER_S, is_rate=False, start=1.0)
    steps = list(find(slow, recipe(), quest))
    finding, highest = steps[-1].finding, max(step.level.value for step in steps)
    assert (finding.low, finding.high) == (highest, None)
    assert finding.value == highest


def test_a_search_that_is_stopped_tells_what_passed(rig, recipe):
    made = rig(lambda number, sent: Reply(5 * NS_PER_MS))
    steps = find(made.bench, recipe(), Quest(parse_slo("p99<100ms"), 60 * NS_PER_S, start=10.0))
    assert next(steps).level.value == 10
    made.log.interrupt_after = 0
    finding = list(steps)[-1].finding
    assert (finding.value, finding.low, finding.high) == (0, 10, None)
