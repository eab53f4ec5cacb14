"""Options outside of a measurement: options files, previews of the first request, and storing runs.

All commands have `CONFIG`; those that send requests have `PREVIEW`, and those whose runs are stored have `KEEP`.
"""

from pathlib import Path

from inferometer.base.frozen import frozen
from inferometer.options.option import Groups, Option, appended, option, ours, rows
from inferometer.options.reach import Reach
from inferometer.options.values import label, path, server_url, text, whole


@frozen
class Asides:
    """Options outside of a measurement."""

    config: str | None = option(
        "--config",
        "Read options from this file instead of inferometer.yaml in the working directory; none reads no file.",
        text("FILE", Reach.READS_FILES),
        group="Options in files",
    )
    show_config: bool = option(
        "--show-config", "Show the effective options and where each comes from; send nothing."
    )
    dry_run: bool = option(
        "--dry-run",
        "Show the first request; reads the model's metadata, sends no inference.",
        group="Look first",
    )
    show_reply: bool = option(
        "--show-request --show-reply",
        "Send only the first request, show it with its reply and the time it took, and stop.",
    )
    store: Path | None = ours(
        "--store",
        "Folder of the stored runs (default: $INFEROMETER_STORE, or .inferometer in the working directory).",
        path("DIR", Reach.READS_FILES | Reach.WRITES_FILES),
        group="Keep",
    )
    no_store: bool = ours("--no-store", "Do not store this run.")
    tags: tuple[str, ...] = ours(
        "--tag",
        "Tag this run, to find it with `inferometer runs tag=NAME`; may be given several times.",
        label("NAME"),
        combine=appended,
    )
    prometheus: int | None = ours(
        "--prometheus",
        "Serve the live figures of this run for Prometheus on this port of 127.0.0.1; 0 picks a free port and "
        "prints it.",
        whole("PORT", least=0),
        reach=Reach.LISTENS,
    )
    otlp: str | None = ours(
        "--otlp",
        "Push the live figures of this run to this OpenTelemetry collector, such as http://localhost:4318.",
        server_url(),
    )
    ui: bool = ours("--ui", "Show this run live in the browser.", reach=Reach.LISTENS)


_FILES, _LOOK, _KEEP = rows(Asides)
CONFIG: Groups = (_FILES,)
PREVIEW: Groups = (_LOOK, _FILES)
KEEP: Groups = (_KEEP,)
STORE: Option = _KEEP[1][0]
ASIDE = ("config", "show_config", "dry_run", "show_reply", "ask")
"""Fields of options that replace or precede a run; files cannot set them."""
