"""What a running command holds of the store: it hands over its answer as it grows, and says how it ended."""

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
from inferometer.base.text import to_stderr
from inferometer.stats.watcher import Watcher, together
from inferometer.store.commit import CommitReader
from inferometer.store.live_file import LiveFile
from inferometer.store.private import write_private
from inferometer.store.run import FAILED, FINISHED, Run
from inferometer.store.run_folder import RunFolder

Tell = Callable[[Mapping[str, Any]], None]
"""Takes a live line."""


class Keeper:
    """Without a folder nothing is kept. What goes wrong with the store never harms the run: one warning, and on."""

    def __init__(self, run: Run, folder: RunFolder | None) -> None:
        self.run = run
        self._folder = folder
        self._answer: Answer | None = None
        self._has_warned = self._is_over = False
        self._live: LiveFile | None = None
        self._tells: list[Tell] = []
        self._told: dict[str, Any] = {}  # what is measured, as the live page knows it
        self._limits: tuple[Mapping[str, Any], ...] = ()  # of the SLO, for the charts of the live page
        self._commit: CommitReader | None = None
        if folder is not None:
            self._live = LiveFile(folder.live_path, self.warn)
            self._tells.append(self._live.tell)
            self._commit = CommitReader(Path.cwd())

    @property
    def is_kept(self) -> bool:
        return self._folder is not None

    def warn(self, error: Exception) -> None:
        """Said once."""
        if not self._has_warned:
            self._has_warned = True
            to_stderr(f"WARNING: this run is not kept as a whole: {error}")

    def about(self, *, url: str, model: str, server: str = "", slo: str | None = None) -> None:
        """What is going to be measured, and the SLO that it is held to."""
        if slo is not None and self._tells:
            from inferometer.store.live import limit_lines

            self._limits = limit_lines(slo)
        self.run = replace(self.run, url=redacted(url), model=redacted(model), server=server)
        self._write()

    def tell_also(self, tell: Tell) -> None:
        """Somebody else who gets the live lines, whether the run is kept or not; to be added before it begins."""
        self._tells.append(tell)

    def watching(self, progress: Watcher) -> Watcher:
        """Tells both: who shows progress, and who shows this run elsewhere."""
        if not self._tells:
            return progress
        from inferometer.store.live import LiveFeed

        return together(progress, LiveFeed(self._tell))

    def _tell(self, line: Mapping[str, Any]) -> None:
        for tell in self._tells:
            tell(line)

    def save(self, answer: Answer) -> None:
        """The answer as far as it is known."""
        if not self._tells:
            return
        from inferometer.store.summary import summarized

        self._answer = answer
        self.run = summarized(self.run, answer)
        if self._folder is not None:
            self._attempt(partial(write_private, self._folder.answer_path, to_json(answer)))
        self._write()

    def end(self, code: int, failure: str = "") -> None:
        """The command is over; `failure` says why it was before its time. What was measured until then counts."""
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
        """Nothing was run: leave nothing behind."""
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
            self.end(UNREAD, "the reader of its output has gone")
        elif error is not None:
            self.end(LocalError.exit_code, redacted(f"{type(error).__name__}: {error}"))

    def _write(self) -> None:
        folder, run = self._folder, self.run
        about = {"server": run.server, "url": run.url, "model": run.model, "limits": self._limits}
        if about != self._told:
            self._told = about
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
