"""Outages of a server, and its recovery. Pure: records in, outages out.

A server is gone from its last successful answer before an unanswered request until the next successful one. Outages
less than a second apart are merged: a starting server answers some requests and loses others. It has recovered when
`STEADY` successful answers in a row took no more than twice the median before the outage: requests that waited for the
server are slow, and so are the requests queued behind them.
"""

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from inferometer.base import status
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.records.records import Column
from inferometer.stats.measurement import Outage

CLOSE_NS = NS_PER_S
STEADY = 10
SLOWER = 2.0
LEAST_NS = NS_PER_MS  # smaller latency differences are ignored
BEFORE = 500  # successful requests before an outage that define the usual latency
MOST = 100  # most outages that are kept apart
LOST = tuple(code for code in status.NO_ANSWER if code != status.CANCELLED)
"""Statuses of requests that a running server would have answered."""


@dataclass(slots=True)
class _Open:
    """An outage, which may still be in progress."""

    gone_ns: int
    noticed_ns: int
    usual_ns: float
    back_ns: int = 0
    recovered_ns: int = 0
    lost: int = 1
    steady: int = 0
    steady_from_ns: int = 0


@dataclass(slots=True)
class OutageWatch:
    """Follows the requests of one class piece by piece, in the order of their ends."""

    start_ns: int
    _last_good_ns: int = 0
    _latencies: deque[int] = field(default_factory=lambda: deque(maxlen=BEFORE))
    _found: list[_Open] = field(default_factory=list)

    def add(self, ends_ns: Column, latencies_ns: Column, statuses: Column) -> None:
        """Add requests, one row per request."""
        good = statuses == status.OK
        lost = np.isin(statuses, LOST) if not good.all() else ~good
        if not lost.any() and (
            not self._found or self._found[-1].recovered_ns
        ):  # fast path for the usual case
            if good.any():
                # A stream's end may be read long after its last data, behind later ends.
                self._last_good_ns = max(self._last_good_ns, int(ends_ns[good][-1]))
                self._latencies.extend(latencies_ns[good][-BEFORE:].tolist())
            return
        for end_ns, is_lost, is_good, took_ns in zip(
            ends_ns.tolist(), lost.tolist(), good.tolist(), latencies_ns.tolist(), strict=True
        ):
            if is_lost:
                self._lost(end_ns)
            elif is_good:
                self._good(end_ns, took_ns)

    def outages(self) -> tuple[Outage, ...]:
        return tuple(
            Outage(
                gone_s=self._after(row.gone_ns or self.start_ns),
                noticed_s=self._after(row.noticed_ns),
                back_s=self._after(row.back_ns) if row.back_ns else None,
                recovered_s=self._after(row.recovered_ns) if row.recovered_ns else None,
                lost=row.lost,
            )
            for row in self._found
        )

    def _after(self, time_ns: int) -> float:
        return max(0.0, (time_ns - self.start_ns) / NS_PER_S)

    def _lost(self, end_ns: int) -> None:
        last = self._found[-1] if self._found else None
        is_new = last is None or (last.back_ns > 0 and end_ns - last.back_ns >= CLOSE_NS)
        if last is None or (is_new and len(self._found) < MOST):
            usual = float(np.median(self._latencies)) if self._latencies else 0.0
            self._found.append(_Open(self._last_good_ns, end_ns, usual))
            return
        last.lost += 1
        last.back_ns = last.recovered_ns = last.steady = 0

    def _good(self, end_ns: int, took_ns: int) -> None:
        self._last_good_ns = max(self._last_good_ns, end_ns)
        last = self._found[-1] if self._found else None
        if last is None or last.recovered_ns:
            self._latencies.append(took_ns)
            return
        last.back_ns = last.back_ns or end_ns
        if last.usual_ns and took_ns > last.usual_ns * SLOWER + LEAST_NS:
            last.steady = 0
            return
        if not last.steady:
            last.steady_from_ns = end_ns
        last.steady += 1
        if last.steady == STEADY:
            last.recovered_ns = last.steady_from_ns
