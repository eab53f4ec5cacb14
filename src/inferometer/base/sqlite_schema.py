"""Whether an SQLite file has the tables that this program makes, and nothing else.

A file that came with a cloned repository may hold views and triggers: reading a view can go on for ever.
"""

import sqlite3
from collections.abc import Collection
from contextlib import closing
from functools import cache

Schema = frozenset[tuple[str, str, str]]
"""Type, name and statement of every object."""


def has_only(connection: sqlite3.Connection, script: str) -> bool:
    """Whether every object in the file is as the script makes it."""
    return _schema(connection) <= _made_by(script)


def is_made_by(connection: sqlite3.Connection, script: str) -> bool:
    """Whether the file holds the objects that the script makes, and no others."""
    return _schema(connection) == _made_by(script)


@cache
def _made_by(script: str) -> Schema:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(script)
        return _schema(connection)


def _schema(connection: sqlite3.Connection) -> Schema:
    rows: Collection[tuple[str, str, str | None]] = connection.execute(
        "select type, name, sql from sqlite_master"
    ).fetchall()
    return frozenset((kind, name, " ".join((sql or "").split())) for kind, name, sql in rows)
