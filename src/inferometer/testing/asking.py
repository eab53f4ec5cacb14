"""Asks a nursery for a process and waits for its end. Needs nothing but the standard library: it must start quickly.

As a program: `python -IS asking.py ADDRESS COMMAND WORD...` is that command, with the descriptors it was started with.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress


def ask(
    address: str,
    command: str,
    words: Sequence[str],
    *,
    fds: tuple[int, int, int] = (0, 1, 2),
    folder: str | None = None,
    environment: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
) -> tuple[int, int]:
    """The process id of a command and its exit code. One that takes too long is killed, and TimeoutError raised."""
    request = {
        "command": command,
        "words": list(words),
        "folder": os.getcwd() if folder is None else folder,
        "environment": dict(os.environ if environment is None else environment),
    }
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        text = json.dumps(request).encode() + b"\n"
        sent = socket.send_fds(connection, [text], fds)
        connection.sendall(text[sent:])
        with connection.makefile("r") as answers:
            pid = int(answers.readline())
            connection.settimeout(timeout_s)
            try:
                return pid, int(answers.readline())
            except TimeoutError:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                raise


if __name__ == "__main__":
    sys.exit(ask(sys.argv[1], sys.argv[2], sys.argv[3:])[1] % 256)
