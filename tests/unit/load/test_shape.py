"""The words of --shape-load and their schedules."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.base.errors import UsageError
from inferometer.base.units import NS_PER_S
from inferometer.load.plan import NEVER, Ramps, parse_shape

S = NS_PER_S

SHAPES = [
    ("ramp 10..500 over 60s", [(60 * S, 10, 500)]),
    ("ramp 500 .. 10 over 1m", [(60 * S, 500, 10)]),
    ("hold 2.5 for 8s", [(8 * S, 2.5, 2.5)]),
    ("HOLD 100/s for 500ms", [(S // 2, 100, 100)]),
    ("burst 9 for 1s every 4s", [(S, 9, 9), (3 * S, 0, 0)]),
    (
        "burst 9 on 2 for 1s every 4s over 9s",
        [(S, 9, 9), (3 * S, 2, 2), (S, 9, 9), (3 * S, 2, 2), (S, 9, 9)],
    ),
    ("ramp 0..9 over 2s then hold 9 for 3s", [(2 * S, 0, 9), (3 * S, 9, 9)]),
    ("ramp 0..9 over 2s, hold 9 for 3s ,then  hold 1 for 1s", [(2 * S, 0, 9), (3 * S, 9, 9), (S, 1, 1)]),
]


@pytest.mark.parametrize(("text", "pieces"), SHAPES)
def test_words_describe_pieces(text, pieces):
    assert parse_shape(text).pieces == tuple(pieces)


REFUSED = [
    ("", "piece 1 of --shape-load is ''"),
    ("wave 5", "piece 1 of --shape-load is 'wave 5', which is not a ramp, hold or burst"),
    ("hold 5 for 1s then ramp 1..2", "piece 2 of --shape-load is 'ramp 1..2'"),
    ("hold 5 for 1s,", "piece 2 of --shape-load is ''"),
    ("hold -5 for 1s", "piece 1"),
    ("hold 5 for 0s", "piece 1 of --shape-load has the duration '0s'"),
    ("hold 5 for 3 weeks", "piece 1"),
    ("hold 5 for 3parsec", "needs a duration, but got '3parsec'"),
    ("burst 5 for 2s every 2s", "which leaves no gap between them"),
    ("burst 5 for 1us every 2us over 1h", "more than 100000 bursts"),
    ("hold 0 for 9s", "ends before its first request is due"),
    ("hold 0.1 for 9s", "ends before its first request is due"),
]


@pytest.mark.parametrize(("text", "sentence"), REFUSED)
def test_an_invalid_shape_is_refused_with_its_place(text, sentence):
    with pytest.raises(UsageError, match=sentence.replace("(", r"\(")):
        parse_shape(text)


rates = st.integers(0, 400).map(float)
pieces = st.lists(st.tuples(st.integers(1, 5 * S), rates, rates), min_size=1, max_size=8)


@given(pieces)
def test_a_shape_has_as_many_requests_as_its_area(found):
    schedule = Ramps(tuple(found))
    area = sum(duration / S * (start + end) / 2 for duration, start, end in found)
    assert abs(schedule.count - area) <= 1
    times = [schedule.due_ns(number) for number in range(schedule.count)]
    assert all(earlier <= later for earlier, later in itertools.pairwise(times))
    assert all(0 <= time <= sum(duration for duration, _, _ in found) for time in times)
    assert schedule.due_ns(schedule.count) == NEVER


def test_the_rate_at_each_moment_is_the_requested_one():
    schedule = parse_shape("ramp 100..300 over 10s then hold 50 for 4s")
    times = [schedule.due_ns(number) / S for number in range(schedule.count)]
    for start, expected in ((0, 110), (4, 190), (9, 290), (10, 50), (13, 50)):
        assert abs(sum(start < time <= start + 1 for time in times) - expected) <= 1


def test_nothing_is_due_between_bursts():
    schedule = parse_shape("burst 50 for 1s every 3s over 9s")
    times = [schedule.due_ns(number) / S for number in range(schedule.count)]
    assert len(times) == 150
    assert all(time % 3 <= 1 for time in times)
