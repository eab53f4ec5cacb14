"""Forecasts of every figure for every candidate: the throughput model, corrected by measurements.

The correction is a Gaussian process on the logarithmic differences between model and measurement.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from inferometer.base.frozen import frozen
from inferometer.stats.figures import BY_TAG, THROUGHPUT
from inferometer.tune.scoring import Goal
from inferometer.tune.search import throughput_model
from inferometer.tune.search.candidates import Candidates
from inferometer.tune.search.throughput_model import Array
from inferometer.tune.trial import Trial

# --- Gaussian processes on a few dozen points: the error of a model, and its uncertainty elsewhere
#
# Distances are in doublings (log2) for numbers and 0 or 1 for anything else. Scale, length and noise are chosen from a
# small table by maximum likelihood.

SCALES = (0.08, 0.2, 0.45)
UNKNOWN_SCALES = (0.25, 0.5, 1.0)  # if the model does not know what a configuration changes
LENGTHS = (1.5, 3.0, 6.0)
NOISES = (0.02, 0.06, 0.15)
ONE_BY_ONE = 0.8  # share of the effect of a server's knobs that does not depend on its other knobs


class Covariances:
    """Covariances of the measured points and of the places to predict, shared by all figures of the same points."""

    def __init__(
        self,
        points: Array,
        places: Array,
        pending: Array | None = None,
        scales: tuple[float, ...] = SCALES,
        axes: tuple[tuple[int, ...], ...] = (),
    ) -> None:
        self.points, self.places, self.scales, self.axes = points, places, scales, axes
        self.pending = pending if pending is not None and len(pending) else None  # being measured
        # Eigenvalues and eigenvectors of the covariance of the points, for each length.
        self.spectra = [np.linalg.eigh(self.kernel(points, points, length)) for length in LENGTHS]
        self.across = cache(partial(self.kernel, places, points))  # between places and points, by length

    def kernel(self, first: Array, second: Array, length: float) -> Array:
        """Return the correlations. Knobs of a server mostly act independently, under any load, so a few starts can show
        the effect of each knob for all values of the others."""
        whole = _kernel(first, second, length)
        if not self.axes:
            return whole
        loads = tuple(range(self.axes[-1][-1] + 1, first.shape[1]))
        parts = [_kernel(first[:, [*axis, *loads]], second[:, [*axis, *loads]], length) for axis in self.axes]
        return np.asarray(ONE_BY_ONE * sum(parts) / len(parts) + (1 - ONE_BY_ONE) * whole)


def _kernel(first: Array, second: Array, length: float) -> Array:
    squares = (first**2).sum(axis=1)[:, None] + (second**2).sum(axis=1)[None, :] - 2 * first @ second.T
    root = math.sqrt(3.0) * np.sqrt(np.maximum(squares, 0.0)) / length
    return np.asarray((1 + root) * np.exp(-root))  # Matérn 3/2: allows kinks


def predict(covariances: Covariances, values: Array, least_scale: float) -> tuple[Array, Array, float]:
    """Return mean and standard deviation at the places, and the noise, of the most likely process in the table.

    One decomposition serves all scales and noises of a length.
    """
    offset = float(np.median(values))
    scales = [scale for scale in covariances.scales if scale >= least_scale]
    table = np.array([(scale, noise) for scale in scales for noise in NOISES])
    squares = table**2
    best, found = -math.inf, None
    for length, (sizes, vectors) in zip(LENGTHS, covariances.spectra, strict=True):
        turned = vectors.T @ (values - offset)
        totals = squares[:, :1] * np.maximum(sizes, 0.0) + squares[:, 1:]
        likelihoods = -0.5 * ((turned**2 / totals).sum(axis=1) + np.log(totals).sum(axis=1))
        row = int(likelihoods.argmax())
        if found is None or likelihoods[row] > best:
            best, found = float(likelihoods[row]), (length, row, vectors, turned, totals[row])
    assert found is not None
    length, row, vectors, turned, total = found
    scale, noise = (float(one) for one in table[row])
    across = scale**2 * covariances.across(length)
    mean = offset + across @ (vectors @ (turned / total))
    if covariances.pending is None:
        variance = scale**2 - ((across @ vectors) ** 2) @ (1 / total)
    else:
        variance = _variance_with_pending(covariances, across, length, scale, noise)
    return mean, np.sqrt(np.maximum(variance, 1e-8)), noise


def _variance_with_pending(
    covariances: Covariances, across: Array, length: float, scale: float, noise: float
) -> Array:
    """Treat the points being measured as known, at their means: a variance needs no values."""
    assert covariances.pending is not None
    points = np.vstack([covariances.points, covariances.pending])
    whole = scale**2 * covariances.kernel(points, points, length) + noise**2 * np.eye(len(points))
    wide = np.hstack([across, scale**2 * covariances.kernel(covariances.places, covariances.pending, length)])
    return np.asarray(scale**2 - (wide * np.linalg.solve(whole, wide.T).T).sum(axis=1))


# --- the forecasts

MEMBERS = 16  # models that agree with the measurements
MOST_WORK = 200_000  # candidates times models: with many candidates, fewer models are used
LATENCY = "perf_latency"
MEAN = "perf_latency_avg"


@frozen
class Forecast:
    """Mean and standard deviation of the logarithm of a figure, for every candidate."""

    mean: Array
    deviation: Array


Forecasts = tuple[dict[str, Forecast], ...]
"""Forecasts by tag, for each of the models loaded together."""


@dataclass(slots=True)
class Forecaster:
    """Learns from trials; `seed` makes its random search repeatable."""

    candidates: Candidates
    goals: tuple[Goal, ...]
    seed: int
    parameters: Array | None = None  # rows that agree with the trials, best first
    _fitted_at: int = 0
    _pending: Sequence[int] = ()
    _forecast: Forecast | None = None  # of these parameters, for every candidate

    def forecasts(self, rows: list[int], trials: list[Trial], pending: Sequence[int] = ()) -> Forecasts:
        """Forecast every figure that the goals need, for every model; `rows` are the candidates of the trials,
        `pending` those being measured."""
        base = self._base(rows, trials)
        self._pending = pending
        covariances = self._covariances(rows)
        return tuple(self._of_part(part, base, covariances, rows, trials) for part in range(len(self.goals)))

    def _covariances(self, rows: list[int]) -> Covariances:
        """Return the covariances of these candidates, predicting one of each kind."""
        places = self.candidates.places
        scales = UNKNOWN_SCALES if self.candidates.is_launched else SCALES
        return Covariances(
            places[rows],
            places[self.candidates.firsts],
            places[list(self._pending)],
            scales,
            self.candidates.axes,
        )

    def _of_part(
        self, part: int, base: Forecast, covariances: Covariances, rows: list[int], trials: list[Trial]
    ) -> dict[str, Forecast]:
        points = self.candidates.points
        measured = _rates([trial.value(THROUGHPUT, part) for trial in trials], trials)
        speed, _ = self._corrected(
            covariances, measured - base.mean[rows], base.mean, self._least_scale(rows)
        )
        # The model's own uncertainty shrinks near measurements, in proportion to that of the correction.
        known = np.minimum(1.0, speed.deviation / speed.deviation.max())
        speed = Forecast(speed.mean, np.sqrt(speed.deviation**2 + (known * base.deviation) ** 2))
        found = {THROUGHPUT: speed}
        for tag in _tags(self.goals[part]):
            values = _logs([trial.value(tag, part) for trial in trials])
            known = [number for number, value in enumerate(values) if not math.isnan(value)]
            if tag in found or not known:
                continue
            at = [rows[number] for number in known]
            own = covariances if at == rows else self._covariances(at)
            if not tag.startswith(LATENCY):
                found[tag], _ = self._corrected(own, values[known], np.zeros(len(self.candidates.rows)))
                continue
            if points.by_rate:
                usual, unsure, least_scale = self._waiting(), np.zeros(len(points.load)), 0.2
            else:  # Little's law: the mean latency is requests in flight over their rate
                usual, unsure, least_scale = np.log(points.load) - speed.mean, speed.deviation, SCALES[0]
            factor, noise = self._corrected(own, values[known] - usual[at], usual, least_scale)
            deviation = np.sqrt(factor.deviation**2 + unsure**2 + (noise / 2) ** 2)
            found[tag] = Forecast(factor.mean, deviation)
        return found

    def _least_scale(self, rows: list[int]) -> float:
        """Return the smallest effect that a configuration is assumed to have. As long as there are no more
        configurations than knobs, similar figures do not show that the knobs have little effect."""
        count = len(np.unique(self.candidates.which[rows]))
        if self.candidates.is_launched and count <= len(self.candidates.axes):
            return UNKNOWN_SCALES[-1]
        return SCALES[0]

    def _corrected(
        self, covariances: Covariances, misses: Array, base: Array, least_scale: float = SCALES[0]
    ) -> tuple[Forecast, float]:
        """Return a forecast for every candidate, computed once per kind, and the noise."""
        mean, deviation, noise = predict(covariances, misses, least_scale)
        kinds = self.candidates.kinds
        return Forecast(base + mean[kinds], deviation[kinds]), noise

    def _waiting(self) -> Array:
        """Return the queueing forecast of the mean latency in ms at a request rate, as a logarithm."""
        assert self.parameters is not None
        points = self.candidates.points.at(self.candidates.firsts)
        each = np.log(1000 * throughput_model.latency_s(self.parameters[:1], points)[0])
        return np.asarray(each[self.candidates.kinds])

    def _base(self, rows: list[int], trials: list[Trial]) -> Forecast:
        """Return the queueing forecast of the request rate, as a logarithm."""
        if self._forecast is None or len(rows) >= self._fitted_at * 1.3:
            self._fitted_at = len(rows)
            measured = np.exp(_rates([trial.combined(THROUGHPUT) for trial in trials], trials))
            at = self.candidates.points.at(rows)
            waited = np.exp(_logs([trial.combined(MEAN) for trial in trials])) / 1000
            points = self.candidates.points.at(self.candidates.firsts)
            self.parameters = throughput_model.fit(
                at,
                measured,
                self.seed,
                members=int(np.clip(MOST_WORK // len(points.load), 4, MEMBERS)),
                start=self.parameters,
                waited_s=waited if at.by_rate and not np.isnan(waited).all() else None,
            )
            each = np.log(throughput_model.throughput(self.parameters, points))[:, self.candidates.kinds]
            self._forecast = Forecast(each.mean(axis=0), each.std(axis=0))
        return self._forecast


def _tags(goal: Goal) -> list[str]:
    objectives = [tag for tag, _ in goal.objectives]
    return list(dict.fromkeys([*objectives, *(row.tag for row in goal.constraints)]))


def _rates(rates: list[float | None], trials: list[Trial]) -> Array:
    """Return logarithms of requests per second."""
    return np.asarray(_logs(rates) - np.log([trial.load.batch for trial in trials]))


def _logs(values: list[float | None]) -> Array:
    return np.array([math.nan if value is None else math.log(max(value, 1e-6)) for value in values])


def utility(goals: Sequence[Goal], forecasts: Forecasts, batches: Array) -> Forecast:
    """Return weighted logarithms of the objectives of all models: differences are relative gains."""
    mean = np.zeros(len(batches))
    variance = np.zeros(len(batches))
    total = sum(goal.weight for goal in goals)
    rows = [
        (goal.weight / total * share, tag, own[tag])
        for goal, own in zip(goals, forecasts, strict=True)
        for tag, share in goal.shares
        if tag in own
    ]
    for share, tag, forecast in rows:
        sign = 1.0 if BY_TAG[tag].is_higher_better else -1.0
        sent = np.log(batches) if tag == THROUGHPUT else 0.0
        mean += share * sign * (forecast.mean + sent)
        variance += (share * forecast.deviation) ** 2
    return Forecast(mean, np.sqrt(np.maximum(variance, 1e-10)))


def together(forecasts: Forecasts) -> Forecast:
    """Return the request rate of all models together."""
    speeds = [own[THROUGHPUT] for own in forecasts]
    if len(speeds) == 1:
        return speeds[0]
    mean = np.log(np.sum([np.exp(speed.mean) for speed in speeds], axis=0))
    return Forecast(mean, np.max([speed.deviation for speed in speeds], axis=0))


def chance(goals: Sequence[Goal], forecasts: Forecasts, batches: Array) -> Array:
    """Return the probability that the constraints of all models are met."""
    found = np.ones(len(batches))
    rows = [
        (row, own[row.tag])
        for goal, own in zip(goals, forecasts, strict=True)
        for row in goal.constraints
        if row.tag in own
    ]
    for constraint, forecast in rows:
        mean = forecast.mean + (np.log(batches) if constraint.tag == THROUGHPUT else 0.0)
        if constraint.high is not None:
            found *= normal_share((math.log(max(constraint.high, 1e-9)) - mean) / forecast.deviation)
        if constraint.low is not None:
            found *= normal_share((mean - math.log(max(constraint.low, 1e-9))) / forecast.deviation)
    return found


def expected_gain(forecast: Forecast, best: float) -> Array:
    """Return the expected gain in utility over the best so far."""
    z = (forecast.mean - best) / forecast.deviation
    density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    return np.asarray((forecast.mean - best) * normal_share(z) + forecast.deviation * density)


def normal_share(z: Array) -> Array:
    """Return the share of a normal distribution below z, within 2e-4 (Abramowitz and Stegun 26.2.17, which needs no
    library)."""
    t = 1 / (1 + 0.2316419 * np.abs(z))
    poly = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    upper = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi) * poly
    return np.asarray(np.where(z >= 0, 1 - upper, upper))


# --- the chance of a start

_NEAR = 3.0  # doublings over which configurations start or fail alike
_PRIOR = 0.5  # weight of the expectation that a configuration starts
_FAILURE = 3.0  # weight of a failed start against one that worked


def start_chance(places: Array, working: Array, failed: Array) -> Array:
    """Return the probability that each configuration starts, based on nearby ones that did or did not start."""
    good = _PRIOR + (_kernel(places, working, _NEAR).sum(axis=1) if len(working) else 0.0)
    bad = _FAILURE * _kernel(places, failed, _NEAR).sum(axis=1) if len(failed) else np.zeros(len(places))
    return np.asarray(good / (good + bad))
