"""Running a command line as its user would, and what it said."""

import io
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass

DEADLINE_S = 120


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that is over."""

    code: int
    stdout: str
    stderr: str

    def figure(self, name: str) -> float:
        """The first number after this name on stdout."""
        found = re.search(rf"{re.escape(name)} ([\d.e+]+)", self.stdout)
        assert found is not None, self.stdout
        return float(found[1])


def script(*words: str) -> list[str]:
    """The script `perf_analyzer` as the words of a process."""
    return [sys.executable, "-m", "inferometer.cli.perf_analyzer", *words]


def call_script(*words: str) -> Ended:
    """The script in a process of its own."""
    done = subprocess.run(script(*words), capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return Ended(done.returncode, done.stdout, done.stderr)


def call_here(main: Callable[[list[str]], int], *words: str) -> Ended:
    """A command inside this process: only its workers are others."""
    stdout, stderr = io.StringIO(), io.StringIO()
    with redirect_stdout(stdout), redirect_stderr(stderr):
        code = main(list(words))
    return Ended(code, stdout.getvalue(), stderr.getvalue())
