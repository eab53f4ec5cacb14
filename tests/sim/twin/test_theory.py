"""The simulation behind the twin against formulas: closed networks, several servers, shared cores, mixed traffic."""

import math
import random
from statistics import mean, stdev

import pytest

from inferometer.diagnose.pipeline import Cores, Pipeline, Station
from inferometer.load.plan import Poisson
from inferometer.twin.predict import _shared
from inferometer.twin.sharing import sharing
from inferometer.twin.simulate import MeasuredAs, PartPlan, SimulatedFigures, simulate
from inferometer.twin.twin import LoadPart

LONG = MeasuredAs(1000.0)
REQUESTS = 4000


def exponential_spread(count: int = 2000) -> tuple[float, ...]:
    values = [-math.log(1 - (number + 0.5) / count) for number in range(count)]
    mean = sum(values) / count
    return tuple(value / mean for value in values)


RANDOM = exponential_spread()


def alone(pipeline: Pipeline, load: LoadPart) -> SimulatedFigures:
    (found,) = simulate([PartPlan(pipeline, load)], LONG, requests=REQUESTS)
    return found


def poisson(rate: float, name: str = "m") -> LoadPart:
    return LoadPart(name, "request_rate", rate, "poisson")


def exact_closed_throughput(demands_s: list[float], customers: int) -> float:
    """Mean value analysis: exact for exponential service, one server each."""
    queues, throughput = [0.0] * len(demands_s), 0.0
    for number in range(1, customers + 1):
        times = [demand * (1 + queue) for demand, queue in zip(demands_s, queues, strict=True)]
        throughput = number / sum(times)
        queues = [throughput * time for time in times]
    return throughput


@pytest.mark.parametrize("customers", [2, 6])
def test_a_closed_row_of_exponential_steps_matches_mean_value_analysis(customers: int) -> None:
    demands_s = [0.006, 0.005, 0.002]
    stations = tuple(Station(f"s{number}", demand) for number, demand in enumerate(demands_s))
    found = alone(Pipeline(stations, variation=1.0), LoadPart("m", "concurrency", customers))
    assert found.figures["throughput"] == pytest.approx(
        exact_closed_throughput(demands_s, customers), rel=0.05
    )
    assert found.in_flight == pytest.approx(customers, rel=0.02)


def longer_than(rate: float, per_s: float, servers: int, limit_s: float) -> float:
    """Return the share of M/M/c requests that take longer, which is known exactly."""
    offered = rate / per_s
    full = offered**servers / math.factorial(servers) / (1 - offered / servers)
    waits = full / (sum(offered**number / math.factorial(number) for number in range(servers)) + full)
    spare = servers * per_s - rate - per_s
    return math.exp(-per_s * limit_s) * (1 + waits * (1 - math.exp(-spare * limit_s)) * per_s / spare)


@pytest.mark.parametrize(("servers", "busy"), [(1, 0.6), (3, 0.7)])
def test_random_arrivals_at_several_servers_match_the_exact_tail(servers: int, busy: float) -> None:
    per_s = 100.0
    station = Station("s", 1 / per_s, instances=servers, cpu=0.0)
    rate = busy * servers * per_s
    found = alone(Pipeline((station,), spread=RANDOM), poisson(rate))
    assert found.figures["throughput"] == pytest.approx(rate, rel=0.05)
    assert longer_than(rate, per_s, servers, found.figures["p99"] / 1e9) == pytest.approx(0.01, rel=0.5)
    assert longer_than(rate, per_s, servers, found.figures["p50"] / 1e9) == pytest.approx(0.5, rel=0.06)


def test_jobs_that_share_a_core_match_processor_sharing() -> None:
    """M/G/1 with processor sharing: service / (1 - utilisation), for any distribution of service times."""
    station = Station("s", 0.010, instances=500)
    found = alone(Pipeline((station,), spread=RANDOM, cores=Cores(1)), poisson(60.0))
    assert found.figures["mean"] == pytest.approx(0.010 / (1 - 0.6) * 1e9, rel=0.12)


def test_two_models_that_call_the_same_step_queue_for_each_other() -> None:
    """Pollaczek-Khinchine: the wait depends on the service times of both."""
    quick, slow = 0.004, 0.020
    step = Station("shared", 0.0, 0.001, cpu=0.0)
    pipelines = [Pipeline((step,), items=items, variation=0.0) for items in (4, 20)]
    rates = (60.0, 20.0)
    plans = [PartPlan(pipeline, poisson(rate)) for pipeline, rate in zip(pipelines, rates, strict=True)]
    found = simulate(plans, LONG, requests=REQUESTS)
    busy = rates[0] * quick + rates[1] * slow
    wait = (rates[0] * quick**2 + rates[1] * slow**2) / 2 / (1 - busy)
    for row, service in zip(found, (quick, slow), strict=True):
        assert row.figures["mean"] == pytest.approx((wait + service) * 1e9, rel=0.12)
    assert found[0].figures["throughput"] == pytest.approx(rates[0] * 4, rel=0.05)


def test_models_without_a_common_step_share_the_cores() -> None:
    """Two that keep a core busy, on one core: each is half as fast; a sleeping one is not affected."""
    busy = Pipeline((Station("busy", 0.010),), variation=0.0, cores=Cores(1))
    other = Pipeline((Station("other", 0.010),), variation=0.0, cores=Cores(1))
    asleep = Pipeline((Station("asleep", 0.010, cpu=0.0),), variation=0.0, cores=Cores(1))
    one = LoadPart("m", "concurrency", 1)
    first, second, third = simulate([PartPlan(row, one) for row in (busy, other, asleep)], MeasuredAs(10.0))
    assert first.figures["throughput"] == pytest.approx(50, rel=0.02)
    assert second.figures["throughput"] == pytest.approx(50, rel=0.02)
    assert third.figures["throughput"] == pytest.approx(100, rel=0.02)


def test_a_job_that_never_pauses_keeps_its_core() -> None:
    """Three jobs on two cores: those that come and go share the other core."""
    stays = Pipeline((Station("stays", 0.050),), variation=0.0, cores=Cores(2))
    breaks = (Station("pause", 0.002, cpu=0.0), Station("works", 0.025, instances=2))
    comes = Pipeline(breaks, variation=0.1, cores=Cores(2))
    loads = (LoadPart("stays", "concurrency", 2), LoadPart("comes", "concurrency", 2))
    first, second = simulate(
        [PartPlan(row, load) for row, load in zip((stays, comes), loads, strict=True)], MeasuredAs(10.0)
    )
    assert first.figures["throughput"] == pytest.approx(20, rel=0.05)
    assert second.figures["throughput"] == pytest.approx(40, rel=0.05)


@pytest.mark.parametrize(("cores", "expected"), [(1, 50), (2, 100), (8, 100)])
def test_a_step_of_two_threads_needs_two_cores(cores: int, expected: float) -> None:
    pipeline = Pipeline((Station("wide", 0.010, threads=2.0),), variation=0.0, cores=Cores(cores))
    found = alone(pipeline, LoadPart("m", "concurrency", 2))
    assert found.figures["throughput"] == pytest.approx(expected, rel=0.02)


def test_each_model_has_its_own_slowdown_on_busy_cores() -> None:
    """Two cores, each always with a job: one is not affected, the other is slower by the square root of two."""
    free = Pipeline((Station("free", 0.010),), variation=0.1, cores=Cores(2))
    tight = Pipeline((Station("tight", 0.010),), variation=0.1, cores=Cores(2, scaling=0.5))
    one = LoadPart("m", "concurrency", 1)
    for order in ((free, tight), (tight, free)):
        found = simulate([PartPlan(row, one) for row in order], MeasuredAs(10.0))
        rates = {
            row.stations[0].name: figure.figures["throughput"]
            for row, figure in zip(order, found, strict=True)
        }
        assert rates["free"] == pytest.approx(100, rel=0.02)
        assert rates["tight"] == pytest.approx(100 / math.sqrt(2), rel=0.02)


def log_p99s(rate: float, per_s: float, seconds: float, runs: int) -> list[float]:
    """Measurements of M/M/1 that begin with an idle server, by Lindley's recursion."""
    source, found = random.Random(11), []
    for _ in range(runs):
        now = free = 0.0
        latencies = []
        while (now := now + source.expovariate(rate)) < seconds:
            free = max(now, free) + source.expovariate(per_s)
            latencies.append(free - now)
        found.append(math.log(sorted(latencies)[math.floor(0.99 * len(latencies))]))
    return found


@pytest.mark.parametrize(("busy", "seconds"), [(0.9, 8.0), (0.9, 40.0)])
def test_measurements_of_random_arrivals_vary_as_predicted(busy: float, seconds: float) -> None:
    """Near saturation a queue lasts for seconds, so parts of a measurement are not independent."""
    rate = busy * 125.0
    pipeline = Pipeline((Station("s", 0.008, cpu=0.0),), spread=RANDOM)
    (found,) = simulate([PartPlan(pipeline, poisson(rate))], MeasuredAs(seconds))
    truth = log_p99s(rate, 125.0, seconds, 100)
    assert 0.6 < found.chance["p99"] / stdev(truth) < 1.7
    assert abs(math.log(found.figures["p99"] / 1e9) - mean(truth)) < stdev(truth)


def test_the_same_arrivals_give_the_same_requests() -> None:
    """The seed determines a random schedule: with fixed service times the p99 is exact."""
    rate, service_s, seconds, seed = 60.0, 0.010, 5.0, 3
    schedule, free_s, latencies = Poisson(rate, seed), 0.0, []
    for number in range(1000):
        due_s = schedule.due_ns(number) / 1e9
        free_s = max(due_s, free_s) + service_s
        if free_s < seconds:
            latencies.append(free_s - due_s)
    exact = sorted(latencies)[round(0.99 * (len(latencies) - 1))]
    pipeline = Pipeline((Station("s", service_s, cpu=0.0),), spread=(1.0,))
    (found,) = simulate([PartPlan(pipeline, poisson(rate))], MeasuredAs(seconds, seed))
    assert found.figures["p99"] == pytest.approx(exact * 1e9, rel=0.01)
    assert found.chance["p99"] == pytest.approx(0.0, abs=1e-6)


def test_next_to_very_short_requests_a_figure_lies_between_sharing_and_running_alone() -> None:
    """The share of their core time spent on wake-ups is unknown."""
    for short_s, is_unsure in ((0.0002, True), (0.020, False)):
        long = Pipeline((Station("long", 0.050),), variation=0.1, cores=Cores(1))
        other = Pipeline((Station("other", short_s),), variation=0.1, cores=Cores(1))
        plans = [PartPlan(row, LoadPart("m", "concurrency", 1)) for row in (long, other)]
        shared = simulate(plans, MeasuredAs(10.0))
        for plan, found, row in zip(plans, sharing(plans, shared, MeasuredAs(10.0)), shared, strict=True):
            (by_itself,) = simulate([plan], MeasuredAs(10.0))
            low, high = row.figures["throughput"], by_itself.figures["throughput"]
            assert high == pytest.approx(2 * low, rel=0.1)
            expected = math.sqrt(low * high) if is_unsure else low
            assert found.figures["throughput"] == pytest.approx(expected)
            reach = math.exp(found.unsure["throughput"])
            assert (reach * expected >= 0.99 * high) == is_unsure


def test_the_slowdown_of_short_requests_does_not_apply_to_others() -> None:
    long = Pipeline((Station("long", 0.050),), cores=Cores(2))
    tight = Pipeline((Station("tight", 0.020),), cores=Cores(2, scaling=0.8))
    short = Pipeline((Station("short", 0.0002),), cores=Cores(2, scaling=0.4))
    scalings = [
        [row.cores.scaling for row in _shared(rows)] for rows in ((long, short), (long, tight, short))
    ]
    assert scalings == [[1.0, 0.4], [0.8, 0.8, 0.4]]
