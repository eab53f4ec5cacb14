"""Requests of a level as they arrive, divided by their due times into sections that an SLO is tested on.

Sections use the time at which a request was due, not the time at which it ended, so requests in flight belong to their
section. Most of those have waited for longer than the limit and are beyond it; the most recent requests of a run are
left out. If a run is too short for that, a share of the requests in flight counts as beyond the limit: that of the
answered requests with at least the same duration (Kaplan-Meier estimate). Unfinished streams count for the time to
first token, but not for figures that are only known at their end.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from inferometer.base import status
from inferometer.base.frozen import frozen
from inferometer.base.slo import STREAMED, Slo, Term
from inferometer.base.units import NS_PER_S, NS_PER_US
from inferometer.find.keeping import PARTS, Counts, Floats, LoadRun, section_count
from inferometer.load.plan import Arrivals, Closed, Open
from inferometer.load.workers import Recorded
from inferometer.records.records import Records
from inferometer.stats.overload import BusyTime, busy_time
from inferometer.stats.slo import began_ns, durations_ns
from inferometer.stats.streams import gap_counts, gaps_ns

RECENT = 0.25  # largest share of a run to leave out because its requests may still be in flight
QUICK = 0.1  # quantile of a quick request
EVEN = 0.05  # standard deviation relative to the mean of durations that are all alike
MEMORY = 2.0  # answer times after which answers no longer share a step of the server


@frozen
class _Piece:
    """Ended requests: when they were due or sent, whether they failed, and each figure (-1 if it has none).

    Gaps are kept in request order if the SLO limits them.
    """

    began_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    failed: NDArray[np.bool_]
    figures: dict[str, NDArray[np.int64]]
    gaps_ns: NDArray[np.int64]
    gap_counts: NDArray[np.int64]  # per request


@dataclass(slots=True)
class LevelSections:
    """The sections of one level while it is measured."""

    promise: Slo
    load: float
    plan: Open | Closed
    recorded: Recorded
    settle_ns: int = 0  # time left out at the start, while the queue of the previous load drains
    _pieces: list[_Piece] = field(default_factory=list)

    def run(self, until_ns: int) -> LoadRun:
        """Return the evidence available at this time."""
        begun = self._take(until_ns)
        begun_ns = self._begun_ns()
        cut_ns = until_ns - min(self._horizon_ns(), round(RECENT * max(0, until_ns - begun_ns)))
        whole = _joined(self._pieces, begun_ns, cut_ns)
        started = whole if begun is None else _joined([*self._pieces, begun], begun_ns, cut_ns)
        late = sum(int((piece.end_ns > cut_ns).sum()) for piece in self._pieces)
        total = len(whole.began_ns)
        if isinstance(self.plan, Open):
            arrivals, schedule_ns = Arrivals(self.plan), self.recorded.begun_ns
            total = -arrivals.by(begun_ns - schedule_ns) + arrivals.by(cut_ns - schedule_ns)
        edges = np.linspace(begun_ns, max(cut_ns, begun_ns + 1), section_count(total) + 1)
        missing = self._missing(whole, edges, late)
        waited_ns = until_ns - (edges[:-1] + edges[1:]) / 2
        if isinstance(self.plan, Closed):
            waited_ns[-1] = until_ns - cut_ns  # sent at some time before the cut, so at least this long
        rows, good, took = [], *_figure(whole, "latency")
        for term in self.promise.terms:
            if term.figure == "ttft":
                good, took = _figure(started, "ttft")  # where a queue shows first
                unstarted = self._missing(started, edges, late + len(started.began_ns) - len(whole.began_ns))
                is_shown = begun is not None and until_ns - cut_ns >= term.limit
                rows.append(self._counts(term, started, edges, unstarted * is_shown, waited_ns))
            else:
                is_shown = term.figure not in STREAMED
                rows.append(self._counts(term, whole, edges, missing * is_shown, waited_ns))
        if begun is not None:
            missing = self._missing(started, edges, late + len(started.began_ns) - len(whole.began_ns))
        count = _histogram(good, edges) + missing
        means = (_histogram(good, edges, took) + missing * waited_ns)[count > 0] / count[count > 0]
        # For requests in flight only a lower bound is known: longer than any section before.
        longest = np.maximum.accumulate(means) + np.arange(len(means))
        means = np.where(missing[count > 0] > 0, longest, means)
        length_s = (cut_ns - begun_ns) / NS_PER_S
        is_open = isinstance(self.plan, Open)
        busy = self._maybe_busy_time() if is_open else None
        return LoadRun(
            *(self.load, length_s, tuple(rows), means, _dispersion(means, took), is_open),
            busy_ends=0 if busy is None else int(busy.counts.sum()),
            busy_s=0.0 if busy is None else float(busy.took_us.sum()) * NS_PER_US / NS_PER_S,
        )

    def _maybe_busy_time(self) -> BusyTime | None:
        """Return the ends while requests waited, since the start of the level."""
        if not self._pieces or any(piece.failed.any() for piece in self._pieces):
            return None
        ended = np.concatenate([piece.end_ns for piece in self._pieces])
        began = np.concatenate([piece.began_ns for piece in self._pieces])
        return busy_time(ended // NS_PER_US, (ended - began) // NS_PER_US, self.load)

    def _begun_ns(self) -> int:
        """Return when the sections begin; in a closed loop, all users start at once unless there is a ramp."""
        begun_ns = self.recorded.begun_ns
        if isinstance(self.plan, Open) or not self._pieces:
            return begun_ns + self.settle_ns
        if self.recorded.ramp_ns or self.plan.concurrency == 1:
            return begun_ns + self.recorded.ramp_ns
        ends = np.concatenate([piece.end_ns for piece in self._pieces])
        first = self.plan.concurrency - 1
        return max(begun_ns, int(np.partition(ends, first)[first])) if first < len(ends) else begun_ns

    def _horizon_ns(self) -> int:
        """Return how long it takes until every request is known to be within or beyond the limits."""
        figures = ("latency", "ttft")
        return max((round(term.limit) for term in self.promise.terms if term.figure in figures), default=0)

    def _missing(self, whole: _Piece, edges: Floats, late: int) -> Floats:
        """Return how many requests of each section are not among these; `late` are known to have been in flight at
        the cut."""
        if isinstance(self.plan, Closed):
            found = np.zeros(len(edges) - 1)
            found[-1] = max(
                0, self.plan.concurrency - late
            )  # every request in flight was sent before the cut
            return found
        arrivals, schedule_ns = Arrivals(self.plan), self.recorded.begun_ns
        due = np.diff([float(arrivals.by(int(edge) - schedule_ns)) for edge in edges])
        return np.maximum(due - _histogram(whole.began_ns, edges), 0.0)

    def _counts(self, term: Term, whole: _Piece, edges: Floats, missing: Floats, waited_ns: Floats) -> Counts:
        if term.name == "errors":
            failed = _histogram(whole.began_ns[whole.failed], edges)
            return Counts(_histogram(whole.began_ns, edges), failed, np.zeros_like(failed))
        began, values = _figure(whole, term.figure)
        late = missing
        if term.figure == "latency":
            # Without any answers, requests that have waited for less than the limit are undecided.
            missing = missing * ((waited_ns >= term.limit) | bool(len(values)))
            late = missing * _late_share(values, term.limit, waited_ns)
        requests, total = _histogram(began, edges), _histogram(began, edges, values)
        beyond = _histogram(began[values >= term.limit], edges)
        quick = np.quantile(values, QUICK) if len(values) else 0.0
        bars = [quick + part * max(0.0, term.limit - quick) for part in PARTS]
        partly = tuple(_histogram(began[values >= bar], edges) + missing for bar in bars)
        return Counts(
            requests + missing,
            beyond + late,
            total + missing * waited_ns,
            partly,
            are_requests=term.figure != "gap",
            deviation_ns=float(values.std()) if len(values) and not missing.any() else math.inf,
            blocks=_blocks(whole, term, edges) if term.figure == "tpot" else (),
        )

    def _take(self, until_ns: int) -> _Piece | None:
        """Take the requests that have ended; return the streams in flight with a first token, None if not known."""
        names = {term.figure for term in self.promise.terms if term.name != "errors"} | {"latency"}
        is_open = isinstance(self.plan, Open)
        is_streamed = "ttft" in names
        collected = self.recorded.collect(until_ns, with_running=is_streamed)
        parts, self.recorded.parts = self.recorded.parts, []
        self._pieces += [_piece(part, names, is_open=is_open) for part in parts if len(part)]
        running = collected.running
        if running is None or (
            collected.outstanding and not len(running)
        ):  # a load whose streams are not tracked
            return None
        return _piece(running.where(running.stamps > 0), names, is_open=is_open)


def _piece(records: Records, names: set[str], *, is_open: bool) -> _Piece:
    records = records.where(records.status != status.WITHDRAWN)  # neither within nor beyond a limit
    figures = {name: durations_ns(records, name, is_open=is_open) for name in names - {"gap"}}
    has_gaps = "gap" in names
    return _Piece(
        began_ns(records, is_open=is_open),
        records.end_ns,
        records.status != status.OK,
        figures,
        gaps_ns(records) if has_gaps else records.end_ns[:0],
        gap_counts(records) if has_gaps else np.zeros_like(records.end_ns),
    )


def _joined(pieces: Sequence[_Piece], begun_ns: int, cut_ns: int) -> _Piece:
    """Return the requests that began between the two times."""
    if not pieces:
        nothing = np.empty(0, dtype=np.int64)
        return _Piece(nothing, nothing, np.empty(0, dtype=np.bool_), {}, nothing, nothing)
    began = np.concatenate([piece.began_ns for piece in pieces])
    chosen = (began >= begun_ns) & (began <= cut_ns)
    gap_counts = np.concatenate([piece.gap_counts for piece in pieces])
    return _Piece(
        began[chosen],
        np.concatenate([piece.end_ns for piece in pieces])[chosen],
        np.concatenate([piece.failed for piece in pieces])[chosen],
        {
            name: np.concatenate([piece.figures[name] for piece in pieces])[chosen]
            for name in pieces[0].figures
        },
        np.concatenate([piece.gaps_ns for piece in pieces])[np.repeat(chosen, gap_counts)],
        gap_counts[chosen],
    )


def _figure(whole: _Piece, name: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return start time and figure of each successful request that has it; for gaps, one row per gap."""
    if name == "gap":
        chosen = np.repeat(~whole.failed, whole.gap_counts)
        return np.repeat(whole.began_ns, whole.gap_counts)[chosen], whole.gaps_ns[chosen]
    values = whole.figures.get(name)
    if values is None:
        return whole.began_ns[:0], whole.began_ns[:0]
    chosen = ~whole.failed & (values >= 0)
    return whole.began_ns[chosen], values[chosen]


def _blocks(whole: _Piece, term: Term, edges: Floats) -> tuple[Floats, ...]:
    """Return the times per token relative to the limit, by blocks of time that last `MEMORY` answers each."""
    began, values = _figure(whole, term.figure)
    if not len(values):
        return ()
    answer_ns = float(np.median(_figure(whole, "latency")[1]))
    count = max(1, int((edges[-1] - edges[0]) / (MEMORY * answer_ns)))
    places = ((began - edges[0]) * count / (edges[-1] - edges[0])).astype(np.int64).clip(0, count - 1)
    blocks = (values[places == place] / term.limit for place in range(count))
    return tuple(block for block in blocks if len(block))


def _late_share(took: NDArray[np.int64], limit: float, waited_ns: Floats) -> Floats:
    """Return the share of requests beyond the limit among those that outlasted each wait; 1 if none did."""
    ordered = np.sort(took)
    longer = len(ordered) - np.searchsorted(ordered, waited_ns)
    beyond = len(ordered) - np.searchsorted(ordered, np.maximum(waited_ns, limit))
    found: Floats = np.where(longer > 0, beyond / np.maximum(longer, 1), 1.0)
    return found


def _dispersion(means: Floats, took: NDArray[np.int64]) -> float:
    """Return the variance of section means relative to that of independent requests."""
    if len(means) < 2 or len(took) < 2:
        return 1.0
    if not took.var():
        return 0.0
    # Variation of a few percent is no queue.
    variance = max(took.var(), (EVEN * took.mean()) ** 2)
    return max(1.0, float(means.var(ddof=1) * len(took) / len(means) / variance))


def _histogram(times: NDArray[np.int64], edges: Floats, weights: NDArray[np.int64] | None = None) -> Floats:
    found: Floats = np.histogram(times, edges, weights=weights)[0].astype(np.float64)
    return found
