"""Runs that were asked for in a browser: the files they are given may come from anywhere.

So what stands in such a file starts no command, and names no file but those that were dropped in beside it.
"""

import os
from pathlib import Path

from inferometer.base.errors import UsageError

VARIABLE = "INFEROMETER_CONFINED"
"""Set for such a run: the folder of the files that may be read."""

_REMEDY = "run it in a terminal, if you trust the file"


def check_command(where: str, what: str = "a command") -> None:
    """Refuses a command, or code, that a file names."""
    if os.environ.get(VARIABLE):
        raise UsageError(
            f"{where} names {what}, and a run that a browser asked for starts none", remedy=_REMEDY
        )


def check_named(path: str) -> None:
    """Refuses a file that another file names, unless it was dropped in too."""
    folder = os.environ.get(VARIABLE)
    if folder and not Path(path).resolve().is_relative_to(Path(folder).resolve()):
        raise UsageError(f"'{path}' was not dropped in, and a file of this run names it", remedy=_REMEDY)
