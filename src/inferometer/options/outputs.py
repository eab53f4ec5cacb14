"""Options that several commands share: the HTML report, and the exit code of an inconclusive verdict."""

from typing import Any

from inferometer.options.option import option, ours
from inferometer.options.values import output_file


def inconclusive_allowed(**more: Any) -> Any:
    """Return the field of the flag that makes an inconclusive verdict exit with 0."""
    return ours(
        "--allow-inconclusive",
        "Exit with 0 if the result is inconclusive.",
        **more,
    )


def page(**more: Any) -> Any:
    return option(
        "--html",
        "Write a self-contained HTML page; - means standard output, here and below",
        output_file,
        group="Output",
        **more,
    )
