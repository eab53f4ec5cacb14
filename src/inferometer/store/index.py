"""The index of a store: a SQLite file for sorting and filtering lists. The run files are authoritative.

A run only writes its own files while it starts, grows and ends; listing the store updates the index first. Unknown
folders are read, missing ones are dropped, and unfinished runs are read again. Changing the file of a finished run
invalidates its entry. So a missing, damaged or incompatible index only makes the next listing slow.
"""

import json
import os
import sqlite3
import stat
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from inferometer.base.errors import UsageError
from inferometer.base.sqlite_schema import is_made_by
from inferometer.base.text import decode_json
from inferometer.base.units import NS_PER_S
from inferometer.store.filter import RunFilter
from inferometer.store.private import ensure_file
from inferometer.store.run import KILLED, QUEUED, RUNNING, Run, from_plain, to_plain
from inferometer.store.run_files import RunFiles

T = TypeVar("T")
FILE = "index.sqlite"
VERSION = 1
PATIENCE_S = 10.0  # wait for another process that is writing
MANY = 500  # runs per transaction, so that others can write in between
FIGURES = ("throughput", "p50", "p90", "p95", "p99", "ttft", "tokens")
SURE_NS = 2 * NS_PER_S  # timestamps further apart than this differ on every file system
_MAY_CHANGE = (QUEUED, RUNNING, KILLED)  # killed, as far as this machine can tell


def _figure(name: str) -> Callable[[Run], float | None]:
    return lambda run: run.figures[name].value if name in run.figures else None


_COLUMNS: Mapping[str, Callable[[Run], Any]] = {
    "id": lambda run: run.id,
    "started_at": lambda run: run.started_s,
    "duration": lambda run: run.duration_s,
    "state": lambda run: run.state,
    "command": lambda run: run.command,
    "model": lambda run: run.model,
    "host": lambda run: run.host,
    "host_class": lambda run: run.host_class,
    "server": lambda run: run.server,
    "verdict": lambda run: run.verdict,
    **{name: _figure(name) for name in FIGURES},
}
ORDERS = tuple(_COLUMNS)
"""Columns to sort by; a leading dash means largest first."""

_CHOICES = {"command": "\n", "model": ",", "server": ",", "tags": "\n", "state": "\n"}
"""Columns whose values lists offer as filters, with the separator of multiple values in a run."""

_DAMAGED = (sqlite3.DatabaseError, TypeError, ValueError, AttributeError)
"""Errors caused by an index that another program has written."""

_MADE = f"""
create table runs (
  {", ".join(_COLUMNS)}, tags, text, changed_ns, primary key (id)
) without rowid;
create table documents (id primary key, document);
create table listed (at_ns);
insert into listed values (0);
create index by_start on runs (started_at);
create index by_state on runs (state);
pragma user_version = {VERSION};
"""


class Index:
    """The index of these files, in its own file in the folder."""

    def __init__(self, folder: Path, files: RunFiles) -> None:
        self._path = folder / FILE
        self._files = files
        self._memory: sqlite3.Connection | None = None  # used if the file cannot be written
        self._lock = threading.Lock()

    def runs(self, chosen: RunFilter, *, order: str, limit: int | None, offset: int) -> list[Run]:
        name, way = order.removeprefix("-"), "desc" if order.startswith("-") else "asc"
        if name not in ORDERS:
            raise UsageError(f"runs cannot be sorted by '{name}'", remedy=f"use one of {', '.join(ORDERS)}")
        where, values = _condition(chosen)
        query = f"select id from runs where {where} order by {name} {way} nulls last, started_at desc, id"
        limits = (-1 if limit is None else limit, offset)

        def found(connection: sqlite3.Connection) -> list[Run]:
            ids = connection.execute(f"{query} limit ? offset ?", (*values, *limits)).fetchall()
            rows = (connection.execute("select document from documents where id = ?", one) for one in ids)
            return [from_plain(decode_json(row.fetchone()[0])) for row in rows]

        return self._ask(found)

    def count(self, chosen: RunFilter) -> int:
        where, values = _condition(chosen)
        query = f"select count(*) from runs where {where}"
        return int(self._ask(lambda connection: connection.execute(query, values).fetchone()[0]))

    def choices(self) -> Mapping[str, tuple[str, ...]]:
        """Values of the runs in each column that lists are filtered by."""

        def found(connection: sqlite3.Connection) -> Mapping[str, tuple[str, ...]]:
            columns = {name: connection.execute(f"select distinct {name} from runs") for name in _CHOICES}
            return {
                name: tuple(
                    sorted({word for (text,) in rows for word in (text or "").split(_CHOICES[name]) if word})
                )
                for name, rows in columns.items()
            }

        return self._ask(found)

    def forget(self, name: str) -> None:
        """Mark a run as changed, so that it is read again."""
        query = "update runs set changed_ns = 0, state = ? where id = ?"
        self._ask(lambda connection: connection.execute(query, (RUNNING, name)))

    def remove(self) -> None:
        """Delete the index; the next query rebuilds it."""
        with self._lock:
            if self._memory is not None:
                self._memory.close()
            self._memory = None
            self._delete()

    # --- queries

    def _ask(self, question: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            if self._memory is None:
                try:
                    return self._from_file(question)
                except sqlite3.OperationalError:  # read-only, no room, locked for too long
                    self._memory = sqlite3.connect(":memory:", check_same_thread=False)
                    weakref.finalize(self, self._memory.close)
            return self._answer(self._memory, question)

    def _from_file(self, question: Callable[[sqlite3.Connection], T]) -> T:
        try:
            with self._opened() as connection:
                return self._answer(connection, question)
        except sqlite3.OperationalError:
            raise
        except _DAMAGED:
            self._delete()
            with self._opened() as connection:
                return self._answer(connection, question)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """A connection per query: threads cannot share one. SQLite's companion files get the mode of this one."""
        self._remove_foreign()
        ensure_file(self._path)
        with closing(sqlite3.connect(self._path, timeout=PATIENCE_S)) as connection:
            connection.execute("pragma journal_mode = wal")
            connection.execute("pragma synchronous = normal")
            yield connection

    def _answer(self, connection: sqlite3.Connection, question: Callable[[sqlite3.Connection], T]) -> T:
        self._update(connection)
        with connection:
            return question(connection)

    def _remove_foreign(self) -> None:
        """Remove a link, which would redirect the index elsewhere, or a pipe, which would block."""
        with suppress(OSError):
            if not stat.S_ISREG(os.lstat(self._path).st_mode):
                self._path.unlink()

    def _delete(self) -> None:
        for end in ("", "-wal", "-shm"):
            self._path.with_name(FILE + end).unlink(missing_ok=True)

    # --- updates

    def _update(self, connection: sqlite3.Connection) -> None:
        self._make(connection)
        self._compare_list(connection)
        query = f"select id, state, changed_ns from runs where state in {_MAY_CHANGE}"
        changed = [
            name
            for name, state, at_ns in connection.execute(query).fetchall()
            if state != KILLED or self._files.changed_ns(name) != at_ns
        ]
        self._add(connection, changed)

    def _compare_list(self, connection: sqlite3.Connection) -> None:
        """Compare the list of folders. A folder added at nearly the same time as the listing may be missing from it."""
        at_ns, now_ns = self._files.listed_ns(), time.time_ns()
        (before_ns,) = connection.execute("select at_ns from listed").fetchone()
        if at_ns == before_ns:
            return
        names = self._files.names()
        known = {row[0] for row in connection.execute("select id from runs")}
        if gone := [(name,) for name in known - names]:
            with connection:
                connection.executemany("delete from runs where id = ?", gone)
                connection.executemany("delete from documents where id = ?", gone)
        is_whole = self._add(connection, sorted(names - known))
        with connection:
            is_sure = is_whole and at_ns < now_ns - SURE_NS
            connection.execute("update listed set at_ns = ?", (at_ns if is_sure else 0,))

    def _make(self, connection: sqlite3.Connection) -> None:
        if connection.execute("pragma user_version").fetchone()[0] == VERSION:
            if not is_made_by(connection, _MADE):
                raise sqlite3.DatabaseError("the tables differ")
            return
        with connection:  # two processes may get here at once
            connection.execute("begin immediate")
            if connection.execute("pragma user_version").fetchone()[0] != VERSION:
                for table in ("runs", "documents", "listed"):
                    connection.execute(f"drop table if exists {table}")
                for statement in _MADE.split(";"):
                    connection.execute(statement)

    def _add(self, connection: sqlite3.Connection, names: Sequence[str]) -> bool:
        """Add the runs; return whether all of them could be read."""
        places = ", ".join("?" * (len(_COLUMNS) + 3))
        is_whole = True
        for first in range(0, len(names), MANY):
            with connection:
                for name in names[first : first + MANY]:
                    at_ns = self._files.changed_ns(name)  # before reading: a later change is found next time
                    run = self._files.maybe_run(name)
                    if run is None:
                        is_whole = False
                        continue
                    own = (column(run) for column in _COLUMNS.values())
                    row = (*own, _marked(run.tags), _searched(run), at_ns)
                    connection.execute(f"insert or replace into runs values ({places})", row)
                    document = json.dumps(to_plain(run))
                    connection.execute("insert or replace into documents values (?, ?)", (name, document))
        return is_whole


def _marked(words: tuple[str, ...]) -> str:
    return "".join(f"\n{word}\n" for word in words)


def _searched(run: Run) -> str:
    parts = (run.id, run.command, *run.words, run.model, run.server, run.url, *run.tags, run.verdict)
    return " ".join(parts).lower()


def _condition(chosen: RunFilter) -> tuple[str, tuple[Any, ...]]:
    parts: list[tuple[str, Any]] = [
        (f"{name} = ?", value)
        for name in ("command", "host", "host_class", "state")
        if (value := getattr(chosen, name))
    ]
    if chosen.model:
        parts.append(("instr(',' || model || ',', ?) > 0", f",{chosen.model},"))
    if chosen.server:
        parts.append(("instr(',' || replace(server, ',', ' ,') || ' ', ?) > 0", f",{chosen.server} "))
    parts += [("instr(tags, ?) > 0", f"\n{tag}\n") for tag in chosen.tags]
    parts += [("instr(text, ?) > 0", word) for word in chosen.text.lower().split()]
    if chosen.since_s is not None:
        parts.append(("started_at >= ?", chosen.since_s))
    return " and ".join(["1", *(part for part, _ in parts)]), tuple(value for _, value in parts)
