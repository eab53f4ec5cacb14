"""Summary of an answer for lists: its headline, and the figures of every level.

Kinds of answers that need more than the default have a row in the tables, so that a run need not load the classes of
the others.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from inferometer.base.answer_file import Answer
from inferometer.base.frozen import frozen
from inferometer.base.secrets import redacted
from inferometer.stats.estimate import Estimate
from inferometer.stats.figures import named
from inferometer.stats.measurement import Level
from inferometer.stats.result import Result, best
from inferometer.stats.verdict import INCONCLUSIVE, Ruling
from inferometer.store.run import ALL_FAILED, SLO_VIOLATED, NamedFigures, Point, Run

if TYPE_CHECKING:
    from inferometer.compare.comparison import Comparison
    from inferometer.compare.interference import Interference
    from inferometer.compare.regression import RegressionCheck
    from inferometer.diagnose.diagnosis import Diagnosis
    from inferometer.tune.study import Study
    from inferometer.tune.trial import Trial
    from inferometer.twin.twin import Twin

KEPT = ("throughput", "p50", "p90", "p95", "p99", "errors", "ttft", "ttft p99", "tpot", "tokens")
_METRICS = tuple((name, metric) for name in KEPT if (metric := named(name)) is not None)


@frozen
class RunSummary:
    """Points of an answer; the best of `chosen` represents the whole run."""

    points: tuple[Point, ...]
    chosen: Sequence[Point]
    model: str
    server: str
    url: str = ""


def summarized(run: Run, answer: Answer) -> Run:
    """The run with a summary of its answer."""
    found = _KINDS.get(answer.kind, _without_points)(answer)
    best = max(found.chosen or found.points, key=_throughput, default=None)
    return replace(
        run,
        points=found.points,
        figures={} if best is None else best.figures,
        model=found.model or run.model,
        server=found.server or run.server,
        url=found.url or run.url,
    )


def concluded(run: Run, answer: Answer) -> Run:
    """The run with the first sentence of its report, its tone, and its outcome."""
    from inferometer.report.saved import document

    whole = document(answer)
    sentence, stop, _ = whole.verdict.partition(". ")
    return replace(
        run,
        verdict=f"{sentence}." if stop else sentence,
        tone=whole.tone.value,
        outcome=_OUTCOMES.get(answer.kind, _outcome_of_ruling)(answer),
    )


# --- outcomes by kind of answer


def _outcome_of_result(result: Result) -> str:
    if result.failed_share == 1:
        return ALL_FAILED
    finding = result.finding
    if finding is None:
        open_or_kept = INCONCLUSIVE if result.leaves_promise_open else ""
        return SLO_VIOLATED if result.breaks_promise else open_or_kept
    if finding.value:
        return ""
    return SLO_VIOLATED if finding.is_broken_at_once else INCONCLUSIVE


def _outcome_of_study(answer: "Study") -> str:
    from inferometer.tune.study import recommend

    found = recommend(answer)
    return "" if found is None else _of_ruling(found.ruling)


def _outcome_of_comparison(answer: "Comparison | RegressionCheck") -> str:
    from inferometer.compare.comparison import UNDECIDED

    return INCONCLUSIVE if answer.outcome == UNDECIDED else ""


def _outcome_of_twin(answer: "Twin") -> str:
    return _of_ruling(answer.ruling) if answer.is_check else ""


def _outcome_of_ruling(answer: Answer) -> str:
    """Return the outcome of any other kind of answer: that of its `ruling`, if it has one."""
    return _of_ruling(getattr(answer, "ruling", None))


def _of_ruling(ruling: Ruling | None) -> str:
    return INCONCLUSIVE if ruling == INCONCLUSIVE else ""


_OUTCOMES: Mapping[str, Callable[[Any], str]] = {
    "result": _outcome_of_result,
    "study": _outcome_of_study,
    "comparison": _outcome_of_comparison,
    "gate": _outcome_of_comparison,
    "twin": _outcome_of_twin,
}


def _throughput(point: Point) -> float:
    found = point.figures.get("throughput")
    return 0.0 if found is None else found.value


# --- by kind of answer


def _of_results(results: Sequence[Result], points: Sequence[Point], chosen: Sequence[Point]) -> RunSummary:
    return RunSummary(
        points=tuple(points),
        chosen=chosen,
        model=_joined(str(row.model.get("name", "")) for row in results),
        server=_joined(_server_words(row.server) for row in results),
        url=_joined(redacted(str(row.server.get("url", ""))) for row in results),
    )


def _of_result(answer: Result) -> RunSummary:
    """The level that also represents the result on its page."""
    top = best(answer)
    return _of_results((answer,), list(_levels(answer.levels)), list(_levels(() if top is None else top[:1])))


def _of_diagnosis(answer: "Diagnosis") -> RunSummary:
    """The points of the sweep; trials after it have another configuration."""
    sweep = answer.results[:1]
    return _of_results(sweep, [point for row in sweep for point in _levels(row.levels)], ())


def _of_comparison(answer: "Comparison") -> RunSummary:
    points = [point for row in answer.variants for point in _levels(row.result.levels, variant=row.name)]
    return _of_results([row.result for row in answer.variants], points, ())


def _of_interference(answer: "Interference") -> RunSummary:
    """The points of every model, together with the others and alone."""
    points = [
        Point(
            answer.mode,
            answer.value,
            _known({name: metric.estimate(found) for name, metric in _METRICS}),
            label,
        )
        for row in answer.models
        for found, label in ((row.together, row.name), (row.alone, f"{row.name} alone"))
    ]
    models = _joined(row.model for row in answer.models)
    return RunSummary(tuple(points), (), models, "", _joined(redacted(row.url) for row in answer.models))


def _of_study(answer: "Study") -> RunSummary:
    """The points of every measured trial, and the recommended configuration."""
    from inferometer.tune.study import recommend

    found = recommend(answer)
    chosen = () if found is None else (_trial(found.best.best),)
    return RunSummary(tuple(map(_trial, answer.measured)), chosen, answer.name, _server_words(answer.server))


def _without_points(_: Any) -> RunSummary:
    return RunSummary((), (), "", "")


_KINDS: Mapping[str, Callable[[Any], RunSummary]] = {
    "result": _of_result,
    "diagnosis": _of_diagnosis,
    "comparison": _of_comparison,
    "study": _of_study,
    "interference": _of_interference,
}


def _levels(levels: Sequence[Level], variant: str = "") -> Iterator[Point]:
    for level in levels:
        if level.measurement is not None and level.measurement.request_count:
            found = {name: metric.estimate(level.measurement) for name, metric in _METRICS}
            yield Point(level.mode, level.value, _known(found), variant)


def _trial(trial: "Trial") -> Point:
    mode = "concurrency" if trial.load.concurrency is not None else "request_rate"
    found = {name: _combined(trial, metric.tag) for name, metric in _METRICS}
    return Point(mode, trial.load.value, _known(found), trial.name)


def _combined(trial: "Trial", tag: str) -> Estimate | None:
    """A figure, with its interval if a single model was tuned."""
    if len(trial.parts) == 1:
        return trial.parts[0].figures.estimate(tag)
    value = trial.combined(tag)
    return None if value is None else Estimate(value)


def _known(figures: dict[str, Estimate | None]) -> NamedFigures:
    return {name: found for name, found in figures.items() if found is not None}


def _server_words(server: Mapping[str, Any]) -> str:
    """Kind and version of the server."""
    return " ".join(str(server[name]) for name in ("name", "version") if server.get(name))


def _joined(words: Iterable[str]) -> str:
    """Join the words, each once."""
    return ",".join(filter(None, dict.fromkeys(words)))
