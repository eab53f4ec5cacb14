"""Gaussian processes on a handful of points: what a forecast got wrong, and how sure that is elsewhere.

Distances are in doublings (log2) for numbers and 0 or 1 for anything else. The scale, the reach and the noise are
those, out of a small table, under which the points are most likely.
"""

import math
from dataclasses import dataclass

import numpy as np

from inferometer.tune.search.fluid import Array

SCALES = (0.03, 0.08, 0.2, 0.45)
REACHES = (1.5, 3.0, 6.0)
NOISES = (0.02, 0.06, 0.15)


@dataclass(frozen=True, slots=True)
class Process:
    """Fitted: predicts mean and standard deviation anywhere."""

    points: Array
    offset: float
    scale: float
    reach: float
    noise: float
    vectors: Array  # of the covariance, with one over its values: its inverse in parts
    inverses: Array
    weights: Array

    def predict(self, places: Array) -> tuple[Array, Array]:
        across = self.scale**2 * _kernel(places, self.points, self.reach)
        mean = self.offset + across @ self.weights
        turned = across @ self.vectors
        variance = self.scale**2 - (turned**2) @ self.inverses
        return mean, np.sqrt(np.maximum(variance, 1e-8))


def _kernel(first: Array, second: Array, reach: float) -> Array:
    squares = (first**2).sum(axis=1)[:, None] + (second**2).sum(axis=1)[None, :] - 2 * first @ second.T
    root = math.sqrt(3.0) * np.sqrt(np.maximum(squares, 0.0)) / reach
    return np.asarray((1 + root) * np.exp(-root))  # Matérn 3/2: kinks are allowed


def fit(points: Array, values: Array, *, least_scale: float = 0.0) -> Process:
    """The most likely process of the table. One decomposition serves all scales and noises of a reach."""
    best: tuple[float, Process] | None = None
    offset = float(np.median(values))
    for reach in REACHES:
        sizes, vectors = np.linalg.eigh(_kernel(points, points, reach))
        turned = vectors.T @ (values - offset)
        for scale in SCALES:
            for noise in NOISES if scale >= least_scale else ():
                totals = scale**2 * np.maximum(sizes, 0.0) + noise**2
                likelihood = -0.5 * float((turned**2 / totals).sum() + np.log(totals).sum())
                if best is None or likelihood > best[0]:
                    weights = vectors @ (turned / totals)
                    found = Process(points, offset, scale, reach, noise, vectors, 1 / totals, weights)
                    best = likelihood, found
    assert best is not None
    return best[1]
