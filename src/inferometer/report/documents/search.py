"""Charts of a search: each figure of the SLO over the load, its limit, and where the limit of the load lies."""

from collections.abc import Iterator
from itertools import groupby

from inferometer.base.slo import Term
from inferometer.report.document import Chart, ChartAxis, ChartLine, ChartPoint, ChartRule, Section, Span
from inferometer.report.documents.levels import (
    Rows,
    error_bar,
    line_colour,
    time_axis,
    time_text,
    undrawn_levels_note,
    verdict_line,
)
from inferometer.report.format import duration, interval, level_label, load_name, share
from inferometer.report.promises import verdict_word
from inferometer.report.sentences import limit_words
from inferometer.stats.estimate import Estimate
from inferometer.stats.measurement import Measurement
from inferometer.stats.result import Finding, Result, measured
from inferometer.stats.slo import metric_of

_FIGURES = {
    "latency": "Latency",
    "ttft": "Time to the first token",
    "tpot": "Time between tokens",
    "gap": "Gap between tokens",
    "errors": "Failed requests",
}


def search_section(result: Result) -> Section | None:
    """A chart for each figure of the SLO; None for other commands, or if nothing was answered."""
    finding, rows = result.finding, measured(result)
    if finding is None or not rows:
        return None
    charts = [
        chart
        for figure, terms in groupby(_terms(finding), key=lambda term: term.figure)
        if (chart := _chart(result, finding, rows, figure, tuple(terms))) is not None
    ]
    return Section("throughput", "Load and SLO", "", tuple(charts)) if charts else None


def _terms(finding: Finding) -> list[Term]:
    """The terms that can be drawn, by figure."""
    return [term for figure in _FIGURES for term in finding.terms if term.figure == figure]


def _chart(
    result: Result, finding: Finding, rows: Rows, figure: str, terms: tuple[Term, ...]
) -> Chart | None:
    points = {term: tuple(_points(finding, rows, term)) for term in terms}
    drawn = [pair for pairs in points.values() for pair in pairs]
    if not any(point.y for _, point in drawn):  # nothing failed
        return None
    lines = [
        ChartLine(
            _name(term), (tuple(point for _, point in points[term]),), line_colour(number), has_marks=False
        )
        for number, term in enumerate(terms)
    ]
    by_verdict: dict[str, list[ChartPoint]] = {}
    for verdict, point in drawn:
        by_verdict.setdefault(verdict, []).append(point)
    title, load = _FIGURES[figure], load_name(finding.mode)
    limits = [term.limit for term in terms]
    spans = tuple(_band(finding, rows))
    band = "The band shows where the limit lies; t" if spans else "T"
    return Chart(
        title=f"{title} at each {load} tried",
        x=ChartAxis(f"{load} (requests/s)") if load == "request rate" else ChartAxis(load, is_whole=True),
        y=ChartAxis("share", share) if figure == "errors" else time_axis(title.lower(), lines, limits),
        series=(*lines, *(verdict_line(verdict, found) for verdict, found in by_verdict.items())),
        spans=spans,
        rules=tuple(
            ChartRule(term.limit, f"SLO: {term.label} {term.sign} {_text(term, term.limit)}")
            for term in terms
        ),
        note=" ".join((f"{band}he dashed line is the SLO.", *undrawn_levels_note(result))),
    )


def _name(term: Term) -> str:
    return "share of requests that failed" if term.figure == "errors" else f"{term.label} at each load"


def _text(term: Term, value: float) -> str:
    return share(value) if term.figure == "errors" else time_text(value)


def _points(finding: Finding, rows: Rows, term: Term) -> Iterator[tuple[str, ChartPoint]]:
    """(verdict on its load, point) for each level that has the figure."""
    judged = {row.load: row.verdict for row in finding.judged}
    get = metric_of(term).get
    for level, found in rows:
        value = None if get is None else get(found)
        if value is None:
            continue
        estimate = _estimate(found, term, value)
        verdict = judged.get(level.value, "not judged")
        written = (
            share(value) if term.figure == "errors" else f"{duration(value)} {interval(estimate)}".strip()
        )
        tip = f"{level_label(level.mode, level.value)}: {verdict_word(verdict)}, {term.label} {written}"
        yield verdict, ChartPoint(level.value, value, tip, y_limits=error_bar(estimate))


def _estimate(found: Measurement, term: Term, value: float) -> Estimate:
    if term.figure != "latency":
        return Estimate(value)
    return dict(found.latency_intervals).get(term.name, Estimate(value))


def _band(finding: Finding, rows: Rows) -> Iterator[Span]:
    """From the highest load known to meet the SLO to the lowest known to violate it."""
    if finding.low or finding.high is not None:
        most = max(level.value for level, _ in rows) if finding.high is None else finding.high
        yield Span(min(finding.low, most), most, limit_words(finding), is_interval=True)
