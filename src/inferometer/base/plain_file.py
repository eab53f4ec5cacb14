"""Reading a regular file whole, up to a limit: never a device, a pipe or a folder, and never more than was allowed."""

import os
import stat
from pathlib import Path

from inferometer.base.errors import UsageError


def read_plain(path: Path, limit: int, *, remedy: str = "") -> bytes:
    """The bytes of a regular file of at most `limit` bytes.

    UsageError otherwise, in one sentence. Opening a pipe does not wait for its other end.
    """
    return read_status(path, limit, remedy=remedy)[0]


def read_status(path: Path, limit: int, *, remedy: str = "") -> tuple[bytes, os.stat_result]:
    """The bytes and the status of the very file that they were read from."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise UsageError(f"{path} is {_kind(status.st_mode)}, not a file", remedy=remedy)
            data = file.read(limit + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{path} cannot be read: {reason}", remedy=remedy) from error
    if len(data) > limit:
        raise UsageError(f"{path} has more than {limit} bytes", remedy=remedy)
    return data, status


def _kind(mode: int) -> str:
    for is_kind, name in (
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a named pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
    ):
        if is_kind(mode):
            return name
    return "something else"
