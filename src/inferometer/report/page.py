"""A document as one page: nothing is fetched, it opens from a file, on a phone and on paper.

A chart is drawn twice as SVG, for wide and for narrow screens, and the style shows one of them: letters keep their size
on a phone, nothing waits for a script, and the page prints as it looks. All other blocks are macros of a template.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from inferometer.base.text import printable
from inferometer.report.document import (
    Block,
    Chart,
    ChartAxis,
    ChartLine,
    ChartPoint,
    ChartRule,
    DifferenceBar,
    Differences,
    Document,
    Span,
    Spread,
    Tone,
)
from inferometer.report.format import plain_number

NO_BREAK = "\u00a0"
_UNIT = re.compile(
    r"(?<=\d) (?=(?:ns|µs|ms|s|%|infer/s|GiB)(?![\w/]))|(?<=concurrency) (?=\d)|(?<=request rate) (?=\d)"
)
LABELLED_SHARE = 0.11  # of the whole from which a segment of a bar has room for its text
WIDE, NARROW = 880, 380
DENSE = 100  # points of a line above which they are drawn smaller
TAIL_TICKS = (0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999)
LEAST_RANGE = 1e-9  # less than that is nothing
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_TIMES = (
    *(1.002, 1.005, 1.01, 1.02, 1.03, 1.05, 1.1, 1.15, 1.2, 1.3, 1.5),
    *(digit * 10.0**power for power in range(4) for digit in (2, 3, 5, 10)),
)
_LEAST_SIDE = 0.25  # of the longer side of such an axis, that the shorter one has
_MOST_STRETCHED = 4.0  # times what the shown differences need
_TICK_GAP = 21.0  # percent of the width that a tick's text takes on a phone
_LETTER = 6.6  # pixels of a digit at the size of a tick

if TYPE_CHECKING:
    from jinja2 import Environment


def render(document: Document) -> str:
    """The whole page; the same document gives the same bytes."""
    template = _environment().get_template("page.html.j2")
    # JSON that cannot end the script it stands in: `<` is written as its escape, which means the same.
    source = Markup(document.source.replace("<", "\\u003c"))
    page = template.render(document=document, block=block_markup, source=source)
    return printable(page)  # tags are escaped already; here only what no page may have


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
    # A number and its unit are never torn apart at the end of a line.
    environment.filters["glued"] = partial(_UNIT.sub, NO_BREAK)
    environment.globals |= {
        "draw": draw,
        "times_scale": times_scale,
        "times_tick": _times_tick,
        "WIDE": WIDE,
        "NARROW": NARROW,
        "LABELLED_SHARE": LABELLED_SHARE,
    }
    return environment


def block_markup(block: Block, title: str) -> Markup:
    """A block, by the macro of its name."""
    macros = _environment().get_template("blocks.html.j2").module
    return Markup(getattr(macros, type(block).__name__.lower())(block, title))


# --- where a value lies on an axis, and which values are worth a tick


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to pixels, along one axis."""

    spread: Spread
    low: float  # as laid out: of a log axis the logarithm
    high: float
    start: float  # pixels
    end: float
    ticks: tuple[float, ...]

    def place(self, value: float) -> float:
        """Where the value lies; what a log axis has no place for lies at its low end."""
        if self.spread is Spread.LOG:
            value = max(value, 10**self.low)
        part = (laid_out(self.spread, value) - self.low) / (self.high - self.low)
        return self.start + part * (self.end - self.start)


def laid_out(spread: Spread, value: float) -> float:
    """A value as its axis counts it."""
    if spread is Spread.LOG:
        return math.log10(value)
    if spread is Spread.TAIL:
        return -math.log10(1 - value)
    return value


def scale(axis: ChartAxis, values: Sequence[float], *, start: float, end: float, ticks: int) -> Scale:
    """An axis around the values, with about so many ticks. A linear one begins at 0."""
    if axis.spread is Spread.LOG:
        low, high, marks = _log_range([value for value in values if value > 0], ticks)
    elif axis.spread is Spread.TAIL:
        high = max((laid_out(axis.spread, value) for value in values), default=1.0)
        low, high, marks = 0.0, max(high, 1.0), TAIL_TICKS
    else:
        low, high, marks = _linear_range(values, ticks, 1.0 if axis.is_whole else 0.0)
    shown = tuple(mark for mark in marks if low <= laid_out(axis.spread, mark) <= high + 1e-9)
    return Scale(axis.spread, low, high, start, end, shown)


def _linear_range(
    values: Sequence[float], ticks: int, least: float
) -> tuple[float, float, tuple[float, ...]]:
    low, high = min(0.0, *values, 0.0), max(0.0, *values, 0.0)
    if high - low < LEAST_RANGE:
        high = low + 1.0
    step = nice_step(max((high - low) / ticks, least))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    marks = tuple(float(f"{number * step:.12g}") for number in range(first, last + 1))
    return marks[0], marks[-1], marks


def nice_step(rough: float) -> float:
    """The next of 1, 2, 2.5 and 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(step * power for step in _STEPS if step * power >= rough * (1 - 1e-9))


def _log_range(values: Sequence[float], ticks: int) -> tuple[float, float, tuple[float, ...]]:
    low, high = (min(values), max(values)) if values else (1.0, 10.0)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    last = max(last, first + 1)
    for digits in ((1, 2, 5), (1, 3), (1,)):
        marks = tuple(digit * 10.0**power for power in range(first, last + 1) for digit in digits)
        below = max((mark for mark in marks if mark <= low * (1 + 1e-9)), default=low)
        above = min((mark for mark in marks if mark >= high * (1 - 1e-9)), default=high)
        marks = tuple(mark for mark in marks if below <= mark <= above)
        if len(marks) <= ticks + 2:
            break
    if above <= below:
        above = below * 10
        marks = (below, above)
    return math.log10(below), math.log10(above), marks


# --- how many times as fast: a log axis around 1


def times_scale(block: Differences) -> Scale:
    """In percent of the width. It holds every dot and every interval that shows a difference; one that shows none may
    be so wide that it would leave the others no room: it is cut at the edge, and marked there."""
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
        if is_inside and all(abs(found.place(value) - found.place(tick)) >= _TICK_GAP for tick in ticks):
            ticks.append(value)
    return replace(found, ticks=tuple(sorted(ticks)))


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


@dataclass(frozen=True, slots=True)
class _Frame:
    """The scales of a chart; where they end is the inner rectangle."""

    width: int
    height: int
    x: Scale
    y: Scale


def element(name: str, attributes: Mapping[str, object], *children: Markup | str) -> Markup:
    """One element of markup; text and values are escaped."""
    written = "".join(f' {key}="{escape(value)}"' for key, value in attributes.items())
    return Markup(f"<{name}{written}>{''.join(map(escape, children))}</{name}>")


def draw(chart: Chart, width: int) -> Markup:
    """The chart as SVG, `width` units wide."""
    frame = _frame(chart, width)
    layers = (
        *_spans(chart.spans, frame),
        *_grid(chart, frame),
        *(shape for rule in chart.rules for shape in _rule(rule, frame)),
        *(shape for series in chart.series for shape in _series(series, frame)),
    )
    attributes = {
        "class": _classes(chart, width),
        "viewBox": f"0 0 {width} {frame.height}",
        "role": "img",
        "aria-label": f"{chart.title}: {chart.y.title} over {chart.x.title}",
    }
    return element("svg", attributes, *layers)


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
    top = 44.0 if any(span.label for span in chart.spans) else 26.0
    y = scale(chart.y, ys, start=height - 42.0, end=top, ticks=5)
    left = 14 + _LETTER * max((len(chart.y.text(tick)) for tick in y.ticks), default=1)
    x = scale(chart.x, xs, start=left, end=width - 20.0, ticks=8 if width == WIDE else 4)
    return _Frame(width, height, x, y)


def _reach(value: float, limits: tuple[float, float] | None, axis: ChartAxis) -> tuple[float, ...]:
    """What the axis must show. An interval down to nearly 0 would leave a log axis no room for the rest."""
    if limits is None:
        return (value,)
    return (value, limits[1]) if axis.spread is Spread.LOG else (value, *limits)


def _grid(chart: Chart, frame: _Frame) -> Iterator[Markup]:
    left, right, bottom, top = frame.x.start, frame.x.end, frame.y.start, frame.y.end
    for tick in frame.y.ticks:
        y = frame.y.place(tick)
        yield _line("grid", left, y, right, y)
        yield _text("tick end", left - 7, y + 4, chart.y.text(tick))
    edge = -1e9
    for tick in frame.x.ticks:
        x, words = frame.x.place(tick), chart.x.text(tick)
        half = _LETTER * len(words) / 2
        if x - half < edge:
            continue
        edge = x + half + 6
        yield _line("grid", x, top, x, bottom)
        yield _text("tick middle", x, bottom + 17, words)
    yield _line("axis", left, bottom, right, bottom)
    yield _text("title", 0, 14, chart.y.title)
    yield _text("title end", right, bottom + 36, chart.x.title)


def _spans(spans: Sequence[Span], frame: _Frame) -> Iterator[Markup]:
    top, edge = frame.y.end, -1e9
    for number, span in enumerate(spans):
        x, end = frame.x.place(span.start), frame.x.place(span.end)
        tone = "faded" if span.is_faded else "even" if number % 2 == 0 else "odd"
        box = {"class": f"span {tone}", "x": _n(x), "y": _n(top), "width": _n(max(0.0, end - x))}
        yield element("rect", {**box, "height": _n(frame.y.start - top)})
        if span.label and x >= edge:
            yield _text("span-name", x + 4, top - 6, span.label)
            edge = x + _LETTER * len(span.label) + 10


def _rule(rule: ChartRule, frame: _Frame) -> Iterator[Markup]:
    y = frame.y.place(rule.value)
    yield _line("rule", frame.x.start, y, frame.x.end, y)
    yield _text("rule-name end", frame.x.end - 4, y - 5, rule.label)


def _series(series: ChartLine, frame: _Frame) -> Iterator[Markup]:
    for run in series.runs:
        places = " ".join(f"{_n(frame.x.place(p.x))},{_n(frame.y.place(p.y))}" for p in run)
        if len(run) > 1:
            style = f"line {series.colour}{' dashed' if series.is_dashed else ''}"
            yield element("polyline", {"class": style, "points": places})
    for run in series.runs:
        for point in run:
            yield from _point(point, series, frame)


def _point(point: ChartPoint, series: ChartLine, frame: _Frame) -> Iterator[Markup]:
    x, y = frame.x.place(point.x), frame.y.place(point.y)
    bar = f"error {series.colour}"
    if point.x_limits is not None:
        low, high = (frame.x.place(limit) for limit in point.x_limits)
        yield _path(bar, f"M{_n(low)} {_n(y)}H{_n(high)}M{_n(low)} {_n(y - 4)}v8M{_n(high)} {_n(y - 4)}v8")
    if point.y_limits is not None:
        low, high = (frame.y.place(limit) for limit in point.y_limits)
        yield _path(bar, f"M{_n(x)} {_n(low)}V{_n(high)}M{_n(x - 4)} {_n(low)}h8M{_n(x - 4)} {_n(high)}h8")
    if series.has_marks and point.tip:
        attributes = {
            "class": f"mark {series.colour}{' hollow' if point.is_doubtful else ''}",
            "cx": _n(x),
            "cy": _n(y),
            "r": 4,
            "data-x": repr(float(point.x)),
            "data-y": repr(float(point.y)),
        }
        yield element("circle", attributes, element("title", {}, point.tip))
    if point.label:
        is_last = x + 10 + _LETTER * len(point.label) > frame.width
        place = (x - 8, y - 9, "point-name end") if is_last else (x + 8, y - 8, "point-name")
        yield _text(place[2], place[0], place[1], point.label)


def _line(style: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    return _path(style, f"M{_n(x1)} {_n(y1)}L{_n(x2)} {_n(y2)}")


def _path(style: str, steps: str) -> Markup:
    return element("path", {"class": style, "d": steps})


def _text(style: str, x: float, y: float, words: str) -> Markup:
    return element("text", {"class": style, "x": _n(x), "y": _n(y)}, words)


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
