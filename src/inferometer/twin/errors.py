"""The error of the simulation: residuals at the measured loads, extended to other loads. Pure.

The residual of a measured load is the logarithm of measured over simulated. Nearby loads have similar residuals, so a
forecast inherits part of them (simple kriging with an exponential correlation), less with growing distance. The
remaining uncertainty is the interval: the variance that neighbours do not explain, a part that grows with the distance,
and the random variation of a measurement.

A distance is a sum of logarithms of ratios: of the requests in flight, of other traffic at the same time, and of
settings, plus a constant between loads by rate and by concurrency.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from inferometer.base.frozen import frozen
from inferometer.diagnose.text_lengths import mean_lengths
from inferometer.stats.intervals import student_t
from inferometer.twin.twin import (
    BATCHING,
    CONFIDENCE,
    THROUGHPUT,
    Anchor,
    Band,
    ErrorModel,
    LoadPart,
    StepSetting,
    TwinLoad,
)

REACH = 1.0  # distance at which the correlation of residuals falls to 1/e
OTHER_MODE = 0.3  # distance between loads by concurrency and by rate
SWITCHED = 0.7  # distance between batching on and off
_LEAST_NOISE = 0.005
_SHARED = 2.0  # weight of the mean over all models, in loads
_NEAR = 0.2  # smallest distance used
_ONE_MORE = 0.02  # extra requests that a slightly earlier start of the period may add
_MOST_LOG = 5.0  # bound of a logarithm: no figure is off by a factor of more than about 150


LeastErrors = Mapping[str, ErrorModel]
"""Minimum error assumed for each figure."""

PIPELINE_ERRORS: LeastErrors = {
    THROUGHPUT: ErrorModel(0.02, 0.04),
    "mean": ErrorModel(0.03, 0.06),
    "p50": ErrorModel(0.03, 0.06),
    "p90": ErrorModel(0.04, 0.08),
    "p99": ErrorModel(0.06, 0.10),
}


@frozen
class Spot:
    """The position of a load, from the point of view of one of its models."""

    part: LoadPart
    in_flight: float
    beside: float  # requests in flight of other models
    settings: tuple[StepSetting, ...]


def spot(load: TwinLoad, model: str, in_flight: float, beside: float = 0.0) -> Spot:
    part = next(part for part in load.parts if part.model == model)
    return Spot(part, in_flight, beside, load.settings)


def distance(one: Spot, two: Spot) -> float:
    """Return the distance between two loads of the same model."""
    far = abs(math.log(max(one.in_flight, 0.1) / max(two.in_flight, 0.1)))
    far += abs(math.log1p(one.beside) - math.log1p(two.beside))
    far += _lengths_apart(one.part, two.part)
    far += OTHER_MODE * ((one.part.mode, one.part.arrivals) != (two.part.mode, two.part.arrivals))
    mine = {(row.model, row.name): row.value for row in one.settings}
    theirs = {(row.model, row.name): row.value for row in two.settings}
    for key in mine.keys() | theirs.keys():
        far += _apart(key[1], mine.get(key), theirs.get(key))
    return far


def _lengths_apart(one: LoadPart, two: LoadPart) -> float:
    if one.lengths is None or two.lengths is None:
        return 0.0
    rows = zip(mean_lengths(one.lengths.pairs), mean_lengths(two.lengths.pairs), strict=True)
    return sum(abs(math.log(mine / theirs)) for mine, theirs in rows)


def _apart(name: str, one: float | None, two: float | None) -> float:
    if one == two:
        return 0.0
    if name == BATCHING or one is None or two is None:
        return SWITCHED
    return abs(math.log(max(one, 1.0) / max(two, 1.0)))


def anchor_spot(anchor: Anchor) -> Spot:
    return spot(anchor.load, anchor.model, anchor.in_flight)


def error_models(
    anchors: Sequence[Anchor], least: LeastErrors = PIPELINE_ERRORS
) -> dict[str, dict[str, ErrorModel]]:
    """Return the error of each model and figure. With few loads, each model is shrunk towards the mean of all
    models."""
    names = dict.fromkeys(row.model for row in anchors)
    return {
        model: {name: _error_model(name, model, anchors, error) for name, error in least.items()}
        for model in names
    }


def _error_model(name: str, model: str, anchors: Sequence[Anchor], least: ErrorModel) -> ErrorModel:
    rows = [row for row in anchors if name in row.residuals]
    squares = [(row.model, max(0.0, row.residuals[name] ** 2 - row.noise[name] ** 2)) for row in rows]
    base = max(least.base, math.sqrt(_partly_own(squares, model)))
    grown = [found for row in rows if (found := _growth(name, row, rows, ErrorModel(base, 0.0))) is not None]
    return ErrorModel(base, max(least.per_distance, math.sqrt(_partly_own(grown, model))))


def _partly_own(rows: Sequence[tuple[str, float]], model: str) -> float:
    """Return the mean of the model's own values, shrunk towards the mean of all models."""
    if not rows:
        return 0.0
    own = [value for name, value in rows if name == model]
    whole = sum(value for _, value in rows) / len(rows)
    return (sum(own) + _SHARED * whole) / (len(own) + _SHARED)


def _growth(name: str, row: Anchor, rows: Sequence[Anchor], plain: ErrorModel) -> tuple[str, float] | None:
    """Return by how much the squared error of predicting a load from the others exceeds the expected one, per squared
    distance."""
    others = [other for other in rows if other is not row and other.model == row.model]
    if not others:
        return None
    place = anchor_spot(row)
    value, spread = _kriged(name, place, others, plain)
    left = (row.residuals[name] - value) ** 2 - spread**2 - row.noise[name] ** 2
    return row.model, max(0.0, left) / max(nearest(place, others), _NEAR) ** 2


def _kriged(name: str, place: Spot, anchors: Sequence[Anchor], error: ErrorModel) -> tuple[float, float]:
    """Return the expected residual and its standard deviation."""
    rows = [row for row in anchors if name in row.residuals]
    if not rows:
        return 0.0, error.base
    spots = [anchor_spot(row) for row in rows]
    variance = error.base**2
    between = np.array([[variance * math.exp(-distance(a, b) / REACH) for b in spots] for a in spots])
    between += np.diag([max(row.noise[name], _LEAST_NOISE) ** 2 for row in rows])
    to_place = np.array([variance * math.exp(-distance(place, one) / REACH) for one in spots])
    weights = np.linalg.solve(between, to_place)
    value = float(weights @ np.array([row.residuals[name] for row in rows]))
    left = variance - float(weights @ to_place)
    return value, math.sqrt(max(left, 0.0))


@frozen
class Guess:
    """A simulated figure and the random variation of its measurements."""

    name: str
    value: float
    chance: float
    is_limited: bool = True  # by the server; False for a rate that it keeps up with
    unsure: float = 0.0  # possible error from unknown causes, as a logarithm


def band(guess: Guess, place: Spot, anchors: Sequence[Anchor], error: ErrorModel) -> Band:
    """Return the figure corrected by the expected residual, with its interval."""
    mine = [row for row in anchors if row.model == place.part.model]
    shift, spread = _kriged(guess.name, place, mine, error)
    is_due = guess.name == THROUGHPUT and place.part.mode == "request_rate" and not guess.is_limited
    if is_due:
        shift = 0.0  # all due requests are answered, whatever the service time
    far = nearest(place, mine)
    deviation = math.sqrt(spread**2 + (error.per_distance * far) ** 2 + guess.chance**2)
    count = sum(guess.name in row.residuals for row in anchors)
    quantile = student_t((1 + CONFIDENCE) / 2, max(count, 2))
    reach = min(math.hypot(quantile * deviation, guess.unsure), _MOST_LOG)
    # Throughput cannot exceed the arrival rate.
    above = min(reach, quantile * guess.chance + _ONE_MORE) if is_due else reach
    middle = guess.value * math.exp(max(-_MOST_LOG, min(shift, _MOST_LOG)))
    return Band(middle, middle * math.exp(-reach), middle * math.exp(above))


def limited_to(due_per_s: float, found: Band) -> Band:
    """Limit the throughput at a rate that seems to be too high to that rate."""
    return Band(min(found.value, due_per_s), min(found.low, due_per_s), min(found.high, due_per_s))


def nearest(place: Spot, anchors: Sequence[Anchor]) -> float:
    """Return the distance to the nearest measured load of the same model; the maximum if there is none."""
    return min((distance(place, anchor_spot(row)) for row in anchors), default=3.0)
