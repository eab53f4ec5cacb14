"""What the commands do, as functions. Their arguments are those of the commands: see `arguments`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

from inferometer.api.arguments import asked, checked, expect, items, named, read, worded
from inferometer.base.errors import UsageError
from inferometer.options.commands import (
    DIAGNOSED_S,
    CapacityOptions,
    CompareOptions,
    DiagnoseOptions,
    FindOptions,
    InspectOptions,
    TuneOptions,
)
from inferometer.options.options import DURATION_S
from inferometer.options.prices import read_price

if TYPE_CHECKING:
    from inferometer.capacity.plan import CapacityPlan
    from inferometer.compare.comparison import Comparison
    from inferometer.diagnose.diagnosis import Diagnosis
    from inferometer.report.saved import Report
    from inferometer.stats.inspection import Inspection
    from inferometer.stats.result import Result
    from inferometer.stats.watcher import Watcher
    from inferometer.tune.study import Study

_FIND, _TUNE, _DIAGNOSE, _COMPARE = FindOptions(), TuneOptions(), DiagnoseOptions(), CompareOptions()
_CAPACITY = CapacityOptions()


@named("measure")
def measure(
    model: str = "",
    *,
    duration_s: float | str | None = DURATION_S,
    watcher: "Watcher | None" = None,
    **given: Any,
) -> "Result":
    """Load a model and measure it, at one level or several: `concurrency=[1, 2, 4]`, `rate=200`, `rate="100:500:100"`.

    One request at a time unless asked otherwise. A list is levels; a tuple (start, end[, step]) is a range of them.
    Each level stops when its figures are as precise as asked, at the latest after `duration_s`; None takes the classic
    rule. `watcher` is told how it goes on, and may end it.
    """
    from inferometer.measure.prepare import OWN_HABITS, prepare
    from inferometer.measure.run import run
    from inferometer.report.export import exportable, write_export
    from inferometer.stats.watcher import completed

    options = asked("measure", given | {"model": model, "duration_s": duration_s})
    if options.profile_export is not None:
        exportable(Path(options.profile_export))
    setup = prepare(options, command="measure", habits=OWN_HABITS)
    results = list(run(setup, completed(watcher)))
    if setup.journal is not None:
        write_export(setup.journal.export(), setup.journal.path)
    return results[-1] if results else setup.result


@named("find")
def find(
    model: str = "",
    *,
    slo: str,
    by: str = _FIND.by,
    start: float | None = None,
    duration_s: float | str = _FIND.duration_s,
    watcher: "Watcher | None" = None,
    **given: Any,
) -> "Result":
    """The highest rate (or `by="concurrency"`) that keeps the promise, such as "p99<50ms, errors<0.1%".

    It is in the result's `finding`; `duration_s` is the time for the whole search, `start` the first load to try.
    """
    from inferometer.find.run import goal_of, run_find
    from inferometer.measure.prepare import prepare
    from inferometer.stats.watcher import completed

    own = checked(FindOptions, slo=slo, by=by, start=start, duration_s=duration_s)
    options = asked("find", given | {"model": model}, duration_s=own.duration_s, slo=slo)
    goal = goal_of(own, options)
    setup = prepare(options, command="find")
    return list(run_find(setup, goal, completed(watcher)))[-1]


@named("tune", "seed")
def tune(
    model: str = "",
    *,
    slo: str | None = None,
    objective: str | None = None,
    budget_s: float | str | None = None,
    repositories: Sequence[str | Path] = (),
    url: str | None = None,
    launch_mode: str = _TUNE.launch_mode,
    install_path: str | None = None,
    search: str = _TUNE.search,
    instances: tuple[int, int] = _TUNE.instances,
    batches: tuple[int, int] = _TUNE.batch,
    loads: tuple[int, int] = _TUNE.load,
    delays: Sequence[int] = (),
    seed: int | None = None,
    fresh: bool = False,
    journal: str | Path = _TUNE.journal,
    watcher: "Watcher | None" = None,
    **given: Any,
) -> "Study":
    """Look for the configuration and the load with the most throughput that keep the promise.

    On an embedded server with these repositories (none are the example models), without a server in the `launch_mode`
    c_api, or at `url`. Every trial is kept in the journal; the same call again goes on from it, unless it is `fresh`.
    `objective` may be another than throughput, such as 'p99' or 'throughput:2, gpu power:1'.
    `instances`, `batches` and `loads` are (lowest, highest), `delays` microseconds of the dynamic batcher to try.
    `inferometer.tune.study.recommend` says which trial won and why.
    """
    from inferometer.stats.watcher import completed
    from inferometer.tune.session import profile
    from inferometer.tune.settings import settings_of

    request = checked(
        TuneOptions,
        slo=slo,
        objective=objective,
        budget_s=budget_s,
        model_repository=tuple(map(Path, items("repositories", repositories))),
        url=url,
        launch_mode=launch_mode,
        install_path=install_path,
        search=search,
        instances=instances,
        batch=batches,
        load=loads,
        delays=delays,
        seed=seed,
        fresh=fresh,
        journal=Path(*items("journal", journal)),
    )
    (study,) = profile(settings_of(request, asked("tune", given | {"model": model})), completed(watcher))
    return study


@named("compare", "model")
def compare(
    *variants: "str | Result",
    urls: Sequence[str] = (),
    fail_if: str | Sequence[str] = "",
    duration_s: float | str = DURATION_S,
    outputs: int = _COMPARE.outputs,
    force: bool = False,
    watcher: "Watcher | None" = None,
    **given: Any,
) -> "Comparison":
    """Compare variants with the first one: models at live servers, or results.

    Models are names or NAME@URL; one name with several `urls` compares servers. `duration_s` is the time each variant
    is measured at each level, `outputs` the number of requests whose outputs are compared, `fail_if` the conditions of
    a regression, and `force` compares results of unlike runs.
    """
    from inferometer.compare.gates import Terms, parse_gates
    from inferometer.compare.live import CompareRequest, compare_live, numbered, variants_of
    from inferometer.compare.saved import compare_saved
    from inferometer.stats.result import Result
    from inferometer.stats.watcher import completed

    own = checked(
        CompareOptions,
        urls=items("urls", urls),
        fail_if=items("fail_if", fail_if),
        outputs=outputs,
        force=force,
    )
    for variant in variants:
        expect("a variant", variant, str, Result)
    conditions = ", ".join(filter(None, own.fail_if))
    results = [variant for variant in variants if isinstance(variant, Result)]
    error_rate = read("max_error_rate", given.get("max_error_rate", 0.0))
    terms = Terms(parse_gates(conditions) if conditions else (), error_rate)
    if results:
        if len(results) < len(variants):
            raise UsageError(
                "results and models cannot be mixed in a comparison", remedy="measure the models first"
            )
        names = numbered([str(result.model.get("name", "result")) for result in results])
        return compare_saved(list(zip(names, results, strict=True)), terms, is_forced=own.force)
    chosen = variants_of([str(variant) for variant in variants], own.urls)
    options = asked("compare", given | {"model": chosen[0].model, "duration_s": duration_s})
    return compare_live(CompareRequest(chosen, options, terms, own.outputs), completed(watcher))


@named("diagnose")
def diagnose(
    model: str = "",
    *,
    duration_s: float | str = DIAGNOSED_S,
    apply: bool = False,
    keep: bool = False,
    budget_s: float | str = _DIAGNOSE.budget_s,
    cores: float | None = None,
    watcher: "Watcher | None" = None,
    **given: Any,
) -> "Diagnosis":
    """Find out what limits a model and what would help; with `apply` try it out on the server.

    `concurrency` is as for `measure`; None goes from 1 to 8, and on while the throughput grows. Each load is
    measured for `duration_s` at the longest. What was applied is undone at the end, unless it is to be kept.
    """
    from inferometer.diagnose.run import DiagnoseRequest, diagnose_model
    from inferometer.stats.watcher import completed

    own = checked(DiagnoseOptions, apply=apply, keep=keep, budget_s=budget_s, cores=cores)
    options = asked("diagnose", given | {"model": model, "duration_s": duration_s})
    request = DiagnoseRequest(options, own.cores, own.budget_s if own.apply else None, own.keep)
    outcome = diagnose_model(request, completed(watcher))
    if outcome.error is not None:
        raise outcome.error
    return outcome.diagnosis


@worded
def capacity(
    *options: "str | Path | Result",
    traffic: str | Path,
    slo: str,
    price: float | str | Mapping[str, float | str] | None = None,
    spare: int = _CAPACITY.spare,
    balancer: str = _CAPACITY.balancer,
    stretch_s: float | str | None = None,
    scale_on: str = _CAPACITY.scale_on,
    startup_s: float | str = _CAPACITY.startup_s,
    seed: int = _CAPACITY.seed,
) -> "CapacityPlan":
    """How many replicas a traffic takes inside a promise, from results of `measure` or `find`, or their files.

    `traffic` is a rate such as "200/s", a trace, or a daily curve. A `price` is for an hour, or a text such as
    "1800/month"; with several options a mapping of their names, which are those of the files without .json, and of
    results option1, option2 and so on. `spare` replicas may be lost. A simulated autoscaler keeps to `scale_on`.
    """
    from inferometer.capacity.request import request_of
    from inferometer.capacity.run import plan_capacity
    from inferometer.capacity.saved import named_options
    from inferometer.report.saved import consistent
    from inferometer.stats.result import Result

    for option in options:
        expect("an option", option, str, Path, Result)
    expect("traffic", traffic, str, Path)
    expect("slo", slo, str)
    own = checked(
        CapacityOptions,
        traffic=str(traffic),
        slo=slo,
        price=_prices(price),
        spare=spare,
        balancer=balancer,
        stretch_s=stretch_s,
        scale_on=scale_on,
        startup_s=startup_s,
        seed=seed,
    )
    with consistent("the options"):
        return plan_capacity(request_of(own, named_options(options, own.price)))


def _prices(given: object) -> tuple[tuple[str, float], ...]:
    """Of each option, or of all where it has no name; texts are read as on the command line."""
    expect("price", given, int, float, str, Mapping, NoneType)
    named_prices = given if isinstance(given, Mapping) else {} if given is None else {"": given}
    return tuple((str(name), read_price("price", str(value))[1]) for name, value in named_prices.items())


@worded
def inspect(
    path: str | Path, *, tokenizer: str | Path | None = None, prompt_column: str | None = None
) -> "Inspection":
    """What is in a trace or a file of prompts: rate over time, lengths, what a prefix cache could hold."""
    from inferometer.stats.inspection import inspect_file

    expect("path", path, str, Path)
    expect("tokenizer", tokenizer, str, Path, NoneType)
    expect("prompt_column", prompt_column, str, NoneType)
    counted_by = None if tokenizer is None else str(tokenizer)
    return inspect_file(str(path), InspectOptions(tokenizer=counted_by, prompt_column=prompt_column))


@worded
def load(path: str | Path) -> "Result":
    """A result that was saved with `--json`."""
    from inferometer.base.answer_file import read as read_answer
    from inferometer.stats.result import Result

    expect("path", path, str, Path)
    return read_answer(Path(path), Result)


@worded
def save(answer: "Report", path: str | Path) -> None:
    """Write what `--json` writes."""
    from inferometer.base.answer_file import write
    from inferometer.report.saved import KINDS

    expect("answer", answer, *KINDS)
    expect("path", path, str, Path)
    write(answer, Path(path))


@worded
def to_html(report: "Report") -> str:
    """The report of an answer as one self-contained page."""
    from inferometer.report import saved

    expect("report", report, *saved.KINDS)
    return saved.to_html(report)


@worded
def to_markdown(report: "Report") -> str:
    """The same in Markdown, without the charts."""
    from inferometer.report import saved

    expect("report", report, *saved.KINDS)
    return saved.to_markdown(report)
