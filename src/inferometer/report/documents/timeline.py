"""The run as it went: every window of every level, side by side."""

from collections.abc import Iterator
from dataclasses import dataclass

from inferometer.base.units import NS_PER_S
from inferometer.report.axes import plain_number, rate_axis, time_axis
from inferometer.report.document import (
    Chart,
    ChartAxis,
    ChartLine,
    ChartPoint,
    Column,
    Depth,
    Section,
    Span,
    Table,
)
from inferometer.report.format import duration, level_label, level_value, quantity
from inferometer.stats.measurement import Level, WindowFigures
from inferometer.stats.result import Result

MARKED = 240  # windows up to which each is a point that can be pointed at
LISTED = 1000


@dataclass(frozen=True, slots=True)
class _Row:
    """A window at its place in the whole run."""

    level: Level
    window: WindowFigures
    start_s: float
    is_counted: bool  # in the level's figures

    @property
    def why_not(self) -> str:
        """Why it is in no figure, when it is not."""
        return "before the figures settled" if self.level.start is None else "warm-up"

    @property
    def middle_s(self) -> float:
        return self.start_s + self.window.duration_ns / NS_PER_S / 2

    @property
    def end_s(self) -> float:
        return self.start_s + self.window.duration_ns / NS_PER_S


def timeline_section(result: Result) -> Section | None:
    """Throughput and latency of each window; None for a file without windows."""
    rows = tuple(_rows(result))
    if not rows or not any(row.window.request_count for row in rows):
        return None
    lead = "Time between levels is left out."
    if not all(row.is_counted for row in rows):
        lead += " Shaded windows (warm-up, or before the figures settled) are in no figure of the report."
    charts = _throughput(rows), _latency(rows, result)
    return Section("timeline", "Timeline", lead, (*charts, _table(rows, result)), is_detail=True)


def _rows(result: Result) -> Iterator[_Row]:
    start_s = 0.0
    for level in result.levels:
        first = first_counted(level)
        for number, window in enumerate(level.windows):
            yield _Row(level, window, start_s + max(0.0, window.start_s), number >= first)
        if level.windows:
            last = level.windows[-1]
            start_s += last.start_s + last.duration_ns / NS_PER_S


def first_counted(level: Level) -> int:
    """The place of the first window that is in the level's figures: those are the last ones, joined."""
    if level.measurement is None:
        return len(level.windows)
    left_ns = level.measurement.duration_ns
    for number in range(len(level.windows) - 1, -1, -1):
        if left_ns <= 0:
            return number + 1
        left_ns -= level.windows[number].duration_ns
    return 0


def _spans(rows: tuple[_Row, ...]) -> tuple[Span, ...]:
    spans: list[Span] = []
    faded: list[Span] = []
    for level, group in _by_level(rows):
        spans.append(Span(group[0].start_s, group[-1].end_s, level_value(level.mode, level.value)))
        left_out = [row for row in group if not row.is_counted]  # the first ones
        if left_out:
            faded.append(Span(left_out[0].start_s, left_out[-1].end_s, is_faded=True))
    return (*spans, *faded)


def _by_level(rows: tuple[_Row, ...]) -> list[tuple[Level, list[_Row]]]:
    groups: list[tuple[Level, list[_Row]]] = []
    for row in rows:
        if not groups or groups[-1][0] is not row.level:
            groups.append((row.level, []))
        groups[-1][1].append(row)
    return groups


def _throughput(rows: tuple[_Row, ...]) -> Chart:
    runs = tuple(
        tuple(
            ChartPoint(row.middle_s, row.window.infer_per_s, _tip(row), is_doubtful=not row.is_counted)
            for row in group
        )
        for _, group in _by_level(rows)
    )
    name = "request rate" if rows[0].level.mode != "concurrency" else "concurrency"
    return Chart(
        title=f"Throughput of each window, by {name}",
        x=ChartAxis("seconds", plain_number),
        y=rate_axis(),
        series=(ChartLine("throughput", runs, "blue", has_marks=len(rows) <= MARKED), *_failures(rows)),
        spans=_spans(rows),
        height=250,
    )


def _failures(rows: tuple[_Row, ...]) -> tuple[ChartLine, ...]:
    """A point at the bottom of each window in which requests failed."""
    failed = [row for row in rows if row.window.failed_count]
    if not failed:
        return ()
    points = tuple((ChartPoint(row.middle_s, 0.0, f"{row.window.failed_count} failed"),) for row in failed)
    return (ChartLine("windows with failures", points, "red"),)


def _latency(rows: tuple[_Row, ...], result: Result) -> Chart:
    lines = tuple(_latency_lines(rows, result))
    times = [point.y for line in lines for run in line.runs for point in run]
    return Chart(
        title="Latency of each window",
        x=ChartAxis("seconds", plain_number),
        y=time_axis(lines[0].name if len(lines) == 1 else "latency", times),
        series=lines,
        spans=_spans(rows),
        height=270,
    )


def _latency_lines(rows: tuple[_Row, ...], result: Result) -> Iterator[ChartLine]:
    is_marked = len(rows) <= MARKED
    answered = tuple(row for row in rows if row.window.request_count)
    if not any(row.window.p99_ns for row in answered):  # a file from before windows had percentiles
        chosen = result.effective.percentile
        name = "mean latency" if chosen is None else f"p{chosen} latency"
        yield ChartLine(name, _runs(answered, "latency_ns"), "blue", has_marks=is_marked)
        return
    yield ChartLine("p50 latency", _runs(answered, "p50_ns"), "blue", has_marks=is_marked)
    yield ChartLine("p99 latency", _runs(answered, "p99_ns"), "orange", has_marks=is_marked)


def _runs(rows: tuple[_Row, ...], field: str) -> tuple[tuple[ChartPoint, ...], ...]:
    return tuple(
        tuple(
            ChartPoint(
                row.middle_s, float(getattr(row.window, field)), _tip(row), is_doubtful=not row.is_counted
            )
            for row in group
        )
        for _, group in _by_level(rows)
    )


def _tip(row: _Row) -> str:
    window = row.window
    words = [
        f"{level_label(row.level.mode, row.level.value)}, {row.start_s:.1f} s to {row.end_s:.1f} s: "
        f"{quantity(window.infer_per_s)} infer/s"
    ]
    if window.p99_ns:
        words.append(f"p50 {duration(window.p50_ns)}, p99 {duration(window.p99_ns)}")
    if window.failed_count:
        words.append(f"{window.failed_count} failed")
    if not row.is_counted:
        words.append(f"{row.why_not}, not in the figures")
    return ", ".join(words)


def _table(rows: tuple[_Row, ...], result: Result) -> Table:
    chosen = result.effective.percentile
    headline = "Average" if chosen is None else f"p{chosen}"
    names = ("Level", "From (s)", "To (s)", "Infer/s", headline, "p50", "p99", "Requests", "Failed")
    columns = (*map(Column, names), Column("Counted", is_number=False))
    lines = tuple(_line(row) for row in rows[:LISTED])
    caption = "Every window" if len(rows) <= LISTED else f"The first {LISTED} windows of {len(rows)}"
    return Table(caption, columns, lines, Depth.LISTING)


def _line(row: _Row) -> tuple[str, ...]:
    window = row.window
    times = (window.latency_ns, window.p50_ns, window.p99_ns)
    return (
        level_value(row.level.mode, row.level.value),
        f"{row.start_s:.2f}",
        f"{row.end_s:.2f}",
        quantity(window.infer_per_s),
        *(duration(ns) if ns else "-" for ns in times),
        str(window.request_count),
        str(window.failed_count),
        "yes" if row.is_counted else f"no: {row.why_not}",
    )
