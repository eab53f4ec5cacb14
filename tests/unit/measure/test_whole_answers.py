"""When a run starts again with whole answers, because the server refuses to stream."""

from types import SimpleNamespace
from typing import Any

import pytest

from inferometer.base.frozen import frozen
from inferometer.base.notes import Note, Remark
from inferometer.measure import run as running
from inferometer.stats.result import Account
from inferometer.stats.watcher import Watcher


@frozen
class Attempt:
    """The parts of a setup and of a result that a restart uses."""

    result: Any = None
    whole: Any = None
    tracing: Any = None
    remarks: tuple[Remark, ...] = ()
    levels: tuple[Any, ...] = ()
    account: Account | None = None


def level(kind: str, remarks: tuple[Note, ...] = (), good: int = 0) -> Any:
    failure = SimpleNamespace(kind=kind, example="cannot stream")
    return SimpleNamespace(
        measurement=SimpleNamespace(request_count=good, empty_count=0, failures=(failure,)),
        is_cut_short=Note.SERVER_GONE in remarks,
        has_remark=lambda *notes: any(note in remarks for note in notes),
    )


def attempts(monkeypatch: pytest.MonkeyPatch, first: Any) -> tuple[list[int], Any]:
    """Run with this first level; return the begin of each attempt, and the last result."""
    seen: list[int] = []

    def one(setup: Any, watcher: Watcher, ray: Any, first_level_s: float, begun_ns: int) -> Any:
        seen.append(begun_ns)
        yield Attempt(levels=(first,))
        if not watcher.is_interrupted():
            yield Attempt(levels=(first, first))
        last = first if len(seen) == 1 else level("", good=4)
        yield Attempt(levels=(last,), account=Account(10, 4, 3, 1, 0, 1, 1, 2, 1))

    monkeypatch.setattr(running, "_run", one)
    setup: Any = Attempt(whole=lambda: Attempt(result=Attempt()))
    *_, last = running.run(setup, Watcher())
    assert last.account.sent == 10 * len(seen)
    assert last.account.is_complete
    assert (last.account.good, last.account.failed) == (4, 3)
    return seen, last


def test_the_time_limit_counts_from_the_begin_of_the_first_attempt(monkeypatch):
    (first_ns, second_ns), last = attempts(monkeypatch, level("http 400"))
    assert first_ns == second_ns
    assert [remark.note for remark in last.remarks] == [Note.NOT_STREAMED]


@pytest.mark.parametrize(
    "first",
    [
        level("http 400", (Note.INTERRUPTED,)),
        level("http 400", (Note.SERVER_GONE,)),
        level("http 400", good=1),
        level("http 503"),
    ],
)
def test_a_level_that_was_cut_short_or_not_refused_is_reported(monkeypatch, first):
    begun, _ = attempts(monkeypatch, first)
    assert len(begun) == 1
