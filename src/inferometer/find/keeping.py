"""Decide whether a load meets an SLO: met, violated or undecided, given its requests.

The statistic. An SLO on a percentile limits a share: p99<40ms says that fewer than 1 % of the requests take 40 ms or
longer. The requests beyond the limit are counted, and the count is tested against that share (one-sided binomial
tests). A confidence interval of the percentile itself is useless with too few requests beyond the limit, and a search
has to decide at many loads from few requests. An error rate is a share too; a mean is tested with Student's t.

Requests are not independent: they share a queue and its stalls. A run is cut into sections of equal time, and the
number of requests is divided by the dispersion, the variance of the sections relative to that of independent requests.
Slow requests form groups of similar length at different loads: the length of these groups is taken from all loads that
do not violate the SLO, so that a run without stalls is not proof that there are none.

A queue takes time to grow: at a load just above the capacity the first requests are as fast as any. A run therefore
only proves that the SLO is met if its latency is steady: neighbouring sections must not be correlated (von Neumann's
ratio), unless latency varies so little that it stays far from the limit. A run whose queue keeps growing and ends
beyond the limit violates the SLO, and so does one with more requests beyond it than any steady queue explains.

More load never makes a server faster: observations at higher loads count as proof that a load meets the SLO, and
observations at lower loads as proof that it violates it.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from inferometer.base.frozen import frozen
from inferometer.base.slo import Slo, Term
from inferometer.stats.binomial import at_least, at_most
from inferometer.stats.intervals import allowed, correlation
from inferometer.stats.slo_outcome import Keeping

Floats = NDArray[np.float64]

# Significance level of each test. A search makes several tests near the limit, and each end of its interval has 2.5 %.
# A load is tested repeatedly while it is measured, and a clear violation is detected early.
KEPT_ALPHA = 0.015
BROKEN_ALPHA = 0.005
SECTIONS = 16
FEWEST_SECTIONS = 12
LEAST_COUNT = 2  # requests per section
STEADY = 1.0  # von Neumann's ratio is 2 for independent sections and falls to 0 for a queue that only grows
FAR = 10.0  # multiple of the variation of latency that must fit between latency and the limit
GROWING = 0.8  # Kendall's rank correlation of latency with time
MARKOV = 0.0125  # a times the share has a probability of at most 1 / a, however requests depend on each other
TREND = 0.5
RARELY = 0.005
QUEUED = 1.5  # dispersion of latency from which requests count as queueing
NEAR = 1.3  # ratio of loads up to which runs show how long requests are slow together
MEMORY = 20.0  # how many memory times of a queue at the limit must be measured
PARTS = (0.25, 0.5)
PART_ALPHA = 0.05
MEAN_SPREADS = 2.0
MEAN_SHARE = 1 / math.e  # of an exponential distribution, beyond its mean
FAR_MEAN = 3.2  # standard errors: 0.3 % of Student's t with 13 degrees of freedom, because of repeated tests
RISE = 0.5  # rise relative to the lowest latency that shows a growing queue,
STRAIGHT = 0.99  # and how linear it must be (correlation with time)
LEAST_RISE = 0.05  # a smaller rise than that also shows it,
STRAIGHTEST = 0.9995  # if it is as linear as only times without any randomness are
FEW = 4  # requests that suffice if all are far within a limit,
ENOUGH = 8  # and if their standard deviation shows it
RARE = 0.5  # share of requests beyond the limit above which their groups say nothing about stalls


@frozen
class Counts:
    """One figure by section of a run: the number of requests, how many are beyond its limit, and their total duration.

    `partly` has the number beyond each of `PARTS` of the way from a quick request to the limit.
    """

    requests: Floats
    beyond: Floats
    total_ns: Floats
    partly: tuple[Floats, ...] = ()
    are_requests: bool = True  # False for gaps between tokens, of which each request has many
    deviation_ns: float = math.inf  # standard deviation of durations, if known
    blocks: tuple[Floats, ...] = ()  # times per token relative to their limit, in independent blocks of time

    @property
    def half(self) -> Floats | None:
        """Requests beyond the midpoint to the limit; None for terms without a midpoint, such as errors."""
        return self.partly[PARTS.index(0.5)] if self.partly else None


@frozen
class LoadRun:
    """The evidence of one measurement at a load for each term of the SLO."""

    load: float
    length_s: float  # covered by the sections
    terms: tuple[Counts, ...]
    latency_ns: Floats  # mean of each section that has requests
    dispersion: float = 1.0  # variance of these relative to that of independent requests
    is_open: bool = True  # the queue can grow, unlike in a closed loop
    busy_ends: int = 0  # successful requests that ended while others waited,
    busy_s: float = 0.0  # and the time that took

    @property
    def is_empty(self) -> bool:
        """Whether the run has no evidence for any term: all its requests are still in flight."""
        return not any(counts.requests.any() for counts in self.terms)

    @property
    def requests(self) -> float:
        return max(
            (float(counts.requests.sum()) for counts in self.terms if counts.are_requests), default=0.0
        )


@frozen
class Judgement:
    """The verdict on one load from its own runs and those at other loads."""

    load: float
    verdict: Keeping
    is_within: bool  # the measured figures are within the limits
    broken: tuple[str, ...] = ()  # violated terms, proven or as measured
    runs: int = 1  # number of measurements

    @property
    def is_beyond(self) -> bool:
        """Whether a limit is exceeded, even if only by chance."""
        return not self.is_within or self.verdict == "broken"


@frozen
class Judge:
    """Judges loads; one that meets the SLO must have been measured for `least_s`, so that stalls had a chance to
    show."""

    promise: Slo
    runs: Sequence[LoadRun]
    least_s: float

    def judgements(self) -> tuple[Judgement, ...]:
        """Return the judgement of each load, in ascending order."""
        loads = sorted({run.load for run in self.runs})
        broken = {load: self.broken_terms(load) for load in loads}
        lowest = min((load for load in loads if broken[load]), default=math.inf)
        return tuple(self.judgement(load, broken[load], lowest) for load in loads)

    def judgement(self, load: float, broken: tuple[str, ...], lowest: float) -> Judgement:
        """Judge one load, given the terms it violates and the lowest load that violates any."""
        beyond = self._beyond(load)
        runs = sum(run.load == load for run in self.runs)
        if broken:
            return Judgement(load, "broken", not beyond, broken, runs)
        others = [run for run in self.runs if run.load < lowest or run.load <= load]
        is_kept = not beyond and all(
            self._is_kept(number, load, others) for number in range(len(self.promise.terms))
        )
        return Judgement(load, "kept" if is_kept else "undecided", not beyond, beyond, runs)

    def _beyond(self, load: float) -> tuple[str, ...]:
        """Return the terms whose measured figure is not within the limit."""
        at_load = [run for run in self.runs if run.load == load]
        return tuple(
            term.label
            for number, term in enumerate(self.promise.terms)
            if _is_beyond(term, [run.terms[number] for run in at_load])
        )

    # --- broken

    def broken_terms(self, load: float) -> tuple[str, ...]:
        at_load = [run for run in self.runs if run.load == load]
        lower = sorted({run.load for run in self.runs if run.load <= load}, reverse=True)
        found = []
        for number, term in enumerate(self.promise.terms):
            steady = [run for run in self.runs if run.load <= load and _is_steady([run], None)]
            pools = [[run.terms[number] for run in steady if run.load >= least] for least in lower]
            if any(_is_overrun(run, run.terms[number], term) for run in at_load) or any(
                _test(term, pool) > 0 for pool in pools if pool
            ):
                found.append(term.label)
        return tuple(found)

    # --- kept

    def _is_kept(self, number: int, load: float, others: Sequence[LoadRun]) -> bool:
        term = self.promise.terms[number]
        if term.name == "errors" and not any(run.terms[number].beyond.any() for run in others):
            return True  # no failure at any load that does not violate another term: nothing to test
        group_s = _group_s([(run, run.terms[number]) for run in others if run.load <= NEAR * load])
        pool: list[tuple[LoadRun, Counts]] = []
        for higher in sorted({run.load for run in others if run.load >= load}):
            runs = [run for run in others if run.load == higher]
            # All runs at a load count, or none: selecting the fast ones would prove nothing.
            if not _is_steady(runs, term):
                return False
            pool += [(run, run.terms[number]) for run in runs]
            is_long = sum(run.length_s for run, _ in pool) >= self.least_s
            if is_long and _is_proven(term, pool, group_s):
                return True
        return False


def _is_proven(term: Term, pool: Sequence[tuple[LoadRun, Counts]], group_s: float | None) -> bool:
    """Return whether these runs, at this load and above, prove that the figure is within its limit."""
    length_s = sum(run.length_s for run, _ in pool)
    rate = sum(run.requests for run, _ in pool) / length_s
    # Slow requests form shorter groups than latency remembers; their own groups are only known once some are slow.
    waiting = math.sqrt(sum(run.dispersion * run.length_s for run, _ in pool) / length_s)
    parts = [counts for _, counts in pool]
    each = max(1.0, _total(parts, "requests") / (rate * length_s)) if term.figure == "gap" else 1.0
    # Until a group is observed, all gaps of a request may be slow together.
    grouped = each if group_s is None else 1 + group_s * rate * each
    if _test(term, parts, max(waiting, grouped)) >= 0:
        return False
    queued = [(run, counts) for run, counts in pool if run.is_open and not _is_far(run, term)]
    if term.name == "errors" or not queued:
        return True
    memories = length_s / _memory_s(term, rate)
    if memories < MEMORY:
        return False
    if term.share is None:
        # A short run of a queue that is fast by chance also varies little: its own spread is not enough.
        mean_ns = _total(parts, "total_ns") / _total(parts, "requests")
        return term.limit - mean_ns > MEAN_SPREADS * term.limit / math.sqrt(memories)
    waited = [counts for run, counts in queued if run.dispersion >= QUEUED]
    return not waited or all(_is_lighter(term, waited, place) for place in range(len(PARTS)))


def _total(parts: Sequence[Counts], name: str) -> float:
    return float(sum(getattr(counts, name).sum() for counts in parts))


def _memory_s(term: Term, rate: float) -> float:
    """Return the memory of a queue as long as the limit allows: 4 / capacity / (1 - utilisation)²."""
    scale_s = term.limit / 1e9 / -math.log(MEAN_SHARE if term.share is None else term.share)
    return 4 * rate * scale_s * scale_s


def _is_lighter(term: Term, parts: Sequence[Counts], place: int) -> bool:
    """Return whether fewer requests are beyond part of the limit than in a queue at its limit (with an exponential
    tail)."""
    share = MEAN_SHARE if term.share is None else term.share
    partly = [Counts(part.requests, part.partly[place], part.total_ns) for part in parts]
    requests, beyond = _total(partly, "requests"), _total(partly, "beyond")
    dispersion = max(1.0, _dispersion(partly))
    return at_most(beyond / dispersion, requests / dispersion, share ** PARTS[place]) < PART_ALPHA


def _is_beyond(term: Term, parts: Sequence[Counts]) -> bool:
    requests = _total(parts, "requests")
    if not requests:
        return term.name != "errors"  # without answers, latency limits are violated
    if term.share is None:
        return _total(parts, "total_ns") / requests >= term.limit
    return _total(parts, "beyond") / requests > term.share


def beyond_terms(promise: Slo, run: LoadRun) -> tuple[str, ...]:
    """Return the terms whose figure, as measured in this run, is not within the limit."""
    return tuple(
        term.label
        for term, counts in zip(promise.terms, run.terms, strict=True)
        if _is_beyond(term, [counts])
    )


def is_far_within(promise: Slo, run: LoadRun) -> bool:
    """Return whether no request was beyond a limit, and almost none can be, for any distribution of durations.

    At most a share of mean / limit is beyond the limit (Markov's inequality). In a closed loop, where the queue cannot
    grow during the measurement, the standard deviation is used as well (Cantelli's inequality).
    """
    for term, counts in zip(promise.terms, run.terms, strict=True):
        if counts.beyond.any():
            return False
        if term.name == "errors":
            continue
        requests = float(counts.requests.sum())
        if requests < FEW:
            return False
        allowed = (MEAN_SHARE if term.share is None else term.share) / 2
        mean_ns = float(counts.total_ns.sum()) / requests
        if mean_ns <= allowed * term.limit:
            continue
        variance = counts.deviation_ns**2
        if run.is_open or requests < ENOUGH or variance > allowed * (variance + (term.limit - mean_ns) ** 2):
            return False
    return True


# --- tests


def _test(term: Term, parts: Sequence[Counts], least_dispersion: float = 1.0) -> int:
    """Return 1 if the figure is certainly beyond its limit, -1 if certainly within, 0 if undecided."""
    if term.share is None:
        return _test_mean(term.limit, parts)
    requests, beyond = _total(parts, "requests"), _total(parts, "beyond")
    if not requests:
        return 0
    dispersion = max(1.0, _dispersion(parts))
    if at_least(beyond / dispersion, requests / dispersion, term.share) < BROKEN_ALPHA:
        return 1
    dispersion = max(dispersion, least_dispersion)
    return -1 if at_most(beyond / dispersion, requests / dispersion, term.share) < KEPT_ALPHA else 0


def _test_mean(limit: float, parts: Sequence[Counts]) -> int:
    means = np.concatenate(
        [part.total_ns[part.requests > 0] / part.requests[part.requests > 0] for part in parts]
    )
    if len(means) < FEWEST_SECTIONS:
        return 0
    deviations = means - means.mean()
    alike = allowed(correlation([deviations], lost=1))
    error = math.sqrt(
        float(deviations @ deviations) / (len(means) - 1) / len(means) * (1 + alike) / (1 - alike)
    )
    distance = float(means.mean()) - limit
    return 0 if abs(distance) <= FAR_MEAN * error else (1 if distance > 0 else -1)


def _dispersion(parts: Sequence[Counts]) -> float:
    """Return the variance of sections relative to that of independent requests."""
    requests = _total(parts, "requests")
    share = _total(parts, "beyond") / requests
    if not 0 < share < 1:
        return 1.0
    rests = [part.beyond - part.requests * share for part in parts]
    sections = sum(map(len, rests))
    if sections < 2:
        return requests  # as if all requests were one
    squares = sum(float(rest @ rest) for rest in rests) / (sections - 1)
    alike = allowed(correlation(rests, lost=1))
    return squares / (requests / sections * share * (1 - share)) * (1 + alike) / (1 - alike)


def _group_s(rows: Sequence[tuple[LoadRun, Counts]]) -> float | None:
    """Return for how long requests are slow together; None if not observed."""
    found = []
    for run, counts in rows:
        requests, beyond = float(counts.requests.sum()), float(counts.beyond.sum())
        # A growing queue is not a group.
        if 2 <= beyond < RARE * requests and _rank_correlation(run.latency_ns) < TREND:
            found.append((_dispersion([counts]) - 1) * run.length_s / requests)
    return float(np.median(found)) if found else None


def _is_far(run: LoadRun, term: Term) -> bool:
    """Return whether latency varies so little that it stays far from the limit."""
    means = run.latency_ns
    if term.figure != "latency" or not len(means):
        return False
    return bool(term.limit - means.max() > FAR * (means.max() - means.min()))


def _is_steady(runs: Sequence[LoadRun], term: Term | None) -> bool:
    """Return whether runs at a load exceed the memory of its queue by so much that more runs would not change the
    verdict."""
    if term is not None and all(_is_far(run, term) for run in runs):
        return True
    whole = np.concatenate([run.latency_ns for run in runs])
    if len(whole) < FEWEST_SECTIONS:
        return False
    deviations = whole - whole.mean()
    steps = np.concatenate([np.diff(run.latency_ns) for run in runs])
    return float(steps @ steps) >= STEADY * float(deviations @ deviations) * len(steps) / len(whole)


def _is_overrun(run: LoadRun, counts: Counts, term: Term) -> bool:
    """Return whether more requests are beyond the limit than any steady queue explains, or a growing queue ended far
    beyond it."""
    requests, beyond = float(counts.requests.sum()), float(counts.beyond.sum())
    if len(counts.requests) < FEWEST_SECTIONS:
        return False
    if term.share is not None and beyond > requests * term.share / MARKOV:
        return True
    means = run.latency_ns
    if term.figure != "latency" or len(means) < FEWEST_SECTIONS or _rank_correlation(means) < GROWING:
        return False
    # A queue at its limit with an exponential tail is rarely this long.
    times = max(1.2, math.log(RARELY) / math.log(MEAN_SHARE if term.share is None else term.share))
    return bool((means[-len(means) // 4 :] > times * term.limit).all())


def is_growing(run: LoadRun, promise: Slo) -> bool:
    """Return whether the queue grows throughout the run, either linearly or far beyond a limit."""
    means = run.latency_ns
    if not run.is_open or len(means) < FEWEST_SECTIONS:
        return False
    if any(
        _is_overrun(run, counts, term)
        for counts, term in zip(run.terms, promise.terms, strict=True)
        if term.name != "errors"
    ):
        return True
    lowest = means.min()
    rise = means.max() - lowest
    if rise <= LEAST_RISE * lowest:
        return False
    straight = STRAIGHT if rise > RISE * lowest else STRAIGHTEST
    return bool(np.corrcoef(np.arange(len(means)), means)[0, 1] > straight)


def _rank_correlation(values: Floats) -> float:
    """Return Kendall's rank correlation of values with their order."""
    if len(values) < 2:
        return 0.0
    signs = np.sign(values[None, :] - values[:, None])
    return float(np.triu(signs, 1).sum()) / (len(values) * (len(values) - 1) / 2)


def needed_requests(promise: Slo) -> int:
    """Return the number of requests at one load, none of them beyond, needed to prove the strictest percentile."""
    shares = [term.share for term in promise.terms if term.share is not None and term.name != "errors"]
    return max(
        (math.ceil(math.log(KEPT_ALPHA) / math.log1p(-share)) for share in shares),
        default=FEWEST_SECTIONS * 4,
    )


def section_count(requests: int) -> int:
    """Return the number of sections for this many requests."""
    return max(1, min(SECTIONS, requests // LEAST_COUNT))
