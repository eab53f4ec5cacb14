"""Bounded reading of files: at most a given number of bytes, and no endless wait for a pipe.

A name can refer to anything: a regular file, a pipe (`/dev/stdin`, `<(command)`, a FIFO), a directory, an endless
device such as `/dev/zero`. The size of a regular file is checked before it is read. Pipes are read up to the limit;
one that sends nothing is announced on stderr after `NOTICE_S` and given up after `SILENCE_S`. Other kinds are refused.
`read_regular` and `check_file` refuse pipes too: for files that the program finds by itself, reads more than once, or
hands to a library by name.
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
        self._has_spoken = False

    def read(self, size: int) -> bytes:
        """Up to `size` bytes, none at the end."""
        # One byte above the limit tells a file that ends there from one that goes on.
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
        """Refuse what has no content, or no end."""
        kind = stat.S_IFMT(self.status.st_mode)
        if kind in _NOT_READ and not os.isatty(self._descriptor):
            raise self._unreadable(_NOT_READ[kind])

    def check_regular(self, *, remedy: str = "") -> None:
        """Refuse everything except a regular file within the limit."""
        if not stat.S_ISREG(self.status.st_mode):
            raise UsageError(
                f"{self._what} '{self._path}' cannot be read: it is not a regular file",
                remedy=remedy or "save what it sends as a file, and give its name",
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
            except BlockingIOError:  # a terminal without a whole line
                continue
            except OSError as error:
                raise unreadable(self._path, self._what, error, remedy=self._remedy) from error

    def _await(self) -> None:
        """A named pipe that nobody has opened for writing reads as empty, so only poll can wait for its writer."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        if poll.poll(0 if self._has_spoken else NOTICE_S * 1000):
            return
        if not self._has_spoken:
            self._has_spoken = True
            to_stderr(
                f"Waiting for {self._what} from '{self._path}', which has sent nothing for {NOTICE_S} s"
            )
        if not poll.poll((SILENCE_S - NOTICE_S) * 1000):
            raise self._unreadable(f"it is a pipe, and nothing came from it for {SILENCE_S} s")

    def _too_large(self, *, remedy: str = "") -> UsageError:
        return UsageError(
            f"{self._what} '{self._path}' cannot be read: it has more than {size_text(self._limit)}, which is the most",
            remedy=remedy or "give a smaller file",
        )

    def _unreadable(self, reason: str) -> UsageError:
        return UsageError(f"{self._what} '{self._path}' cannot be read: {reason}", remedy=self._remedy)


@contextmanager
def opened(path: str | Path, limit: int, what: str, *, remedy: str = "") -> Iterator[UserFile]:
    """The file, to be read piece by piece; `what` begins the sentence about one that cannot be read."""
    try:
        # Without O_NONBLOCK, opening a FIFO would wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError) as error:  # the latter of a name with a null character
        raise unreadable(path, what, error, remedy=remedy) from error
    try:
        file = UserFile(descriptor, path, limit, what, remedy)
        file.check_kind()
        yield file
    finally:
        os.close(descriptor)


def read_file(path: str | Path, limit: int, what: str, *, remedy: str = "") -> bytes:
    """The content of a file or pipe that a user named, which may have `limit` bytes."""
    with opened(path, limit, what, remedy=remedy) as file:
        try:
            return file.read_all()
        except MemoryError as error:
            raise unreadable(path, what, error, remedy=remedy) from error


def read_regular(
    path: str | Path, limit: int, what: str, *, remedy: str = ""
) -> tuple[bytes, os.stat_result]:
    """Content and status of one regular file of at most `limit` bytes; pipes are refused."""
    with opened(path, limit, what, remedy=remedy) as file:
        file.check_regular(remedy=remedy)
        return file.read_all(), file.status


def read_text(path: str | Path, limit: int, what: str, *, remedy: str = "") -> str:
    """The same for a text in UTF-8."""
    try:
        return read_file(path, limit, what, remedy=remedy).decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{what} '{path}' cannot be read: it is not text", remedy=remedy) from error


def check_file(path: str | Path, limit: int, what: str, *, remedy: str = "") -> None:
    """Refuse a file that a library, which opens it by name, could not open, would wait for, or would never finish."""
    with opened(path, limit, what, remedy=remedy) as file:
        file.check_regular()


def is_named(path: str | Path) -> bool:
    """Whether a file or a pipe has this name."""
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False
    return kind in (stat.S_IFREG, stat.S_IFIFO)


def unreadable(path: str | Path, what: str, error: Exception, *, remedy: str = "") -> UsageError:
    """The sentence about a file that the system did not open or read."""
    if isinstance(error, MemoryError):
        reason = "this machine has too little memory for it"
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
    """A limit as it is written in sentences: 1 MiB."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size:,} bytes"
