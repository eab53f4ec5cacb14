"""Figures of a level during the measurement: the most recent requests, and their history.

Generated answers that end together would produce a curve of bursts, although their tokens arrived evenly. So tokens
per second are computed from the most recent answers: tokens over duration, times the requests in flight (Little's law).

Adding results costs almost nothing; percentiles are computed at each redraw.
"""

from collections import deque

import numpy as np

from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_S
from inferometer.records.records import Column
from inferometer.stats.level_progress import LevelProgress
from inferometer.stats.series import percentile

NOW_NS = NS_PER_S  # figures cover the most recent time of at least this length,
ENOUGH = 30  # with at least this many successful requests, if there are as many
STEP_NS = NS_PER_S // 2  # shortest step of the curves,
PER_STEP = 8  # extended until it has this many requests,
LONGEST_STEP_NS = 10 * NS_PER_S  # but not beyond this
STEPS = 60  # steps that are kept


@frozen
class _Stretch:
    """Successful requests in a stretch of time."""

    start_ns: int
    end_ns: int
    parts: tuple[Column, ...]
    tokens: int = 0
    in_flight_ns: float = 0.0  # requests in flight multiplied by time

    @property
    def latency_ns(self) -> Column:
        return np.concatenate(self.parts)

    @property
    def count(self) -> int:
        return sum(map(len, self.parts))

    @property
    def per_s(self) -> float:
        return self.count * NS_PER_S / max(1, self.end_ns - self.start_ns)

    @property
    def tokens_per_s(self) -> float:
        took_ns = sum(int(part.sum()) for part in self.parts)
        in_flight = self.in_flight_ns / max(1, self.end_ns - self.start_ns)
        return in_flight * self.tokens * NS_PER_S / took_ns if took_ns else 0.0

    def and_later(self, other: "_Stretch") -> "_Stretch":
        return _Stretch(
            self.start_ns,
            other.end_ns,
            (*self.parts, *other.parts),
            self.tokens + other.tokens,
            self.in_flight_ns + other.in_flight_ns,
        )


class LiveFigures:
    """Figures of one level."""

    def __init__(self) -> None:
        self._recent = deque[_Stretch]()
        self._step: _Stretch | None = None  # the step of the curves that is being filled
        self.failed = self.ended = 0  # since the level began
        self.outstanding = 0
        self.has_tokens = False
        self.rates = deque[float](maxlen=STEPS)
        self.percentiles = {p: deque[int | None](maxlen=STEPS) for p in (50, 99)}

    def add(self, progress: LevelProgress) -> None:
        """Add the results since the last call."""
        self.outstanding = progress.outstanding
        self.failed += progress.failed
        self.ended += progress.failed + len(progress.latency_ns)
        begun_ns = progress.seen_ns - round(progress.elapsed_s * NS_PER_S)
        start_ns = self._recent[-1].end_ns if self._recent else begun_ns
        if progress.seen_ns <= start_ns and not len(progress.latency_ns):
            return
        end_ns = max(start_ns, progress.seen_ns)
        in_flight_ns = float(progress.outstanding * (end_ns - start_ns))
        fresh = _Stretch(start_ns, end_ns, (progress.latency_ns,), progress.tokens or 0, in_flight_ns)
        self.has_tokens = self.has_tokens or bool(progress.tokens)
        self._recent.append(fresh)
        while len(self._recent) > 1 and self._is_enough_without_the_first():
            self._recent.popleft()
        self._step = fresh if self._step is None else self._step.and_later(fresh)
        if self._step.end_ns - self._step.start_ns >= self._step_ns():
            self._close_step(self._step)

    def _is_enough_without_the_first(self) -> bool:
        is_long = self._recent[-1].end_ns - self._recent[1].start_ns >= NOW_NS
        return is_long and sum(part.count for part in list(self._recent)[1:]) >= ENOUGH

    def _step_ns(self) -> float:
        """Length of a step: with few requests in each, the curve would only show their number."""
        return min(max(STEP_NS, PER_STEP * NS_PER_S / max(self.per_s, 1e-9)), LONGEST_STEP_NS)

    def _close_step(self, step: _Stretch) -> None:
        self.rates.append(step.tokens_per_s if self.has_tokens else step.per_s)
        for p, curve in self.percentiles.items():
            curve.append(percentile(step.latency_ns, p) if step.count else None)
        self._step = None

    @property
    def _now(self) -> _Stretch | None:
        if not self._recent:
            return None
        rows = self._recent
        return _Stretch(
            rows[0].start_ns,
            rows[-1].end_ns,
            tuple(column for row in rows for column in row.parts),
            sum(row.tokens for row in rows),
            sum(row.in_flight_ns for row in rows),
        )

    @property
    def per_s(self) -> float:
        """Successful requests per second."""
        return 0.0 if self._now is None else self._now.per_s

    @property
    def tokens_per_s(self) -> float:
        return 0.0 if self._now is None else self._now.tokens_per_s

    def latency_ns(self, p: int) -> int | None:
        """A latency percentile; None if no request has succeeded."""
        return percentile(self._now.latency_ns, p) if self._now is not None and self._now.count else None
