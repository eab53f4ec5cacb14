"""Levels chosen by a sweep, on servers whose behaviour is a formula."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.measure.saturation import (
    LEVELS,
    MOST,
    PATIENT,
    LevelTime,
    Tried,
    knee,
    level_time,
    next_load,
    sweep_ns,
)


def swept(server):
    """Return all levels against a server: (load) -> (per second, latency in ms, share that fails)."""
    tried: list[Tried] = []
    while (load := next_load(tried)) is not None:
        assert load not in {row.load for row in tried}
        tried.append(Tried(load, *server(load)))
        assert len(tried) <= LEVELS
    return tried


def slots(count):
    """A server with this many slots; further requests wait."""
    return lambda load: (10 * min(load, count), 100 * max(1, load / count))


def batches(load):
    """All requests in flight form one batch; each one makes the whole batch a little slower."""
    step_ms = 10 + 0.5 * load
    return 1000 * load / step_ms, step_ms


def dynamic_batches(load):
    """While one batch is served the next one forms: two requests are each a batch of their own."""
    return 10 * max(1, min(load // 2, 16)), 200


def collapses(load):
    return (10 * load, 100) if load <= 16 else (5, 100 * load)


def refuses(load):
    return (10 * min(load, 16), 100, max(0.0, 1 - 16 / load))


@pytest.mark.parametrize(
    ("server", "loads", "top"),
    [
        (slots(1), {1, 2, 4}, 1),
        (slots(8), {1, 2, 4, 8, 16, 32, 6, 7, 9, 11}, 8),
        (lambda load: (0.0,), {1}, None),
        (collapses, {1, 2, 4, 8, 16, 32, 11, 23, 13, 19}, 16),
        (refuses, {1, 2, 4, 8, 16, 32, 11, 23, 13, 19}, 16),
    ],
    ids=["single slot", "8 slots", "all fail", "collapses", "refuses more than 16"],
)
def test_levels_lie_around_the_knee(server, loads, top):
    tried = swept(server)
    assert {row.load for row in tried} == loads
    assert knee(tried) == top


def test_a_slowly_saturating_server_is_measured_up_to_nine_tenths_of_its_capacity():
    most = max(row.per_s for row in swept(batches))
    assert most > 0.9 * 2000


def test_no_gain_from_two_in_flight_does_not_end_the_sweep():
    assert knee(swept(dynamic_batches)) == 32


def test_many_slots_are_reached_within_the_limit_of_levels():
    tried = swept(slots(256))
    assert knee(tried) == 256
    assert max(row.load for row in tried) > 256


def test_a_server_without_a_limit_is_loaded_up_to_the_maximum():
    assert max(row.load for row in swept(lambda load: (load, 1.0))) == MOST


@given(
    st.lists(
        st.tuples(st.floats(0, 1e9), st.floats(0, 1e12), st.floats(0, 1)), min_size=LEVELS, max_size=LEVELS
    )
)
def test_any_server_is_swept_in_bounded_levels_from_one_request_on(answers):
    rest = iter(answers)
    tried = swept(lambda load: next(rest))
    assert tried[0].load == 1
    assert all(1 <= row.load <= MOST for row in tried)


def test_an_unanswered_first_level_is_repeated_for_longer():
    silent = Tried(1, 0.0, is_unanswered=True)
    assert next_load([silent]) == 1
    assert level_time([silent], 1, 10).most_ns == PATIENT * 10
    assert next_load([silent, silent]) is None
    assert next_load([silent, Tried(1, 0.05, 20e9)]) == 2


@pytest.mark.parametrize(
    ("tried", "load", "time"),
    [
        ([], 1, LevelTime(20, 100)),
        ([Tried(1, 1.0, 1.0)], 2, LevelTime(20, 100)),  # quick answers
        ([Tried(1, 1.0, 20.0)], 2, LevelTime(40, 120)),  # three answers of a saturated server
        ([Tried(1, 1.0, 20.0), Tried(4, 1.0, 80.0)], 2, LevelTime(40, 120)),
        (
            [Tried(1, 1.0, 20.0), Tried(4, 1.0, 30.0)],
            2,
            LevelTime(40, 100),
        ),  # which is known not to be saturated
    ],
)
def test_a_level_has_time_for_several_answers(tried, load, time):
    assert level_time(tried, load, 100) == time


def test_near_the_end_a_level_gets_less_time_to_be_precise():
    assert level_time([Tried(1, 1.0, 1.0)], 2, 100, left_ns=200.0) == LevelTime(20, 50)


def test_a_client_limited_level_is_not_the_knee_and_does_not_end_the_climb():
    """A client that was late once, on a busy machine, may keep up with twice the load."""
    assert next_load([Tried(1, 10.0, is_client_limited=True)]) == 2
    tried = [Tried(1, 10.0), Tried(2, 20.0), Tried(4, 30.0, is_client_limited=True)]
    assert next_load(tried) == 8
    assert knee(tried) == 2


USUAL = 10.0  # seconds


def timed_sweep(server, usual=USUAL):
    """Return (levels, seconds) of a sweep without a time limit, against a server: (load) -> (per second, seconds)."""
    tried: list[Tried] = []
    spent, second = 0.0, 10**9
    while True:
        left = (sweep_ns(tried, round(usual * second)) - spent * second) if tried else math.inf
        load = next_load(tried, left)
        if load is None:
            return tried, spent
        per_s, answer_s = server(load)
        time = level_time(tried, load, round(usual * second), left)
        is_precise = len(tried) % 3 != 2
        least_s = max(time.least_ns / second, 3.0 if answer_s < 1 else 0.0)
        spent += 1.5 * answer_s * (load > 1) + (least_s if is_precise else time.most_ns / second)
        tried.append(Tried(load, per_s, answer_s * second))


def batched(slots_, step_s, each_s, tokens=48):
    """Continuous batching: tokens per second, and the response time including the wait."""

    def server(load):
        running = min(load, slots_)
        step = step_s + each_s * running
        return running / step, tokens * step * load / running

    return server


@pytest.mark.parametrize(
    ("server", "longest", "top"),
    [
        (batched(32, 0.02, 0.0004), 80, (23, 45)),
        (batched(8, 0.02, 0.0004), 80, (6, 11)),
        (batched(4, 0.018, 0.0), 80, (3, 6)),
        (batched(128, 0.018, 0.0001), 110, (64, 180)),
        (batched(10_000, 0.02, 0.0), 110, (64, 4096)),
        (batched(32, 0.0005, 0.0), 80, (23, 45)),
        (batched(32, 0.00001, 0.0), 80, (23, 45)),
    ],
    ids=["32 slots", "8 slots", "4 slots", "128 slots", "no limit", "24 ms", "0.5 ms"],
)
def test_a_sweep_takes_about_a_minute_if_answers_take_up_to_a_second(server, longest, top):
    tried, seconds = timed_sweep(server)
    assert seconds <= longest
    assert len(tried) <= LEVELS
    low, high = top
    assert low <= knee(tried) <= high


def test_a_sweep_of_a_slow_server_takes_proportionally_longer():
    tried, seconds = timed_sweep(batched(8, 0.4, 0.008))
    assert 6 <= len(tried) <= LEVELS
    assert seconds <= 60 * tried[0].latency_ns / 10**9 + 120
