"""Whether a server can sustain a rate, judged by its throughput while requests wait.

The answers counted in the measured time say little near the limit: at 102 % of its capacity a server falls behind by
one request in fifty, and random arrivals vary by more. But while requests wait, a server works at its capacity, which
can be measured far more precisely: by the time between consecutive ends while requests are waiting. If even its upper
confidence bound is below the requested rate, the rate is too high.

Requests wait if more are in flight than on a server without a queue: the rate times the service time of fast requests
(Little's law), doubled as a margin, plus two. A server that only pauses now and then catches up before its queue is
empty, so over such a period it answers as many requests as were sent.
"""

import numpy as np
from numpy.typing import NDArray

from inferometer.base.units import NS_PER_S, NS_PER_US
from inferometer.stats.ends import Groups
from inferometer.stats.intervals import ratio_sections
from inferometer.stats.measurement import Estimate

QUICK = 5  # percentile of the service time of requests that met no queue
FEWEST = 50  # ends while requests were waiting
LEAST = 0.003  # relative excess over the capacity
ONE_SIDED = 0.84  # of a 95 % interval's half-width: the distance of the one-sided 95 % bound
US_PER_S = NS_PER_S // NS_PER_US

Times = NDArray[np.int64]


def is_beyond(capacity: Estimate, per_s: float) -> bool:
    """Return whether this rate exceeds the server's throughput while requests wait."""
    if capacity.high is None:
        return False
    return per_s > (1 + LEAST) * (capacity.value + ONE_SIDED * (capacity.high - capacity.value))


def is_within(capacity: Estimate, per_s: float) -> bool:
    """Return whether the server certainly exceeds this rate while requests wait, so that they wait only by chance."""
    return capacity.low is not None and per_s < capacity.low


def busy_rate(ends: Groups, per_s: float) -> Estimate | None:
    """Return the throughput while requests wait, at this load; None if they barely wait.

    Also None if only groups of ends are known, since it needs the end and duration of each request.
    """
    if len(ends) <= FEWEST or not ends.is_exact:
        return None
    gaps_us = busy_gaps_us(ends.last_us, ends.slowest_ns // NS_PER_US, per_s)
    if len(gaps_us) < FEWEST:
        return None
    busy_us = np.append(0, np.cumsum(gaps_us))
    counts = np.arange(len(busy_us))
    if not busy_us[-1]:
        return None
    value = counts[-1] / busy_us[-1] * US_PER_S
    width = ratio_sections(counts, busy_us)
    if width is None:
        return Estimate(value)
    down, up = (part * US_PER_S for part in width)
    return Estimate(value, max(0.0, value - down), value + up)


def busy_gaps_us(ended_us: Times, took_us: Times, per_s: float) -> Times:
    """Return the times between consecutive ends while requests wait."""
    if len(ended_us) < 2:
        return ended_us[:0]
    order = np.argsort(ended_us, kind="stable")
    ended, took = ended_us[order], took_us[order]
    quick_us = float(np.percentile(took, QUICK))
    waiting = 2 * per_s * quick_us / US_PER_S + 2
    begun = np.searchsorted(np.sort(ended - took), ended, side="right")
    in_flight = begun - np.arange(1, len(ended) + 1)  # after each end, of requests that end later
    found: Times = np.diff(ended)[in_flight[:-1] >= waiting]
    return found
