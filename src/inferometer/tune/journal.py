"""The journal of a search: every trial in SQLite as soon as it ends.

Each trial is one transaction, so all measurements are kept, however the tool ends, and the search resumes from them. A
lock file keeps a second tuner out; it is released when its process ends.
"""

import contextlib
import fcntl
import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from inferometer.base.answer_file import plain, validated
from inferometer.base.errors import LocalError, UsageError
from inferometer.base.reading import DATA, check_file
from inferometer.base.sqlite_schema import has_only
from inferometer.base.writing import writing
from inferometer.tune.trial import Trial
from inferometer.tune.variant import ModelVariant

SCHEMA = 1
T = TypeVar("T")
_OTHER = "move it away, or give another file"
_BROKEN = (sqlite3.DatabaseError, UnicodeDecodeError)  # messages about a damaged file may be damaged as well
_TABLES = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS variants (name TEXT PRIMARY KEY, document TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS trials (
    number INTEGER PRIMARY KEY, key TEXT NOT NULL, study TEXT NOT NULL, document TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS trials_by_key ON trials (key);
"""


class Journal:
    """A journal; use `opened` (exclusive, to write) or `read`."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._db = connection

    @contextlib.contextmanager
    def _saving(self) -> Iterator[None]:
        """Wrap one transaction."""
        try:
            with self._db:
                yield
        except _BROKEN as error:
            raise LocalError(
                f"cannot write the journal '{self.path}': {error}",
                remedy="check the folder and the free disk space",
            ) from error

    # --- trials

    def add(self, trial: Trial, variants: tuple[ModelVariant, ...], *, study: str) -> None:
        """Add the trial and its variants in one transaction."""
        parts = [part for variant in variants for part in variant.with_members]
        with self._saving():
            self._db.executemany(
                "INSERT OR REPLACE INTO variants VALUES (?, ?)",
                [(variant.name, json.dumps(plain(variant))) for variant in parts],
            )
            self._db.execute(
                "INSERT INTO trials VALUES (?, ?, ?, ?)",
                (trial.number, trial.key, study, json.dumps(plain(trial))),
            )

    def find(self, key: str, *, with_failed: bool) -> Trial | None:
        """Return the last trial with this key; a failed trial only if it need not be retried."""
        rows = self._rows("SELECT document FROM trials WHERE key = ? ORDER BY number DESC", key)
        trials = [self._trial(document) for (document,) in rows]
        measured = [trial for trial in trials if trial.is_measured]
        return next(iter(measured or (trials if with_failed else [])), None)

    def trials(self, study: str | None = None) -> tuple[Trial, ...]:
        """Return the trials of one study, or all, in order."""
        rows = self._rows("SELECT document, study FROM trials ORDER BY number")
        return tuple(self._trial(document) for document, name in rows if study in (None, name))

    @property
    def has_measured(self) -> bool:
        """Whether any trial was measured; otherwise the journal is of no use."""
        return any(trial.is_measured for trial in self.trials())

    def next_number(self) -> int:
        ((last,),) = self._rows("SELECT MAX(number) FROM trials")
        return 0 if last is None else int(last) + 1

    def variants(self) -> tuple[ModelVariant, ...]:
        """Return the variants in order of creation."""
        rows = self._rows("SELECT document FROM variants ORDER BY rowid")
        return tuple(self.value(ModelVariant, self._document(text)) for (text,) in rows)

    def _trial(self, text: str) -> Trial:
        return self.value(Trial, self._document(text))

    def value(self, kind: type[T], document: Any) -> T:
        """Restore a value from its saved document."""
        return validated(kind, document, f"'{self.path}' cannot be used", "search again")

    def _rows(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        with _reading(self.path):
            return self._db.execute(query, values).fetchall()

    def _document(self, text: Any) -> Any:
        with _reading(self.path, (TypeError, ValueError, RecursionError)):
            return json.loads(text)

    # --- facts

    def remember(self, name: str, value: Any) -> None:
        with self._saving():
            self._db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, json.dumps(value)))

    def recall(self, name: str) -> Any:
        """Return a fact; None if it was never stored."""
        rows = self._rows("SELECT value FROM facts WHERE name = ?", name)
        return self._document(rows[0][0]) if rows else None


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Journal]:
    """Open a journal for writing, creating it if necessary; only one process at a time may hold it."""
    _check_file(path)
    if path.exists():
        check_file(path, DATA, "the journal", remedy=_OTHER)
    with _alone(path), contextlib.closing(_connect(path)) as connection:
        yield _checked(path, connection)


def remove(path: Path) -> None:
    """Delete a journal, even an unreadable one, unless another tuner holds it."""
    if not path.exists():
        return
    _check_file(path)
    with _alone(path), writing(path):
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
            path.with_name(name).unlink(missing_ok=True)


@contextlib.contextmanager
def read(path: Path) -> Iterator[Journal]:
    """Open a journal for reading, even while a search writes it; the file and its folder are not modified."""
    if not path.exists():
        raise UsageError(
            f"the journal '{path}' does not exist", remedy="run a search first, or check the path"
        )
    check_file(path, DATA, "the journal", remedy=_OTHER)
    with contextlib.closing(_connect_to_read(path)) as connection:
        yield _checked(path, connection)


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise UsageError(f"the journal '{path}' is a folder", remedy="give the name of a file")
    if not path.absolute().parent.is_dir():
        raise UsageError(
            f"the folder '{path.parent}' of the journal '{path}' does not exist",
            remedy=f"create it with: mkdir -p {path.parent}",
        )


def _connect(path: Path) -> sqlite3.Connection:
    with _reading(path):
        connection = sqlite3.connect(path, timeout=10)
        with _closed_on_error(connection):
            _check_tables(connection)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.executescript(_TABLES)
            with connection:
                connection.execute("INSERT OR IGNORE INTO facts VALUES ('schema', ?)", (json.dumps(SCHEMA),))
    return connection


def _connect_to_read(path: Path) -> sqlite3.Connection:
    """Connect read-only; an empty file is an empty journal."""
    # Without a write-ahead log there is no writer; `immutable` keeps SQLite from creating files.
    how = "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "immutable=1"
    with _reading(path):
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?{how}", timeout=10, uri=True)
        with _closed_on_error(connection):
            _check_tables(connection)
            tables = connection.execute("SELECT COUNT(*) FROM sqlite_master WHERE name = 'trials'").fetchone()
    if tables == (0,):
        connection.close()
        return _connect(Path(":memory:"))
    return connection


def _check_tables(connection: sqlite3.Connection) -> None:
    if not has_only(connection, _TABLES):
        raise sqlite3.DatabaseError("its tables are not those of a journal")


@contextlib.contextmanager
def _closed_on_error(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


@contextlib.contextmanager
def _reading(path: Path, broken: tuple[type[Exception], ...] = _BROKEN) -> Iterator[None]:
    """Convert errors caused by a damaged file into a message."""
    try:
        yield
    except broken as error:
        raise UsageError(f"cannot read the journal '{path}': {error}", remedy=_OTHER) from error


def _checked(path: Path, connection: sqlite3.Connection) -> Journal:
    journal = Journal(path, connection)
    found = journal.recall("schema")
    if found != SCHEMA:
        raise UsageError(
            f"the journal '{path}' has schema {found}, but this version writes schema {SCHEMA}",
            remedy="give another file",
        )
    return journal


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    lock = path.with_name(f"{path.name}.lock")
    try:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise UsageError(
            f"cannot write the journal '{path}': {error.strerror}",
            remedy="give a file in a writable folder",
        ) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(handle, 32).decode(errors="replace").strip()
            raise UsageError(
                f"the journal '{path}' is in use by another tuner (process {holder or 'unknown'})",
                remedy="wait for it to end, or use another journal",
            ) from None
        with writing(lock):
            os.ftruncate(handle, 0)
            os.write(handle, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(handle)
