"""Whether a server can sustain a rate, judged by its throughput while requests wait.

The answers counted in the measured time say little near the limit: at 102 % of its capacity a server falls behind by
one request in fifty, and random arrivals vary by more. But while requests wait, a server works at its capacity, which
can be measured far more precisely: by the time between consecutive ends while requests are waiting.

Requests wait if more are in flight than on a server without a queue: the rate times the service time of fast requests
(Little's law), doubled as a margin, plus two. That is too few for a server whose fast requests are far from typical: it
still works faster the more requests it has. So if the rate of ends grows with the number in flight, only the upper half
of these numbers counts, and so on until the rate no longer grows. A server that only pauses now and then catches up
before its queue is empty, so over such a period it answers as many requests as were sent.

A rate is too high if it exceeds the estimate, is above 98 % of the capacity with 95 % certainty, and above 95 % of it
with 99.5 % certainty. If fewer requests were answered than sent and latency rose, 95 % of the capacity with 95 %
certainty are enough.

How small an overload this shows depends on the number of ends while requests wait, n, and on the relative spread of
service times, c: the capacity cannot be known better than to c / sqrt(n), which is 3.2 % for 1,000 exponential service
times. There 95 % and 105 % of the capacity differ by 3.2 standard errors. So even the best test that names 95 % in one
of 100 levels names 105 % in only 80.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from inferometer.base.units import NS_PER_S, NS_PER_US
from inferometer.stats.ends import Groups
from inferometer.stats.estimate import Estimate
from inferometer.stats.intervals import bunch_ends, ratio_sections, relative_difference
from inferometer.stats.verdict import SHOWN, rule_either_way

QUICK = 5  # percentile of the service time of requests that met no queue
FEWEST = 50  # ends while requests were waiting
LEAST = 0.003  # relative excess over the capacity
# Shares of the capacity, with one-sided bounds in half-widths of its interval.
CERTAIN = ((0.98, 0.84), (0.95, 1.31))
CERTAIN_BEHIND = ((0.95, 0.84),)  # if the server falls behind
GROWS = 2.0  # standard errors of a correlation
US_PER_S = NS_PER_S // NS_PER_US

Times = NDArray[np.int64]


class BusyTime(NamedTuple):
    """Consecutive ends while requests wait; ends in bunches count by bunch."""

    counts: NDArray[np.int64]  # requests that ended
    took_us: Times  # since the ends before
    in_flight: NDArray[np.int64]  # after the ends before

    @property
    def grows(self) -> bool:
        """Whether the rate of ends grows with the number of requests in flight."""
        per_us = self.counts.sum() / max(int(self.took_us.sum()), 1)
        surplus, number = self.counts - per_us * self.took_us, self.in_flight - self.in_flight.mean()
        spread = math.sqrt(float(surplus @ surplus) * float(number @ number))
        return spread > 0 and float(surplus @ number) > GROWS * spread / math.sqrt(len(number))

    def above(self, number: float) -> "BusyTime":
        chosen = self.in_flight > number
        return BusyTime(*(column[chosen] for column in self))


def is_beyond(capacity: Estimate, per_s: float, *, falls_behind: bool = False) -> bool:
    """Return whether this rate exceeds the server's throughput while requests wait.

    Less certainty is enough if the server also falls behind; then a capacity without an interval refutes nothing.
    """
    if capacity.high is None:
        return falls_behind
    half = capacity.high - capacity.value
    certain = CERTAIN_BEHIND if falls_behind else CERTAIN
    is_higher = per_s > (1 + LEAST) * capacity.value
    return is_higher and all(per_s > part * (capacity.value + halves * half) for part, halves in certain)


def is_within(capacity: Estimate, per_s: float) -> bool:
    """Return whether the server certainly exceeds this rate while requests wait, so that they wait only by chance."""
    return capacity.low is not None and per_s < capacity.low


def has_changed_pace(ends: Groups, per_s: float) -> bool:
    """Return whether the throughput while requests wait differs between both halves by more than chance explains, or
    they barely waited in one of them."""
    half = len(ends) // 2
    early, late = (busy_rate(part, per_s) for part in (ends.cut(0, half), ends.cut(half, len(ends))))
    if early is None or late is None:
        return True
    return rule_either_way(relative_difference(early, late)).ruling == SHOWN


def busy_rate(ends: Groups, per_s: float) -> Estimate | None:
    """Return the throughput while requests wait, at this load; None if they barely wait.

    The result is also None if only groups of ends are known, since the computation needs the end and duration of each
    request.
    """
    if len(ends) <= FEWEST or not ends.is_exact:
        return None
    found = busy_time(ends.last_us, ends.slowest_ns // NS_PER_US, per_s)
    while found.counts.sum() >= FEWEST and found.grows:
        found = found.above(float(np.median(found.in_flight)))
    if found.counts.sum() < FEWEST:
        return None
    busy_us, counts = (np.append(0, np.cumsum(column)) for column in (found.took_us, found.counts))
    if not busy_us[-1]:
        return None
    value = counts[-1] / busy_us[-1] * US_PER_S
    width = ratio_sections(counts, busy_us)
    if width is None:
        return Estimate(value)
    down, up = (part * US_PER_S for part in width)
    return Estimate(value, max(0.0, value - down), value + up)


def busy_time(ended_us: Times, took_us: Times, per_s: float) -> BusyTime:
    """Return the ends while requests wait."""
    if not len(ended_us):
        return BusyTime(ended_us, ended_us, ended_us)
    order = np.argsort(ended_us, kind="stable")
    ended, took = ended_us[order], took_us[order]
    quick_us = float(np.percentile(took, QUICK))
    waiting = 2 * per_s * quick_us / US_PER_S + 2
    is_last = bunch_ends(ended)
    places = np.arange(len(ended)) if is_last is None else is_last.nonzero()[0]
    begun = np.searchsorted(np.sort(ended - took), ended[places], side="right")
    in_flight = begun - places - 1  # after each end, of requests that end later
    return BusyTime(np.diff(places), np.diff(ended[places]), in_flight[:-1]).above(math.ceil(waiting) - 1)
