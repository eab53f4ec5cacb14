"""Warm a server up for one load: apply the load until the server answers no faster than before.

Engines compile, capture graphs and grow caches when they first see a shape, so a server that has just started is slow
for some requests of each load. Under a closed load, the time between two answers shows that; under an open one, which
sets that time, the latency does. The server is warm when the latest answers took as long as an equal number before
them. A stall makes them differ twice: when it happens, and when it is over. If the time limit comes first, the server
may just be erratic: it counts as cold only if it still gets faster.
"""

import numpy as np
from numpy.typing import NDArray

from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_S
from inferometer.load.plan import Closed, Plan
from inferometer.measure.instrument import FAR_NS, Instrument
from inferometer.measure.level_report import report_warm_up
from inferometer.measure.liveness import GONE_NS, Silence
from inferometer.records.records import EMPTY, Records, join
from inferometer.stats.doubts import courses, drift
from inferometer.stats.measurement import WindowFigures
from inferometer.stats.stopping import cold_windows

Array = NDArray[np.float64]

ALIKE = 0.15  # relative difference between answers that took equally long
SURE = 2.0  # standard errors by which they differ by chance if the server is erratic
FEWEST = (
    (NS_PER_S, 16),
    (4 * NS_PER_S, 4),
)  # answers to compare with as many before, up to this time; then 1
OPEN_ROUND = 8  # answers to compare under an open load
_MAD = 1.4826  # ratio of the standard deviation and the median absolute deviation of a normal distribution


@frozen
class Warming:
    """The outcome of a warm-up."""

    seconds: float
    requests: int  # answered ones
    is_warm: bool
    is_answered: bool = True  # at least one request before its timeout
    wave_s: float = 0.0  # longest time between two answers of the second half


def warm_server(instrument: Instrument, plan: Plan, limit_ns: int, first_ns: int = 0) -> Warming:
    """Apply the load until the server is warm, the time is up, or nothing is answered; the load then continues.

    The first answer may take up to `first_ns`, if that is longer than the limit: without one, the necessary length of a
    measurement is unknown.
    """
    load, clock = instrument.load, instrument.clock
    begun_ns = last_good_ns = clock()
    silence = Silence(instrument.silence_ns, begun_ns)
    answers = EMPTY
    is_answered = is_warm = False
    load.apply(plan)
    while not (is_warm or instrument.watcher.is_interrupted()):
        until_ns = begun_ns + (limit_ns if is_answered else max(limit_ns, first_ns))
        collected = load.collect(min(clock() + FAR_NS, until_ns))
        ours = collected.records.where(collected.records.sent_ns >= begun_ns)  # not from an earlier load
        report_warm_up(instrument.watcher, begun_ns, collected, ours)
        is_answered = is_answered or bool(ours.is_answered.any())
        if len(collected.records.good):
            last_good_ns = collected.seen_ns
        answers = join([answers, ours.good])
        elapsed_ns = collected.seen_ns - begun_ns
        is_warm = _is_warm(answers, plan, begun_ns, elapsed_ns)
        is_gone = len(collected.records) > 0 and collected.seen_ns - last_good_ns > GONE_NS
        if collected.seen_ns >= until_ns or is_gone or silence.is_over(collected) or collected.is_finished:
            break
    is_warm = is_warm or not is_quickening(answer_times(answers, plan, begun_ns))
    gaps = np.diff(np.sort(answers.end_ns))
    wave_s = float(gaps[(len(gaps) - 1) // 2 :].max(initial=0)) / NS_PER_S
    return Warming((clock() - begun_ns) / NS_PER_S, len(answers), is_warm, is_answered, wave_s)


def _is_warm(answers: Records, plan: Plan, begun_ns: int, elapsed_ns: int) -> bool:
    times = answer_times(answers, plan, begun_ns)
    if not isinstance(plan, Closed):
        return is_steady(times, OPEN_ROUND)
    # Answers may come one by one or all together, when only a whole round is like the one before.
    whole = plan.concurrency
    fewest = next((count for until_ns, count in FEWEST if elapsed_ns <= until_ns), 1)
    return any(is_steady(times, max(count, fewest)) for count in (-(-whole // 2), whole))


def answer_times(answers: Records, plan: Plan, begun_ns: int) -> Array:
    """Return how long each answer took, in the order of their ends."""
    order = np.argsort(answers.end_ns, kind="stable")
    ends = answers.end_ns[order]
    if not isinstance(plan, Closed):
        return np.asarray(ends - answers.sent_ns[order], dtype=np.float64)
    times = np.diff(ends, prepend=begun_ns).astype(np.float64)
    tokens = np.where(answers.tokens > 0, answers.tokens, answers.responses)[order]
    is_by_token = plan.concurrency == 1 and len(tokens) > 0 and tokens.min() > 1
    return np.asarray(times / tokens if is_by_token else times)


def is_steady(times: Array, count: int) -> bool:
    """Return whether the last `count` answers took as long as those before them."""
    if len(times) < 2 * count:
        return False
    before, last = times[-2 * count : -count], times[-count:]
    spread = np.concatenate((before - np.median(before), last - np.median(last)))
    # The median ignores individual stalls, so a stall counts as a difference and not as spread.
    error = _MAD * float(np.median(np.abs(spread))) * (2 / count) ** 0.5
    faster = min(float(before.mean()), float(last.mean()))
    return bool(abs(before.mean() - last.mean()) <= max(ALIKE * faster, SURE * error))


def is_quickening(times: Array) -> bool:
    """Return whether the last third of the answers is faster than the middle third by more than chance explains."""
    third = len(times) // 3
    if third < 2:
        return False
    before, last = times[-2 * third : -third], times[-third:]
    error = float(np.hypot(before.std(ddof=1), last.std(ddof=1))) / third**0.5
    return bool(before.mean() - last.mean() > max(ALIKE * float(last.mean()), SURE * error))


def is_warming(windows: tuple[WindowFigures, ...]) -> bool:
    """Return whether a measured level began slower than it continued, so that the server was not warm."""
    if cold_windows(windows):
        return True
    (_, rates), *rest = courses(windows)
    falls = [drift(latencies) or 0.0 for _, latencies in rest]
    return (drift(rates) or 0.0) > ALIKE or min(falls, default=0.0) < -ALIKE
