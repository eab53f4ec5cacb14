"""The link between a running command and the store: it saves the answer as it grows, and records how the run ended."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from inferometer.base.answer_file import Answer, to_json
from inferometer.base.errors import InferometerError, LocalError, UsageError
from inferometer.base.secrets import redacted
from inferometer.base.signals import UNREAD, interrupted_code
from inferometer.base.slo import Slo
from inferometer.base.text import to_stderr
from inferometer.stats.watcher import Watcher, together
from inferometer.store.commit import CommitReader
from inferometer.store.live_file import LiveFile
from inferometer.store.private import write_private
from inferometer.store.run import FAILED, FINISHED, Run
from inferometer.store.run_folder import RunFolder

Tell = Callable[[Mapping[str, Any]], None]
"""A receiver of live lines."""


class Keeper:
    """Stores a run, if it has a folder. Errors of the store never affect the run: they cause one warning."""

    def __init__(self, run: Run, folder: RunFolder | None) -> None:
        self.run = run
        self._folder = folder
        self._answer: Answer | None = None
        self._has_warned = self._is_over = False
        self._live: LiveFile | None = None
        self._tells: list[Tell] = []
        self._watchers: list[Watcher] = []
        self._reported: dict[str, Any] = {}  # the subject, as last reported to the live page
        self._limits: tuple[Mapping[str, Any], ...] = ()  # limits of the SLO, for the charts of the live page
        self._commit: CommitReader | None = None
        if folder is not None:
            self._live = LiveFile(folder.live_path, self.warn)
            self._tells.append(self._live.tell)
            self._commit = CommitReader(Path.cwd())

    @property
    def is_kept(self) -> bool:
        return self._folder is not None

    def warn(self, error: Exception) -> None:
        """Print a warning, once."""
        if not self._has_warned:
            self._has_warned = True
            to_stderr(f"WARNING: this run is not stored completely: {error}")

    def about(self, *, url: str, model: str, server: str = "", slo: Slo | None = None) -> None:
        """Record the subject of the measurement, and the SLO that applies."""
        if slo is not None and self._tells:
            from inferometer.store.live import limit_lines

            self._limits = limit_lines(slo)
        self.run = replace(self.run, url=redacted(url), model=redacted(model), server=server)
        self._write()

    def tell_also(self, tell: Tell) -> None:
        """Add another receiver of live lines, whether or not the run is stored; call this before the run starts."""
        self._tells.append(tell)

    def watch_also(self, watcher: Watcher) -> None:
        """Add another watcher of the run; call this before the run starts."""
        self._watchers.append(watcher)

    def watching(self, progress: Watcher) -> Watcher:
        """Return a watcher that informs the progress display, other watchers, and the receivers of live lines."""
        if not self._tells:
            return together(progress, *self._watchers) if self._watchers else progress
        from inferometer.store.live import LiveFeed

        return together(progress, *self._watchers, LiveFeed(self._tell))

    def _tell(self, line: Mapping[str, Any]) -> None:
        for tell in self._tells:
            tell(line)

    def save(self, answer: Answer) -> None:
        """Save the answer so far."""
        if not self._tells:
            return
        from inferometer.store.summary import summarized

        self._answer = answer
        self.run = summarized(self.run, answer)
        if self._folder is not None:
            self._attempt(partial(write_private, self._folder.answer_path, to_json(answer)))
        self._write()

    def end(self, code: int, failure: str = "") -> None:
        """Record the end of the command; `failure` is the reason if it ended early. Finished levels still count."""
        if self._is_over or self._folder is None:
            return
        self._is_over = True
        run = replace(self.run, state=FAILED, verdict=failure)
        if self._answer is not None and (self.run.points or not failure):
            from inferometer.store.summary import concluded

            run = replace(concluded(self.run, self._answer), state=FINISHED)
        commit = "" if self._commit is None else self._commit.result()
        self.run = replace(run, code=code, ended_at=now(), commit=commit)
        self._write()
        if self._live is not None:
            self._live.end(code)

    def discard(self) -> None:
        """Remove the run, in which nothing was measured."""
        if self._folder is not None:
            import shutil

            self._is_over = True
            if self._commit is not None:
                self._commit.result()
            shutil.rmtree(self._folder.path, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, UsageError) and self._answer is None:
            self.discard()
        elif isinstance(error, InferometerError):
            self.end(error.exit_code, str(error))
        elif isinstance(error, KeyboardInterrupt):
            self.end(interrupted_code(), "interrupted")
        elif isinstance(error, BrokenPipeError):
            self.end(UNREAD, "the reader of its output closed the pipe")
        elif error is not None:
            self.end(LocalError.exit_code, redacted(f"{type(error).__name__}: {error}"))

    def _write(self) -> None:
        folder, run = self._folder, self.run
        about = {"server": run.server, "url": run.url, "model": run.model, "limits": self._limits}
        if about != self._reported:
            self._reported = about
            self._tell({"kind": "prepared", **about, "command": run.command})
        if folder is not None:
            self._attempt(lambda: folder.change(lambda before: replace(run, tags=before.tags)))

    def _attempt(self, write: Callable[[], object]) -> None:
        try:
            write()
        except (OSError, LocalError) as error:
            self.warn(error)


def now() -> str:
    return datetime.now().astimezone().isoformat(timespec="milliseconds")
