"""Request a process from a fork server and wait for its end. It must start fast, so it uses the standard library only.

As a program, `python -IS fork_client.py ADDRESS COMMAND WORD...` runs that command with its own descriptors.
"""

import errno
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

WORKER = "worker"

INHERITED = (resource.RLIMIT_NOFILE, resource.RLIMIT_AS, resource.RLIMIT_FSIZE)
"""Limits that a process passes on to those it starts."""


class ForkedProcess:
    """A process from a fork server. Its pidfd stays valid even if its process id is reused."""

    def __init__(self, address: str, request: Mapping[str, object], fds: Mapping[int, int]) -> None:
        """`fds` maps descriptors of the new process to descriptors of this one."""
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(address)
        text = json.dumps({**request, "places": list(fds)}).encode() + b"\n"
        sent = socket.send_fds(self._connection, [text], list(fds.values()))
        if sent < len(text):  # otherwise the process may already have ended
            self._connection.sendall(text[sent:])
        number, ends, _, _ = socket.recv_fds(self._connection, 32, 1)
        if not ends:  # the process could not be forked
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        (self._fd,) = ends
        self.pid = int(number)
        self._code: int | None = None

    def fileno(self) -> int:
        """Descriptor that is readable when the process has ended."""
        return self._connection.fileno()

    def kill(self) -> None:
        if self._code is not None:
            return
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._fd, signal.SIGKILL)

    def wait(self, timeout_s: float | None = None) -> int:
        """Return its exit code; raise TimeoutError if it does not end in time."""
        if self._code is None:
            self._connection.settimeout(timeout_s)
            self._code = int(self._connection.recv(32))
            self._connection.close()
            os.close(self._fd)
        return self._code


def fork_command(
    address: str,
    command: str,
    words: Sequence[str],
    *,
    fds: Mapping[int, int],
    folder: str | None = None,
    environment: Mapping[str, str] | None = None,
    limits: Mapping[int, int] | None = None,
    group: int | None = None,
) -> ForkedProcess:
    """Start this command with these resource limits. It joins the process group; 0 creates a new group."""
    request = {
        "command": command,
        "words": list(words),
        "folder": os.getcwd() if folder is None else folder,
        "environment": dict(os.environ if environment is None else environment),
        "limits": list((limits or {}).items()),
        "group": group,
    }
    return ForkedProcess(address, request, fds)


def fork_worker(address: str, command: Sequence[str], fds: Sequence[int]) -> ForkedProcess:
    """Start a worker for `load.workers`, by the last word of its command."""
    with open(os.devnull) as nothing:
        places = {0: nothing.fileno(), 1: 1, 2: 2, **{fd: fd for fd in fds}}
        limits = {kind: resource.getrlimit(kind)[1] for kind in INHERITED}
        return fork_command(address, WORKER, command[-1:], fds=places, limits=limits, group=os.getpgrp())


def ask(
    address: str,
    command: str,
    words: Sequence[str],
    *,
    fds: tuple[int, int, int] = (0, 1, 2),
    folder: str | None = None,
    timeout_s: float | None = None,
) -> tuple[int, int]:
    """Run a command; return its process id and exit code. Kill it and raise TimeoutError if it takes too long."""
    process = fork_command(address, command, words, fds=dict(enumerate(fds)), folder=folder)
    try:
        return process.pid, process.wait(timeout_s)
    except TimeoutError:
        process.kill()
        process.wait()
        raise


if __name__ == "__main__":
    sys.exit(ask(sys.argv[1], sys.argv[2], sys.argv[3:])[1] % 256)
