"""From one request at a time to saturation: which concurrency a sweep measures next.

Pure functions of what is known of the levels before. The load doubles as long as that brings more throughput; two
doublings in a row that bring nothing end it, since a server that makes batches may gain nothing from the second request
in flight and much from the third. Then the gaps around the knee are filled, the widest first. The knee is the lightest
load with nearly the highest throughput.
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
PATIENT = 6  # times the usual time, for a first answer that did not come in it
CLOSE = 1.3  # ratio of two loads that need none between them


class Tried(NamedTuple):
    """A level: requests in flight, what the server did in a second, the middle latency, the share that failed."""

    load: int
    per_s: float
    latency_ns: float = 0.0
    failed_share: float = 0.0
    is_unanswered: bool = False  # nothing ended, well or badly

    @property
    def is_sound(self) -> bool:
        return self.per_s > 0 and self.failed_share <= FAILS


def next_load(tried: Sequence[Tried]) -> int | None:
    """The concurrency to measure next, given the levels in the order in which they were; None when it is over."""
    if not tried:
        return 1
    if len(tried) >= LEVELS:
        return None
    if len(tried) == 1 and tried[0].is_unanswered:
        return tried[0].load  # once more, for longer
    is_climbing = tried[-1].load == max(row.load for row in tried)
    higher = _higher(tried) if is_climbing else None
    return _between(tried) if higher is None else higher


def level_ns(tried: Sequence[Tried], load: float, usual_ns: int) -> int:
    """How long a level may last: answers get slower from level to level, and each must have time for several."""
    if tried and tried[-1].is_unanswered:
        return PATIENT * usual_ns
    below = max((row for row in tried if row.load < load), key=lambda row: row.load, default=None)
    if below is None:
        return usual_ns
    slowest_ns = below.latency_ns * load / below.load  # of a server that is saturated
    return max(usual_ns, round(ANSWERS * slowest_ns))


def knee(tried: Sequence[Tried]) -> int | None:
    """The lightest load with nearly the highest throughput; None where nothing was answered well."""
    sound = sorted((row for row in tried if row.is_sound), key=lambda row: row.load)
    most = max((row.per_s for row in sound), default=0.0)
    return next((row.load for row in sound if row.per_s >= KNEE * most), None)


def _higher(steps: Sequence[Tried]) -> int | None:
    """A load above all that were tried, lowest first; None where more brings nothing."""
    last = steps[-1]
    if not last.is_sound or last.load >= MOST:
        return None
    if last.per_s < FALLS * max(row.per_s for row in steps):
        return None
    if _is_flat(steps, 1) and (_is_flat(steps, 2) or last.latency_ns > SLOW * steps[0].latency_ns):
        return None
    factor = 4 if last.load >= FAR and _grows_in_proportion(steps) else 2
    return min(MOST, last.load * factor)


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


def _between(tried: Sequence[Tried]) -> int | None:
    """In the wider one of the gaps beside the knee; None where both are narrow."""
    rows, top = sorted(tried, key=lambda row: row.load), knee(tried)
    gaps = [(low.load, high.load) for low, high in pairwise(rows) if top in (low.load, high.load)]
    for low, high in sorted(gaps, key=lambda gap: gap[0] / gap[1]):
        middle = round(math.sqrt(low * high))
        if high / low > CLOSE and low < middle < high:
            return middle
    return None
