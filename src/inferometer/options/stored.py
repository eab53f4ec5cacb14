"""Options of commands that work on files and stored runs, without sending load."""

from pathlib import Path

from inferometer.base.frozen import frozen
from inferometer.options import outputs
from inferometer.options.option import appended, option
from inferometer.options.reach import Reach
from inferometer.options.values import choice, duration, existing_path, label, path, text, whole


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


@frozen
class TrustOptions:
    """Options of `trust`."""

    revoke: bool = option("--revoke", "Stop trusting the file", group="Trust", reach=Reach.WRITES_FILES)
    list: bool = option("--list", "List the trusted files")


@frozen
class CheckOptions:
    """Options of `check`, which has none."""
