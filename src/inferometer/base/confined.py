"""Confinement of runs that a browser asks for: they read uploaded files only, and start no commands.

Whoever fills in the form is not trusted with the files of this machine, nor is the content of what they upload. So the
check is made where a file is about to be opened, on the path that will be opened, and not on the text of an option:
everything that opens a file named by an option, or by another file, calls `check_path` first. The browser interface
confines itself with `confined_to` while it checks a form, and the run that it starts with an environment variable.
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
    """Refuse a command, or code, that a file names."""
    if maybe_folder() is not None:
        raise UsageError(
            f"{where} names {what}, and a run started from a browser executes none",
            remedy="run it in a terminal, if you trust the file",
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
    return folder.resolve() in found.parents
