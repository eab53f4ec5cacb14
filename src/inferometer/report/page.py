"""A document as one self-contained page, which works from a file, on a phone and on paper.

A chart is drawn twice as SVG, for wide and for narrow screens, and the style sheet shows one of them: text keeps its
size on a phone, no script is needed, and the page prints as it looks. All other blocks are template macros.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from inferometer.base.errors import Spell
from inferometer.base.frozen import frozen
from inferometer.base.text import printable
from inferometer.report.document import (
    Block,
    Chart,
    ChartAxis,
    ChartLine,
    ChartPoint,
    ChartRule,
    Column,
    Depth,
    DifferenceBar,
    Differences,
    Document,
    Span,
    Spread,
    Table,
    Tone,
)
from inferometer.report.format import glued, plain_number, plural

LABELLED_SHARE = 0.11  # smallest segment of a bar with room for its text
WIDE, NARROW = 880, 380
DENSE = 100  # points of a line from which they are drawn smaller
TAIL_TICKS = (0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999)
LEAST_RANGE = 1e-9  # smaller ranges count as a single value
FAR = 1000.0  # longest downward error bar on a log axis, as a factor
MARK = 6.0  # pixels from the centre of a mark to its edge, with a margin
NUMBERS = 200  # most points in the table below a chart
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_LETTER = 7.0  # width of a letter in a tick label, in pixels, rounded up
_LINE_POINTS = 3.0  # pixels between places along a line
_LINE = 12.0  # height of a line of text in pixels
_LINE_STEP = 14.0  # distance between two lines of text in pixels
_TIMES = (
    *(1.002, 1.005, 1.01, 1.02, 1.03, 1.05, 1.1, 1.15, 1.2, 1.3, 1.5),
    *(digit * 10.0**power for power in range(4) for digit in (2, 3, 5, 10)),
)
_LEAST_SIDE = 0.25  # least length of the shorter side of a speed axis, relative to the longer one
_MOST_STRETCHED = 4.0  # longest such axis, relative to what significant differences need
_LETTER_SHARE = 1.75  # width of a letter on a phone, in percent of such an axis

if TYPE_CHECKING:
    from jinja2 import Environment


def render(document: Document, spell: Spell = str) -> str:
    """Return the whole page; the same document gives the same bytes."""
    document = document.spelled(spell)
    template = _environment().get_template("page.html.j2")
    # JSON that cannot close its script element: `<` is replaced by its JSON escape.
    source = Markup(document.source.replace("<", "\\u003c"))
    page = template.render(document=document, block=block_markup, source=source)
    return printable(page)  # tags are already escaped; this removes unprintable characters


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("inferometer.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {"glued": glued, "columns": _columns}
    environment.tests["amount"] = re.compile(r"\d\S*( \S+)?").fullmatch
    environment.globals |= {
        "draw": draw,
        "numbers": numbers,
        "chart_note": chart_note,
        "times_scale": times_scale,
        "times_tick": _times_tick,
        "WIDE": WIDE,
        "NARROW": NARROW,
        "LABELLED_SHARE": LABELLED_SHARE,
    }
    return environment


def _columns(count: int, most: int) -> int:
    """Return the number of columns that spreads cards evenly over rows of up to `most`."""
    return math.ceil(count / math.ceil(count / most))


def block_markup(block: Block, title: str) -> Markup:
    """Render a block with the macro of its name."""
    macros = _environment().get_template("blocks.html.j2").module
    return Markup(getattr(macros, type(block).__name__.lower())(block, title))


# --- scales and ticks


@frozen
class Scale:
    """A mapping from values to pixels along one axis."""

    spread: Spread
    low: float  # as laid out: the logarithm on a log axis
    high: float
    start: float  # pixels
    end: float
    ticks: tuple[float, ...]

    def place(self, value: float) -> float:
        """Position of a value; values that a log axis cannot show are at its low end."""
        if self.spread is Spread.LOG:
            value = max(value, 10**self.low)
        part = (laid_out(self.spread, value) - self.low) / (self.high - self.low)
        return self.start + part * (self.end - self.start)


def laid_out(spread: Spread, value: float) -> float:
    """The linear coordinate of a value on its axis."""
    if spread is Spread.LOG:
        return math.log10(value)
    if spread is Spread.TAIL:
        return -math.log10(1 - value)
    return value


def scale(axis: ChartAxis, values: Sequence[float], *, start: float, end: float, ticks: int) -> Scale:
    """An axis around the values with about `ticks` ticks. A linear axis includes 0 unless the chart says otherwise."""
    if axis.spread is Spread.LOG:
        low, high, marks = _log_range([value for value in values if value > 0], ticks)
    elif axis.spread is Spread.TAIL:
        high = max((laid_out(axis.spread, value) for value in values), default=1.0)
        low, high, marks = 0.0, max(high, 1.0), TAIL_TICKS
    else:
        reached = (*values, 0.0) if axis.is_from_zero or not values else values
        if (
            not axis.is_from_zero and max(reached) - min(reached) < LEAST_RANGE
        ):  # a single value is in the middle
            margin = 1.0 if axis.is_whole else abs(reached[0]) * 0.05 or 1.0
            reached = (reached[0] - margin, reached[0] + margin)
        low, high, marks = _linear_range(reached, ticks, 1.0 if axis.is_whole else 0.0, axis.step)
    shown = tuple(mark for mark in marks if low <= laid_out(axis.spread, mark) <= high + 1e-9)
    return Scale(axis.spread, low, high, start, end, shown)


def _linear_range(
    values: Sequence[float], ticks: int, least: float, chosen: float | None
) -> tuple[float, float, tuple[float, ...]]:
    low, high = min(values), max(values)
    if high - low < LEAST_RANGE:
        high = low + max(1.0, abs(low) * 0.1)
    step = nice_step(max((high - low) / ticks, least))
    if least and step % least:  # 2.5 is not a whole number
        step = nice_step(step * 1.5)
    step = chosen or step
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    marks = tuple(float(f"{number * step:.12g}") for number in range(first, last + 1))
    return marks[0], marks[-1], marks


def nice_step(rough: float) -> float:
    """The next of 1, 2, 2.5 and 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(step * power for step in _STEPS if step * power >= rough * (1 - 1e-9))


def _log_range(values: Sequence[float], ticks: int) -> tuple[float, float, tuple[float, ...]]:
    low, high = (min(values), max(values)) if values else (1.0, 10.0)
    for digits, decades in (((1, 2, 5), 1), ((1, 3), 1), *(((1,), number) for number in range(1, 700))):
        first = decades * math.floor(math.log10(low) / decades)
        last = decades * (math.ceil(math.log10(high) / decades) + 1)
        marks = tuple(digit * 10.0**power for power in range(first, last + 1, decades) for digit in digits)
        below = max((mark for mark in marks if mark <= low * (1 + 1e-9)), default=marks[0])
        above = min(mark for mark in marks if mark >= high * (1 - 1e-9) and mark > below)
        marks = tuple(mark for mark in marks if below <= mark <= above)
        if len(marks) <= ticks + 2:
            break
    return math.log10(below), math.log10(above), marks


# --- relative speed: a log axis around 1


def times_scale(block: Differences) -> Scale:
    """A scale in percent of the width. It contains every dot and every interval of a significant difference; other
    intervals may be so wide that they would leave no room, and are cut and marked at the edge."""
    sure = [value for row in block.rows for value in (row.value, *_limits_shown(row))]
    wide = [value for row in block.rows for value in row.limits or ()]
    needed = max(map(_steps_from_1, sure), default=0.0)
    has_shown = any(_limits_shown(row) for row in block.rows)
    most = _MOST_STRETCHED * needed if has_shown else math.inf
    ends = []
    for is_faster in (False, True):
        beside = [value for value in wide if (value > 1) == is_faster]
        own = [value for value in sure if (value > 1) == is_faster]
        stretched = min(max(map(_steps_from_1, beside), default=0.0), most)
        ends.append(max(stretched, max(map(_steps_from_1, own), default=0.0)))
    longest = max(*ends, math.log10(_TIMES[0]))
    slower, faster = (_end_of_times(max(end, longest * _LEAST_SIDE)) for end in ends)
    found = Scale(Spread.LOG, -math.log10(slower), math.log10(faster), 0.0, 100.0, ())
    ticks: list[float] = [1.0]
    for value in (1 / slower, faster, *(v for times in reversed(_TIMES) for v in (1 / times, times))):
        is_inside = found.low - 1e-9 <= math.log10(value) <= found.high + 1e-9
        if is_inside and not any(_is_near(found, value, tick) for tick in ticks):
            ticks.append(value)
    return replace(found, ticks=tuple(sorted(ticks)))


def _is_near(scale: Scale, one: float, other: float) -> bool:
    """Whether their labels would touch on a phone. Near the ends of the axis, labels shift inwards to stay on it."""
    middles, widths = [], []
    for tick in (one, other):
        place, width = scale.place(tick), len(_times_tick(tick)) * _LETTER_SHARE
        middles.append(place + (50 - place) / 50 * width / 2)
        widths.append(width)
    return abs(middles[0] - middles[1]) < sum(widths) / 2 + _LETTER_SHARE


def _limits_shown(row: DifferenceBar) -> tuple[float, ...]:
    return row.limits if row.limits is not None and row.tone is not Tone.PLAIN else ()


def _steps_from_1(times: float) -> float:
    return abs(math.log10(times))


def _end_of_times(steps: float) -> float:
    return next((times for times in _TIMES if math.log10(times) >= steps - 1e-12), 10.0 ** math.ceil(steps))


def _times_tick(value: float) -> str:
    if value == 1:
        return "same"
    return f"{plain_number(max(value, 1 / value))}× {'faster' if value > 1 else 'slower'}"


# --- charts as SVG


_Box = tuple[float, float, float, float]  # left, top, right, bottom
_Points = Sequence[tuple[float, float]]


@frozen
class _Frame:
    """The drawing area and its scales; whole marks fit at every edge."""

    width: int
    height: int
    inner: _Box
    x: Scale
    y: Scale


class _Room:
    """Occupied space: texts never overlap or leave the drawing."""

    def __init__(self, width: float, height: float, marks: _Points, lines: _Points) -> None:
        self._size = width, height
        self._marks = [(x - MARK, y - MARK, x + MARK, y + MARK) for x, y in marks]
        self._lines = [(x, y, x, y) for x, y in lines]  # points along them
        self._texts: list[_Box] = []

    def text(
        self, style: str, words: str, places: Sequence[tuple[float, float, str]], *, over_marks: bool = False
    ) -> Iterator[Markup]:
        """Place a text at the first free position (x, y, anchor), or nowhere; if possible not on a line.

        With `over_marks`, cover marks rather than omit the text.
        """
        boxes = [(place, _box(*place, words)) for place in places]
        free = [(place, box) for place, box in boxes if self._is_free(box)]
        beside = [(place, box) for place, box in free if not _meets(box, self._marks)]
        best = [(place, box) for place, box in beside if not _meets(box, self._lines)]
        for (x, y, anchor), box in (best or beside or (free if over_marks else []))[:1]:
            self._texts.append(box)
            yield _text(f"{style} {anchor}".strip(), x, y, words)

    def _is_free(self, box: _Box) -> bool:
        width, height = self._size
        is_inside = box[0] >= 0 and box[1] >= 0 and box[2] <= width and box[3] <= height
        return is_inside and not _meets(
            (box[0] - _LETTER / 2, box[1], box[2] + _LETTER / 2, box[3]), self._texts
        )


def _box(x: float, y: float, anchor: str, words: str) -> _Box:
    """The area of a text; `y` is its baseline."""
    width = _LETTER * len(words)
    left = x - {"end": width, "middle": width / 2}.get(anchor, 0.0)
    return left, y - _LINE + 3, left + width, y + 3


def _meets(box: _Box, others: Sequence[_Box]) -> bool:
    return any(
        box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]
        for other in others
    )


def element(name: str, attributes: Mapping[str, object], *children: Markup | str) -> Markup:
    """An element of markup; text and values are escaped."""
    written = "".join(f' {key}="{escape(value)}"' for key, value in attributes.items())
    return Markup(f"<{name}{written}>{''.join(map(escape, children))}</{name}>")


def draw(chart: Chart, width: int) -> Markup:
    """The chart as SVG, `width` units wide."""
    frame = _frame(chart, width)
    points = [(series, point) for series in chart.series for run in series.runs for point in run]
    marked = [
        (frame.x.place(point.x), frame.y.place(point.y))
        for series, point in points
        if _is_marked(series, point)
    ]
    room = _Room(width, frame.height, marked, list(_along(chart.series, frame)))
    rules = sorted(chart.rules, key=lambda rule: rule.value)  # the lowest has the least room for its label
    layers = (
        *_spans(chart.spans, frame, room),
        *_grid(chart, frame, room),
        *(
            _line("rule", frame.inner[0], frame.y.place(row.value), frame.inner[2], frame.y.place(row.value))
            for row in rules
        ),
        *(shape for series in chart.series for shape in _series(series, frame)),
        *(shape for rule in rules for shape in _rule_name(rule, frame, room)),
        *_point_names([point for _, point in points if point.label], frame, room),
    )
    left, top, right, bottom = frame.inner
    attributes = {
        "class": _classes(chart, width),
        "viewBox": f"0 0 {width} {frame.height}",
        "role": "img",
        "aria-label": spoken(chart),
        "data-inner": f"{_n(left)} {_n(top)} {_n(right)} {_n(bottom)}",
    }
    return element("svg", attributes, *layers)


def _along(series: Sequence[ChartLine], frame: _Frame) -> Iterator[tuple[float, float]]:
    """Places along the drawn lines, a few pixels apart."""
    for row in series:
        for run in row.runs:
            places = [(frame.x.place(point.x), frame.y.place(point.y)) for point in run]
            for (x, y), (end_x, end_y) in pairwise(places):
                steps = math.ceil(math.hypot(end_x - x, end_y - y) / _LINE_POINTS)
                for step in range(steps):
                    yield x + (end_x - x) * step / steps, y + (end_y - y) * step / steps


def _classes(chart: Chart, width: int) -> str:
    size, most = ("wide", DENSE) if width == WIDE else ("narrow", DENSE // 3)
    count = max((sum(len(run) for run in series.runs) for series in chart.series), default=0)
    return f"plot {size} dense" if count > most else f"plot {size}"


def _frame(chart: Chart, width: int) -> _Frame:
    points = [point for series in chart.series for run in series.runs for point in run]
    xs = [value for point in points for value in _reach(point.x, point.x_limits, chart.x)]
    xs += [edge for span in chart.spans for edge in (span.start, span.end)]
    ys = [value for point in points for value in _reach(point.y, point.y_limits, chart.y)]
    ys += [rule.value for rule in chart.rules]
    height = chart.height if width == WIDE else round(chart.height * 0.85)
    top, bottom = 44.0 if any(span.label for span in chart.spans) else 26.0, height - _below(chart.x)
    y = _roomy(chart.y, ys, [point.y for point in points], (bottom, top), 5)
    left = 14 + _LETTER * max((len(chart.y.text(tick)) for tick in y.ticks), default=1)
    ticks = 8 if width == WIDE else 4
    x = scale(chart.x, xs, start=left, end=width - 20.0, ticks=ticks)
    right = width - max(
        20.0, _LETTER * max((len(chart.x.text(tick)) for tick in x.ticks[-1:]), default=1) / 2
    )
    x = _roomy(chart.x, xs, [point.x for point in points], (left, right), ticks)
    return _Frame(width, height, (left, top, right, bottom), x, y)


def _roomy(
    axis: ChartAxis, values: Sequence[float], marked: Sequence[float], ends: tuple[float, float], ticks: int
) -> Scale:
    """An axis with room for whole marks at its ends, if there are any."""
    start, end = ends
    found = scale(axis, values, start=start, end=end, ticks=ticks)
    inwards = math.copysign(MARK, end - start)
    places = [found.place(value) for value in marked]
    at_start, at_end = (any(abs(place - edge) < MARK for place in places) for edge in (start, end))
    return replace(found, start=start + inwards * at_start, end=end - inwards * at_end)


def _reach(value: float, limits: tuple[float, float] | None, axis: ChartAxis) -> tuple[float, ...]:
    """The values that the axis must show. An interval down to nearly 0 would leave no room for the rest on a log
    axis."""
    if limits is None:
        return (value,)
    if axis.spread is Spread.LOG and limits[0] < value / FAR:
        return (value, limits[1])
    return (value, *limits)


def _grid(chart: Chart, frame: _Frame, room: _Room) -> Iterator[Markup]:
    left, top, right, bottom = frame.inner
    yield from room.text("title", chart.y.title, [(0, 14, "")], over_marks=True)
    for tick in frame.y.ticks:
        y = frame.y.place(tick)
        yield _line("grid", left, y, right, y)
        yield from room.text("tick", chart.y.text(tick), [(left - 7, y + 4, "end")], over_marks=True)
    for tick in frame.x.ticks:
        x = frame.x.place(tick)
        text = chart.x.text(tick)
        words = tuple(room.text("tick", text, [(x, bottom + 17, "middle")] if text else []))
        if words:
            yield from (_line("grid", x, top, x, bottom), *words)
            below = "" if chart.x.below is None else chart.x.below(tick)
            height = bottom + 17 + _LINE_STEP
            ends = [(0, height, ""), (frame.width, height, "end")]
            places = [(x, height, "middle"), *(ends if x < frame.width / 2 else ends[::-1])]
            yield from room.text("tick", below, places if below else [])
    yield _line("axis", left, bottom, right, bottom)
    yield from room.text("title", chart.x.title, [(right, bottom + _below(chart.x) - 6, "end")])


def _below(axis: ChartAxis) -> float:
    """Height of the texts below an axis in pixels."""
    return 42.0 if axis.below is None else 42.0 + _LINE_STEP


def chart_note(chart: Chart) -> str:
    """The chart's own note, and notes on the drawing: on intervals, and on a y axis that does not start at 0."""
    return " ".join(filter(None, (chart.note, _interval_note(chart), _axis_note(chart))))


def _interval_note(chart: Chart) -> str:
    """The level of the intervals, where there are any."""
    drawn = [
        series.is_banded and _is_joined(point, series)
        for series in chart.series
        for run in series.runs
        for point in run
        if point.x_limits is not None or point.y_limits is not None
    ]
    if not drawn:
        return ""
    if all(drawn):
        return f"The band is the {chart.confidence} interval."
    return f"Bars {'and bands ' if any(drawn) else ''}are {chart.confidence} intervals."


def _axis_note(chart: Chart) -> str:
    """A warning if differences look larger than they are."""
    found = _frame(chart, WIDE).y
    is_cut = chart.y.spread is Spread.LINEAR and not found.low <= 0 <= found.high
    return "The y axis does not start at 0." if is_cut else ""


def _spans(spans: Sequence[Span], frame: _Frame, room: _Room) -> Iterator[Markup]:
    left, top, right, bottom = frame.inner
    for number, span in enumerate(spans):
        x, end = frame.x.place(span.start), frame.x.place(span.end)
        tone = "interval" if span.is_interval else "faded" if span.is_faded else ("even", "odd")[number % 2]
        box = {"class": f"span {tone}", "x": _n(x), "y": _n(top), "width": _n(max(1.0, end - x))}
        yield element("rect", {**box, "height": _n(bottom - top)})
        middle = _LETTER * len(span.label) / 2
        place = (x + 4, top - 6, "")
        if span.is_interval:
            place = (min(max((x + end) / 2, left + middle), right - middle), top - 6, "middle")
        yield from room.text("span-name", span.label, [place] if span.label else [])


def _rule_name(rule: ChartRule, frame: _Frame, room: _Room) -> Iterator[Markup]:
    y, left, right = frame.y.place(rule.value), frame.inner[0] + 4, frame.inner[2] - 4
    heights = (y - 5, y + 14, y - 19, y + 28)  # next to the line, or next to another label
    places = [place for height in heights for place in ((right, height, "end"), (left, height, ""))]
    yield from room.text("rule-name", rule.label, places, over_marks=True)


def _series(series: ChartLine, frame: _Frame) -> Iterator[Markup]:
    if series.is_banded:
        yield from _bands(series, frame)
    for run in series.runs:
        places = " ".join(f"{_n(frame.x.place(p.x))},{_n(frame.y.place(p.y))}" for p in run)
        if len(run) > 1:
            shape = " dashed" if series.is_dashed else " thick" if series.is_thick else ""
            style = f"line {series.colour}{shape}"
            yield element("polyline", {"class": style, "points": places})
    for run in series.runs:
        for point in run:
            yield from _point(point, series, frame)


def _bands(series: ChartLine, frame: _Frame) -> Iterator[Markup]:
    for run in series.runs:
        limits = [(point.x, *point.y_limits) for point in run if point.y_limits is not None]
        around = [(x, low) for x, low, _ in limits] + [(x, high) for x, _, high in reversed(limits)]
        places = " ".join(f"{_n(frame.x.place(x))},{_n(frame.y.place(y))}" for x, y in around)
        yield element("polygon", {"class": f"band {series.colour}", "points": places})


def _point(point: ChartPoint, series: ChartLine, frame: _Frame) -> Iterator[Markup]:
    x, y = frame.x.place(point.x), frame.y.place(point.y)
    bar = f"error {series.colour}"
    if point.x_limits is not None:
        low, high = (frame.x.place(limit) for limit in point.x_limits)
        yield _path(bar, f"M{_n(low)} {_n(y)}H{_n(high)}M{_n(low)} {_n(y - 4)}v8M{_n(high)} {_n(y - 4)}v8")
    if point.y_limits is not None and not (series.is_banded and _is_joined(point, series)):
        low, high = (frame.y.place(limit) for limit in point.y_limits)
        # An interval that extends below a log axis has no cap.
        is_open = (
            frame.y.spread is Spread.LOG
            and laid_out(Spread.LOG, max(point.y_limits[0], 5e-324)) < frame.y.low
        )
        cap = "" if is_open else f"M{_n(x - 4)} {_n(low)}h8"
        yield _path(bar, f"M{_n(x)} {_n(low)}V{_n(high)}{cap}M{_n(x - 4)} {_n(high)}h8")
    if _is_marked(series, point):
        yield _mark(point, series, x, y)


def _is_joined(point: ChartPoint, series: ChartLine) -> bool:
    """Whether the point is part of a line, and thus of a band."""
    return any(len(run) > 1 and point in run for run in series.runs)


def _is_marked(series: ChartLine, point: ChartPoint) -> bool:
    return series.has_marks and bool(point.tip)


def _mark(point: ChartPoint, series: ChartLine, x: float, y: float) -> Markup:
    data = {"data-x": repr(float(point.x)), "data-y": repr(float(point.y))}
    tip = element("title", {}, point.tip)
    if series.is_crossed:
        cross = f"M{_n(x - 4)} {_n(y - 4)}l8 8m0 -8l-8 8"
        return element("path", {"class": f"mark cross {series.colour}", "d": cross, **data}, tip)
    shape = " hollow" if point.is_doubtful else " bare" if series.is_thick else ""
    style = f"mark {series.colour}{shape}"
    return element("circle", {"class": style, "cx": _n(x), "cy": _n(y), "r": 4, **data}, tip)


def _point_names(points: Sequence[ChartPoint], frame: _Frame, room: _Room) -> Iterator[Markup]:
    """Labels of points, both ends first: they matter most if there is no room for all."""
    for point in (*points[-1:], *points[:-1]):
        x, y = frame.x.place(point.x), frame.y.place(point.y)
        places = [(x + 8, y - 8, ""), (x - 8, y - 9, "end"), (x + 8, y + 16, ""), (x - 8, y + 16, "end")]
        yield from room.text("point-name", point.label, places)


def _line(style: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    return _path(style, f"M{_n(x1)} {_n(y1)}L{_n(x2)} {_n(y2)}")


def _path(style: str, steps: str) -> Markup:
    return element("path", {"class": style, "d": steps})


def _text(style: str, x: float, y: float, words: str) -> Markup:
    return element("text", {"class": style, "x": _n(x), "y": _n(y)}, words)


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


# --- charts for screen readers


def spoken(chart: Chart) -> str:
    """Describe a chart in words: each line from its first to its last point, and the rules."""
    words = [f"{chart.title}: {chart.y.title} over {chart.x.title}."]
    for series in chart.series:
        points = [point for run in series.runs for point in run]
        if points:
            ends = dict.fromkeys(
                f"{chart.y.text(p.y)} at {chart.x.text(p.x)}" for p in (points[0], points[-1])
            )
            words.append(f"{series.name}: {plural(len(points), 'point')}, {' to '.join(ends)}.")
    words += [f"Horizontal line: {rule.label}." for rule in chart.rules]
    return " ".join(words)


def numbers(chart: Chart) -> Table:
    """A table of the points of a chart."""
    points = [(series.name, p) for series in chart.series for run in series.runs for p in run if p.tip]
    columns = [Column("Line", is_number=False, is_name=True), Column(chart.x.title), Column(chart.y.title)]
    has_limits = any(point.y_limits is not None for _, point in points)
    rows = []
    for name, point in points[:NUMBERS]:
        cells = (name, _place_text(chart.x, point.x), chart.y.text(point.y))
        rows.append((*cells, _between(point.y_limits, chart.y)) if has_limits else cells)
    columns += [Column(f"{chart.confidence} interval")] if has_limits else []
    caption = "The numbers of this chart"
    if len(rows) < len(points):
        caption = f"The first {NUMBERS} of {len(points):,} numbers of this chart"
    return Table(caption, tuple(columns), tuple(rows), Depth.LISTING)


def _place_text(axis: ChartAxis, value: float) -> str:
    below = "" if axis.below is None else axis.below(value)
    return f"{axis.text(value)}, {below}" if below else axis.text(value)


def _between(limits: tuple[float, float] | None, axis: ChartAxis) -> str:
    return "" if limits is None else " to ".join(map(axis.text, limits))
