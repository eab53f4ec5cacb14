"""Check that an SQLite file has exactly the tables that this program creates.

A file from a cloned repository may contain views and triggers: reading a view can take forever.
"""

import sqlite3
from collections.abc import Collection
from contextlib import closing
from functools import cache

Schema = frozenset[tuple[str, str, str]]
"""Type, name and statement of every object."""


def has_only(connection: sqlite3.Connection, script: str) -> bool:
    """Return whether the script creates every object in the file."""
    return _schema(connection) <= _made_by(script)


def is_made_by(connection: sqlite3.Connection, script: str) -> bool:
    """Return whether the file holds exactly the objects that the script creates."""
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
