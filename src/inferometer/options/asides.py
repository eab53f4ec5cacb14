"""Options outside of a measurement: options files, previews of the first request, and storing runs.

All commands have `CONFIG`; those that send requests have `PREVIEW`, and those whose runs are stored have `KEEP`.
"""

from inferometer.options.option import Groups, Option, appended
from inferometer.options.reach import Reach
from inferometer.options.values import label, path, server_url, text, whole

CONFIG: Groups = (
    (
        "Options in files",
        (
            Option(
                ("--config",),
                "Read options from this file instead of inferometer.yaml in the working directory; none reads no file.",
                text("FILE", Reach.READS_FILES),
                field="config",
            ),
            Option(
                ("--show-config",),
                "Show the effective options and where each comes from; send nothing.",
                field="show_config",
            ),
        ),
    ),
)
PREVIEW: Groups = (
    (
        "Look first",
        (
            Option(
                ("--dry-run",),
                "Show the first request; reads the model's metadata, sends no inference.",
                field="dry_run",
            ),
            Option(
                ("--show-request", "--show-reply"),
                "Send only the first request, show it with its reply and the time it took, and stop.",
                field="show_reply",
            ),
        ),
    ),
    *CONFIG,
)
STORE = Option(
    ("--store",),
    "Folder of the stored runs (default: $INFEROMETER_STORE, or .inferometer in the working directory).",
    path("DIR", Reach.READS_FILES | Reach.WRITES_FILES),
    field="store",
    is_ours=True,
)
KEEP: Groups = (
    (
        "Keep",
        (
            STORE,
            Option(("--no-store",), "Do not store this run.", field="no_store", is_ours=True),
            Option(
                ("--tag",),
                "Tag this run, to find it with `inferometer runs tag=NAME`; may be given several times.",
                label("NAME"),
                field="tags",
                combine=appended,
                is_ours=True,
            ),
            Option(
                ("--prometheus",),
                "Serve the live figures of this run for Prometheus on this port of 127.0.0.1; 0 picks a free port and "
                "prints it.",
                whole("PORT", least=0),
                field="prometheus",
                reach=Reach.LISTENS,
                is_ours=True,
            ),
            Option(
                ("--otlp",),
                "Push the live figures of this run to this OpenTelemetry collector, such as "
                "http://localhost:4318.",
                server_url(),
                field="otlp",
                is_ours=True,
            ),
            Option(
                ("--ui",),
                "Show this run live in the browser.",
                field="ui",
                is_ours=True,
                reach=Reach.LISTENS,
            ),
        ),
    ),
)
ASIDE = ("config", "show_config", "dry_run", "show_reply", "ask")
"""Fields of options that replace or precede a run; files cannot set them."""
