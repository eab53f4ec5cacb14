"""Confinement of runs started from a browser, and of dry runs.

Neither the user of the form nor the content of an upload is trusted: such a run reads only uploaded files, and executes
no code that a file names. The check applies to the path about to be opened, not to the text of an option: everything
that opens a file named by an option, or by another file, calls `check_path` first. The browser interface confines
itself with `confined_to` while it checks a form, and confines the run it starts with an environment variable.

`check_command` guards code that files name (commands of phases, message generators, visits in Python, models). A dry
run does not execute such code either.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from inferometer.base.errors import UsageError

VARIABLE = "INFEROMETER_CONFINED"
"""Environment variable with the folder that a confined process may read."""

_folder: ContextVar[Path | None] = ContextVar("confined_to", default=None)
_IS_DRY = ContextVar("is_dry", default=False)


class NotRunError(UsageError):
    """A dry run reached code that it must not execute."""


@contextmanager
def dry_run() -> Iterator[None]:
    """Make `check_command` raise NotRunError inside the block."""
    before = _IS_DRY.set(True)
    try:
        yield
    finally:
        _IS_DRY.reset(before)


def maybe_folder() -> Path | None:
    """Return the only folder whose files may be read; None if the process is not confined."""
    found = _folder.get()
    return found if found is not None else Path(named) if (named := os.environ.get(VARIABLE)) else None


@contextmanager
def confined_to(folder: Path) -> Iterator[None]:
    """Confine this thread to a folder."""
    token = _folder.set(folder)
    try:
        yield
    finally:
        _folder.reset(token)


def check_command(where: str, what: str = "a command") -> None:
    """Reject code named by a file where it must not run. Call this before running any such code."""
    if maybe_folder() is not None:
        raise UsageError(
            f"{where} names {what}, which a run started from a browser does not execute",
            remedy="run it in a terminal, if you trust the file",
        )
    if _IS_DRY.get():
        raise NotRunError(
            f"{where} runs {what}, which --dry-run does not execute",
            remedy="--show-request runs it and sends one request",
        )


def check_path(path: str | Path) -> None:
    """Reject a path outside the uploaded files, whether or not it exists.

    Symbolic links, `..` and the links in /proc are resolved first.
    """
    folder = maybe_folder()
    if folder is not None and not _is_inside(path, folder):
        raise UsageError(
            f"'{path}' is not an uploaded file, and a run started from a browser reads only uploaded files",
            remedy="upload the file in the form, or run the command in a terminal",
        )


def _is_inside(path: str | Path, folder: Path) -> bool:
    try:
        found = Path(path).resolve()
    except (OSError, ValueError, RuntimeError):  # a NUL byte, a lone surrogate, a loop of links
        return False
    # The folder itself is not resolved: if it were a link, files elsewhere would count as uploads.
    return folder.parent.resolve() / folder.name in found.parents
