"""How often 95 % intervals hold the truth, on simulated servers: `python -m benchmarks.coverage [SERVERS] [RUNS]`.

Five families of servers, each with random parameters from a seed. Every server is measured in many independent runs.
The truth is what all of them say together; the spread of the runs is what an ideal interval would show. Printed for
each family and figure: the share of intervals that hold the truth, the share that is unknown, and how much wider than
the spread of the runs they are, in the middle and at the 90th percentile of the servers.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.float64]

SEED = 13
FIGURES = ("throughput", "mean", "p50", "p90", "p99")
SECOND_US = 1e6


@dataclass(frozen=True, slots=True)
class Run:
    """What ended in the measured time: latencies in the order of ends, and the ends, both in microseconds."""

    latency_us: Times
    ended_us: Times
    span_us: float


@dataclass(frozen=True, slots=True)
class Server:
    """Runs of one server, one after the other."""

    family: str
    requests: int  # about as many in a run
    run: Callable[[np.random.Generator], Run]


def _measured(latency: Times, ends: Times, begin: float, span: float) -> Run:
    """What ends in the measured time out of more, in any order."""
    order = np.argsort(ends, kind="stable")
    ends, latency = ends[order] - begin, latency[order]
    inside = (ends > 0) & (ends <= span)
    return Run(latency[inside], ends[inside], span)


def _closed(services: Times, requests: int) -> Run:
    """One row for each of the clients, who send the next request when the last one has ended."""
    clients = len(services)
    ends = np.cumsum(services, axis=1)
    mean = float(services.mean())
    begin, span = 5 * mean, requests / clients * mean
    return _measured(services.ravel(), ends.ravel(), begin, span)


def steady(rng: np.random.Generator, requests: int) -> Callable[[np.random.Generator], Run]:
    """Every request takes about as long as the others, whatever they do."""
    clients, spread, base = int(rng.integers(1, 33)), rng.uniform(0.01, 0.4), rng.uniform(500, 50_000)
    each = requests // clients * 2 + 40

    def run(rng: np.random.Generator) -> Run:
        services = base * np.exp(spread * rng.standard_normal((clients, each)))
        services[:, 0] *= rng.random(clients)  # not all at once
        return _closed(services, requests)

    return run


def heavy_tailed(rng: np.random.Generator, requests: int) -> Callable[[np.random.Generator], Run]:
    """Some requests take many times as long as most."""
    clients, base = int(rng.integers(1, 33)), rng.uniform(500, 50_000)
    is_pareto, spread, slope = rng.random() < 0.4, rng.uniform(0.8, 1.3), rng.uniform(2.5, 4.0)
    each = requests // clients * 3 + 80

    def run(rng: np.random.Generator) -> Run:
        shape = (clients, each)
        services = base * (
            1 + rng.pareto(slope, shape) if is_pareto else np.exp(spread * rng.standard_normal(shape))
        )
        ends = np.cumsum(services, axis=1)
        mean = base * (slope / (slope - 1) if is_pareto else np.exp(spread**2 / 2))
        return _measured(services.ravel(), ends.ravel(), 10 * mean, requests / clients * mean)

    return run


def bursty(rng: np.random.Generator, requests: int) -> Callable[[np.random.Generator], Run]:
    """Random arrivals at one queue, whose server is several times slower at some times."""
    load, factor = rng.uniform(0.2, 0.55), rng.uniform(1.0, 4.0)
    base, share = rng.uniform(500, 20_000), rng.uniform(0.05, 0.2)
    length = max(2.0, share * requests / rng.uniform(20, 80))  # so that a run sees many such times
    mean = 1 + share * (factor - 1)
    total = requests + 1000

    def run(rng: np.random.Generator) -> Run:
        gaps = rng.exponential(mean / load, total)
        slow = _spells(rng, total, length, share)
        services = rng.exponential(1.0, total) * np.where(slow, factor, 1.0)
        walk = np.cumsum(np.concatenate(([0.0], services[:-1] - gaps[1:])))
        latency = walk - np.minimum.accumulate(walk) + services
        ends = np.cumsum(gaps) + latency
        begin = float(np.cumsum(gaps)[600])
        return _measured(latency * base, ends * base, begin * base, requests * 0.8 * mean / load * base)

    return run


def _spells(rng: np.random.Generator, total: int, length: float, share: float) -> NDArray[np.bool_]:
    """Which requests fall into spells of about this length, which are this share of all."""
    count = int(total / length) + 20
    on = rng.geometric(1 / length, count)
    off = rng.geometric(share / (1 - share) / length, count)
    lengths = np.stack((off, on), axis=1).ravel()
    slow = np.repeat(np.arange(2 * count) % 2 == 1, lengths)
    start = int(rng.integers(0, max(1, len(slow) - total)))
    return np.resize(slow[start:], total) if len(slow) - start < total else slow[start : start + total]


def lockstep(rng: np.random.Generator, requests: int) -> Callable[[np.random.Generator], Run]:
    """All clients begin together and end together; one round takes about as long as the other."""
    clients, spread, base = int(rng.integers(2, 33)), rng.uniform(0.001, 0.2), rng.uniform(5000, 500_000)
    apart = rng.uniform(0, 0.01)
    rounds = requests // clients
    by_count = rng.random() < 0.5

    def run(rng: np.random.Generator) -> Run:
        rows = rounds if by_count else 2 * rounds + 20
        lengths = base * np.exp(spread * rng.standard_normal((rows, 1)))
        own = lengths * (1 - apart * rng.random((rows, clients)))
        ends = np.cumsum(lengths, axis=0) - (lengths - own)
        if by_count:
            return _measured(own.ravel(), ends.ravel(), 0.0, float(ends.max()))
        begin = float(ends[3].max()) + rng.random() * base
        return _measured(own.ravel(), ends.ravel(), begin, rounds * base)

    return run


def drifting(rng: np.random.Generator, requests: int) -> Callable[[np.random.Generator], Run]:
    """Requests take longer and longer, or less and less; steadily, or fast at first."""
    clients, spread, base = int(rng.integers(1, 33)), rng.uniform(0.02, 0.4), rng.uniform(500, 50_000)
    change, bend = rng.uniform(-0.4, 0.8), rng.choice([0.5, 1.0, 2.0])
    each = requests // clients * 4 + 40
    span = requests / clients * base

    def run(rng: np.random.Generator) -> Run:
        noise = base * np.exp(spread * rng.standard_normal((clients, each)))
        began = -rng.random(clients) * noise[:, 0]  # not all at once
        services = np.empty_like(noise)
        now = began
        for number in range(each):
            part = np.clip(now / span, 0, 1) ** bend
            services[:, number] = noise[:, number] * (1 + change * part)
            now = now + services[:, number]
            if now.min() > span:
                services = services[:, : number + 1]
                break
        ends = began[:, np.newaxis] + np.cumsum(services, axis=1)
        return _measured(services.ravel(), ends.ravel(), 0.0, span)

    return run


FAMILIES = {
    "steady": steady,
    "bursty": bursty,
    "lockstep": lockstep,
    "drifting": drifting,
    "heavy-tailed": heavy_tailed,
}


def servers(count: int, seed: int = SEED) -> Iterator[Server]:
    """As many of each family as of the others."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        family = list(FAMILIES)[number % len(FAMILIES)]
        requests = int(rng.choice([400, 2000, 8000]))
        yield Server(family, requests, FAMILIES[family](rng, requests))
