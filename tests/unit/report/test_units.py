"""Time axes: one unit if it fits, otherwise a unit for each tick."""

import pytest

from inferometer.report.document import ChartLine, ChartPoint, Spread
from inferometer.report.documents.levels import time_axis
from inferometer.report.format import plain_number


def line(times):
    return ChartLine("line", (tuple(ChartPoint(0.0, ns, "") for ns in times),), "blue")


@pytest.mark.parametrize(
    ("times", "title", "ticks"),
    [
        ((100_000_000, 300_000_000), "latency (ms)", {200_000_000: "200", 0: "0"}),
        ((400_000, 900_000), "latency (µs)", {500_000: "500"}),
        ((1_500_000_000,), "latency (s)", {250_000_000: "0.25"}),
        ((300,), "latency (µs)", {100: "0.1"}),
        ((), "latency (µs)", {0: "0"}),
    ],
)
def test_times_of_one_size_share_a_unit(times, title, ticks):
    axis = time_axis("latency", [line(times)])
    assert (axis.title, axis.spread) == (title, Spread.LINEAR)
    assert {value: axis.text(value) for value in ticks} == ticks


def test_times_far_apart_have_their_own_units():
    axis = time_axis("latency", [line((10_000, 2_000_000_000))])
    assert (axis.title, axis.spread) == ("latency (log scale)", Spread.LOG)
    values = (10.0, 1e3, 1e5, 1e6, 5e8, 1e9)
    assert [axis.text(value) for value in values] == ["10 ns", "1 µs", "100 µs", "1 ms", "500 ms", "1 s"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.25, "0.25"), (40.0, "40"), (12_500.0, "12,500"), (1e-5, "0.00001"), (2e9, "2,000,000,000")],
)
def test_numbers_are_plain(value, text):
    assert plain_number(value) == text
