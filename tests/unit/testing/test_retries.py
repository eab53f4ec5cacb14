"""Only tests that are marked, with a reason, are retried, and each is named."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.retries import CRASH, RETRIES, SERVER, allow_retries, allow_retry_after_crash, retried


class FakeItem:
    nodeid = "tests/test_it.py::test_it"

    def __init__(self, *marks: pytest.MarkDecorator) -> None:
        self.marks = [mark.mark for mark in marks]
        self.user_properties: list[tuple[str, str]] = []
        self.stash = pytest.Stash()

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return next((mark for mark in self.marks if mark.name == name), None)

    def add_marker(self, mark: pytest.MarkDecorator, *, append: bool = True) -> None:
        self.marks.insert(len(self.marks) if append else 0, mark.mark)


def item_with(*marks: pytest.MarkDecorator) -> Any:
    """A test as pytest knows it; only what retries look at."""
    return FakeItem(*marks)


def test_a_test_without_the_mark_is_not_retried() -> None:
    item = item_with(pytest.mark.slow)
    allow_retries(item)
    assert item.get_closest_marker("flaky") is None


def test_a_marked_test_is_retried_and_carries_its_reason() -> None:
    item = item_with(pytest.mark.machine(reason="it needs a free core"))
    allow_retries(item)
    flaky = item.get_closest_marker("flaky")
    assert flaky is not None
    assert flaky.kwargs["reruns"] == RETRIES
    assert item.user_properties == [("machine", "it needs a free core")]


@pytest.mark.parametrize(
    "mark", [pytest.mark.machine, pytest.mark.machine("because"), pytest.mark.machine(reason="")]
)
def test_a_mark_without_a_reason_is_refused(mark: pytest.MarkDecorator) -> None:
    with pytest.raises(pytest.UsageError, match="needs a reason"):
        allow_retries(item_with(mark))


def test_a_test_is_retried_only_if_its_server_has_crashed() -> None:
    item = item_with()
    allow_retry_after_crash(item)
    flaky = item.get_closest_marker("flaky")
    assert flaky is not None
    assert flaky.kwargs["reruns"] == 1
    assert item.user_properties == [("machine", CRASH)]
    condition = flaky.kwargs["condition"]
    assert not condition  # it has no server yet
    for is_running in (True, False):
        item.stash[SERVER] = SimpleNamespace(is_running=lambda answer=is_running: answer)
        assert bool(condition) is not is_running


def test_a_mark_of_its_own_says_how_often_a_test_is_retried() -> None:
    item = item_with(pytest.mark.machine(reason="it needs a free core"))
    allow_retry_after_crash(item)
    assert item.get_closest_marker("flaky") is None


def test_a_mark_counts_although_the_test_may_be_retried_after_a_crash() -> None:
    item = item_with()
    allow_retry_after_crash(item)
    item.add_marker(pytest.mark.machine(reason="it needs a free core"))
    allow_retries(item)
    flaky = item.get_closest_marker("flaky")
    assert flaky is not None
    assert flaky.kwargs["reruns"] == RETRIES


def test_every_retried_test_is_named_once_with_its_reason_and_failures() -> None:
    crash = SimpleNamespace(reprcrash=SimpleNamespace(message="assert 3 == 4\n +  where"))
    again: Any = SimpleNamespace(
        nodeid="b", user_properties=[("machine", "it needs a free core")], longrepr=crash
    )
    other: Any = SimpleNamespace(nodeid="a", user_properties=[], longrepr=None)
    assert list(retried([again, other, again])) == [
        "a (1x): no reason given",
        "b (2x): it needs a free core",
        "    assert 3 == 4 + where",
    ]
