"""Intervals cover the truth as often as specified, even if neighbours are correlated."""

import math
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

import numpy as np
import pytest

from inferometer.stats.ends import Ends
from inferometer.stats.intervals import (
    mean_estimate,
    mean_margin,
    percentile_estimates,
    rate_interval,
    relative_difference,
)
from inferometer.stats.series import Series
from inferometer.stats.stopping import Precision, judge_precision
from tests.support.samples import sample

RUNS = sample(100, 300)
MS = 1_000_000
WARM = 3000  # requests before the measurement, for the queue to settle
SPREAD = 0.4


@dataclass(frozen=True)
class Server:
    """Simulated latencies of many runs at once, and the true figures."""

    requests: int
    kind: str
    memory: float  # of a series: the share of the last value that remains; of a queue: the load

    def latencies(self):
        return _drawn(self)[0]

    def ends_us(self):
        return _drawn(self)[1]

    def truth(self, p):
        """Return the true mean (None) or percentile, in nanoseconds."""
        if self.kind == "queue":  # the time in the system is exponential
            return MS / (1 - self.memory) * (1 if p is None else -math.log(1 - p / 100))
        return MS * math.exp(SPREAD**2 / 2 if p is None else SPREAD * NormalDist().inv_cdf(p / 100))

    @property
    def rate(self):
        """Ends per second."""
        return 1000 * self.memory if self.kind == "queue" else 1e9 / self.truth(None)


@cache
def _drawn(server):
    rng = np.random.default_rng(20)
    return (_queue if server.kind == "queue" else _series)(rng, server)


def _series(rng, server):
    """One request after the other; the logarithms of their latencies are an autocorrelated series."""
    noise = rng.normal(0, 1, (server.requests, RUNS))
    values = np.empty((server.requests, RUNS))
    value = rng.normal(0, 1, RUNS)
    keep, fresh = server.memory, math.sqrt(1 - server.memory**2)
    for number in range(server.requests):
        value = keep * value + fresh * noise[number]
        values[number] = value
    latencies = np.exp(SPREAD * values.T) * MS
    return latencies.astype(np.int64), np.cumsum(latencies / 1000, axis=1)


def _queue(rng, server):
    """Random arrivals at one server with random service times of 1 ms on average: many requests share a wait."""
    shape = (RUNS, WARM + server.requests)
    gaps, services = rng.exponential(1 / server.memory, shape), rng.exponential(1.0, shape)
    steps = np.zeros(shape)
    steps[:, 1:] = services[:, :-1] - gaps[:, 1:]
    walk = np.cumsum(steps, axis=1)
    latencies = walk - np.minimum.accumulate(walk, axis=1) + services
    ends = np.cumsum(gaps, axis=1) + latencies
    begin = ends[:, WARM - 1 : WARM]
    return (latencies[:, WARM:] * MS).astype(np.int64), (ends[:, WARM:] - begin) * 1000


def latency_interval(series, p):
    if p is None:
        return mean_estimate(float(series.mean()), mean_margin(Series(series)))
    return percentile_estimates(Series(series), [p])[p]


def throughput_interval(ends_us):
    span_us = int(ends_us[-1]) + 1
    return rate_interval(len(ends_us) / span_us * 1e6, ended(ends_us), span_us)


def ended(ends_us, latency_us=0.001):
    found = Ends()
    latencies = np.broadcast_to(np.asarray(latency_us) * 1000, len(ends_us)).astype(np.int64)
    found.append(np.asarray(ends_us).astype(np.int64), latencies)
    return found.groups()


def test_ends_at_the_same_moment_give_no_interval_of_a_rate():
    found = rate_interval(1e6, ended([500] * 200), 1000)
    assert (found.value, found.low, found.high) == (1e6, None, None)


SERVERS = {
    "independent": Server(1000, "series", 0.0),
    "alike": Server(10_000, "series", 0.9),
    "queue at 50 %": Server(15_000, "queue", 0.5),
    "queue at 30 %": Server(4000, "queue", 0.3),
    "much alike": Server(20_000, "series", 0.97),
    "queue at 80 %": Server(20_000, "queue", 0.8),
}
DRAWN = sample(list(SERVERS)[:3], list(SERVERS))
FIGURES = {"mean": None, "p50": 50, "p90": 90, "p99": 99}
ENOUGH = [
    (server, figure)
    for server in DRAWN
    for figure in FIGURES
    if (server, figure) != ("queue at 80 %", "p99")  # some of these runs see too few busy times
]


@cache
def latency_intervals(server, figure):
    return [latency_interval(series, FIGURES[figure]) for series in SERVERS[server].latencies()]


@cache
def rate_intervals(server):
    return [throughput_interval(ends) for ends in SERVERS[server].ends_us()]


@pytest.mark.sampled
@pytest.mark.parametrize(("server", "figure"), ENOUGH)
def test_interval_of_a_latency_covers_the_truth(server, figure):
    truth = SERVERS[server].truth(FIGURES[figure])
    found = latency_intervals(server, figure)
    given = [estimate for estimate in found if estimate.low is not None]
    assert len(given) >= 0.8 * RUNS
    assert 0.9 <= np.mean([estimate.low <= truth <= estimate.high for estimate in given]) <= 0.99


@pytest.mark.sampled
@pytest.mark.parametrize("server", DRAWN)
def test_interval_of_the_rate_covers_the_truth(server):
    truth = SERVERS[server].rate
    found = rate_intervals(server)
    assert 0.9 <= np.mean([estimate.low <= truth <= estimate.high for estimate in found]) <= 0.99


@pytest.mark.sampled
@pytest.mark.parametrize(("server", "figure"), ENOUGH)
def test_two_runs_of_the_same_latency_are_seldom_called_different(server, figure):
    assert false_alarms(latency_intervals(server, figure)) <= 0.07


@pytest.mark.sampled
@pytest.mark.parametrize("server", DRAWN)
def test_two_runs_of_the_same_rate_are_seldom_called_different(server):
    assert false_alarms(rate_intervals(server)) <= 0.07


@pytest.mark.sampled
@pytest.mark.parametrize(("server", "precision"), [("queue at 30 %", 0.09), ("independent", 0.03)])
def test_interval_covers_the_truth_even_if_precision_ended_the_run(server, precision):
    """Checking repeatedly and stopping when the interval happens to be narrow must not invalidate it."""
    made = SERVERS[server]
    rule = Precision(precision, duration_ns=20)
    runs = zip(made.latencies(), made.ends_us(), strict=True)
    hits = [_ends_inside(rule, series, ends, made.truth(None)) for series, ends in runs]
    assert 0.9 <= np.mean(hits) <= 0.99


def _ends_inside(rule, series, ends_us, truth):
    for window in range(6, 21):
        seen = len(series) * window // 20
        latency = latency_interval(series[:seen], None)
        estimates = (("throughput", throughput_interval(ends_us[:seen])), ("mean latency", latency))
        if judge_precision(rule, window, estimates).is_done:
            break
    return latency.low <= truth <= latency.high


def false_alarms(found):
    """Compare each run with ten others."""
    pairs = [(found[number], found[(number + k) % RUNS]) for number in range(RUNS) for k in range(1, 11)]
    changes = [relative_difference(one, other) for one, other in pairs]
    return np.mean([change.low is not None and (change.low > 0 or change.high < 0) for change in changes])


def test_steady_series_has_no_width():
    found = latency_interval(np.full(100, 5, dtype=np.int64), None)
    assert (found.low, found.high) == (5.0, 5.0)


def test_steady_server_has_a_narrow_rate_even_with_few_requests():
    ends = np.arange(1, 101) * 1000
    assert rate_interval(1000.0, ended(ends), 100_400).relative_half_width < 0.02


@pytest.mark.parametrize("count", [0, 1, 15])
def test_too_few_values_give_no_interval(count):
    series = Series(np.ones(count, dtype=np.int64))
    assert mean_margin(series) is None
    assert not count or percentile_estimates(series, [50])[50].low is None
    assert rate_interval(1.0, ended(np.arange(count)), 100).low is None


def test_rare_percentile_needs_more_values():
    series = np.random.default_rng(1).integers(1, 1000, 300)
    assert latency_interval(series, 99).low is None
    assert latency_interval(series, 50).low is not None


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(sample(3, 20)))
@pytest.mark.parametrize("count", [20, 50, 100, 350])
def test_percentile_next_to_the_maximum_has_no_interval(count, seed):
    rng = np.random.default_rng(seed)
    for series in (
        rng.exponential(1e6, count),
        rng.normal(1e6, 1e4, count),
        np.append(np.full(count - 1, 1e6), 2e6),
        np.full(count, 1e6),
    ):
        assert percentile_estimates(Series(series.astype(np.int64)), [90, 95, 99])[99].low is None


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(sample(6, 30)))
def test_percentiles_beyond_one_without_an_interval_have_none(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(16, 3000))
    spells = np.repeat(rng.gamma(1, 1e6, count), int(rng.integers(1, 50)))[:count]
    series = (spells * rng.gamma(3, 1, count)).astype(np.int64)
    found = percentile_estimates(Series(series), [1, 5, 25, 75, 90, 95, 99])
    for outwards in ([50, 75, 90, 95, 99], [50, 25, 5, 1]):
        known = [found[p].low is not None for p in outwards]
        assert known == sorted(known, reverse=True)


def test_a_percentile_alone_has_the_same_interval_as_among_others():
    series = Series(np.random.default_rng(4).integers(1, 1000, 60))
    for p in (90, 95, 99):
        assert percentile_estimates(series, [p])[p].low is None or p == 90


@pytest.mark.parametrize("apart_us", [0, 20, 4000])
@pytest.mark.parametrize("clients", [2, 5, 20])
def test_answers_in_lockstep_have_a_narrow_rate(clients, apart_us):
    """All answers of a round come together, and each round takes equally long: nothing is uncertain."""
    rounds = np.repeat(np.arange(1, 400 // clients + 1) * 550_000, clients)
    ends = rounds + np.tile(np.arange(clients) * apart_us, 400 // clients)
    span_us = int(ends[-1])
    found = rate_interval(len(ends) / span_us * 1e6, ended(ends), span_us)
    assert found.relative_half_width < 0.01


def test_too_few_rounds_in_lockstep_give_no_interval_of_the_rate():
    ends = np.repeat(np.arange(1, 9) * 550_000, 50)
    assert rate_interval(1.0, ended(ends), int(ends[-1])).low is None


def _clients(seed, clients, each, spread):
    """Clients that send one request after the other, with different starts; requests that end in the first 12 s."""
    rng = np.random.default_rng(seed)
    latency = 1e6 * np.exp(spread * rng.standard_normal((clients, each)))
    ends = np.cumsum(latency, axis=1) - 1e6 * (2 + rng.random((clients, 1)))
    inside = (ends > 0) & (ends <= 12e6)
    order = np.argsort(ends[inside])
    return ends[inside][order], latency[inside][order]


@pytest.mark.parametrize("spread", [0.01, 0.1, 0.3])
def test_many_clients_have_a_rate_as_precise_as_their_latency(spread):
    """Requests that just missed one section are counted in the next, which does not affect the whole."""
    runs = [_clients(seed, clients=30, each=60, spread=spread) for seed in range(60)]
    truth = np.mean([len(ends) for ends, _ in runs])
    found = [rate_interval(len(ends), ended(ends, latency), 12_000_000) for ends, latency in runs]
    assert np.mean([estimate.low <= truth <= estimate.high for estimate in found]) >= 0.85
    widths = [(estimate.high - estimate.low) / 2 for estimate in found]
    assert np.median(widths) < 2 * 1.96 * np.std([len(ends) for ends, _ in runs], ddof=1)


@pytest.mark.parametrize("latency_us", [500, 20_000])
def test_random_arrivals_are_not_more_precise_because_requests_take_equally_long(latency_us):
    """The number in flight is as random as the arrivals, so the latency does not determine the rate."""
    ends = np.cumsum(np.random.default_rng(3).exponential(1000, 2000))
    found = rate_interval(1000.0, ended(ends, latency_us), int(ends[-1]) + 1)
    assert found.relative_half_width > 1.5 / math.sqrt(2000)


def test_drift_does_not_widen_the_interval_of_the_mean_over_the_measured_time():
    rng = np.random.default_rng(6)
    noise = 1e6 * (1 + 0.1 * rng.standard_normal(5000))
    steady, drifting = (
        latency_interval((noise * (1 + part)).astype(np.int64), None)
        for part in (0, np.linspace(0, 0.6, 5000))
    )
    assert drifting.high - drifting.low < 2 * (steady.high - steady.low)


def test_the_tail_of_a_run_that_missed_slow_periods_does_not_count_as_independent():
    """A queue whose waits are shared by dozens: the p99 of 4,000 requests depends on a few busy periods."""
    server = Server(4000, "queue", 0.8)
    found = [latency_interval(series, 99) for series in server.latencies()]
    assert np.mean([estimate.low is None for estimate in found]) > 0.95


def test_interval_of_a_tail_percentile_is_asymmetric():
    series = np.random.default_rng(2).exponential(1e6, 5000).astype(np.int64)
    found = latency_interval(series, 99)
    assert found.high - found.value > found.value - found.low


def _rounds(rng, rounds, clients=20, base_us=550_000.0):
    """Clients in lockstep whose rounds take a little longer at some times than at others: latencies and ends."""
    slow, shared = rng.normal(0, 5000), []
    for _ in range(rounds):
        slow = 0.9 * slow + rng.normal(0, 1000)
        shared.append(slow)
    latency = base_us + np.array(shared)[:, np.newaxis] + np.abs(rng.normal(0, 20_000, (rounds, clients)))
    return latency, np.cumsum(latency + 300, axis=0)


def _rate(latency, ends, span_us):
    order = np.argsort(ends, kind="stable")
    found = Ends()
    found.append(ends[order].astype(np.int64), (latency[order] * 1000).astype(np.int64))
    return rate_interval(len(ends) / span_us, found.groups(), int(span_us))


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(sample(6, 40)))
def test_correlated_answers_in_lockstep_have_a_plausible_rate(seed):
    latency, ends = _rounds(np.random.default_rng(seed), 20)
    found = _rate(latency.ravel(), ends.ravel(), ends.max())
    assert found.relative_half_width < 0.06


def test_lockstep_cut_at_any_point_has_an_interval_of_the_right_width():
    """One round more or less is in the measured time by chance."""
    held, truth = 0, 20 / 551_500
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)
        latency = 550_000 + np.abs(rng.normal(0, 1500, (110, 20)))
        latency += 551_200 - latency.mean()
        ends = np.cumsum(latency + 300, axis=0) - 1e6 - rng.random() * 550_000
        inside = (ends > 0) & (ends <= 44e6)
        found = _rate(latency[inside], ends[inside], 44e6)
        held += found.low <= truth <= found.high
        assert found.relative_half_width < 0.02
    assert held >= 0.9 * RUNS
