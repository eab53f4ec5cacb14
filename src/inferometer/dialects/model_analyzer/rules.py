"""Checks before a command starts: incompatible keys, then folders, models and ports."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from inferometer.base.errors import UsageError
from inferometer.dialects.model_analyzer.config import FORMATS, KEYS, LLM, Config, ModelEntry, called
from inferometer.dialects.model_analyzer.flags import OWN_SERVER_FLAGS, SET_BY_TUNER
from inferometer.dialects.model_analyzer.values import Plot
from inferometer.server.ports import choose_ports
from inferometer.stats.figures import LATENCY_P99, OLD_LATENCY, TOKEN_TAGS
from inferometer.tune import model_config
from inferometer.tune.deployment import open_deployment
from inferometer.tune.prepare import check_settings
from inferometer.tune.settings import IN_PROCESS, ModelSettings, TuneSettings
from inferometer.tune.space import message_choices

_CONCURRENCY = ("concurrency", "run_config_search_min_concurrency", "run_config_search_max_concurrency")
BY_RATE = (
    "request_rate",
    "request_rate_search_enable",
    "run_config_search_min_request_rate",
    "run_config_search_max_request_rate",
)
_TOGETHER = "run_config_profile_models_concurrently_enable"
_MODE = called("run_config_search_mode")


# --- keys


def check_keys(config: Config) -> None:
    """Raise for incompatible keys; the message names both."""
    _check_bounds(config)
    _check_loads(config)
    _check_search(config)
    _check_composing(config)
    _check_server(config)
    _check_llm(config)


def is_on(config: Config, name: str) -> bool:
    """Whether a key is given, and not a switch set to false."""
    return config.has(name) and getattr(config, name) is not False


def _check_bounds(config: Config) -> None:
    nouns = ("concurrency", "request_rate", "instance_count", "model_batch_size")
    order = "give a minimum that does not exceed the maximum"
    for low, high, remedy in (
        *((f"run_config_search_min_{noun}", f"run_config_search_max_{noun}", order) for noun in nouns),
        ("min_percentage_of_search_space", "max_percentage_of_search_space", ""),
        ("optuna_min_trials", "optuna_max_trials", ""),
    ):
        lowest, highest = getattr(config, low), getattr(config, high)
        if lowest is not None and highest is not None and lowest > highest:
            raise UsageError(
                f"{called(low)} is {lowest}, which exceeds {called(high)}, {highest}", remedy=remedy
            )


def _mismatch(first: str, second: str, remedy: str) -> UsageError:
    return UsageError(f"{first} is not supported with {second}", remedy=remedy)


def _conflict(first: str, second: str, why: str) -> UsageError:
    return UsageError(
        f"{called(first)} and {called(second)} are mutually exclusive: {why}", remedy="give only one"
    )


def _check_loads(config: Config) -> None:
    for first in _CONCURRENCY:
        for second in BY_RATE:
            if is_on(config, first) and is_on(config, second):
                raise _conflict(first, second, "a run has either a concurrency or a request rate")
    by_rate = set()
    for model in config.profile_models:
        concurrency, rates = loads_of(config, model)
        if concurrency is not None and rates is not None:
            raise UsageError(
                f"{model.where} has both concurrency and request_rate", remedy="give the model only one"
            )
        by_rate.add(rates is not None or "request-rate-range" in dict(config.flags(model)))
    if len(by_rate) > 1:
        raise UsageError(
            "some models have a request_rate and others do not",
            remedy="give request_rate to all of them, or to none",
        )


def loads_of(config: Config, model: ModelEntry) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
    """Return the concurrencies and request rates listed for a model, its own or inherited."""
    own = model.own.get("parameters", {})
    rates = own.get("request_rate", config.request_rate)
    inherited = None if "request_rate" in own else config.concurrency
    return own.get("concurrency", inherited), rates


def is_brute_explicit(config: Config) -> bool:
    return config.has("run_config_search_mode") and config.run_config_search_mode == "brute"


def _check_search(config: Config) -> None:
    if getattr(config, _TOGETHER) and is_brute_explicit(config):
        raise _mismatch(called(_TOGETHER), f"{_MODE} brute", "use smart, quick or optuna")
    if config.num_top_model_configs and not config.has("constraints", "latency_budget", "min_throughput"):
        raise UsageError(
            f"{called('num_top_model_configs')} needs constraints for all models",
            remedy="give a constraints section at the top level, --latency-budget or --min-throughput",
        )
    if config.run_config_search_mode != "quick":
        return
    listed = [
        called(name)
        for name in ("run_config_search_disable", "concurrency", "batch_sizes")
        if is_on(config, name)
    ]
    listed += [
        f"{model.where}.parameters.concurrency"
        for model in config.profile_models
        if "concurrency" in model.own.get("parameters", {})
    ]
    for name in listed:
        raise _mismatch(name, f"{_MODE} quick", "leave it out, or use brute or optuna")
    for model in config.profile_models:
        _check_quick_sweep(model)


def _check_quick_sweep(model: ModelEntry) -> None:
    swept = model.own.get("model_config_parameters", {})
    where = f"{model.where}.model_config_parameters"
    for name in ("max_batch_size", "instance_group"):
        if name in swept:
            second = f"{_MODE} quick, which varies it"
            raise _mismatch(f"{where}.{name}", second, "leave it out, or use brute")
    for row in message_choices(model_config.message().DESCRIPTOR, swept, where):
        if len(row.choices) > 1:
            raise UsageError(
                f"{where}.{row.field} has {len(row.choices)} choices, but {_MODE} quick supports only one",
                remedy="give one value, or use brute",
            )


def _check_composing(config: Config) -> None:
    if not config.bls_composing_models:
        return
    name = called("bls_composing_models")
    if is_brute_explicit(config):
        raise _mismatch(name, f"{_MODE} brute", "use quick")
    if getattr(config, _TOGETHER):
        raise _conflict("bls_composing_models", _TOGETHER, "a BLS model is tuned alone")
    count = len(config.profile_models)
    if count > 1:
        raise UsageError(
            f"{name} requires a single model in {called('profile_models')}, but there are {count}",
            remedy="profile the BLS model alone",
        )


def _check_server(config: Config) -> None:
    mode = config.triton_launch_mode
    if config.dcgm_disable and mode != "remote":
        raise UsageError(
            f"{called('dcgm_disable')} requires {called('triton_launch_mode')} remote, but it is {mode}",
            remedy="leave it out",
        )
    endpoint = f"triton_{config.client_protocol}_endpoint"
    if mode == "remote" and not getattr(config, endpoint):
        raise UsageError(f"{called(endpoint)} is empty", remedy="give the address of the server")
    if mode == "docker" and not config.triton_docker_image:
        raise UsageError(f"{called('triton_docker_image')} is empty", remedy="give the image of the server")
    for mount in config.triton_docker_mounts if mode == "docker" else ():
        if mount.count(":") != 2:
            raise UsageError(
                f"{called('triton_docker_mounts')} has '{mount}'", remedy="write it as host:container:mode"
            )


def _check_llm(config: Config) -> None:
    if config.model_type == LLM:
        llm = f"{called('model_type')} LLM"
        if config.has("perf_analyzer_path"):
            second = f"{called('perf_analyzer_path')}: the built-in load generator measures tokens"
            raise _mismatch(llm, second, "leave it out")
        if config.triton_launch_mode == IN_PROCESS:
            second = f"{called('triton_launch_mode')} {IN_PROCESS}: tokens are measured over gRPC"
            raise _mismatch(llm, second, "use local, docker or remote")
        return
    models = config.profile_models
    paths = ["genai_perf_flags"] if config.genai_perf_flags else []
    paths += [f"{row.where}.genai_perf_flags" for row in models if "genai_perf_flags" in row.own]
    for path in paths:
        raise UsageError(
            f"{path} requires {called('model_type')} LLM",
            remedy="give --model-type LLM, or leave it out",
        )


def warnings(config: Config) -> Iterator[str]:
    """Yield a warning for each accepted setting without effect."""
    mode = config.triton_launch_mode
    if config.has_old_names:
        yield f"{OLD_LATENCY} is deprecated: write {LATENCY_P99}"
    for name, key in KEYS.items():
        if key.mode not in ("", mode) and getattr(config, name):
            yield f"{called(name)} has no effect in launch mode {mode}"
    for name in ("triton_server_flags", "triton_output_path"):
        if mode == IN_PROCESS and getattr(config, name):
            yield f"{called(name)} has no effect in launch mode {mode}: no server is started"
    for name, key in KEYS.items():
        if key.is_of_program and config.has(name) and not config.has("perf_analyzer_path"):
            yield (
                f"{called(name)} has no effect on the built-in load generator; "
                f"{called('perf_analyzer_path')} selects another one"
            )
    if config.run_config_search_mode != "smart" and config.has("budget"):
        yield f"{called('budget')} has no effect on the search mode {config.run_config_search_mode}"
    if mode != IN_PROCESS:
        yield from _owned("triton_server_flags", config.triton_server_flags)
    for model in config.profile_models:
        yield from _model_warnings(config, model)


def _model_warnings(config: Config, model: ModelEntry) -> Iterator[str]:
    where, flags = f"{model.where}.triton_server_flags", model.own.get("triton_server_flags", ())
    if config.triton_launch_mode != IN_PROCESS:
        yield from _owned(where, flags)
    elif flags:
        yield f"{where} has no effect in launch mode {IN_PROCESS}"
    yield from _token_warnings(config, model)
    for name, _ in () if config.has("perf_analyzer_path") else config.flags(model):
        if name in SET_BY_TUNER:
            where = f"{model.path('perf_analyzer_flags')}.{name}"
            yield f"{where} has no effect on the built-in load generator: {SET_BY_TUNER[name]}"
    if "triton_docker_args" in model.own:
        yield f"{model.where}.triton_docker_args has no effect: set it at the top level"


def _owned(where: str, flags: Sequence[tuple[str, str]]) -> Iterator[str]:
    for name, _ in flags:
        if name in OWN_SERVER_FLAGS:
            yield f"{where}.{name} has no effect: the tool sets it itself"


def _token_warnings(config: Config, model: ModelEntry) -> Iterator[str]:
    """Yield a warning for each token metric in use that will have no value."""
    goal = config.goal(model)
    wanted = [
        tag for tag in (*dict(goal.objectives), *(row.tag for row in goal.constraints)) if tag in TOKEN_TAGS
    ]
    if config.model_type != LLM:
        for tag in wanted:
            yield f"{tag} has no effect: it is measured only with {called('model_type')} LLM"
        return
    flags = model.own.get("genai_perf_flags", config.genai_perf_flags)
    counted = ("output_token_throughput",) if flags.get("service-kind") == "openai" else ()
    for tag in () if flags.get("streaming", True) else wanted:
        if tag not in counted:
            yield f"{tag} has no effect: it is not measured without streaming"


# --- folders, models, ports


def check_profile(config: Config, settings: TuneSettings) -> tuple[str, ...]:
    """Return warnings; raise for settings that cannot work."""
    launch = settings.launch
    for folder in launch.repositories:
        if not folder.is_dir():
            raise UsageError(
                f"the model repository '{folder}' is not an existing folder",
                remedy="check --model-repository",
            )
    check_settings(settings, sends=not config.has("perf_analyzer_path"))
    check_folder(config.export_path, "--export-path")
    check_folder(config.checkpoint_directory, "--checkpoint-directory")
    _check_output(config)
    found = tuple(text for model in settings.models for text in _check_members(config, settings, model))
    open_deployment(launch)  # does not start it, only looks for its program
    if launch.mode in ("local", "docker"):
        _check_ports(settings)
    return found


def check_folder(path: Path, option: str) -> None:
    """Raise if a folder could not be created later."""
    if path.exists() and not path.is_dir():
        raise UsageError(f"{option} '{path}' is a file", remedy="give a folder")
    parent = path.absolute().parent
    if not parent.is_dir():
        raise UsageError(f"{option} '{path}': the folder '{parent}' does not exist", remedy="create it first")


def _check_output(config: Config) -> None:
    path = config.output_model_repository_path
    if not path.absolute().parent.is_dir():
        raise UsageError(
            f"the folder '{path.absolute().parent}' of --output-model-repository-path does not exist",
            remedy="create it, or give another path",
        )
    if path.exists() and not path.is_dir():
        raise UsageError(f"--output-model-repository-path '{path}' is a file", remedy="give another path")
    if path.exists() and not config.override_output_model_repository:
        raise UsageError(
            f"the output model repository '{path}' already exists",
            remedy="give --override-output-model-repository to replace it, or another --output-model-repository-path",
        )
    kept = (config.model_repository, config.checkpoint_directory, config.export_path, Path())
    for folder in kept:
        if path.exists() and folder is not None and folder.resolve().is_relative_to(path.resolve()):
            raise UsageError(
                f"--output-model-repository-path '{path}' would be emptied, but it contains '{folder.resolve()}'",
                remedy="give a separate folder",
            )


def _check_members(config: Config, settings: TuneSettings, model: ModelSettings) -> list[str]:
    found = model_config.read_model(settings.launch.repositories, model.name)
    if found is None:
        return []
    members = model_config.members(found)
    if members and is_brute_explicit(config):
        raise UsageError(
            f"'{model.name}' is an ensemble, which --run-config-search-mode brute cannot search",
            remedy="use quick, optuna or smart",
        )
    if settings.cpu_only_members and not members and not model.is_bls:
        raise UsageError(
            f"--cpu-only-composing-models is given, but '{model.name}' is neither an ensemble nor a BLS model",
            remedy="leave it out, or name its members with --bls-composing-models",
        )
    if model.is_bls:
        return []
    lost = [
        f"{model.where}.{name} has no effect: "
        + (
            "an ensemble takes the smallest of its members"
            if name == "max_batch_size"
            else "an ensemble has none"
        )
        + f"; list it for the members, below {called('ensemble_composing_models')}"
        for name in ("max_batch_size", "instance_group")
        if members and name in (model.swept or ())
    ]
    return lost + [
        f"'{row.name}' of --ensemble-composing-models is not called by '{model.name}', so it is ignored"
        for row in model.members
        if row.name not in members
    ]


def _check_ports(settings: TuneSettings) -> None:
    try:
        choose_ports(settings.launch.ports)
    except UsageError as error:
        raise UsageError(
            f"{error.message}: another application uses the port",
            remedy="stop it, or give other ports with --triton-http-endpoint, --triton-grpc-endpoint and "
            "--triton-metrics-url",
        ) from error


def check_report(config: Config) -> Mapping[str, tuple[Plot, ...] | None]:
    """Return the variants to report on, each with its own plots."""
    if not config.report_model_configs:
        raise UsageError(
            "report_model_configs is not specified: no variant to report on",
            remedy="give --report-model-configs with names such as MODEL_config_0",
        )
    for name in config.output_formats:
        if name not in FORMATS:
            raise UsageError(
                f"{called('output_formats')} has '{name}'", remedy=f"it takes {', '.join(FORMATS)}"
            )
    if not config.export_path.is_dir():
        raise UsageError(
            f"--export-path '{config.export_path}' is not an existing folder",
            remedy="create it, or give another path",
        )
    check_folder(config.checkpoint_directory, "--checkpoint-directory")
    return config.report_model_configs
