"""Users who think between an answer and their next request, on a simulated clock."""

import numpy as np
import pytest

from inferometer.base.drawn_times import DrawnTime, ThinkTime
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.load.plan import Closed
from inferometer.records.records import join
from tests.support.clock import FakeClock
from tests.support.simulation import FakeServer, Reply, SimulatedLoad

MS = NS_PER_MS


def run(plan, seconds=1.0):
    """The start of the load, and all requests."""
    clock = FakeClock()
    load = SimulatedLoad(FakeServer(lambda number, sent_ns: Reply(5 * MS)), clock)
    start_ns = load.apply(plan)
    parts, end_ns = [], start_ns + round(seconds * NS_PER_S)
    while clock() < end_ns:
        collected = load.collect(end_ns)
        parts.append(collected.records)
        if collected.is_finished:
            break
    return start_ns, join(parts), clock


def test_a_user_sends_the_next_request_after_the_answer_and_the_think_time():
    start_ns, found, _ = run(Closed(1, think=ThinkTime(DrawnTime("fixed", 20 * MS), seed=3)))
    sent_ns = np.sort(found.sent_ns)
    assert 0 <= sent_ns[0] - start_ns < 20 * MS
    assert set(np.diff(sent_ns)) == {25 * MS}
    assert set(found.end_ns - found.sent_ns) == {5 * MS}  # the think time is no part of the latency
    assert set(found.due_ns - found.sent_ns) == {0}


def test_users_start_in_the_middle_of_a_think_time_and_not_together():
    start_ns, found, _ = run(Closed(20, think=ThinkTime(DrawnTime("fixed", 200 * MS))), 0.2)
    starts = sorted((found.sent_ns - start_ns).tolist())
    assert len(set(starts)) == 20
    assert 20 * MS < np.median(starts) < 180 * MS


def test_throughput_follows_from_users_think_time_and_latency():
    """20 users, 5 ms in service, on average 95 ms of thinking."""
    _, found, _ = run(Closed(20, think=ThinkTime(DrawnTime("exponential", 95 * MS))), 20)
    assert len(found) / 20 == pytest.approx(200, rel=0.05)


def test_a_plan_with_a_count_does_not_wait_for_users_who_have_nothing_more_to_send():
    start_ns, found, clock = run(Closed(4, 6, think=ThinkTime(DrawnTime("fixed", 20 * MS))), 1)
    assert len(found) == 6
    assert clock() - start_ns < 60 * MS


def test_every_worker_draws_its_own_times_and_a_seed_repeats_them():
    plan = Closed(4, think=ThinkTime(DrawnTime("exponential", 20 * MS), seed=5))
    first, second = (plan.share(index, 2).think for index in range(2))
    drawn = [[think.next_ns(user, 1) for user in range(2)] for think in (first, second, first)]
    assert drawn[0] == drawn[2]
    assert len({*drawn[0], *drawn[1]}) == 4
