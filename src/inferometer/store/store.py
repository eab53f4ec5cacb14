"""The store of runs: a folder with a folder for each run. A copy of it is a backup."""

import os
import re
import secrets
import socket
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferometer.base.answer_file import Answer, to_json
from inferometer.base.errors import LocalError, UsageError
from inferometer.base.reading import ANSWER, check_file
from inferometer.base.writing import writing
from inferometer.observe.host import host_class
from inferometer.options.names import option_name
from inferometer.store.filter import ALL, RunFilter
from inferometer.store.keeper import Keeper, now
from inferometer.store.private import ensure_folder, ensure_store, make_folder, open_file, write_private
from inferometer.store.process import started
from inferometer.store.run import FINISHED, Run
from inferometer.store.run_files import DIGITS, RunFiles, seen
from inferometer.store.run_folder import RunFolder

if TYPE_CHECKING:
    from inferometer.store.index import Index

VARIABLE = "INFEROMETER_STORE"
FOLDER = Path(".inferometer")
FEWEST = 4  # fewest digits that identify a run
NEWEST_FIRST = "-started_at"
NEWEST = "last"  # in place of an id
_SHORT = re.compile(f"[0-9a-f]{{{FEWEST},{DIGITS}}}")


def where_kept(given: Path | None = None, *, is_off: bool = False) -> Path | None:
    """The folder of the store: as given, else from the environment, else in the working directory. None if storing is
    disabled."""
    if is_off:
        return None
    named = os.environ.get(VARIABLE)
    if given is None and named is None:
        return FOLDER
    folder = given if given is not None else Path(named) if named else None
    if folder is not None and folder.exists() and not folder.is_dir():
        raise UsageError(
            f"the store '{folder}' is not a folder", remedy=f"name a folder with {option_name('--store')}"
        )
    return folder


def may_be_id(word: str) -> bool:
    """Whether a word looks like the id of a run or its beginning, or stands for the newest run."""
    return word == NEWEST or _SHORT.fullmatch(word) is not None


class Store:
    """The runs in a folder, which need not exist yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files = RunFiles(folder / "runs")

    # --- starting a run

    def begin(self, command: str, words: Sequence[str], *, tags: Sequence[str] = ()) -> Keeper:
        """Return the keeper of a new run; if the store cannot be written, warn, and return a keeper that stores
        nothing."""
        run = Run(
            id="",
            command=command,
            words=tuple(words),
            started_at=now(),
            host=socket.gethostname(),
            host_class=host_class(),
            tags=tuple(dict.fromkeys(tags)),
            pid=os.getpid(),
            process_started=started(os.getpid()) or 0.0,
        )
        try:
            folder = self._new_folder()
            run = replace(run, id=folder.path.name)
            folder.write(run)
        except (OSError, LocalError) as error:
            keeper = Keeper(run, None)
            keeper.warn(error)
            return keeper
        return Keeper(run, folder)

    def add(self, answer: Answer, words: Sequence[str]) -> Run:
        """Store an answer that was saved elsewhere, and return its run."""
        from inferometer.store.summary import concluded, summarized

        folder = self._new_folder()
        run = Run(
            id=folder.path.name,
            command=str(getattr(answer, "command", answer.kind)),
            words=tuple(words),
            state=FINISHED,
            code=0,
            started_at=str(getattr(answer, "started_at", "")) or now(),
        )
        write_private(folder.answer_path, to_json(answer))
        run = concluded(summarized(run, answer), answer)
        folder.write(run)
        return run

    def _new_folder(self) -> RunFolder:
        """Create a folder with a unique id, which only one of two concurrent writers can do."""
        with writing(self.folder):
            if not self._files.path.is_dir():
                ensure_store(self.folder)
                ensure_folder(self._files.path)
                self._ignore()
            while True:
                path = self._files.path / secrets.token_hex(DIGITS // 2)
                with suppress(FileExistsError):
                    make_folder(path)
                    return RunFolder(path)

    def _ignore(self) -> None:
        """Keep git from adding the store, unless the user has already configured that."""
        with (
            suppress(FileExistsError),
            open(open_file(self.folder / ".gitignore", os.O_WRONLY | os.O_EXCL), "w") as file,
        ):
            file.write("*\n")

    # --- existing runs

    def runs(
        self,
        chosen: RunFilter = ALL,
        *,
        order: str = NEWEST_FIRST,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[Run]:
        """The newest runs first, or by another column: `throughput`, or `-throughput` for the largest first."""
        return self._index.runs(chosen, order=order, limit=limit, offset=offset) if self.exists else []

    def count(self, chosen: RunFilter = ALL) -> int:
        return self._index.count(chosen) if self.exists else 0

    def choices(self) -> Mapping[str, tuple[str, ...]]:
        """All commands, models, servers, tags and states of the runs, sorted."""
        return self._index.choices() if self.exists else {}

    @property
    def exists(self) -> bool:
        return self._files.path.is_dir()

    def get(self, prefix: str) -> Run:
        """The run whose id starts with `prefix`; `last` is the newest run."""
        if prefix == NEWEST:
            return self._newest()
        found = [name for name in self._files.names() if name.startswith(prefix)] if may_be_id(prefix) else []
        runs = [run for name in found if (run := self._files.maybe_run(name)) is not None]
        if len(runs) == 1:
            return runs[0]
        if runs:
            names = ", ".join(sorted(run.id for run in runs))
            raise UsageError(f"'{prefix}' matches {len(runs)} runs: {names}", remedy="give more digits")
        raise UsageError(
            f"there is no run '{prefix}' in '{self.folder}'",
            remedy="list the runs with `inferometer runs`, or use --store for another folder",
        )

    def has(self, prefix: str) -> bool:
        """Whether any id starts with `prefix`, or there is a newest run."""
        return any(prefix == NEWEST or name.startswith(prefix) for name in self._files.names())

    def _newest(self) -> Run:
        runs = self.runs(limit=1)
        if not runs:
            raise UsageError(
                f"no run is stored in '{self.folder}'",
                remedy="measure first, or use {--store} for another folder",
            )
        return runs[0]

    def answer(self, run: Run) -> Any:
        """The saved answer of a run."""
        from inferometer.report.saved import read

        path = self.answer_path(run)
        check_file(path, ANSWER, "the saved answer")
        return read(path)

    def answer_path(self, run: Run) -> Path:
        return self._files.folder(run.id).answer_path

    def live_path(self, run: Run) -> Path:
        return self._files.folder(run.id).live_path

    def short(self, run: Run) -> str:
        """The shortest prefix of its id that no other run has."""
        return self.shorts((run,))[run.id]

    def shorts(self, runs: Iterable[Run]) -> dict[str, str]:
        """The shortest unique prefixes of several runs, by id."""
        names = sorted(self._files.names())
        return {run.id: _short(run.id, names) for run in runs}

    # --- changes

    def tag(self, run: Run, *tags: str) -> Run:
        return self._changed(run, run.tagged(added=tags).tags)

    def untag(self, run: Run, *tags: str) -> Run:
        return self._changed(run, run.tagged(removed=tags).tags)

    def remove(self, run: Run) -> None:
        """Remove a run in one step, so that no half of it can be listed."""
        import shutil

        folder = self._files.folder(run.id).path
        hidden = folder.with_name(f".{run.id}.removed")
        with writing(folder):
            folder.rename(hidden)
        for left in self._files.path.glob(".*.removed"):  # including leftovers of killed processes
            shutil.rmtree(left, ignore_errors=True)

    def rebuild(self) -> None:
        """Rebuild the index from the files."""
        self._index.remove()
        self.count()

    def _changed(self, run: Run, tags: tuple[str, ...]) -> Run:
        folder = self._files.folder(run.id)
        with writing(folder.run_path):
            self._index.forget(run.id)
            after = folder.change(lambda before: replace(before, tags=tags))
            self._index.forget(run.id)  # another process may have read it in between
        if after is None:
            raise UsageError(f"run {run.id} is gone", remedy="list the runs with `inferometer runs`")
        return seen(after)

    # --- the files

    @cached_property
    def _index(self) -> "Index":
        from inferometer.store.index import Index  # storing a run needs no SQLite

        return Index(self.folder, self._files)


def _short(name: str, names: Sequence[str]) -> str:
    """The shortest unique prefix; `names` are sorted, so the most similar ones are its neighbours."""
    place = bisect_left(names, name)
    near = [other for other in names[max(0, place - 1) : place + 2] if other != name]
    return next(
        (
            name[:digits]
            for digits in range(FEWEST, DIGITS)
            if not any(other.startswith(name[:digits]) for other in near)
        ),
        name,
    )


def open_store(given: Path | None) -> Store:
    """Return the store at this folder, or the default one."""
    folder = where_kept(given)
    if folder is None:
        raise UsageError(
            f"no runs are stored: {VARIABLE} is empty",
            remedy=f"give the folder with {option_name('--store')}",
        )
    return Store(folder)
