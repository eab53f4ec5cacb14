"""The highest load that meets an SLO, from one fit over all measured loads.

The model. An SLO on a percentile limits a share: p99<40ms says that fewer than 1 % of the requests take 40 ms or
longer. Around its limit L the share s grows as a power of the load, and it cannot exceed one:

    -ln(1 - share) = -ln(1 - s) * (load / L) ** slope

In a queue near its capacity C, d ln share / d load is ln(1 / share) / (C - load): the slope is 1 to 3 for pauses, about
5 for random service times, 25 near saturation, and unbounded for a deterministic server. It is a parameter of the fit
with a wide prior. A mean is fitted the same way, as its ratio to its limit; an error rate is already a share.

Requests share a queue and its pauses, so they are not independent. Each run is cut into sections of equal time. The
dispersion, which is the variance of the sections relative to that of independent requests, divides the log-likelihood
(quasi-likelihood). It is estimated from sections within runs, including the correlation of neighbours, and from runs
against the fitted curve: a queue whose memory exceeds a run only shows there.

The tail. If few requests are beyond the limit, more are beyond the midpoint between a quick request and the limit, and
they carry information that the few cannot. The two shares are related at all loads by half = share ** tail: the tail is
1/2 if latency has an exponential tail, as in a queue, 1 for pauses that are longer than the limit, and less than 1/2 if
latency is bounded. It is a parameter too. The requests beyond the midpoint are a sample of all requests, and those
beyond the limit a sample of these, so that no request counts twice.

The curve is only trusted near the limit: the further a run is from it, the less it counts (`CURVATURE`).

The check. If runs deviate from the curve by more than the dispersion within them explains (`MISFIT`), the model is
wrong for this server, and the interval is the bracket of loads that are proven to meet or to miss the SLO (keeping.py).
"""

import math
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from inferometer.base.frozen import frozen

Floats = NDArray[np.float64]

SLOPES = np.exp(np.linspace(math.log(0.7), math.log(3000.0), 32))
USUAL_SLOPE = 5.0
# Prior of the logarithm of the slope around that of a queue: most servers resemble a queue, some less so, some not.
SPREADS = ((0.80, 0.35), (0.15, 0.9), (0.05, 3.0))
MOST_USED = 0.95
LEAST_SLOPE = 3.0
MOST_SLOPE = 60.0
MOST_ERROR = 0.7  # of the logarithm of the slope, because the capacity is uncertain
CAP_MARGIN = 0.05
COARSE_POINTS = 120
POINTS = 200
# Exponents that relate the share beyond the midpoint to the share beyond the limit, with prior weights: those of
# queues, and others.
TAILS = (
    *((0.47, 0.15), (0.51, 0.35), (0.55, 0.15)),
    *((0.2, 0.04), (0.3, 0.05), (0.39, 0.05), (0.63, 0.06), (0.72, 0.05), (0.82, 0.05), (0.95, 0.05)),
)
TAIL_GROUPS = 1.35  # ratio of the group sizes of requests beyond the limit and beyond the midpoint
LEVELS = np.linspace(-18.0, 4.0, 4401)  # grid of the complementary log-log of a share
REACH = 30.0  # factor below the lowest and above the highest load within which the limit is searched
CAP_SPREAD = 0.02
CURVATURE = 0.25  # relative error of the slope assumed between a run and the limit
FIRST_DISPERSION = 0.8  # prior mean of the dispersion
FIRST_WEIGHT = 4.0  # weight of that prior, in sections
MOST_ALIKE = 0.9
OVERRUN_COUNT = 20.0  # weight of a run with an unbounded queue, in requests, all of them beyond the limit
LEAST_SHARE = 1e-6
ROUNDS = 4
MOST_DOUBT = 1.0
ALIKE_WEIGHT = 1.0
MERGED = (1, 4)
MISFIT = 12.0


@frozen
class Capacity:
    """The load that saturates the server."""

    value: float
    margin: float = CAP_MARGIN  # relative uncertainty
    is_seen: bool = True  # it was measured

    @property
    def most(self) -> float:
        return self.value * (1 + self.margin)


@frozen
class Observed:
    """One run's sections under one term: the number of requests, and how many of them are beyond the limit.

    For a mean, `beyond` holds durations in units of the limit.
    """

    load: float
    requests: Floats
    beyond: Floats
    waiting: float = 1.0  # variance of mean latencies relative to that of independent requests
    is_overrun: bool = False  # the queue grows without bound
    half: Floats | None = None  # requests beyond the midpoint to the limit, if known

    @property
    def count(self) -> float:
        return OVERRUN_COUNT if self.is_overrun else float(self.requests.sum())

    @property
    def total(self) -> float:
        return OVERRUN_COUNT if self.is_overrun else float(self.beyond.sum())

    @property
    def most(self) -> Floats:
        """Requests beyond the midpoint, or else beyond the limit: the larger sample."""
        return self.beyond if self.half is None else self.half


@frozen
class Posterior:
    """Posterior of the limit over the logarithm of the load."""

    places: Floats
    weights: Floats  # sum to 1
    slope: float = USUAL_SLOPE
    dispersion: float = FIRST_DISPERSION
    misfit: float = 1.0  # variance of runs about the curve, relative to that expected from sections

    def below(self, places: Floats) -> Floats:
        """Return the probability that the limit is below each place."""
        ends = np.cumsum(self.weights) - self.weights / 2
        found: Floats = np.interp(places, self.places, ends, left=0.0, right=1.0)
        return found

    def quantile(self, share: float) -> float:
        """Return the load at this quantile."""
        ends = np.cumsum(self.weights) - self.weights / 2
        return math.exp(float(np.interp(share, ends, self.places)))


def lowest(posteriors: Sequence[Posterior]) -> Posterior:
    """Return the distribution of the minimum of several limits."""
    if len(posteriors) == 1:
        return posteriors[0]
    places = np.unique(np.concatenate([row.places for row in posteriors]))
    kept = np.prod([1 - row.below(places) for row in posteriors], axis=0)
    edges = np.concatenate([[1.0], (kept[1:] + kept[:-1]) / 2, [0.0]])
    weights = np.maximum(-np.diff(edges), 0.0)
    first = min(posteriors, key=lambda row: row.quantile(0.5))
    return Posterior(places, weights / weights.sum(), first.slope, first.dispersion, first.misfit)


def fit(share: float | None, runs: Sequence[Observed], capacity: Capacity | None = None) -> Posterior:
    """Fit the limit of a term that allows this share (None for a mean), given the load that saturates the server."""
    logs = [math.log(run.load) for run in runs]
    low = min(*logs, max(logs) - math.log(4)) - math.log(REACH if capacity is None else 5.0)
    high = max(logs) + math.log(REACH) if capacity is None else math.log(capacity.most) + 4 * CAP_SPREAD
    target = 0.0 if share is None else math.log(-math.log1p(-max(share, LEAST_SHARE)))
    curve = _Curve(runs, np.asarray(logs), target, share is None, capacity)
    found = curve.posterior(np.linspace(low, max(high, low + 0.1), COARSE_POINTS))
    first, last = np.searchsorted(np.cumsum(found.weights), (1e-5, 1 - 1e-5))
    places = found.places
    return curve.posterior(
        np.linspace(places[max(0, first - 1)], places[min(len(places) - 1, last + 1)], POINTS)
    )


class _Curve:
    """The model with its data; `posterior` evaluates it on a grid of tails, places and slopes."""

    def __init__(
        self,
        runs: Sequence[Observed],
        logs: Floats,
        target: float,
        is_mean: bool,
        capacity: Capacity | None,
    ) -> None:
        self.runs, self.logs, self.target, self.is_mean, self.capacity = runs, logs, target, is_mean, capacity
        self.counts = np.array([max(run.count, 1e-9) for run in runs])
        self.totals = np.array([run.total for run in runs])
        self.is_overrun = np.array([run.is_overrun for run in runs])
        self.halves = np.array([run.total if run.is_overrun else run.most.sum() for run in runs])
        has_tail = all(run.half is not None for run in runs)
        self.tails = TAILS if has_tail else ((1.0, 1.0),)
        self.spreads = [
            [None if run.is_overrun else _spread(run, is_mean, merged) for run in runs] for merged in MERGED
        ]
        self.groups = self._groups()
        self.least = 0.02 if is_mean else 1.0

    def _groups(self) -> Floats:
        """Return how many requests of each run are slow together: in M/M/1, all of a busy period."""
        # A run without pauses does not show how requests queue.
        waiting = [run.waiting for run in self.runs if not run.is_overrun]
        mean = sum(waiting) / len(waiting) if waiting else 1.0
        groups: Floats = 1.0 + 2.0 * np.maximum([run.waiting for run in self.runs], mean)
        if self.capacity is not None:
            used = np.minimum(np.exp(self.logs) / self.capacity.value, MOST_USED)
            groups = np.minimum(groups, (1 + used * used) / (1 - used) ** 2)
        return groups

    def posterior(self, places: Floats) -> Posterior:
        # (tail, place, slope)
        distance = self.logs[None, None, :] - places[:, None, None]
        likelihood = self._likelihood(self.target + SLOPES[None, :, None] * distance)
        prior = self._slope_prior(places)
        if self.capacity is not None:
            prior = prior + places[:, None]  # uniform in the load, below saturation
            over = np.maximum(places - math.log(self.capacity.most), 0.0) / CAP_SPREAD
            prior = prior - (over * over / 2)[:, None]
        tails, tail_weights = np.array(self.tails).T
        prior = np.log(tail_weights)[:, None, None] + prior[None, :, :]
        worth = 1 / np.maximum(1.0, FIRST_DISPERSION * self.groups)
        dispersion, misfit, slope = FIRST_DISPERSION, 1.0, USUAL_SLOPE
        for _ in range(ROUNDS):
            logged = prior + likelihood(worth)
            weights = np.exp(logged - logged.max())
            weights /= weights.sum()
            by_place = weights.sum(axis=(0, 2))
            slope = math.exp(float(weights.sum(axis=(0, 1)) @ np.log(SLOPES)))
            tail = float(weights.sum(axis=(1, 2)) @ tails)
            worth, dispersion, misfit = self._worth(float(by_place @ places), slope, tail)
        return Posterior(places, by_place, slope, dispersion, misfit)

    def _likelihood(self, level: Floats) -> Callable[[Floats], Floats]:
        """Return log-likelihoods by tail, place and slope, as a function of the weight of a request of each run."""
        if self.is_mean:
            level = np.minimum(level, 50.0)
            each = self.totals * level - self.counts * np.exp(level)
            return lambda worth: (each @ worth)[None]
        step = LEVELS[1] - LEVELS[0]
        places = np.clip((level - LEVELS[0]) / step + 0.5, 0, len(LEVELS) - 1).astype(np.intp)
        log_share = _log_share(1.0)[places]
        within = [(tail, _log_rest(tail)[places], _log_rest(1 - tail)[places]) for tail, _ in self.tails]
        totals, halves, counts = self.totals, self.halves, self.counts

        def likelihood(worth: Floats) -> Floats:
            fewer = worth / TAIL_GROUPS
            return np.array(
                [
                    log_share @ (worth * halves * tail + fewer * totals * (1 - tail))
                    + below_half @ (worth * (counts - halves))
                    + below @ (fewer * (halves - totals))
                    for tail, below_half, below in within
                ]
            )

        return likelihood

    def _slope_prior(self, places: Floats) -> Floats:
        centre, error = np.full(len(places), USUAL_SLOPE), np.zeros(len(places))
        if self.capacity is not None:
            loads, most = np.exp(places), self.capacity.value
            left = np.maximum(most - loads, 0.01 * most)
            centre = np.clip(max(-self.target, 1.0) * loads / left, LEAST_SLOPE, MOST_SLOPE)
            error = np.minimum(self.capacity.margin / 2 * most / left, MOST_ERROR)
        usual = np.zeros((len(places), len(SLOPES)))
        for weight, spread in SPREADS if self.capacity is not None else SPREADS[1:]:
            wide = np.hypot(spread, error)[:, None]
            away = np.log(SLOPES[None, :] / centre[:, None]) / wide
            usual += weight / wide * np.exp(-away * away / 2)
        found: Floats = np.log(usual)
        return found

    def _worth(self, place: float, slope: float, tail: float) -> tuple[Floats, float, float]:
        """Return the weight of each run's log-likelihood, the dispersion near the limit, and the misfit."""
        level = np.minimum(self.target + slope * (self.logs - place), 50.0)
        share, steepness = np.exp(level), np.exp(level)
        if not self.is_mean:
            share = np.clip(-np.expm1(-np.exp(level)), 1e-9, 1 - 1e-6)
            steepness = tail * share ** (tail - 1) * np.exp(level - np.exp(level))
            share = share**tail
        # Error of the logarithm of the share.
        doubt = np.minimum(CURVATURE * slope * abs(self.logs - place), MOST_DOUBT)
        near = 1 / (1 + (doubt / 0.3) ** 2)
        factor = self._within(near)
        dispersion = np.maximum(self.least, factor * self.groups)
        expected = self.counts * share
        variance = share if self.is_mean else share * (1 - share)
        rest = self.halves - expected
        doubted = self.counts * (steepness * doubt) ** 2 / variance
        pearson = rest**2 / (self.counts * variance) / (dispersion + doubted)
        weight = near * ~self.is_overrun * np.minimum(1.0, expected / dispersion)
        degrees = max(0.0, float(weight.sum()) - 2.0)
        between = float((weight * pearson).sum()) / max(float(weight.sum()) - 2.0, 1.0)
        more = 1.0
        if degrees > 0:
            more = max(1.0, (ALIKE_WEIGHT + degrees * between) / (ALIKE_WEIGHT + degrees))
        dispersion = dispersion * more
        worth = 1 / (dispersion + doubted)
        worth[self.is_overrun] = 1 / dispersion[self.is_overrun]
        return worth, float((dispersion * near).sum() / near.sum()), between

    def _within(self, near: Floats) -> float:
        """Return the dispersion of sections in units of `groups`, the larger one of short and long sections."""
        return max(self._section_dispersion(spreads, near) for spreads in self.spreads)

    def _section_dispersion(self, spreads: "Sequence[_Spread | None]", near: Floats) -> float:
        known = [
            (row, weight, group)
            for row, weight, group in zip(spreads, near, self.groups, strict=True)
            if row is not None
        ]
        degrees = sum(weight * row.degrees for row, weight, _ in known)
        pearson = sum(weight * row.degrees * row.pearson / group for row, weight, group in known)
        alike = sum(weight * row.degrees * row.alike for row, weight, _ in known)
        correlation = min(max(alike / degrees, 0.0), MOST_ALIKE) if degrees else 0.0
        pearson *= (1 + correlation) / (1 - correlation)
        return float((FIRST_WEIGHT * FIRST_DISPERSION + pearson) / (FIRST_WEIGHT + degrees))


@frozen
class _Spread:
    """Variation among the sections of a run."""

    pearson: float  # mean square relative to that of independent requests
    degrees: float
    alike: float  # correlation of neighbours


@cache
def _log_share(tail: float) -> Floats:
    """Return the logarithm of a share raised to this power, at `LEVELS`."""
    found: Floats = tail * np.log(-np.expm1(-np.exp(LEVELS)))
    return found


@cache
def _log_rest(tail: float) -> Floats:
    """Return the logarithm of one minus a share raised to this power, at `LEVELS`."""
    if not tail:
        return np.zeros_like(LEVELS)  # applies to no requests
    with np.errstate(divide="ignore"):
        exact = np.log(-np.expm1(_log_share(tail)))
    # The asymptote, where a share near one is not exact.
    found: Floats = np.maximum(exact, math.log(tail) - np.exp(LEVELS))
    return found


def _spread(run: Observed, is_mean: bool, merged: int) -> _Spread | None:
    """The spread of sections after merging `merged` neighbours into one; None if they carry no information."""
    cuts = np.arange(0, len(run.requests) - merged + 1, merged)
    if len(cuts) < 2:
        return None
    requests, beyond = np.add.reduceat(run.requests, cuts), np.add.reduceat(run.most, cuts)
    count, total, sections = float(requests.sum()), float(beyond.sum()), len(cuts)
    share = total / count if count else 0.0
    if not share or (not is_mean and (total < 2 or share >= 1)):
        return None
    rest = beyond - requests * share
    squares = float(rest @ rest)
    if not squares:
        return None
    variance = share if is_mean else share * (1 - share)
    degrees = sections - 1.0 if is_mean else min(sections - 1.0, total - 1)
    pearson = squares / (sections - 1) / (count / sections * variance)
    # Subtracting the mean lowers the correlation of neighbours by 1 / sections.
    alike = float(rest[1:] @ rest[:-1]) / squares + 1 / sections
    return _Spread(pearson, degrees, alike)
