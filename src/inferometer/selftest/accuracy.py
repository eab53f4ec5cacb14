"""Accuracy of the instrument, tested against servers with known behaviour.

"schedule": open plans send on time, and the server receives the requested load. "stall": a server that
freezes periodically, which latency counted from the send hardly shows. "faults": a server that fails in
four ways, by the number of the request; each way is counted separately.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_MS, NS_PER_S, NS_PER_US, plain_number
from inferometer.load.plan import Closed, Constant, Open, Poisson
from inferometer.load.workers import Load
from inferometer.records.records import Records
from inferometer.report.format import duration, quantity, share
from inferometer.selftest.check import Check, CheckResult, Figure, Thoroughness
from inferometer.selftest.drive import HelperProcess, NullServer, run_load, workers
from inferometer.selftest.null_server import Behaviour, Stall, dealt
from inferometer.stats.estimate import Distribution
from inferometer.stats.measurement import Measurement
from inferometer.stats.series import Durations, percentile

SMALL = 64  # bytes of a request

# --- schedule

PLANS: tuple[tuple[str, float], ...] = (
    ("constant", 100),
    ("constant", 1000),
    ("constant", 2000),
    ("poisson", 1000),
)
SEED = 1
RATE_SLACK = 0.02
LAG_NS = 150 * NS_PER_US
SURE = 0.001  # significance level of the test for Poisson arrivals


@frozen
class Lags:
    """Lags of waits behind their due times."""

    p50_ns: int
    p99_ns: int
    max_ns: int


def lags(values: Durations) -> Lags:
    return Lags(percentile(values, 50), percentile(values, 99), int(values.max()))


def judge_schedule(*, asked_per_s: float, achieved_per_s: float, sends: Lags, timer: Lags) -> CheckResult:
    """Judge by rate and median. If even a bare timer loop wakes late on this machine, a miss is inconclusive."""
    is_good = abs(achieved_per_s / asked_per_s - 1) <= RATE_SLACK and sends.p50_ns <= LAG_NS
    is_busy = timer.p99_ns > LAG_NS
    if is_good:
        return CheckResult.NOISY if is_busy and sends.p99_ns > LAG_NS else CheckResult.PASS
    return CheckResult.NOISY if is_busy else CheckResult.FAIL


def judge_arrivals(p_value: float, timer: Lags) -> CheckResult:
    if p_value >= SURE:
        return CheckResult.PASS
    return CheckResult.NOISY if timer.p99_ns > LAG_NS else CheckResult.FAIL


def schedule_checks(thoroughness: Thoroughness) -> Iterator[Check]:
    with (
        NullServer(Behaviour(keeps_arrivals=True)) as server,
        workers(server, "http", SMALL) as load,
        HelperProcess("bare_loop") as bare,
    ):
        for kind, rate in PLANS:
            schedule = Poisson(rate, SEED) if kind == "poisson" else Constant(rate)
            server.report()
            bare.ask()
            count = round(rate * thoroughness.schedule_s)
            _, records = run_load(load, Open(schedule, count=count), thoroughness.schedule_s)
            timer = lags(np.array(bare.ask()["lags_ns"], dtype=np.int64))
            name = f"{kind} {plain_number(rate)}/s"
            yield _schedule_check(name, records, timer)
            if kind == "poisson":
                yield _arrivals_check(f"{name}, gaps at server", server.report().arrivals_ns, rate, timer)


def _per_s(times_ns: Durations) -> float:
    return (len(times_ns) - 1) * NS_PER_S / max(int(times_ns.max() - times_ns.min()), 1)


def _schedule_check(name: str, records: Records, timer: Lags) -> Check:
    good = records.good
    sends = lags(records.sent_ns - records.due_ns)
    # Use the times actually drawn: a short Poisson sample deviates from its mean rate by a few per cent.
    asked, offered = _per_s(records.due_ns), _per_s(records.sent_ns)
    achieved = _per_s(good.end_ns) if len(good) > 1 else 0.0
    verdict = judge_schedule(asked_per_s=asked, achieved_per_s=achieved, sends=sends, timer=timer)
    text = (
        f"send lag p50 {duration(sends.p50_ns)}, p99 {duration(sends.p99_ns)}, max {duration(sends.max_ns)}; "
        f"{quantity(achieved)} of {plain_number(asked)} requests/s; bare timer p99 {duration(timer.p99_ns)}"
    )
    figures: dict[str, Figure] = {
        "asked_per_s": asked,
        "offered_per_s": offered,
        "achieved_per_s": achieved,
        "requests": len(records),
        "failed": len(records) - len(good),
    }
    for prefix, found in (("lag", sends), ("timer_lag", timer)):
        figures |= {
            f"{prefix}_p50_us": found.p50_ns / NS_PER_US,
            f"{prefix}_p99_us": found.p99_ns / NS_PER_US,
            f"{prefix}_max_us": found.max_ns / NS_PER_US,
        }
    return Check("schedule", name, verdict, text, figures)


def _arrivals_check(name: str, times_ns: list[int], rate: float, timer: Lags) -> Check:
    gaps_s = np.diff(np.array(times_ns, dtype=np.int64)) / NS_PER_S
    found = ks_distance(gaps_s.tolist(), rate)
    p_value = ks_p_value(found, len(gaps_s))
    text = f"Kolmogorov-Smirnov distance {quantity(found * 100)} % over {len(gaps_s)} gaps, p = {quantity(p_value)}"
    figures = {"distance": found, "p_value": p_value, "gaps": len(gaps_s), "seed": SEED}
    return Check("schedule", name, judge_arrivals(p_value, timer), text, figures)


# --- test for Poisson arrivals: Kolmogorov-Smirnov test of their gaps against the exponential distribution


def ks_distance(gaps_s: Sequence[float], rate: float) -> float:
    """Return the largest difference between the measured and the expected cumulative distribution of gaps."""
    ordered = np.sort(np.asarray(gaps_s))
    expected = 1 - np.exp(-rate * ordered)
    steps = np.arange(len(ordered) + 1) / len(ordered)
    return float(max((steps[1:] - expected).max(), (expected - steps[:-1]).max()))


def ks_p_value(found: float, count: int) -> float:
    """Return the probability of a distance this large for true Poisson arrivals (Kolmogorov's series, Stephens'
    correction)."""
    root = math.sqrt(count)
    scaled = (root + 0.12 + 0.11 / root) * found
    if scaled < 0.2:
        return 1.0  # the series converges too slowly here, and its value is 1 to twelve digits
    terms = [math.exp(-2 * (k * scaled) ** 2) for k in range(1, 101)]
    return min(max(2 * (sum(terms[::2]) - sum(terms[1::2])), 0.0), 1.0)


# --- stall

RATE = 200
SENDERS = 4
STALL = Stall(2000 * NS_PER_MS, 500 * NS_PER_MS)
PERCENTILES = (90, 95, 99)
NEAR = 0.10


def judge_stall(stall: Stall, latency: Distribution, late_ns: int) -> CheckResult:
    """Compare each percentile with that of the pattern; `late_ns` is this machine's deviation from the pattern."""
    ratios = [latency.percentile_ns(p) / stall.percentile_ns(p) for p in PERCENTILES]
    if all(abs(ratio - 1) <= NEAR for ratio in ratios):
        return CheckResult.PASS
    is_bent = late_ns > NEAR / 2 * stall.percentile_ns(PERCENTILES[0])
    is_longer = min(ratios) >= 1 - NEAR  # a busy machine does not shorten a wait
    return CheckResult.NOISY if is_bent and is_longer else CheckResult.FAIL


def stall_checks(thoroughness: Thoroughness) -> Iterator[Check]:
    with NullServer(Behaviour(stall=STALL)) as server, workers(server, "http", SMALL) as load:
        with HelperProcess("bare_loop") as bare:
            whole = _run_periods(load, thoroughness.periods, None)
            late_ns = max(server.report().late_ns, *bare.ask()["lags_ns"])
        yield _from_due(whole, late_ns)
        half = _run_periods(load, max(thoroughness.periods // 2, 1), SENDERS)
        yield _from_send(half)


def _run_periods(load: Load, periods: int, cap: int | None) -> Measurement:
    """Run whole periods, so that the starting point within a period does not matter."""
    seconds = periods * STALL.period_ns / NS_PER_S
    plan = Open(Constant(RATE), cap=cap, count=round(RATE * seconds))
    return run_load(load, plan, seconds)[0]


def _from_due(measured: Measurement, late_ns: int) -> Check:
    latency = measured.latency
    rows = [(p, latency.percentile_ns(p), STALL.percentile_ns(p)) for p in PERCENTILES]
    text = ", ".join(f"p{p} {duration(found)} (truth {duration(truth)})" for p, found, truth in rows)
    figures: dict[str, Figure] = {"requests_per_s": RATE, "failed": measured.failed_count}
    figures["machine_late_ms"] = late_ns / NS_PER_MS
    for p, found, truth in rows:
        figures |= {f"p{p}_ms": found / NS_PER_MS, f"p{p}_true_ms": truth / NS_PER_MS}
    is_clean = measured.failed_count == 0
    verdict = judge_stall(STALL, latency, late_ns) if is_clean else CheckResult.FAIL
    return Check("stall", str(STALL), verdict, f"at {RATE}/s, from the due time: {text}", figures)


def _from_send(measured: Measurement) -> Check:
    """Check the same load as sent by a tool whose few senders block, with latency counted from the send."""
    p95_ns, truth_ns = measured.service.percentile_ns(95), STALL.percentile_ns(95)
    text = f"p95 {duration(p95_ns)} instead of the true {duration(truth_ns)}, so latency counts from the due time"
    figures: dict[str, Figure] = {
        "senders": SENDERS,
        "p95_ms": p95_ns / NS_PER_MS,
        "p95_true_ms": truth_ns / NS_PER_MS,
    }
    return Check("stall", f"{SENDERS} senders, counted from the send", CheckResult.SHOWN, text, figures)


# --- faults

CONCURRENCY = 8
TIMEOUT_NS = 400 * NS_PER_MS
TIMEOUT = "timeout"
ERRORS = 3  # tolerated deviation of a share, in standard deviations
EXPECTED_S = 10.0


def judge_faults(asked: int, ended: int, found: Mapping[str, int], late_ns: int = 0) -> CheckResult:
    """Judge whether all requests ended, in the injected groups, each within the sampling error.

    A machine that stalls for as long as the timeout lets other requests time out.
    """
    expected = dealt(asked)
    if ended != asked or found.keys() != expected.keys():
        return CheckResult.FAIL
    far = {kind for kind, count in expected.items() if not _is_near(found[kind], count, asked)}
    if not far:
        return CheckResult.PASS
    is_stalled = late_ns > TIMEOUT_NS / 2 and found[TIMEOUT] > expected[TIMEOUT]
    return CheckResult.NOISY if is_stalled else CheckResult.FAIL


def _is_near(found: int, expected: int, total: int) -> bool:
    part = expected / total
    return abs(found - expected) <= ERRORS * math.sqrt(total * part * (1 - part))


def fault_checks(thoroughness: Thoroughness) -> Iterator[Check]:
    asked = thoroughness.fault_requests
    with (
        NullServer(Behaviour(is_failing=True)) as server,
        workers(server, "http", SMALL, timeout_ns=TIMEOUT_NS) as load,
        HelperProcess("bare_loop") as bare,
    ):
        measured, _ = run_load(load, Closed(CONCURRENCY, count=asked), EXPECTED_S)
        late_ns = max(bare.ask()["lags_ns"], default=0)
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
    yield Check("faults", name, judge_faults(asked, ended, found, late_ns), text, figures)
