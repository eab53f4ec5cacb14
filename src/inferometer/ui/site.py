"""State shared by all pages: the store, the queue, readers of running runs, and the viewers."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from inferometer.store.filter import RunFilter
from inferometer.store.run import RUNNING, Run
from inferometer.store.store import Store
from inferometer.ui.form import Startable
from inferometer.ui.jobs import Jobs, QueuedRun
from inferometer.ui.live import LiveLines
from inferometer.ui.pages import RunRow
from inferometer.ui.uploads import folder_of

NEWEST = 50  # newest runs to search for the run of a job


class Site:
    """A store with its queue and readers, shared by all pages."""

    def __init__(self, folder: Path, startables: Iterable[Startable]) -> None:
        self.folder = folder.resolve()
        self.store = Store(self.folder)
        self.startables: Mapping[str, Startable] = {row.name: row for row in startables}
        self.jobs = Jobs(self.folder, self.is_busy, lambda pid: self.run_of(pid) is not None)
        self.is_ending = False  # streams must end
        self.interrupted: set[str] = set()  # runs that were told to stop from here
        self._watching = 0  # open streams
        self._asked_at_s = monotonic()
        self._live: dict[str, LiveLines] = {}

    @property
    def uploads(self) -> Path:
        return folder_of(self.folder)

    # --- runs

    def running(self) -> list[Run]:
        return self.store.runs(RunFilter(state=RUNNING))

    def is_busy(self) -> bool:
        """Whether a run of this store is in progress on this machine, however it was started."""
        return any(run.host == os.uname().nodename for run in self.running())

    def run_of(self, pid: int) -> Run | None:
        """The run of a process started here."""
        newest = self.store.runs(limit=NEWEST)
        return next((run for run in newest if run.pid == pid and run.host == os.uname().nodename), None)

    def row(self, run: Run) -> RunRow:
        return RunRow(run, self.store.short(run))

    def rows(self, runs: Sequence[Run]) -> list[RunRow]:
        shorts = self.store.shorts(runs)
        return [RunRow(run, shorts[run.id]) for run in runs]

    def run_of_job(self, job: QueuedRun) -> Run | None:
        return None if job.pid == 0 else self.run_of(job.pid)

    # --- viewers

    @contextmanager
    def watched(self, run: Run) -> Iterator[LiveLines]:
        """The reader of a run's live lines, shared by all its viewers."""
        self._watching += 1
        try:
            yield self._live.setdefault(run.id, LiveLines(self.store.live_path(run)))
        finally:
            self._watching -= 1
            self.touch()
            if self._watching == 0:
                for lines in self._live.values():
                    lines.close()
                self._live.clear()

    def touch(self) -> None:
        """Record activity."""
        self._asked_at_s = monotonic()

    def idle_s(self) -> float:
        """Seconds since the last page was open or a job was waiting."""
        if self._watching or self.jobs.current is not None or self.jobs.waiting:
            self.touch()
        return monotonic() - self._asked_at_s
