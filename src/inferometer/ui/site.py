"""What all pages share: the store, the queue, the readers of running runs, and who is watching."""

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

NEWEST = 50  # runs among which that of a job is looked for


class Site:
    """One store in a browser."""

    def __init__(self, folder: Path, startables: Iterable[Startable]) -> None:
        self.folder = folder.resolve()
        self.store = Store(self.folder)
        self.startables: Mapping[str, Startable] = {row.name: row for row in startables}
        self.jobs = Jobs(self.folder, self.is_busy, lambda pid: self.run_of(pid) is not None)
        self.is_ending = False  # streams are to end
        self._watching = 0  # streams that are open
        self._asked_at_s = monotonic()
        self._live: dict[str, LiveLines] = {}

    @property
    def uploads(self) -> Path:
        return folder_of(self.folder)

    # --- runs

    def running(self) -> list[Run]:
        return self.store.runs(RunFilter(state=RUNNING))

    def is_busy(self) -> bool:
        """Whether a run of this store goes on here, whoever started it."""
        return any(run.host == os.uname().nodename for run in self.running())

    def run_of(self, pid: int) -> Run | None:
        """The run of a process that was started here."""
        newest = self.store.runs(limit=NEWEST)
        return next((run for run in newest if run.pid == pid and run.host == os.uname().nodename), None)

    def row(self, run: Run) -> RunRow:
        return RunRow(run, self.store.short(run))

    def rows(self, runs: Sequence[Run]) -> list[RunRow]:
        shorts = self.store.shorts(runs)
        return [RunRow(run, shorts[run.id]) for run in runs]

    def run_of_job(self, job: QueuedRun) -> Run | None:
        return None if job.pid == 0 else self.run_of(job.pid)

    # --- who watches

    @contextmanager
    def watched(self, run: Run) -> Iterator[LiveLines]:
        """The reader of a run's file, which all that watch it share."""
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
        """Somebody asked for something."""
        self._asked_at_s = monotonic()

    def idle_s(self) -> float:
        """How long no page has been open, and nothing has been waiting."""
        if self._watching or self.jobs.current is not None or self.jobs.waiting:
            self.touch()
        return monotonic() - self._asked_at_s
