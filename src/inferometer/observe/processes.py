"""Processes of this machine, from the kernel's files."""

import os
from collections.abc import Iterable
from typing import NamedTuple

PROC = "/proc"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Process(NamedTuple):
    """Contents of `/proc/PID/stat`; the start time identifies a process even if its number is reused."""

    pid: int
    parent: int
    is_zombie: bool
    start_ticks: int
    core_s: float

    @property
    def is_running(self) -> bool:
        now = maybe_process(self.pid)
        return now is not None and now.start_ticks == self.start_ticks and not now.is_zombie


def maybe_process(pid: int) -> Process | None:
    """Read a process; None if it does not exist."""
    try:
        words = _read(f"{PROC}/{pid}/stat").rpartition(b")")[2].split()  # a name may contain anything
        core_s = (int(words[11]) + int(words[12])) / _TICKS_PER_S
        return Process(pid, int(words[1]), words[0] in (b"Z", b"X"), int(words[19]), core_s)
    except (OSError, IndexError, ValueError):
        return None


def _read(path: str) -> bytes:
    """Read a short file without a file object, which takes longer to create than to read; there may be thousands."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.read(fd, 4096)
    finally:
        os.close(fd)


def family(pids: Iterable[int]) -> frozenset[int]:
    """Return those of these processes that exist, and all their descendants."""
    children: dict[int, list[int]] = {}
    there = set[int]()
    for name in os.listdir(PROC):
        process = maybe_process(int(name)) if name.isdecimal() else None
        if process is not None:
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


def command_line(pid: int) -> list[str]:
    """Return the words of a command line; empty if the process has ended or is not accessible."""
    try:
        with open(f"{PROC}/{pid}/cmdline", "rb") as file:  # of any length
            words = file.read().rstrip(b"\0").split(b"\0")
    except OSError:
        return []
    return [os.fsdecode(word) for word in words]
