"""The process of a run: whether it is alive, and how to interrupt it."""

import contextlib
import os
import signal

from inferometer.base.errors import UsageError
from inferometer.base.processes import maybe_process
from inferometer.store.run import RUNNING, Run

_APART_S = 2.0  # tolerance for start times, which move when the clock is adjusted


def started(pid: int) -> float | None:
    """Start time of a process in unix seconds; None if there is none, or if it is a zombie."""
    found = maybe_process(pid)
    if found is None or found.is_zombie:
        return None
    return found.started_s


def is_alive(pid: int, process_started: float) -> bool:
    """Whether this process is alive, and not another one that reused its id."""
    found = started(pid) if pid > 0 else None
    return found is not None and abs(found - process_started) < _APART_S


def interrupt(run: Run) -> None:
    """Interrupt the run as Ctrl-C does: it still reports the figures measured so far."""
    if run.state == RUNNING and run.host == os.uname().nodename and is_alive(run.pid, run.process_started):
        with contextlib.suppress(ProcessLookupError):
            os.kill(run.pid, signal.SIGINT)
            return
    raise UsageError(f"run {run.id} is not running on this machine", remedy="see `inferometer runs`")
