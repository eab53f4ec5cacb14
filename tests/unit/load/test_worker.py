"""Answers of a worker to its controller."""

from types import SimpleNamespace
from typing import Any

import pytest

from inferometer.base.units import monotonic_ns
from inferometer.load.messages import Sync
from inferometer.load.reactor import READ, SocketReactor
from inferometer.load.worker import _Worker


def test_a_sync_is_answered_after_earlier_data_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A window closes at the time of the sync: an earlier end recorded later would be in no window."""
    done: list[Any] = []
    worker = object.__new__(_Worker)
    worker._reactor = SocketReactor(monotonic_ns)
    monkeypatch.setattr(worker, "_controller", SimpleNamespace(recv=Sync, send=done.append), raising=False)
    monkeypatch.setattr(
        worker, "_ring", SimpleNamespace(publish=lambda: done.append("written")), raising=False
    )
    monkeypatch.setattr(_Worker, "_report", lambda self, seen_ns, with_running: seen_ns)
    worker._reactor.do_later(lambda: done.append("read"))
    begin_ns = monotonic_ns()
    worker._message(READ)
    asked_ns = monotonic_ns()
    assert done == []
    worker._reactor.wait(None)
    *before, seen_ns = done
    assert before == ["read", "written"]
    assert begin_ns <= seen_ns <= asked_ns
