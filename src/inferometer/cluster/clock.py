"""Synchronization of a client's clock with ours.

We ask a client for its time. It reads its clock between our request and its answer, so the difference of the two clocks
lies between (client time - answered) and (client time - asked). A clock may have an offset and run faster or slower,
but steadily: its difference from ours is a line over time. Every line that passes between the bounds of all exchanges
is possible. The middle one is used as the clock, and half their distance is the uncertainty: a strict bound, as long
as the clock runs steadily. The fastest exchanges narrow it; the further apart they are, the better the drift is known.

A client's times are converted to ours by a piecewise linear function, which is only ever extended at its end: past
conversions do not change, so that a client's moment always maps to the same moment of ours, in records and exported
requests alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.load.resumed import Timing
from inferometer.records.records import NO_TIMES, Column, Records

KEPT = 64  # exchanges in memory, of which
RECENT = 8  # the latest are all kept; of the older ones, every other is dropped when there are too many
MOST_DRIFT = 200e-6  # maximum of a working machine's clock
SLEW_NS = 2 * NS_PER_S  # to reach a better line without a jump
MOST_SLEW = 700e-6  # including drift
PIECES = 1024  # in memory: half an hour
JUMP_NS = NS_PER_MS  # distance from all lines that counts as a jump
TIMES = ("due_ns", "sent_ns", "wrote_ns", "first_ns", "end_ns", "sequence_started_ns", "times")
DRIFTS = 65  # slopes tried between the steepest and the flattest


@frozen
class Exchange:
    """An exchange of times: when our request was sent and answered by our clock, and the client's time in the
    answer."""

    asked_ns: int
    client_ns: int
    answered_ns: int

    @property
    def middle_ns(self) -> int:
        return (self.asked_ns + self.answered_ns) // 2

    @property
    def round_trip_ns(self) -> int:
        return self.answered_ns - self.asked_ns


@frozen
class ClockFit:
    """A client's clock at `at_ns` of ours: its offset, drift and uncertainty."""

    at_ns: int = 0
    offset_ns: int = 0
    drift: float = 0.0
    uncertainty_ns: int = 0
    drift_uncertainty: float = 0.0

    def offset_at(self, our_ns: int) -> int:
        return self.offset_ns + round((our_ns - self.at_ns) * self.drift)

    def to_client(self, our_ns: int) -> int:
        return our_ns + self.offset_at(our_ns)

    def to_ours(self, client_ns: int) -> int:
        rough = client_ns - self.offset_at(client_ns - self.offset_ns)
        return client_ns - self.offset_at(rough)

    def uncertainty_at(self, our_ns: int) -> int:
        return self.uncertainty_ns + round(abs(our_ns - self.at_ns) * self.drift_uncertainty)

    def timing(self, start_ns: int) -> Timing:
        """Return the timing, by the client's clock, of a schedule that starts at `start_ns` of ours."""
        return Timing(self.to_client(start_ns), self.drift)


def fit(exchanges: Sequence[Exchange]) -> ClockFit | None:
    """Fit a line through all exchanges, evaluated at the last; None if there is no such line."""
    at_ns = exchanges[-1].middle_ns
    times = np.array([each.middle_ns - at_ns for each in exchanges], dtype=np.float64)
    base = exchanges[-1].client_ns - exchanges[-1].middle_ns
    low = np.array([each.client_ns - each.answered_ns - base for each in exchanges], dtype=np.float64)
    high = np.array([each.client_ns - each.asked_ns - base for each in exchanges], dtype=np.float64)
    slowest, quickest = _drifts(times, low, high)
    if slowest > quickest:
        return None
    drifts = np.linspace(slowest, quickest, DRIFTS)
    lows = (low[:, None] - times[:, None] * drifts).max(axis=0)
    highs = (high[:, None] - times[:, None] * drifts).min(axis=0)
    possible = lows <= highs
    if not possible.any():
        return None
    least, most = float(lows[possible].min()), float(highs[possible].max())
    known = drifts[possible]
    return ClockFit(
        at_ns=at_ns,
        offset_ns=base + round((least + most) / 2),
        drift=float(known[0] + known[-1]) / 2,
        uncertainty_ns=round((most - least) / 2),
        drift_uncertainty=float(known[-1] - known[0]) / 2,
    )


def _drifts(
    times: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]
) -> tuple[float, float]:
    """Return the lowest and highest drift that all pairs of exchanges allow."""
    earlier, later = np.triu_indices(len(times), 1)
    gaps = times[later] - times[earlier]
    apart = gaps > 0
    earlier, later, gaps = earlier[apart], later[apart], gaps[apart]
    if not len(gaps):
        return -MOST_DRIFT, MOST_DRIFT
    slowest = float(((low[later] - high[earlier]) / gaps).max())
    quickest = float(((high[later] - low[earlier]) / gaps).min())
    return max(slowest, -MOST_DRIFT), min(quickest, MOST_DRIFT)


@dataclass(slots=True)
class ClientClock:
    """The model of one client's clock."""

    fit: ClockFit = field(default_factory=ClockFit)
    jumps: int = 0  # number of detected jumps
    _exchanges: list[Exchange] = field(default_factory=list)
    _ends_ns: Column = field(default_factory=NO_TIMES.copy)  # start of each piece, by the client's clock
    _ours_ns: Column = field(default_factory=NO_TIMES.copy)
    _slower: NDArray[np.float64] = field(
        default_factory=lambda: np.empty(0)
    )  # how much slower ours runs in each
    _used_ns: int = 0  # the client's latest converted time

    @property
    def round_trip_ns(self) -> int:
        """The round-trip time of the fastest exchange."""
        return min((each.round_trip_ns for each in self._exchanges), default=0)

    def add(self, exchange: Exchange) -> None:
        """Add an exchange that is later than all others."""
        known = [*self._exchanges, exchange]
        found = fit(known)
        if found is None:
            if abs(exchange.client_ns - self.fit.to_client(exchange.middle_ns)) > JUMP_NS:
                self.jumps += 1
            while found is None:  # earlier exchanges are no longer valid
                known = known[len(known) // 2 :]
                found = fit(known)
        self._exchanges = _thinned(known)
        self.fit = found
        self._bend()

    def _bend(self) -> None:
        """Slew to the new line, starting from the latest converted time."""
        while len(self._ends_ns) > 1 and self._ends_ns[-1] > self._used_ns:
            self._ends_ns, self._ours_ns, self._slower = (
                self._ends_ns[:-1],
                self._ours_ns[:-1],
                self._slower[:-1],
            )
        if not self._used_ns:
            self._ends_ns, self._ours_ns, self._slower = NO_TIMES, NO_TIMES, np.empty(0)
            self._append(self.fit.to_client(self.fit.at_ns), self.fit.at_ns, self.fit.drift)
            return
        start_ns = max(self._used_ns, int(self._ends_ns[-1]) + 1)
        here_ns = self._our(start_ns)
        quicker = SLEW_NS / (self.fit.to_ours(start_ns + SLEW_NS) - here_ns) - 1
        limited = max(-MOST_SLEW, min(MOST_SLEW, quicker))
        self._append(start_ns, here_ns, limited)
        if limited == quicker:
            self._append(start_ns + SLEW_NS, self._our(start_ns + SLEW_NS), self.fit.drift)

    def _append(self, client_ns: int, our_ns: int, quicker: float) -> None:
        """Append a piece in which the client's clock runs faster by `quicker`."""
        slower = 1 - 1 / (1 + quicker)
        self._ends_ns = np.append(self._ends_ns, client_ns)[-PIECES:]
        self._ours_ns = np.append(self._ours_ns, our_ns)[-PIECES:]
        self._slower = np.append(self._slower, slower)[-PIECES:]

    def _our(self, client_ns: int) -> int:
        return int(self._changed(np.array([client_ns]))[0])

    def to_our(self, client_ns: int) -> int:
        return int(self.to_ours(np.array([client_ns]))[0])

    def to_ours(self, client_ns: Column) -> Column:
        """Convert the client's times to our clock; 0 means never, and stays 0."""
        if not client_ns.any():
            return client_ns
        self._used_ns = max(self._used_ns, int(client_ns.max()))
        return self._changed(client_ns)

    def all_to_ours(self, columns: Mapping[str, Column]) -> dict[str, Column]:
        """Convert several columns; usually all their times are in one piece and none is missing."""
        used = {name: column for name, column in columns.items() if column.any()}
        if not used:
            return dict(columns)
        least = min(int(column.min()) for column in used.values())
        most = max(int(column.max()) for column in used.values())
        first, last = np.searchsorted(self._ends_ns, (least, most), side="right")
        if first != last or not first:
            return {name: self.to_ours(column) for name, column in columns.items()}
        self._used_ns = max(self._used_ns, most)
        return {**columns, **{name: self._in_pieces(column, first - 1) for name, column in used.items()}}

    def _changed(self, client_ns: Column) -> Column:
        first, last = np.searchsorted(self._ends_ns, (client_ns.min(), client_ns.max()), side="right")
        if first == last and first:  # all in one piece: no lookup needed
            return self._in_pieces(client_ns, first - 1)
        found = self._in_pieces(
            client_ns, np.maximum(np.searchsorted(self._ends_ns, client_ns, side="right") - 1, 0)
        )
        found[client_ns == 0] = 0
        return found

    def _in_pieces(self, client_ns: Column, piece: "Column | np.int64") -> Column:
        after = client_ns - self._ends_ns[piece]
        found: Column = self._ours_ns[piece] + after - np.rint(after * self._slower[piece]).astype(np.int64)
        return found


def records_by_our_clock(records: Records, clock: ClientClock) -> Records:
    """Convert the times of records to our clock; the client's order of ends is preserved."""
    columns = {name: getattr(records, name) for name in TIMES}
    return replace(records, **clock.all_to_ours(columns))


def _thinned(exchanges: list[Exchange]) -> list[Exchange]:
    if len(exchanges) <= KEPT:
        return exchanges
    old, recent = exchanges[:-RECENT], exchanges[-RECENT:]
    pairs = zip(old[::2], old[1::2], strict=False)
    kept = [min(pair, key=lambda each: each.round_trip_ns) for pair in pairs]
    return [*kept, *old[2 * len(kept) :], *recent]
