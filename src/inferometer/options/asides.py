"""What is asked beside a run or instead of it: options in files, a look at the first request.

All commands have `CONFIG`; those that send requests have `PREVIEW`, and those whose runs are kept have `KEEP`.
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
                "Read options from this file instead of inferometer.yaml in the working directory; none reads none.",
                text("FILE", Reach.READS_FILES),
                field="config",
            ),
            Option(
                ("--show-config",),
                "Show the options in force and where each comes from; send nothing.",
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
                "Show the first request; asks for the model's metadata, sends no inference.",
                field="dry_run",
            ),
            Option(
                ("--show-request", "--show-reply"),
                "Send the first request alone, show it and its reply with the time it took, and stop.",
                field="show_reply",
            ),
        ),
    ),
    *CONFIG,
)
STORE = Option(
    ("--store",),
    "Folder of the runs that are kept (default: $INFEROMETER_STORE, or .inferometer in the working directory).",
    path("DIR", Reach.READS_FILES | Reach.WRITES_FILES),
    field="store",
    is_ours=True,
)
KEEP: Groups = (
    (
        "Keep",
        (
            STORE,
            Option(("--no-store",), "Keep nothing of this run.", field="no_store", is_ours=True),
            Option(
                ("--tag",),
                "A word to find this run by, as in `inferometer runs tag=NAME`; may be given several times.",
                label("NAME"),
                field="tags",
                combine=appended,
                is_ours=True,
            ),
            Option(
                ("--prometheus",),
                "Serve the live figures of this run for Prometheus on this port of 127.0.0.1; 0 takes any, and says "
                "which.",
                whole("PORT", least=0),
                field="prometheus",
                reach=Reach.LISTENS,
                is_ours=True,
            ),
            Option(
                ("--otlp",),
                "Push the live figures of this run to this collector of OpenTelemetry, such as "
                "http://localhost:4318.",
                server_url(),
                field="otlp",
                is_ours=True,
            ),
            Option(
                ("--ui",),
                "Show this run in the browser while it goes.",
                field="ui",
                is_ours=True,
                reach=Reach.LISTENS,
            ),
        ),
    ),
)
ASIDE = ("config", "show_config", "dry_run", "show_reply", "ask")
"""Fields of what is asked instead of a run, or before it: no file has any of them."""
