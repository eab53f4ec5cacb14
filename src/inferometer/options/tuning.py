"""Options of `tune` alone, and the options of a measurement that it does not support."""

from collections.abc import Mapping
from pathlib import Path

from inferometer.base.frozen import frozen
from inferometer.options import outputs, serving
from inferometer.options.groups import (
    ADDRESSES,
    CANCELLING,
    CHECKS,
    LEVEL_ACTIONS,
    OTHER_LOADS,
    OWN_LOADS,
    PROMPTS,
    THINKING,
    WINDOWS,
)
from inferometer.options.option import appended, option
from inferometer.options.reach import Reach
from inferometer.options.values import (
    bounds,
    choice,
    duration,
    label,
    microseconds,
    path,
    server_url,
    text,
    whole,
)

TUNE_LAUNCHED_ONLY = (
    *("concurrency", "request_rate", "service_kind", "endpoint", "output_tokens", "method", "path", "bodies"),
    *("body_template", "reply_paths", "data.prompts", "data.prompt_column", *PROMPTS, "no_streaming"),
)
"""Options of a measurement that `tune` supports only with --serve."""
TUNE_MODEL_ONLY: Mapping[str, str] = {
    "model_repository": "--model-repository",
    "launch_mode": "--triton-launch-mode",
    "install_path": "--triton-install-path",
    "instances": "--instances",
    "batch": "--max-batch",
    "delays": "--delays",
}
"""Options of `tune` alone that --serve does not support."""
TUNE_REFUSED: Mapping[str, str] = {
    **dict.fromkeys(
        (name for name in OTHER_LOADS if name not in TUNE_LAUNCHED_ONLY),
        f"{OWN_LOADS}: {{--load}} limits the range",
    ),
    **dict.fromkeys(
        (
            "warmup_s",
            "warmup_request_count",
            "ramp_s",
            "request_count",
            "precision",
            "time_limit_s",
            "duration_s",
            *WINDOWS,
        ),
        "{--budget} limits the time of the whole search",
    ),
    **dict.fromkeys(
        (
            "profile_export",
            "verbose_csv",
            "junit",
            *CANCELLING,
            *ADDRESSES,
            *LEVEL_ACTIONS,
            *THINKING,
            *CHECKS,
        ),
        "use it with `inferometer measure`",
    ),
    **dict.fromkeys(
        ("request_distribution", "burstiness", "sequences", "serial_sequences"),
        "it loads by concurrency: {--load} limits the range",
    ),
    **dict.fromkeys(
        ("percentile", "max_error_rate"), "make it part of the SLO, such as {--slo} 'p99<50ms, errors<1%'"
    ),
    **dict.fromkeys(
        (*("images", "audio_s", "grpc_method", "proto", "proto_paths", "signature", "management_url"),),
        "use it with `inferometer measure`",
    ),
    "asynchronous": "requests are always asynchronous here: leave it out",
    "workers": "one process generates the load of a trial: leave it out",
    **dict.fromkeys(
        ("clients", "client_resources"),
        "each server generates the load of its own trials: set their number with {--servers}",
    ),
    "triton_directory": "{--triton-install-path} names the folder of a library",
    **dict.fromkeys(
        ("dry_run", "show_reply"), "use it with `inferometer measure`: the requests depend on the trial"
    ),
}


@frozen
class TuneOptions:
    """Options of `tune` alone."""

    model: str = option(
        "-m --model", "Model to tune", label("NAME"), default="", group="Search", is_main=True
    )
    allow_inconclusive: bool = outputs.inconclusive_allowed()
    slo: str | None = option("--slo", "SLO to meet, such as 'p99<10ms'", label("SLO"), is_main=True)
    objective: str | None = option(
        "--objective",
        "What to optimise: throughput, latency, p50, p90, p95, p99, gpu memory or gpu power; several with weights, "
        "such as 'throughput:2, gpu power:1' (default: throughput)",
        label("WHAT"),
    )
    budget_s: float | None = option(
        "--budget", "Stop after this time with the best so far, such as 3m", duration(zero=True), is_main=True
    )
    model_repository: tuple[Path, ...] = option(
        "--model-repository",
        "Model repository for a server that `tune` starts (default: the example models)",
        path("DIR", Reach.RUNS_CODE),
        combine=appended,
        is_main=True,
    )
    url: str | None = option(
        "-u --url",
        "Tune on this server instead; its configuration is restored at the end",
        server_url("HOST:PORT"),
        is_main=True,
    )
    launch_mode: str = option(
        "--triton-launch-mode",
        "Where models are loaded; local: in a server that `tune` starts; c_api: in a worker process, without a server",
        choice("MODE", "local", "c_api"),
        default="local",
    )
    install_path: str | None = option(
        "--triton-install-path",
        "Folder of Triton's library for c_api (default: the embedded one)",
        text("DIR", Reach.RUNS_CODE),
    )
    servers: int | None = option(
        "--servers",
        "With --ray: number of servers to start there, each with a GPU or its share of the cores; trials run on all "
        "of them in parallel",
        whole(least=1),
    )
    search: str = option(
        "--search",
        "Search algorithm: smart, brute, quick or optuna",
        choice("NAME", "smart", "brute", "quick", "optuna"),
        default="smart",
        is_main=True,
    )
    instances: tuple[int, int] = option(
        "--instances", "Range of instance counts to try: lowest:highest", bounds, default=(1, 5), shown="1:5"
    )
    batch: tuple[int, int] = option(
        "--max-batch",
        "Range of the server's maximum batch size to try: lowest:highest",
        bounds,
        default=(1, 128),
        shown="1:128",
    )
    load: tuple[int, int] = option(
        "--load", "Range of concurrency to try: lowest:highest", bounds, default=(1, 1024), shown="1:1024"
    )
    delays: tuple[int, ...] = option(
        "--delays", "Delays of the dynamic batcher to try, such as 100,500", microseconds, default=()
    )
    journal: Path = option(
        "--journal",
        "File that records every trial, to resume from",
        path("FILE", Reach.READS_FILES | Reach.WRITES_FILES),
        default=Path("inferometer-tune.sqlite"),
        shown="",
        is_main=True,
    )
    fresh: bool = option("--fresh", "Discard the trials in the journal", reach=Reach.WRITES_FILES)
    seed: int | None = option("--seed", "Seed of the search; the same seed repeats it", whole("SEED"))
    study: None = option("--study", "The same as --json", path(), instead="write --json FILE")
    output: Path | None = option(
        "--output",
        "Write the recommended config.pbtxt, or the command line of --serve. For an ensemble or several models, a "
        "folder with MODEL/config.pbtxt each",
        path(),
        is_main=True,
    )
    serve: str | None = serving.serve(
        "Command that starts any server, such as 'llama-server --parallel {slots} --port {port}'. It is run without a "
        "shell, again for each configuration"
    )
    vary: tuple[str, ...] = option(
        "--vary",
        "Values of a placeholder: slots=1:16:x2. Also share=0.5:0.9:0.1, batch=64,256 and dtype=float16,bfloat16; "
        "may be given several times",
        text("NAME=VALUES", Reach.RUNS_CODE),
        combine=appended,
        is_main=True,
    )
    where: tuple[str, ...] = option(
        "--where",
        "Condition that every configuration meets, such as 'slots*context <= 65536'; may be given several times",
        label("CONDITION"),
        combine=appended,
    )
    preset: str | None = serving.preset(
        "Known server: names its knobs, their usual values and its ready check (default: recognised from the command)"
    )
    serve_env: tuple[str, ...] = serving.environment(
        "Environment variable of the server, which may have placeholders; may be given several times"
    )
    serve_file: tuple[str, ...] = option(
        "--serve-file",
        "Template of a file that is written for each start with its placeholders replaced; {NAME} in the command is "
        "its path. May be given several times",
        text("NAME=TEMPLATE", Reach.RUNS_CODE | Reach.READS_FILES),
        combine=appended,
    )
    serve_set: tuple[str, ...] = option(
        "--serve-set",
        "HTTP call that sets values on the running server, such as 'PUT http://127.0.0.1:{port_management}/models/m"
        "?min_worker={workers}': placeholders that appear nowhere else are changed without a restart. May be given "
        "several times; all calls are made in this order after each start and change",
        text("CALL", Reach.NAMES_HOSTS | Reach.CHOOSES_CALLS | Reach.CHANGES_SERVER),
        combine=appended,
    )
    ready: str | None = serving.ready()
    start_timeout_s: float = serving.start_timeout()
    serve_logs: Path | None = serving.logs("next to the journal, JOURNAL-logs")

    @property
    def is_launched(self) -> bool:
        """Whether a command line starts the server."""
        return self.serve is not None or self.preset is not None
