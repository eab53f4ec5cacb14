"""Search from concurrency 1 to saturation: the next concurrency of a sweep.

Pure functions of the levels measured so far. The load doubles as long as throughput grows; two doublings in a row
without growth end it, since a batching server may gain nothing from the second request in flight and much from the
third. Then the gaps around the knee are filled, widest first. The knee is the lightest load with nearly the highest
throughput.

A sweep without a time limit takes bounded time: six levels of the usual length, or 60 answers at concurrency 1,
whichever is longer. Each level is as short as its precision allows. Levels that do not fit into the remaining time are
skipped, and so is a second doubling without growth unless it is cheap.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

LEVELS = 12  # at most
MOST = 4096  # requests in flight
FAR = 64  # from this load on, one that still scales in proportion is multiplied by four
GROWS = 0.1  # relative throughput gain that justifies the next load
IN_PROPORTION = 0.9  # share of the load's own growth
FALLS = 0.8  # share of the highest throughput below which a server collapses
FAILS = 0.05  # share of failed requests above which more load is pointless
SLOW = 10  # multiple of the latency at concurrency 1 at which one level without growth is enough
KNEE = 0.95  # share of the highest throughput
ANSWERS = 3  # consecutive answers for which a level has time
LEAST_ANSWERS = 2  # minimum of measured answers
ANSWERS_OF_LEVEL = 3.5  # duration in answers, including its excluded first round
USUAL_LEVELS = 6  # time of a sweep: this many levels of the usual length,
ALL_ANSWERS = 60  # or this many consecutive answers, whichever is longer
QUICK = 0.2  # minimum duration of a level relative to the usual time
CHEAP = 1 / 3  # share of the remaining time
SHARE = 1 / 4  # share of the remaining time that a level may spend on precision
PATIENT = 6  # multiple of the usual time to wait for a first answer
CLOSE = 1.3  # ratio below which no load between two is measured


class Tried(NamedTuple):
    """A measured level: concurrency, throughput, median latency, share of failures."""

    load: int
    per_s: float
    latency_ns: float = 0.0
    failed_share: float = 0.0
    is_unanswered: bool = False  # no request finished
    is_client_limited: bool = False  # shows the capacity of this client rather than of the server

    @property
    def is_answered(self) -> bool:
        return self.per_s > 0 and self.failed_share <= FAILS

    @property
    def is_sound(self) -> bool:
        """Whether the level shows the capacity of the server."""
        return self.is_answered and not self.is_client_limited


def next_load(tried: Sequence[Tried], left_ns: float = math.inf) -> int | None:
    """Return the next concurrency to measure, given the levels so far in order; None when the search is over.

    `left_ns` is the remaining time for all further levels.
    """
    if not tried:
        return 1
    if len(tried) >= LEVELS:
        return None
    if len(tried) == 1 and tried[0].is_unanswered:
        return tried[0].load  # repeat it for longer
    is_climbing = tried[-1].load == max(row.load for row in tried)
    higher = _higher(tried, left_ns) if is_climbing else None
    return _between(tried, left_ns) if higher is None else higher


def sweep_ns(tried: Sequence[Tried], usual_ns: int) -> int:
    """Return the total time of a sweep without a time limit."""
    first = next((row for row in tried if row.latency_ns), None)
    answers_ns = 0.0 if first is None else ALL_ANSWERS * first.latency_ns
    return max(USUAL_LEVELS * usual_ns, round(answers_ns))


class LevelTime(NamedTuple):
    """Duration of a level: its minimum, regardless of precision, and its maximum."""

    least_ns: int
    most_ns: int


def level_time(tried: Sequence[Tried], load: float, usual_ns: int, left_ns: float = math.inf) -> LevelTime:
    """Return the duration of a level: answers get slower from level to level, and each needs time for several."""
    quick_ns = round(QUICK * usual_ns)
    if tried and tried[-1].is_unanswered:
        return LevelTime(quick_ns, PATIENT * usual_ns)
    below = max((row for row in tried if row.load < load), key=lambda row: row.load, default=None)
    if below is None:
        return LevelTime(quick_ns, usual_ns)
    least_ns = max(quick_ns, round(LEAST_ANSWERS * below.latency_ns))
    usual_ns = max(least_ns, round(min(float(usual_ns), SHARE * left_ns)))
    return LevelTime(least_ns, max(usual_ns, round(ANSWERS * _answer_ns(tried, load))))


def _answer_ns(tried: Sequence[Tried], load: float) -> float:
    """Estimate the response time at a load: at most that at a heavier load, or on a saturated server."""
    below = max((row for row in tried if row.load < load), key=lambda row: row.load, default=None)
    above = min((row for row in tried if row.load > load), key=lambda row: row.load, default=None)
    saturated_ns = math.inf if below is None else below.latency_ns * load / below.load
    return min(saturated_ns, math.inf if above is None or not above.latency_ns else above.latency_ns)


def _fits(tried: Sequence[Tried], load: float, left_ns: float) -> bool:
    return left_ns > 0 and ANSWERS_OF_LEVEL * _answer_ns(tried, load) <= left_ns


def knee(tried: Sequence[Tried]) -> int | None:
    """Return the lightest load with nearly the highest throughput; None if no level is sound."""
    sound = sorted((row for row in tried if row.is_sound), key=lambda row: row.load)
    most = max((row.per_s for row in sound), default=0.0)
    return next((row.load for row in sound if row.per_s >= KNEE * most), None)


def _higher(steps: Sequence[Tried], left_ns: float) -> int | None:
    """Return a load above all measured ones, lowest first; None if throughput has saturated."""
    last = steps[-1]
    if not last.is_answered or last.load >= MOST:
        return None
    if last.per_s < FALLS * max(row.per_s for row in steps):
        return None
    factor = 4 if last.load >= FAR and _grows_in_proportion(steps) else 2
    load = min(MOST, last.load * factor)
    if _is_flat(steps, 1):
        is_over = _is_flat(steps, 2) or last.latency_ns > SLOW * steps[0].latency_ns
        return load if not is_over and _fits(steps, load, CHEAP * left_ns) else None
    return load if _fits(steps, load, left_ns) else None


def _is_flat(steps: Sequence[Tried], number: int) -> bool:
    """Return whether the last `number` steps together brought no growth."""
    if len(steps) <= number:
        return False
    return steps[-1].per_s < (1 + GROWS) * max(row.per_s for row in steps[:-number])


def _grows_in_proportion(steps: Sequence[Tried]) -> bool:
    if len(steps) < 2:
        return False
    old, new = steps[-2:]
    return new.per_s / old.per_s >= IN_PROPORTION * new.load / old.load


def _between(tried: Sequence[Tried], left_ns: float) -> int | None:
    """Return a load in the wider of the two gaps next to the knee; None if both are narrow, or if time is short."""
    rows, top = sorted(tried, key=lambda row: row.load), knee(tried)
    gaps = [(low.load, high.load) for low, high in pairwise(rows) if top in (low.load, high.load)]
    for low, high in sorted(gaps, key=lambda gap: gap[0] / gap[1]):
        middle = round(math.sqrt(low * high))
        if high / low > CLOSE and low < middle < high and _fits(tried, middle, left_ns):
            return middle
    return None
