"""Whether a server can keep up with a rate: how fast it answers while requests wait for it.

What was answered in the measured time says little near the limit: at 102 % of its capacity a server falls behind by
one request in fifty, and random arrivals vary by more. But while requests wait, a server works at its capacity, and
that can be measured far more exactly: by the time from one end to the next, of all ends after which requests were
waiting. Where even its upper confidence bound is below the rate that was asked for, the rate is too high.

Requests wait where more are in flight than a server without a queue would have: the rate times the service time of
quick requests (Little's law), twice that to be sure, and two more. A server that only pauses now and then catches up
before its queue is empty, so that over such a time it answers as many requests as were sent.
"""

import numpy as np

from inferometer.base.units import NS_PER_S, NS_PER_US
from inferometer.stats.ends import Groups
from inferometer.stats.intervals import ratio_sections
from inferometer.stats.measurement import Estimate

QUICK = 5  # percentile of the service times of requests that met no queue
FEWEST = 50  # ends after which requests waited
LEAST = 0.003  # share by which a rate is above the capacity
ONE_SIDED = 0.84  # of a 95 % interval's half width: the distance of the 95 % bound on one side
US_PER_S = NS_PER_S // NS_PER_US


def is_beyond(capacity: Estimate, per_s: float) -> bool:
    """Whether requests at this rate are more than a server answers while some wait for it."""
    if capacity.high is None:
        return False
    return per_s > (1 + LEAST) * (capacity.value + ONE_SIDED * (capacity.high - capacity.value))


def is_within(capacity: Estimate, per_s: float) -> bool:
    """Whether the server surely answers more than that while requests wait: then they wait by chance."""
    return capacity.low is not None and per_s < capacity.low


def busy_rate(ends: Groups, per_s: float) -> Estimate | None:
    """Answers per second while requests wait, at a load of so many per second; None where they hardly do.

    Of each end its time and how long its request took; None too where only groups of ends are known."""
    if len(ends) <= FEWEST or not ends.is_exact:
        return None
    order = np.argsort(ends.last_us, kind="stable")
    ended, took_us = ends.last_us[order], ends.slowest_ns[order] // NS_PER_US
    quick_us = float(np.percentile(took_us, QUICK))
    waiting = 2 * per_s * quick_us / US_PER_S + 2
    begun = np.searchsorted(np.sort(ended - took_us), ended, side="right")
    in_flight = begun - np.arange(1, len(ended) + 1)  # after each end, of those that end later
    is_busy = in_flight[:-1] >= waiting
    if is_busy.sum() < FEWEST:
        return None
    busy_us = np.append(0, np.cumsum(np.diff(ended)[is_busy]))
    counts = np.arange(len(busy_us))
    if not busy_us[-1]:
        return None
    value = counts[-1] / busy_us[-1] * US_PER_S
    width = ratio_sections(counts, busy_us)
    if width is None:
        return Estimate(value)
    down, up = (part * US_PER_S for part in width)
    return Estimate(value, max(0.0, value - down), value + up)
