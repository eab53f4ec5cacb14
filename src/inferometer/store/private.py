"""Files and folders of a store, which only its owner can read, whatever the umask is.

A store holds addresses, bodies and uploaded keys. A folder that others opened on purpose stays as it is: new runs in it
are private, and `maybe_open_note` says what is not.
"""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from inferometer.base.writing import replacing

FOLDER_MODE = 0o700
FILE_MODE = 0o600


def make_folder(path: Path, *, parents: bool = False) -> None:
    """A new folder; FileExistsError where there is one."""
    path.mkdir(FOLDER_MODE, parents=parents)
    path.chmod(FOLDER_MODE)


def ensure_folder(path: Path) -> None:
    """A folder that nobody else writes to or reads from, as it is or as it becomes now; not a link to one."""
    if path.is_symlink():
        raise NotADirectoryError(errno.ENOTDIR, "it is a symbolic link", str(path))
    path.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    path.chmod(FOLDER_MODE)


def ensure_store(path: Path) -> None:
    """The folder of a store, private if it is new."""
    if not path.is_dir():
        ensure_folder(path)


def open_file(path: Path, flags: int) -> int:
    """A descriptor of a private file, which is made if it is missing. Links are not followed: a store may lie in a
    cloned repository."""
    descriptor = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
    with suppress(PermissionError):  # it belongs to somebody else
        os.fchmod(descriptor, FILE_MODE)
    return descriptor


def ensure_file(path: Path) -> None:
    """A private file, empty if it is new. One that is there is not opened: closing it would end SQLite's locks."""
    with suppress(OSError):  # on a disk that can only be read, or it belongs to somebody else
        if path.exists():
            path.chmod(FILE_MODE)
        else:
            os.close(open_file(path, os.O_WRONLY | os.O_EXCL))


def write_private(path: Path, content: str) -> None:
    """Text as UTF-8, whole or not at all."""
    with replacing(path) as place:
        descriptor = open_file(place, os.O_WRONLY | os.O_TRUNC)
        with open(descriptor, "wb") as file:
            file.write(content.encode("utf-8", "replace"))


def maybe_open_note(store: Path) -> str | None:
    """What others can read of a store that was there before, and how to change that."""
    try:
        exposed = [path for path in (store, store / "runs") if stat.S_IMODE(path.stat().st_mode) & 0o077]
    except OSError:
        return None
    if len(exposed) < 2:  # nobody gets past the one that is private
        return None
    return f"other users of this machine can read the runs in '{store}'; to keep them private: chmod 700 '{store}'"
