r"""Start a server and outlive it: however the server or its owner ends, nothing is left behind.

    owner ---- starts ----> this script ---- becomes ----> tritonserver ---- starts ----> stubs
                                 \---- forks ----> guard

The script runs before the owner creates the first file, and waits for a line on standard input. Then it
forks and becomes the server, so the owner's child is the server itself. The fork, the guard,
waits for the end of either process: when the owner is gone (kill -9 included) it stops the server, when the
server is gone it ends the stubs and removes the shared memory and the folder. A death signal (prctl) would
follow the thread that called start(), not the owner, and would leave the shared memory.

Run as a script, without the package on its path: only the standard library here.
"""

import contextlib
import os
import select
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import NamedTuple

SHARED_MEMORY = Path("/dev/shm")
GRACE_S = 8.0
GO = "go\n"
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
    for _ in range(_MOST_ROUNDS):
        left = {int(pid) for pid in os.listdir("/proc") if pid.isdigit() and _session_of(pid) == session} - {
            but
        }
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not left:
            return


def _session_of(pid: str) -> int | None:
    """Return the session of a process; None if it has exited, even if not yet reaped."""
    with contextlib.suppress(OSError, IndexError, ValueError), open(f"/proc/{pid}/stat", "rb") as file:
        state, _, _, session = file.read().rpartition(b")")[2].split()[:4]
        return None if state in (b"Z", b"X") else int(session)
    return None


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
    _stop(server)
    files.remove()
    if owner.has_ended():
        files.remove_log()


class _Process:
    """A process that can be waited for although it is not a child."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.handle: int | None = None
        with contextlib.suppress(OSError):  # a kernel or sandbox without pidfd_open: poll instead
            self.handle = os.pidfd_open(pid)

    def has_ended(self) -> bool:
        if self.handle is not None:
            return bool(select.select([self.handle], [], [], 0)[0])
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
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
