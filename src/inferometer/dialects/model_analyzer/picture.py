"""The classic tool's plots as SVG: one metric over another with a line per variant, and the latency breakdown."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from markupsafe import Markup

from inferometer.base.frozen import frozen
from inferometer.dialects.model_analyzer.values import Plot
from inferometer.report.document import ChartAxis
from inferometer.report.documents.study_charts import header, line
from inferometer.report.documents.variant import by_load
from inferometer.report.format import plain_number
from inferometer.report.page import Scale, element, scale
from inferometer.tune.scoring import RankedVariant
from inferometer.tune.study import Study

LONGEST = 35
COLOURS = ("#0072b2", "#d55e00", "#008563", "#a3457e", "#b42318", "#77818d", "#e0a020", "#1f1674")
PARTS = (
    ("perf_server_queue", "Server Queue", "#e69f00"),
    ("perf_server_compute_input", "Server Compute Input", "#56b4e9"),
    ("perf_server_compute_infer", "Server Compute Infer", "#009e73"),
    ("perf_server_compute_output", "Server Compute Output", "#f0e442"),
)
_BLACK, _GREY, _PALE, _WHITE = "#000000", "#444444", "#e3e6ea", "#ffffff"
_FONT = "DejaVu Sans, Liberation Sans, sans-serif"
_AXIS = ChartAxis("")


@frozen
class Drawing:
    """An SVG with its size in pixels."""

    svg: str
    width: int
    height: int


def short_name(name: str) -> str:
    """Shorten a long name, keeping its start and its number."""
    if len(name) <= LONGEST:
        return name
    front, mark, number = name.rpartition("config_")
    if not mark:
        return f"{name[: LONGEST - 3]}..."
    tail = mark + number
    return f"{front[: max(1, LONGEST - 3 - len(tail))]}...{tail}"


def plot(study: Study, rows: Sequence[RankedVariant], wanted: Plot) -> Drawing | None:
    """Draw one line with markers per variant; None if there is nothing to draw."""
    width, height = 640, 480
    lines = [(row.name, line(row.trials, wanted.x, wanted.y, monotonic=wanted.monotonic)) for row in rows]
    lines = [(name, points) for name, points in lines if points]
    if not lines:
        return None
    x_targets, y_targets = _targets(study, wanted.x), _targets(study, wanted.y)
    xs = [x for _, points in lines for x, _, _ in points]
    ys = [y for _, points in lines for _, y, _ in points]
    across = scale(_AXIS, [*xs, *x_targets], start=76.0, end=width - 24.0, ticks=7)
    up = scale(_AXIS, [*ys, *y_targets], start=height - 58.0, end=44.0, ticks=6)
    shapes = [*_frame(height, across, up, header(wanted.x), header(wanted.y))]
    shapes += [_vertical(across.place(value), up, _GREY, stroke_dasharray="6 4") for value in x_targets]
    shapes += [_horizontal(across, up.place(value), _GREY, stroke_dasharray="6 4") for value in y_targets]
    names = []
    for number, (name, points) in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        places = [(across.place(x), up.place(y)) for x, y, _ in points]
        shapes += _curve(places, colour, stroke=1.8, radius=3.6)
        names.append((short_name(name), colour))
    for tag, targets in ((wanted.x, x_targets), (wanted.y, y_targets)):
        names += [(f"Target {header(tag)}", _GREY)] if targets else []
    return _drawing(width, height, wanted.title, [*shapes, *_legend(across.end, up.start, names)])


def _targets(study: Study, tag: str) -> tuple[float, ...]:
    rows = study.goals[0].constraints if len(study.goals) == 1 else ()
    return tuple(
        value
        for row in rows
        if row.tag == tag and (value := row.high if row.high is not None else row.low) is not None
    )


def latency_breakdown(ranked: RankedVariant) -> Drawing | None:
    """Draw the server's latency parts stacked per load, with throughput as a line on a second axis."""
    width, height = 1200, 800
    trials = by_load(ranked)
    stacks = [[trial.combined(tag) or 0.0 for tag, _, _ in PARTS] for trial in trials]
    rates = [trial.combined("perf_throughput") or 0.0 for trial in trials]
    if not any(map(sum, stacks)):
        return None
    bottom, top = height - 110.0, 70.0
    up = scale(_AXIS, [sum(stack) for stack in stacks], start=bottom, end=top, ticks=8)
    second = scale(_AXIS, rates, start=bottom, end=top, ticks=8)
    across = replace(scale(_AXIS, [1.0], start=110.0, end=width - 110.0, ticks=1), ticks=())
    shapes = [*_frame(height, across, up, _load_label(ranked), "Latency (ms)")]
    step = (across.end - across.start) / len(trials)
    middles = [across.start + step * (number + 0.5) for number in range(len(trials))]
    for middle, trial, stack in zip(middles, trials, stacks, strict=True):
        value = 0.0
        for (_, _, colour), part in zip(PARTS, stack, strict=True):
            low, high = up.place(value), up.place(value + part)
            bar = {"x": middle - step * 0.3, "width": step * 0.6, "y": high, "height": low - high}
            shapes.append(_shape("rect", **bar, fill=colour))
            value += part
        name = trial.load.intervals or f"{trial.load.value:g}"
        name += "" if trial.load.batch == 1 else f" (b{trial.load.batch})"
        shapes.append(_text(middle, bottom + 22, name, size=14, anchor="middle"))
    places = [(middle, second.place(rate)) for middle, rate in zip(middles, rates, strict=True)]
    shapes += _curve(places, _BLACK, stroke=2.0, radius=4.0)
    for (x, y), rate in zip(places, rates, strict=True):
        shapes.append(_text(x, y - 12, f"{rate:,.0f}", size=14, anchor="middle"))
    for tick in second.ticks:
        shapes.append(_text(across.end + 10, second.place(tick) + 4, plain_number(tick), size=13))
    shapes.append(_upright(width - 20.0, up, "Throughput (infer/sec)", size=14, degrees=90))
    legend = [*((name, colour) for _, name, colour in PARTS), ("Throughput", _BLACK)]
    shapes += _legend(across.start + 240, top + 110, legend)
    return _drawing(width, height, "Online Performance", shapes)


def _load_label(ranked: RankedVariant) -> str:
    load = ranked.trials[0].load
    if load.concurrency is not None:
        return "Concurrent Client Requests"
    return "Client Request Rate" if load.request_rate is not None else "Request Intervals File"


# --- shapes


def _drawing(width: int, height: int, title: str, shapes: Sequence[Markup]) -> Drawing:
    paper = _shape("rect", width=width, height=height, fill=_WHITE)
    heading = _text(width / 2, 26.0, title, size=15, anchor="middle")
    attributes = {"xmlns": "http://www.w3.org/2000/svg", "width": width, "height": height}
    svg = element("svg", {**attributes, "viewBox": f"0 0 {width} {height}"}, paper, heading, *shapes)
    return Drawing(str(svg), width, height)


def _frame(height: int, across: Scale, up: Scale, x_label: str, y_label: str) -> Iterator[Markup]:
    """Yield the grid and labelled axes."""
    for tick in across.ticks:
        place = across.place(tick)
        yield _vertical(place, up, _PALE)
        yield _text(place, up.start + 18, plain_number(tick), anchor="middle")
    for tick in up.ticks:
        place = up.place(tick)
        yield _horizontal(across, place, _PALE)
        yield _text(across.start - 7, place + 4, plain_number(tick), anchor="end")
    yield _horizontal(across, up.start, _GREY)
    yield _vertical(across.start, up, _GREY)
    yield _text((across.start + across.end) / 2, height - 16.0, x_label, size=13, anchor="middle")
    yield _upright(18.0, up, y_label, size=13, degrees=-90)


def _legend(right: float, bottom: float, rows: Sequence[tuple[str, str]]) -> Iterator[Markup]:
    """Yield the legend, to the left of and above this corner."""
    width, height = 30 + 7.2 * max(len(name) for name, _ in rows), 18.0 * len(rows)
    x, y = right - width - 6, bottom - height - 10
    yield _shape(
        "rect", x=x, y=y, width=width, height=height + 4, fill=_WHITE, fill_opacity="0.85", stroke="#cccccc"
    )
    for number, (name, colour) in enumerate(rows):
        line_y = y + 15 + 18 * number
        yield _shape("rect", x=x + 6, y=line_y - 9, width=12, height=8, fill=colour)
        yield _text(x + 24, line_y, name)


def _curve(
    places: Sequence[tuple[float, float]], colour: str, *, stroke: float, radius: float
) -> Iterator[Markup]:
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    yield _shape("polyline", points=points, fill="none", stroke=colour, stroke_width=stroke)
    yield from (_shape("circle", cx=x, cy=y, r=radius, fill=colour) for x, y in places)


def _vertical(x: float, up: Scale, colour: str, **style: str) -> Markup:
    return _shape("line", x1=x, y1=up.end, x2=x, y2=up.start, stroke=colour, **style)


def _horizontal(across: Scale, y: float, colour: str, **style: str) -> Markup:
    return _shape("line", x1=across.start, y1=y, x2=across.end, y2=y, stroke=colour, **style)


def _upright(x: float, up: Scale, words: str, *, size: int, degrees: int) -> Markup:
    """Return the title of a vertical axis."""
    y = (up.start + up.end) / 2
    return _text(x, y, words, size=size, anchor="middle", transform=f"rotate({degrees} {x:.0f} {y:.1f})")


def _text(x: float, y: float, words: str, *, size: int = 12, anchor: str = "start", **more: str) -> Markup:
    look = {"font_size": size, "text_anchor": anchor, "font_family": _FONT, "fill": "#1a1f26"}
    return _shape("text", words, x=x, y=y, **look, **more)


def _shape(name: str, *children: str, **attributes: object) -> Markup:
    """Return an element; floats are rounded to a tenth of a pixel."""
    written = {
        key.replace("_", "-"): f"{value:.1f}" if isinstance(value, float) else value
        for key, value in attributes.items()
    }
    return element(name, written, *children)
