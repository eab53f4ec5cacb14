"""The browser interface for a run with --ui: the one that serves its store, or a new one in the background."""

import subprocess
import time
from pathlib import Path

from inferometer.base.errors import LocalError
from inferometer.base.interpreter import module_command
from inferometer.ui.place import UiPlace, maybe_read

IDLE = "5m"  # it exits this long after its last page was closed
DEADLINE_S = 20.0


def launched(folder: Path) -> UiPlace:
    """Return the running interface, or start one in its own session, which outlives the run."""
    found = maybe_read(folder)
    if found is not None:
        return found
    command = module_command("inferometer.cli.main", "ui", "--store", str(folder.resolve()), "--idle", IDLE)
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    until_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < until_s and process.poll() is None:
        found = maybe_read(folder)
        if found is not None:
            return found
        time.sleep(0.05)
    raise LocalError("the browser interface did not start", remedy="run `inferometer ui` to see why")
