"""Timeline of a run: every window of every level, side by side."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate, groupby

from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_S
from inferometer.options.effective import Effective
from inferometer.options.values import Range
from inferometer.report.document import (
    Chart,
    ChartAxis,
    ChartLine,
    ChartPoint,
    ChartRule,
    Column,
    Depth,
    Section,
    Span,
    Table,
    text_columns,
)
from inferometer.report.documents.levels import rate_axis, time_axis
from inferometer.report.format import (
    NONE,
    duration,
    has_schedule,
    is_periodic,
    level_label,
    level_value,
    load_name,
    quantity,
)
from inferometer.report.sentences import verdict_words
from inferometer.stats.measurement import Level, WindowFigures
from inferometer.stats.result import Result

MARKED = 240  # most windows that are drawn as points with tooltips
LISTED = 1000
_ENDINGS = ("interrupted", "server gone", "no answer", "all failed")  # verdicts shown in the label of a level


@frozen
class _Row:
    """A window at its position in the whole run."""

    level: Level
    window: WindowFigures
    start_s: float
    is_counted: bool  # in the level's figures
    rate_unit: str

    @property
    def why_not(self) -> str:
        """The reason why a window is excluded from the figures."""
        return "before the figures settled" if self.level.start is None else "warm-up"

    @property
    def middle_s(self) -> float:
        return self.start_s + self.window.duration_ns / NS_PER_S / 2

    @property
    def end_s(self) -> float:
        return self.start_s + self.window.duration_ns / NS_PER_S


def timeline_section(result: Result) -> Section | None:
    """Throughput and latency of each window; None if there are too few windows for a line."""
    rows = tuple(_rows(result))
    is_answered = any(row.window.request_count for row in rows)
    is_sent = is_answered or (is_course(result.effective) and any(row.window.failed_count for row in rows))
    if len(rows) < 2 or not is_sent:
        return None
    words = ["Time between levels is left out."] if len(_by_level(rows)) > 1 else []
    if not all(row.is_counted for row in rows):
        words.append("Shaded windows (warm-up, or before the figures settled) are excluded from all figures.")
    chosen = result.effective.percentile
    spans = _spans(rows, has_names=not is_course(result.effective))
    if result.effective.periodic is not None:
        first = _ramp(rows, Range(*result.effective.periodic).last)
    elif all(row.window.due_count is not None for row in rows):
        first = _rates(rows)
    else:
        first = _throughput(rows)
    tokens = _tokens(rows) if any(row.window.output_tokens for row in rows) else None
    found = (
        first,
        *(() if tokens is None else (tokens,)),
        *((_latency(rows, chosen),) if is_answered else ()),
    )
    charts = (replace(chart, spans=spans) for chart in found)
    return Section("timeline", "Timeline", " ".join(words), (*charts, _table(rows, chosen)), is_detail=True)


def is_course(effective: Effective) -> bool:
    """Whether the run is one level whose load varies over time: every window counts, and the differences matter."""
    return has_schedule(effective) or is_periodic(effective)


def _rows(result: Result) -> Iterator[_Row]:
    start_s = 0.0
    for level in result.levels:
        first = 0 if is_course(result.effective) else first_counted(level)
        for number, window in enumerate(level.windows):
            begun_s = start_s + max(0.0, window.start_s)
            yield _Row(level, window, begun_s, number >= first, result.effective.rate_unit)
        if level.windows:
            last = level.windows[-1]
            start_s += last.start_s + last.duration_ns / NS_PER_S


def first_counted(level: Level) -> int:
    """Index of the first window in the level's figures, which cover the last windows. If the server stopped answering,
    all windows up to then count; the silence after it is cut off."""
    if level.measurement is None:
        return len(level.windows)
    if level.is_given_up:
        return 0
    left_ns = level.measurement.duration_ns
    for number in range(len(level.windows) - 1, -1, -1):
        if left_ns <= 0:
            return number + 1
        left_ns -= level.windows[number].duration_ns
    return 0


def _spans(rows: tuple[_Row, ...], *, has_names: bool) -> tuple[Span, ...]:
    """A span for each level with its load, and the reason if it was cut short."""
    spans: list[Span] = []
    faded: list[Span] = []
    for group in _by_level(rows):
        level = group[0].level
        words = [level_value(level.mode, level.value)] if has_names else []
        words += [word for word in verdict_words(level).split(", ") if word in _ENDINGS]
        spans.append(Span(group[0].start_s, group[-1].end_s, " ".join(words)))
        left_out = [row for row in group if not row.is_counted]  # the first ones
        if left_out:
            faded.append(Span(left_out[0].start_s, left_out[-1].end_s, is_faded=True))
    return (*spans, *faded)


def _by_level(rows: tuple[_Row, ...]) -> list[tuple[_Row, ...]]:
    return [tuple(group) for _, group in groupby(rows, key=lambda row: id(row.level))]


def _throughput(rows: tuple[_Row, ...]) -> Chart:
    line = ChartLine("throughput", _runs(rows, "infer_per_s"), "blue", has_marks=len(rows) <= MARKED)
    return Chart(
        title=f"Throughput of each window, by {load_name(rows[0].level.mode)}",
        x=ChartAxis("seconds"),
        y=rate_axis(rows[0].rate_unit),
        series=(line, *_failures(rows)),
        height=250,
    )


def _tokens(rows: tuple[_Row, ...]) -> Chart:
    """Output tokens that arrived in each window; without streams, those of the answers that ended in it."""

    def point(row: _Row) -> ChartPoint:
        per_s = row.window.output_tokens * NS_PER_S / row.window.duration_ns
        tip = f"{_tip(row)}, {quantity(per_s)} tokens/s"
        return ChartPoint(row.middle_s, per_s, tip, is_doubtful=not row.is_counted)

    runs = tuple(tuple(map(point, group)) for group in _by_level(rows))
    return Chart(
        title="Output tokens of each window",
        x=ChartAxis("seconds"),
        y=ChartAxis("output tokens/s"),
        series=(ChartLine("tokens", runs, "blue", has_marks=len(rows) <= MARKED),),
        height=250,
    )


def _rates(rows: tuple[_Row, ...]) -> Chart:
    """Requests due, sent and answered; where the lines diverge, something did not keep up."""

    def points(group: tuple[_Row, ...], name: str) -> Iterator[ChartPoint]:
        for row in group:
            window = row.window
            # Several windows may end between two polls of the due and sent counts: the first one gets all of them.
            count_ns = window.duration_ns if name == "answered" else window.counted_ns
            if count_ns:
                per_s = float(getattr(window, f"{name}_count")) * NS_PER_S / count_ns
                yield ChartPoint(row.middle_s, per_s, _tip(row))

    are_alone = all(
        len(group) == 1 for group in _by_level(rows)
    )  # individual points, which no line would show
    lines = tuple(
        ChartLine(
            name,
            tuple(tuple(points(group, field)) for group in _by_level(rows)),
            colour,
            is_dashed=field == "due",
            has_marks=are_alone or (field == "answered" and len(rows) <= MARKED),
        )
        for name, field, colour in (
            ("due", "due", "grey"),
            ("sent", "sent", "blue"),
            ("answered", "answered", "green"),
        )
    )
    return Chart(
        title="Requests due, sent and answered in each window",
        x=ChartAxis("seconds"),
        y=ChartAxis("requests/s"),
        series=(*lines, *_failures(rows)),
        height=280,
    )


def _ramp(rows: tuple[_Row, ...], asked: int) -> Chart:
    """Cumulative requests sent and answered; the difference is in flight."""
    lines = []
    for name, field, colour in (
        ("sent so far", "sent_count", "blue"),
        ("answered so far", "answered_count", "green"),
    ):
        totals = accumulate(getattr(row.window, field) or 0 for row in rows)
        points = tuple(
            ChartPoint(row.end_s, float(total), f"{row.end_s:.1f} s: {total:,} {name}")
            for row, total in zip(rows, totals, strict=True)
        )
        lines.append(ChartLine(name, (points,), colour, has_marks=len(rows) <= MARKED))
    return Chart(
        title="Requests sent and answered so far",
        x=ChartAxis("seconds"),
        y=ChartAxis("requests", is_whole=True),
        series=(*lines, *_failures(rows)),
        rules=(ChartRule(float(asked), f"target: {asked:,}"),),
        height=280,
    )


def _failures(rows: tuple[_Row, ...]) -> tuple[ChartLine, ...]:
    """A point at the bottom of each window with failed requests."""
    failed = [row for row in rows if row.window.failed_count]
    points = tuple((ChartPoint(row.middle_s, 0.0, f"{row.window.failed_count:,} failed"),) for row in failed)
    return (ChartLine("windows with failures", points, "red"),) if points else ()


def _latency(rows: tuple[_Row, ...], chosen: int | None) -> Chart:
    answered = tuple(row for row in rows if row.window.request_count)
    fields = [("p50 latency", "p50_ns", "blue"), ("p99 latency", "p99_ns", "orange")]
    if not any(row.window.p99_ns for row in answered):  # written by a version without window percentiles
        fields = [("mean latency" if chosen is None else f"p{chosen} latency", "latency_ns", "blue")]
    lines = tuple(
        ChartLine(name, _runs(answered, field), colour, has_marks=len(rows) <= MARKED)
        for name, field, colour in fields
    )
    return Chart(
        title="Latency of each window",
        x=ChartAxis("seconds"),
        y=time_axis(lines[0].name if len(lines) == 1 else "latency", lines),
        series=lines,
        height=270,
    )


def _runs(rows: tuple[_Row, ...], field: str) -> tuple[tuple[ChartPoint, ...], ...]:
    def point(row: _Row) -> ChartPoint:
        value = float(getattr(row.window, field))
        return ChartPoint(row.middle_s, value, _tip(row), is_doubtful=not row.is_counted)

    return tuple(tuple(map(point, group)) for group in _by_level(rows))


def _tip(row: _Row) -> str:
    window = row.window
    words = [
        f"{level_label(row.level.mode, row.level.value)}, {row.start_s:.1f} s to {row.end_s:.1f} s: "
        f"{quantity(window.infer_per_s)} {row.rate_unit}"
    ]
    if window.p99_ns:
        words.append(f"p50 {duration(window.p50_ns)}, p99 {duration(window.p99_ns)}")
    if window.failed_count:
        words.append(f"{window.failed_count:,} failed")
    if not row.is_counted:
        words.append(f"{row.why_not}, not in the figures")
    return ", ".join(words)


def _table(rows: tuple[_Row, ...], chosen: int | None) -> Table:
    headline = "Average" if chosen is None else f"p{chosen}"
    per_s = rows[0].rate_unit.capitalize()
    names = ("Level", "From (s)", "To (s)", per_s, headline, "p50", "p99", "Requests", "Failed")
    columns = (*map(Column, names), *text_columns("Counted"))
    lines = tuple(_line(row) for row in rows[:LISTED])
    caption = "Every window" if len(rows) <= LISTED else f"The first {LISTED:,} windows of {len(rows):,}"
    return Table(caption, columns, lines, Depth.LISTING)


def _line(row: _Row) -> tuple[str, ...]:
    window = row.window
    times = (window.latency_ns, window.p50_ns, window.p99_ns)
    return (
        level_value(row.level.mode, row.level.value),
        f"{row.start_s:.2f}",
        f"{row.end_s:.2f}",
        quantity(window.infer_per_s),
        *(duration(ns) if ns else NONE for ns in times),
        f"{window.request_count:,}",
        f"{window.failed_count:,}",
        "yes" if row.is_counted else f"no: {row.why_not}",
    )
