"""Gaussian processes on a few dozen points: the error of a model, and its uncertainty elsewhere.

Distances are in doublings (log2) for numbers and 0 or 1 for anything else. Scale, length and noise are chosen from a
small table by maximum likelihood.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from inferometer.tune.search.throughput_model import Array

SCALES = (0.03, 0.08, 0.2, 0.45)
LENGTHS = (1.5, 3.0, 6.0)
NOISES = (0.02, 0.06, 0.15)


@dataclass(slots=True)
class Covariances:
    """Covariances of the measured points and of the places to predict; all figures of the same points share them."""

    points: Array
    places: Array
    _spectra: list[tuple[Array, Array]] = field(default_factory=list)
    _across: dict[float, Array] = field(default_factory=dict)

    def spectra(self) -> list[tuple[Array, Array]]:
        """Eigenvalues and eigenvectors of the covariance of the points, for each length."""
        if not self._spectra:
            self._spectra = [np.linalg.eigh(_kernel(self.points, self.points, length)) for length in LENGTHS]
        return self._spectra

    def across(self, length: float) -> Array:
        """The covariance of the places with the points."""
        if length not in self._across:
            self._across[length] = _kernel(self.places, self.points, length)
        return self._across[length]


@dataclass(frozen=True, slots=True)
class GaussianProcess:
    """Fitted: predicts mean and standard deviation at the places of its covariances."""

    covariances: Covariances
    offset: float
    scale: float
    length: float
    noise: float
    vectors: Array  # of the covariance, with one over its values: its inverse in parts
    inverses: Array
    weights: Array

    def predict(self) -> tuple[Array, Array]:
        across = self.scale**2 * self.covariances.across(self.length)
        mean = self.offset + across @ self.weights
        turned = across @ self.vectors
        variance = self.scale**2 - (turned**2) @ self.inverses
        return mean, np.sqrt(np.maximum(variance, 1e-8))


def _kernel(first: Array, second: Array, length: float) -> Array:
    squares = (first**2).sum(axis=1)[:, None] + (second**2).sum(axis=1)[None, :] - 2 * first @ second.T
    root = math.sqrt(3.0) * np.sqrt(np.maximum(squares, 0.0)) / length
    return np.asarray((1 + root) * np.exp(-root))  # Matérn 3/2: kinks are allowed


def fit(covariances: Covariances, values: Array, *, least_scale: float = 0.0) -> GaussianProcess:
    """The most likely process of the table. One decomposition serves all scales and noises of a length."""
    offset = float(np.median(values))
    table = np.array([(scale, noise) for scale in SCALES if scale >= least_scale for noise in NOISES])
    squares = table**2
    best, found = -math.inf, None
    for length, (sizes, vectors) in zip(LENGTHS, covariances.spectra(), strict=True):
        turned = vectors.T @ (values - offset)
        totals = squares[:, :1] * np.maximum(sizes, 0.0) + squares[:, 1:]
        likelihoods = -0.5 * ((turned**2 / totals).sum(axis=1) + np.log(totals).sum(axis=1))
        row = int(likelihoods.argmax())
        if found is None or likelihoods[row] > best:
            best, found = float(likelihoods[row]), (length, row, vectors, turned, totals[row])
    assert found is not None
    length, row, vectors, turned, total = found
    scale, noise = (float(one) for one in table[row])
    return GaussianProcess(
        covariances, offset, scale, length, noise, vectors, 1 / total, vectors @ (turned / total)
    )
