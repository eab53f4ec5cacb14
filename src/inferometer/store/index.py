"""The index of a store: what lists are sorted and filtered by, in SQLite. The files say what is true.

A run that is begun, grows and ends only writes its files; whoever lists the store brings the index up to date first.
A folder that the index does not know is read, one that is gone is left out, and a run that was not over is read again
when its file has changed. Who changes the file of a run that is over takes it out of the index before. So an index
that is missing, damaged or of another version is only slow once.
"""

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.store.filter import RunFilter
from inferometer.store.run import KILLED, QUEUED, RUNNING, Run, from_plain, to_plain

FILE = "index.sqlite"
VERSION = 1
PATIENCE_S = 10.0  # for another process that writes
MANY = 500  # runs that are read before others may write
FIGURES = ("throughput", "p50", "p90", "p95", "p99", "ttft", "tokens")
_MAY_CHANGE = (QUEUED, RUNNING, KILLED)  # as far as can be seen from here it was killed


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
"""What runs can be sorted by; with a dash before it, the largest first."""

_MADE = f"""
create table runs (
  {", ".join(_COLUMNS)}, tags, text, changed_ns, document, primary key (id)
) without rowid;
create index by_start on runs (started_at);
pragma user_version = {VERSION};
"""


class Index:
    """`read` gives the run of a folder by its name, and when its file was changed; None where there is none."""

    def __init__(
        self,
        folder: Path,
        names: Callable[[], set[str]],
        changed_ns: Callable[[str], int],
        read: Callable[[str], Run | None],
    ) -> None:
        self._path = folder / FILE
        self._names = names
        self._changed_ns = changed_ns
        self._read = read
        self._memory: sqlite3.Connection | None = None  # instead of a file that cannot be written
        self._lock = threading.Lock()

    def runs(self, chosen: RunFilter, *, order: str, limit: int | None, offset: int) -> list[Run]:
        name, way = order.removeprefix("-"), "desc" if order.startswith("-") else "asc"
        if name not in ORDERS:
            raise UsageError(f"runs cannot be sorted by '{name}'", remedy=f"give one of {', '.join(ORDERS)}")
        where, values = _condition(chosen)
        query = (
            f"select document from runs where {where} order by {name} is null, {name} {way}, started_at desc, id"
            " limit ? offset ?"
        )
        rows = self._ask(query, (*values, -1 if limit is None else limit, offset))
        return [from_plain(json.loads(document)) for (document,) in rows]

    def count(self, chosen: RunFilter) -> int:
        where, values = _condition(chosen)
        found: int = self._ask(f"select count(*) from runs where {where}", values)[0][0]
        return found

    def forget(self, name: str) -> None:
        """It is about to be changed or removed."""
        self._ask("delete from runs where id = ?", (name,))

    def remove(self) -> None:
        """The next question makes it anew."""
        with self._lock:
            self._memory = None
            self._delete()

    # --- a question to it

    def _ask(self, query: str, values: tuple[Any, ...]) -> list[Any]:
        with self._lock:
            if self._memory is None:
                try:
                    return self._from_file(query, values)
                except sqlite3.OperationalError:  # read-only, no room, locked for too long
                    self._memory = sqlite3.connect(":memory:", check_same_thread=False)
            return self._answer(self._memory, query, values)

    def _from_file(self, query: str, values: tuple[Any, ...]) -> list[Any]:
        try:
            with self._opened() as connection:
                return self._answer(connection, query, values)
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:  # it is damaged
            self._delete()
            with self._opened() as connection:
                return self._answer(connection, query, values)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """One for each question: threads cannot share them."""
        with closing(sqlite3.connect(self._path, timeout=PATIENCE_S)) as connection:
            connection.execute("pragma journal_mode = wal")
            connection.execute("pragma synchronous = normal")
            yield connection

    def _answer(self, connection: sqlite3.Connection, query: str, values: tuple[Any, ...]) -> list[Any]:
        self._update(connection)
        with connection:
            return connection.execute(query, values).fetchall()

    def _delete(self) -> None:
        for end in ("", "-wal", "-shm"):
            self._path.with_name(FILE + end).unlink(missing_ok=True)

    # --- up to date

    def _update(self, connection: sqlite3.Connection) -> None:
        self._make(connection)
        names = self._names()
        marks = ", ".join("?" * len(_MAY_CHANGE))
        known = {row[0] for row in connection.execute("select id from runs")}
        query = f"select id, state, changed_ns from runs where state in ({marks})"
        unsettled = [row for row in connection.execute(query, _MAY_CHANGE) if row[0] in names]
        changed = [
            name for name, state, at_ns in unsettled if state != KILLED or self._changed_ns(name) != at_ns
        ]
        if gone := known - names:
            with connection:
                connection.executemany("delete from runs where id = ?", [(name,) for name in gone])
        unread = sorted(names - known) + changed
        for first in range(0, len(unread), MANY):
            with connection:
                self._add(connection, unread[first : first + MANY])

    def _make(self, connection: sqlite3.Connection) -> None:
        if connection.execute("pragma user_version").fetchone()[0] == VERSION:
            return
        with connection:  # two processes may come here at once
            connection.execute("begin immediate")
            if connection.execute("pragma user_version").fetchone()[0] != VERSION:
                connection.execute("drop table if exists runs")
                for statement in _MADE.split(";"):
                    connection.execute(statement)

    def _add(self, connection: sqlite3.Connection, names: list[str]) -> None:
        places = ", ".join("?" * (len(_COLUMNS) + 4))
        for name in names:
            at_ns = self._changed_ns(name)  # before it is read: a later change is seen the next time
            run = self._read(name)
            if run is None:
                continue
            own = (column(run) for column in _COLUMNS.values())
            document = json.dumps(to_plain(run))
            row = (*own, _marked(run.tags), _searched(run), at_ns, document)
            connection.execute(f"insert or replace into runs values ({places})", row)


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
    parts += [("instr(tags, ?) > 0", f"\n{tag}\n") for tag in chosen.tags]
    parts += [("instr(text, ?) > 0", word) for word in chosen.text.lower().split()]
    if chosen.since_s is not None:
        parts.append(("started_at >= ?", chosen.since_s))
    return " and ".join(["1", *(part for part, _ in parts)]), tuple(value for _, value in parts)
