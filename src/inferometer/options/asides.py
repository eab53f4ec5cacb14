"""What is asked beside a run or instead of it: options in files, a look at the first request.

All commands have `CONFIG`; those that send requests have `PREVIEW`.
"""

from inferometer.options.option import Groups, Option
from inferometer.options.values import text

CONFIG: Groups = (
    (
        "Options in files",
        (
            Option(
                ("--config",),
                "Read options from this file instead of inferometer.yaml in the working directory; none reads none.",
                text("FILE"),
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
ASIDE = ("config", "show_config", "dry_run", "show_reply", "ask")
"""Fields of what is asked instead of a run, or before it: no file has any of them."""
