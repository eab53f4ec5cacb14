"""Several groups of workers under one clock."""

import numpy as np
import pytest

from inferometer.base.errors import LocalError
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.load.plan import Closed, Constant, Excerpt, Joint, Listed, Open, Stairs
from inferometer.load.together import Together
from tests.support.clock import FakeClock
from tests.support.simulation import FakeServer, Reply, SimulatedLoad


def quick(number, sent_ns):
    return Reply(NS_PER_MS)


def together(*scripts, steps=2):
    clocks = [FakeClock() for _ in scripts]
    groups = [
        SimulatedLoad(FakeServer(script), clock, requests=steps)
        for script, clock in zip(scripts, clocks, strict=True)
    ]
    return Together(groups, [steps] * len(scripts), clocks[0])


def collected(load, seconds, clock_ns):
    parts, end_ns = [], clock_ns + round(seconds * NS_PER_S)
    while load.clock() < end_ns:
        parts.append(load.collect(end_ns))
    return parts


def test_schedules_start_together_and_records_identify_their_class():
    load = together(quick, quick)
    start_ns = load.apply(Joint((Open(Constant(100)), Open(Constant(25)))))
    records = [part.records for part in collected(load, 1.1, start_ns)]
    due: dict[int, list[int]] = {number: [] for number in (0, 1)}
    for part in records:
        for step, due_ns in zip(part.step.tolist(), part.due_ns.tolist(), strict=True):
            due[step // 2].append(due_ns)
    assert due[0][0] == start_ns + 10 * NS_PER_MS
    assert due[1][0] == start_ns + 40 * NS_PER_MS
    assert len([time for time in due[0] if time <= start_ns + NS_PER_S]) == 100
    assert len([time for time in due[1] if time <= start_ns + NS_PER_S]) == 25


def test_cost_is_reported_per_group_and_in_total():
    load = together(quick, quick)
    start_ns = load.apply(Joint((Open(Constant(100)), Closed(1))))
    last = collected(load, 0.5, start_ns)[-1]
    assert last.cost.sent == sum(part.sent for part in last.cost.parts)
    assert len(last.cost.cpu_ns) == len(last.cost.parts) == 2
    assert load.totals().sent == last.cost.sent
    assert len(load.totals().steps) == 4


def test_a_concurrency_climbs_its_stairs():
    load = together(quick)
    start_ns = load.apply(Joint((Stairs(((0, 1), (100 * NS_PER_MS, 3), (200 * NS_PER_MS, 2))),)))
    seen = {}
    while load.clock() < start_ns + 300 * NS_PER_MS:
        found = load.collect(load.clock() + 20 * NS_PER_MS)
        seen[(found.seen_ns - start_ns) // (100 * NS_PER_MS)] = found.outstanding
    assert (seen[0], seen[1], seen[2]) == (1, 3, 2)
    assert Stairs(((0, 1), (100, 3))).at(99) == 1
    assert Stairs(((0, 1), (100, 3))).at(100) == 3


def test_stairs_send_from_the_common_start_to_their_end():
    load = together(quick)
    for _ in range(2):  # phases
        start_ns = load.apply(Joint((Stairs(((0, 2), (100 * NS_PER_MS, 0))),)))
        parts = []
        while load.clock() < start_ns + 200 * NS_PER_MS:
            parts.append(load.collect(load.clock() + 20 * NS_PER_MS))
        assert [part.is_finished for part in parts if part.seen_ns < start_ns + 100 * NS_PER_MS].count(
            True
        ) == 0
        sent_ns = np.concatenate([part.records.sent_ns for part in parts])
        assert len(sent_ns) >= 190
        assert sent_ns.min() >= start_ns
        assert sent_ns.max() <= start_ns + 100 * NS_PER_MS + 2 * NS_PER_MS


def test_every_group_needs_a_plan():
    with pytest.raises(LocalError, match="2 groups of workers need one plan each"):
        together(quick, quick).apply(Closed(4))
    with pytest.raises(LocalError, match="groups of workers"):
        Joint((Closed(1),)).share(0, 1)


def test_an_excerpt_of_a_schedule_counts_from_its_own_start():
    part = Excerpt(Constant(10), NS_PER_S, 2 * NS_PER_S)
    assert part.first == 9  # the request due at the start is included
    assert part.count == 10
    assert part.due_ns(0) == 0
    assert part.due_ns(9) == 900 * NS_PER_MS
    assert part.due_ns(10) > NS_PER_S * 1000
    assert Excerpt(Listed((1, 5, 9)), 5, 100).due_ns(0) == 0
    assert Excerpt(Listed((1, 5, 9)), 50, 100).count == 0
