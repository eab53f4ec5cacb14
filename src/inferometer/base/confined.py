"""Code that files name: commands of phases, message generators, visits in Python, models. Each is checked here first.

A run that was asked for in a browser starts none of it, as its files may come from anywhere, and reads no file but
those that were dropped in. A dry run starts none of it either.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from inferometer.base.errors import UsageError

VARIABLE = "INFEROMETER_CONFINED"
"""Set for a run that a browser asked for: the folder of the files that may be read."""

_REMEDY = "run it in a terminal, if you trust the file"
_IS_DRY = ContextVar("is_dry", default=False)


class NotRunError(UsageError):
    """Code that a dry run would have to run."""


@contextmanager
def dry_run() -> Iterator[None]:
    """Within this block `check_command` raises NotRunError."""
    before = _IS_DRY.set(True)
    try:
        yield
    finally:
        _IS_DRY.reset(before)


def check_command(where: str, what: str = "a command") -> None:
    """Refuses code that a file names, where none may run. To be called before any such code runs."""
    if os.environ.get(VARIABLE):
        raise UsageError(
            f"{where} names {what}, and a run that a browser asked for starts none", remedy=_REMEDY
        )
    if _IS_DRY.get():
        raise NotRunError(
            f"{where} runs {what}, which --dry-run does not",
            remedy="--show-request runs it and sends one request",
        )


def check_named(path: str) -> None:
    """Refuses a file that another file names, unless it was dropped in too."""
    folder = os.environ.get(VARIABLE)
    if folder and not Path(path).resolve().is_relative_to(Path(folder).resolve()):
        raise UsageError(f"'{path}' was not dropped in, and a file of this run names it", remedy=_REMEDY)
