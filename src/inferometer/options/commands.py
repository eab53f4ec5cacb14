"""What only one of our commands is asked, beside the options of a measurement.

The Python API has the defaults from here too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inferometer.options.amounts import bandwidth, data_size, per_second
from inferometer.options.groups import ENDINGS, OTHER_LOADS, OWN_LOADS, PROMPTS, WINDOWS
from inferometer.options.option import appended, option, ours
from inferometer.options.outputs import inconclusive_allowed, page
from inferometer.options.reach import Reach
from inferometer.options.values import (
    above_zero,
    bounds,
    choice,
    duration,
    existing_path,
    label,
    microseconds,
    output_file,
    path,
    server_url,
    share,
    text,
    whole,
)

DIAGNOSED_S = 3.0  # for one load of `diagnose`
USUAL_PORTS = (8000, 8001, 8002)


# --- options of a measurement that a command has no use for, and what to do instead

_CANCELLING = ("cancel_after_s", "cancel_share")
CLUSTER = ("ray", "clients", "client_resources")
DIAGNOSE_REFUSED: Mapping[str, str] = {
    **dict.fromkeys(OTHER_LOADS, "it loads by concurrency: name the levels with -c, or none"),
    **dict.fromkeys(ENDINGS, "--duration is the time for one load"),
    **dict.fromkeys(("warmup_s", "warmup_request_count"), "it leaves a cold start out by itself"),
    **dict.fromkeys(
        ("profile_export", "verbose_csv", "slo", "junit", *_CANCELLING, *CLUSTER),
        "use it with `inferometer measure`",
    ),
    "ramp_s": "leave it out: users of long answers start one after the other by themselves",
}
TUNE_REFUSED: Mapping[str, str] = {
    **dict.fromkeys((*OTHER_LOADS, "concurrency"), f"{OWN_LOADS}: --load says where to look"),
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
        "--budget is the time for the whole search",
    ),
    **dict.fromkeys(
        ("profile_export", "verbose_csv", "junit", *_CANCELLING), "use it with `inferometer measure`"
    ),
    **dict.fromkeys(
        ("request_distribution", "sequences", "serial_sequences"),
        "it loads by concurrency: --load says where to look",
    ),
    **dict.fromkeys(
        ("percentile", "max_error_rate"), "put it into the promise, such as --slo 'p99<50ms, errors<1%'"
    ),
    **dict.fromkeys(
        (
            *(
                "service_kind",
                "endpoint",
                "output_tokens",
                "images",
                "audio_s",
                "data.prompts",
                "data.prompt_column",
                *PROMPTS,
                "method",
                "path",
            ),
            *("bodies", "grpc_method", "proto", "proto_paths", "signature", "management_url"),
        ),
        "it loads configurations, which only Triton can: leave it out",
    ),
    "asynchronous": "it always is: leave it out",
    "workers": "one process makes the load of a trial: leave it out",
    **dict.fromkeys(
        ("clients", "client_resources"),
        "each server makes the load of its trials itself: --servers says how many there are",
    ),
    "triton_directory": "--triton-install-path names the folder of a library",
    **dict.fromkeys(
        ("dry_run", "show_reply"), "look with `inferometer measure`: requests depend on what is tried"
    ),
}
_STEADY = "turns need a load that stays the same: -c or -r"
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
        ("latency_limit_ms", "binary_search", "sweep"), "name the levels with -c, such as -c 1,2,4"
    ),
    **dict.fromkeys(
        ("precision", "time_limit_s", *WINDOWS),
        "say how long with --duration: stopping when it looks good would be cheating",
    ),
    **dict.fromkeys(("profile_export", "verbose_csv", "slo"), "use it with `inferometer measure`"),
    "ramp_s": "leave it out: variants take turns, and all users of a turn start at once",
}


@dataclass(frozen=True, slots=True)
class DiagnoseOptions:
    """What only `diagnose` is asked."""

    apply: bool = option(
        "--apply",
        "Load the suggested configurations one after the other, measure, and keep what is better; needs a server "
        "with --model-control-mode explicit. The original configuration comes back at the end",
        reach=Reach.CHANGES_SERVER,
        group="Diagnosis",
        is_main=True,
    )
    allow_inconclusive: bool = inconclusive_allowed()
    budget_s: float = option(
        "--budget",
        "Time for --apply, such as 90s or 3m",
        duration(zero=False),
        default=180.0,
        shown="3m",
        is_main=True,
    )
    keep: bool = option(
        "--keep", "Leave the server with what --apply found", is_main=True, reach=Reach.CHANGES_SERVER
    )
    write_config: Path | None = option(
        "--write-config", "Write the config.pbtxt files that --apply found", path("DIR"), is_main=True
    )
    cores: float | None = option(
        "--cores",
        "Cores of the server's machine (default: seen, if it is this one)",
        above_zero("N", "number", "give the number of cores of the server's machine"),
        is_main=True,
    )


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """What only `compare` is asked."""

    models: tuple[str, ...] = ours(
        "-m --model",
        "Model of a variant, or MODEL@URL; give it several times. The first is the baseline.",
        label("NAME"),
        group="Comparison",
        combine=appended,
        is_main=True,
    )
    urls: tuple[str, ...] = ours(
        "-u --url",
        "Address of a server; several compare the same model on each.",
        server_url(),
        shown="localhost:8000",
        combine=appended,
        is_main=True,
    )
    fail_if: tuple[str, ...] = ours(
        "--fail-if",
        "Conditions of a regression, such as 'p99 > +5%, throughput < -3%, snr < 40'.",
        label("CONDITIONS"),
        combine=appended,
        is_main=True,
    )
    allow_inconclusive: bool = inconclusive_allowed()
    outputs: int = ours(
        "--compare-outputs",
        "How many requests' outputs to compare; 0 is none.",
        whole(least=0),
        default=20,
    )
    force: bool = ours(
        "--force", "Compare saved results although load, payload or host differ.", is_main=True
    )


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """What only `tune` is asked."""

    model: str = option(
        "-m --model", "The model to tune", label("NAME"), default="", group="Search", is_main=True
    )
    allow_inconclusive: bool = inconclusive_allowed()
    slo: str | None = option(
        "--slo", "What every answer must keep, such as 'p99<10ms'", label("PROMISE"), is_main=True
    )
    objective: str | None = option(
        "--objective",
        "What is best: throughput, latency, p50, p90, p95, p99, gpu memory or gpu power; several with their weights "
        "as 'throughput:2, gpu power:1' (default: throughput)",
        label("WHAT"),
    )
    budget_s: float | None = option(
        "--budget", "End in this time with the best so far, such as 3m", duration(zero=True), is_main=True
    )
    model_repository: tuple[Path, ...] = option(
        "--model-repository",
        "Folder of models, for a server of our own (default: the example models)",
        path("DIR", Reach.RUNS_CODE),
        combine=appended,
        is_main=True,
    )
    url: str | None = option(
        "-u --url",
        "Tune on this server instead; it is left as it was found",
        server_url("HOST:PORT"),
        is_main=True,
    )
    launch_mode: str = option(
        "--triton-launch-mode",
        "Where models are loaded; local: in a server of our own; c_api: no server, the library in a worker",
        choice("MODE", "local", "c_api"),
        default="local",
    )
    install_path: str | None = option(
        "--triton-install-path",
        "Folder of the library for c_api (default: the embedded one)",
        text("DIR", Reach.RUNS_CODE),
    )
    servers: int | None = option(
        "--servers",
        "With --ray: start so many servers there, each with a GPU or its share of the cores, and measure on all at "
        "once",
        whole(least=1),
        is_main=True,
    )
    search: str = option(
        "--search",
        "How to search: smart, brute, quick or optuna",
        choice("NAME", "smart", "brute", "quick", "optuna"),
        default="smart",
        is_main=True,
    )
    instances: tuple[int, int] = option(
        "--instances", "Where to look for instances: lowest:highest", bounds, default=(1, 5), shown="1:5"
    )
    batch: tuple[int, int] = option(
        "--max-batch",
        "Where to look for the largest batch of the server: lowest:highest",
        bounds,
        default=(1, 128),
        shown="1:128",
    )
    load: tuple[int, int] = option(
        "--load", "Where to look for load: lowest:highest", bounds, default=(1, 1024), shown="1:1024"
    )
    delays: tuple[int, ...] = option(
        "--delays", "Delays of the dynamic batcher to try, such as 100,500", microseconds, default=()
    )
    journal: Path = option(
        "--journal",
        "Every trial, to resume from",
        path("FILE", Reach.READS_FILES | Reach.WRITES_FILES),
        default=Path("inferometer-tune.sqlite"),
        shown="",
        is_main=True,
    )
    fresh: bool = option("--fresh", "Forget what the journal holds", reach=Reach.WRITES_FILES)
    seed: int | None = option("--seed", "Repeat a search as it was", whole("SEED"))
    study: None = option("--study", "The same as --json", path(), instead="write --json FILE")
    output: Path | None = option(
        "--output",
        "Write the recommended config.pbtxt; of an ensemble or several models, a folder with MODEL/config.pbtxt each",
        path(),
        is_main=True,
    )


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """What `view` is asked."""

    html: str | None = page()
    markdown: str | None = option("--markdown", "Write Markdown", output_file)
    csv: str | None = option("-f --csv", "Write a table, as CSV", output_file)
    json: str | None = option("--json", "Write the whole result, as this version does", output_file)
    junit: str | None = option("--junit", "Write test cases for CI, as JUnit XML", output_file)
    png: Path | None = option("--png", "Write a picture (needs an installed Chromium)", path())
    pdf: Path | None = option("--pdf", "Write a PDF (needs an installed Chromium)", path())
    open: bool = option("--open", "Show the page in the browser")
    quiet: bool = option("-q --quiet", "Do not print the names of the files")


@dataclass(frozen=True, slots=True)
class UiOptions:
    """What `ui` is asked."""

    host: str = option(
        "--host",
        "Address to listen on; another than this machine's own lets others in who have the token",
        text("HOST", Reach.LISTENS),
        default="127.0.0.1",
        group="Browser",
    )
    allow_host: tuple[str, ...] = option(
        "--allow-host",
        "Name that browsers use for a proxy in front, such as runs.example.com; may be given several times",
        text("NAME", Reach.LISTENS),
        combine=appended,
    )
    port: int | None = option(
        "--port", "Port to listen on (default: 8700 if it is free, else a free one)", whole("PORT", least=0)
    )
    store: Path | None = option(
        "--store",
        "Folder of the runs (default: $INFEROMETER_STORE, or .inferometer here)",
        path("DIR", Reach.READS_FILES | Reach.WRITES_FILES),
    )
    open: bool = option("--open", "Show it in the browser")
    idle_s: float | None = option(
        "--idle",
        "End when no page has been open for so long, such as 10m (default: never)",
        duration(zero=False),
    )


@dataclass(frozen=True, slots=True)
class RunsOptions:
    """What `runs` is asked."""

    sort: str = option(
        "--sort",
        "What a list is sorted by: started_at, throughput, p99, model ...; with a dash before it, the largest first",
        label("NAME"),
        default="-started_at",
        group="Runs",
    )
    limit: int = option(
        "--limit", "How many runs a list has at most; 0 is all", whole("N", least=0), default=20
    )
    json: Path | None = option(
        "--json",
        "Write a list, or a run, as JSON to this file, - is standard output; of `export`, the folder for results",
        path("FILE|DIR"),
    )
    mlflow: Path | None = option(
        "--mlflow", "Of `export`, put the runs into this folder as MLflow keeps them (mlruns)", path("DIR")
    )


@dataclass(frozen=True, slots=True)
class GateOptions:
    """What `gate` is asked."""

    runs: int = option(
        "--runs", "Compare with so many of the last good runs", whole("N", least=8), default=20, group="Gate"
    )
    figures: tuple[str, ...] = option(
        "--figure",
        "Judge this figure, such as p90; give it several times (default: throughput, p50 and p99)",
        label("FIGURE"),
        combine=appended,
    )
    fail_if: tuple[str, ...] = option(
        "--fail-if",
        "Conditions of a regression, such as 'p99 > +5%, throughput < -3%' (default: worse at all)",
        label("CONDITIONS"),
        combine=appended,
    )
    matters: float | None = option(
        "--matters",
        "Smallest change that must not go unnoticed, such as 10%: a gate that could not see it is inconclusive "
        "(default: 20%, of percentiles from p90 on 50%)",
        share(zero=False),
        shown="",
    )
    allow_inconclusive: bool = inconclusive_allowed()
    accept: tuple[str, ...] = option(
        "--accept",
        "Take this run as the new normal; nothing is judged",
        text("RUN", Reach.WRITES_FILES),
        combine=appended,
    )
    no_tags: bool = option("--no-tags", "Do not tag the judged runs in the store")
    html: str | None = page()
    markdown: str | None = option("--markdown", "Write Markdown, for a pull request", output_file)
    csv: str | None = option("-f --csv", "Write a table, as CSV", output_file)
    json: str | None = option("--json", "Write everything, for `inferometer view`", output_file)
    junit: str | None = option("--junit", "Write test cases for CI, as JUnit XML", output_file)
    quiet: bool = option("-q --quiet", "Print one sentence only")
    verbose: int = 0


@dataclass(frozen=True, slots=True)
class InspectOptions:
    """What `inspect` is asked."""

    tokenizer: str | None = option(
        "--tokenizer",
        "Count the tokens of prompts with this tokenizer.json, or the one in this folder (default: words)",
        existing_path,
        group="Prompts",
    )
    prompt_column: str | None = option(
        "--prompt-column", "Column or field of the prompts, where it is not called prompt", label("NAME")
    )
    html: str | None = page()
    markdown: str | None = option("--markdown", "Write Markdown", output_file)
    csv: str | None = option("-f --csv", "Write the rate over time, as CSV", output_file)
    json: str | None = option("--json", "Write all figures, for `inferometer view`", output_file)
    quiet: bool = option("-q --quiet", "Print one sentence only")
    junit: None = None
    verbose: int = 0


def _port(service: str, usual: int) -> Any:
    return option(
        f"--{service}-port",
        f"port of the {service} service (default: {usual} if it is free, else a free one; 0 picks a free one)",
        whole("PORT", least=0),
    )


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What `serve` is asked."""

    model_repository: tuple[Path, ...] = option(
        "--model-repository",
        "Folder of models; may be given several times (default: the example models)",
        path("DIR", Reach.RUNS_CODE),
        group="Server",
        combine=appended,
    )
    models: str | None = option(
        "--models",
        "Which example models: the basic ones, or a small vocoder in four variants to compare",
        choice("NAME", "basic", "vocoder"),
        shown="basic",
    )
    http_port: int | None = _port("http", USUAL_PORTS[0])
    grpc_port: int | None = _port("grpc", USUAL_PORTS[1])
    metrics_port: int | None = _port("metrics", USUAL_PORTS[2])
    load_model: tuple[str, ...] = option(
        "--load-model", "Load only these (default: all)", label("NAME"), combine=appended
    )
    log_file: Path | None = option("--log-file", "Keep the server's log here", path())


@dataclass(frozen=True, slots=True)
class SelftestOptions:
    """What `selftest` is asked."""

    json: Path | None = option("--json", "Write all figures to this file", path(), group="Selftest")
    quick: bool = option("--quick", "A shorter, rougher test of about 20 seconds")


@dataclass(frozen=True, slots=True)
class ClientsOptions:
    """What `clients` is asked."""

    rate: float = option(
        "--rate",
        "Requests per second that all clients send together, such as 250k or 2M",
        per_second,
        default=0.0,
        shown="",
        group="Load",
        is_required=True,
    )
    grpc: bool = option("--grpc", "Requests over gRPC, not HTTP")
    request_size: float = option(
        "--request-size", "Bytes of data in a request, such as 64kB", data_size, default=64, shown="64"
    )
    reply_size: float = option(
        "--reply-size", "Bytes of data in a reply, such as 4kB", data_size, default=0, shown="0"
    )
    cores: int | None = option(
        "--cores",
        "Cores of a client's machine (default: those of this one)",
        whole("N", least=1),
        group="Machines",
    )
    network: float = option(
        "--network",
        "What a client's network carries in each direction, such as 25Gbit",
        bandwidth,
        default=10e9,
        shown="10Gbit",
    )
    headroom: float = option(
        "--headroom",
        "Share of its cores and network that a client leaves unused, so that it is not the limit",
        share(zero=True),
        default=0.3,
        shown="30%",
    )
    quick: bool = option("--quick", "A shorter, rougher look at this machine", group="Output")
    json: Path | None = option("--json", "Write all figures to this file", path())


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What `demo` is asked."""

    folder: Path = option(
        "--folder", "Where results go", path("DIR"), default=Path("inferometer-demo"), group="Output"
    )


@dataclass(frozen=True, slots=True)
class TrustOptions:
    """What `trust` is asked."""

    revoke: bool = option("--revoke", "Withdraw the trust", group="Trust", reach=Reach.WRITES_FILES)
    list: bool = option("--list", "List the trusted files")
