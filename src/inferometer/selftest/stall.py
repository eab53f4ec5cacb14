"""Stall: a server that freezes again and again, where latency counted from the send shows next to nothing."""

from collections.abc import Iterator

from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.load.plan import Constant, Open
from inferometer.measure.measurement import Distribution
from inferometer.report.format import duration
from inferometer.selftest.behaviour import Behaviour, Stall
from inferometer.selftest.check import Check, Verdict
from inferometer.selftest.child import NullServer
from inferometer.selftest.drive import run_whole, workers
from inferometer.selftest.pace import Pace

PART = "stall"
RATE = 200
SENDERS = 4
PERCENTILES = (90, 95, 99)
NEAR = 0.10
SMALL = 64


def judge(stall: Stall, latency: Distribution) -> Verdict:
    """Each percentile is near the one that follows from the pattern."""
    truths = [(p, stall.percentile_ns(p)) for p in PERCENTILES]
    is_near = all(abs(latency.percentile_ns(p) - truth) <= NEAR * truth for p, truth in truths)
    return Verdict.PASS if is_near else Verdict.FAIL


def checks(pace: Pace) -> Iterator[Check]:
    stall = pace.stall
    with NullServer(Behaviour(stall=stall)) as server, workers(server, "http", SMALL) as load:
        yield _free(stall, load_s=_seconds(stall, pace.periods), load=load)
        yield _limited(stall, load_s=_seconds(stall, max(pace.periods // 2, 1)), load=load)
