"""Gaussian processes on a handful of points: what a forecast got wrong, and how sure that is elsewhere.

Distances are in doublings (log2) for numbers and 0 or 1 for anything else. The scale, the reach and the noise are
those, out of a small table, under which the points are most likely.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from inferometer.tune.search.throughput_model import Array

SCALES = (0.03, 0.08, 0.2, 0.45)
REACHES = (1.5, 3.0, 6.0)
NOISES = (0.02, 0.06, 0.15)


@dataclass(slots=True)
class Covariances:
    """Where there are values, and the places to predict: what all figures measured at the same points share."""

    points: Array
    places: Array
    _spectra: list[tuple[Array, Array]] = field(default_factory=list)
    _across: dict[float, Array] = field(default_factory=dict)

    def spectra(self) -> list[tuple[Array, Array]]:
        """Of the covariance of the points, for each reach: its values and its vectors."""
        if not self._spectra:
            self._spectra = [np.linalg.eigh(_kernel(self.points, self.points, reach)) for reach in REACHES]
        return self._spectra

    def across(self, reach: float) -> Array:
        """The covariance of the places with the points."""
        if reach not in self._across:
            self._across[reach] = _kernel(self.places, self.points, reach)
        return self._across[reach]


@dataclass(frozen=True, slots=True)
class GaussianProcess:
    """Fitted: predicts mean and standard deviation at the places of its ground."""

    ground: Covariances
    offset: float
    scale: float
    reach: float
    noise: float
    vectors: Array  # of the covariance, with one over its values: its inverse in parts
    inverses: Array
    weights: Array

    def predict(self) -> tuple[Array, Array]:
        across = self.scale**2 * self.ground.across(self.reach)
        mean = self.offset + across @ self.weights
        turned = across @ self.vectors
        variance = self.scale**2 - (turned**2) @ self.inverses
        return mean, np.sqrt(np.maximum(variance, 1e-8))


def _kernel(first: Array, second: Array, reach: float) -> Array:
    squares = (first**2).sum(axis=1)[:, None] + (second**2).sum(axis=1)[None, :] - 2 * first @ second.T
    root = math.sqrt(3.0) * np.sqrt(np.maximum(squares, 0.0)) / reach
    return np.asarray((1 + root) * np.exp(-root))  # Matérn 3/2: kinks are allowed


def fit(ground: Covariances, values: Array, *, least_scale: float = 0.0) -> GaussianProcess:
    """The most likely process of the table. One decomposition serves all scales and noises of a reach."""
    offset = float(np.median(values))
    table = np.array([(scale, noise) for scale in SCALES if scale >= least_scale for noise in NOISES])
    squares = table**2
    best, found = -math.inf, None
    for reach, (sizes, vectors) in zip(REACHES, ground.spectra(), strict=True):
        turned = vectors.T @ (values - offset)
        totals = squares[:, :1] * np.maximum(sizes, 0.0) + squares[:, 1:]
        likelihoods = -0.5 * ((turned**2 / totals).sum(axis=1) + np.log(totals).sum(axis=1))
        row = int(likelihoods.argmax())
        if found is None or likelihoods[row] > best:
            best, found = float(likelihoods[row]), (reach, row, vectors, turned, totals[row])
    assert found is not None
    reach, row, vectors, turned, total = found
    scale, noise = (float(one) for one in table[row])
    return GaussianProcess(
        ground, offset, scale, reach, noise, vectors, 1 / total, vectors @ (turned / total)
    )
