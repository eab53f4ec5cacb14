"""The commands as functions, with the same arguments: see `arguments`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

from inferometer.api.arguments import argument_name, asked, checked, expect, items, named, read, worded
from inferometer.base.answer_file import Answer
from inferometer.base.errors import UsageError
from inferometer.base.units import NS_PER_S, monotonic_ns
from inferometer.options.amounts import read_price
from inferometer.options.comparing import CompareOptions
from inferometer.options.diagnosing import DIAGNOSED_S, NO_ADDRESS, DiagnoseOptions
from inferometer.options.finding import FindOptions
from inferometer.options.options import DURATION_S
from inferometer.options.planning import CapacityOptions
from inferometer.options.stored import InspectOptions
from inferometer.options.tuning import TuneOptions

if TYPE_CHECKING:
    from typing import Unpack

    from inferometer.api import keywords
    from inferometer.capacity.plan import CapacityPlan
    from inferometer.compare.comparison import Comparison
    from inferometer.compare.interference import Interference
    from inferometer.diagnose.diagnosis import Diagnosis
    from inferometer.measure.mix import WeightedModel
    from inferometer.stats.inspection import Inspection
    from inferometer.stats.result import Result
    from inferometer.stats.watcher import Watcher
    from inferometer.tune.study import Study
    from inferometer.twin.twin import Twin, TwinLoad


def _notebook_fragment(answer: Answer) -> str:
    from inferometer.report.notebook import fragment

    return fragment(answer)


Answer.in_notebooks = _notebook_fragment

_FIND, _TUNE, _DIAGNOSE, _COMPARE = FindOptions(), TuneOptions(), DiagnoseOptions(), CompareOptions()
_CAPACITY = CapacityOptions()


@named("measure")
def measure(
    model: str | Mapping[str, float] = "",
    *,
    duration_s: float | str | None = DURATION_S,
    watcher: "Watcher | None" = None,
    **given: "Unpack[keywords.MeasureKeywords]",
) -> "Result":
    """Load a model and measure it, at one level or several: `concurrency=[1, 2, 4]`, `rate=200`, `rate="100:500:100"`.

    The default is one request at a time. A list gives levels; a tuple (start, end[, step]) gives a range of them. Each
    level stops when its figures reach the requested precision, at the latest after `duration_s`; None selects the
    classic stability rule. `watcher` is notified of progress and can stop the run. Several models with their weights,
    {"a": 3, "b": 1}, take turns on the same connections.
    """
    from inferometer.measure.addresses import prepare_shared
    from inferometer.measure.mix import prepare_mix
    from inferometer.measure.prepare import OWN_HABITS, STREAMING_HABITS
    from inferometer.measure.run import run
    from inferometer.report.export import exportable, write_export
    from inferometer.stats.watcher import completed

    models = _weights(model)
    first = models[0].model if models else model
    options = asked("measure", given | {"model": first, "duration_s": duration_s})
    if options.profile_export is not None:
        exportable(Path(options.profile_export))
    if len(models) > 1:
        setup = prepare_mix(options, models, command="measure", habits=OWN_HABITS)
    else:
        setup = prepare_shared(options, command="measure", habits=STREAMING_HABITS)
    results = list(run(setup, completed(watcher)))
    if setup.journal is not None:
        write_export(setup.journal.export(), setup.journal.path)
    return results[-1] if results else setup.result


def _weights(model: str | Mapping[str, float]) -> "tuple[WeightedModel, ...]":
    from inferometer.measure.mix import WeightedModel

    if not isinstance(model, Mapping):
        return ()
    for name, weight in model.items():
        expect("the name of a model", name, str)
        expect(f"the weight of '{name}'", weight, int, float)
        if not 0 < weight < 1e9:
            raise UsageError(f"the weight of '{name}' is {weight!r}", remedy="give a number above 0")
    if not model:
        raise UsageError("no model is given", remedy='give them with their weights: {"detector": 3}')
    return tuple(WeightedModel(name, float(weight)) for name, weight in model.items())


@named("scenario")
def scenario(
    scenario: str | Path | Mapping[str, Any],
    *,
    model: str | Mapping[str, float] = "",
    duration_s: float | str | None = None,
    watcher: "Watcher | None" = None,
    **given: "Unpack[keywords.ScenarioKeywords]",
) -> "Result":
    """Run a scenario, traffic classes with phases: a YAML file, the name of an included scenario, or the content of
    such a file as a mapping, where the `visit` of a class may be a function.

    `model` and `url` apply to classes that name none; the other arguments apply to all classes. `duration_s` overrides
    the total time of the phases. Each phase is a level of the result, with its classes.
    """
    from inferometer.measure.mix import WeightedModel
    from inferometer.options.options import AUTO
    from inferometer.scenario.mlperf import prepare_any
    from inferometer.scenario.ready import open_scenario
    from inferometer.scenario.run import ScenarioRequest
    from inferometer.scenario.spec import checked_scenario
    from inferometer.scenario.visit_code import with_written_code
    from inferometer.stats.watcher import completed

    expect("scenario", scenario, str, Path, Mapping)
    is_file = not isinstance(scenario, Mapping)
    found = (
        checked_scenario(with_written_code(scenario), "the scenario")
        if isinstance(scenario, Mapping)
        else open_scenario(str(scenario))
    )
    models = _weights(model) or ((WeightedModel(model),) if isinstance(model, str) and model else ())
    given.setdefault("service_kind", AUTO)
    seconds = None if duration_s is None else float(read("duration_s", duration_s))
    request = ScenarioRequest(
        scenario=found,
        options=asked("scenario", given | {"model": models[0].model if models else model}),
        models=models,
        duration_s=seconds,
        folder=Path(str(scenario)).parent if is_file and Path(str(scenario)).is_file() else None,
    )
    _, start = prepare_any(request)
    return list(start(completed(watcher)))[-1]


@named("find")
def find(
    model: str = "",
    *,
    slo: str,
    by: str = _FIND.by,
    start: float | None = None,
    duration_s: float | str = _FIND.duration_s,
    watcher: "Watcher | None" = None,
    **given: "Unpack[keywords.FindKeywords]",
) -> "Result":
    """Find the highest rate (or `by="concurrency"`) that meets the SLO, such as "p99<50ms, errors<0.1%".

    The answer is the result's `finding`; `duration_s` limits the whole search, `start` is the first load to try.
    """
    from inferometer.find.run import goal_of, run_find
    from inferometer.measure.addresses import prepare_shared
    from inferometer.stats.watcher import completed

    own = checked(FindOptions, slo=slo, by=by, start=start, duration_s=duration_s)
    options = asked("find", given | {"model": model}, duration_s=own.duration_s, slo=own.slo)
    goal = goal_of(own, options)
    setup = prepare_shared(options, command="find")
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
    servers: int | None = None,
    search: str = _TUNE.search,
    instances: tuple[int, int] = _TUNE.instances,
    batches: tuple[int, int] = _TUNE.batch,
    loads: tuple[int, int] = _TUNE.load,
    delays: Sequence[int] = (),
    serve: str | None = None,
    vary: str | Sequence[str] = (),
    where: str | Sequence[str] = (),
    preset: str | None = None,
    serve_env: str | Sequence[str] = (),
    serve_file: str | Sequence[str] = (),
    serve_set: str | Sequence[str] = (),
    ready: str | None = None,
    start_timeout_s: float | str = _TUNE.start_timeout_s,
    serve_logs: str | Path | None = None,
    seed: int | None = None,
    fresh: bool = False,
    journal: str | Path = _TUNE.journal,
    watcher: "Watcher | None" = None,
    **given: "Unpack[keywords.TuneKeywords]",
) -> "Study":
    """Search for the configuration and the load with the highest throughput that meets the SLO.

    Runs on an embedded server with these repositories (default: the example models), without a server in the
    `launch_mode` c_api, at `url`, or on several `servers` in parallel, started on the Ray cluster at `ray`.
    Every trial is recorded in the journal; repeating the call continues from it, unless `fresh`.
    `objective` replaces throughput as the figure to maximize, such as 'p99' or 'throughput:2, gpu power:1'.
    `instances`, `batches` and `loads` are (lowest, highest); `delays` are dynamic batcher delays to try, in
    microseconds.
    `serve` is a command that starts any server, with a placeholder such as {slots} for each value to `vary`
    ('slots=1:16:x2') and {port} for its port; `where` has conditions between them. docs/tune-any-server.md describes
    these and the other arguments about such servers.
    `inferometer.tune.study.recommend` returns the best trial and the reason.
    """
    from inferometer.options.options import AUTO
    from inferometer.stats.watcher import completed
    from inferometer.tune.parallel_session import studies
    from inferometer.tune.request import settings_of
    from inferometer.tune.study import accounted

    request = checked(
        TuneOptions,
        slo=slo,
        objective=objective,
        budget_s=budget_s,
        model_repository=tuple(map(Path, items("repositories", repositories))),
        url=url,
        launch_mode=launch_mode,
        install_path=install_path,
        servers=servers,
        search=search,
        instances=instances,
        batch=batches,
        load=loads,
        delays=delays,
        serve=serve,
        vary=items("vary", vary),
        where=items("where", where),
        preset=preset,
        serve_env=items("serve_env", serve_env),
        serve_file=items("serve_file", serve_file),
        serve_set=items("serve_set", serve_set),
        ready=ready,
        start_timeout_s=start_timeout_s,
        serve_logs=None if serve_logs is None else Path(*items("serve_logs", serve_logs)),
        seed=seed,
        fresh=fresh,
        journal=Path(*items("journal", journal)),
    )
    begun_ns = monotonic_ns()
    if request.is_launched:
        given.setdefault("service_kind", AUTO)
    (study,) = studies(settings_of(request, asked("tune", given | {"model": model})), completed(watcher))
    return accounted(study, (monotonic_ns() - begun_ns) / NS_PER_S)


@named("compare", "model")
def compare(
    *variants: "str | Result",
    urls: Sequence[str] = (),
    fail_if: str | Sequence[str] = "",
    duration_s: float | str = DURATION_S,
    outputs: int = _COMPARE.outputs,
    force: bool = False,
    watcher: "Watcher | None" = None,
    **given: "Unpack[keywords.CompareKeywords]",
) -> "Comparison":
    """Compare variants with the first one: models at live servers, or results.

    Models are names or NAME@URL; one name with several `urls` compares servers. `duration_s` is the time to measure
    each variant at each level, `outputs` the number of requests whose outputs are compared, `fail_if` the conditions
    that count as a regression, and `force` compares results of different setups.
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


@named("interfere", "model")
def interfere(
    *models: str,
    duration_s: float | str = DURATION_S,
    watcher: "Watcher | None" = None,
    **given: "Unpack[keywords.InterfereKeywords]",
) -> "Interference":
    """Measure how much models that share a server slow each other down: each alone and all together, in turns.

    Models are names or NAME@URL. `duration_s` is the time for each model alone, and for all together; every model gets
    the same load, `concurrency` or `rate`.
    """
    from inferometer.compare.interfere import InterfereRequest
    from inferometer.compare.interfere import interfere as run_interfere
    from inferometer.compare.live import variants_of
    from inferometer.stats.watcher import completed

    for model in models:
        expect("a model", model, str)
    chosen = variants_of(models, ())
    options = asked("interfere", given | {"model": chosen[0].model, "duration_s": duration_s})
    return run_interfere(InterfereRequest(chosen, options), completed(watcher))


@named("diagnose")
def diagnose(
    model: str = "",
    *,
    duration_s: float | str = DIAGNOSED_S,
    apply: bool = False,
    keep: bool = False,
    budget_s: float | str = _DIAGNOSE.budget_s,
    cores: float | None = None,
    serve: str | None = None,
    preset: str | None = None,
    serve_env: str | Sequence[str] = (),
    ready: str | None = None,
    start_timeout_s: float | str = _DIAGNOSE.start_timeout_s,
    serve_logs: str | Path = _DIAGNOSE.serve_logs,
    watcher: "Watcher | None" = None,
    **given: "Unpack[keywords.DiagnoseKeywords]",
) -> "Diagnosis":
    """Find out what limits a model and what would help; `apply` tries it on the server.

    `concurrency` is as for `measure`; None tries 1 to 8, and more while throughput grows. Each load is
    measured for at most `duration_s`. The original configuration is restored at the end, unless `keep`. `serve` is a
    command that starts the server, which is stopped at the end.
    """
    from inferometer.diagnose.launched import diagnose_launched, launch_of
    from inferometer.diagnose.run import DiagnoseRequest, diagnose_model
    from inferometer.stats.watcher import completed

    own = checked(
        DiagnoseOptions,
        apply=apply,
        keep=keep,
        budget_s=budget_s,
        cores=cores,
        serve=serve,
        preset=preset,
        serve_env=items("serve_env", serve_env),
        ready=ready,
        start_timeout_s=start_timeout_s,
        serve_logs=Path(serve_logs),
    )
    if own.is_launched:
        given = {"url": NO_ADDRESS, **given}
    options = asked("diagnose", given | {"model": model, "duration_s": duration_s})
    request = DiagnoseRequest(options, own.cores, own.budget_s if own.apply else None, own.keep)
    if own.is_launched:
        outcome = diagnose_launched(request, launch_of(own), completed(watcher))
    else:
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
    prompt_tokens: int | str | None = None,
    output_tokens: int | str | None = None,
    carbon: float | None = None,
    spare: int = _CAPACITY.spare,
    balancer: str = _CAPACITY.balancer,
    stretch_s: float | str | None = None,
    scale_on: str | None = None,
    startup_s: float | str | None = None,
    seed: int = _CAPACITY.seed,
) -> "CapacityPlan":
    """Calculate how many replicas traffic needs to meet an SLO, from results of `measure` or `find`, or their files.

    `traffic` is a rate such as "200/s", a trace, a daily curve or a scenario. `price` is per hour, or a text such as
    "1800/month"; with several options, a mapping by option name: the file name without .json, or option1, option2 and
    so on for results. `prompt_tokens` and `output_tokens` are lengths for servers that generate text; by default they
    are as in the trace, or as measured. `carbon` is in grams of CO2 per kWh. `spare` replicas may fail. `scale_on` is
    the target of a simulated autoscaler.
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
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        carbon=carbon,
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
    """Return the price of each option, with an empty name for all; texts are parsed as on the command line."""
    expect("price", given, int, float, str, Mapping, NoneType)
    named_prices = given if isinstance(given, Mapping) else {} if given is None else {"": given}
    return tuple((str(name), read_price("price", str(value))[1]) for name, value in named_prices.items())


@worded
def twin_fit(*results: "Result | Diagnosis", cores: float | None = None) -> "Twin":
    """Fit a simulation of the server to measured runs of one model or several.

    `cores` is the number of cores of the server's machine, if it was not detected. The twin has forecasts of the
    measured loads, each predicted from the other loads.
    """
    from inferometer.diagnose.diagnosis import Diagnosis
    from inferometer.options.twin import TwinOptions
    from inferometer.stats.result import Result
    from inferometer.twin.fit import fit_twin

    for result in results:
        expect("a result", result, Result, Diagnosis)
    own = checked(TwinOptions, cores=cores)
    rows = [row for found in results for row in (found.results if isinstance(found, Diagnosis) else (found,))]
    return fit_twin(rows, cores=own.cores)


@worded
def twin_predict(
    twin: "Twin | str | Path",
    *,
    models: str | Sequence[str] = (),
    concurrency: float | Sequence[float] = (),
    rate: float | Sequence[float] = (),
    arrivals: str = "constant",
    prompt_tokens: int | str | None = None,
    output_tokens: int | str | None = None,
    settings: str | Sequence[str] = (),
) -> "Twin":
    """Return the twin, or the twin in a file, with forecasts of these loads, each with a 90 % interval.

    Several `models`, such as ["a:3", "b:1"], run at the same time and share each load by their weights; by default,
    each model of the twin runs alone. `settings` are texts such as "a.instances=2", "a.batching=on" or "a.slots=64".
    `prompt_tokens` and `output_tokens` are lengths for servers that generate text, such as "uniform(100, 200)".
    """
    from inferometer.twin.predict import predict_twin

    made = _twin(twin)
    given = {
        "models": models,
        "concurrency": concurrency,
        "rate": rate,
        "arrivals": arrivals,
        "prompt_tokens": prompt_tokens,
        "output_tokens": output_tokens,
    }
    return predict_twin(made, _twin_loads(made, given, settings))


@worded
def twin_check(
    twin: "Twin | str | Path",
    *results: "Result",
    models: str | Sequence[str] = (),
    concurrency: float | Sequence[float] = (),
    rate: float | Sequence[float] = (),
    arrivals: str = "constant",
    url: str | None = None,
    duration_s: float | None = None,
    watcher: "Watcher | None" = None,
) -> "Twin":
    """Return the twin with forecasts and measured values: from these results, or measured now at these loads.

    New measurements use the options of the fitted runs, for `duration_s` each, at `url` if given.
    """
    from inferometer.options.twin import TwinOptions
    from inferometer.stats.result import Result
    from inferometer.stats.watcher import completed
    from inferometer.twin.check import CheckRequest, check_twin

    made = _twin(twin)
    for result in results:
        expect("a result", result, Result)
    own = checked(TwinOptions, url=url, duration_s=duration_s)
    given = {"models": models, "concurrency": concurrency, "rate": rate, "arrivals": arrivals}
    loads = () if results else _twin_loads(made, given, ())
    return check_twin(made, CheckRequest(loads, own.url, own.duration_s, results), completed(watcher))


def _twin(given: "Twin | str | Path") -> "Twin":
    from inferometer.base.answer_file import read as read_answer
    from inferometer.twin.twin import Twin

    expect("twin", given, Twin, str, Path)
    return given if isinstance(given, Twin) else read_answer(Path(given), Twin)


def _twin_loads(twin: "Twin", given: dict[str, Any], settings: str | Sequence[str]) -> "tuple[TwinLoad, ...]":
    from inferometer.options.twin import TwinOptions
    from inferometer.twin.loads import AskedLoads, loads_of, setting_of

    own = checked(
        TwinOptions,
        arrivals=given["arrivals"],
        prompt_tokens=given.get("prompt_tokens"),
        output_tokens=given.get("output_tokens"),
    )
    asked_loads = AskedLoads(
        models=items("models", given["models"]),
        concurrency=_numbers("concurrency", given["concurrency"]),
        rates=_numbers("rate", given["rate"]),
        arrivals=own.arrivals,
        settings=tuple(map(setting_of, items("settings", settings))),
        prompt_tokens=own.prompt_tokens,
        output_tokens=own.output_tokens,
    )
    return loads_of(twin, asked_loads)


def _numbers(name: str, given: Any) -> tuple[float, ...]:
    """Return a number or several numbers as a tuple; all must be above 0."""
    found = tuple(given) if isinstance(given, list | tuple) else (given,)
    for value in found:
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise UsageError(
                f"{name} must be above 0, but is {value!r}",
                remedy="give a number or a list, such as 4 or [1, 2, 4]",
            )
        if name == "concurrency" and value != int(value):
            raise UsageError(
                f"{name} must be an integer, but is {value!r}",
                remedy="give a number or a list, such as 4 or [1, 2, 4]",
            )
    return tuple(map(float, found))


@worded
def inspect(
    path: str | Path, *, tokenizer: str | Path | None = None, prompt_column: str | None = None
) -> "Inspection":
    """Summarize a trace or a prompt file: rate over time, lengths, and the share that a prefix cache could serve."""
    from inferometer.stats.inspection import inspect_file

    expect("path", path, str, Path)
    expect("tokenizer", tokenizer, str, Path, NoneType)
    expect("prompt_column", prompt_column, str, NoneType)
    counted_by = None if tokenizer is None else str(tokenizer)
    return inspect_file(str(path), InspectOptions(tokenizer=counted_by, prompt_column=prompt_column))


@worded
def load(path: str | Path) -> Any:
    """Read a file written by `save` or `--json`: a `Result`, a `Comparison`, a `Diagnosis` ..."""
    from inferometer.report.saved import read as read_answer

    expect("path", path, str, Path)
    return read_answer(Path(path))


@worded
def save(answer: "Answer", path: str | Path) -> None:
    """Write an answer to a file, as `--json` does."""
    from inferometer.base.answer_file import write
    from inferometer.report.kinds import TYPES

    expect("answer", answer, *TYPES)
    expect("path", path, str, Path)
    write(answer, Path(path))


@worded
def to_html(report: "Answer") -> str:
    """Render the report of an answer as one self-contained HTML page."""
    from inferometer.report import saved
    from inferometer.report.kinds import TYPES

    expect("report", report, *TYPES)
    return saved.to_html(report, argument_name)


@worded
def to_markdown(report: "Answer") -> str:
    """Render the report of an answer in Markdown, without charts."""
    from inferometer.report import saved
    from inferometer.report.kinds import TYPES

    expect("report", report, *TYPES)
    return saved.to_markdown(report, argument_name)
