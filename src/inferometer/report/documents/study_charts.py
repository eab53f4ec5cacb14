"""Charts of a study: a line per variant over its loads."""

from collections.abc import Callable, Sequence

from inferometer.report.document import Chart, ChartAxis, ChartLine, ChartPoint, Span
from inferometer.report.documents.levels import error_bar, line_colour
from inferometer.report.documents.study_facts import estimate, load_text
from inferometer.report.format import plain_number, quantity
from inferometer.stats.figures import BY_TAG, THROUGHPUT, known_tag
from inferometer.tune.scoring import RankedVariant
from inferometer.tune.study import Study
from inferometer.tune.trial import Trial

LOADS = {  # load parameters: axis title, and field of a ClientLoad
    "batch_size": ("Client Batch Size", "batch"),
    "concurrency": ("Concurrency", "concurrency"),
    "request_rate": ("Request Rate", "request_rate"),
}


def value_of(trial: Trial, tag: str) -> float | None:
    """A metric, or a parameter of the load."""
    value: float | None = getattr(trial.load, LOADS[tag][1]) if tag in LOADS else trial.combined(tag)
    return value


def header(tag: str) -> str:
    return LOADS[tag][0] if tag in LOADS else BY_TAG[known_tag(tag)].header


Place = tuple[float, float, Trial]
"""x, y, and their trial."""


def line(trials: Sequence[Trial], x: str, y: str, *, monotonic: bool = False) -> list[Place]:
    """Points in order of x; with `monotonic`, only those above all earlier ones."""
    rows = [
        (a, b, trial)
        for trial in trials
        if (a := value_of(trial, x)) is not None and (b := value_of(trial, y)) is not None
    ]
    rows.sort(key=lambda row: (row[0], row[1]))
    return rising(rows) if monotonic else rows


def rising(rows: Sequence[Place]) -> list[Place]:
    """Return the points above all earlier ones."""
    kept: list[Place] = []
    for row in rows:
        if not kept or row[1] > kept[-1][1]:
            kept.append(row)
    return kept


def curves(
    study: Study, rows: Sequence[RankedVariant], x: str, y: str, title: str, *, monotonic: bool = False
) -> Chart | None:
    """A line for each variant; None if one of the metrics is unknown."""
    series = tuple(
        ChartLine(
            ranked.name,
            (tuple(_point(ranked.name, row, x, y) for row in points),),
            line_colour(number),
            is_dashed=ranked.name == study.default_name,
        )
        for number, ranked in enumerate(rows)
        if (points := line(ranked.trials, x, y, monotonic=monotonic))
    )
    if not series:
        return None
    has_default = any(row.name == study.default_name for row in rows)
    return Chart(
        title,
        ChartAxis(header(x)),
        ChartAxis(header(y)),
        series,
        spans=_beyond(study, series, x),
        note="The dashed line is the model's own configuration." if has_default else "",
    )


def _point(name: str, row: Place, x: str, y: str) -> ChartPoint:
    a, b, trial = row
    tip = f"{name}, {load_text(trial)}: {header(y)} {quantity(b)}, {header(x)} {quantity(a)}"
    return ChartPoint(a, b, tip, y_limits=_limits(trial, y))


def _limits(trial: Trial, tag: str) -> tuple[float, float] | None:
    found = estimate(trial, tag)
    return None if found is None else error_bar(found)


def _beyond(study: Study, series: Sequence[ChartLine], x: str) -> tuple[Span, ...]:
    """The part of the x axis where the constraint is violated."""
    limit = study.goals[0].limit(x) if len(study.goals) == 1 else None
    most = max(point.x for row in series for run in row.runs for point in run)
    if limit is None or most <= limit:
        return ()
    return (Span(limit, most, f"beyond {plain_number(limit)}", is_faded=True),)


def predicted_chart(study: Study, worded: Callable[[str], str] = str) -> Chart | None:
    """Measured against expected throughput; `worded` names configurations as the page does."""
    points, unit = [], study.rate_unit
    for trial in study.measured:
        expected, found = dict(trial.predicted).get(THROUGHPUT), trial.combined(THROUGHPUT)
        if expected is not None and found is not None:
            words = f"expected {quantity(expected)}, measured {quantity(found)} {unit}"
            tip = f"{worded(trial.name)}, {load_text(trial)}: {words}"
            points.append(ChartPoint(expected, found, tip, y_limits=_limits(trial, THROUGHPUT)))
    if not points:
        return None
    most = max(max(point.x, point.y) for point in points)
    diagonal = ChartLine(
        "as expected",
        ((ChartPoint(0, 0, ""), ChartPoint(most, most, "")),),
        "grey",
        is_dashed=True,
        has_marks=False,
    )
    # Each point is a separate run, so that no line joins them.
    marks = ChartLine("measured", tuple((point,) for point in sorted(points, key=lambda row: row.x)), "blue")
    return Chart(
        "Measured against expected throughput",
        ChartAxis(f"expected ({unit})"),
        ChartAxis(f"measured ({unit})"),
        (marks, diagonal),
    )
