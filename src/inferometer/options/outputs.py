"""The first of the options that say where a report goes, the same in every command that has no others before it."""

from typing import Any

from inferometer.options.option import option
from inferometer.options.values import output_file


def page(**more: Any) -> Any:
    return option(
        "--html",
        "Write one self-contained page; - is standard output, here and below",
        output_file,
        group="Output",
        **more,
    )
