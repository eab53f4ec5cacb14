"""All options and YAML keys: one field each, with its type, reader, default and help.

The parser, its help, the reader of the YAML file and the values for the commands are derived from these fields.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.dialects.model_analyzer.flags import (
    Flags,
    docker_args,
    genai_flags,
    load_flags,
    server_flags,
)
from inferometer.dialects.model_analyzer.values import (
    Plot,
    Read,
    Weights,
    choice,
    flag,
    gpu_names,
    ints,
    limits,
    mapping,
    maybe_empty,
    named_variants,
    number,
    only,
    path_of,
    plot_list,
    some_texts,
    text,
    texts,
    texts_by_name,
    weighting_at_top,
    weights,
    whole,
    wrong,
)
from inferometer.stats.figures import LATENCY_P99, THROUGHPUT
from inferometer.tune import model_config
from inferometer.tune.scoring import LISTED_WEIGHT, Constraint, Goal, with_limit
from inferometer.tune.space import message_choices

PROFILE, REPORT = "profile", "report"
_BOTH = (PROFILE, REPORT)
SEARCH_MODES = ("brute", "quick", "optuna", "smart")
FORMATS = ("pdf", "csv", "png", "html", "md")
LLM = "LLM"
JOURNAL = "journal.sqlite"

INFERENCE_FIELDS = (
    "model_name", "batch_size", "concurrency", "model_config_path", "instance_group", "max_batch_size",
    "satisfies_constraints", "perf_throughput", "perf_latency_p99",
)  # fmt: skip
GPU_FIELDS = (
    "model_name", "gpu_uuid", "batch_size", "concurrency", "model_config_path", "instance_group",
    "satisfies_constraints", "gpu_used_memory", "gpu_utilization", "gpu_power_usage",
)  # fmt: skip
TOKEN_FIELDS = ("inter_token_latency_p99", "time_to_first_token_p99", "output_token_throughput")
SERVER_FIELDS = ("model_name", "gpu_uuid", "gpu_used_memory", "gpu_utilization", "gpu_power_usage")

# --- models


@frozen
class ModelEntry:
    """A model with its own settings; `where` is its dotted path."""

    name: str
    where: str
    own: Mapping[str, Any] = field(default_factory=dict)

    def path(self, key: str) -> str:
        """Return the dotted path of a key, in the model or, if it has none, at the top level."""
        return f"{self.where}.{key}" if key in self.own else key


def _parameters(path: str, value: Any) -> Mapping[str, tuple[int, ...]]:
    names = ("batch_sizes", "concurrency", "request_rate")
    remedy = "those are batch_sizes, concurrency and request_rate"
    found = only(names, path, value, "a parameter of the load", remedy)
    return {name: ints(f"{path}.{name}", row) for name, row in found.items() if row is not None}


def _swept(path: str, value: Any) -> Mapping[str, Any]:
    found = mapping(path, value)
    message_choices(model_config.message().DESCRIPTOR, found, path)
    return found


MODEL_KEYS: Mapping[str, Read] = {
    "cpu_only": flag,
    "parameters": _parameters,
    "objectives": weights,
    "constraints": limits,
    "weighting": whole(1),
    "model_config_parameters": _swept,
    "perf_analyzer_flags": load_flags,
    "genai_perf_flags": genai_flags,
    "triton_server_flags": server_flags,
    "triton_server_environment": texts_by_name,
    "triton_docker_args": docker_args,
}


# Keys that are none by default; an empty value says so.
EMPTY_IS_NONE = frozenset(
    {
        "concurrency", "request_rate", "constraints", "plots", "perf_analyzer_flags", "genai_perf_flags",
        "triton_server_flags", "triton_server_environment", "triton_docker_labels", "triton_docker_args",
        "triton_docker_mounts", "triton_docker_shm_size", "cpu_only_composing_models", "perf_output_path",
        "triton_output_path",
    }
)  # fmt: skip


def models(path: str, value: Any) -> tuple[ModelEntry, ...]:
    """Read `profile_models` and the like: names with commas, a list of names and one-entry mappings, or a mapping of
    names to settings."""
    if isinstance(value, str):
        pairs = [(name.strip(), None) for name in value.split(",") if name.strip()]
    elif isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, list):
        pairs = [pair for place, item in enumerate(value) for pair in _pairs(f"{path}[{place}]", item)]
    else:
        raise wrong(path, value, "names with commas, a list of names, or a mapping of names to settings")
    found: dict[str, ModelEntry] = {}
    for name, own in pairs:
        row = _model(path, name, own)
        if row.name in found:
            raise UsageError(f"{path} names '{row.name}' twice", remedy="name every model once")
        found[row.name] = row
    return tuple(found.values())


def _pairs(path: str, item: Any) -> list[tuple[Any, Any]]:
    return list(item.items()) if isinstance(item, Mapping) else [(text(path, item), None)]


def _model(path: str, name: Any, own: Any) -> ModelEntry:
    where = f"{path}.{text(path, name)}"
    if own is None:
        return ModelEntry(str(name), where)
    given = only(MODEL_KEYS, where, own, "a setting of a model", f"those are {', '.join(MODEL_KEYS)}")
    found = {
        key: MODEL_KEYS[key](f"{where}.{key}", value) for key, value in given.items() if value is not None
    }
    return ModelEntry(str(name), where, found)


# --- all keys


# The first key of each group in the help.
GROUPS = {
    "config_file": "Files and folders",
    "batch_sizes": "Load and search",
    "perf_analyzer_path": "Load generator",
    "triton_launch_mode": "Server and metrics",
    "report_model_configs": "",
}


@frozen
class Key:
    """How a field of `Config` is written and read; `is_word` if it is also a command-line option."""

    read: Read
    help: str = ""
    shown: str = ""  # the default in the help, if it differs from the value
    short: str = ""
    kind: type[Any] = str  # type on the command line; bool is a switch
    choices: tuple[str, ...] = ()
    commands: tuple[str, ...] = (PROFILE,)
    is_word: bool = True
    mode: str = ""  # the only launch mode in which it has an effect
    is_of_program: bool = False  # affects only external load generators


def _key(read: Read, help: str, *, default: Any = None, **rest: Any) -> Any:
    made = Key(read, help, **rest)
    if isinstance(default, dict):
        return field(default_factory=dict, metadata={"key": made})
    return field(default=default, metadata={"key": made})


def _switch(help: str, **rest: Any) -> Any:
    return _key(flag, help, default=False, kind=bool, **rest)


def _count(least: int, default: int | None, help: str, **rest: Any) -> Any:
    return _key(whole(least), help, default=default, kind=int, **rest)


def _choice(values: tuple[str, ...], help: str) -> Any:
    return _key(choice(*values), help, default=values[0], choices=values)


def _yaml(read: Read, **rest: Any) -> Any:
    return _key(read, "", is_word=False, **rest)


@dataclass(frozen=True, kw_only=True)
class Config:
    """All settings of a command; `given` are the keys that the user set, on the command line or in YAML."""

    command: str = PROFILE
    mode: str = "online"
    is_quiet: bool = False
    is_verbose: bool = False
    given: frozenset[str] = frozenset()
    has_old_names: bool = False  # of metrics

    # fmt: off
    # ruff: noqa: RUF009
    config_file: Path | None = _key(path_of, "YAML file with any of these settings", short="f", commands=_BOTH)
    model_repository: Path | None = _key(path_of, "folder of the models", short="m")
    profile_models: tuple[ModelEntry, ...] = _key(
        models, "models to profile, separated by commas", default=(),
    )
    output_model_repository_path: Path = _key(
        path_of, "folder for the variants", default=Path("output_model_repository"),
    )
    override_output_model_repository: bool = _switch("replace that folder if it exists")
    checkpoint_directory: Path = _key(
        path_of, "folder for the journal and the checkpoints", default=Path("checkpoints"), short="s", commands=_BOTH,
    )
    export_path: Path = _key(
        path_of, "folder for tables, plots and reports", default=Path(), short="e", commands=_BOTH,
    )
    filename_model_inference: str = _key(text, "name of the inference table", default="metrics-model-inference.csv")
    filename_model_gpu: str = _key(text, "name of the GPU table", default="metrics-model-gpu.csv")
    filename_server_only: str = _key(text, "name of the server's table", default="metrics-server-only.csv")
    inference_output_fields: tuple[str, ...] | None = _key(
        some_texts, "columns of the inference table", shown=",".join(INFERENCE_FIELDS),
    )
    gpu_output_fields: tuple[str, ...] | None = _key(
        some_texts, "columns of the GPU table", shown=",".join(GPU_FIELDS),
    )
    server_output_fields: tuple[str, ...] | None = _key(
        some_texts, "columns of the server's table", shown=",".join(SERVER_FIELDS),
    )
    num_configs_per_model: int = _count(1, 3, "number of best variants per model in reports")
    num_top_model_configs: int = _count(0, 0, "number of best variants across all models in a separate summary")
    skip_summary_reports: bool = _switch("skip tables, plots and reports")
    skip_detailed_reports: bool = _switch("skip detailed reports; print the command that writes them")
    always_report_gpu_metrics: bool = _switch("report GPU figures even if all variants run on the CPU", commands=_BOTH)
    batch_sizes: tuple[int, ...] | None = _key(ints, "client batch sizes", shown="1", short="b")
    concurrency: tuple[int, ...] | None = _key(ints, "concurrencies to measure instead of searching", short="c")
    request_rate: tuple[int, ...] | None = _key(ints, "request rates to measure (requests/s)")
    request_rate_search_enable: bool = _switch("search over request rates instead of concurrencies")
    run_config_search_mode: str = _choice(SEARCH_MODES, "search algorithm")
    run_config_search_disable: bool = _switch("do not search: measure only the listed values")
    run_config_search_min_concurrency: int = _count(1, 1, "lowest concurrency")
    run_config_search_max_concurrency: int = _count(1, 1024, "highest concurrency")
    run_config_search_min_request_rate: int = _count(1, 16, "lowest request rate")
    run_config_search_max_request_rate: int = _count(1, 8192, "highest request rate")
    run_config_search_min_instance_count: int = _count(1, 1, "minimum number of instances")
    run_config_search_max_instance_count: int = _count(1, 5, "maximum number of instances")
    run_config_search_min_model_batch_size: int = _count(1, 1, "smallest max_batch_size")
    run_config_search_max_model_batch_size: int = _count(1, 128, "largest max_batch_size")
    run_config_search_max_binary_search_steps: int = _count(0, 5, "steps of the binary search around a constraint")
    run_config_profile_models_concurrently_enable: bool = _switch("load all models together")
    concurrency_sweep_disable: bool = _switch("skip the sweep of the best variants after quick and optuna")
    early_exit_enable: bool = _switch("end listed sweeps early when throughput has saturated")
    min_percentage_of_search_space: int = _count(0, 5, "optuna: minimum share of the space to try, in %")
    max_percentage_of_search_space: int = _count(1, 10, "optuna: maximum share of the space to try, in %")
    optuna_min_trials: int | None = _count(1, None, "optuna: minimum number of trials")
    optuna_max_trials: int | None = _count(1, None, "optuna: maximum number of trials")
    optuna_early_exit_threshold: int = _count(1, 10, "optuna: stop after this many trials without improvement")
    use_concurrency_formula: bool = _switch("optuna: concurrency = 2 x instances x max_batch_size")
    bls_composing_models: tuple[ModelEntry, ...] | None = _key(models, "models a BLS model calls")
    ensemble_composing_models: tuple[ModelEntry, ...] | None = _key(models, "settings for the members of an ensemble")
    cpu_only_composing_models: tuple[str, ...] = _key(texts, "members to run on the CPU", default=())
    latency_budget: float | None = _key(number(above=True), "maximum p99 latency, in ms", kind=float)
    min_throughput: float | None = _key(number(), "minimum throughput, in infer/s", kind=float)
    model_type: str = _choice(("generic", "LLM"), "kind of model; LLM also measures tokens")
    budget: str | None = _key(text, "smart: stop after this time with the best so far, such as 5m")
    seed: int | None = _count(0, None, "seed of the search; the same seed repeats it")
    perf_analyzer_path: str | None = _key(
        text, "external load generator to use", shown="built in",
    )
    perf_analyzer_timeout: int = _count(1, 600, "maximum seconds for one of its runs")
    perf_analyzer_cpu_util: float | None = _key(
        number(above=True), "maximum CPU it may use, in %", kind=float, shown="80 x CPUs", is_of_program=True,
    )
    perf_analyzer_max_auto_adjusts: int = _count(
        1, 10, "maximum number of restarts with larger windows", is_of_program=True,
    )
    perf_output: bool = _switch("show its output", is_of_program=True)
    perf_output_path: Path | None = _key(path_of, "file for its output", is_of_program=True)
    client_protocol: str = _choice(("grpc", "http"), "protocol of load and control")
    client_max_retries: int = _count(1, 50, "seconds to wait for the server and its models", short="r")
    triton_launch_mode: str = _choice(("local", "docker", "remote", "c_api"), "where the server runs")
    triton_server_path: str | None = _key(
        text, "server to start", shown="tritonserver, or the embedded one", mode="local",
    )
    triton_install_path: str | None = _key(
        text, "folder of the server's library (c_api)", shown="/opt/tritonserver", mode="c_api",
    )
    triton_docker_image: str = _key(
        maybe_empty, "image of the server (docker)", default="nvcr.io/nvidia/tritonserver:26.09-py3",
    )
    triton_docker_mounts: tuple[str, ...] = _key(
        texts, "host:container:mode, separated by commas (docker)", default=(), mode="docker",
    )
    triton_docker_shm_size: str | None = _key(text, "shared memory of the container, such as 1G", mode="docker")
    triton_http_endpoint: str = _key(maybe_empty, "HTTP address", default="localhost:8000")
    triton_grpc_endpoint: str = _key(maybe_empty, "gRPC address", default="localhost:8001")
    triton_metrics_url: str = _key(text, "metrics page", default="http://localhost:8002/metrics")
    triton_output_path: Path | None = _key(path_of, "file for the server's log")
    reload_model_disable: bool = _switch("never load or unload models (remote)", mode="remote")
    monitoring_interval: float = _key(
        number(above=True), "seconds between samples of metrics", default=1.0, short="i", kind=float,
    )
    duration_seconds: float = _key(
        number(), "seconds to observe the idle server", default=3.0, short="d", kind=float,
    )
    collect_cpu_metrics: bool = _switch("no effect: the memory of a server started by this tool is always shown")
    gpus: tuple[str, ...] | None = _key(gpu_names, "GPUs to use: all, UUIDs or numbers", shown="all")
    dcgm_disable: bool = _switch("do not read GPU metrics (remote)")
    objectives: Weights | None = _yaml(weights)
    constraints: tuple[Constraint, ...] | None = _yaml(limits)
    weighting: None = _yaml(weighting_at_top)
    perf_analyzer_flags: Flags = _yaml(load_flags, default=())
    genai_perf_flags: Mapping[str, Any] = _yaml(genai_flags, default={})
    triton_server_flags: tuple[tuple[str, str], ...] = _yaml(server_flags, default=())
    triton_server_environment: Mapping[str, str] = _yaml(texts_by_name, default={})
    triton_docker_labels: Mapping[str, str] = _yaml(texts_by_name, default={}, mode="docker")
    triton_docker_args: tuple[str, ...] = _yaml(docker_args, default=(), mode="docker")
    plots: tuple[Plot, ...] | None = _yaml(plot_list, commands=_BOTH)
    report_model_configs: Mapping[str, tuple[Plot, ...] | None] | None = _key(
        named_variants, "variants to report on, separated by commas", short="n", commands=(REPORT,),
    )
    output_formats: tuple[str, ...] = _key(
        some_texts, f"any of {', '.join(FORMATS)}", default=("pdf",), short="o", commands=(REPORT,),
    )
    # fmt: on

    def has(self, *names: str) -> bool:
        return any(name in self.given for name in names)

    def lines(self) -> Iterator[str]:
        """Yield the effective settings of the command, without possible secrets."""
        for name in keys_of(self.command):
            yield f"{name}: {_shown(name, getattr(self, name))}"

    @property
    def journal(self) -> Path:
        return self.checkpoint_directory / JOURNAL

    def goal(self, model: ModelEntry) -> Goal:
        """Return the objectives and constraints of a model."""
        limits: tuple[Constraint, ...] = model.own.get("constraints", self.constraints) or ()
        if self.latency_budget is not None:
            limits = with_limit(limits, Constraint(LATENCY_P99, high=self.latency_budget))
        if self.min_throughput is not None:
            limits = with_limit(limits, Constraint(THROUGHPUT, low=self.min_throughput))
        objectives = model.own.get("objectives", self.objectives) or ((THROUGHPUT, LISTED_WEIGHT),)
        return Goal(model.name, objectives, limits, float(model.own.get("weighting", 1)))

    def flags(self, model: ModelEntry) -> Flags:
        """Return the load generator's flags for a model."""
        found: Flags = model.own.get("perf_analyzer_flags", self.perf_analyzer_flags)
        return found

    @property
    def flags_by_model(self) -> Mapping[str, Flags]:
        return {model.name: self.flags(model) for model in self.profile_models}


KEYS: Mapping[str, Key] = {row.name: row.metadata["key"] for row in fields(Config) if "key" in row.metadata}
DEFAULTS = Config()


def keys_of(command: str) -> list[str]:
    """Return the keys of a command; `analyze` has those of `profile`."""
    owner = REPORT if command == REPORT else PROFILE
    return [name for name, key in KEYS.items() if owner in key.commands]


def option(name: str) -> str:
    """Return the command-line spelling of a key."""
    return "--" + name.replace("_", "-")


def called(name: str) -> str:
    """Return a key's name for messages: as an option, if it is one, and as in the file."""
    return f"{option(name)} ({name})" if KEYS[name].is_word else name


_SECRETS = ("http-header", "triton_server_environment", "triton_docker_args")


def _shown(name: str, value: Any) -> Any:
    if name in _SECRETS and value:
        return "given, not shown"
    if isinstance(value, Mapping):
        return {key: _shown(str(key), row) for key, row in value.items()}
    if isinstance(value, ModelEntry):
        return {value.name: _shown("", value.own)} if value.own else value.name
    if isinstance(value, tuple) and all(isinstance(row, tuple) and len(row) == 2 for row in value):
        return {str(key): _shown(str(key), row) for key, row in value}
    return [_shown("", row) for row in value] if isinstance(value, tuple) else value
