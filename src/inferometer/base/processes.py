"""Processes of this machine: from the kernel's files, or from psutil where there are none."""

import os
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from inferometer.base.system import has_proc

PROC = "/proc"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Process(NamedTuple):
    """A process at one moment; the start time identifies it even if its number is reused."""

    pid: int
    parent: int
    is_zombie: bool
    start_ticks: int  # since boot in /proc, since 1970 elsewhere
    core_s: float

    @property
    def is_running(self) -> bool:
        now = maybe_process(self.pid)
        return now is not None and now.start_ticks == self.start_ticks and not now.is_zombie

    @property
    def started_s(self) -> float:
        """Start time in unix seconds."""
        start_s = self.start_ticks / _TICKS_PER_S
        if has_proc() and hasattr(time, "CLOCK_BOOTTIME"):
            return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + start_s
        return start_s


def maybe_process(pid: int) -> Process | None:
    """Read a process; None if it does not exist."""
    if not has_proc():
        return _maybe_from_psutil(pid)
    try:
        words = _read(f"{PROC}/{pid}/stat").rpartition(b")")[2].split()  # a name may contain anything
        core_s = (int(words[11]) + int(words[12])) / _TICKS_PER_S
        return Process(pid, int(words[1]), words[0] in (b"Z", b"X"), int(words[19]), core_s)
    except (OSError, IndexError, ValueError):
        return None


def _maybe_from_psutil(pid: int) -> Process | None:
    import psutil

    try:
        found = psutil.Process(pid)
        with found.oneshot():
            parent, status, started_s = found.ppid(), found.status(), found.create_time()
            try:
                times = found.cpu_times()
                core_s = times.user + times.system
            except psutil.AccessDenied:  # another user's process: it exists, but its times are hidden
                core_s = 0.0
    except (psutil.Error, ValueError):
        return None
    is_zombie = status in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    return Process(pid, parent, is_zombie, round(started_s * _TICKS_PER_S), core_s)


def _read(path: str) -> bytes:
    """Read a short file without a file object, which takes longer to create than to read; there may be thousands."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.read(fd, 4096)
    finally:
        os.close(fd)


def family(pids: Iterable[int]) -> frozenset[int]:
    """Return the processes that still exist, and all their descendants."""
    children: dict[int, list[int]] = {}
    there = set[int]()
    for process in filter(None, map(maybe_process, all_pids())):
        there.add(process.pid)
        children.setdefault(process.parent, []).append(process.pid)
    found = set[int]()
    waiting = [pid for pid in pids if pid in there]
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += children.get(pid, ())
    return frozenset(found)


def all_pids() -> Iterator[int]:
    """Return the numbers of all processes."""
    if has_proc():
        return (int(name) for name in os.listdir(PROC) if name.isdecimal())
    import psutil

    return iter(psutil.pids())


def command_line(pid: int) -> list[str]:
    """Return the words of a command line; empty if the process has ended or is not accessible."""
    if not has_proc():
        return _command_from_psutil(pid)
    try:
        with open(f"{PROC}/{pid}/cmdline", "rb") as file:  # of any length
            words = file.read().rstrip(b"\0").split(b"\0")
    except OSError:
        return []
    return [os.fsdecode(word) for word in words]


def _command_from_psutil(pid: int) -> list[str]:
    import psutil

    try:
        return psutil.Process(pid).cmdline()
    except psutil.Error:
        return []


def open_files(pid: int) -> int:
    """Return the number of open files of a process; 0 if it is gone."""
    if has_proc():
        try:
            return len(os.listdir(f"{PROC}/{pid}/fd"))
        except OSError:
            return 0
    import psutil

    try:
        return int(psutil.Process(pid).num_fds())
    except psutil.Error:
        return 0
