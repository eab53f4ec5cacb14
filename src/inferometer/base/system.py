"""Calls that not every operating system has, each with its substitute.

The client runs on Linux and macOS. Linux calls are looked up by name when they are used, so that systems without them
use the substitutes.
"""

import contextlib
import os
import resource
from collections.abc import Iterator
from functools import cache

_OPEN_MAX = 10240  # open files that macOS allows even if the hard limit says "unlimited" (setrlimit(2))


@cache
def has_proc() -> bool:
    """Return whether the kernel describes processes and itself in /proc."""
    return os.path.exists("/proc/self/stat")


def system_name() -> str:
    """Return name and version of the operating system: `Linux 6.8.0`, `Darwin 24.1.0`."""
    import platform

    return f"{platform.system()} {platform.release()}"


def usable_cores(pid: int = 0) -> frozenset[int]:
    """Return the numbers of the cores that a process may run on: all of them, where processes cannot be pinned."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(pid))
    return frozenset(range(os.cpu_count() or 1))


def unnamed_file(name: str) -> int:
    """Return the descriptor of a new file that vanishes with its last user: in memory, or else in the temporary
    folder."""
    if hasattr(os, "memfd_create"):
        memory: int = os.memfd_create(name)
        return memory
    import tempfile

    fd, path = tempfile.mkstemp(prefix=f"{name}-")
    os.unlink(path)
    return fd


@contextlib.contextmanager
def readable_once(name: str, data: bytes) -> Iterator[str]:
    """Provide a path to secret data for a library that reads only files.

    The data stays in memory where files can be in memory. Elsewhere it is in a file that only this user can read and
    that is removed at the end of the block.
    """
    if hasattr(os, "memfd_create") and has_proc():
        with os.fdopen(os.memfd_create(name), "wb") as file:
            file.write(data)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
        return
    import tempfile

    with tempfile.NamedTemporaryFile(prefix=f"{name}-") as file:
        file.write(data)
        file.flush()
        yield file.name


def most_open_files() -> int:
    """Return the highest limit of open files that a process may set for itself."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return _OPEN_MAX if hard == resource.RLIM_INFINITY else hard


def sysctl(name: str) -> str:
    """Return a setting of a kernel without /proc; empty if it cannot be read."""
    import subprocess

    with contextlib.suppress(OSError, subprocess.SubprocessError):
        found = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, timeout=5, check=True)
        return found.stdout.strip()
    return ""
