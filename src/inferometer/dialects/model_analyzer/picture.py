"""The classic tool's plots as SVG: a metric over another with a line per variant, and the latency breakdown. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from inferometer.report.document import ChartAxis
from inferometer.report.format import plain_number
from inferometer.report.page import Scale, element, scale
from inferometer.tune.report.charts import header, line
from inferometer.tune.scoring import RankedVariant
from inferometer.tune.study import Study

WIDTH, HEIGHT = 640, 480
BREAKDOWN_WIDTH, BREAKDOWN_HEIGHT = 1200, 800
LONGEST = 35
COLOURS = ("#0072b2", "#d55e00", "#008563", "#a3457e", "#b42318", "#77818d", "#e0a020", "#1f1674")
PARTS = (
    ("perf_server_queue", "Server Queue", "#e69f00"),
    ("perf_server_compute_input", "Server Compute Input", "#56b4e9"),
    ("perf_server_compute_infer", "Server Compute Infer", "#009e73"),
    ("perf_server_compute_output", "Server Compute Output", "#f0e442"),
)
_FONT = "DejaVu Sans, Liberation Sans, sans-serif"


def short_name(name: str) -> str:
    """Long names keep their front and their number."""
    if len(name) <= LONGEST:
        return name
    front, mark, number = name.rpartition("config_")
    if not mark:
        return f"{name[: LONGEST - 3]}..."
    tail = mark + number
    return f"{front[: max(1, LONGEST - 3 - len(tail))]}...{tail}"


@dataclass(frozen=True, slots=True)
class _Box:
    width: int
    height: int
    left: float
    right: float
    top: float
    bottom: float


def plot(
    study: Study, rows: Sequence[RankedVariant], title: str, x: str, y: str, *, monotonic: bool = False
) -> str | None:
    """One line with round marks per variant; None where there is nothing to draw."""
    lines = [(row.name, line(row.trials, x, y, monotonic=monotonic)) for row in rows]
    lines = [(name, points) for name, points in lines if points]
    if not lines:
        return None
    targets = _targets(study, x), _targets(study, y)
    box = _Box(WIDTH, HEIGHT, 76, WIDTH - 24.0, 44, HEIGHT - 58.0)
    xs = [point[0] for _, points in lines for point in points] + list(targets[0])
    ys = [point[1] for _, points in lines for point in points] + list(targets[1])
    across = scale(ChartAxis(""), xs, start=box.left, end=box.right, ticks=7)
    up = scale(ChartAxis(""), ys, start=box.bottom, end=box.top, ticks=6)
    shapes = [*_frame(box, across, up, title, header(x), header(y))]
    for value in targets[0]:
        place = across.place(value)
        shapes.append(_line(place, box.top, place, box.bottom, "#444444", dashed=True))
    for value in targets[1]:
        place = up.place(value)
        shapes.append(_line(box.left, place, box.right, place, "#444444", dashed=True))
    names = []
    for number, (name, points) in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        places = [(across.place(a), up.place(b)) for a, b, _ in points]
        text = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
        shapes.append(
            element("polyline", {"points": text, "fill": "none", "stroke": colour, "stroke-width": 1.8})
        )
        shapes += [
            element("circle", {"cx": f"{a:.1f}", "cy": f"{b:.1f}", "r": 3.6, "fill": colour})
            for a, b in places
        ]
        names.append((short_name(name), colour))
    for tag, found in ((x, targets[0]), (y, targets[1])):
        names += [(f"Target {header(tag)}", "#444444")] if found else []
    shapes += _legend(box, names)
    return _svg(WIDTH, HEIGHT, shapes)


def _targets(study: Study, tag: str) -> tuple[float, ...]:
    rows = study.goals[0].constraints if len(study.goals) == 1 else ()
    return tuple(
        value
        for row in rows
        if row.tag == tag and (value := row.high if row.high is not None else row.low) is not None
    )


def _frame(box: _Box, across: Scale, up: Scale, title: str, x_label: str, y_label: str) -> Iterator[Markup]:
    yield element("rect", {"width": box.width, "height": box.height, "fill": "#ffffff"})
    yield _text(box.width / 2, 26, title, size=15, anchor="middle")
    for tick in across.ticks:
        place = across.place(tick)
        yield _line(place, box.top, place, box.bottom, "#e3e6ea")
        yield _text(place, box.bottom + 18, plain_number(tick), anchor="middle")
    for tick in up.ticks:
        place = up.place(tick)
        yield _line(box.left, place, box.right, place, "#e3e6ea")
        yield _text(box.left - 7, place + 4, plain_number(tick), anchor="end")
    yield _line(box.left, box.bottom, box.right, box.bottom, "#444444")
    yield _line(box.left, box.top, box.left, box.bottom, "#444444")
    yield _text((box.left + box.right) / 2, box.height - 16, x_label, size=13, anchor="middle")
    middle = (box.top + box.bottom) / 2
    yield _text(18, middle, y_label, size=13, anchor="middle", turn=f"rotate(-90 18 {middle:.1f})")


def _legend(box: _Box, rows: Sequence[tuple[str, str]]) -> Iterator[Markup]:
    width = 30 + 7.2 * max((len(name) for name, _ in rows), default=0)
    left, top = box.right - width - 6, box.bottom - 18.0 * len(rows) - 10
    frame = {"x": f"{left:.1f}", "y": f"{top:.1f}", "width": f"{width:.1f}", "height": 18 * len(rows) + 4}
    yield element("rect", {**frame, "fill": "#ffffff", "fill-opacity": 0.85, "stroke": "#cccccc"})
    for number, (name, colour) in enumerate(rows):
        y = top + 15 + 18 * number
        yield element(
            "rect", {"x": f"{left + 6:.1f}", "y": f"{y - 9:.1f}", "width": 12, "height": 8, "fill": colour}
        )
        yield _text(left + 24, y, name)


def latency_breakdown(ranked: RankedVariant) -> str | None:
    """The server's parts stacked for each load, the throughput as a line on an axis of its own."""
    trials = sorted(ranked.trials, key=lambda trial: (trial.load.batch, trial.load.value))
    stacks = [[trial.combined(tag) or 0.0 for tag, _, _ in PARTS] for trial in trials]
    rates = [trial.combined("perf_throughput") or 0.0 for trial in trials]
    if not any(map(sum, stacks)):
        return None
    box = _Box(BREAKDOWN_WIDTH, BREAKDOWN_HEIGHT, 110, BREAKDOWN_WIDTH - 110.0, 70, BREAKDOWN_HEIGHT - 110.0)
    axis = ChartAxis("")
    up = scale(axis, [sum(stack) for stack in stacks], start=box.bottom, end=box.top, ticks=8)
    second = scale(axis, rates, start=box.bottom, end=box.top, ticks=8)
    empty = scale(axis, [1.0], start=box.left, end=box.right, ticks=1)
    load = trials[0].load
    label = (
        "Concurrent Client Requests"
        if load.concurrency is not None
        else "Client Request Rate"
        if load.request_rate is not None
        else "Request Intervals File"
    )
    bare = Scale(empty.spread, empty.low, empty.high, empty.start, empty.end, ())
    shapes = [*_frame(box, bare, up, "Online Performance", label, "Latency (ms)")]
    step = (box.right - box.left) / len(trials)
    places = []
    for number, (trial, stack, rate) in enumerate(zip(trials, stacks, rates, strict=True)):
        middle = box.left + step * (number + 0.5)
        bottom = 0.0
        for (_, _, colour), value in zip(PARTS, stack, strict=True):
            top = bottom + value
            bar = {
                "x": f"{middle - step * 0.3:.1f}",
                "width": f"{step * 0.6:.1f}",
                "y": f"{up.place(top):.1f}",
            }
            shapes.append(
                element("rect", {**bar, "height": f"{up.place(bottom) - up.place(top):.1f}", "fill": colour})
            )
            bottom = top
        value_text = trial.load.intervals or f"{trial.load.value:g}"
        name = value_text if trial.load.batch == 1 else f"{value_text} (b{trial.load.batch})"
        shapes.append(_text(middle, box.bottom + 22, name, size=14, anchor="middle"))
        places.append((middle, second.place(rate), rate))
    text = " ".join(f"{a:.1f},{b:.1f}" for a, b, _ in places)
    shapes.append(
        element("polyline", {"points": text, "fill": "none", "stroke": "#000000", "stroke-width": 2})
    )
    for a, b, rate in places:
        shapes.append(element("circle", {"cx": f"{a:.1f}", "cy": f"{b:.1f}", "r": 4, "fill": "#000000"}))
        shapes.append(_text(a, b - 12, f"{rate:,.0f}", size=14, anchor="middle"))
    for tick in second.ticks:
        shapes.append(_text(box.right + 10, second.place(tick) + 4, plain_number(tick), size=13))
    middle_y = (box.top + box.bottom) / 2
    shapes.append(
        _text(box.width - 20, middle_y, "Throughput (infer/sec)", size=14, anchor="middle",
              turn=f"rotate(90 {box.width - 20} {middle_y:.1f})")
    )  # fmt: skip
    legend = [*((name, colour) for _, name, colour in PARTS), ("Throughput", "#000000")]
    shapes += _legend(_Box(box.width, box.height, box.left, box.left + 240.0, box.top, box.top + 110), legend)
    return _svg(BREAKDOWN_WIDTH, BREAKDOWN_HEIGHT, shapes)


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, *, dashed: bool = False) -> Markup:
    attributes = {
        "x1": f"{x1:.1f}",
        "y1": f"{y1:.1f}",
        "x2": f"{x2:.1f}",
        "y2": f"{y2:.1f}",
        "stroke": colour,
    }
    return element("line", {**attributes, **({"stroke-dasharray": "6 4"} if dashed else {})})


def _text(x: float, y: float, words: str, *, size: int = 12, anchor: str = "start", turn: str = "") -> Markup:
    attributes = {
        "x": f"{x:.1f}", "y": f"{y:.1f}", "font-size": size, "text-anchor": anchor, "font-family": _FONT,
        "fill": "#1a1f26", **({"transform": turn} if turn else {}),
    }  # fmt: skip
    return element("text", attributes, words)


def _svg(width: int, height: int, shapes: Sequence[Markup]) -> str:
    attributes = {
        "xmlns": "http://www.w3.org/2000/svg", "width": width, "height": height, "viewBox": f"0 0 {width} {height}",
    }  # fmt: skip
    return str(element("svg", attributes, *shapes))
