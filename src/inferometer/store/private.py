"""Files and folders of a store, readable only by their owner, regardless of the umask.

A store contains addresses, bodies and uploaded keys. A folder that was opened to others on purpose stays as it is:
new runs in it are private, and `maybe_open_note` names the rest.
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
    """Create a private folder; raise FileExistsError if it exists."""
    path.mkdir(FOLDER_MODE, parents=parents)
    path.chmod(FOLDER_MODE)


def ensure_folder(path: Path) -> None:
    """Create a private folder, or make an existing one private; refuse a symbolic link."""
    if path.is_symlink():
        raise NotADirectoryError(errno.ENOTDIR, "it is a symbolic link", str(path))
    path.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    path.chmod(FOLDER_MODE)


def ensure_store(path: Path) -> None:
    """Create the folder of a store if needed; a new one is private."""
    if not path.is_dir():
        ensure_folder(path)


def open_file(path: Path, flags: int) -> int:
    """Open a private file, creating it if needed. Links are not followed, because a store may come with a cloned
    repository."""
    descriptor = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
    with suppress(PermissionError):  # it belongs to another user
        os.fchmod(descriptor, FILE_MODE)
    return descriptor


def ensure_file(path: Path) -> None:
    """Make sure that a private file exists. An existing one is not opened: closing it would drop SQLite's locks."""
    with suppress(OSError):  # the disk is read-only, or the file belongs to another user
        if path.exists():
            path.chmod(FILE_MODE)
        else:
            os.close(open_file(path, os.O_WRONLY | os.O_EXCL))


def write_private(path: Path, content: str) -> None:
    """Write text as UTF-8, completely or not at all."""
    with replacing(path) as place:
        descriptor = open_file(place, os.O_WRONLY | os.O_TRUNC)
        with open(descriptor, "wb") as file:
            file.write(content.encode("utf-8", "replace"))


def maybe_open_note(store: Path) -> str | None:
    """A note if others can read an existing store, and how to change that."""
    try:
        exposed = [path for path in (store, store / "runs") if stat.S_IMODE(path.stat().st_mode) & 0o077]
    except OSError:
        return None
    if len(exposed) < 2:  # one private folder protects the rest
        return None
    return f"other users of this machine can read the runs in '{store}'; to keep them private: chmod 700 '{store}'"
