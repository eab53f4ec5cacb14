"""Every option and YAML key: a row each. Parser, help, YAML reader and defaults are made from this table."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inferometer.dialects.model_analyzer.docker_args import docker_args
from inferometer.dialects.model_analyzer.flags import load_flags, server_flags
from inferometer.dialects.model_analyzer.goals import constraints, objectives, weighting_at_top
from inferometer.dialects.model_analyzer.llm import genai_flags
from inferometer.dialects.model_analyzer.models import models
from inferometer.dialects.model_analyzer.plots import named_variants, plots
from inferometer.dialects.model_analyzer.values import (
    Read,
    choice,
    flag,
    gpus,
    ints,
    maybe_empty,
    number,
    path_of,
    some_texts,
    text,
    texts,
    texts_by_name,
    whole,
)

PROFILE, REPORT = "profile", "report"
SEARCH_MODES = ("brute", "quick", "optuna", "smart")
FORMATS = ("pdf", "csv", "png", "html", "md")

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


@dataclass(frozen=True, slots=True)
class Key:
    """`read` makes the value; `is_word` when it can stand on the command line too."""

    name: str
    read: Read
    help: str
    default: Any = None
    shown: str = ""  # the default in the help, where it is not the value itself
    short: str = ""
    group: str = ""
    kind: type[Any] = str  # of its word on the command line; bool is a flag
    choices: tuple[str, ...] = ()
    commands: tuple[str, ...] = (PROFILE,)
    is_word: bool = True

    @property
    def option(self) -> str:
        return "--" + self.name.replace("_", "-")


def _flag(name: str, help: str, **rest: Any) -> Key:
    return Key(name, flag, help, default=False, kind=bool, **rest)


def _count(name: str, least: int, default: int | None, help: str, **rest: Any) -> Key:
    return Key(name, whole(least), help, default=default, kind=int, **rest)


_BOTH = (PROFILE, REPORT)
_FILES = "Files and folders"
_LOAD = "Load and search"
_GENERATOR = "Load generator"
_SERVER = "Server and metrics"

KEYS = (
    Key("config_file", path_of, "YAML file with any of these settings", short="f", group=_FILES, commands=_BOTH),
    Key("model_repository", path_of, "folder of the models", short="m", group=_FILES),
    Key("profile_models", models, "models to profile: names with commas between them", group=_FILES),
    Key(
        "output_model_repository_path", path_of, "folder the variants are written to",
        default=Path("output_model_repository"), group=_FILES,
    ),
    _flag("override_output_model_repository", "replace that folder if it exists", group=_FILES),
    Key(
        "checkpoint_directory", path_of, "folder of the journal and the checkpoints",
        default=Path("checkpoints"), short="s", group=_FILES, commands=_BOTH,
    ),
    Key(
        "export_path", path_of, "folder of tables, plots and reports",
        default=Path(), short="e", group=_FILES, commands=_BOTH,
    ),
    Key(
        "filename_model_inference", text, "name of the inference table",
        default="metrics-model-inference.csv", group=_FILES,
    ),
    Key("filename_model_gpu", text, "name of the GPU table", default="metrics-model-gpu.csv", group=_FILES),
    Key("filename_server_only", text, "name of the server's table", default="metrics-server-only.csv", group=_FILES),
    Key(
        "inference_output_fields", some_texts, "columns of the inference table",
        shown=",".join(INFERENCE_FIELDS), group=_FILES,
    ),
    Key("gpu_output_fields", some_texts, "columns of the GPU table", shown=",".join(GPU_FIELDS), group=_FILES),
    Key(
        "server_output_fields", some_texts, "columns of the server's table",
        shown=",".join(SERVER_FIELDS), group=_FILES,
    ),
    _count("num_configs_per_model", 1, 3, "best variants of each model in reports", group=_FILES),
    _count("num_top_model_configs", 0, 0, "best variants of all models in a summary of their own", group=_FILES),
    _flag("skip_summary_reports", "write no tables, plots or reports", group=_FILES),
    _flag("skip_detailed_reports", "write no detailed reports; print the command that would", group=_FILES),
    _flag("always_report_gpu_metrics", "GPU figures even if all variants run on the CPU", group=_FILES, commands=_BOTH),
    Key("batch_sizes", ints, "client batch sizes", shown="1", short="b", group=_LOAD),
    Key("concurrency", ints, "concurrencies to measure, instead of searching", short="c", group=_LOAD),
    Key("request_rate", ints, "request rates to measure (requests/s)", group=_LOAD),
    _flag("request_rate_search_enable", "search the request rate instead of the concurrency", group=_LOAD),
    Key(
        "run_config_search_mode", choice(*SEARCH_MODES), "how to search",
        default="brute", choices=SEARCH_MODES, group=_LOAD,
    ),
    _flag("run_config_search_disable", "no search: only what is listed", group=_LOAD),
    _count("run_config_search_min_concurrency", 1, 1, "lowest concurrency", group=_LOAD),
    _count("run_config_search_max_concurrency", 1, 1024, "highest concurrency", group=_LOAD),
    _count("run_config_search_min_request_rate", 1, 16, "lowest request rate", group=_LOAD),
    _count("run_config_search_max_request_rate", 1, 8192, "highest request rate", group=_LOAD),
    _count("run_config_search_min_instance_count", 1, 1, "fewest instances", group=_LOAD),
    _count("run_config_search_max_instance_count", 1, 5, "most instances", group=_LOAD),
    _count("run_config_search_min_model_batch_size", 1, 1, "smallest max_batch_size", group=_LOAD),
    _count("run_config_search_max_model_batch_size", 1, 128, "largest max_batch_size", group=_LOAD),
    _count("run_config_search_max_binary_search_steps", 0, 5, "steps around a constraint", group=_LOAD),
    _flag("run_config_profile_models_concurrently_enable", "load all models together", group=_LOAD),
    _flag("concurrency_sweep_disable", "no sweep of the best variants after quick and optuna", group=_LOAD),
    _flag("early_exit_enable", "let listed sweeps stop where throughput stops growing", group=_LOAD),
    _count("min_percentage_of_search_space", 0, 5, "optuna: least share of the space to try, in %", group=_LOAD),
    _count("max_percentage_of_search_space", 1, 10, "optuna: largest share of the space to try, in %", group=_LOAD),
    _count("optuna_min_trials", 1, None, "optuna: fewest trials", group=_LOAD),
    _count("optuna_max_trials", 1, None, "optuna: most trials", group=_LOAD),
    _count("optuna_early_exit_threshold", 1, 10, "optuna: trials without a better one before it stops", group=_LOAD),
    _flag("use_concurrency_formula", "optuna: concurrency = 2 x instances x max_batch_size", group=_LOAD),
    Key("bls_composing_models", models, "models a BLS model calls", group=_LOAD),
    Key("ensemble_composing_models", models, "settings for the members of an ensemble", group=_LOAD),
    Key("cpu_only_composing_models", texts, "members to run on the CPU", default=(), group=_LOAD),
    Key("latency_budget", number(above=True), "largest p99 latency, in ms", kind=float, group=_LOAD),
    Key("min_throughput", number(), "least throughput, in infer/s", kind=float, group=_LOAD),
    Key(
        "model_type", choice("generic", "LLM"), "kind of model; of an LLM tokens are measured too",
        default="generic", choices=("generic", "LLM"), group=_LOAD,
    ),
    Key("budget", text, "smart: end in this time with the best so far, such as 5m", group=_LOAD),
    _count("seed", 0, None, "repeat a search as it was", group=_LOAD),
    Key(
        "perf_analyzer_path", text, "use this load generator instead of the built-in one",
        shown="built in", group=_GENERATOR,
    ),
    _count("perf_analyzer_timeout", 1, 600, "seconds one run of it may take", group=_GENERATOR),
    Key(
        "perf_analyzer_cpu_util", number(above=True), "most CPU it may use, in %",
        kind=float, shown="80 x CPUs", group=_GENERATOR,
    ),
    _count("perf_analyzer_max_auto_adjusts", 1, 10, "how often it is started with larger windows", group=_GENERATOR),
    _flag("perf_output", "show what it prints", group=_GENERATOR),
    Key("perf_output_path", path_of, "file for what it prints", group=_GENERATOR),
    Key(
        "client_protocol", choice("grpc", "http"), "protocol of load and control",
        default="grpc", choices=("grpc", "http"), group=_GENERATOR,
    ),
    _count(
        "client_max_retries", 1, 50, "seconds to wait until server and models are ready",
        short="r", group=_GENERATOR,
    ),
    Key(
        "triton_launch_mode", choice("local", "docker", "remote", "c_api"), "where the server runs",
        default="local", choices=("local", "docker", "remote", "c_api"), group=_SERVER,
    ),
    Key("triton_server_path", text, "server to start", shown="tritonserver, or the embedded one", group=_SERVER),
    Key(
        "triton_install_path", text, "folder of the server's library (c_api)",
        shown="/opt/tritonserver", group=_SERVER,
    ),
    Key(
        "triton_docker_image", maybe_empty, "image of the server (docker)",
        default="nvcr.io/nvidia/tritonserver:26.09-py3", group=_SERVER,
    ),
    Key(
        "triton_docker_mounts", texts, "host:container:mode, with commas between them (docker)",
        default=(), group=_SERVER,
    ),
    Key("triton_docker_shm_size", text, "shared memory of the container, such as 1G", group=_SERVER),
    Key("triton_http_endpoint", maybe_empty, "HTTP address", default="localhost:8000", group=_SERVER),
    Key("triton_grpc_endpoint", maybe_empty, "gRPC address", default="localhost:8001", group=_SERVER),
    Key("triton_metrics_url", text, "metrics page", default="http://localhost:8002/metrics", group=_SERVER),
    Key("triton_output_path", path_of, "file for the server's log", group=_SERVER),
    _flag("reload_model_disable", "never load or unload models (remote)", group=_SERVER),
    Key(
        "monitoring_interval", number(above=True), "seconds between samples of metrics",
        default=1.0, short="i", kind=float, group=_SERVER,
    ),
    Key(
        "duration_seconds", number(), "how long the idle server is watched",
        default=3.0, short="d", kind=float, group=_SERVER,
    ),
    _flag("collect_cpu_metrics", "accepted: the memory of a server of ours is always shown", group=_SERVER),
    Key("gpus", gpus, "GPUs to use: all, UUIDs or numbers", shown="all", group=_SERVER),
    _flag("dcgm_disable", "do not look at GPUs (remote)", group=_SERVER),
    Key("objectives", objectives, "", is_word=False),
    Key("constraints", constraints, "", is_word=False),
    Key("weighting", weighting_at_top, "", is_word=False),
    Key("perf_analyzer_flags", load_flags, "", default=(), is_word=False),
    Key("genai_perf_flags", genai_flags, "", default={}, is_word=False),
    Key("triton_server_flags", server_flags, "", default=(), is_word=False),
    Key("triton_server_environment", texts_by_name, "", default={}, is_word=False),
    Key("triton_docker_labels", texts_by_name, "", default={}, is_word=False),
    Key("triton_docker_args", docker_args, "", default=(), is_word=False),
    Key("plots", plots, "", is_word=False, commands=_BOTH),
    Key(
        "report_model_configs", named_variants, "variants to report on: names with commas between them",
        short="n", commands=(REPORT,),
    ),
    Key("output_formats", some_texts, f"any of {', '.join(FORMATS)}", default=("pdf",), short="o", commands=(REPORT,)),
)  # fmt: skip

BY_NAME = {key.name: key for key in KEYS}
