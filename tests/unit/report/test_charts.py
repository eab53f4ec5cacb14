"""Charts as markup: every number of the series is in it, every text is escaped."""

import math
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.report.document import (
    Bar,
    Bars,
    Chart,
    ChartAxis,
    ChartLine,
    ChartPoint,
    ChartRule,
    DifferenceBar,
    Differences,
    Segment,
    Span,
    Spread,
    Tone,
)
from inferometer.report.page import NARROW, WIDE, block_markup, draw, times_scale

NASTY = "<script>alert('1 & 2')</script>\""


def chart(name="line", label=""):
    points = (
        ChartPoint(1.0, 2.5, f"{name}: first", x_limits=(0.5, 1.5), y_limits=(2.0, 3.0), label=label),
        ChartPoint(4.0, 3.25, "second", is_doubtful=True),
    )
    return Chart(
        title=name,
        x=ChartAxis("x", str),
        y=ChartAxis("y", str),
        series=(
            ChartLine(name, (points,), "blue"),
            ChartLine("other", ((ChartPoint(2, 2, "alone"),),), "orange", is_dashed=True),
        ),
        spans=(Span(0, 2, label or "span"), Span(2, 4, is_faded=True)),
        rules=(ChartRule(3.0, "bound"),),
    )


def marks(svg):
    found = ElementTree.fromstring(svg).iter("circle")
    return [(float(mark.get("data-x")), float(mark.get("data-y")), mark.findtext("title")) for mark in found]


def test_every_point_is_a_mark_with_its_numbers_in_both_widths():
    for width in (WIDE, NARROW):
        assert marks(draw(chart(), width)) == [
            (1.0, 2.5, "line: first"),
            (4.0, 3.25, "second"),
            (2.0, 2.0, "alone"),
        ]


def test_everything_lies_inside_the_drawing():
    for width in (WIDE, NARROW):
        root = ElementTree.fromstring(draw(chart(), width))
        height = float(root.get("viewBox").split()[3])
        for mark in root.iter("circle"):
            assert 0 < float(mark.get("cx")) < width
            assert 0 < float(mark.get("cy")) < height


def test_a_doubtful_point_is_hollow_and_a_lone_point_has_no_line():
    root = ElementTree.fromstring(draw(chart(), WIDE))
    assert [("hollow" in mark.get("class")) for mark in root.iter("circle")] == [False, True, False]
    assert len(list(root.iter("polyline"))) == 1


def test_error_bars_reach_to_their_limits():
    bars = [
        path.get("d")
        for path in ElementTree.fromstring(draw(chart(), WIDE)).iter("path")
        if "error" in path.get("class")
    ]
    assert len(bars) == 2


def test_names_stay_text():
    figure = block_markup(chart(NASTY, label=NASTY), "")
    assert "<script" not in figure
    root = ElementTree.fromstring(figure)
    assert root.findtext("figcaption") == NASTY
    assert [key.tail for key in root.iter("span")] == [NASTY, "other"]


def test_a_chart_without_any_point_is_still_a_drawing():
    empty = Chart("none", ChartAxis("x", str), ChartAxis("y", str), ())
    assert marks(draw(empty, WIDE)) == []


def test_bars_have_the_width_of_their_share():
    rows = (
        Bar(
            "one",
            (Segment("queue", 30.0, "30 ms", "part-queue"), Segment("work", 10.0, "10 ms", "part-infer")),
            "40 ms",
        ),
        Bar(NASTY, (Segment("queue", 80.0, "80 ms", "part-queue"),), "80 ms", NASTY),
    )
    figure = block_markup(Bars("bars", rows), "")
    assert re.findall(r'style="width:([\d.]+)%"', figure) == ["37.500", "12.500", "100.000"]
    assert re.findall(r'data-value="([\d.]+)"', figure) == ["30.0", "10.0", "80.0"]
    assert "<script" not in figure
    assert "one: queue 30 ms, work 10 ms" in figure


def test_bars_of_nothing_are_empty():
    bar = Bar("zero", (Segment("queue", 0.0, "0 ns", "part-queue"),), "0 ns")
    figure = block_markup(Bars("bars", (bar,)), "")
    assert "width:0.000%" in figure


def differences(*rows, tone=Tone.GOOD):
    """Bars from (value, limits); those whose limits include 1 are not significant."""
    return Differences(
        NASTY,
        tuple(
            DifferenceBar(
                "a", value, limits, "said", Tone.PLAIN if limits[0] <= 1 <= limits[1] else tone, "g"
            )
            for value, limits in rows
        ),
    )


def test_differences_are_placed_on_a_log_axis_around_1():
    bars = replace(differences((1.5, (1.2, 2.0)), (0.5, (0.5, 0.5))), title=NASTY)
    figure = block_markup(bars, "")
    dots = [float(place) for place in re.findall(r'class="dot" style="left:([\d.]+)%"', figure)]
    assert dots == [pytest.approx(50 + 50 * math.log2(1.5), abs=1e-3), 0.0]
    assert re.findall(r'class="reach" style="left:([\d.]+)%;right:([\d.]+)%"', figure) == [
        ("63.152", "0.000"),
        ("0.000", "100.000"),
    ]
    assert re.findall(r'class="group">(\w+)<', figure) == ["g"]
    assert "<script" not in figure
    assert re.findall(r"translateX\(-[\d.]+%\)\">([^<]+)<", figure) == [
        *("2× slower", "1.3× slower", "same", "1.3× faster", "2× faster")
    ]


TIMES = st.floats(1e-6, 1e6)
INTERVALS = st.tuples(TIMES, TIMES, TIMES).map(sorted).map(lambda row: (row[1], (row[0], row[2])))


@given(st.lists(INTERVALS, min_size=1, max_size=6))
def test_the_axis_contains_every_dot_and_significant_interval(rows):
    found = times_scale(differences(*rows))
    shown = [v for value, limits in rows for v in (value, *(() if limits[0] <= 1 <= limits[1] else limits))]
    assert all(found.low - 1e-9 <= math.log10(value) <= found.high + 1e-9 for value in shown)
    assert found.low < 0 < found.high
    assert 1.0 in found.ticks
    figure = block_markup(differences(*rows), "")
    texts = re.findall(r'left:([\d.]+)%;transform:translateX\(-([\d.]+)%\)">([^<]+)<', figure)
    spans = []
    for left, back, words in texts:
        width = 6.0 * len(words)  # pixels, on a phone with 358 in total
        start = 3.58 * float(left) - width * float(back) / 100
        spans.append((start, start + width))
    assert len(spans) == len(found.ticks)
    assert all(end < start for (_, end), (start, _) in pairwise(spans))


def test_a_wide_insignificant_interval_leaves_room_for_the_others():
    bars = differences((1.03, (1.02, 1.04)), (1.0, (0.001, 1000.0)))
    found = times_scale(bars)
    assert found.place(1.04) - found.place(1.02) > 3
    (wide,) = re.findall(
        r'class="reach cut-low cut-high" style="left:([\d.]+)%;right:([\d.]+)%"', block_markup(bars, "")
    )
    assert wide == ("0.000", "0.000")


def test_an_interval_down_to_zero_does_not_break_a_log_axis():
    point = ChartPoint(1.0, 100.0, "wide", y_limits=(0.0, 300.0))
    log = Chart(
        "log", ChartAxis("x", str), ChartAxis("y", str, Spread.LOG), (ChartLine("line", ((point,),), "blue"),)
    )
    (bar,) = [
        path.get("d")
        for path in ElementTree.fromstring(draw(log, WIDE)).iter("path")
        if "error" in path.get("class")
    ]
    assert "nan" not in bar
    assert marks(draw(log, WIDE)) == [(1.0, 100.0, "wide")]
