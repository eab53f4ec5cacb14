"""Rules between options, checked before anything starts."""

from collections.abc import Iterator, Sequence

from inferometer.base.errors import UsageError
from inferometer.dialects.model_analyzer.asked import Asked
from inferometer.dialects.model_analyzer.keys import BY_NAME
from inferometer.dialects.model_analyzer.models import ModelAsked
from inferometer.tune import model_config
from inferometer.tune.metrics import LATENCY_P99, OLD_LATENCY
from inferometer.tune.settings import IN_PROCESS
from inferometer.tune.space import message_choices

CONCURRENCY_BOUNDS = ("run_config_search_min_concurrency", "run_config_search_max_concurrency")
RATE_BOUNDS = ("run_config_search_min_request_rate", "run_config_search_max_request_rate")
BY_RATE = ("request_rate", "request_rate_search_enable", *RATE_BOUNDS)
_SPANS = ("concurrency", "request_rate", "instance_count", "model_batch_size")


def check(asked: Asked) -> None:
    """Refuses what does not fit together; the message names both options."""
    _check_bounds(asked)
    _check_loads(asked)
    _check_search(asked)
    _check_composing(asked)
    _check_server(asked)


def option(name: str) -> str:
    return f"{BY_NAME[name].option} ({name})" if BY_NAME[name].is_word else name


def _conflict(first: str, second: str, why: str) -> UsageError:
    return UsageError(
        f"{option(first)} and {option(second)} do not go together: {why}", remedy="give one of them"
    )


def is_on(asked: Asked, name: str) -> bool:
    """Given, and not a flag that was given as false."""
    return asked.has(name) and asked[name] is not False


def _check_bounds(asked: Asked) -> None:
    for noun in _SPANS:
        low, high = f"run_config_search_min_{noun}", f"run_config_search_max_{noun}"
        if asked[low] > asked[high]:
            raise UsageError(
                f"{option(low)} is {asked[low]} and {option(high)} is {asked[high]}",
                remedy="give a lowest value that is not above the highest",
            )
    low, high = "min_percentage_of_search_space", "max_percentage_of_search_space"
    if asked[low] > asked[high]:
        raise UsageError(f"{option(low)} is {asked[low]} and {option(high)} is {asked[high]}")
    fewest, most = asked["optuna_min_trials"], asked["optuna_max_trials"]
    if fewest is not None and most is not None and fewest > most:
        raise UsageError(
            f"{option('optuna_min_trials')} is {fewest} and {option('optuna_max_trials')} is {most}"
        )


def _check_loads(asked: Asked) -> None:
    for first in ("concurrency", *CONCURRENCY_BOUNDS):
        for second in BY_RATE:
            if is_on(asked, first) and is_on(asked, second):
                raise _conflict(first, second, "a run has a concurrency or a request rate")
    by_rate = []
    for model in asked["profile_models"] or ():
        concurrency, rates = loads_of(asked, model)
        if concurrency is not None and rates is not None:
            raise UsageError(
                f"{model.where} has both concurrency and request_rate", remedy="give the model one of them"
            )
        by_rate.append(rates is not None)
    if any(by_rate) and not all(by_rate):
        raise UsageError(
            "some models have a request_rate and some have none",
            remedy="give request_rate to all of them, or to none",
        )


def loads_of(asked: Asked, model: ModelAsked) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
    """Concurrencies and request rates listed for a model, its own or inherited."""
    own = model.get("parameters", {})
    rates = own.get("request_rate", asked["request_rate"])
    inherited = None if "request_rate" in own else asked["concurrency"]
    return own.get("concurrency", inherited), rates


def is_explicit(asked: Asked, mode: str) -> bool:
    return asked.has("run_config_search_mode") and asked["run_config_search_mode"] == mode


def _check_search(asked: Asked) -> None:
    together = "run_config_profile_models_concurrently_enable"
    models: Sequence[ModelAsked] = asked["profile_models"] or ()
    if asked[together] and is_explicit(asked, "brute"):
        raise UsageError(
            f"{option(together)} does not go with {option('run_config_search_mode')} brute",
            remedy="take smart, quick or optuna",
        )
    if asked["num_top_model_configs"] and not asked.has("constraints", "latency_budget", "min_throughput"):
        raise UsageError(
            f"{option('num_top_model_configs')} needs constraints for all models",
            remedy="give a constraints section at the top level, --latency-budget or --min-throughput",
        )
    if asked["run_config_search_mode"] != "quick":
        return
    for name in ("run_config_search_disable", "concurrency", "batch_sizes"):
        if is_on(asked, name):
            raise UsageError(
                f"{option(name)} does not go with {option('run_config_search_mode')} quick",
                remedy="leave it out, or take brute or optuna",
            )
    for model in models:
        _check_quick_model(model)


def _check_quick_model(model: ModelAsked) -> None:
    if "concurrency" in model.get("parameters", {}):
        raise UsageError(
            f"{model.where}.parameters.concurrency does not go with {option('run_config_search_mode')} quick",
            remedy="leave it out, or take brute or optuna",
        )
    swept = model.get("model_config_parameters", {})
    where = f"{model.where}.model_config_parameters"
    for name in ("max_batch_size", "instance_group"):
        if name in swept:
            raise UsageError(
                f"{where}.{name} does not go with {option('run_config_search_mode')} quick, which searches it",
                remedy="leave it out, or take brute",
            )
    for row in message_choices(model_config.message().DESCRIPTOR, swept, where):
        if len(row.choices) > 1:
            raise UsageError(
                f"{where}.{row.field} has {len(row.choices)} choices, and "
                f"{option('run_config_search_mode')} quick takes one",
                remedy="give one value, or take brute",
            )


def _check_composing(asked: Asked) -> None:
    if not asked["bls_composing_models"]:
        return
    name = option("bls_composing_models")
    if is_explicit(asked, "brute"):
        raise UsageError(
            f"{name} does not go with {option('run_config_search_mode')} brute", remedy="take quick"
        )
    if asked["run_config_profile_models_concurrently_enable"]:
        raise _conflict(
            "bls_composing_models",
            "run_config_profile_models_concurrently_enable",
            "a BLS model is tuned alone",
        )
    if len(asked["profile_models"] or ()) > 1:
        raise UsageError(
            f"{name} goes with one model in {option('profile_models')}, and there are "
            f"{len(asked['profile_models'])}",
            remedy="profile the BLS model alone",
        )


def _check_server(asked: Asked) -> None:
    mode = asked["triton_launch_mode"]
    if asked["dcgm_disable"] and mode != "remote":
        raise UsageError(
            f"{option('dcgm_disable')} goes with {option('triton_launch_mode')} remote only, and it is {mode}",
            remedy="leave it out",
        )
    endpoint = f"triton_{asked['client_protocol']}_endpoint"
    if mode == "remote" and not asked[endpoint]:
        raise UsageError(f"{option(endpoint)} is empty", remedy="give the address of the server")
    if mode == "docker" and not asked["triton_docker_image"]:
        raise UsageError(f"{option('triton_docker_image')} is empty", remedy="give the image of the server")
    for mount in asked["triton_docker_mounts"] if mode == "docker" else ():
        if mount.count(":") != 2:
            raise UsageError(
                f"{option('triton_docker_mounts')} has '{mount}'", remedy="write it as host:container:mode"
            )
    _check_llm(asked)


def _check_llm(asked: Asked) -> None:
    if asked["model_type"] == "LLM":
        llm = f"{option('model_type')} LLM does not go with"
        if asked.has("perf_analyzer_path"):
            raise UsageError(
                f"{llm} {option('perf_analyzer_path')}: the built-in load generator measures tokens",
                remedy="leave it out",
            )
        if asked["triton_launch_mode"] == IN_PROCESS:
            raise UsageError(
                f"{llm} {option('triton_launch_mode')} {IN_PROCESS}: tokens are measured over gRPC",
                remedy="take local, docker or remote",
            )
        return
    models = asked["profile_models"] or ()
    own = [f"{row.where}.genai_perf_flags" for row in models if "genai_perf_flags" in row.own]
    for path in (*(("genai_perf_flags",) if asked["genai_perf_flags"] else ()), *own):
        raise UsageError(
            f"{path} goes with {option('model_type')} LLM only",
            remedy="give --model-type LLM, or leave it out",
        )


def warnings(asked: Asked) -> Iterator[str]:
    """What is accepted but has no effect here."""
    mode = asked["triton_launch_mode"]
    if asked.has_old_names:
        yield f"{OLD_LATENCY} is deprecated: write {LATENCY_P99}"
    for name in (
        "triton_docker_mounts",
        "triton_docker_labels",
        "triton_docker_args",
        "triton_docker_shm_size",
    ):
        if mode != "docker" and asked[name]:
            yield f"{option(name)} has no effect in launch mode {mode}"
    if mode != "remote" and asked["reload_model_disable"]:
        yield f"{option('reload_model_disable')} has no effect in launch mode {mode}"
    if mode != "local" and asked.has("triton_server_path"):
        yield f"{option('triton_server_path')} has no effect in launch mode {mode}"
    if mode != IN_PROCESS and asked.has("triton_install_path"):
        yield f"{option('triton_install_path')} has no effect in launch mode {mode}"
    for name in ("triton_server_flags", "triton_output_path"):
        if mode == IN_PROCESS and asked[name]:
            yield f"{option(name)} has no effect in launch mode {mode}: no server is started"
    if not asked.has("perf_analyzer_path"):
        for name in (
            "perf_analyzer_cpu_util", "perf_analyzer_max_auto_adjusts", "perf_output", "perf_output_path",
        ):  # fmt: skip
            if asked.has(name):
                yield (
                    f"{option(name)} has no effect on the built-in load generator; "
                    f"{option('perf_analyzer_path')} would use another one"
                )
    if asked["run_config_search_mode"] != "smart" and asked.has("budget"):
        yield f"{option('budget')} has no effect on the search mode {asked['run_config_search_mode']}"
