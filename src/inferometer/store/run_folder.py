"""The folder of one run: what is known about it, its answer, and what the live page shows."""

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
"""Size limit for what is known about a run."""


@frozen
class RunFolder:
    """Each file is replaced whole, so that no reader ever sees half of one."""

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
        """None where it is not written yet, gone, or damaged."""
        try:
            return from_plain(decode_json(read_regular(self.run_path, LARGEST, "the run")[0]))
        except (UsageError, ValueError):
            return None

    def write(self, run: Run) -> None:
        write_private(self.run_path, json.dumps(to_plain(run), indent=1) + "\n")

    def change(self, changed: Callable[[Run], Run]) -> Run | None:
        """What is written there now, changed; nobody else changes it meanwhile. None where no run is there."""
        with self._locked():
            before = self.maybe_run()
            if before is None:
                return None
            after = changed(before)
            self.write(after)
        return after

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """The lock ends with the process at the latest; some network disks have none."""
        opened = os.open(self.path, os.O_RDONLY)
        try:
            with suppress(OSError):
                fcntl.flock(opened, fcntl.LOCK_EX)
            yield
        finally:
            os.close(opened)
