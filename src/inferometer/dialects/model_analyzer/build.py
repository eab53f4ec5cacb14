"""From the configuration of a command to what the tuner is to do."""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from inferometer.base.errors import UsageError
from inferometer.base.text import is_digits
from inferometer.base.units import NS_PER_S, parse_duration_ns
from inferometer.dialects.model_analyzer import rules
from inferometer.dialects.model_analyzer.command_line import Program
from inferometer.dialects.model_analyzer.config import LLM, Config, called
from inferometer.dialects.model_analyzer.flags import Flags, owned, words
from inferometer.dialects.model_analyzer.llm import applied, unmeasured
from inferometer.dialects.model_analyzer.load_generator import Library, LoadGenerator
from inferometer.dialects.model_analyzer.models import ModelEntry
from inferometer.dialects.model_analyzer.values import ints, whole
from inferometer.dialects.perf_analyzer.options import parse_classic
from inferometer.measure.checks import changed
from inferometer.options.command_line import Ask
from inferometer.options.options import Options
from inferometer.server.in_process import USUAL_DIRECTORY, installed_library
from inferometer.server.ports import Ports
from inferometer.stats.figures import LATENCY_P99, THROUGHPUT, TOKEN_TAGS
from inferometer.tune.scoring import LISTED_WEIGHT, Constraint, Goal, with_limit
from inferometer.tune.settings import (
    IN_PROCESS,
    Addresses,
    LaunchSettings,
    ModelSettings,
    OptunaLimits,
    SearchSettings,
    ServerAccess,
    TuneSettings,
)
from inferometer.tune.space import SearchBounds

# Options of the load generator that the tuner sets itself, and how the user tells the tuner instead. The classic tool
# passes them on with a warning, so a file that has them must not be refused.
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
REQUEST_TIMEOUT_S = 60.0  # of the built-in load generator, where none is given
_FLAGS = "perf_analyzer_flags"
_LOADS = ("concurrency-range", "request-rate-range", "request-intervals", "batch-size")


@dataclass(frozen=True, slots=True)
class ProfileJob:
    """A whole `profile`: the search, and what is written about it."""

    config: Config
    settings: TuneSettings
    flags: Mapping[str, Flags]  # of the load generator, by model
    generator: LoadGenerator | None = None  # None: the built-in one
    warnings: tuple[str, ...] = ()


def profile_job(config: Config, program: Program) -> ProfileJob:
    """Checks everything that can be checked without touching the disk or a server."""
    models = config.profile_models or ()
    if not models:
        raise UsageError(
            "profile_models is not specified: no model to profile",
            remedy="give --profile-models, or profile_models in the YAML file",
        )
    rules.check_keys(config)
    if config.model_repository is None and config.triton_launch_mode != "remote":
        raise UsageError(
            "model_repository is not specified",
            remedy="give the folder of the models with --model-repository",
        )
    by_rate = _is_by_rate(config, models)
    settings = TuneSettings(
        models=tuple(_model(config, model, by_rate=by_rate) for model in models),
        launch=_launch(config, program, models),
        search=SearchSettings(
            method=config.run_config_search_mode,
            bounds=_bounds(config),
            by_rate=by_rate,
            intervals=_intervals(config, models),
            is_search_on=not config.run_config_search_disable,
            early_exit=config.early_exit_enable,
            top=config.num_configs_per_model,
            binary_steps=config.run_config_search_max_binary_search_steps,
            sweep_after=not config.concurrency_sweep_disable,
            optuna=_optuna(config),
            budget_s=_budget_s(config),
            seed=config.seed,
        ),
        mode=config.mode,
        together=config.run_config_profile_models_concurrently_enable and len(models) > 1,
        journal=config.journal,
        cpu_only_members=config.cpu_only_composing_models,
        watch_gpus=False if config.dcgm_disable else (config.always_report_gpu_metrics or None),
        idle_s=config.duration_seconds,
    )
    flags = {model.name: config.flags(model) for model in models}
    return ProfileJob(
        config=config,
        settings=settings,
        flags=flags,
        generator=_generator(config, flags, settings.launch) if config.has("perf_analyzer_path") else None,
        warnings=tuple(_warnings(config, models)),
    )


def _is_by_rate(config: Config, models: Sequence[ModelEntry]) -> bool:
    return (
        any(rules.is_on(config, name) for name in rules.BY_RATE)
        or any(rules.loads_of(config, model)[1] is not None for model in models)
        or _flag_of(models, config, "request-rate-range") is not None
    )


def analyzed(config: Config, measured: Sequence[str]) -> tuple[Sequence[str], Mapping[str, Goal]]:
    """The models to report on: those named, else all that were measured; and the goals that were given this time.

    Models that were loaded together are joined with commas.
    """
    rules.check_keys(config)
    named = config.profile_models or ()
    models = named or tuple(
        ModelEntry(name, f"profile_models.{name}") for joined in measured for name in joined.split(",")
    )
    names = [model.name for model in named]
    if config.run_config_profile_models_concurrently_enable and names:
        names = [",".join(names)]
    goals = {model.name: _goal(config, model) for model in models if _has_own_goal(config, model)}
    return names or measured, goals


def _has_own_goal(config: Config, model: ModelEntry) -> bool:
    return config.has("objectives", "constraints", "latency_budget", "min_throughput") or any(
        name in model.own for name in ("objectives", "constraints", "weighting")
    )


# --- models


def _model(config: Config, model: ModelEntry, *, by_rate: bool) -> ModelSettings:
    flags = config.flags(model)
    concurrency, rates = rules.loads_of(config, model)
    listed = rates if by_rate else concurrency
    loads = None if listed is None else tuple(float(value) for value in listed)
    loads = _flag_load(model, flags) or loads
    own = model.get("parameters", {})
    batches = own.get("batch_sizes", config.batch_sizes)
    given_batch = dict(flags).get("batch-size")
    if given_batch is not None:
        batches = (whole(1)(f"{model.path(_FLAGS)}.batch-size", given_batch),)
    is_bls = bool(config.bls_composing_models)
    is_in_process = config.triton_launch_mode == IN_PROCESS
    members = config.bls_composing_models or config.ensemble_composing_models or ()
    goal = _goal(config, model)
    options, prompts = _options(config, model, flags, goal.constraints), None
    if config.model_type == LLM:
        own_flags = model.get("genai_perf_flags", config.genai_perf_flags)
        has_data = "input-data" in dict(flags)
        options, prompts = applied(options, own_flags, model.path("genai_perf_flags"), has_data=has_data)
    return replace(
        _member(model),
        objectives=goal.objectives,
        constraints=goal.constraints,
        weight=goal.weight,
        batches=batches or (1,),
        loads=loads,
        options=options,
        makes_text=config.model_type == LLM,
        prompts=prompts,
        members=tuple(_member(row) for row in members),
        is_bls=is_bls,
        server_flags=() if is_in_process else model.own.get("triton_server_flags", ()),
        environment=_expanded(model.own.get("triton_server_environment", {})),
    )


def _member(model: ModelEntry) -> ModelSettings:
    return ModelSettings(
        name=model.name,
        cpu_only=model.own.get("cpu_only"),
        swept=model.own.get("model_config_parameters"),
        where=f"{model.where}.model_config_parameters",
    )


def _goal(config: Config, model: ModelEntry) -> Goal:
    return Goal(
        model.name,
        model.get("objectives", config.objectives) or ((THROUGHPUT, LISTED_WEIGHT),),
        _constraints(config, model),
        float(model.get("weighting", 1)),
    )


def _constraints(config: Config, model: ModelEntry) -> tuple[Constraint, ...]:
    rows: tuple[Constraint, ...] = model.get("constraints", config.constraints) or ()
    if config.latency_budget is not None:
        rows = with_limit(rows, Constraint(LATENCY_P99, high=config.latency_budget))
    if config.min_throughput is not None:
        rows = with_limit(rows, Constraint(THROUGHPUT, low=config.min_throughput))
    return rows


def _options(config: Config, model: ModelEntry, flags: Flags, constraints: Sequence[Constraint]) -> Options:
    """What the built-in load generator is to send."""
    protocol = dict(flags).get("protocol", config.client_protocol)
    if config.has("perf_analyzer_path"):
        return changed(Options(), model=model.name, protocol=str(protocol).lower())
    handed = [row for row in flags if row[0] not in (*_LOADS, *_NOT_HERE, "protocol")]
    # Without it, a page of metrics and its interval would be refused.
    handed += [] if "collect-metrics" in dict(handed) else [("collect-metrics", True)]
    try:
        found = _parsed(["-m", model.name, "-i", str(protocol), *words(handed)])
    except UsageError as error:
        raise UsageError(f"{model.path(_FLAGS)}: {error.message}", remedy=error.remedy) from error
    limited = any(row.tag == LATENCY_P99 for row in constraints)
    return changed(
        found,
        asynchronous=not found.synchronous,
        percentile=found.percentile if found.percentile is not None or not limited else 99,
        request_timeout_s=_timeout_s(config),
        collect_metrics=True,
        metrics_interval_ms=found.metrics_interval_ms
        if "metrics-interval" in dict(flags)
        else round(1000 * config.monitoring_interval),
    )


def _timeout_s(config: Config) -> float:
    """Of one request, so that a measurement ends even if no request is ever answered."""
    if config.has("perf_analyzer_timeout"):
        return float(config.perf_analyzer_timeout)
    return REQUEST_TIMEOUT_S


def _parsed(words: Sequence[str]) -> Options:
    """The load generator's options, out of words."""
    found = parse_classic(words)
    if isinstance(found, Ask):
        raise UsageError("help and version are not flags of a load", remedy="leave them out")
    return found


def _flag_of(models: Sequence[ModelEntry], config: Config, name: str) -> Any:
    for model in models:
        found = dict(config.flags(model)).get(name)
        if found is not None:
            return found
    return None


def _flag_load(model: ModelEntry, flags: Flags) -> tuple[float, ...] | None:
    """A load among the load generator's flags overrides the tuner's own; a range is all its loads."""
    given = dict(flags)
    name = "request-rate-range" if "request-rate-range" in given else "concurrency-range"
    if given.get(name) is None:
        return None
    return tuple(float(value) for value in ints(f"{model.path(_FLAGS)}.{name}", given[name]))


def _intervals(config: Config, models: Sequence[ModelEntry]) -> str | None:
    found = _flag_of(models, config, "request-intervals")
    return None if found is None else str(found)


# --- the search


def _bounds(config: Config) -> SearchBounds:
    def span(noun: str) -> tuple[int, int]:
        low, high = (getattr(config, f"run_config_search_{end}_{noun}") for end in ("min", "max"))
        return low, high

    return SearchBounds(
        instances=span("instance_count"),
        batch=span("model_batch_size"),
        concurrency=span("concurrency"),
        request_rate=span("request_rate"),
    )


def _optuna(config: Config) -> OptunaLimits:
    return OptunaLimits(
        min_percent=config.min_percentage_of_search_space,
        max_percent=config.max_percentage_of_search_space,
        is_percent_given=config.has("min_percentage_of_search_space", "max_percentage_of_search_space"),
        min_trials=config.optuna_min_trials,
        max_trials=config.optuna_max_trials,
        early_exit=config.optuna_early_exit_threshold,
        use_formula=config.use_concurrency_formula,
    )


def _budget_s(config: Config) -> float | None:
    if config.budget is None:
        return None
    return max(1.0, parse_duration_ns(config.budget, called("budget")) / NS_PER_S)


# --- another load generator, and what has no effect


def _generator(config: Config, flags: Mapping[str, Flags], launch: LaunchSettings) -> LoadGenerator:
    name = config.perf_analyzer_path or ""
    found = shutil.which(name)
    if found is None:
        raise UsageError(
            f"the load generator '{name}' is not an executable program",
            remedy="check --perf-analyzer-path, or leave it out to use the built-in one",
        )
    library = None
    if launch.mode == IN_PROCESS:
        directory = Path(launch.install_path or USUAL_DIRECTORY)
        installed_library(directory, called("triton_install_path"))
        library = Library(directory, config.output_model_repository_path, launch.environment)
    return LoadGenerator(str(Path(found).absolute()), config, flags, library)


def _warnings(config: Config, models: Sequence[ModelEntry]) -> list[str]:
    found = list(rules.warnings(config))
    own = [(f"{row.where}.triton_server_flags", row.own.get("triton_server_flags", ())) for row in models]
    if config.triton_launch_mode == IN_PROCESS:
        found += [f"{where} has no effect in launch mode {IN_PROCESS}" for where, flags in own if flags]
    else:
        for where, flags in (("triton_server_flags", config.triton_server_flags), *own):
            found += [f"{where}.{name} has no effect: the tool sets it itself" for name in owned(flags)]
    for model in models:
        found += _unmeasured(config, model)
        if not config.has("perf_analyzer_path"):
            found += [
                f"{model.path(_FLAGS)}.{name} has no effect on the built-in load generator: {_NOT_HERE[name]}"
                for name, _ in config.flags(model)
                if name in _NOT_HERE
            ]
        if "triton_docker_args" in model.own:
            found.append(f"{model.where}.triton_docker_args has no effect: give them at the top level")
    return list(dict.fromkeys(found))


def _unmeasured(config: Config, model: ModelEntry) -> list[str]:
    goal = _goal(config, model)
    wanted = [tag for tag, _ in goal.objectives] + [row.tag for row in goal.constraints]
    if config.model_type == LLM:
        flags = model.get("genai_perf_flags", config.genai_perf_flags)
        return [
            f"{tag} is not measured without streaming, so it decides nothing"
            for tag in unmeasured(flags, wanted)
        ]
    return [
        f"{tag} is measured with {called('model_type')} LLM only, so it decides nothing"
        for tag in wanted
        if tag in TOKEN_TAGS
    ]


# --- the server


def _launch(config: Config, program: Program, models: Sequence[ModelEntry]) -> LaunchSettings:
    mode = config.triton_launch_mode
    environment = _expanded(config.triton_server_environment)
    if config.gpus is not None and mode in ("local", IN_PROCESS):
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(config.gpus)
    first = models[0]
    options = _parsed(["-m", first.name, "-i", config.client_protocol, *words(_ssl(config.flags(first)))])
    return LaunchSettings(
        mode=mode,
        repositories=() if config.model_repository is None else (config.model_repository,),
        executable=_executable(config),
        install_path=config.triton_install_path,
        ports=_ports(config, program),
        addresses=Addresses(
            config.triton_http_endpoint, config.triton_grpc_endpoint, config.triton_metrics_url
        ),
        control=ServerAccess(config.client_protocol, options.headers, options.tls, options.grpc_tls),
        flags=config.triton_server_flags,
        environment=environment,
        log=config.triton_output_path,
        timeout_s=float(config.client_max_retries),
        metrics_interval_ms=round(1000 * config.monitoring_interval),
        may_load=not (mode == "remote" and config.reload_model_disable),
        gpus=config.gpus,
        docker_image=config.triton_docker_image,
        docker_words=_docker_words(config),
        docker_mounts=config.triton_docker_mounts,
    )


def _ssl(flags: Flags) -> Flags:
    return tuple(row for row in flags if row[0].startswith("ssl-") or row[0] == "http-header")


def _executable(config: Config) -> str | None:
    """As given; else the one on the PATH, as the classic tool does; else the embedded one."""
    if config.has("triton_server_path"):
        return str(config.triton_server_path)
    return shutil.which("tritonserver")


def _ports(config: Config, program: Program) -> Ports:
    def port(name: str, text: str) -> int:
        if program.picks_ports and not config.has(name):
            return 0
        found = text.rpartition(":")[2].strip("/")
        if not is_digits(found):
            raise UsageError(f"{called(name)} is '{text}'", remedy="write it as HOST:PORT")
        return int(found)

    if config.triton_launch_mode not in ("local", "docker"):
        return Ports()
    url = config.triton_metrics_url
    return Ports(
        port("triton_http_endpoint", config.triton_http_endpoint),
        port("triton_grpc_endpoint", config.triton_grpc_endpoint),
        port("triton_metrics_url", urlsplit(url if "//" in url else f"//{url}").netloc),
    )


def _docker_words(config: Config) -> tuple[str, ...]:
    found: list[str] = []
    if config.triton_docker_shm_size is not None:
        found += ["--shm-size", config.triton_docker_shm_size]
    for name, value in config.triton_docker_labels.items():
        found += ["--label", f"{name}={value}"]
    return (*found, *config.triton_docker_args)


def _expanded(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: os.path.expandvars(value) for name, value in environment.items()}
