"""From one request at a time to saturation: which concurrency a sweep measures next.

Pure functions of what is known of the levels before. The load doubles as long as that brings more throughput; two
doublings in a row that bring nothing end it, since a server that makes batches may gain nothing from the second request
in flight and much from the third. Then the gaps around the knee are filled, the widest first. The knee is the lightest
load with nearly the highest throughput.

A sweep for which no time was given ends in bounded time: six usual levels, or as long as 60 answers of one request at a
time take, whichever is longer. Each level is as short as its precision allows; what does not fit into the time that is
left is not measured, and a second doubling that will bring nothing only where it is cheap.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

LEVELS = 12  # at most
MOST = 4096  # requests in flight
FAR = 64  # from this load on, one that still grows in proportion goes up by four
GROWS = 0.1  # share by which throughput must rise for the next load to be worth it
IN_PROPORTION = 0.9  # of the load's own growth
FALLS = 0.8  # of the highest throughput, below which a server collapses
FAILS = 0.05  # share of failed requests beyond which more load is pointless
SLOW = 10  # times the latency of one request at a time, at which one level without growth is enough
KNEE = 0.95  # share of the highest throughput
ANSWERS = 3  # one after the other, that a level has time for
LEAST_ANSWERS = 2  # that it measures at least
ANSWERS_OF_LEVEL = 3.5  # that it takes with its first round, which is left out
USUAL_LEVELS = 6  # time for a sweep: this many levels of the usual length,
ALL_ANSWERS = 60  # or this many answers one after the other, whichever is longer
QUICK = 0.2  # share of the usual time that a level takes at least
CHEAP = 1 / 3  # of the time that is left
SHARE = 1 / 4  # of the time that is left, which a level may take to get precise
PATIENT = 6  # times the usual time, for a first answer that did not come in it
CLOSE = 1.3  # ratio of two loads that need none between them


class Tried(NamedTuple):
    """A level: requests in flight, what the server did in a second, the middle latency, the share that failed."""

    load: int
    per_s: float
    latency_ns: float = 0.0
    failed_share: float = 0.0
    is_unanswered: bool = False  # nothing ended, well or badly
    is_client_limited: bool = False  # it says what this client can do, not what the server can

    @property
    def is_answered(self) -> bool:
        return self.per_s > 0 and self.failed_share <= FAILS

    @property
    def is_sound(self) -> bool:
        """Whether it tells what the server can do."""
        return self.is_answered and not self.is_client_limited


def next_load(tried: Sequence[Tried], left_ns: float = math.inf) -> int | None:
    """The concurrency to measure next, given the levels in the order in which they were; None when it is over.

    `left_ns` is the time that is left for all that follow."""
    if not tried:
        return 1
    if len(tried) >= LEVELS:
        return None
    if len(tried) == 1 and tried[0].is_unanswered:
        return tried[0].load  # once more, for longer
    is_climbing = tried[-1].load == max(row.load for row in tried)
    higher = _higher(tried, left_ns) if is_climbing else None
    return _between(tried, left_ns) if higher is None else higher


def sweep_ns(tried: Sequence[Tried], usual_ns: int) -> int:
    """How long a sweep may take for which no time was given, all levels together."""
    first = next((row for row in tried if row.latency_ns), None)
    answers_ns = 0.0 if first is None else ALL_ANSWERS * first.latency_ns
    return max(USUAL_LEVELS * usual_ns, round(answers_ns))


class LevelTime(NamedTuple):
    """How long a level lasts: at least, however precise it is, and at most."""

    least_ns: int
    most_ns: int


def level_time(tried: Sequence[Tried], load: float, usual_ns: int, left_ns: float = math.inf) -> LevelTime:
    """Answers get slower from level to level, and each level must have time for several."""
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
    """How long an answer may take at a load: no longer than at a heavier one, or on a saturated server."""
    below = max((row for row in tried if row.load < load), key=lambda row: row.load, default=None)
    above = min((row for row in tried if row.load > load), key=lambda row: row.load, default=None)
    saturated_ns = math.inf if below is None else below.latency_ns * load / below.load
    return min(saturated_ns, math.inf if above is None or not above.latency_ns else above.latency_ns)


def _fits(tried: Sequence[Tried], load: float, left_ns: float) -> bool:
    return left_ns > 0 and ANSWERS_OF_LEVEL * _answer_ns(tried, load) <= left_ns


def knee(tried: Sequence[Tried]) -> int | None:
    """The lightest load with nearly the highest throughput; None where nothing was answered well."""
    sound = sorted((row for row in tried if row.is_sound), key=lambda row: row.load)
    most = max((row.per_s for row in sound), default=0.0)
    return next((row.load for row in sound if row.per_s >= KNEE * most), None)


def _higher(steps: Sequence[Tried], left_ns: float) -> int | None:
    """A load above all that were tried, lowest first; None where more brings nothing."""
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
    """The last so many steps together brought nothing."""
    if len(steps) <= number:
        return False
    return steps[-1].per_s < (1 + GROWS) * max(row.per_s for row in steps[:-number])


def _grows_in_proportion(steps: Sequence[Tried]) -> bool:
    if len(steps) < 2:
        return False
    old, new = steps[-2:]
    return new.per_s / old.per_s >= IN_PROPORTION * new.load / old.load


def _between(tried: Sequence[Tried], left_ns: float) -> int | None:
    """In the wider one of the gaps beside the knee; None where both are narrow, or there is no time for it."""
    rows, top = sorted(tried, key=lambda row: row.load), knee(tried)
    gaps = [(low.load, high.load) for low, high in pairwise(rows) if top in (low.load, high.load)]
    for low, high in sorted(gaps, key=lambda gap: gap[0] / gap[1]):
        middle = round(math.sqrt(low * high))
        if high / low > CLOSE and low < middle < high and _fits(tried, middle, left_ns):
            return middle
    return None
