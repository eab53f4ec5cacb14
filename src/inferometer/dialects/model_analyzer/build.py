"""From what was asked to jobs."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.base.units import NS_PER_S, parse_duration_ns
from inferometer.dialects.model_analyzer import rules
from inferometer.dialects.model_analyzer.asked import Asked, Dialect
from inferometer.dialects.model_analyzer.flags import Flags, ParseOptions, owned, words
from inferometer.dialects.model_analyzer.job import (
    JOURNAL,
    AnalyzeJob,
    External,
    Library,
    ProfileJob,
    ReportJob,
    Reports,
    Tables,
)
from inferometer.dialects.model_analyzer.keys import FORMATS
from inferometer.dialects.model_analyzer.llm import applied, unmeasured
from inferometer.dialects.model_analyzer.models import ModelAsked
from inferometer.dialects.model_analyzer.rules import option
from inferometer.dialects.model_analyzer.server import expanded, launch_settings
from inferometer.dialects.model_analyzer.values import ints, whole
from inferometer.measure.checks import changed
from inferometer.options.options import Options
from inferometer.server.in_process import USUAL_DIRECTORY, installed_library
from inferometer.tune.metrics import LATENCY_P99, THROUGHPUT, TOKEN_TAGS
from inferometer.tune.scoring import LISTED_WEIGHT, Constraint, Goal, with_limit
from inferometer.tune.settings import (
    IN_PROCESS,
    LaunchSettings,
    ModelSettings,
    OptunaLimits,
    SearchSettings,
    TuneSettings,
)
from inferometer.tune.space import SearchBounds

# The load generator's options that are the tuner's business, and what says it to the tuner. The classic tool passes
# them on with a caution, so a file that has them must not be refused.
_NOT_HERE = {
    "model-name": "profile_models names the models",
    "latency-report-file": "the tables are below export_path",
    "verbose": "-v shows more",
    "extra-verbose": "-v shows more",
    "verbose-csv": "the tables are below export_path",
    "binary-search": "constraints are closed in on",
    "latency-threshold": "latency_budget sets a limit",
    "triton-server-directory": "triton_install_path names the installation",
    "model-repository": "model_repository names the folder",
    "bls-composing-models": "bls_composing_models names them",
}
LLM = "LLM"
REQUEST_TIMEOUT_S = 60.0  # of the built-in load generator, where none is given
_LOADS = ("concurrency-range", "request-rate-range", "request-intervals", "batch-size")


def profile_job(asked: Asked, dialect: Dialect, parse: ParseOptions) -> ProfileJob:
    """Checks everything that can be checked without touching the disk or a server."""
    models: tuple[ModelAsked, ...] = asked["profile_models"] or ()
    if not models:
        raise UsageError(
            "profile_models is not specified: no model to profile",
            remedy="give --profile-models, or profile_models in the YAML file",
        )
    rules.check(asked)
    is_remote = asked["triton_launch_mode"] == "remote"
    if asked["model_repository"] is None and not is_remote:
        raise UsageError(
            "model_repository is not specified",
            remedy="give the folder of the models with --model-repository",
        )
    by_rate = _is_by_rate(asked, models)
    settings = TuneSettings(
        models=tuple(_model(asked, model, by_rate=by_rate, parse=parse) for model in models),
        launch=launch_settings(asked, dialect, models, parse),
        search=SearchSettings(
            method=asked["run_config_search_mode"],
            bounds=_bounds(asked),
            by_rate=by_rate,
            intervals=_intervals(asked, models),
            is_search_on=not asked["run_config_search_disable"],
            early_exit=asked["early_exit_enable"],
            top=asked["num_configs_per_model"],
            binary_steps=asked["run_config_search_max_binary_search_steps"],
            sweep_after=not asked["concurrency_sweep_disable"],
            optuna=_optuna(asked),
            budget_s=_budget_s(asked),
            seed=asked["seed"],
        ),
        mode=asked.mode,
        together=asked["run_config_profile_models_concurrently_enable"] and len(models) > 1,
        journal=asked["checkpoint_directory"] / JOURNAL,
        cpu_only_members=asked["cpu_only_composing_models"],
        watch_gpus=False if asked["dcgm_disable"] else (asked["always_report_gpu_metrics"] or None),
        idle_s=asked["duration_seconds"],
    )
    return ProfileJob(
        settings=settings,
        output=asked["output_model_repository_path"],
        overrides_output=asked["override_output_model_repository"],
        checkpoints=asked["checkpoint_directory"],
        reports=_reports(asked),
        flags=_flags(asked, models),
        external=_external(asked, models, settings.launch) if asked.has("perf_analyzer_path") else None,
        warnings=tuple(_warnings(asked, models)),
    )


def _is_by_rate(asked: Asked, models: Sequence[ModelAsked]) -> bool:
    return (
        any(rules.is_on(asked, name) for name in rules.BY_RATE)
        or any(rules.loads_of(asked, model)[1] is not None for model in models)
        or _flag_of(models, asked, "request-rate-range") is not None
    )


def analyze_job(asked: Asked, measured: Sequence[str]) -> AnalyzeJob:
    """Of the models named, else of all that were measured; those that were loaded together are joined with commas."""
    rules.check(asked)
    named: tuple[ModelAsked, ...] = asked["profile_models"] or ()
    models = named or tuple(
        ModelAsked(name, f"profile_models.{name}") for joined in measured for name in joined.split(",")
    )
    names = [model.name for model in named]
    if asked["run_config_profile_models_concurrently_enable"] and names:
        names = [",".join(names)]
    return AnalyzeJob(
        checkpoints=asked["checkpoint_directory"],
        reports=_reports(asked),
        mode=asked.mode,
        models=tuple(names or measured),
        goals={model.name: _goal(asked, model) for model in models if _has_own_goal(asked, model)},
    )


def _has_own_goal(asked: Asked, model: ModelAsked) -> bool:
    return asked.has("objectives", "constraints", "latency_budget", "min_throughput") or any(
        name in model.own for name in ("objectives", "constraints", "weighting")
    )


def report_job(asked: Asked) -> ReportJob:
    if not asked["report_model_configs"]:
        raise UsageError(
            "report_model_configs is not specified: no variant to report on",
            remedy="give --report-model-configs with names such as MODEL_config_0",
        )
    for name in asked["output_formats"]:
        if name not in FORMATS:
            raise UsageError(
                f"{option('output_formats')} has '{name}'", remedy=f"it takes {', '.join(FORMATS)}"
            )
    return ReportJob(
        checkpoints=asked["checkpoint_directory"],
        export=asked["export_path"],
        variants=tuple(asked["report_model_configs"].items()),
        formats=tuple(dict.fromkeys(asked["output_formats"])),
        mode=asked.mode,
        with_gpus=asked["always_report_gpu_metrics"],
        plots=asked["plots"],
    )


# --- models


def _model(asked: Asked, model: ModelAsked, *, by_rate: bool, parse: ParseOptions) -> ModelSettings:
    flags: Flags = model.get("perf_analyzer_flags", asked["perf_analyzer_flags"])
    concurrency, rates = rules.loads_of(asked, model)
    listed = rates if by_rate else concurrency
    loads = None if listed is None else tuple(float(value) for value in listed)
    loads = _flag_load(model, flags) or loads
    own = model.get("parameters", {})
    batches = own.get("batch_sizes", asked["batch_sizes"])
    given_batch = dict(flags).get("batch-size")
    if given_batch is not None:
        batches = (whole(1)(f"{_flags_path(model)}.batch-size", given_batch),)
    is_bls = bool(asked["bls_composing_models"])
    is_in_process = asked["triton_launch_mode"] == IN_PROCESS
    members = asked["bls_composing_models"] or asked["ensemble_composing_models"] or ()
    goal = _goal(asked, model)
    options, prompts = _options(asked, model, flags, goal.constraints, parse), None
    if asked["model_type"] == LLM:
        own_flags = model.get("genai_perf_flags", asked["genai_perf_flags"])
        has_data = "input-data" in dict(flags)
        options, prompts = applied(options, own_flags, _genai_path(model), has_data=has_data)
    return ModelSettings(
        name=model.name,
        objectives=goal.objectives,
        constraints=goal.constraints,
        weight=goal.weight,
        cpu_only=model.own.get("cpu_only"),
        batches=batches or (1,),
        loads=loads,
        swept=model.own.get("model_config_parameters"),
        where=f"{model.where}.model_config_parameters",
        options=options,
        makes_text=asked["model_type"] == LLM,
        prompts=prompts,
        members=tuple(_member(row) for row in members),
        is_bls=is_bls,
        server_flags=() if is_in_process else model.own.get("triton_server_flags", ()),
        environment=expanded(model.own.get("triton_server_environment", {})),
    )


def _member(model: ModelAsked) -> ModelSettings:
    return ModelSettings(
        name=model.name,
        cpu_only=model.own.get("cpu_only"),
        swept=model.own.get("model_config_parameters"),
        where=f"{model.where}.model_config_parameters",
    )


def _goal(asked: Asked, model: ModelAsked) -> Goal:
    return Goal(
        model.name,
        model.get("objectives", asked["objectives"]) or ((THROUGHPUT, LISTED_WEIGHT),),
        _constraints(asked, model),
        float(model.get("weighting", 1)),
    )


def _constraints(asked: Asked, model: ModelAsked) -> tuple[Constraint, ...]:
    rows: tuple[Constraint, ...] = model.get("constraints", asked["constraints"]) or ()
    if asked["latency_budget"] is not None:
        rows = with_limit(rows, Constraint(LATENCY_P99, high=asked["latency_budget"]))
    if asked["min_throughput"] is not None:
        rows = with_limit(rows, Constraint(THROUGHPUT, low=asked["min_throughput"]))
    return rows


def _options(
    asked: Asked, model: ModelAsked, flags: Flags, constraints: Sequence[Constraint], parse: ParseOptions
) -> Options:
    """What the built-in load generator is to send."""
    protocol = dict(flags).get("protocol", asked["client_protocol"])
    if asked.has("perf_analyzer_path"):
        return Options(model=model.name, protocol=str(protocol).lower())
    handed = [row for row in flags if row[0] not in (*_LOADS, *_NOT_HERE, "protocol")]
    # Without it, a page of metrics and its interval would be refused.
    handed += [] if "collect-metrics" in dict(handed) else [("collect-metrics", True)]
    try:
        found = parse(["-m", model.name, "-i", str(protocol), *words(handed)])
    except UsageError as error:
        raise UsageError(f"{_flags_path(model)}: {error.message}", remedy=error.remedy) from error
    limited = any(row.tag == LATENCY_P99 for row in constraints)
    return changed(
        found,
        asynchronous=not found.synchronous,
        percentile=found.percentile if found.percentile is not None or not limited else 99,
        request_timeout_s=_timeout_s(asked),
        collect_metrics=True,
        metrics_interval_ms=found.metrics_interval_ms
        if "metrics-interval" in dict(flags)
        else round(1000 * asked["monitoring_interval"]),
    )


def _timeout_s(asked: Asked) -> float:
    """Of one request: a measurement whose requests are never answered ends with it."""
    if asked.has("perf_analyzer_timeout"):
        return float(asked["perf_analyzer_timeout"])
    return REQUEST_TIMEOUT_S


def _genai_path(model: ModelAsked) -> str:
    return f"{model.where}.genai_perf_flags" if "genai_perf_flags" in model.own else "genai_perf_flags"


def _flags_path(model: ModelAsked) -> str:
    return (
        f"{model.where}.perf_analyzer_flags" if "perf_analyzer_flags" in model.own else "perf_analyzer_flags"
    )


def _flag_of(models: Sequence[ModelAsked], asked: Asked, name: str) -> Any:
    for model in models:
        found = dict(model.get("perf_analyzer_flags", asked["perf_analyzer_flags"])).get(name)
        if found is not None:
            return found
    return None


def _flag_load(model: ModelAsked, flags: Flags) -> tuple[float, ...] | None:
    """A load among the load generator's flags overrides the tuner's own; a range is all its loads."""
    given = dict(flags)
    name = "request-rate-range" if "request-rate-range" in given else "concurrency-range"
    if given.get(name) is None:
        return None
    return tuple(float(value) for value in ints(f"{_flags_path(model)}.{name}", given[name]))


def _intervals(asked: Asked, models: Sequence[ModelAsked]) -> str | None:
    found = _flag_of(models, asked, "request-intervals")
    return None if found is None else str(found)


# --- the search


def _bounds(asked: Asked) -> SearchBounds:
    def span(noun: str) -> tuple[int, int]:
        return asked[f"run_config_search_min_{noun}"], asked[f"run_config_search_max_{noun}"]

    return SearchBounds(
        instances=span("instance_count"),
        batch=span("model_batch_size"),
        concurrency=span("concurrency"),
        request_rate=span("request_rate"),
    )


def _optuna(asked: Asked) -> OptunaLimits:
    return OptunaLimits(
        min_percent=asked["min_percentage_of_search_space"],
        max_percent=asked["max_percentage_of_search_space"],
        is_percent_given=asked.has("min_percentage_of_search_space", "max_percentage_of_search_space"),
        min_trials=asked["optuna_min_trials"],
        max_trials=asked["optuna_max_trials"],
        early_exit=asked["optuna_early_exit_threshold"],
        use_formula=asked["use_concurrency_formula"],
    )


def _budget_s(asked: Asked) -> float | None:
    if asked["budget"] is None:
        return None
    return max(1.0, parse_duration_ns(asked["budget"], option("budget")) / NS_PER_S)


# --- the rest


def _flags(asked: Asked, models: Sequence[ModelAsked]) -> tuple[tuple[str, Flags], ...]:
    given = asked["perf_analyzer_flags"]
    return tuple((model.name, model.get("perf_analyzer_flags", given)) for model in models)


def _external(asked: Asked, models: Sequence[ModelAsked], launch: LaunchSettings) -> External:
    import shutil

    name = asked["perf_analyzer_path"]
    found = shutil.which(name)
    if found is None:
        raise UsageError(
            f"the load generator '{name}' is not an executable program",
            remedy="check --perf-analyzer-path, or leave it out to use the built-in one",
        )
    cpus = os.cpu_count() or 1
    members = tuple(row.name for row in asked["bls_composing_models"] or ())
    return External(
        program=str(Path(found).absolute()),
        flags=_flags(asked, models),
        members=tuple((model.name, members) for model in models) if members else (),
        protocol=asked["client_protocol"],
        timeout_s=float(asked["perf_analyzer_timeout"]),
        cpu_percent=asked["perf_analyzer_cpu_util"] or 80.0 * cpus,
        most_starts=asked["perf_analyzer_max_auto_adjusts"],
        shows_output=asked["perf_output"],
        output=asked["perf_output_path"],
        metrics_interval_ms=round(1000 * asked["monitoring_interval"]),
        collects_gpus=not asked["dcgm_disable"],
        library=_library(asked, launch) if launch.mode == IN_PROCESS else None,
    )


def _library(asked: Asked, launch: LaunchSettings) -> Library:
    directory = Path(launch.install_path or USUAL_DIRECTORY)
    installed_library(directory, option("triton_install_path"))
    return Library(directory, asked["output_model_repository_path"], launch.environment)


def _reports(asked: Asked) -> Reports:
    return Reports(
        export=asked["export_path"],
        tables=_tables(asked),
        top=asked["num_configs_per_model"],
        top_across=asked["num_top_model_configs"],
        is_on=not asked["skip_summary_reports"],
        has_details=not asked["skip_detailed_reports"],
        with_gpus=asked["always_report_gpu_metrics"],
        has_own_objectives=asked.has("objectives"),
        plots=asked["plots"],
    )


def _tables(asked: Asked) -> Tables:
    return Tables(
        asked["filename_model_inference"],
        asked["filename_model_gpu"],
        asked["filename_server_only"],
        asked["inference_output_fields"],
        asked["model_type"] == LLM,
        asked["gpu_output_fields"],
        asked["server_output_fields"],
    )


def _warnings(asked: Asked, models: Sequence[ModelAsked]) -> list[str]:
    found = list(rules.warnings(asked))
    own = [(f"{row.where}.triton_server_flags", row.own.get("triton_server_flags", ())) for row in models]
    if asked["triton_launch_mode"] == IN_PROCESS:
        found += [f"{where} has no effect in launch mode {IN_PROCESS}" for where, flags in own if flags]
    else:
        for where, flags in (("triton_server_flags", asked["triton_server_flags"]), *own):
            found += [f"{where}.{name} has no effect: the tool sets it itself" for name in owned(flags)]
    for model in models:
        found += _unmeasured(asked, model)
        if not asked.has("perf_analyzer_path"):
            found += [
                f"{_flags_path(model)}.{name} has no effect on the built-in load generator: {_NOT_HERE[name]}"
                for name, _ in model.get("perf_analyzer_flags", asked["perf_analyzer_flags"])
                if name in _NOT_HERE
            ]
        if "triton_docker_args" in model.own:
            found.append(f"{model.where}.triton_docker_args has no effect: give them at the top level")
    return list(dict.fromkeys(found))


def _unmeasured(asked: Asked, model: ModelAsked) -> list[str]:
    goal = _goal(asked, model)
    wanted = [tag for tag, _ in goal.objectives] + [row.tag for row in goal.constraints]
    if asked["model_type"] == LLM:
        flags = model.get("genai_perf_flags", asked["genai_perf_flags"])
        return [
            f"{tag} is not measured without streaming, so it decides nothing"
            for tag in unmeasured(flags, wanted)
        ]
    return [
        f"{tag} is measured with {option('model_type')} LLM only, so it decides nothing"
        for tag in wanted
        if tag in TOKEN_TAGS
    ]
