"""Retries of tests that depend on the machine: `@pytest.mark.machine(reason="...")`, and on no other test.

The mark is for failures with a cause outside the program and the test, such as a deadline that real processes miss
when other processes use the cores; the reason names the cause. Fix tests that are flaky for any other reason.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

RETRIES = 3
CRASH = "Triton's python backend ends with signal 11 once in many thousand requests"
SERVER = pytest.StashKey[Any]()  # in a test's stash: the server of the session that it uses
PROPERTY = "machine"  # in a test's report, with its reason


def allow_retries(item: pytest.Item) -> None:
    """Allow a marked test to be retried; raise UsageError if the mark has no reason."""
    marked = item.get_closest_marker("machine")
    if marked is None:
        return
    reason = marked.kwargs.get("reason")
    if marked.args or not reason:
        raise pytest.UsageError(f'{item.nodeid}: the mark machine needs a reason: machine(reason="...")')
    item.user_properties.append((PROPERTY, reason))
    # First, since only the first such mark of a test counts: it may have one for crashes already.
    item.add_marker(pytest.mark.flaky(reruns=RETRIES, reruns_delay=1), append=False)


class ServerEnded:
    """Whether the server of a test has crashed; evaluated only after the test has failed."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item

    def __bool__(self) -> bool:
        server = self._item.stash.get(SERVER, None)
        return server is not None and not server.is_running()


def allow_retry_after_crash(item: pytest.Item) -> None:
    """Allow a test without the mark to be retried if the server in its stash has crashed."""
    if item.get_closest_marker("machine") is None:
        item.user_properties.append((PROPERTY, CRASH))
        item.add_marker(pytest.mark.flaky(reruns=1, condition=ServerEnded(item)))


def retried(reports: Iterable[pytest.TestReport]) -> Iterator[str]:
    """Yield a line for each retried test: its name, how often and why it may be retried, and what failed."""
    found: dict[tuple[str, str], list[str]] = {}
    for report in reports:
        key = report.nodeid, str(dict(report.user_properties).get(PROPERTY, "no reason given"))
        found.setdefault(key, []).append(_failure(report))
    for (nodeid, reason), failures in sorted(found.items()):
        yield f"{nodeid} ({len(failures)}x): {reason}"
        yield from sorted({f"    {failure}" for failure in failures if failure})


def _failure(report: pytest.TestReport) -> str:
    """The first lines of the exception that ended the test."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return "" if crash is None else " ".join(crash.message.split())[:300]
