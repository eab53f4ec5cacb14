"""Charts as SVG and bars as plain markup: pure functions from what to show to text.

A chart is drawn twice, for wide and for narrow screens, and the style shows one of them: letters keep their size on a
phone, nothing waits for a script, and the page prints as it looks.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from inferometer.report.axes import Scale, nice_step, scale
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
)

WIDE, NARROW = 880, 380
DENSE = 100  # points of a line above which they are drawn smaller
_LETTER = 6.6  # pixels of a digit at the size of a tick
_LABELLED_SHARE = 0.11  # of the whole from which a segment has room for its text


@dataclass(frozen=True, slots=True)
class _Frame:
    """The inner rectangle of a chart and its scales."""

    width: int
    height: int
    left: float
    right: float
    top: float
    bottom: float
    x: Scale
    y: Scale


def element(name: str, attributes: Mapping[str, object], *children: Markup | str) -> Markup:
    """One element of markup; text and values are escaped."""
    written = "".join(f' {key}="{escape(value)}"' for key, value in attributes.items())
    return Markup(f"<{name}{written}>{''.join(map(escape, children))}</{name}>")


def chart_figure(chart: Chart) -> Markup:
    """The chart in both widths, with its title and legend."""
    parts = [element("figcaption", {}, chart.title)]
    if len(chart.series) > 1:
        parts.append(_legend([(row.name, row.colour, row.is_dashed) for row in chart.series]))
    parts += [draw(chart, WIDE), draw(chart, NARROW)]
    if chart.note:
        parts.append(element("p", {"class": "note"}, chart.note))
    return element("figure", {"class": "chart"}, *parts)


def _legend(rows: Sequence[tuple[str, str, bool]]) -> Markup:
    items = (
        element(
            "li",
            {},
            element(
                "span", {"class": f"key {colour}{' dashed' if is_dashed else ''}", "aria-hidden": "true"}
            ),
            name,
        )
        for name, colour, is_dashed in rows
    )
    return element("ul", {"class": "legend"}, *items)


def draw(chart: Chart, width: int) -> Markup:
    """The chart as SVG, `width` units wide."""
    frame = _frame(chart, width)
    layers = (
        *_spans(chart.spans, frame),
        *_grid(chart, frame),
        *(_rule(rule, frame) for rule in chart.rules),
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
    top, bottom = (44.0 if any(span.label for span in chart.spans) else 26.0), height - 42.0
    y = scale(chart.y, ys, start=bottom, end=top, ticks=5)
    left = 14 + _LETTER * max((len(chart.y.text(tick)) for tick in y.ticks), default=1)
    right = width - 20.0
    x = scale(chart.x, xs, start=left, end=right, ticks=8 if width == WIDE else 4)
    return _Frame(width, height, left, right, top, bottom, x, y)


def _reach(value: float, limits: tuple[float, float] | None, axis: ChartAxis) -> tuple[float, ...]:
    """What the axis must show. An interval down to nearly 0 would leave a log axis no room for the rest."""
    if limits is None:
        return (value,)
    return (value, limits[1]) if axis.spread is Spread.LOG else (value, *limits)


def _grid(chart: Chart, frame: _Frame) -> Iterator[Markup]:
    for tick in frame.y.ticks:
        y = frame.y.place(tick)
        yield _line("grid", frame.left, y, frame.right, y)
        yield _text("tick end", frame.left - 7, y + 4, chart.y.text(tick))
    edge = -1e9
    for tick in frame.x.ticks:
        x, words = frame.x.place(tick), chart.x.text(tick)
        half = _LETTER * len(words) / 2
        if x - half < edge:
            continue
        edge = x + half + 6
        yield _line("grid", x, frame.top, x, frame.bottom)
        yield _text("tick middle", x, frame.bottom + 17, words)
    yield _line("axis", frame.left, frame.bottom, frame.right, frame.bottom)
    yield _text("title", 0, 14, chart.y.title)
    yield _text("title end", frame.right, frame.bottom + 36, chart.x.title)


def _spans(spans: Sequence[Span], frame: _Frame) -> Iterator[Markup]:
    edge = -1e9
    for number, span in enumerate(spans):
        x, end = frame.x.place(span.start), frame.x.place(span.end)
        tone = "faded" if span.is_faded else "even" if number % 2 == 0 else "odd"
        box = {"class": f"span {tone}", "x": _n(x), "y": _n(frame.top), "width": _n(max(0.0, end - x))}
        yield element("rect", {**box, "height": _n(frame.bottom - frame.top)})
        if span.label and x >= edge:
            yield _text("span-name", x + 4, frame.top - 6, span.label)
            edge = x + _LETTER * len(span.label) + 10


def _rule(rule: ChartRule, frame: _Frame) -> Markup:
    y = frame.y.place(rule.value)
    return Markup("").join(
        (
            _line("rule", frame.left, y, frame.right, y),
            _text("rule-name end", frame.right - 4, y - 5, rule.label),
        )
    )


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


def bars_figure(bars: Bars) -> Markup:
    """Bars that grow and shrink with the page, so one drawing serves every width."""
    fullest_first = sorted(bars.rows, key=lambda row: -len(row.segments))
    names = {s.name: (s.name, s.colour, False) for row in fullest_first for s in row.segments}
    parts = [element("figcaption", {}, bars.title)]
    if len(names) > 1:
        parts.append(_legend(list(names.values())))
    parts += [_bar(row, bars.most) for row in bars.rows]
    if bars.note:
        parts.append(element("p", {"class": "note"}, bars.note))
    return element("figure", {"class": "bars"}, *parts)


def differences_figure(block: Differences) -> Markup:
    """Each value a dot, its interval a line, 0 a rule through all of them."""
    reach = [abs(value) for row in block.rows for value in (row.value, *(row.limits or ()))]
    limit = _round_up(max(reach, default=1.0))
    parts = [element("figcaption", {}, block.title)]
    group = ""
    for row in block.rows:
        if row.group != group:
            parts.append(element("p", {"class": "group"}, row.group))
            group = row.group
        parts.append(_difference(row, limit))
    ends = (f"−{limit:g}", "0", f"+{limit:g}")
    scale_row = (element("span", {}, f"{words} {block.unit}".strip()) for words in ends)
    parts.append(
        element(
            "div",
            {"class": "difference scale", "aria-hidden": "true"},
            element("div", {"class": "ends"}, *scale_row),
        )
    )
    if block.note:
        parts.append(element("p", {"class": "note"}, block.note))
    return element("figure", {"class": "differences"}, *parts)


def _round_up(value: float) -> float:
    return nice_step(value) if value > 0 else 1.0


def _difference(row: DifferenceBar, limit: float) -> Markup:
    def place(value: float) -> str:
        return f"{50 + 50 * value / limit:.3f}%"

    marks = []
    if row.limits is not None:
        low, high = row.limits
        width = f"{50 * (high - low) / limit:.3f}%"
        marks.append(element("span", {"class": "reach", "style": f"left:{place(low)};width:{width}"}))
    dot = {"class": "dot", "style": f"left:{place(row.value)}", "data-value": repr(float(row.value))}
    marks.append(element("span", dot))
    return element(
        "div",
        {"class": f"difference {row.tone.value}"},
        element("div", {"class": "bar-label"}, row.label),
        element(
            "div", {"class": "line-track", "role": "img", "aria-label": f"{row.label}: {row.text}"}, *marks
        ),
        element("div", {"class": "difference-text"}, row.text),
    )


def _bar(row: Bar, most: float) -> Markup:
    label = [element("span", {}, row.label)]
    if row.detail:
        label.append(element("small", {}, row.detail))
    spoken = ", ".join(f"{segment.name} {segment.text}" for segment in row.segments)
    track = element(
        "div",
        {"class": "track", "role": "img", "aria-label": f"{row.label}: {spoken}"},
        *(_segment(segment, most) for segment in row.segments),
    )
    return element(
        "div",
        {"class": "bar"},
        element("div", {"class": "bar-label"}, *label),
        track,
        element("div", {"class": "bar-text"}, row.text),
    )


def _segment(segment: Segment, most: float) -> Markup:
    part = segment.value / most if most > 0 else 0.0
    words = element("span", {}, segment.text) if part >= _LABELLED_SHARE else Markup("")
    attributes = {
        "class": f"segment {segment.colour}",
        "style": f"width:{part * 100:.3f}%",
        "title": f"{segment.name}: {segment.text}",
        "data-value": repr(float(segment.value)),
    }
    return element("div", attributes, words)
