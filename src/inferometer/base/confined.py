"""Confinement of runs that a browser asks for, and of dry runs.

The form's user is not trusted with the files of this machine, nor is the content of an upload: such a
run reads uploaded files only, and starts no code that a file names. So the check is made where a file is about to be
opened, on the path that will be opened, and not on the text of an option: everything that opens a file named by an
option, or by another file, calls `check_path` first. The browser interface confines itself with `confined_to` while it
checks a form, and the run that it starts with an environment variable.

Code that files name (commands of phases, message generators, visits in Python, models) is checked by `check_command`
before it runs. A dry run starts none of it either.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from inferometer.base.errors import UsageError

VARIABLE = "INFEROMETER_CONFINED"
"""The folder of the files that a confined process may read."""

_folder: ContextVar[Path | None] = ContextVar("confined_to", default=None)
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


def maybe_folder() -> Path | None:
    """The only folder whose files may be read; None without confinement."""
    found = _folder.get()
    return found if found is not None else Path(named) if (named := os.environ.get(VARIABLE)) else None


@contextmanager
def confined_to(folder: Path) -> Iterator[None]:
    """Confine what this thread does."""
    token = _folder.set(folder)
    try:
        yield
    finally:
        _folder.reset(token)


def check_command(where: str, what: str = "a command") -> None:
    """Refuse code that a file names, where none may run. To be called before any such code runs."""
    if maybe_folder() is not None:
        raise UsageError(
            f"{where} names {what}, and a run started from a browser executes none",
            remedy="run it in a terminal, if you trust the file",
        )
    if _IS_DRY.get():
        raise NotRunError(
            f"{where} runs {what}, which --dry-run does not",
            remedy="--show-request runs it and sends one request",
        )


def check_path(path: str | Path) -> None:
    """Refuse a path that leads out of the uploaded files, whether or not anything is there.

    Symbolic links, `..` and the links of /proc are followed to where they lead.
    """
    folder = maybe_folder()
    if folder is not None and not _is_inside(path, folder):
        raise UsageError(
            f"'{path}' is not an uploaded file, and a run started from a browser reads no others",
            remedy="upload the file in the form, or run the command in a terminal",
        )


def _is_inside(path: str | Path, folder: Path) -> bool:
    try:
        found = Path(path).resolve()
    except (OSError, ValueError, RuntimeError):  # a NUL byte, a lone surrogate, links in a circle
        return False
    # The folder itself is not resolved: as a link, it would make others' files uploads.
    return folder.parent.resolve() / folder.name in found.parents
