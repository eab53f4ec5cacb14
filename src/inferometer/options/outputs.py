"""The first of the options that say where a report goes, the same in every command that has no others before it."""

from typing import Any

from inferometer.options.option import option, ours
from inferometer.options.values import output_file


def inconclusive_allowed(**more: Any) -> Any:
    """The flag that makes an inconclusive verdict exit with 0."""
    return ours(
        "--allow-inconclusive",
        "Exit with 0 where the data cannot decide, instead of the exit code for inconclusive.",
        **more,
    )


def page(**more: Any) -> Any:
    return option(
        "--html",
        "Write one self-contained page; - is standard output, here and below",
        output_file,
        group="Output",
        **more,
    )
