"""Servers that misbehave by a known pattern, so that what is measured can be compared with the truth.

"stall": a server that freezes again and again, where latency counted from the send shows next to nothing. "faults": a
server that fails in four ways, by the number of the request; each way is counted for itself.
"""

import math
from collections.abc import Iterator, Mapping

from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.load.plan import Closed, Constant, Open
from inferometer.load.workers import Load
from inferometer.report.format import duration, share
from inferometer.selftest.behaviour import Behaviour, Stall, dealt
from inferometer.selftest.check import Check, CheckResult, Figure, Thoroughness
from inferometer.selftest.drive import HelperProcess, MeasuredLoad, NullServer, run_whole, workers
from inferometer.stats.measurement import Distribution

SMALL = 64  # bytes of a request

# --- stall

RATE = 200
SENDERS = 4
PERCENTILES = (90, 95, 99)
NEAR = 0.10


def judge_stall(stall: Stall, latency: Distribution, late_ns: int) -> CheckResult:
    """Each percentile is near the one that follows from the pattern; `late_ns` is how far this machine bent that."""
    ratios = [latency.percentile_ns(p) / stall.percentile_ns(p) for p in PERCENTILES]
    if all(abs(ratio - 1) <= NEAR for ratio in ratios):
        return CheckResult.PASS
    is_bent = late_ns > NEAR / 2 * stall.percentile_ns(PERCENTILES[0])
    is_longer = min(ratios) >= 1 - NEAR  # a busy machine makes no wait shorter
    return CheckResult.NOISY if is_bent and is_longer else CheckResult.FAIL


def stall_checks(thoroughness: Thoroughness) -> Iterator[Check]:
    stall = thoroughness.stall
    with NullServer(Behaviour(stall=stall)) as server, workers(server, "http", SMALL) as load:
        with HelperProcess("bare_loop") as bare:
            run = _run(load, stall, thoroughness.periods, None)
            late_ns = max(server.report().late_ns, *bare.ask()["lags_ns"])
        yield _from_due(stall, run, late_ns)
        yield _from_send(stall, _run(load, stall, max(thoroughness.periods // 2, 1), SENDERS))


def _run(load: Load, stall: Stall, periods: int, cap: int | None) -> MeasuredLoad:
    """Whole periods: then it does not matter at which point of one they begin."""
    seconds = periods * stall.period_ns / NS_PER_S
    return run_whole(load, Open(Constant(RATE), cap=cap, count=round(RATE * seconds)), seconds)


def _from_due(stall: Stall, run: MeasuredLoad, late_ns: int) -> Check:
    latency = run.measurement.latency
    rows = [(p, latency.percentile_ns(p), stall.percentile_ns(p)) for p in PERCENTILES]
    text = ", ".join(f"p{p} {duration(found)} (truth {duration(truth)})" for p, found, truth in rows)
    figures: dict[str, Figure] = {"requests_per_s": RATE, "failed": run.measurement.failed_count}
    figures["machine_late_ms"] = late_ns / NS_PER_MS
    for p, found, truth in rows:
        figures |= {f"p{p}_ms": found / NS_PER_MS, f"p{p}_true_ms": truth / NS_PER_MS}
    is_clean = run.measurement.failed_count == 0
    verdict = judge_stall(stall, latency, late_ns) if is_clean else CheckResult.FAIL
    return Check("stall", f"{stall}", verdict, f"at {RATE}/s, from the due time: {text}", figures)


def _from_send(stall: Stall, run: MeasuredLoad) -> Check:
    """The same load by a tool that cannot send while its few senders wait, and counts from the send."""
    p95_ns, truth_ns = run.measurement.service.percentile_ns(95), stall.percentile_ns(95)
    text = f"p95 {duration(p95_ns)}, where {duration(truth_ns)} is true: why latency counts from the due time"
    figures: dict[str, Figure] = {
        "senders": SENDERS,
        "p95_ms": p95_ns / NS_PER_MS,
        "p95_true_ms": truth_ns / NS_PER_MS,
    }
    return Check("stall", f"{SENDERS} senders, counted from the send", CheckResult.SHOWN, text, figures)


# --- faults

CONCURRENCY = 8
TIMEOUT_NS = 400 * NS_PER_MS
ERRORS = 3  # standard deviations of a share that a sample may be off
EXPECTED_S = 10.0


def judge_faults(asked: int, ended: int, found: Mapping[str, int]) -> CheckResult:
    """All requests ended, and the groups are those that were dealt, each within sampling error."""
    expected = dealt(asked)
    is_right = (
        ended == asked
        and found.keys() == expected.keys()
        and all(_is_near(found[kind], count, asked) for kind, count in expected.items())
    )
    return CheckResult.PASS if is_right else CheckResult.FAIL


def _is_near(found: int, expected: int, total: int) -> bool:
    part = expected / total
    return abs(found - expected) <= ERRORS * math.sqrt(total * part * (1 - part))


def fault_checks(thoroughness: Thoroughness) -> Iterator[Check]:
    asked = thoroughness.fault_requests
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
    yield Check("faults", name, judge_faults(asked, ended, found), text, figures)
