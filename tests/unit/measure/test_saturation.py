"""Which levels a sweep chooses, on servers whose behaviour is a formula."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.measure.saturation import LEVELS, MOST, PATIENT, Tried, knee, level_ns, next_load


def swept(server):
    """All levels against a server: (load) -> (per second, latency in ms, share that fails)."""
    tried = []
    while (load := next_load(tried)) is not None:
        assert load not in {row.load for row in tried}
        tried.append(Tried(load, *server(load)))
        assert len(tried) <= LEVELS
    return tried


def slots(count):
    """A server with so many places; more requests wait."""
    return lambda load: (10 * min(load, count), 100 * max(1, load / count))


def batches(load):
    """All in flight are one batch; each more makes the whole of it a little slower."""
    step_ms = 10 + 0.5 * load
    return 1000 * load / step_ms, step_ms


def dynamic_batches(load):
    """While one batch is served the next one forms: of two requests each is a batch of its own."""
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


def test_a_server_that_saturates_slowly_is_measured_up_to_nine_tenths_of_what_it_can_do():
    most = max(row.per_s for row in swept(batches))
    assert most > 0.9 * 2000


def test_two_in_flight_that_bring_nothing_do_not_end_it():
    assert knee(swept(dynamic_batches)) == 32


def test_many_slots_are_reached_within_the_levels_that_there_are():
    tried = swept(slots(256))
    assert knee(tried) == 256
    assert max(row.load for row in tried) > 256


def test_a_server_without_a_limit_is_loaded_up_to_the_most():
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


def test_a_first_answer_that_did_not_come_is_waited_for_once_more_and_longer():
    silent = Tried(1, 0.0, is_unanswered=True)
    assert next_load([silent]) == 1
    assert level_ns([silent], 1, 10) == PATIENT * 10
    assert next_load([silent, silent]) is None
    assert next_load([silent, Tried(1, 0.05, 20e9)]) == 2


def test_a_level_has_time_for_several_answers_of_a_saturated_server():
    assert level_ns([], 1, 10) == 10
    assert level_ns([Tried(1, 1.0, 2.0)], 2, 10) == 12
    assert level_ns([Tried(1, 1.0, 2.0), Tried(4, 1.0, 8.0)], 2, 10) == 12
    assert level_ns([Tried(1, 1.0, 0.1)], 2, 10) == 10
