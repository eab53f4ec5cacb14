"""The Python surface. `from inferometer import api; api.measure("simple", concurrency=(1, 4))`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferometer.options.commands import (
    DIAGNOSED_S,
    CompareOptions,
    DiagnoseOptions,
    FindOptions,
    TuneOptions,
)
from inferometer.options.options import DURATION_S, REQUEST_TIMEOUT_S, Options
from inferometer.options.values import Range

if TYPE_CHECKING:
    from inferometer.compare.comparison import Comparison
    from inferometer.diagnose.diagnosis import Diagnosis
    from inferometer.report.saved import Report
    from inferometer.stats.result import Result
    from inferometer.stats.watcher import Watcher
    from inferometer.tune.study import Study

__all__ = ["compare", "diagnose", "find", "load", "measure", "save", "to_html", "to_markdown", "tune"]

_FIND, _TUNE = FindOptions(), TuneOptions()


def measure(
    model: str,
    *,
    concurrency: int | tuple[int, ...] | None = None,
    duration_s: float | None = DURATION_S,
    watcher: "Watcher | None" = None,
    **options: Any,
) -> "Result":
    """Load a model and measure it: one level, or (start, end[, step]) of them; one request at a time unless asked.

    `options` are the fields of `inferometer.options.options.Options`: url, batch, headers, data and so on. Each level
    stops when its figures are as precise as asked, at the latest after `duration_s`; None takes the classic rule.
    """
    from inferometer.measure.prepare import Habits, prepare
    from inferometer.measure.run import run
    from inferometer.report.export import exportable, write_export
    from inferometer.stats.watcher import completed

    asked = _options(model=model, concurrency=_span(concurrency), duration_s=duration_s, **options)
    if asked.profile_export is not None:
        exportable(Path(asked.profile_export))
    setup = prepare(asked, command="measure", habits=Habits(finds_warm_up=True))
    results = list(run(setup, completed(watcher)))
    if setup.journal is not None:
        write_export(setup.journal.export(), setup.journal.path)
    return results[-1] if results else setup.result


def find(
    model: str,
    *,
    slo: str,
    by: str = _FIND.by,
    start: float | None = None,
    duration_s: float = _FIND.duration_s,
    watcher: "Watcher | None" = None,
    **options: Any,
) -> "Result":
    """The highest rate (or `by="concurrency"`) that keeps the promise, such as "p99<50ms, errors<0.1%".

    It is in the result's `finding`; `duration_s` is the time for the whole search, `options` are those of `measure`.
    """
    from inferometer.find.run import goal_of, run_find
    from inferometer.measure.prepare import prepare
    from inferometer.stats.watcher import completed

    asked = _options(model=model, duration_s=duration_s, slo=slo, **options)
    goal = goal_of(FindOptions(slo, by, start, duration_s), asked)
    setup = prepare(asked, command="find")
    return list(run_find(setup, goal, completed(watcher)))[-1]


def tune(
    model: str,
    *,
    slo: str | None = None,
    budget_s: float | None = None,
    repositories: tuple[str, ...] = (),
    url: str | None = None,
    launch_mode: str = _TUNE.launch_mode,
    search: str = _TUNE.search,
    instances: tuple[int, int] = _TUNE.instances,
    batches: tuple[int, int] = _TUNE.batch,
    loads: tuple[int, int] = _TUNE.load,
    journal: str = str(_TUNE.journal),
    **options: Any,
) -> "Study":
    """Look for the configuration and the load with the most throughput that keep the promise.

    On an embedded server with these repositories (none are the example models), without a server in the `launch_mode`
    c_api, or at `url`. Every trial is kept in the journal; the same call again goes on from it.
    `inferometer.tune.study.recommend` says which trial won and why.
    """
    from inferometer.stats.watcher import Watcher
    from inferometer.tune.session import profile
    from inferometer.tune.settings import settings_of

    request = TuneOptions(
        slo=slo,
        budget_s=budget_s,
        model_repository=tuple(map(Path, repositories)),
        url=url,
        launch_mode=launch_mode,
        search=search,
        instances=instances,
        batch=batches,
        load=loads,
        journal=Path(journal),
    )
    (study,) = profile(settings_of(request, _options(model=model, **options)), Watcher())
    return study


def compare(
    *variants: "str | Result",
    urls: tuple[str, ...] = (),
    fail_if: str = "",
    concurrency: int | tuple[int, ...] = 1,
    duration_s: float = DURATION_S,
    outputs: int = CompareOptions().outputs,
    force: bool = False,
    **options: Any,
) -> "Comparison":
    """Compare variants with the first one: models at live servers, or results.

    Models are names or NAME@URL; one name with several `urls` compares servers. `duration_s` is the time each variant
    is measured at each level, `outputs` the number of requests whose outputs are compared, `fail_if` the conditions of
    a regression, and `force` compares results of unlike runs. `options` are those of `measure`.
    """
    from inferometer.base.errors import UsageError
    from inferometer.compare.gates import Terms, parse_gates
    from inferometer.compare.live import CompareRequest, compare_live, numbered, variants_of
    from inferometer.compare.saved import compare_saved
    from inferometer.stats.result import Result
    from inferometer.stats.watcher import Watcher

    terms = Terms(parse_gates(fail_if) if fail_if else (), options.get("max_error_rate", 0.0))
    results = [variant for variant in variants if isinstance(variant, Result)]
    if results:
        if len(results) < len(variants):
            raise UsageError(
                "results and models cannot be mixed in a comparison", remedy="measure the models first"
            )
        names = numbered([str(result.model.get("name", "result")) for result in results])
        return compare_saved(list(zip(names, results, strict=True)), terms, is_forced=force)
    chosen = variants_of([str(variant) for variant in variants], urls)
    span = _span(concurrency)
    asked = _options(model=chosen[0].model, concurrency=span, duration_s=duration_s, **options)
    return compare_live(CompareRequest(chosen, asked, terms, outputs), Watcher())


def diagnose(
    model: str,
    *,
    concurrency: int | tuple[int, ...] | None = None,
    duration_s: float = DIAGNOSED_S,
    apply: bool = False,
    keep: bool = False,
    budget_s: float = DiagnoseOptions().budget_s,
    cores: float | None = None,
    watcher: "Watcher | None" = None,
    **options: Any,
) -> "Diagnosis":
    """Find out what limits a model and what would help; with `apply` try it out on the server.

    `concurrency` is a range as for `measure`; None goes from 1 to 8, and on while the throughput grows. Each load is
    measured for `duration_s` at the longest. What was applied is undone at the end, unless it is to be kept.
    """
    from inferometer.diagnose.run import DiagnoseRequest, diagnose_model
    from inferometer.stats.watcher import completed

    measured = _options(model=model, concurrency=_span(concurrency), duration_s=duration_s, **options)
    request = DiagnoseRequest(measured, cores, budget_s if apply else None, keep)
    outcome = diagnose_model(request, completed(watcher))
    if outcome.error is not None:
        raise outcome.error
    return outcome.diagnosis


def _span(concurrency: int | list[int] | tuple[int, ...] | None) -> "Range | None":
    if concurrency is None:
        return None
    if isinstance(concurrency, list):
        return Range.of(concurrency)
    return Range(concurrency) if isinstance(concurrency, int) else Range(concurrency[0], *concurrency[1:])


def _options(**given: Any) -> "Options":
    """Checked as the words of a command line are."""
    from inferometer.measure.checks import changed

    return changed(Options(request_timeout_s=REQUEST_TIMEOUT_S), **given)


def load(path: str) -> "Result":
    """A result that was saved with `--json`."""
    from inferometer.base.answer_file import read
    from inferometer.stats.result import Result

    return read(Path(path), Result)


def save(answer: "Result | Comparison | Diagnosis | Study", path: str) -> None:
    """Write what `--json` writes."""
    from inferometer.base.answer_file import write

    write(answer, Path(path))


def to_html(report: "Report") -> str:
    """The report of a result, a diagnosis or a comparison as one self-contained page."""
    from inferometer.report import saved

    return saved.to_html(report)


def to_markdown(report: "Report") -> str:
    """The same in Markdown, without the charts."""
    from inferometer.report import saved

    return saved.to_markdown(report)
