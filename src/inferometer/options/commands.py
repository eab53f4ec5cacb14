"""Options of individual commands, in addition to those of a measurement.

The Python API takes its defaults from here too.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inferometer.base.frozen import frozen
from inferometer.options import outputs, serving
from inferometer.options.amounts import bandwidth, data_size, per_second
from inferometer.options.groups import (
    ADDRESSES,
    CHECKS,
    ENDINGS,
    LEVEL_ACTIONS,
    OTHER_LOADS,
    OWN_LOADS,
    PROMPTS,
    THINKING,
    WINDOWS,
)
from inferometer.options.option import appended, option, ours
from inferometer.options.reach import Reach
from inferometer.options.values import (
    above_zero,
    bounds,
    choice,
    duration,
    existing_path,
    label,
    microseconds,
    path,
    server_url,
    share,
    text,
    whole,
)

DIAGNOSED_S = 3.0  # per load of `diagnose`
USUAL_PORTS = (8000, 8001, 8002)
NO_ADDRESS = "127.0.0.1:1"  # in place of the address of a server that is started later


# --- options of a measurement that a command does not support, and what to do instead

_CANCELLING = ("cancel_after_s", "cancel_share")
CLUSTER = ("ray", "clients", "client_resources")
DIAGNOSE_REFUSED: Mapping[str, str] = {
    **dict.fromkeys(OTHER_LOADS, "it loads by concurrency: give the levels with {-c}, or leave it out"),
    **dict.fromkeys(ENDINGS, "{--duration} is the time per load"),
    **dict.fromkeys(("warmup_s", "warmup_request_count"), "it excludes a cold start by itself"),
    **dict.fromkeys(
        (
            "profile_export",
            "verbose_csv",
            "slo",
            "junit",
            *_CANCELLING,
            *CLUSTER,
            *ADDRESSES,
            *LEVEL_ACTIONS,
            *THINKING,
            *CHECKS,
        ),
        "use it with `inferometer measure`",
    ),
    "ramp_s": "leave it out: if answers are long, users start one after the other anyway",
}
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
            *_CANCELLING,
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
_STEADY = "variants take turns, which requires a constant load: use {-c} or {-r}"
COMPARE_REFUSED: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "fixed_schedule",
            "replay",
            "speed",
            "shape_load",
            "periodic_concurrency",
            "request_period",
            "session_concurrency",
        ),
        _STEADY,
    ),
    **dict.fromkeys(
        ("latency_limit_ms", "binary_search", "sweep"), "give the levels with {-c}, such as {-c} 1,2,4"
    ),
    **dict.fromkeys(
        ("precision", "time_limit_s", *WINDOWS),
        "set the time with {--duration}: stopping as soon as the result looks good would bias it",
    ),
    **dict.fromkeys(
        ("profile_export", "verbose_csv", "slo", *ADDRESSES, *LEVEL_ACTIONS, *THINKING),
        "use it with `inferometer measure`",
    ),
    "no_streaming": "leave it out: answers are whole without {--streaming}",
}


@frozen
class DiagnoseOptions:
    """Options of `diagnose` alone."""

    apply: bool = option(
        "--apply",
        "Load the suggested configurations one after the other, measure them, and keep the improvements; requires a "
        "server with --model-control-mode explicit. The original configuration is restored at the end",
        reach=Reach.CHANGES_SERVER,
        group="Diagnosis",
        is_main=True,
    )
    allow_inconclusive: bool = outputs.inconclusive_allowed()
    budget_s: float = option(
        "--budget",
        "Time for --apply, such as 90s or 3m",
        duration(zero=False),
        default=180.0,
        shown="3m",
        is_main=True,
    )
    keep: bool = option(
        "--keep",
        "Keep the configuration that --apply found",
        is_main=True,
        reach=Reach.CHANGES_SERVER,
    )
    write_config: Path | None = option(
        "--write-config",
        "Write the config.pbtxt files of --apply here",
        path("DIR"),
        is_main=True,
    )
    cores: float | None = option(
        "--cores",
        "Cores of the server's machine (default: detected if it is this one)",
        above_zero("N", "number", "give the number of cores of the server's machine"),
        is_main=True,
    )
    serve: str | None = serving.serve(
        "Command that starts the server, with {port}; --apply restarts it with other options"
    )
    preset: str | None = serving.preset(
        "Known server: names its options and its ready check (default: recognised from the command)"
    )
    serve_env: tuple[str, ...] = serving.environment(
        "Environment variable of the server; may be given several times"
    )
    ready: str | None = serving.ready()
    start_timeout_s: float = serving.start_timeout()
    serve_logs: Path = serving.logs()

    @property
    def is_launched(self) -> bool:
        """Whether a command line starts the server."""
        return self.serve is not None or self.preset is not None


@frozen
class CompareOptions:
    """Options of `compare` alone."""

    models: tuple[str, ...] = ours(
        "-m --model",
        "Model of a variant, or MODEL@URL; may be given several times. The first is the baseline.",
        label("NAME"),
        group="Comparison",
        combine=appended,
        is_main=True,
    )
    urls: tuple[str, ...] = ours(
        "-u --url",
        "Address of a server; give several to compare the same model on each.",
        server_url(),
        shown="localhost:8000",
        combine=appended,
        is_main=True,
    )
    fail_if: tuple[str, ...] = ours(
        "--fail-if",
        "Conditions that count as a regression, such as 'p99 > +5%, throughput < -3%, snr < 40'.",
        label("CONDITIONS"),
        combine=appended,
        is_main=True,
    )
    allow_inconclusive: bool = outputs.inconclusive_allowed()
    outputs: int = ours(
        "--compare-outputs",
        "Number of requests whose outputs to compare; 0 compares none.",
        whole(least=0),
        default=20,
    )
    force: bool = ours("--force", "Compare saved results even if load, payload or host differ.", is_main=True)


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


@frozen
class ViewOptions:
    """Options of `view`."""

    html: str | None = outputs.page()
    markdown: str | None = outputs.markdown()
    csv: str | None = outputs.table()
    json: str | None = outputs.saved("Write the full result in this version's format")
    junit: str | None = outputs.junit()
    png: Path | None = option("--png", "Write a PNG image (requires Chromium)", path())
    pdf: Path | None = option("--pdf", "Write a PDF (requires Chromium)", path())
    format: str | None = option(
        "--as",
        "Write the result files of another load tester to the folder of --output",
        choice("TOOL", "aiperf", "guidellm", "vllm", "llm-d", "mlperf"),
    )
    output: Path | None = option("--output", "With --as: folder for the files", path("DIR"))
    requests: Path | None = option(
        "--requests",
        "With --as: export of the run's requests (default: the file that --export wrote)",
        path("FILE", Reach.READS_FILES),
    )
    open: bool = option("--open", "Open the page in the browser")
    quiet: bool = outputs.quiet("Do not print file names")


@frozen
class UiOptions:
    """Options of `ui`."""

    host: str = option(
        "--host",
        "Address to listen on; with any other than the default, everyone who has the token can connect",
        text("HOST", Reach.LISTENS),
        default="127.0.0.1",
        group="Browser",
    )
    allow_host: tuple[str, ...] = option(
        "--allow-host",
        "Host name of a reverse proxy, such as runs.example.com; may be given several times",
        text("NAME", Reach.LISTENS),
        combine=appended,
    )
    port: int | None = option(
        "--port", "Port to listen on (default: 8700 if free, else any free port)", whole("PORT", least=0)
    )
    store: Path | None = option(
        "--store",
        "Folder of the stored runs (default: $INFEROMETER_STORE, or .inferometer in the working directory)",
        path("DIR", Reach.READS_FILES | Reach.WRITES_FILES),
    )
    open: bool = option("--open", "Open it in the browser")
    idle_s: float | None = option(
        "--idle",
        "Exit when no page has been open for this long, such as 10m (default: never)",
        duration(zero=False),
    )


@frozen
class RunsOptions:
    """Options of `runs`."""

    sort: str = option(
        "--sort",
        "Sort the list by started_at, throughput, p99, model ...; a leading dash puts the largest first",
        label("NAME"),
        default="-started_at",
        group="Runs",
    )
    limit: int = option(
        "--limit", "Maximum number of runs to list; 0 lists all", whole("N", least=0), default=20
    )
    json: Path | None = option(
        "--json",
        "Write the list or run as JSON to this file; - means standard output. For `export`: folder for the results",
        path("FILE|DIR"),
    )
    mlflow: Path | None = option(
        "--mlflow", "For `export`: write the runs to this folder in MLflow's format (mlruns)", path("DIR")
    )


@frozen
class GateOptions:
    """Options of `gate`."""

    runs: int = option(
        "--runs",
        "Compare with this many of the latest good runs",
        whole("N", least=8),
        default=20,
        group="Gate",
    )
    figures: tuple[str, ...] = option(
        "--figure",
        "Figure to judge, such as p90; may be given several times (default: throughput, p50 and p99)",
        label("FIGURE"),
        combine=appended,
    )
    fail_if: tuple[str, ...] = option(
        "--fail-if",
        "Conditions that count as a regression, such as 'p99 > +5%, throughput < -3%' (default: any deterioration)",
        label("CONDITIONS"),
        combine=appended,
    )
    matters: float | None = option(
        "--matters",
        "Smallest change that must be detected, such as 10%; if the runs are too noisy to detect it, the gate is "
        "inconclusive (default: 20%; 50% for percentiles of p90 and above)",
        share(zero=False),
        shown="",
    )
    allow_inconclusive: bool = outputs.inconclusive_allowed()
    accept: tuple[str, ...] = option(
        "--accept",
        "Accept this run as the new baseline, without judging any run",
        text("RUN", Reach.WRITES_FILES),
        combine=appended,
    )
    no_tags: bool = option("--no-tags", "Do not tag the judged runs in the store")
    html: str | None = outputs.page()
    markdown: str | None = outputs.markdown("Write Markdown, for a pull request")
    csv: str | None = outputs.table()
    json: str | None = outputs.saved()
    junit: str | None = outputs.junit()
    quiet: bool = outputs.quiet()
    verbose: int = 0


@frozen
class InspectOptions:
    """Options of `inspect`."""

    tokenizer: str | None = option(
        "--tokenizer",
        "Count prompt tokens with this tokenizer.json, or the one in this folder (default: count words)",
        existing_path,
        group="Prompts",
    )
    prompt_column: str | None = option(
        "--prompt-column", "Column or field that holds the prompts, if not named prompt", label("NAME")
    )
    html: str | None = outputs.page()
    markdown: str | None = outputs.markdown()
    csv: str | None = outputs.table("Write the rate over time, as CSV")
    json: str | None = outputs.saved("Write all figures, for `inferometer view`")
    quiet: bool = outputs.quiet()
    junit: None = None
    verbose: int = 0


def _port(service: str, usual: int) -> Any:
    return option(
        f"--{service}-port",
        f"Port of the {service} service (default: {usual} if free, else any free port; 0 picks a free port)",
        whole("PORT", least=0),
    )


@frozen
class ServeOptions:
    """Options of `serve`."""

    model_repository: tuple[Path, ...] = option(
        "--model-repository",
        "Model repository; may be given several times (default: the example models)",
        path("DIR", Reach.RUNS_CODE),
        group="Server",
        combine=appended,
    )
    models: str | None = option(
        "--models",
        "Example models to serve: basic, or vocoder (a small vocoder in four variants to compare)",
        choice("NAME", "basic", "vocoder"),
        shown="basic",
    )
    http_port: int | None = _port("http", USUAL_PORTS[0])
    grpc_port: int | None = _port("grpc", USUAL_PORTS[1])
    metrics_port: int | None = _port("metrics", USUAL_PORTS[2])
    load_model: tuple[str, ...] = option(
        "--load-model",
        "Load only this model; may be given several times (default: all)",
        label("NAME"),
        combine=appended,
    )
    log_file: Path | None = option("--log-file", "Write the server's log to this file", path())


@frozen
class SelftestOptions:
    """Options of `selftest`."""

    json: Path | None = option("--json", "Write all figures to this file", path(), group="Selftest")
    quick: bool = option("--quick", "Run a shorter, rougher test of about 20 seconds")
    allow_inconclusive: bool = outputs.inconclusive_allowed()


@frozen
class ClientsOptions:
    """Options of `clients`."""

    rate: float = option(
        "--rate",
        "Requests per second that all clients send together, such as 250k or 2M",
        per_second,
        default=0.0,
        shown="",
        group="Load",
        is_required=True,
    )
    grpc: bool = option("--grpc", "Send requests over gRPC instead of HTTP")
    request_size: float = option(
        "--request-size", "Bytes of data in a request, such as 64kB", data_size, default=64, shown="64"
    )
    reply_size: float = option(
        "--reply-size", "Bytes of data in a reply, such as 4kB", data_size, default=0, shown="0"
    )
    cores: int | None = option(
        "--cores",
        "Cores per client machine (default: those of this machine)",
        whole("N", least=1),
        group="Machines",
    )
    network: float = option(
        "--network",
        "Network bandwidth per client in each direction, such as 25Gbit",
        bandwidth,
        default=10e9,
        shown="10Gbit",
    )
    headroom: float = option(
        "--headroom",
        "Share of its cores and network that each client keeps unused, so that it is not the bottleneck",
        share(zero=True),
        default=0.3,
        shown="30%",
    )
    quick: bool = option("--quick", "Measure this machine for a shorter time, less precisely", group="Output")
    json: Path | None = option("--json", "Write all figures to this file", path())


@frozen
class DemoOptions:
    """Options of `demo`."""

    folder: Path = option(
        "--folder", "Folder for the results", path("DIR"), default=Path("inferometer-demo"), group="Output"
    )


@frozen
class QuickOptions:
    """Options of `quick`."""

    duration_s: float = option(
        "-d --duration",
        "Time for all servers together, such as 2m",
        duration(zero=False),
        default=60.0,
        shown="1m",
        group="Load",
    )
    list: bool = option("--list", "List the servers found, without load")


@frozen
class TrustOptions:
    """Options of `trust`."""

    revoke: bool = option("--revoke", "Stop trusting the file", group="Trust", reach=Reach.WRITES_FILES)
    list: bool = option("--list", "List the trusted files")


@frozen
class CheckOptions:
    """Options of `check`, which has none."""
