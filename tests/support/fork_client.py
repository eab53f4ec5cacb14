"""Asks a fork server for a process and waits for its end. It must start quickly, so it needs the standard library only.

As a program: `python -IS fork_client.py ADDRESS COMMAND WORD...` is that command, with the descriptors it was given.
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
    """A process out of a fork server. Its descriptor stays its own, even where its number is soon another's."""

    def __init__(self, address: str, request: Mapping[str, object], fds: Mapping[int, int]) -> None:
        """`fds` are the places of descriptors in it, and which of ours they are."""
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(address)
        text = json.dumps({**request, "places": list(fds)}).encode() + b"\n"
        sent = socket.send_fds(self._connection, [text], list(fds.values()))
        if sent < len(text):  # else the process may be over already
            self._connection.sendall(text[sent:])
        number, ends, _, _ = socket.recv_fds(self._connection, 32, 1)
        if not ends:  # there is no room for one more
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        (self._fd,) = ends
        self.pid = int(number)
        self._code: int | None = None

    def fileno(self) -> int:
        """Readable when it is over."""
        return self._connection.fileno()

    def kill(self) -> None:
        if self._code is not None:
            return
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._fd, signal.SIGKILL)

    def wait(self, timeout_s: float | None = None) -> int:
        """Its exit code; TimeoutError where it does not end in time."""
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
    """A process of this command, with these limits of resources. It joins the process group, 0 is one of its own."""
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
    """What `load.workers` starts, by the last word of its command."""
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
    """The process id of a command and its exit code. One that takes too long is killed, and TimeoutError raised."""
    process = fork_command(address, command, words, fds=dict(enumerate(fds)), folder=folder)
    try:
        return process.pid, process.wait(timeout_s)
    except TimeoutError:
        process.kill()
        process.wait()
        raise


if __name__ == "__main__":
    sys.exit(ask(sys.argv[1], sys.argv[2], sys.argv[3:])[1] % 256)
