"""The run folders of a store as they are now."""

import os
import re
import socket
from dataclasses import replace
from pathlib import Path

from inferometer.base.frozen import frozen
from inferometer.store.process import is_alive
from inferometer.store.run import KILLED, RUNNING, Run
from inferometer.store.run_folder import RunFolder

DIGITS = 8  # length of an id
_ID = re.compile(f"[0-9a-f]{{{DIGITS}}}")


@frozen
class RunFiles:
    """The runs below one folder, which need not exist yet."""

    path: Path

    def names(self) -> set[str]:
        try:
            return set(filter(_ID.fullmatch, os.listdir(self.path)))
        except (FileNotFoundError, NotADirectoryError):
            return set()

    def folder(self, name: str) -> RunFolder:
        return RunFolder(self.path / name)

    def listed_ns(self) -> int:
        """Time when a run was last added or removed."""
        return _changed_ns(self.path)

    def changed_ns(self, name: str) -> int:
        """Time when the file about a run was last written."""
        return _changed_ns(self.folder(name).run_path)

    def maybe_run(self, name: str) -> Run | None:
        """The run; None if it is not written yet, gone, or damaged."""
        run = self.folder(name).maybe_run()
        return None if run is None or run.id != name else seen(run)


def _changed_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def seen(run: Run) -> Run:
    """Mark a run as killed if it ran on this machine and its process is gone; other machines cannot be checked."""
    is_here = run.state == RUNNING and run.host == socket.gethostname()
    return replace(run, state=KILLED) if is_here and not is_alive(run.pid, run.process_started) else run
