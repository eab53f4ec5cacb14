"""The process of a run: whether it is still there, and how it is asked to end."""

import contextlib
import os
import signal
import time
from pathlib import Path

from inferometer.base.errors import UsageError
from inferometer.store.run import RUNNING, Run

_APART_S = 2.0  # a clock that is set anew moves the start of a process by less


def started(pid: int) -> float | None:
    """When a process started, in unix seconds; None where there is none, or where it has only to be waited for."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - int(words[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None
    return None if words[0] in "ZX" else time.time() - age_s


def is_alive(pid: int, process_started: float) -> bool:
    """Whether this very process runs: its number may have been given to another one."""
    found = started(pid) if pid > 0 else None
    return found is not None and abs(found - process_started) < _APART_S


def interrupt(run: Run) -> None:
    """End it as Ctrl-C does: what has been measured is still reported."""
    if run.state == RUNNING and run.host == os.uname().nodename and is_alive(run.pid, run.process_started):
        with contextlib.suppress(ProcessLookupError):
            os.kill(run.pid, signal.SIGINT)
            return
    raise UsageError(f"run {run.id} is not running on this machine", remedy="see `inferometer runs`")
