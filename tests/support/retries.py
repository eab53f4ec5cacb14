"""Retries of tests that depend on the machine: `@pytest.mark.machine(reason="...")`, and on no other test.

A test that needs the mark has a cause outside the program and outside the test, such as a deadline that real processes
miss when others hold the cores; the reason names it. What flickers for any other cause is to be mended instead.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

import pytest

RETRIES = 2
PROPERTY = "machine"  # of the report of a test, with its reason


def allow_retries(item: pytest.Item) -> None:
    """Let a marked test be retried; raise UsageError where the mark does not say why."""
    marked = item.get_closest_marker("machine")
    if marked is None:
        return
    reason = marked.kwargs.get("reason")
    if marked.args or not reason:
        raise pytest.UsageError(f'{item.nodeid}: the mark machine needs a reason: machine(reason="...")')
    item.user_properties.append((PROPERTY, reason))
    item.add_marker(pytest.mark.flaky(reruns=RETRIES, reruns_delay=1))


def retried(reports: Iterable[pytest.TestReport]) -> Iterator[str]:
    """A line for each test that was retried: its name, how often, and why it may be."""
    counted = Counter(
        (report.nodeid, dict(report.user_properties).get(PROPERTY, "no reason given")) for report in reports
    )
    for (nodeid, reason), count in sorted(counted.items()):
        yield f"{nodeid} ({count}x): {reason}"
