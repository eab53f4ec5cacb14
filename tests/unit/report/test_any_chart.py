"""Any chart: marks and error bars are inside the plot, texts do not overlap, and all of it can be read as text."""

import re
import xml.etree.ElementTree as ElementTree
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferometer.report.document import (
    Chart,
    ChartAxis,
    ChartLine,
    ChartPoint,
    ChartRule,
    Span,
    Spread,
)
from inferometer.report.format import plain_number
from inferometer.report.page import NARROW, NUMBERS, WIDE, block_markup, draw, numbers, spoken
from tests.support.samples import examples

EXAMPLES = examples(12)

ROUNDING = 0.11  # coordinates have one decimal
RADIUS = 4
LETTER = 6.6  # width of a digit in pixels, which is that of most letters
SIZE = 11  # height of a line of text in pixels, without descenders

VALUES = st.one_of(
    st.just(0.0), st.floats(-3, 9).map(lambda power: 10.0**power), st.integers(0, 10).map(float)
)


@st.composite
def points(draw):
    x, y = draw(VALUES), draw(VALUES)
    limits = {}
    if draw(st.booleans()):
        limits["y_limits"] = (y * draw(st.floats(0, 1)), y * draw(st.floats(1, 30)))
    if draw(st.booleans()):
        limits["x_limits"] = (x * draw(st.floats(0, 1)), x * draw(st.floats(1, 3)))
    label = draw(st.sampled_from(("", "8", "1,024", "33.881")))
    return ChartPoint(x, y, "tip", label=label, is_doubtful=draw(st.booleans()), **limits)


@st.composite
def charts(draw):
    runs = tuple(tuple(draw(st.lists(points(), max_size=20))) for _ in range(draw(st.integers(1, 3))))
    series = tuple(
        ChartLine(f"line {number}", (run,), "blue", is_crossed=draw(st.booleans()))
        for number, run in enumerate(runs)
    )
    low, high = sorted((draw(VALUES), draw(VALUES)))
    spans = (
        (),
        (Span(low, high, "95 % interval 493 to 996", is_interval=True),),
        (Span(low, high, "8"), Span(high, high * 2, "16")),
    )
    limits = st.floats(-3, 9).map(lambda power: ChartRule(10.0**power, "SLO: p99 < 30 ms"))
    return Chart(
        "title",
        x=ChartAxis("throughput (infer/s)"),
        y=ChartAxis("latency", spread=draw(st.sampled_from((Spread.LINEAR, Spread.LOG)))),
        series=series,
        spans=draw(st.sampled_from(spans)),
        rules=tuple(draw(st.lists(limits, max_size=2))),
        height=draw(st.sampled_from((250, 320))),
    )


def inner(svg):
    return tuple(map(float, svg.get("data-inner").split()))


def is_inside(place, box, margin=0.0):
    """Whether a point is in the box, at least `margin` away from its edges."""
    room = margin - ROUNDING
    left, top, right, bottom = box
    return left + room <= place[0] <= right - room and top + room <= place[1] <= bottom - room


def marks(svg):
    """The centre of each mark, dot or cross."""
    for mark in svg.iter("circle"):
        yield float(mark.get("cx")), float(mark.get("cy"))
    for path in svg.iter("path"):
        if "cross" in path.get("class"):
            x, y = re.match(r"M([-\d.]+) ([-\d.]+)", path.get("d")).groups()
            yield float(x) + RADIUS, float(y) + RADIUS


def bars(svg):
    """The corners of each error bar."""
    for path in svg.iter("path"):
        if path.get("class").startswith("error"):
            x = y = 0.0
            for step, numbers in re.findall(r"([MHVhv])([-\d. ]*)", path.get("d")):
                values = [float(word) for word in numbers.split()]
                if step == "M":
                    x, y = values
                elif step in "Hh":
                    x = values[0] if step == "H" else x + values[0]
                else:
                    y = values[0] if step == "V" else y + values[0]
                yield x, y


def texts(svg):
    """The least area of each text."""
    for text in svg.iter("text"):
        kind, x, y = text.get("class").split(), float(text.get("x")), float(text.get("y"))
        width = LETTER * len(text.text)
        left = x - (width if "end" in kind else width / 2 if "middle" in kind else 0)
        yield text.text, (left, y - SIZE + 2, left + width, y)


def drawings(chart):
    return [ElementTree.fromstring(draw(chart, width)) for width in (WIDE, NARROW)]


@settings(max_examples=EXAMPLES, deadline=None)
@given(charts())
def test_every_mark_and_error_bar_is_whole_and_inside_the_plot(chart):
    for svg in drawings(chart):
        found = [point for row in chart.series for run in row.runs for point in run]
        centres = list(marks(svg))
        assert len(centres) == len(found)
        ends = [place.split(",") for line in svg.iter("polyline") for place in line.get("points").split()]
        places = [*bars(svg), *((float(x), float(y)) for x, y in ends)]
        assert all(is_inside(place, inner(svg), RADIUS) for place in centres)
        assert all(is_inside(place, inner(svg)) for place in places)


@settings(max_examples=EXAMPLES, deadline=None)
@given(charts())
def test_no_two_texts_overlap_and_none_is_cut_off(chart):
    for svg in drawings(chart):
        width, height = map(float, svg.get("viewBox").split()[2:])
        found = list(texts(svg))
        for words, (left, top, right, bottom) in found:
            drawing = (0.0, 0.0, width, height)
            assert is_inside((left, top), drawing), words
            assert is_inside((right, bottom), drawing), words
        for (one, a), (other, b) in combinations(found, 2):
            apart = a[2] + 3 <= b[0] or b[2] + 3 <= a[0] or a[3] <= b[1] + 1 or b[3] <= a[1] + 1
            assert apart, (one, other)


@settings(max_examples=EXAMPLES, deadline=None)
@given(charts())
def test_the_slo_line_is_always_labelled(chart):
    for svg in drawings(chart):
        rules = [path for path in svg.iter("path") if path.get("class") == "rule"]
        assert len(rules) == len(chart.rules)
        names = [text for text in svg.iter("text") if text.get("class").startswith("rule-name")]
        assert len(names) == len(chart.rules)
        for rule, name in zip(rules, names, strict=True):
            y = float(rule.get("d").split("L")[0].split()[1])
            assert abs(float(name.get("y")) - y) < 30


@pytest.mark.parametrize("spread", [Spread.LINEAR, Spread.LOG])
@pytest.mark.parametrize(
    "rows",
    [
        [(5.0, 5.0)],
        [(0.0, 0.0)],
        [(0.0, 0.0), (0.0, 0.0)],
        [(10.0**n, 10.0**n) for n in range(-3, 10)],
        [(float(n), float(n * n)) for n in range(20)],
        [],
    ],
    ids=["one level", "nothing", "nothing twice", "12 decades", "twenty levels", "no level"],
)
def test_extreme_values_are_drawn(spread, rows):
    line = ChartLine("p99", (tuple(ChartPoint(x, y, "tip", label=plain_number(x)) for x, y in rows),), "blue")
    chart = Chart("title", ChartAxis("x"), ChartAxis("y", spread=spread), (line,))
    for svg in drawings(chart):
        assert all(is_inside(place, inner(svg), RADIUS) for place in marks(svg))
        ticks = [text for text in svg.iter("text") if "tick" in text.get("class")]
        assert len(ticks) >= 4
        if len(rows) == 1:
            assert sum("point-name" in text.get("class") for text in svg.iter("text")) == 1


def test_an_interval_below_a_log_axis_has_no_cap():
    far = ChartPoint(1.0, 1e6, "tip", y_limits=(1e-3, 2e6))
    near = ChartPoint(2.0, 1e6, "tip", y_limits=(2e5, 2e6))
    for point, caps in ((far, 1), (near, 2)):
        chart = Chart(
            "t", ChartAxis("x"), ChartAxis("y", spread=Spread.LOG), (ChartLine("l", ((point,),), "blue"),)
        )
        (bar,) = [path.get("d") for path in drawings(chart)[0].iter("path") if "error" in path.get("class")]
        assert bar.count("h8") == caps


@settings(max_examples=EXAMPLES, deadline=None)
@given(charts())
def test_a_chart_has_a_text_alternative(chart):
    table, words = numbers(chart), spoken(chart)
    found = [point for row in chart.series for run in row.runs for point in run]
    assert len(table.rows) == min(len(found), NUMBERS)
    for row, point in zip(table.rows, found, strict=False):
        assert row[1:3] == (plain_number(point.x), plain_number(point.y))
    assert all(rule.label in words for rule in chart.rules)
    figure = block_markup(chart, "")
    assert figure.count("<tr>") == 1 + len(table.rows)
    assert f'aria-label="{words}"'.replace("<", "&lt;").replace(">", "&gt;") in figure
