"""Phases of connections and requests, and the share of the network in the latency.

The clock is ours alone, so the way to the server and the way back cannot be measured apart. What can be known is the
round trip of the TCP handshake, which the kernels of both ends answer without the server: a request and its reply take
at least as long on the path. It ends at the host that accepted the connection; what lies behind a proxy or a load
balancer counts as the server's time.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from inferometer.base.units import NS_PER_US
from inferometer.records.network_path import NetworkPath
from inferometer.records.records import Records
from inferometer.stats.estimate import Estimate
from inferometer.stats.machine_figures import NetworkFigures, PhaseTimes, RequestPhases

MOST = 20_000  # requests kept for medians; beyond, every second, fourth, ... is kept
FEWEST = 6  # connections for a 95 % interval of their median
KERNEL, CONNECT = "kernel", "connect"


@dataclass(slots=True)
class PhaseSample:
    """Phases of the requests of a level on connections that had answered before."""

    stride: int = 1
    seen: int = 0
    rows: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 3), dtype=np.int64))

    def add(self, records: Records, path: NetworkPath) -> None:
        good = records.good
        kept = good.where(slice(-self.seen % self.stride, None, self.stride))
        self.seen += len(good)
        is_known = (kept.sent_ns > 0) & (kept.wrote_ns > 0) & (kept.first_ns > 0)
        is_first = np.isin(kept.sent_ns, list(path.firsts))
        waits = np.maximum(kept.first_ns - kept.wrote_ns, 0)
        rows = np.column_stack((kept.wrote_ns - kept.sent_ns, waits, kept.end_ns - kept.first_ns))
        self.rows = np.concatenate((self.rows, rows[is_known & ~is_first]))
        while len(self.rows) > MOST:
            self.rows, self.stride = self.rows[::2], 2 * self.stride


def network_figures(path: NetworkPath | None, later: PhaseSample, *, is_local: bool) -> NetworkFigures | None:
    """Return the figures of all connections so far and of a level's requests; None without connections."""
    if path is None or not path.openings:
        return None
    rtts = [row.rtt_us * NS_PER_US for row in path.openings if row.rtt_us]
    source = KERNEL if rtts else CONNECT
    tls = [row.tls_ns for row in path.openings if row.has_tls]
    connects = [row.connect_ns for row in path.openings]
    return NetworkFigures(
        is_local=is_local,
        connections=len(path.openings),
        resolve_ns=path.resolve_ns,
        connect=_times(connects),
        tls=_times(tls) if tls else None,
        round_trip=median_estimate(rtts or connects),
        least_round_trip_ns=min(rtts or connects),
        round_trip_source=source,
        first=_phases(np.array(path.phases, dtype=np.int64).reshape(-1, 3)),
        later=_phases(later.rows),
    )


def _times(values: Sequence[int]) -> PhaseTimes:
    return PhaseTimes(len(values), min(values), int(np.median(values)), max(values))


def _phases(rows: NDArray[np.int64]) -> RequestPhases | None:
    return RequestPhases(len(rows), *map(int, np.median(rows, axis=0))) if len(rows) else None


def median_estimate(values: Sequence[int]) -> Estimate:
    """Return the median with a 95 % interval from order statistics; without one if there are too few values."""
    ordered = sorted(values)
    count, middle = len(ordered), float(np.median(ordered))
    if count < FEWEST:
        return Estimate(middle)
    # The number of values below the median is binomial: the ends are the values whose ranks leave 2.5 % on each side.
    below = max(0, math.floor(count / 2 - 0.98 * math.sqrt(count)) - 1) if count > 70 else _rank(count)
    return Estimate(middle, float(ordered[below]), float(ordered[count - 1 - below]))


def _rank(count: int) -> int:
    """Return the largest rank, from 0, with P(fewer than that many values below the median) at most 2.5 %."""
    total, rank = 0.0, 0
    for below in range(count):
        total += math.comb(count, below) / 2**count
        if total > 0.025:
            return rank
        rank = below
    return rank


def network_share(figures: NetworkFigures, p50: Estimate | None) -> Estimate | None:
    """Return the share of one round trip in the median latency, with an interval that combines both.

    Returns None for a server on the same machine, and if the round trip exceeds the median latency: in that case, the
    two were measured on different paths or at different times.
    """
    trip = figures.round_trip
    if figures.is_local or p50 is None or trip.value <= 0 or p50.value < trip.value:
        return None
    value = trip.value / p50.value
    if trip.low is None or trip.high is None or not p50.low or not p50.high:
        return Estimate(value)
    return Estimate(value, trip.low / p50.high, min(1.0, trip.high / p50.low))
