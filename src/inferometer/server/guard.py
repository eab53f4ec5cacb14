r"""Start a server and outlive it, so that nothing is left behind, however the server or its owner ends.

    owner ---- starts ----> this script ---- becomes ----> tritonserver ---- starts ----> stubs
                                 \---- forks ----> guard

The script runs before the owner creates the first file, and waits for a line on standard input. Then it
forks and becomes the server, so the owner's child is the server itself. The fork, the guard,
waits for the end of either process: when the owner is gone (kill -9 included) it stops the server, when the
server is gone it ends the stubs and removes the shared memory and the folder. A death signal (prctl) would
follow the thread that called start(), not the owner, and would leave the shared memory.

A server's children may leave its session. Their environment still has the variable MARK, unless they were started with
another one; those that are descendants when the server is stopped are found as such.

This module runs as a script without the package on its path, so it imports only the standard library.
"""

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

SHARED_MEMORY = Path("/dev/shm")
GRACE_S = 8.0
GO = "go\n"
MARK = "INFEROMETER_SERVER"
"""Variable in the environment of a server and of the processes that it starts."""

_POLL_S = 0.2
_MOST_ROUNDS = 100  # a process may start another one during the search


def guard_command(files: "ServerFiles", *, log: Path, alive: int) -> list[str]:
    """Return the prefix of a server's command; the pipe `alive` closes when the guard is done."""
    words = (os.getpid(), alive, log, files.prefix, files.runtime, files.scratch_log or "")
    return [sys.executable, "-I", "-S", __file__, *map(str, words)]


class ServerFiles(NamedTuple):
    """Files that a server leaves in the file system."""

    prefix: str  # of the names of its shared memory regions
    runtime: Path
    scratch_log: Path | None  # a temporary log

    def remove(self) -> None:
        """Remove the shared memory and the folder, if they exist."""
        for region in SHARED_MEMORY.glob(f"{self.prefix}*"):
            region.unlink(missing_ok=True)
        shutil.rmtree(self.runtime, ignore_errors=True)

    def remove_log(self) -> None:
        if self.scratch_log is not None:
            self.scratch_log.unlink(missing_ok=True)


def end_session(session: int, *, but: int | None = None) -> None:
    """Kill all remaining processes of a session, including those with their own process group."""
    _kill_all(lambda rows: (row for row in rows if row.session == session and row.pid != but))


def end_strays(mark: str, family: "frozenset[ProcessRow]" = frozenset()) -> None:
    """Kill processes that left the session of a server: those with its mark, and its former descendants."""
    known = {(row.pid, row.started) for row in family}
    own = os.getpid()

    def left(rows: "tuple[ProcessRow, ...]") -> "Iterator[ProcessRow]":
        marked = _with_variable(f"{MARK}={mark}".encode(), rows)
        return (
            row for row in rows if row.pid != own and ((row.pid, row.started) in known or row.pid in marked)
        )

    _kill_all(left)


def _kill_all(left: "Callable[[tuple[ProcessRow, ...]], Iterator[ProcessRow]]") -> None:
    for _ in range(_MOST_ROUNDS):
        pids = [row.pid for row in left(tuple(_processes()))]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not pids:
            return


class ProcessRow(NamedTuple):
    """A process that has not exited."""

    pid: int
    parent: int
    session: int
    started: str  # tells a process from a later one with the same ID


def descendants(pid: int) -> "frozenset[ProcessRow]":
    """Return the processes that this process and its descendants started and that are still running."""
    rows = tuple(_processes())
    found: set[ProcessRow] = set()
    parents = {pid}
    while parents:
        children = {row for row in rows if row.parent in parents} - found
        found |= children
        parents = {row.pid for row in children}
    return frozenset(found)


def _processes() -> "Iterator[ProcessRow]":
    if not _has_proc():
        yield from _listed_processes()
        return
    for name in os.listdir("/proc"):
        row = _maybe_row(name) if name.isdigit() else None
        if row is not None:
            yield row


def _maybe_row(pid: str) -> ProcessRow | None:
    """Return the row of a process; None if it has exited, even if not yet reaped."""
    with contextlib.suppress(OSError, IndexError, ValueError), open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
        if fields[0] not in (b"Z", b"X"):
            return ProcessRow(int(pid), int(fields[1]), int(fields[3]), fields[19].decode())
    return None


def _with_variable(text: bytes, rows: "tuple[ProcessRow, ...]") -> set[int]:
    """Return the processes that were started with this variable and value in their environment, if it is visible."""
    if _has_proc():
        return {row.pid for row in rows if text in _environment(row.pid).split(b"\0")}
    lines = (line.split() for line in _ps("eww", "-A", "-o", "pid=,command=").splitlines())
    return {int(words[0]) for words in lines if text in words}


def _environment(pid: int) -> bytes:
    """Return the environment that a process was started with; empty if it cannot be read."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        return file.read()
    return b""


# --- systems without /proc


def _has_proc() -> bool:
    return os.path.exists("/proc/self/stat")


def _listed_processes() -> "Iterator[ProcessRow]":
    for line in _ps("-A", "-o", "pid=,ppid=,stat=,lstart=").decode("utf-8", "replace").splitlines():
        pid, parent, state, *started = line.split()
        if not state.startswith("Z"):
            with contextlib.suppress(OSError):  # it has exited
                yield ProcessRow(int(pid), int(parent), os.getsid(int(pid)), " ".join(started))


def _ps(*words: str) -> bytes:
    """Return the output of `ps`; empty if it fails."""
    with contextlib.suppress(OSError):
        return subprocess.run(["ps", *words], capture_output=True, check=False).stdout
    return b""


# --- the script


def main(arguments: list[str]) -> None:
    alive, log, (prefix, runtime, scratch_log) = int(arguments[1]), arguments[2], arguments[3:6]
    files = ServerFiles(prefix, Path(runtime), Path(scratch_log) if scratch_log else None)
    owner, server = _Process(int(arguments[0])), _Process(os.getpid())
    # The parent is checked after its handle was opened, so a later process with the same ID is excluded.
    if os.getppid() != owner.pid or sys.stdin.readline() != GO:
        files.remove()
        files.remove_log()
        return
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sink = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    if os.fork() != 0:
        os.close(alive)
        os.execv(arguments[6], arguments[6:])
    os.setsid()  # from here on this is the guard
    _wait_any([owner, server])
    family = descendants(server.pid)
    _stop(server)
    end_strays(prefix, family)
    files.remove()
    if owner.has_ended():
        files.remove_log()


class _Process:
    """A process that is not a child, but can be waited for."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.handle: int | None = None
        with contextlib.suppress(OSError):  # a kernel or sandbox without pidfd_open: poll instead
            self.handle = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None

    def has_ended(self) -> bool:
        if self.handle is not None:
            return bool(select.select([self.handle], [], [], 0)[0])
        try:
            os.kill(self.pid, 0)
        except OSError:  # it does not exist, or its number belongs to a process of another user by now
            return True
        return False


def _wait_any(processes: list[_Process], timeout_s: float | None = None) -> None:
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    handles = [process.handle for process in processes if process.handle is not None]
    pause_s = timeout_s if len(handles) == len(processes) else _POLL_S
    while not any(process.has_ended() for process in processes):
        if deadline is not None and time.monotonic() >= deadline:
            return
        select.select(handles, [], [], pause_s)


def _stop(server: _Process) -> None:
    if not server.has_ended():
        with contextlib.suppress(ProcessLookupError):
            os.kill(server.pid, signal.SIGTERM)
        _wait_any([server], GRACE_S)
    end_session(server.pid)


if __name__ == "__main__":
    main(sys.argv[1:])
