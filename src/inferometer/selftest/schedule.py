"""Schedule: open plans send when they should, and what reaches the server is what was asked for."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from inferometer.base.units import NS_PER_S, NS_PER_US
from inferometer.load.plan import Constant, Open, Poisson
from inferometer.records.records import Records
from inferometer.report.format import duration, quantity
from inferometer.selftest.behaviour import Behaviour
from inferometer.selftest.check import Check, CheckResult, Figure, Thoroughness
from inferometer.selftest.drive import HelperProcess, NullServer, run_whole, workers
from inferometer.stats.series import Durations, percentile

PLANS: tuple[tuple[str, float], ...] = (
    ("constant", 100),
    ("constant", 1000),
    ("constant", 2000),
    ("poisson", 1000),
)
SEED = 1
SMALL = 64
RATE_SLACK = 0.02
LAG_NS = 150 * NS_PER_US
SURE = 0.001  # arrivals are called not Poisson when true ones would look so only this often


@dataclass(frozen=True, slots=True)
class Lags:
    """Of some waits behind the times they were for."""

    p50_ns: int
    p99_ns: int
    max_ns: int


def lags(values: Durations) -> Lags:
    return Lags(percentile(values, 50), percentile(values, 99), int(values.max()))


def judge(*, asked_per_s: float, achieved_per_s: float, sends: Lags, timer: Lags) -> CheckResult:
    """By rate and median. On a machine that wakes even a bare timer loop late, a miss proves nothing."""
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
            records = run_whole(load, Open(schedule, count=count), thoroughness.schedule_s).records
            timer = lags(np.array(bare.ask()["lags_ns"], dtype=np.int64))
            name = f"{kind} {rate:g}/s"
            yield _check(name, records, timer)
            if kind == "poisson":
                yield _check_arrivals(f"{name}, gaps at server", server.report().arrivals_ns, rate, timer)


def _per_s(times_ns: Durations) -> float:
    return (len(times_ns) - 1) * NS_PER_S / max(int(times_ns.max() - times_ns.min()), 1)


def _check(name: str, records: Records, timer: Lags) -> Check:
    good = records.good
    sends = lags(records.sent_ns - records.due_ns)
    # Of the times that were really drawn: a short Poisson sample is some per cent off its mean rate by itself.
    asked, offered = _per_s(records.due_ns), _per_s(records.sent_ns)
    achieved = _per_s(good.end_ns) if len(good) > 1 else 0.0
    verdict = judge(asked_per_s=asked, achieved_per_s=achieved, sends=sends, timer=timer)
    text = (
        f"send lag p50 {duration(sends.p50_ns)}, p99 {duration(sends.p99_ns)}, max {duration(sends.max_ns)}; "
        f"{achieved:.1f} of {asked:.1f} requests/s; bare timer p99 {duration(timer.p99_ns)}"
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


def _check_arrivals(name: str, times_ns: list[int], rate: float, timer: Lags) -> Check:
    gaps_s = np.diff(np.array(times_ns, dtype=np.int64)) / NS_PER_S
    found = ks_distance(gaps_s.tolist(), rate)
    p_value = ks_p_value(found, len(gaps_s))
    text = f"Kolmogorov-Smirnov distance {quantity(found * 100)} % over {len(gaps_s)} gaps, p = {p_value:.2g}"
    figures = {"distance": found, "p_value": p_value, "gaps": len(gaps_s), "seed": SEED}
    return Check("schedule", name, judge_arrivals(p_value, timer), text, figures)


# --- whether arrivals are Poisson: the Kolmogorov-Smirnov test of their gaps against the exponential distribution


def ks_distance(gaps_s: Sequence[float], rate: float) -> float:
    """The largest difference between the shares of gaps below any length, found and expected."""
    ordered = np.sort(np.asarray(gaps_s))
    expected = 1 - np.exp(-rate * ordered)
    steps = np.arange(len(ordered) + 1) / len(ordered)
    return float(max((steps[1:] - expected).max(), (expected - steps[:-1]).max()))


def ks_p_value(found: float, count: int) -> float:
    """How often true Poisson arrivals would be at least so far off (Kolmogorov's series, Stephens' correction)."""
    root = math.sqrt(count)
    scaled = (root + 0.12 + 0.11 / root) * found
    if scaled < 0.2:
        return 1.0  # the series converges too slowly there, and its value is 1 to twelve digits
    terms = [math.exp(-2 * (k * scaled) ** 2) for k in range(1, 101)]
    return min(max(2 * (sum(terms[::2]) - sum(terms[1::2])), 0.0), 1.0)
