"""Faults: a server that fails in four ways, by the number of the request; each way is counted for itself."""

import math
from collections.abc import Iterator, Mapping

from inferometer.base.units import NS_PER_MS
from inferometer.load.plan import Closed
from inferometer.report.format import share
from inferometer.selftest.behaviour import Behaviour, dealt
from inferometer.selftest.check import Check, Figure, Verdict
from inferometer.selftest.child import NullServer
from inferometer.selftest.drive import run_whole, workers
from inferometer.selftest.pace import Pace

PART = "faults"
CONCURRENCY = 8
TIMEOUT_NS = 400 * NS_PER_MS
SMALL = 64
ERRORS = 3  # standard deviations of a share that a sample may be off
EXPECTED_S = 10.0


def judge(asked: int, ended: int, found: Mapping[str, int]) -> Verdict:
    """All requests ended, and the groups are those that were dealt, each within sampling error."""
    expected = dealt(asked)
    is_right = (
        ended == asked
        and found.keys() == expected.keys()
        and all(_is_near(found[kind], count, asked) for kind, count in expected.items())
    )
    return Verdict.PASS if is_right else Verdict.FAIL


def _is_near(found: int, expected: int, total: int) -> bool:
    part = expected / total
    return abs(found - expected) <= ERRORS * math.sqrt(total * part * (1 - part))


def checks(pace: Pace) -> Iterator[Check]:
    asked = pace.fault_requests
    with (
        NullServer(Behaviour(is_failing=True)) as server,
        workers(server, "http", SMALL, timeout_ns=TIMEOUT_NS) as load,
    ):
        measured = run_whole(load, Closed(CONCURRENCY, count=asked), EXPECTED_S).measurement
    found = {group.kind: group.count for group in measured.failures}
    expected = dealt(asked)
    ended = measured.request_count + measured.failed_count
    kinds = [*expected, *(kind for kind in found if kind not in expected)]
    rows = [(kind, found.get(kind, 0), expected.get(kind, 0)) for kind in kinds]
    text = ", ".join(
        f"{kind} {share(count / max(ended, 1))} ({count} of {truth})" for kind, count, truth in rows
    )
    figures: dict[str, Figure] = {"asked": asked, "ended": ended}
    for kind, count, truth in rows:
        name = kind.replace(" ", "_")
        figures |= {name: count, f"{name}_dealt": truth}
    name = f"{ended} of {asked} requests ended"
    yield Check(PART, name, judge(asked, ended, found), text, figures)
