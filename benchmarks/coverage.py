"""Coverage of 95 % intervals on simulated servers: `python -m benchmarks.coverage [SERVERS] [RUNS] [SEED]`.

There are five families of servers, each with random parameters from a seed. Every server is measured in many
independent runs. The true value is the average over all of them; the spread of the runs is the width of an ideal
interval. The output has, for each family and figure, the share of intervals that contain the true value, the share of
runs without an interval, and the width relative to the spread: for the median server, at the 90th percentile, and at
most.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inferometer.stats.ends import Ends
from inferometer.stats.estimate import Estimate
from inferometer.stats.intervals import mean_estimate, mean_margin, percentile_estimates, rate_interval
from inferometer.stats.series import Series, percentile

Times = NDArray[np.float64]

SEED = 13
FIGURES = ("throughput", "mean", "p50", "p90", "p99")
SIZES = (400, 2000, 8000)  # requests in a run
PERCENTILES = {"p50": 50, "p90": 90, "p99": 99}
SURE = 1.96  # standard errors


@dataclass(frozen=True, slots=True)
class Run:
    """Requests that ended in the measured time: latencies in the order of ends, and the ends, in microseconds."""

    latency_us: Times
    ended_us: Times
    span_us: float


@dataclass(frozen=True, slots=True)
class Server:
    """Runs of one server, one after the other."""

    family: str
    requests: int  # approximate number in a run
    run: Callable[[np.random.Generator], Run]


def _measured(latency: Times, ends: Times, begin: float, span: float) -> Run:
    """Select the requests that end in the measured time; they may be in any order."""
    order = np.argsort(ends, kind="stable")
    ends, latency = ends[order] - begin, latency[order]
    inside = (ends > 0) & (ends <= span)
    return Run(latency[inside], ends[inside], span)


def _closed(services: Times, requests: int) -> Run:
    """Run of a closed loop; `services` has one row of service times for each client."""
    clients = len(services)
    ends = np.cumsum(services, axis=1)
    mean = float(services.mean())
    begin, span = 5 * mean, requests / clients * mean
    return _measured(services.ravel(), ends.ravel(), begin, span)


def steady(rng: np.random.Generator, requests: int) -> Callable[[np.random.Generator], Run]:
    """Every request takes about the same time, independently of the others."""
    clients, spread, base = int(rng.integers(1, 33)), rng.uniform(0.01, 0.4), rng.uniform(500, 50_000)
    each = requests // clients * 2 + 40

    def run(rng: np.random.Generator) -> Run:
        services = base * np.exp(spread * rng.standard_normal((clients, each)))
        services[:, 0] *= rng.random(clients)  # not all at once
        return _closed(services, requests)

    return run


def heavy_tailed(rng: np.random.Generator, requests: int) -> Callable[[np.random.Generator], Run]:
    """A few requests take many times as long as the others."""
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
    """Random arrivals at one queue, whose server is several times slower in some periods."""
    load, factor = rng.uniform(0.2, 0.55), rng.uniform(1.0, 4.0)
    base, share = rng.uniform(500, 20_000), rng.uniform(0.05, 0.2)
    length = max(2.0, share * requests / rng.uniform(20, 80))  # so that a run has many such periods
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
    """Mask of the requests in spells of about this length, which cover this share of all requests."""
    count = int(total / length) + 20
    on = rng.geometric(1 / length, count)
    off = rng.geometric(share / (1 - share) / length, count)
    lengths = np.stack((off, on), axis=1).ravel()
    slow = np.repeat(np.arange(2 * count) % 2 == 1, lengths)
    start = int(rng.integers(0, max(1, len(slow) - total)))
    return np.resize(slow[start:], total) if len(slow) - start < total else slow[start : start + total]


def lockstep(rng: np.random.Generator, requests: int) -> Callable[[np.random.Generator], Run]:
    """All clients start and end together; every round takes about the same time."""
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
    """Requests become slower or faster over time, linearly or mostly at the start."""
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


def servers(count: int, sizes: Sequence[int] = SIZES, seed: int = SEED) -> Iterator[Server]:
    """The same number of servers of each family."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        family = list(FAMILIES)[number % len(FAMILIES)]
        requests = int(rng.choice(sizes))
        yield Server(family, requests, FAMILIES[family](rng, requests))


def estimates(run: Run) -> dict[str, Estimate]:
    """Estimates from this run: in nanoseconds, and requests per microsecond."""
    values, ends = _nanoseconds(run), Ends()
    ends.append(run.ended_us.astype(np.int64), values)
    series = Series(values)
    percentiles = percentile_estimates(series, PERCENTILES.values())
    return {
        "throughput": rate_interval(len(values) / run.span_us, ends.groups(), int(run.span_us)),
        "mean": mean_estimate(float(series.mean), mean_margin(series)),
        **{name: percentiles[p] for name, p in PERCENTILES.items()},
    }


def _nanoseconds(run: Run) -> NDArray[np.int64]:
    return (run.latency_us * 1000).astype(np.int64)


def _figures(latency_ns: NDArray[np.int64], span_us: float) -> dict[str, float]:
    return {
        "throughput": len(latency_ns) / span_us,
        "mean": float(latency_ns.mean()),
        **{name: float(percentile(latency_ns, p)) for name, p in PERCENTILES.items()},
    }


@dataclass(frozen=True, slots=True)
class Score:
    """Coverage of one figure of one server, over some of its runs."""

    family: str
    figure: str
    runs: int
    known: int  # runs with an interval
    held: int  # those that contain the true value
    wider: float  # width relative to the spread of the runs; nan without intervals


def scores(server: Server, runs: int, judged: int, seed: Sequence[int]) -> list[Score]:
    """Score the first `judged` of `runs` independent runs."""
    rng = np.random.default_rng(seed)
    made = [server.run(rng) for _ in range(runs)]
    truth = _figures(np.concatenate(list(map(_nanoseconds, made))), sum(run.span_us for run in made))
    each = [_figures(_nanoseconds(run), run.span_us) for run in made]
    found = [estimates(run) for run in made[:judged]]
    return [_score(server.family, name, truth, each, found) for name in FIGURES]


def _score(
    family: str,
    name: str,
    truth: dict[str, float],
    each: Sequence[dict[str, float]],
    found: Sequence[dict[str, Estimate]],
) -> Score:
    ends = [(row[name].low, row[name].high) for row in found]
    known = [(low, high) for low, high in ends if low is not None and high is not None]
    spread = SURE * float(np.std([row[name] for row in each], ddof=1))
    widths = [
        (high - low) / 2 / spread if spread else 1.0 for low, high in known
    ]  # a spread of zero cannot be compared with
    held = sum(low <= truth[name] <= high for low, high in known)
    return Score(family, name, len(found), len(known), held, float(np.median(widths)) if known else np.nan)


def table(found: Sequence[Score]) -> str:
    """Format a line for each family and figure, and one for all families."""
    lines = [f"{'family':14}{'figure':12}{'held':>8}{'unknown':>9}{'wider':>7}{'p90':>7}{'most':>7}"]
    for family in (*FAMILIES, "all"):
        for figure in FIGURES:
            rows = [row for row in found if row.figure == figure and family in (row.family, "all")]
            known, runs = sum(row.known for row in rows), sum(row.runs for row in rows)
            wider = np.array([row.wider for row in rows if row.known])
            middle, high, most = np.percentile(wider, [50, 90, 100]) if len(wider) else [np.nan] * 3
            held = sum(row.held for row in rows) / max(known, 1)
            lines.append(
                f"{family:14}{figure:12}{held:8.1%}{1 - known / runs:9.1%}{middle:7.2f}{high:7.2f}{most:7.2f}"
            )
    return "\n".join(lines)


def main(count: int, runs: int, seed: int) -> None:
    judged = max(runs // 4, 1)
    found = [
        row
        for number, server in enumerate(servers(count, seed=seed))
        for row in scores(server, runs, judged, (seed, number))
    ]
    print(table(found))


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:]]
    main(*(given + [200, 40, SEED][len(given) :]))
