"""Run programs to completion: with a deadline, on chosen cores, and with their total CPU time."""

import contextlib
import math
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bar import BenchError

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Ended:
    """Output and cost of a program; `cpu_s` includes all processes it started and waited for. It is NaN if the program
    left others behind."""

    output: str
    cpu_s: float
    wall_s: float


def run(
    command: Sequence[str],
    *,
    timeout_s: float,
    environment: Mapping[str, str] | None = None,
    cores: frozenset[int] | None = None,
    counts_cpu: bool = True,
) -> Ended:
    """Run the program in its own process group; raise BenchError if it fails or hangs, or if it leaves processes behind
    and its CPU time counts."""
    with tempfile.TemporaryFile() as sink:
        began = time.monotonic()
        with pinned(cores):
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                cwd=ROOT,
                start_new_session=True,
            )
        is_late, status, cpu_s = _await(child.pid, timeout_s)
        child.returncode = os.waitstatus_to_exitcode(status)
        wall_s = time.monotonic() - began
        is_clean = not end_group(child.pid)
        sink.seek(0)
        output = sink.read().decode(errors="replace")
    name = " ".join((Path(command[0]).name, *command[1:]))  # its folder is irrelevant to readers
    if is_late:
        raise BenchError(f"'{name}' did not end within {timeout_s:g} s")
    if child.returncode != 0:
        raise BenchError(f"'{name}' ended with status {child.returncode}: {_last_line(output)}")
    if counts_cpu and not is_clean:
        raise BenchError(f"'{name}' left a process behind, whose CPU time was not counted")
    return Ended(output, cpu_s if is_clean else math.nan, wall_s)


def _await(pid: int, timeout_s: float) -> tuple[bool, int, float]:
    """Whether it had to be killed, its wait status, and its CPU seconds including all processes it waited for."""
    watched = os.pidfd_open(pid)
    try:
        waiting = select.poll()
        waiting.register(watched, select.POLLIN)
        is_late = not waiting.poll(timeout_s * 1000)
    except BaseException:
        end_group(pid)
        raise
    finally:
        os.close(watched)
    if is_late:
        end_group(pid)
    _, status, usage = os.wait4(pid, 0)
    return is_late, status, usage.ru_utime + usage.ru_stime


def end_group(group: int) -> bool:
    """Kill the rest of a process group; return whether there was any."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


@contextlib.contextmanager
def pinned(cores: frozenset[int] | None) -> Iterator[None]:
    """Pin processes started inside to these cores; None changes nothing."""
    if cores is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@dataclass(frozen=True, slots=True)
class Cores:
    """The cores of the load generator and of the server: separate ones, if there are two."""

    load: frozenset[int]
    server: frozenset[int]


def two_cores() -> Cores:
    allowed = sorted(os.sched_getaffinity(0))[:2]
    return Cores(load=frozenset(allowed[:1]), server=frozenset(allowed[-1:]))


def _last_line(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it wrote nothing"
