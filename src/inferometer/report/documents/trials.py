"""What came of trying the suggestions: before, predicted, measured."""

from inferometer.diagnose.diagnosis import Change, Diagnosis, Trial
from inferometer.report.document import (
    Bar,
    Bars,
    Block,
    Chart,
    ChartLine,
    ChartPoint,
    Column,
    Section,
    Segment,
    Table,
)
from inferometer.report.documents.throughput import limits
from inferometer.report.format import change_text, duration, quantity, share
from inferometer.report.units import rate_axis, time_axis
from inferometer.report.verdict import measured
from inferometer.stats.result import Result

COLOURS = ("blue", "orange", "green", "purple", "grey")


def gain(diagnosis: Diagnosis, trial: Trial) -> float:
    """Of throughput over where it began."""
    return trial.throughput / diagnosis.throughput - 1 if diagnosis.throughput else 0.0


def trials_section(diagnosis: Diagnosis) -> Section | None:
    """Predicted against measured; None when nothing was tried."""
    if not diagnosis.trials:
        return None
    blocks: list[Block] = [_before_after(diagnosis), _trial_table(diagnosis.trials)]
    chart = _runs(diagnosis)
    if chart is not None:
        blocks.insert(1, chart)
    words = []
    if diagnosis.after is not None:
        words.append(f"Now: {diagnosis.after.sentence.strip()}")
    if diagnosis.is_restored is not None:
        words.append(
            "The original configuration is back." if diagnosis.is_restored else "The changes are still there."
        )
    return Section("trials", "What was tried", " ".join(words), tuple(blocks))


def _before_after(diagnosis: Diagnosis) -> Bars:
    tried = [row for row in diagnosis.trials if not row.failure]
    figures = [value for row in tried for value in (row.throughput, row.suggestion.throughput)]
    most = max(diagnosis.throughput, *figures) if figures else diagnosis.throughput
    before = quantity(diagnosis.throughput)
    bars = [
        Bar(
            "before",
            (Segment("before", diagnosis.throughput, before, "part-network"),),
            f"{before} infer/s",
        )
    ]
    for row in tried:
        change = row.suggestion.change
        detail = f"{change.kind} {change.before} → {change.after}"
        for name, value, colour in (
            ("predicted", row.suggestion.throughput, "part-input"),
            ("measured", row.throughput, "part-infer" if row.is_kept else "part-receive"),
        ):
            text = quantity(value)
            bars.append(
                Bar(
                    f"{change.model}, {name}",
                    (Segment(name, value, text, colour),),
                    f"{text} infer/s",
                    detail,
                )
            )
    return Bars("Before, predicted and measured (infer/s)", tuple(bars), most)


def _trial_table(trials: tuple[Trial, ...]) -> Table:
    numbers = ("Predicted infer/s", "Measured infer/s", "Measured ÷ predicted", "Gain", "Mean latency")
    columns = (
        Column("Change", is_number=False),
        *map(Column, numbers),
        Column("Outcome", is_number=False),
    )
    return Table("Predicted against measured", columns, tuple(_trial_row(row) for row in trials))


def _trial_row(row: Trial) -> tuple[str, ...]:
    change = row.suggestion.change
    said = (change_words(change), quantity(row.suggestion.throughput))
    if row.failure:
        return (*said, "-", "-", "-", "-", f"refused: {row.failure}")
    outcome = "kept" if row.is_kept else "taken back"
    found = (quantity(row.throughput), share(row.ratio), change_text(row.gain), duration(row.latency_ns))
    return (*said, *found, outcome)


def change_words(change: Change) -> str:
    """`preprocessing: instances 1 → 2`."""
    return f"{change.model}: {change.kind} {change.before} → {change.after}"


def _runs(diagnosis: Diagnosis) -> Chart | None:
    """Throughput against latency of the sweep and of each trial that was measured."""
    kept = {row.result: row.suggestion.change for row in diagnosis.trials if row.result is not None}
    series = []
    for number, result in enumerate(diagnosis.results):
        name = "before" if number == 0 else _change_name(kept.get(number))
        points = _points(result, name)
        if points:
            series.append(ChartLine(name, (points,), COLOURS[min(number, len(COLOURS) - 1)]))
    if len(series) < 2:
        return None
    return Chart(
        title="Latency against throughput, before and after",
        x=rate_axis(),
        y=time_axis("mean latency", [point.y for row in series for point in row.runs[0]]),
        series=tuple(series),
        note="The numbers are the concurrency; bars are 95 % intervals.",
    )


def _change_name(change: Change | None) -> str:
    return "after" if change is None else f"{change.model}: {change.kind} {change.after}"


def _points(result: Result, name: str) -> tuple[ChartPoint, ...]:
    return tuple(
        ChartPoint(
            found.infer_per_s.value,
            float(found.latency.mean_ns),
            f"{name}, concurrency {level.value:g}: {quantity(found.infer_per_s.value)} infer/s, "
            f"mean {duration(found.latency.mean_ns)}",
            label=f"{level.value:g}",
            x_limits=limits(found.infer_per_s),
        )
        for level, found in measured(result)
    )
