"""The trend of a model as a document: its figures over the runs, and the runs between which they changed."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from itertools import pairwise

from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_MS
from inferometer.report.document import (
    Chart,
    ChartAxis,
    ChartLine,
    ChartPoint,
    Column,
    Depth,
    Document,
    Figure,
    Section,
    Span,
    Table,
    Tone,
    text_columns,
)
from inferometer.report.format import (
    NONE,
    difference,
    duration,
    interval,
    level_label,
    plain_number,
    plural,
    quantity,
    share,
    when,
)
from inferometer.stats.estimate import Estimate
from inferometer.stats.figures import named
from inferometer.stats.history import FigureHistory
from inferometer.stats.trend import (
    FALSE_ALARMS,
    FEWEST,
    LEAST,
    TrendChange,
    TrendPoint,
    changes,
    missing_runs,
    smallest_visible,
)

FEWEST_DIGITS = 4  # of a run's id
CARDS = 4
NAMED = 3  # most changes that the verdict names


@frozen
class TrendFacts:
    """Title and facts of a trend, and names and commits of its runs."""

    title: str
    facts: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)  # by run id; shortest unique prefixes by default
    commits: Mapping[str, str] = field(default_factory=dict)  # by run id
    tool: str = ""


@frozen
class _Trend:
    """A history with its changes."""

    history: FigureHistory
    changes: tuple[TrendChange, ...]

    def tone(self, change: TrendChange) -> Tone:
        return Tone.GOOD if (change.ratio > 1) == self.history.is_higher_better else Tone.BAD


def trend_document(histories: Sequence[FigureHistory], about: TrendFacts) -> Document:
    """Return the page; all figures and loads together share the false-alarm rate."""
    rate = FALSE_ALARMS / max(1, len(histories))
    trends = [_Trend(row, changes(row.points, false_alarms=rate)) for row in histories]
    names = run_names([point.run_id for row in histories for point in row.points]) | dict(about.names)
    found = [(trend, change) for trend in trends for change in trend.changes]
    words, tone = _verdict(trends, names, rate)
    loads = list(dict.fromkeys(_load_key(row) for row in histories))
    sections = [_changes_section(found, names)] if found else []
    for key in loads:
        chosen = [trend for trend in trends if _load_key(trend.history) == key]
        sections.append(_load_section(chosen, names, about.commits, is_only=len(loads) == 1))
    return Document(
        kind="Trend",
        title=about.title,
        facts=about.facts,
        verdict=words,
        tone=tone,
        figures=tuple(_figures(trends, names)),
        sections=(*sections, _method_section(histories, rate)),
        tool=about.tool,
    )


def run_names(ids: Sequence[str]) -> dict[str, str]:
    """Shorten ids to their shortest unique prefix; names that are not ids of a store stay as they are."""
    longest = max(map(len, ids), default=0)
    digits = next(
        (
            length
            for length in range(FEWEST_DIGITS, longest)
            if len({row[:length] for row in ids}) == len(set(ids))
        ),
        longest,
    )
    return {row: row[:digits] if set(row) <= set("0123456789abcdef") else row for row in ids}


def _load_key(history: FigureHistory) -> tuple[str, str, float]:
    return history.variant, history.mode, history.value


def load_words(history: FigureHistory) -> str:
    load = level_label(history.mode, history.value)
    return f"{history.variant}, {load}" if history.variant else load


def figure_text(figure: str, value: float) -> str:
    """A value with its unit: `1,234 /s`, `4.56 ms`."""
    metric = named(figure)
    return (
        duration(value * NS_PER_MS) if metric is not None and metric.unit == "ms" else f"{quantity(value)} /s"
    )


# --- the verdict


def _verdict(trends: Sequence[_Trend], names: Mapping[str, str], false_alarms: float) -> tuple[str, Tone]:
    runs = max((len(trend.history.points) for trend in trends), default=0)
    missing = missing_runs(runs)
    if missing:
        return (
            f"Too early to tell: at least {FEWEST} comparable runs are needed to detect a change, and there "
            f"{'is' if runs == 1 else 'are'} {runs}.",
            Tone.PLAIN,
        )
    found = [(trend, change) for trend in trends for change in trend.changes]
    if not found:
        return f"No change detected in {plural(runs, 'run')}.{_visible(trends, false_alarms)}", Tone.PLAIN
    last = max(found, key=lambda row: row[1].index)
    sentences = [_change_words(trend, change, names) for trend, change in found[:NAMED]]
    more = f" And {plural(len(found) - NAMED, 'other change')}." if len(found) > NAMED else ""
    return f"{' '.join(sentences)}{more}", last[0].tone(last[1])


def _change_words(trend: _Trend, change: TrendChange, names: Mapping[str, str]) -> str:
    way = "rose" if change.ratio > 1 else "fell"
    size = abs(change.ratio - 1)
    ends = sorted(abs(end - 1) for end in (change.low, change.high))
    where = f"{_title(trend.history.figure)} at {load_words(trend.history)}"
    between = f"between runs {names[change.before_id]} and {names[change.after_id]}"
    return f"{where} {way} by {share(size)} ({share(ends[0])} to {share(ends[1])}) {between}."


def _title(figure: str) -> str:
    metric = named(figure)
    return figure if metric is None or metric.unit == "ms" else metric.title


def _visible(trends: Sequence[_Trend], false_alarms: float) -> str:
    for trend in trends[:1]:
        least = smallest_visible(trend.history.points, false_alarms=false_alarms)
        if least is not None:
            size = share(max(least, LEAST))
            return f" A {size} change of {trend.history.figure} halfway through would be detected half of the time."
    return ""


def _figures(trends: Sequence[_Trend], names: Mapping[str, str]) -> Iterator[Figure]:
    for trend in trends[:CARDS]:
        history = trend.history
        last = history.points[-1]
        detail, tone = (
            "too few runs" if missing_runs(len(history.points)) else "no change detected",
            Tone.PLAIN,
        )
        if trend.changes:
            change = trend.changes[-1]
            detail = f"{difference(_percent(change))} since {names[change.after_id]}"
            tone = trend.tone(change)
        title = f"{_title(history.figure)} at {load_words(history)}"
        yield Figure(title, figure_text(history.figure, last.value), detail, tone)


def _percent(change: TrendChange) -> Estimate:
    return Estimate(*((end - 1) * 100 for end in (change.ratio, change.low, change.high)))


def _changes_section(found: Sequence[tuple[_Trend, TrendChange]], names: Mapping[str, str]) -> Section:
    columns = (
        Column("Figure", is_number=False, is_name=True),
        *text_columns("Load"),
        Column("Between runs", is_number=False, is_name=True),
        Column("After", is_number=False, rank=1),
        Column("Change"),
    )
    rows, tones = [], []
    for trend, change in sorted(found, key=lambda row: -row[1].index):
        points = trend.history.points
        between = f"{names[change.before_id]} and {names[change.after_id]}"
        started = when(points[change.index - 1].started_at)
        cells = (trend.history.figure, load_words(trend.history), between, started)
        rows.append((*cells, difference(_percent(change))))
        tones.append(trend.tone(change))
    table = Table("What changed", columns, tuple(rows), tones=tuple(tones))
    return Section("changes", "What changed", "Newest first, with 95 % intervals.", (table,))


# --- charts and tables


def _load_section(
    trends: Sequence[_Trend], names: Mapping[str, str], commits: Mapping[str, str], *, is_only: bool
) -> Section:
    load = load_words(trends[0].history)
    charts = [history_chart(trend.history, trend.changes, names) for trend in trends]
    title = f"Over the runs, at {load}" if is_only else f"At {load}"
    lead = "Each run with its own interval, and the level between changes."
    name = f"load-{load.replace(' ', '-').replace(',', '')}"
    return Section(name, title, lead, (*charts, _runs_table(trends, names, commits)))


def history_chart(
    history: FigureHistory,
    found: Sequence[TrendChange],
    names: Mapping[str, str],
    new_ids: Sequence[str] = (),
) -> Chart:
    """A figure over the runs, which are numbered in order; new runs are a separate line."""
    points = history.points
    old = [row for row in enumerate(points, 1) if row[1].run_id not in new_ids]
    new = [row for row in enumerate(points, 1) if row[1].run_id in new_ids]
    lines = [
        ChartLine(
            "level between changes", tuple(_levels(points[: len(old)], found)), "grey", has_marks=False
        ),
        ChartLine("runs", tuple((_mark(*row, history, names),) for row in old), "blue"),
    ]
    if new:
        lines.append(ChartLine("judged", tuple((_mark(*row, history, names),) for row in new), "orange"))
    spans = tuple(
        Span(
            change.index,
            change.index + 1,
            f"{difference(Estimate(_percent(change).value))}: {names[change.before_id]} → {names[change.after_id]}",
            is_interval=True,
        )
        for change in found
    )
    metric = named(history.figure)
    unit = (
        "ms"
        if metric is not None and metric.unit == "ms"
        else "tokens/s"
        if history.figure == "tokens"
        else "/s"
    )
    return Chart(
        title=f"{history.figure} at {load_words(history)}",
        x=_run_axis(points),
        y=ChartAxis(f"{history.figure} ({unit})", plain_number, is_from_zero=False),
        series=tuple(line for line in lines if line.runs),
        spans=spans,
        height=260,
    )


def _run_axis(points: Sequence[TrendPoint]) -> ChartAxis:
    """An axis of run numbers with their dates, or with times if all started on one day."""
    days = {point.started_at[:10] for point in points}
    title, first, last = "run, oldest first", 0, 10
    if len(days) == 1 and len(points) > 1:
        title, first, last = f"{title}; all on {min(days)}", 11, 16

    def is_run(number: float) -> bool:
        return 1 <= number <= len(points)

    def text(number: float) -> str:
        return f"{number:.0f}" if is_run(number) else ""

    def started(number: float) -> str:
        return points[round(number) - 1].started_at[first:last] if is_run(number) else ""

    return ChartAxis(title, text, is_whole=True, is_from_zero=False, below=started)


def _mark(number: int, point: TrendPoint, history: FigureHistory, names: Mapping[str, str]) -> ChartPoint:
    limits = None if point.low is None or point.high is None else (point.low, point.high)
    text = f"{names[point.run_id]}: {figure_text(history.figure, point.value)} · {when(point.started_at)}"
    return ChartPoint(float(number), point.value, text, y_limits=limits)


def _levels(points: Sequence[TrendPoint], found: Sequence[TrendChange]) -> Iterator[tuple[ChartPoint, ...]]:
    """A line at the geometric mean between changes."""
    for start, end in pairwise((0, *(change.index for change in found), len(points))):
        if end > start:
            level = math.exp(sum(math.log(point.value) for point in points[start:end]) / (end - start))
            yield tuple(ChartPoint(float(place), level, "") for place in (start + 1, end))


def _runs_table(trends: Sequence[_Trend], names: Mapping[str, str], commits: Mapping[str, str]) -> Table:
    """A table of the runs, newest first."""
    at = {(trend.history.figure, point.run_id): point for trend in trends for point in trend.history.points}
    runs = {point.run_id: point for trend in trends for point in trend.history.points}
    has_commits = any(commits.get(row) for row in runs)
    columns = [Column("Run", is_number=False, is_name=True), Column("Started", is_number=False, rank=1)]
    columns += [Column("Commit", is_number=False, rank=2)] if has_commits else []
    columns += [Column(trend.history.figure) for trend in trends]
    rows = []
    for run_id, point in reversed(runs.items()):
        cells = [names[run_id], when(point.started_at)]
        cells += [commits.get(run_id, "")[:10]] if has_commits else []
        cells += [_cell(trend.history.figure, at.get((trend.history.figure, run_id))) for trend in trends]
        rows.append(tuple(cells))
    return Table("The runs, newest first", tuple(columns), tuple(rows), Depth.DRAWN)


def _cell(figure: str, point: TrendPoint | None) -> str:
    if point is None:
        return NONE
    own = interval(Estimate(point.value, point.low, point.high))
    return f"{figure_text(figure, point.value)} {own}".rstrip()


def _method_section(histories: Sequence[FigureHistory], rate: float) -> Section:
    lead = (
        f"A change is marked if the runs on both sides of it differ by more than their spread explains, and by at "
        f"least {share(LEAST)}. One in {round(1 / FALSE_ALARMS)} such pages without a change shows a false one: the "
        f"rate of {share(FALSE_ALARMS)} is shared by {plural(len(histories), 'figure')}. A change needs three runs on "
        "either side, so a single bad run is not a change. Runs are assumed to be independent."
    )
    return Section("method", "What counts as a change", lead, is_detail=True)
