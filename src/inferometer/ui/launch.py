"""The browser interface for a run that asks for it: the one that shows its store, or a new one in the background."""

import subprocess
import time
from pathlib import Path

from inferometer.base.errors import LocalError
from inferometer.base.interpreter import module_command
from inferometer.ui.place import UiPlace, maybe_read

IDLE = "5m"  # after its last page was closed it ends
DEADLINE_S = 20.0


def launched(folder: Path) -> UiPlace:
    """In a session of its own: it outlives the run, so that its report can be read."""
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
    raise LocalError("the pages for the browser could not be started", remedy="try `inferometer ui` by hand")
