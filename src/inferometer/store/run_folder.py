"""The folder of one run: its description, its answer, and its live lines."""

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.reading import MIB, read_regular
from inferometer.base.text import decode_json
from inferometer.store.private import write_private
from inferometer.store.run import Run, from_plain, to_plain

LARGEST = 16 * MIB
"""Size limit for the description of a run."""


@frozen
class RunFolder:
    """Files are replaced as a whole, so that readers never see partial files."""

    path: Path

    @property
    def run_path(self) -> Path:
        return self.path / "run.json"

    @property
    def answer_path(self) -> Path:
        return self.path / "answer.json"

    @property
    def live_path(self) -> Path:
        return self.path / "live.jsonl"

    def maybe_run(self) -> Run | None:
        """The run; None if it is not written yet, gone, or damaged."""
        try:
            return from_plain(decode_json(read_regular(self.run_path, LARGEST, "the run")[0]))
        except (UsageError, ValueError):
            return None

    def write(self, run: Run) -> None:
        write_private(self.run_path, json.dumps(to_plain(run), indent=1) + "\n")

    def change(self, changed: Callable[[Run], Run]) -> Run | None:
        """Apply a change to the stored run under a lock; None if there is no run."""
        with self._locked():
            before = self.maybe_run()
            if before is None:
                return None
            after = changed(before)
            self.write(after)
        return after

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold a lock, which ends with the process at the latest; some network file systems have none."""
        opened = os.open(self.path, os.O_RDONLY)
        try:
            with suppress(OSError):
                fcntl.flock(opened, fcntl.LOCK_EX)
            yield
        finally:
            os.close(opened)
