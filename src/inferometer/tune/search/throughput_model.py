"""A fast throughput model: a model server as a queue, averaged over time.

    n requests in flight --> outside (client, network) --> queue --> k instances, batches of up to b --> back

With N requests at the server and k instances, an instance that becomes free finds about N / (k + 1) of them waiting,
since the others are being executed. Batches have that size, between 1 and b. An execution of m takes
`fixed + m * item`, longer if more instances are busy than there are cores. The rate follows from N, and N from the
rate (requests outside are not at the server); a few iterations converge. Everything is vectorized: a thousand forecasts
at once.
"""

import numpy as np
from numpy.typing import NDArray

from inferometer.base.frozen import frozen

Array = NDArray[np.float64]
ROUNDS = 24
MOST_USE = 0.98  # maximum utilisation in a forecast of the waiting time
LOOK_S = 1.0  # approximate duration of a measurement at a rate
MISFIT = 0.06  # relative error of a good model, including noise
WORST = 0.7  # bound of an error
HEATS = (8.0, 4.0, 2.0, 1.5, 1.0, 1.0)  # per round of a fit: how much worse a row may be to be kept


@frozen
class OperatingPoints:
    """Points to forecast: instances, largest batch (in requests), delay and load of each."""

    instances: Array
    batch: Array
    delay_s: Array
    load: Array
    by_rate: bool = False

    def at(self, rows: list[int] | NDArray[np.int64]) -> "OperatingPoints":
        return OperatingPoints(
            self.instances[rows], self.batch[rows], self.delay_s[rows], self.load[rows], self.by_rate
        )


PARAMETERS = 5  # logarithms of fixed_s, item_s, outside_s, cores; and the scaling of busy instances

# Plausible range of a model server: 10 us to 3 s fixed, 1 us to 1 s per item, 30 us to 0.3 s outside.
LOW = np.log(np.array([1e-5, 1e-6, 3e-5, 0.7, 1.0]))
HIGH = np.log(np.array([3.0, 1.0, 0.3, 64.0, np.e]))


def throughput(parameters: Array, points: OperatingPoints) -> Array:
    """Return requests/s for each row of parameters (logs) and each point: shape (rows, points)."""
    fixed, item, outside, cores = (np.exp(parameters[:, [column]]) for column in range(4))
    # 0: instances do not disturb each other; 1: they share one core's worth beyond `cores`.
    exponent = np.clip(parameters[:, [4]], 0.0, 1.0)
    k, b = points.instances[None, :], points.batch[None, :]
    delay, n = points.delay_s[None, :], points.load[None, :]
    if points.by_rate:
        return np.asarray(np.minimum(n, _capacity(fixed, item, cores, exponent, k, b)))
    can_wait = bool((delay > 0).any())
    # The hottest lines of the tuner: contiguous arrays are faster than broadcast ones, and reused ones than new ones.
    fixed, item, outside, cores, exponent, k, b, n = map(
        np.ascontiguousarray, np.broadcast_arrays(fixed, item, outside, cores, exponent, k, b, n)
    )
    sharers = k + 1
    rate = n / (outside + fixed + item)
    for _ in range(ROUNDS):
        inside = np.maximum(n - rate * outside, 1e-3)
        busy = np.minimum(k, inside)
        batch = _between_1_and(b, inside / sharers)
        if can_wait:
            whole = inside / k
            waits = (delay > 0) & (whole < b) & (inside >= 1)
            batch = np.where(waits, _between_1_and(b, whole), batch)
        service = batch * item
        service += fixed
        service *= _slowdown(busy, cores, exponent)
        if can_wait:
            service += np.where(waits, delay, 0.0)
        busy *= batch
        busy /= service
        service += outside
        rate += np.minimum(busy, np.divide(n, service, out=service), out=busy)
        rate *= 0.5
    return np.asarray(rate)


def latency_s(parameters: Array, points: OperatingPoints) -> Array:
    """Return the mean latency at a request rate, for each row of parameters and each point.

    A batch holds the arrivals during the previous execution; waiting follows Sakasegawa's approximation of M/M/k.
    Beyond the capacity the queue grows for the duration of the measurement.
    """
    fixed, item, outside, cores = (np.exp(parameters[:, [column]]) for column in range(4))
    exponent = np.clip(parameters[:, [4]], 0.0, 1.0)
    k, b = points.instances[None, :], points.batch[None, :]
    delay, rate = points.delay_s[None, :], points.load[None, :]
    batch, service = np.ones_like(fixed * rate), fixed + item
    for _ in range(ROUNDS // 2):
        service = (fixed + batch * item) * _slowdown(np.minimum(k, rate * service / batch), cores, exponent)
        batch = 0.5 * batch + 0.5 * np.clip(rate / k * (service + delay), 1.0, b)
    capacity = _capacity(fixed, item, cores, exponent, k, b)
    use = np.minimum(rate / capacity, MOST_USE)
    wait = service * use ** np.sqrt(2 * (k + 1)) / (k * (1 - use))
    growth = LOOK_S / 2 * np.maximum(0.0, 1 - capacity / rate)
    return np.asarray(outside + np.where(batch < b, delay, 0.0) + service + wait + growth)


def _between_1_and(most: Array, values: Array) -> Array:
    np.maximum(values, 1.0, out=values)
    return np.asarray(np.minimum(values, most, out=values))


def _slowdown(busy: Array, cores: Array, exponent: Array) -> Array:
    crowd = np.maximum(1.0, busy / cores)
    # Most values are one, whose power is one, and powers are expensive.
    return np.asarray(np.power(crowd, exponent, out=crowd, where=crowd > 1.0))


def _capacity(fixed: Array, item: Array, cores: Array, exponent: Array, k: Array, b: Array) -> Array:
    return k * b / ((fixed + b * item) * _slowdown(k, cores, exponent))


def fit(
    points: OperatingPoints,
    measured: Array,
    seed: int,
    *,
    members: int,
    start: Array | None = None,
    waited_s: Array | None = None,
) -> Array:
    """Return `members` rows of parameters that agree with the measured rates, best first. The rows differ in the
    parameters that the measurements do not determine.

    A population is drawn from the plausible range, and in each round from the rows that agree best, slightly perturbed
    (population Monte Carlo). Below its capacity a server answers at the request rate, whatever its parameters are:
    there only the latency, `waited_s`, is informative.
    """
    random = np.random.default_rng(seed)
    logs = np.log(np.maximum(measured, 1e-9))
    points, which = _distinct(points)
    rows = LOW + (HIGH - LOW) * random.random((400, PARAMETERS))
    if start is not None:
        rows[: len(start)] = start
    width = (HIGH - LOW) / 6
    for heat in HEATS:
        errors = np.log(np.maximum(throughput(rows, points), 1e-9))[:, which] - logs
        misses = (np.minimum(np.abs(errors), WORST) ** 2).sum(axis=1)
        if waited_s is not None:
            late = np.minimum(np.abs(np.log(latency_s(rows, points)[:, which] / waited_s)), 2.0)
            misses += 0.25 * np.nansum(late**2, axis=1)
        chances = np.exp(-(misses - misses.min()) / (2 * (heat * MISFIT) ** 2))
        chosen = random.choice(len(rows), 200, p=chances / chances.sum())
        best, rows = rows[int(misses.argmin())], rows[chosen]
        last = rows
        rows = np.clip(rows + width * random.standard_normal(rows.shape), LOW, HIGH)
        rows[0] = best
        width = width / 1.8
    return np.vstack([best[None, :], last[: members - 1]])


def _distinct(points: OperatingPoints) -> tuple[OperatingPoints, NDArray[np.int64]]:
    """Return the distinct points, and the index of each: repeated points are computed once."""
    columns = np.stack([points.instances, points.batch, points.delay_s, points.load])
    (instances, batch, delay_s, load), which = np.unique(columns, axis=1, return_inverse=True)
    return OperatingPoints(instances, batch, delay_s, load, points.by_rate), which.reshape(-1)
