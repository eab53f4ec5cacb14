"""Table of an answer for spreadsheets: a row for each figure, step or trial. Times are in µs, shares from 0 to 1."""

import csv
import io
from collections.abc import Iterable, Iterator

from inferometer.base.units import NS_PER_MS, NS_PER_US, significant
from inferometer.capacity.plan import CapacityPlan
from inferometer.compare.comparison import THROUGHPUT, Comparison
from inferometer.compare.differences import speedup
from inferometer.compare.interference import Interference
from inferometer.compare.regression import RegressionCheck
from inferometer.diagnose.diagnosis import Diagnosis
from inferometer.diagnose.serving import Serving
from inferometer.report.csv import spreadsheet_cell
from inferometer.report.documents import study_facts as facts
from inferometer.report.documents.speed import verdict_of
from inferometer.stats import figures
from inferometer.stats.estimate import Estimate
from inferometer.stats.inspection import Inspection
from inferometer.stats.verdict import INCONCLUSIVE, NOT_SHOWN, SHOWN
from inferometer.tune.keeping import keeps
from inferometer.tune.study import Recommendation, Study, recommend
from inferometer.tune.trial import Trial
from inferometer.twin.twin import FIGURES, LoadForecast, Twin
from inferometer.twin.twin import THROUGHPUT as TWIN_THROUGHPUT

Row = tuple[tuple[str, object], ...]
"""Cells with their column names; all rows of an answer have the same columns."""


def comparison_csv(answer: Comparison) -> str:
    return _text(_comparison(answer))


def diagnosis_csv(answer: Diagnosis) -> str:
    return _text(_diagnosis(answer))


def study_csv(answer: Study) -> str:
    found = recommend(answer)
    return _text(_trial(answer, found, trial) for trial in answer.trials)


def inspection_csv(answer: Inspection) -> str:
    return _text(_arrivals(answer))


def regression_csv(answer: RegressionCheck) -> str:
    return _text(_judgements(answer))


def capacity_csv(answer: CapacityPlan) -> str:
    return _text(_replicas(answer))


def interference_csv(answer: Interference) -> str:
    return _text(_interference(answer))


def twin_csv(answer: Twin) -> str:
    return _text(map(_forecast, answer.forecasts))


def _interference(found: Interference) -> Iterator[Row]:
    for model in found.models:
        for row in model.differences:
            scale = 1.0 if row.metric == THROUGHPUT else 1 / NS_PER_US
            yield (
                ("Model", model.name),
                ("Figure", row.metric),
                ("Alone", row.base * scale),
                ("Together", row.value * scale),
                *_ends("Difference %", row.percent),
                ("Verdict", verdict_of(row)),
                ("Contends For", model.contends_for),
            )


def _text(rows: Iterable[Row]) -> str:
    """Text of the CSV file; empty without rows."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for number, row in enumerate(rows):
        if number == 0:
            writer.writerow([name for name, _ in row])
        writer.writerow([spreadsheet_cell(_cell(value)) for _, value in row])
    return out.getvalue()


def _cell(value: object) -> str:
    if value is None:
        return ""
    return significant(value, 6).replace(",", "") if isinstance(value, float) else str(value)


def _ends(name: str, found: Estimate | None, scale: float = 1.0) -> Iterator[tuple[str, object]]:
    """A figure and both ends of its interval."""
    ends = (None, None, None) if found is None else (found.value, found.low, found.high)
    for title, end in zip((name, f"{name} low", f"{name} high"), ends, strict=True):
        yield title, None if end is None else end * scale


def _comparison(found: Comparison) -> Iterator[Row]:
    for contrast in found.contrasts:
        for level in contrast.levels:
            for row in level.differences:
                scale = 1.0 if row.metric == THROUGHPUT else 1 / NS_PER_US
                yield (
                    ("Variant", contrast.variant),
                    ("Baseline", found.baseline),
                    ("Load", level.mode.replace("_", " ")),
                    ("Value", float(level.value)),
                    ("Figure", "infer/s" if row.metric == THROUGHPUT else f"{row.metric} latency"),
                    ("Of the baseline", row.base * scale),
                    ("Of the variant", row.value * scale),
                    *_ends("Difference %", row.percent),
                    *_ends("Times as fast", speedup(row)),
                    ("Verdict", verdict_of(row)),
                )


def _diagnosis(found: Diagnosis) -> Iterator[Row]:
    if found.serving is not None:
        yield from _serving(found, found.serving)
    for step in found.steps:
        yield (
            ("Model", found.model),
            ("Concurrency", found.concurrency),
            ("Step", step.name),
            ("Depth", step.depth),
            ("Calls", step.calls),
            ("Service", step.service_ns / NS_PER_US),
            ("Queue", step.queue_ns / NS_PER_US),
            ("Compute", step.compute_ns / NS_PER_US),
            ("Share of latency", step.latency_share),
            ("Batch", step.batch),
            ("Instances", step.instances),
            ("Busy", step.utilisation),
            ("Bound infer/s", step.bound),
            ("Limits", "yes" if step.name == found.verdict.step else ""),
        )


def _judgements(found: RegressionCheck) -> Iterator[Row]:
    """A row for each figure and load; changes are percentages."""
    for row in found.judgements:
        yield (
            ("figure", row.figure),
            ("mode", row.mode),
            ("value", row.value),
            ("outcome", row.outcome),
            *_ends("change percent", row.percent),
            ("visible percent", row.visible_percent),
            ("good runs", len(row.good)),
            ("new runs", len(row.new)),
            ("rule", row.rule),
        )


def _arrivals(found: Inspection) -> Iterator[Row]:
    for row in found.bins:
        yield (
            ("Start s", row.start_s),
            ("End s", row.start_s + found.bin_s),
            ("Requests", row.requests),
            ("Prompt tokens", row.input_tokens),
            ("Answer tokens", row.output_tokens),
        )


def _replicas(found: CapacityPlan) -> Iterator[Row]:
    for option in found.options:
        for stretch, number in zip(found.stretches, option.over_time, strict=False):
            yield (
                ("Option", option.name),
                ("Start s", stretch.start_s),
                ("End s", stretch.end_s),
                ("Requests/s", stretch.rate),
                ("Replicas", number),
                ("Utilisation", stretch.rate / number / option.replica.most_per_s.value if number else None),
                ("Cost per hour", None if option.price_per_h is None else number * option.price_per_h),
                ("Basis", option.over_time_basis),
            )


def _serving(found: Diagnosis, serving: Serving) -> Iterator[Row]:
    """A row for each load of an LLM server."""
    for row in serving.levels:
        server = row.server
        yield (
            ("Model", found.model),
            ("Concurrency", row.concurrency),
            ("Requests/s", row.requests_per_s),
            ("Latency", row.latency_ns / NS_PER_US),
            ("TTFT", None if row.first_ns is None else row.first_ns / NS_PER_US),
            ("Token gap", None if row.between_ns is None else row.between_ns / NS_PER_US),
            ("Output tokens/s", row.output_per_s),
            ("Prompt tokens/s", row.prompt_per_s),
            ("Running", None if server is None else server.running_mean),
            ("Waiting", None if server is None else server.waiting_mean),
            ("KV cache", None if server is None else server.kv_cache_max),
            ("Preemptions", None if server is None else server.preemptions),
            ("Limit", found.verdict.kind),
        )


def _forecast(row: LoadForecast) -> Row:
    cells: list[tuple[str, object]] = [
        ("Model", row.model),
        ("Load", row.part.mode.replace("_", " ")),
        ("Value", row.part.value),
        ("Arrivals", row.part.arrivals),
        (
            "Beside",
            "; ".join(f"{part.model} {part.text}" for part in row.load.parts if part.model != row.model),
        ),
        ("Settings", "; ".join(setting.text for setting in row.load.settings)),
        ("Basis", row.basis),
        ("Distance", row.distance),
    ]
    for name in FIGURES:
        title = "Infer/s" if name == TWIN_THROUGHPUT else f"{name} latency"
        scale = 1.0 if name == TWIN_THROUGHPUT else 1 / NS_PER_US
        band = row.bands.get(name)
        cells += _ends(title, None if band is None else Estimate(band.value, band.low, band.high), scale)
        found = (row.measured or {}).get(name)
        cells.append((f"{title} measured", None if found is None else found * scale))
    return tuple(cells)


_KEPT = {SHOWN: "yes", NOT_SHOWN: "no", INCONCLUSIVE: INCONCLUSIVE}


def _trial(study: Study, found: Recommendation | None, trial: Trial) -> Row:
    is_best = found is not None and trial.is_measured and trial.setting == found.best.best.setting
    recommended = "" if found is None or not is_best else "yes" if found.is_supported else INCONCLUSIVE
    return (
        ("Model", trial.models),
        ("Configuration", trial.name),
        ("Max batch size", facts.each(study, trial.name, facts.batch_size)),
        ("Dynamic batching", facts.each(study, trial.name, facts.batching)),
        ("Instances", facts.each(study, trial.name, facts.instances)),
        ("Load", facts.load_text(trial)),
        *((("Server", trial.server),) if study.server.get("servers") else ()),
        ("Status", trial.status.value),
        *_ends(study.rate_unit.capitalize(), facts.estimate(trial, figures.THROUGHPUT)),
        *_ends("p99 latency", facts.estimate(trial, figures.LATENCY_P99), NS_PER_MS / NS_PER_US),
        (f"Expected {study.rate_unit}", dict(trial.predicted).get(figures.THROUGHPUT)),
        ("Keeps constraints", _KEPT[keeps(study.goals, trial)] if trial.is_measured else ""),
        ("Recommended", recommended),
        ("Reason", trial.reason),
    )
