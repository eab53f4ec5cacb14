"""Stall: a server that freezes again and again, where latency counted from the send shows next to nothing."""

from collections.abc import Iterator

from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.load.load import Load
from inferometer.load.plan import Constant, Open
from inferometer.report.format import duration
from inferometer.selftest.behaviour import Behaviour, Stall
from inferometer.selftest.check import Check, Figure, Verdict
from inferometer.selftest.child import Child, NullServer
from inferometer.selftest.drive import Run, run_whole, workers
from inferometer.selftest.pace import Pace
from inferometer.stats.measurement import Distribution

PART = "stall"
RATE = 200
SENDERS = 4
PERCENTILES = (90, 95, 99)
NEAR = 0.10
SMALL = 64


def judge(stall: Stall, latency: Distribution, late_ns: int) -> Verdict:
    """Each percentile is near the one that follows from the pattern; `late_ns` is how far this machine bent that."""
    ratios = [latency.percentile_ns(p) / stall.percentile_ns(p) for p in PERCENTILES]
    if all(abs(ratio - 1) <= NEAR for ratio in ratios):
        return Verdict.PASS
    is_bent = late_ns > NEAR / 2 * stall.percentile_ns(PERCENTILES[0])
    return Verdict.NOISY if is_bent and min(ratios) >= 1 - NEAR else Verdict.FAIL  # waits only get longer


def checks(pace: Pace) -> Iterator[Check]:
    stall = pace.stall
    with NullServer(Behaviour(stall=stall)) as server, workers(server, "http", SMALL) as load:
        with Child("bare_loop") as bare:
            run = _run(load, stall, pace.periods, None)
            late_ns = max(server.report().late_ns, *bare.ask()["lags_ns"])
        yield _from_due(stall, run, late_ns)
        yield _from_send(stall, _run(load, stall, max(pace.periods // 2, 1), SENDERS))


def _run(load: Load, stall: Stall, periods: int, cap: int | None) -> Run:
    """Whole periods: then it does not matter at which point of one they begin."""
    seconds = periods * stall.period_ns / NS_PER_S
    return run_whole(load, Open(Constant(RATE), cap=cap, count=round(RATE * seconds)), seconds)


def _from_due(stall: Stall, run: Run, late_ns: int) -> Check:
    latency = run.measurement.latency
    rows = [(p, latency.percentile_ns(p), stall.percentile_ns(p)) for p in PERCENTILES]
    text = ", ".join(f"p{p} {duration(found)} (truth {duration(truth)})" for p, found, truth in rows)
    figures: dict[str, Figure] = {"requests_per_s": RATE, "failed": run.measurement.failed_count}
    figures["machine_late_ms"] = late_ns / NS_PER_MS
    for p, found, truth in rows:
        figures |= {f"p{p}_ms": found / NS_PER_MS, f"p{p}_true_ms": truth / NS_PER_MS}
    is_clean = run.measurement.failed_count == 0
    verdict = judge(stall, latency, late_ns) if is_clean else Verdict.FAIL
    return Check(PART, f"{stall}", verdict, f"at {RATE}/s, from the due time: {text}", figures)


def _from_send(stall: Stall, run: Run) -> Check:
    """The same load by a tool that cannot send while its few senders wait, and counts from the send."""
    p95_ns, truth_ns = run.measurement.service.percentile_ns(95), stall.percentile_ns(95)
    text = f"p95 {duration(p95_ns)}, where {duration(truth_ns)} is true: why latency counts from the due time"
    figures: dict[str, Figure] = {
        "senders": SENDERS,
        "p95_ms": p95_ns / NS_PER_MS,
        "p95_true_ms": truth_ns / NS_PER_MS,
    }
    return Check(PART, f"{SENDERS} senders, counted from the send", Verdict.SHOWN, text, figures)
