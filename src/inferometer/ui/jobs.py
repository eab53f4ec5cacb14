"""The queue of runs started from the browser: one at a time.

A run is a separate process in its own session, and continues when the browser interface ends, for any reason.
"""

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import field, replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock

from inferometer.base import confined
from inferometer.base.frozen import frozen
from inferometer.base.interpreter import module_command
from inferometer.store.private import ensure_folder, open_file
from inferometer.ui.uploads import folder_of

MOST_SAID = 4000  # most characters kept of a failed command's output
KEPT = 20  # finished jobs that are remembered


@frozen
class QueuedRun:
    """A requested command."""

    number: int
    words: tuple[str, ...] = field(repr=False)  # after `inferometer`
    line: str  # the command as pages show it, without secrets
    pid: int = 0  # 0 while waiting
    failure: str = ""  # its output, if it ended without becoming a run


class Jobs:
    """The queue. `is_busy` reports whether any run of the store is in progress; the queue waits for it."""

    def __init__(self, folder: Path, is_busy: Callable[[], bool], is_run: Callable[[int], bool]) -> None:
        self._folder = folder
        self._is_busy = is_busy
        self._is_run = is_run  # whether a process became a run
        self._numbers = count(1)
        self._lock = Lock()
        self._waiting: tuple[QueuedRun, ...] = ()
        self._ended: tuple[QueuedRun, ...] = ()
        self._started: tuple[QueuedRun, subprocess.Popen[bytes]] | None = None

    @property
    def waiting(self) -> tuple[QueuedRun, ...]:
        return self._waiting

    @property
    def current(self) -> QueuedRun | None:
        started = self._started
        return None if started is None else started[0]

    @property
    def failed(self) -> tuple[QueuedRun, ...]:
        """Jobs that ended without becoming a run, until they are removed."""
        return tuple(job for job in self._ended if job.failure)

    def maybe_find(self, number: int) -> QueuedRun | None:
        known = (*self._waiting, *self._ended, *filter(None, [self.current]))
        return next((job for job in known if job.number == number), None)

    def add(self, words: tuple[str, ...], line: str) -> int:
        """Queue a command, shown as `line`; return the number of the new job."""
        job = QueuedRun(next(self._numbers), words, line)
        with self._lock:
            self._waiting += (job,)
        self.step()
        return job.number

    def remove(self, number: int) -> None:
        """Remove a waiting or finished job; a running one is stopped as a run."""
        with self._lock:
            self._waiting = tuple(job for job in self._waiting if job.number != number)
            self._ended = tuple(job for job in self._ended if job.number != number)

    def step(self) -> None:
        """Check whether the process has ended, and start the next job. Must be called regularly."""
        with self._lock:
            if self._started is not None and self._started[1].poll() is not None:
                self._end(*self._started)
            if self._started is None and self._waiting and not self._is_busy():
                job, *rest = self._waiting
                self._waiting = tuple(rest)
                self._start(job)

    def _log(self, job: QueuedRun) -> Path:
        return self._folder / "jobs" / f"{os.getpid()}-{job.number}.log"

    def _start(self, job: QueuedRun) -> None:
        """Start a job. Its words go over standard input, because other users can list the arguments of processes."""
        log = self._log(job)
        try:
            ensure_folder(log.parent)
            log.unlink(missing_ok=True)
            with open(open_file(log, os.O_WRONLY | os.O_EXCL), "wb") as said, TemporaryFile() as words:
                words.write(json.dumps([*job.words, "--store", str(self._folder)]).encode())
                words.seek(0)
                process = subprocess.Popen(
                    module_command("inferometer.cli.started", job.words[0]),
                    stdin=words,
                    stdout=said,
                    stderr=said,
                    start_new_session=True,
                    umask=0o077,
                    env={**os.environ, confined.VARIABLE: str(folder_of(self._folder))},
                )
        except OSError as error:
            self._remember(replace(job, failure=f"cannot be started: {error}"))
        else:
            self._started = replace(job, pid=process.pid), process

    def _end(self, job: QueuedRun, process: "subprocess.Popen[bytes]") -> None:
        if process.returncode != 0 and not self._is_run(job.pid):
            said = self._log(job).read_text(errors="replace")[-MOST_SAID:].strip()
            job = replace(job, failure=said or f"exited with code {process.returncode} without output")
        self._log(job).unlink(missing_ok=True)
        self._remember(job)
        self._started = None

    def _remember(self, job: QueuedRun) -> None:
        self._ended = (*self._ended, job)[-KEPT:]
