"""Bounded reading of files: at most a given number of bytes, and no endless wait for a pipe.

A path can name anything: a regular file, a pipe (`/dev/stdin`, `<(command)`, a FIFO), a directory, an endless
device such as `/dev/zero`. The size of a regular file is checked before it is read. Pipes are read up to the limit;
a silent one is announced on stderr after `NOTICE_S` and given up after `SILENCE_S`. Other kinds are rejected.
`read_regular` and `check_file` reject pipes too: for files that the program finds by itself, reads more than once, or
passes to a library by name.
"""

import errno
import os
import select
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from inferometer.base.errors import UsageError, maybe_shortage
from inferometer.base.text import to_stderr

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

KEY = 64 * KIB
"""Size limit for API keys."""
CONFIG = MIB
"""Size limit for hand-written configuration: parsing YAML takes seconds per MiB."""
CERTIFICATE = 16 * MIB
"""Size limit for TLS certificates and keys; a bundle of all authorities takes a quarter of a MiB."""
DESCRIPTION = 64 * MIB
"""Size limit for model configurations and gRPC method descriptions."""
ANSWER = 256 * MIB
"""Size limit for saved answers, checkpoints and tokenizers."""
DATA = GIB
"""Size limit for data held in memory, before and after decompression."""
STREAMED = 16 * GIB
"""Size limit for data read piece by piece."""

NOTICE_S = 2
SILENCE_S = 60
_PIECE = MIB

_NOT_READ = {
    stat.S_IFDIR: os.strerror(errno.EISDIR),
    stat.S_IFCHR: "it is a device",
    stat.S_IFBLK: "it is a device",
    stat.S_IFSOCK: "it is a socket",
}


class UserFile:
    """An open file or pipe. Content above the limit is refused, not cut off."""

    def __init__(self, descriptor: int, path: str | Path, limit: int, what: str, remedy: str) -> None:
        self._descriptor = descriptor
        self._path = path
        self._left = limit
        self._limit = limit
        self._what = what
        self._remedy = remedy
        self.status = os.fstat(descriptor)
        self._has_announced = False

    def read(self, size: int) -> bytes:
        """Read up to `size` bytes; return empty bytes at the end."""
        # One byte beyond the limit distinguishes a file that ends there from a longer one.
        found = self._next(min(size, self._left + 1))
        self._left -= len(found)
        if self._left < 0:
            raise self._too_large()
        return found

    def read_all(self) -> bytes:
        self._check_size()
        parts = [self.read(self.status.st_size + 1)] if self.status.st_size else []
        while part := self.read(_PIECE):
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def check_kind(self) -> None:
        """Reject files without content, or without an end."""
        kind = stat.S_IFMT(self.status.st_mode)
        if kind in _NOT_READ and not os.isatty(self._descriptor):
            raise self._unreadable(_NOT_READ[kind])

    def check_regular(self, *, remedy: str = "") -> None:
        """Reject everything except a regular file within the limit."""
        if not stat.S_ISREG(self.status.st_mode):
            raise UsageError(
                f"{self._what} '{self._path}' cannot be read: it is not a regular file",
                remedy=remedy or "save its content to a regular file, and give that file",
            )
        self._check_size(remedy=remedy)

    def _check_size(self, *, remedy: str = "") -> None:
        if stat.S_ISREG(self.status.st_mode) and self.status.st_size > self._limit:
            raise self._too_large(remedy=remedy)

    def _next(self, size: int) -> bytes:
        while True:
            if not stat.S_ISREG(self.status.st_mode):
                self._await()
            try:
                return os.read(self._descriptor, size)
            except BlockingIOError:  # a terminal without a complete line
                continue
            except OSError as error:
                raise unreadable(self._path, self._what, error, remedy=self._remedy) from error

    def _await(self) -> None:
        """Wait for data. A named pipe without a writer reads as empty, so only poll can wait for its writer."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        if poll.poll(0 if self._has_announced else NOTICE_S * 1000):
            return
        if not self._has_announced:
            self._has_announced = True
            to_stderr(
                f"Waiting for {self._what} from '{self._path}', which has sent nothing for {NOTICE_S} s"
            )
        if not poll.poll((SILENCE_S - NOTICE_S) * 1000):
            raise self._unreadable(f"it is a pipe that has sent nothing for {SILENCE_S} s")

    def _too_large(self, *, remedy: str = "") -> UsageError:
        return UsageError(
            f"{self._what} '{self._path}' cannot be read: it is larger than the limit of {size_text(self._limit)}",
            remedy=remedy or "give a smaller file",
        )

    def _unreadable(self, reason: str) -> UsageError:
        return UsageError(f"{self._what} '{self._path}' cannot be read: {reason}", remedy=self._remedy)


@contextmanager
def opened(path: str | Path, limit: int, what: str, *, remedy: str = "") -> Iterator[UserFile]:
    """Open a file to be read piece by piece; `what` begins the error message if it cannot be read."""
    try:
        # Without O_NONBLOCK, opening a FIFO would wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL character
        raise unreadable(path, what, error, remedy=remedy) from error
    try:
        file = UserFile(descriptor, path, limit, what, remedy)
        file.check_kind()
        yield file
    finally:
        os.close(descriptor)


def read_file(path: str | Path, limit: int, what: str, *, remedy: str = "") -> bytes:
    """Return the content of a file or pipe that a user named, of at most `limit` bytes."""
    with opened(path, limit, what, remedy=remedy) as file:
        try:
            return file.read_all()
        except MemoryError as error:
            raise unreadable(path, what, error, remedy=remedy) from error


def read_regular(
    path: str | Path, limit: int, what: str, *, remedy: str = ""
) -> tuple[bytes, os.stat_result]:
    """Return the content and status of a regular file of at most `limit` bytes; reject pipes."""
    with opened(path, limit, what, remedy=remedy) as file:
        file.check_regular(remedy=remedy)
        return file.read_all(), file.status


def read_text(path: str | Path, limit: int, what: str, *, remedy: str = "") -> str:
    """Return the content of a UTF-8 text file."""
    try:
        return read_file(path, limit, what, remedy=remedy).decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{what} '{path}' cannot be read: it is not UTF-8 text", remedy=remedy) from error


def check_file(path: str | Path, limit: int, what: str, *, remedy: str = "") -> None:
    """Reject a file that a library could not open by its name, would wait for, or would never finish reading."""
    with opened(path, limit, what, remedy=remedy) as file:
        file.check_regular()


def is_named(path: str | Path) -> bool:
    """Return whether a file or a pipe has this name."""
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False
    return kind in (stat.S_IFREG, stat.S_IFIFO)


def unreadable(path: str | Path, what: str, error: Exception, *, remedy: str = "") -> UsageError:
    """Return the error for a file that could not be opened or read."""
    if isinstance(error, MemoryError):
        reason = "this machine does not have enough memory for it"
    elif isinstance(error, OSError) and error.errno == errno.ENXIO:
        reason = "it is a socket"
    elif isinstance(error, OSError):
        if shortage := maybe_shortage(error):
            raise shortage from error
        reason = error.strerror or str(error)
    else:
        reason = str(error)
    return UsageError(f"{what} '{path}' cannot be read: {reason}", remedy=remedy)


def size_text(size: int) -> str:
    """Format a size limit, such as 1 MiB."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size:,} bytes"
