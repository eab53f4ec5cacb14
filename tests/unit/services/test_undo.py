"""Changes to a server are undone: at once, after retries, or by the guard."""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from inferometer.base.errors import PeerError
from inferometer.services.undo import Guard, Undo, guarded


class Server:
    """Server that raises these errors, one per call, and then accepts."""

    def __init__(self, *errors: Exception) -> None:
        self._errors: Iterator[Exception] = iter(errors)
        self.calls = 0

    def call(self) -> None:
        self.calls += 1
        for error in self._errors:
            raise error


def caused_by(cause: Exception) -> PeerError:
    error = PeerError("cannot be reached")
    error.__cause__ = cause
    return error


ROWS = (
    ("it agrees", (), 1),
    ("it agrees at last", (PeerError("busy"), PeerError("busy")), 3),
    ("refused once, and back", (caused_by(ConnectionRefusedError()),), 2),
    ("a reset: it may still be there", (caused_by(ConnectionResetError()),), 2),
    ("a time-out: it may still be there", (caused_by(TimeoutError()),), 2),
)


@pytest.mark.parametrize(("errors", "calls"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_a_call_is_repeated_until_the_server_accepts_or_is_gone(errors, calls: int):
    server = Server(*errors)
    assert Undo(server.call, 60).is_done(60)
    assert server.calls == calls


def test_a_server_that_refuses_until_the_end_is_not_done():
    assert not Undo(Server(*[PeerError("busy")] * 9).call, 0).is_done(0)


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """Return a FIFO; its reader waits for data."""
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def test_the_guard_undoes_the_changes_when_needed(pipe: Path):
    guard = Guard()
    undo: Any = partial(Path.write_text, pipe, "undone")
    guard.add(Undo(undo, 0))
    guard.close(is_needed=True)
    assert pipe.read_text() == "undone"


def test_undone_changes_are_not_undone_by_the_guard(tmp_path: Path):
    trace = tmp_path / "trace"
    with guarded(Undo(partial(trace.touch, exist_ok=False), 0)) as undo:
        assert not trace.exists()
        undo()
    assert trace.exists()


def test_without_a_change_the_guard_is_ended(tmp_path: Path):
    trace = tmp_path / "trace"
    with guarded(Undo(trace.touch, 0)):
        pass
    assert not trace.exists()


def test_a_server_that_keeps_refusing_connections_is_gone():
    server = Server(*(caused_by(ConnectionRefusedError()) for _ in range(1000)))
    assert Undo(server.call, 60).is_done(60)
    assert 1 < server.calls < 1000
