"""Run a command line like a user, and capture its output."""

import atexit
import io
import os
import re
import sys
from collections.abc import Callable
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile

from inferometer.base.notes import CLIENT_LIMITS, Note
from tests.support.fork_client import ask
from tests.support.fork_server import fork_server

DEADLINE_S = 120
# What any level can be said to have met on a machine that is not the test's alone.
ABOUT_MACHINE = (Note.HOST_BUSY, Note.STOLEN, *CLIENT_LIMITS)
SHARED = "INFEROMETER_FORK_SERVER"  # the environment variable with the address of a fork server to share


@dataclass(frozen=True, slots=True)
class Ended:
    """A finished command."""

    code: int
    stdout: str
    stderr: str
    pid: int = 0  # of its process, if it had its own

    @property
    def stderr_apart_from_machine(self) -> str:
        """Stderr of `perf_analyzer` without its warnings of a busy machine."""
        advice = tuple(f"; {note.advice}\n" for note in ABOUT_MACHINE)
        return "".join(line for line in self.stderr.splitlines(keepends=True) if not line.endswith(advice))

    def figure(self, name: str) -> float:
        """Return the first number after this name on stdout."""
        found = re.search(rf"{re.escape(name)} ([\d.e+]+)", self.stdout)
        assert found is not None, self.stdout
        return float(found[1])


def script(*words: str) -> list[str]:
    """Command line of the script `perf_analyzer`."""
    return [sys.executable, "-m", "inferometer.dialects.perf_analyzer.main", *words]


@cache
def fork_server_address() -> str:
    """Address of this process's fork server, which starts on first use and ends with this process."""
    if SHARED in os.environ:
        return os.environ[SHARED]
    open_ones = ExitStack()
    atexit.register(open_ones.close)
    return open_ones.enter_context(fork_server())


def call(command: str, *words: str, folder: Path | None = None, timeout_s: float = DEADLINE_S) -> Ended:
    """Run a command in a forked process, which starts without imports."""
    with open(os.devnull) as nothing, TemporaryFile() as out, TemporaryFile() as err:
        pid, code = ask(
            fork_server_address(),
            command,
            words,
            fds=(nothing.fileno(), out.fileno(), err.fileno()),
            folder=None if folder is None else str(folder),
            timeout_s=timeout_s,
        )
        out.seek(0)
        err.seek(0)
        stdout, stderr = out.read().decode(), err.read().decode()
    assert "Traceback" not in stderr, stderr
    return Ended(code, stdout, stderr, pid)


def call_script(*words: str) -> Ended:
    """Run the script `perf_analyzer` in a separate process."""
    return call("perf_analyzer", *words)


def call_here(main: Callable[[list[str]], int], *words: str) -> Ended:
    """Run a command inside this process; only its workers are separate processes."""
    stdout, stderr = io.StringIO(), io.StringIO()
    with redirect_stdout(stdout), redirect_stderr(stderr):
        code = main(list(words))
    return Ended(code, stdout.getvalue(), stderr.getvalue())
