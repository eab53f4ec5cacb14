"""Schedules are pure numbers: exact and in order."""

import itertools
import math
import pickle
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.base.units import NS_PER_S
from inferometer.load.plan import (
    NEVER,
    Arrivals,
    Closed,
    Constant,
    Gaps,
    Intervals,
    Listed,
    Open,
    Periodic,
    Poisson,
    Ramps,
    Renewal,
    Stairs,
    from_mid_period,
)


@given(st.floats(0.1, 1e5), st.integers(0, 10**7))
def test_constant_never_drifts(rate, number):
    assert abs(Constant(rate).due_ns(number) - (number + 1) / rate * NS_PER_S) <= 1 + number * 1e-6


def gaps(schedule, count):
    times = [schedule.due_ns(number) for number in range(count)]
    return [later - earlier for earlier, later in itertools.pairwise([0, *times])]


def test_poisson_gaps_are_exponential():
    found = sorted(gap / NS_PER_S for gap in gaps(Poisson(200, seed=1), 20_000))
    assert statistics.mean(found) == pytest.approx(1 / 200, rel=0.03)
    # Kolmogorov-Smirnov: the largest distance between the measured and the exponential distribution.
    count = len(found)
    distance = max(
        max(abs((k + 1) / count - (1 - math.exp(-200 * gap))), abs(k / count - (1 - math.exp(-200 * gap))))
        for k, gap in enumerate(found)
    )
    assert distance < 1.63 / math.sqrt(count)  # 1 % level


def test_poisson_is_the_same_for_the_same_seed_and_for_every_stride():
    whole = [Poisson(50, seed=3).due_ns(number) for number in range(1)]
    one, other, third = Poisson(50, seed=3), Poisson(50, seed=3), Poisson(50, seed=4)
    every = [one.due_ns(number) for number in range(9000)]
    assert every[0] == whole[0]
    assert [other.due_ns(number) for number in range(1, 9000, 3)] == every[1::3]
    assert third.due_ns(0) != every[0]


@pytest.mark.parametrize(
    ("distribution", "burstiness", "variation"),
    [
        *((("gamma", shape, 1 / math.sqrt(shape))) for shape in (0.25, 0.5, 1, 4, 100)),
        *(
            ("weibull", shape, math.sqrt(math.gamma(1 + 2 / shape) / math.gamma(1 + 1 / shape) ** 2 - 1))
            for shape in (0.6, 1, 3, 50)
        ),
    ],
)
def test_random_gaps_have_the_mean_and_variation_of_their_shape(distribution, burstiness, variation):
    found = gaps(Renewal(200, seed=5, gaps=Gaps(distribution, burstiness)), 20_000)
    mean = statistics.mean(found)
    assert mean == pytest.approx(NS_PER_S / 200, rel=5 * variation / math.sqrt(len(found)))
    assert statistics.pstdev(found) / mean == pytest.approx(variation, rel=0.1)


@pytest.mark.parametrize("chosen", [Gaps("gamma", 0.5), Gaps("weibull", 0.7), Gaps("gamma", 3)])
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_workers_share_one_random_schedule(chosen, workers):
    reference = Renewal(50, seed=3, gaps=chosen)
    whole = [reference.due_ns(number) for number in range(2000)]
    parts = []
    for worker in range(workers):
        plan = pickle.loads(pickle.dumps(Open(Renewal(50, seed=3, gaps=chosen)).share(worker, workers)))
        parts += [plan.schedule.due_ns(number) for number in range(plan.first, 2000, plan.stride)]
    assert sorted(parts) == whole
    assert Renewal(50, seed=4, gaps=chosen).due_ns(0) != whole[0]


@pytest.mark.parametrize("distribution", ["gamma", "weibull"])
@pytest.mark.parametrize("burstiness", [0.1, 1e6])
def test_extreme_shapes_have_finite_due_times(distribution, burstiness):
    found = gaps(Renewal(1000, seed=1, gaps=Gaps(distribution, burstiness)), 600)
    assert min(found) >= 0
    assert max(found) < 3600 * NS_PER_S


def test_past_arrivals_are_discarded():
    schedule = Poisson(100.0, 7)
    for number in range(5000):
        schedule.due_ns(number)
    assert len(schedule._due) == 513  # the requested one and the next ones


def test_one_worker_does_all_of_a_periodic_plan():
    plan = Periodic(1, 9, 2, 10)
    assert [plan.share(index, 3) for index in range(3)] == [plan, Closed(0, 0), Closed(0, 0)]


def test_listed_ends():
    assert [Listed((5, 7)).due_ns(number) for number in range(3)] == [5, 7, NEVER]


def test_intervals_of_one_gap_are_a_constant_rate():
    assert gaps(Intervals((1000,)), 5) == [1000] * 5


def test_ramp_begins_slowly_and_ends_fast():
    schedule = Ramps(((10 * NS_PER_S, 0.0, 100.0),))
    times = [schedule.due_ns(number) / NS_PER_S for number in range(500)]
    assert times == sorted(times)
    assert times[124] == pytest.approx(5.0, abs=0.01)  # a quarter of the requests in half the time
    assert times[-1] == pytest.approx(10.0, abs=0.01)
    assert schedule.due_ns(500) == NEVER


def test_a_ramp_down_to_nothing_ends_with_its_last_request_at_its_end():
    schedule = Ramps(((10 * NS_PER_S, 100.0, 0.0),))
    assert schedule.due_ns(499) == pytest.approx(10 * NS_PER_S, rel=1e-3)
    assert schedule.due_ns(374) == pytest.approx(5 * NS_PER_S, rel=1e-3)  # three quarters in half the time


def test_pieces_follow_each_other():
    schedule = Ramps(((NS_PER_S, 10.0, 10.0), (NS_PER_S, 100.0, 100.0)))
    times = [schedule.due_ns(number) for number in range(110)]
    assert sum(time <= NS_PER_S for time in times) == 10
    assert times[10] == pytest.approx(1.01 * NS_PER_S, rel=1e-6)
    assert schedule.due_ns(110) == NEVER


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(1, 8))
def test_shares_add_up(concurrency, count, parts):
    shares = [Closed(concurrency, count).share(index, parts) for index in range(parts)]
    assert sum(share.concurrency for share in shares) == concurrency
    assert sum(share.count for share in shares) == count
    assert max(share.concurrency for share in shares) - min(share.concurrency for share in shares) <= 1


@pytest.mark.parametrize(
    "schedule",
    [
        Constant(7.3),
        Poisson(40, seed=2),
        Renewal(40, seed=2, gaps=Gaps("gamma", 0.5)),
        Intervals((5, 5, 900_000_000)),
        Listed((0, 0, 10**9)),
        Ramps(((3 * 10**9, 1.0, 9.0),)),
    ],
    ids=lambda schedule: type(schedule).__name__,
)
@given(st.lists(st.integers(-(10**8), 4 * 10**9), max_size=5), st.none() | st.integers(0, 20))
def test_arrivals_are_the_due_times_up_to_a_time(schedule, times, count):
    known = Renewal(40, seed=2, gaps=schedule.gaps) if isinstance(schedule, Renewal) else schedule
    limit = 1000 if count is None else count
    due = list(itertools.takewhile(lambda time: time < NEVER, map(known.due_ns, range(limit))))
    arrivals = Arrivals(Open(schedule, count=count))
    for time_ns in sorted(times):
        assert arrivals.by(time_ns) == sum(due_ns <= time_ns for due_ns in due)


@pytest.mark.parametrize(
    ("plan", "slots", "last_ns", "starts"),
    [
        (Closed(4, ramp_ns=400), 4, None, [1000, 1100, 1200, 1300]),
        (Closed(4, ramp_ns=300), 3, 950, [1050, 1150, 1250]),  # one has been running since then
        (Closed(4, ramp_ns=300), 3, 100, [1000, 1100, 1200]),
        (Closed(4, ramp_ns=400).share(1, 2), 2, None, [1100, 1300]),  # between those of the other worker
    ],
)
def test_a_ramp_spreads_starts_evenly(plan, slots, last_ns, starts):
    assert plan.starts_ns(slots, 1000, last_ns) == starts


def test_stairs_have_no_requests_before_their_first_step():
    assert Stairs(((10, 3),)).at(9) == 0
    assert Stairs(((10, 3),)).at(10) == 3


def test_from_mid_period_has_as_many_requests_as_the_rate_says():
    schedule = from_mid_period(Constant(10), 10, 2 * NS_PER_S)
    assert schedule.count == 20
    assert [schedule.due_ns(number) for number in (0, 19, 20)] == [50_000_000, 1_950_000_000, NEVER]
