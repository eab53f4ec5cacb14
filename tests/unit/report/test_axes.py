"""Positions and ticks of an axis."""

import pytest

from inferometer.report.document import ChartAxis, Spread
from inferometer.report.page import scale


def axis(spread: Spread) -> ChartAxis:
    return ChartAxis("value", str, spread)


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ((21.6, 16.0), (0, 5, 10, 15, 20, 25)),
        ((0.3,), (0, 0.1, 0.2, 0.3)),
        ((7e9, 1.0), (0, 2e9, 4e9, 6e9, 8e9)),
        ((-3.0, 4.0), (-4, -2, 0, 2, 4)),
        ((0.0,), (0, 0.2, 0.4, 0.6, 0.8, 1.0)),
        ((), (0, 0.2, 0.4, 0.6, 0.8, 1.0)),
    ],
)
def test_a_linear_axis_has_round_ticks_and_always_shows_zero(values, ticks):
    found = scale(axis(Spread.LINEAR), values, start=0, end=100, ticks=5)
    assert found.ticks == pytest.approx(ticks)
    assert found.place(found.ticks[0]) == 0
    assert found.place(found.ticks[-1]) == 100


@pytest.mark.parametrize("values", [(1.0, 1000.0), (3e6, 2e9), (5.0, 5.0), (0.0, 7.0), (1e-3, 1e9), ()])
def test_a_log_axis_holds_all_values_between_its_ticks(values):
    found = scale(axis(Spread.LOG), values, start=0, end=100, ticks=5)
    assert 2 <= len(found.ticks) <= 14
    assert all(-1e-6 <= found.place(value) <= 100 + 1e-6 for value in values if value > 0)


def test_the_tail_axis_gives_every_nine_the_same_room():
    found = scale(axis(Spread.TAIL), (0.0, 0.999), start=0, end=300, ticks=5)
    assert [found.place(part) for part in (0.9, 0.99, 0.999)] == pytest.approx([100, 200, 300])
    assert found.ticks == (0.0, 0.5, 0.9, 0.99, 0.999)


def test_an_axis_of_whole_numbers_has_no_tick_between_them():
    found = scale(ChartAxis("load", str, is_whole=True), (1.0, 4.0), start=0, end=100, ticks=8)
    assert found.ticks == (0, 1, 2, 3, 4)


@pytest.mark.parametrize(("value", "is_whole"), [(1.0, True), (124.0, False), (0.0, False)])
def test_a_single_value_is_in_the_middle_of_an_axis_without_zero(value, is_whole):
    found = scale(
        ChartAxis("title", is_whole=is_whole, is_from_zero=False), (value,), start=0, end=100, ticks=5
    )
    assert 25 < found.place(value) < 75
