"""Take the calls of Linux away from the package, as on macOS. Python runs this file if its folder is in PYTHONPATH.

`make laptop` runs the end-to-end tests this way. The calls are missing for the package alone: tests, their servers, and
psutil, which stands for the psutil of another system, keep them. Whose call it is decides the nearest frame of either
kind, so a call by the standard library belongs to the module that called it.
"""

import builtins
import ctypes
import io
import os
import pathlib
import resource
import select
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

HIDDEN = ("/proc", "/sys", "/dev/shm")
"""Folders of the kernel that the package cannot see."""

MISSING: dict[Any, tuple[str, ...]] = {
    select: tuple(name for name in dir(select) if name.lower().startswith("epoll")),
    os: (
        *("eventfd", "eventfd_read", "eventfd_write", "EFD_NONBLOCK", "memfd_create", "pidfd_open", "pipe2"),
        *(
            "posix_fallocate",
            "posix_fadvise",
            "sched_getaffinity",
            "sched_setaffinity",
            "waitid",
            "fdatasync",
        ),
        *(
            "timerfd_create",
            "timerfd_settime",
            "timerfd_settime_ns",
            "process_cpu_count",
            "splice",
        ),
    ),
    resource: ("prlimit",),
    signal: ("pidfd_send_signal", "sigtimedwait", "sigwaitinfo"),
    socket: ("SOCK_CLOEXEC", "SOCK_NONBLOCK", "TCP_INFO", "TCP_USER_TIMEOUT", "TCP_QUICKACK", "SO_PEERCRED"),
    time: ("CLOCK_BOOTTIME",),
}
"""Names that Python's modules lack on macOS."""

SYMBOLS = ("epoll_", "eventfd", "memfd_create", "pidfd_", "prctl", "signalfd", "timerfd_")
"""Functions that the C library lacks on macOS, by the start of their names."""

_PACKAGE = "inferometer"
_OTHERS = ("tests", "psutil", "_pytest", "pytest", "conftest", "benchmarks")


def is_package_call() -> bool:
    """Return whether the nearest caller is of the package, rather than of the tests or psutil."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        root = name.partition(".")[0]
        if root == _PACKAGE or (name == "__main__" and f"/{_PACKAGE}/" in frame.f_code.co_filename):
            return True
        if root in _OTHERS:
            return False
        frame = frame.f_back
    return False


def take_away() -> None:
    for module, names in MISSING.items():
        _take_names(module, [name for name in names if hasattr(module, name)])
    setattr(selectors, "DefaultSelector", selectors.PollSelector)  # noqa: B010
    for module, name in ((builtins, "open"), (io, "open"), (os, "open"), (os, "listdir"), (os, "scandir")):
        _hide_paths(module, name)
    for name in ("readlink", "stat", "lstat", "access"):
        _hide_paths(os, name)
    symbol: Callable[[ctypes.CDLL, str], Any] = ctypes.CDLL.__getattr__

    def found(library: ctypes.CDLL, name: str) -> Any:
        if name.startswith(SYMBOLS) and is_package_call():
            raise AttributeError(f"dlsym({name}): symbol not found")
        return symbol(library, name)

    ctypes.CDLL.__getattr__ = found  # type: ignore[method-assign]


def _take_names(module: Any, names: list[str]) -> None:
    taken = {name: getattr(module, name) for name in names}
    for name in names:
        delattr(module, name)

    def missing(name: str) -> Any:
        if name in taken and not is_package_call():
            return taken[name]
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

    module.__getattr__ = missing


def _hide_paths(module: Any, name: str) -> None:
    call = getattr(module, name)

    def hidden(path: Any = ".", *more: Any, **named: Any) -> Any:
        if not isinstance(path, int):
            text = os.path.normpath(os.fsdecode(path))
            if text.startswith(HIDDEN) and is_package_call():
                if name == "access":
                    return False
                raise FileNotFoundError(2, "No such file or directory", str(path))
        return call(path, *more, **named)

    setattr(module, name, hidden)


_ = pathlib  # its functions call those of `os` and `io`
take_away()
