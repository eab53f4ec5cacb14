"""The highest load that meets an SLO, from one fit over all measured loads.

The model. An SLO on a percentile limits a share: p99<40ms says that fewer than 1 % of the requests take 40 ms or
longer. Around its limit L the share s grows exponentially with the load, and it cannot exceed one:

    -ln(1 - share) = -ln(1 - s) * exp(slope * (load / L - 1))

In a queue with the capacity C, d ln share / d load is ln(1 / s) / (C - L) at all loads, exactly so if arrivals and
service times are random. The slope is L times that: 1 to 3 for pauses, about 5 for random service times, 25 near
saturation, and unbounded for a deterministic server. It is a parameter of the fit with a wide prior. A mean is fitted
the same way, as its ratio to its limit; an error rate is already a share.

That slope assumes that latency decays exponentially from the first request on: ln(1 / share) is the decay rate times
the limit. In general, the decay near the limit counts, which the tail below shows: 2 * (1 - tail) * ln(1 / share).
Pauses and heavy tails decay more slowly than a queue, and their shares grow more slowly with the load.

Requests share a queue and its pauses, so they are not independent. Each run is cut into sections of equal time. The
dispersion, which is the variance of the sections relative to that of independent requests, divides the log-likelihood
(quasi-likelihood). It is estimated from sections within runs, including the correlation of neighbours, and from runs
against the fitted curve: a queue whose memory exceeds a run only shows there. Loads follow each other without a pause,
so neighbouring runs share the queue between them (`CARRIED`).

The dispersion of a run must not depend on chance events in that run. A run in which the queue happened to be long
varies more; if it counted less for that, the limit would be too high on average. Dispersions are therefore a function
of the load, fitted to all runs.

The tail. If few requests are beyond the limit, more are beyond the midpoint between a quick request and the limit, and
they carry information that the few cannot. The two shares are related at all loads by half = share ** tail: the tail is
1/2 if latency has an exponential tail, as in a queue, 1 for pauses that are longer than the limit, and less than 1/2 if
latency is bounded. It is a parameter too. The requests beyond the midpoint are a sample of all requests, and those
beyond the limit a sample of these, so that no request counts twice. The two samples have a dispersion each: if single
slow requests delay a few others, groups beyond the limit are shorter than those of a queue that fills. A few groups
hardly show their own dispersion, however many requests they contain: if the size of groups is geometric, the sample
variance has about a third as many degrees of freedom as there are groups (`GROUPS_PER_DEGREE`), and the expected ratio
of the two dispersions counts more.

The curve is only trusted near the limit: the further a run is from it, the less it counts (`CURVATURE`). It is not
exact at the limit either: an error of the share that all runs have in common moves the limit by that error divided by
the slope (`CURVE_ERROR`).

The check. If runs deviate from the curve by more than the dispersion within them explains (`MISFIT`), the model is
wrong for this server, and the interval is the bracket of loads that are proven to meet or to miss the SLO (keeping.py).
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from inferometer.base.frozen import frozen

Floats = NDArray[np.float64]

SLOPES = np.exp(np.linspace(math.log(0.7), math.log(3000.0), 32))
USUAL_SLOPE = 5.0
# Prior of the logarithm of the slope relative to that of a queue, as (weight, centre, spread): most servers resemble a
# queue, some less so, and some are far steeper because nothing about them is random.
SPREADS = ((0.84, 0.0, 0.35), (0.11, 0.0, 0.9), (0.05, 2.0, 1.5))
MOST_USED = 0.95
LEAST_SLOPE = 2.0
MOST_SLOPE = 60.0
MOST_ERROR = 0.7  # of the logarithm of the slope, because the capacity is uncertain
CAP_MARGIN = 0.05
COARSE_POINTS = 60
BETWEEN_POINTS = 5  # of the coarse grid, from one load to the next
POINTS = 120
LIKELY = 1e-4  # posterior weight of a tail or slope that is still considered on the finer grid
# Exponents that relate the share beyond the midpoint to the share beyond the limit, with prior weights: those of
# queues, and others.
TAILS = (
    *((0.47, 0.15), (0.51, 0.35), (0.55, 0.15)),
    *((0.2, 0.04), (0.3, 0.05), (0.39, 0.05), (0.63, 0.06), (0.72, 0.05), (0.82, 0.05), (0.95, 0.05)),
)
TAIL_GROUPS = 1.5  # expected ratio of the dispersions of requests beyond the limit and beyond the midpoint
TAIL_WEIGHT = 8.0  # weight of that expectation, in degrees of freedom
GROUPS_PER_DEGREE = 3.0
CARRIED = 1.2  # factor of the dispersion, because a run begins with the queue of the one before
CURVE_ERROR = 0.14  # of the logarithm of the share at the limit
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
FINE_ROUNDS = 2
MOST_DOUBT = 1.0
ALIKE_WEIGHT = 1.0
MERGED = (1, 4)
MISFIT = 12.0
LEAST_WAITING = 0.3
USUAL_POWER = 0.5  # of the size of groups in a queue, with which dispersions are expected to grow
MEMORY_GROUPS = 2.0  # multiple of the size of groups in a queue up to which runs may differ from each other


@frozen
class Capacity:
    """The load that saturates the server."""

    value: float
    margin: float = CAP_MARGIN  # relative uncertainty
    is_seen: bool = True  # it was measured
    ends: int = 0  # requests that it was measured with

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
    rough = curve.rough(_coarse(low, max(high, low + 0.1), sorted(set(logs))))
    return curve.posterior(rough)


def _coarse(low: float, high: float, logs: Sequence[float]) -> Floats:
    """Return places between two ends, closer to each other where loads are: a steep curve falls between two of them."""
    between = [np.linspace(*pair, BETWEEN_POINTS) for pair in pairwise(logs)]
    places: Floats = np.unique(np.concatenate([np.linspace(low, high, COARSE_POINTS), *between]))
    return places


@frozen
class _Grid:
    """Places, tails and slopes at which the model is evaluated, and the initial weight of a request of each run."""

    places: Floats
    tails: Floats
    tail_weights: Floats
    slopes: Floats
    worth: Floats


class _Curve:
    """The model with its data; `rough` narrows the grid of tails, places and slopes that `posterior` evaluates."""

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
        self.tail_spread = _tail_spread([run for run in runs if not run.is_overrun]) if has_tail else None
        self.groups = self._groups()
        self.least = 0.02 if is_mean else 1.0

    def _groups(self) -> Floats:
        """Return how many requests of each run are slow together: in M/M/1, all of a busy period."""
        steady, longest = ~self.is_overrun, self._longest_groups()
        if not steady.any():
            return np.minimum(3.0, longest)
        waiting = np.array([run.waiting for run in self.runs])
        growth = np.ones(len(waiting))
        if self.capacity is not None:
            # From independent of the load, as pauses are, to the growth in a queue.
            away = np.log(longest) - np.log(longest[steady]).mean()
            rest = np.log(np.maximum(waiting, LEAST_WAITING))[steady]
            power = (away[steady] @ (rest - rest.mean()) + USUAL_POWER) / (away[steady] @ away[steady] + 1)
            growth = np.exp(np.clip(power, 0.0, 1.0) * away)
        groups = 1 + 2 * waiting[steady].mean() * growth / growth[steady].mean()
        found: Floats = np.minimum(groups, longest)
        return found

    def _longest_groups(self) -> Floats:
        """Return how many requests are slow together in a queue at the utilisation of each run."""
        if self.capacity is None:
            return np.full(len(self.runs), math.inf)
        used = np.minimum(np.exp(self.logs) / self.capacity.value, MOST_USED)
        found: Floats = (1 + used * used) / (1 - used) ** 2
        return found

    def rough(self, places: Floats) -> _Grid:
        """Return a grid of the likely tails, places and slopes, given a coarse one of places."""
        tails, tail_weights = np.array(self.tails).T
        worth = 1 / np.maximum(1.0, FIRST_DISPERSION * self.groups)
        grid = _Grid(places, tails, tail_weights, SLOPES, worth)
        weights, worth, _ = self._weights(grid, ROUNDS)
        first, last = np.searchsorted(np.cumsum(weights.sum(axis=(0, 2))), (1e-5, 1 - 1e-5))
        narrow = np.linspace(places[max(0, first - 1)], places[min(len(places) - 1, last + 1)], POINTS)
        is_tail, is_slope = weights.sum(axis=(1, 2)) > LIKELY, weights.sum(axis=(0, 1)) > LIKELY
        return _Grid(narrow, tails[is_tail], tail_weights[is_tail], SLOPES[is_slope], worth)

    def posterior(self, grid: _Grid) -> Posterior:
        weights, _, (slope, dispersion, misfit) = self._weights(grid, FINE_ROUNDS)
        places, blurred = _blurred(grid.places, weights.sum(axis=(0, 2)), CURVE_ERROR / slope)
        return Posterior(places, blurred, slope, dispersion, misfit)

    def _weights(self, grid: _Grid, rounds: int) -> tuple[Floats, Floats, tuple[float, float, float]]:
        """Return the posterior by tail, place and slope, the weights of runs, and slope, dispersion and misfit."""
        places, slopes, worth = grid.places, grid.slopes, grid.worth
        distance = np.expm1(self.logs[None, None, :] - places[:, None, None])
        likelihood = self._likelihood(self.target + slopes[None, :, None] * distance, grid.tails)
        prior = self._slope_prior(grid)
        if self.capacity is not None:
            over = np.maximum(places - math.log(self.capacity.most), 0.0) / CAP_SPREAD
            # Uniform in the load, below saturation.
            prior = prior + (places - over * over / 2)[None, :, None]
        prior = prior + np.log(grid.tail_weights)[:, None, None] + np.log(np.gradient(places))[None, :, None]
        for _ in range(rounds):
            logged = prior + likelihood(worth / CARRIED)
            weights: Floats = np.exp(logged - logged.max())
            weights /= weights.sum()
            slope = math.exp(float(weights.sum(axis=(0, 1)) @ np.log(slopes)))
            tail = float(weights.sum(axis=(1, 2)) @ grid.tails)
            place = float(weights.sum(axis=(0, 2)) @ places)
            worth, dispersion, misfit = self._worth(place, slope, tail)
        return weights, worth, (slope, dispersion, misfit)

    def _likelihood(self, level: Floats, tails: Floats) -> Callable[[Floats], Floats]:
        """Return log-likelihoods by tail, place and slope, as a function of the weight of a request of each run."""
        if self.is_mean:
            level = np.minimum(level, 50.0)
            each = self.totals * level - self.counts * np.exp(level)
            return lambda worth: (each @ worth)[None]
        step = LEVELS[1] - LEVELS[0]
        places = np.clip((level - LEVELS[0]) / step + 0.5, 0, len(LEVELS) - 1).astype(np.intp)
        log_share = _log_share(1.0)[places]
        within = [(tail, _log_rest(tail)[places], _log_rest(1 - tail)[places]) for tail in tails]
        totals, halves, counts = self.totals, self.halves, self.counts

        def likelihood(worth: Floats) -> Floats:
            fewer = self._tail_worth(worth)
            return np.array(
                [
                    log_share @ (worth * halves * tail + fewer * totals * (1 - tail))
                    + below_half @ (worth * (counts - halves))
                    + below @ (fewer * (halves - totals))
                    for tail, below_half, below in within
                ]
            )

        return likelihood

    def _tail_worth(self, worth: Floats) -> Floats:
        """Return the weight of a request beyond the midpoint, as a sample of those beyond the limit."""
        usual, spread = worth / TAIL_GROUPS, self.tail_spread
        if spread is None:
            return usual
        # Relative to the expectation, so that runs keep their proportions.
        expected = float((self.halves / usual).sum() / max(self.halves.sum(), 1e-9))
        alike = min(max(spread.alike, 0.0), MOST_ALIKE)
        seen = max(1.0, spread.pearson * (1 + alike) / (1 - alike))
        groups = float(self.totals[~self.is_overrun].sum()) / expected
        degrees = min(spread.degrees, groups / GROUPS_PER_DEGREE)
        factor = (TAIL_WEIGHT + degrees * seen / expected) / (TAIL_WEIGHT + degrees)
        found: Floats = np.minimum(usual / factor, 1.0)
        return found

    def _slope_prior(self, grid: _Grid) -> Floats:
        """Return the logarithm of the prior of the slopes by tail, place and slope."""
        centre, error = np.full((len(grid.tails), len(grid.places)), USUAL_SLOPE), np.zeros(len(grid.places))
        if self.capacity is not None:
            loads, most = np.exp(grid.places), self.capacity.value
            left = np.maximum(most - loads, 0.01 * most)
            # The exponential decay of latency up to the limit, by what is left of it beyond the midpoint.
            decay = 2 * (1 - grid.tails) if len(self.tails) > 1 else np.ones(1)
            decay = np.maximum(-self.target * decay, 1.0)
            centre = np.clip(decay[:, None] * (loads / left)[None, :], LEAST_SLOPE, MOST_SLOPE)
            error = np.minimum(self.capacity.margin / 2 * most / left, MOST_ERROR)
        usual = np.zeros((*centre.shape, len(grid.slopes)))
        for weight, middle, spread in SPREADS if self.capacity is not None else SPREADS[1:]:
            wide = np.hypot(spread, error)[None, :, None]
            away = (np.log(grid.slopes[None, None, :] / centre[:, :, None]) - middle) / wide
            usual += weight / wide * np.exp(-away * away / 2)
        found: Floats = np.log(usual)
        return found

    def _worth(self, place: float, slope: float, tail: float) -> tuple[Floats, float, float]:
        """Return the weight of each run's log-likelihood, the dispersion near the limit, and the misfit."""
        distance = np.expm1(self.logs - place)
        level = np.minimum(self.target + slope * distance, 50.0)
        share, steepness = np.exp(level), np.exp(level)
        if not self.is_mean:
            share = np.clip(-np.expm1(-np.exp(level)), 1e-9, 1 - 1e-6)
            steepness = tail * share ** (tail - 1) * np.exp(level - np.exp(level))
            share = share**tail
        # Error of the logarithm of the share.
        doubt = np.minimum(CURVATURE * slope * abs(distance), MOST_DOUBT)
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
        # Runs differ by more than their sections if the memory of the queue exceeds a run: only near saturation.
        dispersion = np.maximum(
            dispersion, np.minimum(dispersion * more, MEMORY_GROUPS * self._longest_groups())
        )
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


def _blurred(places: Floats, weights: Floats, error: float) -> tuple[Floats, Floats]:
    """Return places and weights after adding an independent normal error to the place."""
    beyond = error * np.arange(0.5, 4.0, 0.5)
    wider = np.concatenate([places[0] - beyond[::-1], places, places[-1] + beyond])
    away = (wider[:, None] - places[None, :]) / error
    kernel = np.exp(-away * away / 2) * np.gradient(wider)[:, None]
    return wider, (kernel / kernel.sum(axis=0)) @ weights


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


def _tail_spread(runs: Sequence[Observed]) -> _Spread | None:
    """The spread of requests beyond the limit among those beyond the midpoint, over the sections of all runs."""
    pairs = [(run.beyond, run.half) for run in runs if run.half is not None and run.half.any()]
    beyond = float(sum(part.sum() for part, _ in pairs))
    halves = float(sum(half.sum() for _, half in pairs))
    if beyond < 2 or beyond >= halves:
        return None
    share = beyond / halves
    rests = [part - share * half for part, half in pairs]
    squares = float(sum(rest @ rest for rest in rests))
    degrees = float(sum((half > 0).sum() for _, half in pairs)) - 1
    if degrees < 1 or not squares:
        return None
    neighbours = float(sum(rest[1:] @ rest[:-1] for rest in rests))
    return _Spread(squares / (halves * share * (1 - share)), min(degrees, beyond - 1), neighbours / squares)


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
