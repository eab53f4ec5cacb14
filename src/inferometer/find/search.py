"""Estimate the limit and choose the next load: pure functions of the runs so far.

The next load is the median of the posterior of the limit, alternating slightly above and below it: most requests are
measured where they decide, and the two sides show how steep the curve is. As long as no load has missed the SLO (or
none has met it), loads are doubled (or halved), unless the load that saturates the server is known.
"""

import math
from collections.abc import Sequence

from inferometer.base.frozen import frozen
from inferometer.base.slo import Slo, Term
from inferometer.base.units import NS_PER_S
from inferometer.find.fit import MISFIT, Capacity, Observed, Posterior, fit, lowest
from inferometer.find.keeping import RISE, Judge, LoadRun, beyond_terms, is_far_within, is_growing
from inferometer.find.pace import Paced, pace_limit
from inferometer.stats.result import JudgedLoad

TAIL = 0.025  # probability on either side of the interval
OVER = 1.1  # largest ratio of the estimate to the low end
LOWEST = 1024  # largest reduction of the first load
DITHER = 0.8  # difference in the logarithm of the share on either side of the limit,
MOST_DITHER = 0.1  # up to this difference in the logarithm of the load
WIDE = 2.0  # high / low up to which both sides are measured alternately
LOW_EVERY = 3  # while the interval is wider than that, one in this many loads is chosen to raise its low end,
LOW_SHARE = 0.7  # at least this share of the most likely limit
VAGUE = 0.1  # uncertainty of the capacity from which a load that meets the SLO is raised by as much
STEP_DOWN = 0.75  # smallest step below the lowest load, so that one bad run does not lead far down
DOUBTFUL = 5.0  # misfit from which proven loads narrow the interval of the fit
NEAR = 0.02  # relative distance at which loads that meet and miss the SLO are close enough,
PROVEN_FIRST = (
    0.25  # and at which both are first proven, since a narrow bracket without proof is worth nothing
)
QUEUED = ("latency", "ttft")  # figures that grow with the queue
ROUNDING = 0.005  # widens each end of the interval, in addition to queue growth too slow to show in a run


@frozen
class Bracket:
    """The known ends of an interval of loads."""

    low: float = 0.0
    high: float = math.inf

    def is_near(self, precision: float, *, is_whole: bool) -> bool:
        """Return whether the ends are close enough to each other."""
        return self.low > 0 and (
            self.high / self.low <= 1 + precision or (is_whole and self.high - self.low <= 1)
        )


@frozen
class Knowledge:
    """The joint evidence of all runs about the limit."""

    slo: Slo
    runs: tuple[LoadRun, ...]
    posterior: Posterior | None  # None before the first run
    missed: tuple[tuple[str, ...], ...]  # for each run, the terms beyond their limit as measured
    is_whole: bool = False  # loads are whole numbers
    is_misfit: bool = False  # the curve does not fit this server
    capacity: Capacity | None = None

    @property
    def highest_met(self) -> float:
        """The highest load within the limits, below all that are not; 0 if there is none."""
        beyond = self.lowest_missed
        return max((run.load for run in self.runs if run.load < beyond), default=0.0)

    @property
    def lowest_missed(self) -> float:
        return min(
            (run.load for run, terms in zip(self.runs, self.missed, strict=True) if terms), default=math.inf
        )

    @property
    def is_met(self) -> bool:
        """Whether any load was within the limits."""
        return any(not terms for terms in self.missed)

    @property
    def is_missed(self) -> bool:
        return any(self.missed)

    @property
    def far_within(self) -> float:
        """The highest load that is so far below every limit that few requests prove it; 0 if there is none."""
        beyond = self.lowest_missed
        loads = [run.load for run in self.runs if run.load < beyond and is_far_within(self.slo, run)]
        return max(loads, default=0.0)

    @property
    def has_enough(self) -> bool:
        """Whether there are enough requests to expect at least one beyond its limit when the SLO is just met."""
        shares = [term.share for term in self.slo.terms if term.share and term.name != "errors"]
        return sum(run.requests for run in self.runs) >= max((1 / share for share in shares), default=1.0)

    def bracket(self, least_s: float = 0.0) -> Bracket:
        """Return the 95 % interval of the limit, open below if no load was within the limits, and open above if none
        was beyond and saturation was not observed.

        If the curve fits badly, loads measured for `least_s` in total are proven without it.
        """
        if self.posterior is None or not self.has_enough:
            return Bracket()
        low, high = self.posterior.quantile(TAIL), self.posterior.quantile(1 - TAIL)
        if self.is_misfit:
            low, high = self._proven(low, high, least_s)
        elif least_s and (self.posterior.misfit > DOUBTFUL or self.is_whole or not self.is_missed):
            # The curve describes an open-loop queue, which cannot grow in a closed loop.
            proven = self._proven(0.0, math.inf, least_s)
            low, high = max(low, proven[0]), min(high, proven[1])
        low = max(low, min(self.far_within, high))
        if self.is_whole:
            low, high = float(math.floor(low)), float(math.floor(high) + 1)
        else:
            reach = ROUNDING + self._unseen_drift
            low, high = tidy(low * (1 - reach)), tidy(high * (1 + reach))
        tried = max(run.load for run in self.runs)
        is_closed = self.is_missed or self._is_bounded
        return Bracket(min(low, tried) if self.is_met else 0.0, high if is_closed else math.inf)

    @property
    def _unseen_drift(self) -> float:
        """The largest overload, relative to the capacity, whose queue may go unnoticed at the highest load that met
        the SLO."""
        highest = self.highest_met
        runs = [run for run in self.runs if run.load == highest and run.is_open and len(run.latency_ns)]
        return min((RISE * run.latency_ns.min() / NS_PER_S / run.length_s for run in runs), default=0.0)

    @property
    def _is_bounded(self) -> bool:
        """Whether saturation was observed, above which a queue grows beyond any limit."""
        return (
            self.capacity is not None
            and self.capacity.is_seen
            and any(term.figure in QUEUED for term in self.slo.terms)
        )

    def _proven(self, low: float, high: float, least_s: float) -> tuple[float, float]:
        """Return loads proven to meet and to miss the SLO; without proof, the wider of the fit and the measured
        figures."""
        rows = Judge(self.slo, self.runs, least_s).judgements()
        beyond = min((row.load for row in rows if row.is_beyond), default=math.inf)
        kept = [row.load for row in rows if row.verdict == "kept"]
        below = [load for load in kept if load < beyond]
        broken = [row.load for row in rows if row.verdict == "broken" and row.load > max(kept, default=0.0)]
        return (
            max(below) if below else min(low, self.highest_met or low),
            broken[0]
            if broken
            else max(high, *[run.load for run in self.runs if run.load == beyond] or [high]),
        )

    def is_proven(self, load: float, least_s: float) -> bool:
        """Whether the runs at this load and beyond prove that it meets or misses the SLO."""
        rows = Judge(self.slo, self.runs, least_s).judgements()
        return any(row.load == load and row.verdict != "undecided" for row in rows)

    def estimate(self, found: Bracket) -> float:
        """Return the headline figure: the most likely limit, but at most `OVER` times the low end."""
        if self.posterior is None or not self.is_met:
            return 0.0
        if not found.low:
            return 0.0
        if not self.is_missed and math.isinf(found.high):
            return max(run.load for run in self.runs)
        middle = self.highest_met if self.is_misfit else self.posterior.quantile(0.5)
        middle = min(middle, OVER * found.low, found.high)
        return max(found.low, float(math.floor(middle))) if self.is_whole else tidy(max(found.low, middle))

    def judged(self, found: Bracket) -> tuple[JudgedLoad, ...]:
        """Classify each load as below the interval, above it, or undecided."""
        rows = []
        for load in sorted({run.load for run in self.runs}):
            terms = dict.fromkeys(
                term
                for run, missed in zip(self.runs, self.missed, strict=True)
                if run.load == load
                for term in missed
            )
            verdict = "undecided"
            if load <= found.low:
                verdict = "kept"
            elif load >= found.high:
                verdict = "broken"
            rows.append(JudgedLoad(load, verdict, () if verdict == "kept" else tuple(terms)))
        return tuple(rows)


def known(
    slo: Slo,
    runs: Sequence[LoadRun],
    capacity: Capacity | None,
    *,
    is_whole: bool = False,
    is_misfit: bool = False,
) -> Knowledge:
    """Fit every term, and take the lowest of their limits."""
    missed = tuple(beyond_terms(slo, run) or (("overload",) if is_growing(run, slo) else ()) for run in runs)
    if not runs:
        return Knowledge(slo, (), None, (), is_whole)
    rows = [_observed(slo, runs, number) for number in range(len(slo.terms))]
    # A term that was never beyond its limit, at loads where another one was, does not limit the load.
    seen = [number for number, row in enumerate(rows) if any(run.total and not run.is_overrun for run in row)]
    fits = [
        _paced(slo.terms[number], runs, number) or fit(slo.terms[number].share, rows[number], capacity)
        for number in seen or [0]
    ]
    is_misfit = is_misfit or max(row.misfit for row in fits) > MISFIT
    return Knowledge(slo, tuple(runs), lowest(fits), missed, is_whole, is_misfit, capacity)


def _paced(term: Term, runs: Sequence[LoadRun], number: int) -> Posterior | None:
    """Return the limit of a time per token from the times themselves, if they suffice."""
    if term.figure != "tpot" or term.share is None:
        return None
    rows = [Paced(run.load, run.terms[number].blocks, run.is_open) for run in runs]
    return pace_limit(term.share, rows)


def _observed(slo: Slo, runs: Sequence[LoadRun], number: int) -> list[Observed]:
    term = slo.terms[number]
    return [
        Observed(
            run.load,
            run.terms[number].requests,
            run.terms[number].total_ns / term.limit if term.share is None else run.terms[number].beyond,
            run.dispersion,
            term.name != "errors" and is_growing(run, slo),
            run.terms[number].half if term.share is not None else None,
        )
        for run in runs
    ]


def next_load(
    known: Knowledge, start: float, capacity: Capacity | None, least_s: float = 0.0
) -> float | None:
    """Return the load to measure next; None if no lower load is worth trying. A load is proven after `least_s`."""
    if known.posterior is None:
        return start
    loads = [run.load for run in known.runs]
    is_whole = known.is_whole
    if not known.is_missed and (capacity is None or not capacity.is_seen):
        return max(loads) * 2 if is_whole else tidy(max(loads) * 2)
    if not known.is_met:
        lower = min(loads) // 2 if is_whole else tidy(min(loads) / 2)
        return lower if lower >= (1 if is_whole else start / LOWEST) else None
    if known.is_misfit:
        return _between(known, least_s)
    if not known.is_missed and capacity is not None and capacity.margin > VAGUE:
        higher = (1 + min(capacity.margin, 1.0)) * max(loads)
        return float(math.ceil(higher)) if is_whole else tidy(higher)
    found = known.posterior
    middle = found.quantile(0.5)
    low, high = found.quantile(TAIL), found.quantile(1 - TAIL)
    if high >= WIDE * low and len(loads) % LOW_EVERY == 0:
        # Pauses would violate the SLO far below the limit of a queue: only a low load can rule them out.
        middle = max(math.sqrt(low * middle), LOW_SHARE * middle)
    elif high < WIDE * low:
        middle *= math.exp((1 if len(loads) % 2 else -1) * min(DITHER / found.slope, MOST_DITHER))
    middle = max(middle, STEP_DOWN * min(loads))
    if capacity is not None and max(loads) < (1 - capacity.margin) * capacity.value:
        # A load above the capacity only fills the queue: approach it from below.
        middle = min(middle, (max(loads) + capacity.value) / 2)
    return max(1.0, float(round(middle))) if is_whole else tidy(middle)


def _between(known: Knowledge, least_s: float) -> float:
    """Bisect between loads that met and missed the SLO, first until they are close, and once both are proven, until
    they are near; then measure both alternately."""
    low, high = known.highest_met, known.lowest_missed
    if not low:
        return max(1.0, high // 2) if known.is_whole else tidy(high / 2)
    middle = float(round((low + high) / 2)) if known.is_whole else tidy(math.sqrt(low * high))
    if high > (1 + PROVEN_FIRST) * low and low < middle < high:
        return middle
    unproven = [load for load in (low, high) if not known.is_proven(load, least_s)]
    if not unproven and high > (1 + NEAR) * low and low < middle < high:
        return middle
    ends = unproven or [low, high]
    return ends[len(known.runs) % len(ends)]


def tidy(value: float) -> float:
    """Round to four significant digits."""
    return float(f"{value:.4g}")
