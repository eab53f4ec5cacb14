"""Runs that were asked for in the browser: one at a time, the others wait.

A run is a process of its own, in a session of its own: it goes on when the browser interface ends, however that ends.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from inferometer.base.text import printable

MOST_SAID = 4000  # characters of what a failed command said that are kept
KEPT = 5  # jobs that failed before they became a run


@dataclass(frozen=True, slots=True)
class Job:
    """A command that was asked for."""

    number: int
    words: tuple[str, ...]  # after `inferometer`
    pid: int = 0  # 0 while it waits
    failure: str = ""  # what it said, where it ended without becoming a run


class Jobs:
    """The queue. `is_busy` says whether a run of the store is going on that is not ours: it is waited for, too."""

    def __init__(self, folder: Path, is_busy: Callable[[], bool], is_run: Callable[[int], bool]) -> None:
        self._folder = folder
        self._is_busy = is_busy
        self._is_run = is_run  # whether the process with that number became a run
        self._numbers = count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._waiting: list[Job] = []
        self._failed: list[Job] = []
        self._current: Job | None = None

    @property
    def waiting(self) -> tuple[Job, ...]:
        return tuple(self._waiting)

    @property
    def failed(self) -> tuple[Job, ...]:
        return tuple(self._failed)

    @property
    def current(self) -> Job | None:
        return self._current

    def find(self, number: int) -> Job | None:
        """A job that waits, goes on or has failed."""
        return next((job for job in self._all() if job.number == number), None)

    def add(self, words: tuple[str, ...]) -> Job:
        job = Job(next(self._numbers), words)
        self._waiting.append(job)
        self.step()
        return self.find(job.number) or job

    def remove(self, number: int) -> None:
        """One that waits or has failed; what runs is stopped as a run."""
        self._waiting = [job for job in self._waiting if job.number != number]
        self._failed = [job for job in self._failed if job.number != number]

    def step(self) -> None:
        """See whether the process has ended, and start the next. To be called again and again."""
        if self._process is not None and self._process.poll() is not None:
            self._end()
        if self._process is None and self._waiting and not self._is_busy():
            self._start(self._waiting.pop(0))

    def _all(self) -> Iterator[Job]:
        yield from self._waiting
        yield from self._failed
        if self._current is not None:
            yield self._current

    def _log(self, job: Job) -> Path:
        return self._folder / "jobs" / f"{os.getpid()}-{job.number}.log"

    def _start(self, job: Job) -> None:
        log = self._log(job)
        try:
            log.parent.mkdir(exist_ok=True)
            with log.open("wb") as said:
                command = (sys.executable, "-m", "inferometer.cli.main", *job.words, "--store", str(self._folder))
                self._process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
                )
        except OSError as error:
            self._failed = [*self._failed, replace(job, failure=f"it cannot be started: {error}")][-KEPT:]
            return
        self._current = replace(job, pid=self._process.pid)

    def _end(self) -> None:
        assert self._process is not None and self._current is not None
        job, log = self._current, self._log(self._current)
        if self._process.returncode != 0 and not self._is_run(job.pid):
            said = log.read_text(errors="replace")[-MOST_SAID:].strip() if log.exists() else ""
            failure = printable(said) or f"it ended with code {self._process.returncode} and said nothing"
            self._failed = [*self._failed, replace(job, failure=failure)][-KEPT:]
        log.unlink(missing_ok=True)
        self._process = self._current = None
