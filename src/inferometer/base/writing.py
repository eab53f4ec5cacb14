"""Atomic writing of files; every failure becomes an error with a remedy."""

import errno
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from inferometer.base.deadline import UNDO_LAST_S, Deadline, DeadlineError
from inferometer.base.errors import LocalError, UsageError
from inferometer.base.text import to_stderr
from inferometer.base.units import NS_PER_S, monotonic_ns

_OTHER_DISK = "free space on that disk, or choose a path on another disk"
_REMEDIES = {
    errno.ENOSPC: _OTHER_DISK,
    errno.EDQUOT: _OTHER_DISK,
    errno.EFBIG: "raise the file size limit with ulimit -f",
    errno.EROFS: "that disk is read-only: choose a path on another disk",
    errno.EACCES: "choose a folder that you can write to",
    errno.EPERM: "choose a folder that you can write to",
    errno.EISDIR: "give the name of a file",
    errno.ENOTDIR: "choose a path in an existing folder",
    errno.ENOENT: "create its folder first",
    errno.ENAMETOOLONG: "give a shorter name",
}
"""Remedies by errno."""

READER_S = 60.0  # for a reader to open a named pipe
NOTICE_S = 1.0

SCREEN = "standard output"

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def unwritten(path: object, error: OSError) -> LocalError:
    """Return the error for a file that could not be written."""
    remedy = _REMEDIES.get(error.errno or 0, "check the folder and the space left")
    return LocalError(f"'{path}' could not be written: {error.strerror or error}", remedy=remedy)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError while writing `path` into an error that names it."""
    try:
        yield
    except OSError as error:
        raise unwritten(path, error) from error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path that replaces `path` when the block ends; if the block fails, remove it.

    A pipe or a device is written to directly, and so is a file in a folder that cannot hold new files.
    """
    with writing(path):
        if not _takes_neighbours(path):
            reader = _await_reader(path) if path.is_fifo() else None
            try:
                yield path
            finally:
                if reader is not None:
                    os.close(reader)
            return
        target = path.resolve()
        partial = target.with_name(
            f".inferometer-{os.getpid()}.partial"
        )  # its length does not depend on the target's name
        try:
            partial.unlink(missing_ok=True)  # a link of that name would redirect the content
            yield partial
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)


def _await_reader(path: Path) -> int:
    """Open a named pipe for writing once it has a reader; announce the wait, and give up after `READER_S`.

    The pipe must stay open until everything is written: its reader takes the last writer's close for the end.
    """
    deadline, is_announced = Deadline.after(READER_S, last_s=UNDO_LAST_S), False
    notice_ns = monotonic_ns() + round(NOTICE_S * NS_PER_S)
    while True:
        try:
            return os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
        if not is_announced and monotonic_ns() >= notice_ns:
            is_announced = True
            to_stderr(f"Waiting for a reader of the named pipe '{path}'")
        try:
            deadline.sleep(0.05)
        except DeadlineError as late:
            raise LocalError(
                f"'{path}' could not be written: it is a named pipe, and no reader opened it {late}",
                remedy="start its reader first, or give the name of a file",
            ) from late


def _takes_neighbours(path: Path) -> bool:
    if path.is_relative_to("/dev"):
        return False
    return not path.exists() or (path.is_file() and os.access(path.resolve().parent, os.W_OK))


def refuse_link(path: Path, option: str) -> None:
    """Reject a symbolic link at a default path: a cloned repository in the working directory may contain links
    anywhere."""
    if path.is_symlink():
        raise UsageError(
            f"'{path}' is a symbolic link, which is followed only if you name it explicitly",
            remedy=f"remove it, or name the file with {option}",
        )


def drop_link(path: Path) -> None:
    """Remove a symbolic link whose name is one of our own output files."""
    with writing(path):
        if path.is_symlink():
            path.unlink()


def write_file(path: Path, content: str | bytes) -> None:
    """Write text as UTF-8, replacing unencodable characters by question marks."""
    with replacing(path) as place:
        place.write_bytes(content.encode("utf-8", "replace") if isinstance(content, str) else content)


class Outputs:
    """Several output files and the screen: a failure of one does not stop the others."""

    def __init__(self) -> None:
        self._failed: dict[object, LocalError] = {}

    def attempt(self, path: object, write: Callable[[], object]) -> None:
        """Write now and record a failure; another attempt at the same path replaces an earlier attempt."""
        self._failed.pop(path, None)
        try:
            write()
        except LocalError as error:
            self._failed[path] = error
        except OSError as error:
            if error.errno not in FULL:
                raise
            self._failed[path] = unwritten(path, error)

    def file(self, path: str | Path | None, write: Callable[[Path], object]) -> None:
        """Write a file if a path is given."""
        if path is not None:
            place = Path(path)
            self.attempt(place, lambda: write(place))

    def has(self, path: object) -> bool:
        """Return whether no attempt at this path has failed."""
        return path not in self._failed

    def settle(self) -> None:
        """Raise LocalError if any output failed."""
        failed = list(self._failed.values())
        if len(failed) == 1:
            raise failed[0]
        if failed:
            raise LocalError("; ".join(error.message for error in failed), remedy=failed[0].remedy)


# --- checks before the load starts


_PROGRAMS = (".py", ".js", ".ts", ".lua", ".sh", ".go", ".java", ".jmx")


def writable(*paths: str | Path | None) -> None:
    """Reject report files that could not be written later, without changing the disk. Paths that are None are
    skipped."""
    for path in [Path(path) for path in paths if path is not None]:
        try:
            _try_to_write(path)
        except OSError as error:
            raise _refusal(path, error.strerror or str(error), "give another name") from error


def _try_to_write(path: Path) -> None:
    folder = path.parent
    if path.is_dir():
        raise _refusal(path, "it is a folder", "give the name of a file")
    if path.suffix in _PROGRAMS and path.exists():
        raise _refusal(path, "it is an existing program", "give the name of a file for the result")
    if not folder.exists():
        raise _refusal(path, f"the folder '{folder}' does not exist", f"create it with: mkdir -p {folder}")
    if not folder.is_dir():
        raise _refusal(path, f"'{folder}' is not a folder", "give another name")
    _check_open(path.resolve())


def _refusal(path: Path, reason: str, remedy: str) -> UsageError:
    return UsageError(f"'{path}' cannot be written: {reason}", remedy=remedy)


def _check_open(target: Path) -> None:
    if target.exists():
        if target.is_file():  # opening a pipe or a device could block, or disturb its reader
            os.close(os.open(target, os.O_WRONLY | os.O_APPEND))
        return
    # A signal between the two calls would leave an empty file behind.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        target.unlink()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
