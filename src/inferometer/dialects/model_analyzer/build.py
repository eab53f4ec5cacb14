"""Conversion of a command's configuration to settings of the tuner."""

import json
import math
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.text import is_digits
from inferometer.base.units import NS_PER_S, parse_duration_ns
from inferometer.dialects.model_analyzer import rules
from inferometer.dialects.model_analyzer.command_line import Program
from inferometer.dialects.model_analyzer.config import LLM, Config, ModelEntry, called
from inferometer.dialects.model_analyzer.flags import SET_BY_TUNER, words
from inferometer.dialects.model_analyzer.load_generator import LoadGenerator, find_generator
from inferometer.dialects.model_analyzer.values import ints, maybe_number, whole
from inferometer.dialects.perf_analyzer.options import parse_classic
from inferometer.measure.checks import changed
from inferometer.options.command_line import Ask
from inferometer.options.options import Options
from inferometer.server.ports import Ports
from inferometer.stats.figures import LATENCY_P99
from inferometer.tune.scoring import Constraint, Goal
from inferometer.tune.settings import (
    IN_PROCESS,
    Addresses,
    LaunchSettings,
    ModelSettings,
    OptunaLimits,
    Prompts,
    SearchSettings,
    ServerAccess,
    TuneSettings,
)
from inferometer.tune.space import SearchBounds

_PROMPT_FIELDS = {
    "num-of-output-prompts": "count",
    "input-tokens-mean": "mean",
    "input-tokens-stddev": "deviation",
    "random-seed": "seed",
    "input-file": "file",
    "expected-output-tokens": "output_tokens",
    "backend": "backend",
    "tokenizer": "tokenizer",
    "prefix-prompt-length": "prefix_tokens",
    "num-prefix-prompts": "prefixes",
    "output-tokens-stddev": "output_deviation",
    "extra-inputs": "extra",
}
"""Flags that correspond to fields of `Prompts`."""

_ENDPOINTS = {"chat": "v1/chat/completions", "completions": "v1/completions"}
REQUEST_TIMEOUT_S = 60.0  # default of the built-in load generator
_FLAGS = "perf_analyzer_flags"
_LOADS = ("concurrency-range", "request-rate-range", "request-intervals", "batch-size")


@frozen
class ProfileJob:
    """A `profile` command: the search and its reports."""

    config: Config
    settings: TuneSettings
    generator: LoadGenerator | None = None  # None: the built-in one
    warnings: tuple[str, ...] = ()


def profile_job(config: Config, program: Program) -> ProfileJob:
    """Make the job, checking everything that needs neither disk nor server."""
    models = config.profile_models
    if not models:
        raise UsageError(
            "profile_models is not specified: no model to profile",
            remedy="give --profile-models, or profile_models in the YAML file",
        )
    rules.check_keys(config)
    if config.model_repository is None and config.triton_launch_mode != "remote":
        raise UsageError(
            "model_repository is not specified",
            remedy="give the folder that contains the models with --model-repository",
        )
    by_rate = _is_by_rate(config, models)
    settings = TuneSettings(
        models=tuple(_model(config, model, by_rate=by_rate) for model in models),
        launch=_launch(config, program, models),
        search=SearchSettings(
            method=config.run_config_search_mode,
            bounds=_bounds(config),
            by_rate=by_rate,
            intervals=_flag(config, models, "request-intervals"),
            is_search_on=not config.run_config_search_disable,
            early_exit=config.early_exit_enable,
            top=config.num_configs_per_model,
            binary_steps=config.run_config_search_max_binary_search_steps,
            sweep_after=not config.concurrency_sweep_disable,
            optuna=OptunaLimits(
                min_percent=config.min_percentage_of_search_space,
                max_percent=config.max_percentage_of_search_space,
                is_percent_given=config.has(
                    "min_percentage_of_search_space", "max_percentage_of_search_space"
                ),
                min_trials=config.optuna_min_trials,
                max_trials=config.optuna_max_trials,
                early_exit=config.optuna_early_exit_threshold,
                use_formula=config.use_concurrency_formula,
            ),
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
    warnings = tuple(dict.fromkeys(rules.warnings(config)))
    return ProfileJob(config, settings, find_generator(config, settings.launch), warnings)


def _is_by_rate(config: Config, models: Sequence[ModelEntry]) -> bool:
    return (
        any(rules.is_on(config, name) for name in rules.BY_RATE)
        or any(rules.loads_of(config, model)[1] is not None for model in models)
        or _flag(config, models, "request-rate-range") is not None
    )


def _flag(config: Config, models: Sequence[ModelEntry], name: str) -> str | None:
    """Return a flag of the load generator from the first model that has it."""
    found = (dict(config.flags(model)).get(name) for model in models)
    return next((str(value) for value in found if value is not None), None)


def analyzed(config: Config, measured: Sequence[str]) -> tuple[Sequence[str], Mapping[str, Goal]]:
    """Return the models to report on, by default all measured ones, and the given goals.

    Models that were loaded together are joined with commas.
    """
    rules.check_keys(config)
    named = config.profile_models
    models = named or tuple(
        ModelEntry(name, f"profile_models.{name}") for joined in measured for name in joined.split(",")
    )
    names = [model.name for model in named]
    if config.run_config_profile_models_concurrently_enable and names:
        names = [",".join(names)]
    goals = {model.name: config.goal(model) for model in models if _has_own_goal(config, model)}
    return names or measured, goals


def _has_own_goal(config: Config, model: ModelEntry) -> bool:
    return config.has("objectives", "constraints", "latency_budget", "min_throughput") or any(
        name in model.own for name in ("objectives", "constraints", "weighting")
    )


# --- models


def _model(config: Config, model: ModelEntry, *, by_rate: bool) -> ModelSettings:
    flags = dict(config.flags(model))
    where = model.path(_FLAGS)
    concurrency, rates = rules.loads_of(config, model)
    loads: tuple[float, ...] | None = rates if by_rate else concurrency
    for name in ("request-rate-range", "concurrency-range"):
        if name in flags:  # overrides the tuner's own; a range gives all its loads
            loads = _loads_of_flag(f"{where}.{name}", flags[name])
            break
    batches = model.own.get("parameters", {}).get("batch_sizes", config.batch_sizes)
    if "batch-size" in flags:
        batches = (whole(1)(f"{where}.batch-size", flags["batch-size"]),)
    goal = config.goal(model)
    options, prompts = _options(config, model, flags, goal.constraints), None
    if config.model_type == LLM:
        own_flags = model.own.get("genai_perf_flags", config.genai_perf_flags)
        has_data = "input-data" in flags
        options, prompts = text_options(options, own_flags, model.path("genai_perf_flags"), has_data=has_data)
    is_in_process = config.triton_launch_mode == IN_PROCESS
    members = config.bls_composing_models or config.ensemble_composing_models or ()
    return replace(
        _member(model),
        goal=goal,
        batches=batches or (1,),
        loads=None if loads is None else tuple(map(float, loads)),
        options=options,
        makes_text=config.model_type == LLM,
        prompts=prompts,
        members=tuple(_member(row) for row in members),
        is_bls=bool(config.bls_composing_models),
        server_flags=() if is_in_process else model.own.get("triton_server_flags", ()),
        environment=_expanded(model.own.get("triton_server_environment", {})),
    )


def _loads_of_flag(path: str, value: Any) -> tuple[float, ...]:
    """Read a load as in the command line of the load generator: one number, which a rate may have with a fraction, or
    a range."""
    rate = maybe_number(value) if path.endswith("request-rate-range") else None
    return (rate,) if rate is not None and 0 < rate < math.inf else ints(path, value)


def _member(model: ModelEntry) -> ModelSettings:
    return ModelSettings(
        Goal(model.name),
        cpu_only=model.own.get("cpu_only"),
        swept=model.own.get("model_config_parameters"),
        where=f"{model.where}.model_config_parameters",
    )


def _options(
    config: Config, model: ModelEntry, flags: Mapping[str, Any], constraints: Sequence[Constraint]
) -> Options:
    """Return the options of the built-in load generator."""
    protocol = str(flags.get("protocol", config.client_protocol))
    if config.has("perf_analyzer_path"):
        return changed(Options(), model=model.name, protocol=protocol.lower())
    handed = {name: row for name, row in flags.items() if name not in (*_LOADS, *SET_BY_TUNER, "protocol")}
    # Without it, --metrics-url and --metrics-interval would be refused.
    handed.setdefault("collect-metrics", True)
    try:
        found = _parsed(model, protocol, handed.items())
    except UsageError as error:
        raise UsageError(f"{model.path(_FLAGS)}: {error.message}", remedy=error.remedy) from error
    limited = any(row.tag == LATENCY_P99 for row in constraints)
    has_timeout = config.has("perf_analyzer_timeout")
    return changed(
        found,
        asynchronous=not found.synchronous,
        percentile=found.percentile if found.percentile is not None or not limited else 99,
        # Per request, so that a measurement ends even if nothing is answered.
        request_timeout_s=float(config.perf_analyzer_timeout) if has_timeout else REQUEST_TIMEOUT_S,
        collect_metrics=True,
        metrics_interval_ms=found.metrics_interval_ms
        if "metrics-interval" in flags
        else round(1000 * config.monitoring_interval),
    )


def text_options(
    options: Options, flags: Mapping[str, Any], path: str, *, has_data: bool
) -> tuple[Options, Prompts | None]:
    """Return the options of a model that generates text, and its prompts if no data is given."""
    is_streamed = flags.get("streaming", True)
    if flags.get("service-kind") == "openai":
        options = _at_openai(options, flags, path)
    else:
        _check_triton(options, flags, path, is_streamed=is_streamed)
        options = changed(options, url=flags.get("url", options.url))
    options = changed(options, streaming=is_streamed, asynchronous=True, synchronous=False)
    if has_data:
        _check_own_data(options, flags, path)
        return options, None
    given = {field: flags[name] for name, field in _PROMPT_FIELDS.items() if name in flags}
    prompts = Prompts(**given, is_streamed=is_streamed)
    is_alike = not prompts.output_deviation  # otherwise every answer has its own length
    return changed(options, output_tokens=prompts.output_tokens if is_alike else None), prompts


def _check_own_data(options: Options, flags: Mapping[str, Any], path: str) -> None:
    """Raise for flags of generated prompts if the input data defines the requests."""
    for name in ("extra-inputs", "output-tokens-stddev"):
        if name in flags and not (name == "extra-inputs" and options.service_kind == "openai"):
            raise UsageError(
                f"{path}.{name} applies only to generated prompts, but perf_analyzer_flags.input-data is given",
                remedy="leave one of them out",
            )


def _at_openai(options: Options, flags: Mapping[str, Any], path: str) -> Options:
    if "url" not in flags:
        raise UsageError(
            f"{path}.service-kind openai requires {path}.url",
            remedy="give the address of the server's OpenAI-compatible endpoint, which Triton itself does not have",
        )
    if "backend" in flags:
        raise UsageError(f"{path}.backend applies only to service-kind triton", remedy="leave it out")
    given = flags.get("endpoint", "chat")
    return changed(
        options,
        service_kind="openai",
        protocol="http",
        url=flags["url"],
        endpoint=_ENDPOINTS.get(given, given),
        bodies=tuple(f"{name}={json.dumps(value)}" for name, value in flags.get("extra-inputs", ())),
        collect_metrics=None,
        metrics_url=None,
        metrics_interval_ms=None,
    )


def _check_triton(options: Options, flags: Mapping[str, Any], path: str, *, is_streamed: bool) -> None:
    if "endpoint" in flags:
        raise UsageError(f"{path}.endpoint applies only to service-kind openai", remedy="leave it out")
    if is_streamed and options.protocol != "grpc":
        raise UsageError(
            f"model_type LLM streams answers, which Triton does not support over {options.protocol}",
            remedy=f"use --client-protocol grpc, or set {path}.streaming: false, which measures no tokens",
        )


def _parsed(model: ModelEntry, protocol: str, flags: Iterable[tuple[str, Any]]) -> Options:
    """Parse the load generator's options from its flags."""
    found = parse_classic(["-m", model.name, "-i", protocol, *words(flags)])
    assert not isinstance(found, Ask)  # no flag requests help
    return found


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


def _budget_s(config: Config) -> float | None:
    if config.budget is None:
        return None
    return max(1.0, parse_duration_ns(config.budget, called("budget")) / NS_PER_S)


# --- the server


def _launch(config: Config, program: Program, models: Sequence[ModelEntry]) -> LaunchSettings:
    mode = config.triton_launch_mode
    environment = _expanded(config.triton_server_environment)
    if config.gpus is not None and mode in ("local", IN_PROCESS):
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(config.gpus)
    access = [row for row in config.flags(models[0]) if row[0].startswith("ssl-") or row[0] == "http-header"]
    options = _parsed(models[0], config.client_protocol, access)
    # As given; else the one on the PATH, like the classic tool; else the embedded one.
    given = config.triton_server_path
    return LaunchSettings(
        mode=mode,
        repositories=() if config.model_repository is None else (config.model_repository,),
        executable=shutil.which("tritonserver") if given is None else given,
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


def _ports(config: Config, program: Program) -> Ports:
    def port(name: str, text: str) -> int:
        if not program.is_classic and not config.has(name):
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
