"""What a list shows of an answer: its headline, and the figures of every level."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from inferometer.compare.comparison import Comparison
from inferometer.diagnose.diagnosis import Diagnosis
from inferometer.stats.figures import BY_TAG, named
from inferometer.stats.measurement import Estimate, Level
from inferometer.stats.result import Result
from inferometer.store.run import Figures, Point, Run
from inferometer.store.words import without_password
from inferometer.tune.study import Study, recommend
from inferometer.tune.trial import Trial

if TYPE_CHECKING:
    from inferometer.report.saved import Report

KEPT = ("throughput", "p50", "p90", "p95", "p99", "errors", "ttft", "ttft p99", "tpot", "tokens")
_METRICS = tuple((name, metric) for name in KEPT if (metric := named(name)) is not None)


def summarized(run: Run, answer: "Report") -> Run:
    """The run with what is known of its answer."""
    points = points_of(answer)
    return replace(run, points=points, figures=_headline(answer, points), **_about(answer))


def verdict_of(answer: "Report") -> str:
    """The first sentence of its report."""
    from inferometer.report.saved import document

    sentence, stop, _ = document(answer).verdict.partition(". ")
    return f"{sentence}." if stop else sentence


def points_of(answer: "Report") -> tuple[Point, ...]:
    """Every level; of the tuner every trial that was measured."""
    if isinstance(answer, Result):
        return tuple(_levels(answer.levels))
    if isinstance(answer, Diagnosis):
        return tuple(_levels(answer.results[0].levels)) if answer.results else ()
    if isinstance(answer, Comparison):
        return tuple(
            point for row in answer.variants for point in _levels(row.result.levels, variant=row.name)
        )
    return tuple(map(_trial, answer.measured)) if isinstance(answer, Study) else ()


def _levels(levels: Sequence[Level], variant: str = "") -> Iterator[Point]:
    for level in levels:
        if level.measurement is not None and level.measurement.request_count:
            found = {name: metric.estimate(level.measurement) for name, metric in _METRICS}
            yield Point(level.mode, level.value, _known(found), variant)


def _trial(trial: Trial) -> Point:
    load = trial.load
    mode = "concurrency" if load.concurrency is not None else "request_rate"
    found = {name: _combined(trial, metric.tag) for name, metric in _METRICS if metric.tag in BY_TAG}
    return Point(mode, load.value, _known(found), trial.name)


def _combined(trial: Trial, tag: str) -> Estimate | None:
    """With its interval where one model was tuned."""
    if len(trial.parts) == 1:
        return trial.parts[0].figures.estimate(tag)
    value = trial.combined(tag)
    return None if value is None else Estimate(value)


def _known(figures: dict[str, Estimate | None]) -> Figures:
    return {name: found for name, found in figures.items() if found is not None}


def _headline(answer: "Report", points: Sequence[Point]) -> Figures:
    """Of the load that was found, the configuration that is recommended, or else the level with most throughput."""
    wanted: Sequence[Point] = points
    if isinstance(answer, Result) and answer.finding is not None:
        finding = answer.finding
        wanted = [row for row in points if (row.mode, row.value) == (finding.mode, finding.value)]
    elif isinstance(answer, Study):
        found = recommend(answer)
        wanted = [] if found is None else [_trial(found.best.best)]
    best = max(wanted or points, key=_throughput, default=None)
    return {} if best is None else best.figures


def _throughput(point: Point) -> float:
    found = point.figures.get("throughput")
    return 0.0 if found is None else found.value


def _about(answer: "Report") -> dict[str, Any]:
    """Server, address and model, as far as the answer knows them."""
    if isinstance(answer, Result):
        results: Sequence[Result] = (answer,)
    elif isinstance(answer, Diagnosis):
        results = answer.results[:1]
    elif isinstance(answer, Comparison):
        results = [row.result for row in answer.variants]
    else:
        results = ()
    if isinstance(answer, Study):
        return {"model": answer.name, "server": server_words(answer.server)}
    return {
        "server": _joined(server_words(row.server) for row in results),
        "url": _joined(without_password(str(row.server.get("url", ""))) for row in results),
        "model": _joined(str(row.model.get("name", "")) for row in results),
    }


def server_words(server: Mapping[str, Any]) -> str:
    """Kind and version."""
    return " ".join(str(server[name]) for name in ("name", "version") if server.get(name))


def _joined(words: Iterable[str]) -> str:
    """Each once."""
    return ",".join(filter(None, dict.fromkeys(words)))
