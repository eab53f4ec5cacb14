"""Planted servers for capacity plans: the measurement of one, and the true number of replicas.

The oracle is independent of the code under test: it lets every request of the traffic queue for the instances of its
replica, and counts.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush

import numpy as np

from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.load.plan import Closed, Constant, Open
from inferometer.measure.instrument import Instrument, LevelSettings, LoadPoint
from inferometer.measure.level import measure_level
from inferometer.model.spec import ModelSpec
from inferometer.stats.result import Result
from inferometer.stats.stopping import Precision
from inferometer.stats.watcher import Watcher
from tests.support.clock import FakeClock
from tests.support.reports import sample_result
from tests.support.simulation import FakeServer, Reply, SimulatedLoad

Draw = Callable[[random.Random], float]


@dataclass(frozen=True, slots=True)
class PlantedServer:
    """A server with `instances` requests in service, each for a random time plus a constant."""

    name: str
    instances: int
    service_ms: Draw
    mean_ms: float  # mean of the random time
    outside_ms: float = 0.0

    def latencies_ms(self, times_ms: Sequence[float], source: random.Random) -> list[float]:
        """Latencies of requests that arrive at one server at these times."""
        free, found = [0.0] * self.instances, []
        for time in times_ms:
            end = max(time, heappop(free)) + self.service_ms(source)
            heappush(free, end)
            found.append(end - time + self.outside_ms)
        return found


def fixed(name: str, instances: int, ms: float, outside_ms: float = 0.0) -> PlantedServer:
    return PlantedServer(name, instances, lambda source: ms, ms, outside_ms)


def spread(name: str, instances: int, low: float, high: float) -> PlantedServer:
    return PlantedServer(name, instances, lambda source: source.uniform(low, high), (low + high) / 2)


def exponential(name: str, instances: int, ms: float) -> PlantedServer:
    return PlantedServer(name, instances, lambda source: source.expovariate(1 / ms), ms)


# --- what is measured


class _Slower(FakeServer):
    """Adds a delay between the end of service and the arrival of the answer."""

    outside_ns = 0

    def reply_to(self, sent_ns: int) -> tuple[int, Reply]:
        end_ns, reply = FakeServer.reply_to(self, sent_ns)
        return end_ns + self.outside_ns, reply


def _reply(server: PlantedServer, source: random.Random, number: int, sent_ns: int) -> Reply:
    return Reply(round(server.service_ms(source) * NS_PER_MS))


def measured(
    server: PlantedServer, loads: Sequence[float], *, by_rate: bool = False, seed: int = 0
) -> Result:
    """Measure a server like `inferometer measure`, on a simulated clock."""
    levels = []
    for load in loads:
        source, clock = random.Random(seed), FakeClock()
        fake = _Slower(partial(_reply, server, source), server.instances)
        fake.outside_ns = round(server.outside_ms * NS_PER_MS)
        instrument = Instrument(SimulatedLoad(fake, clock), clock, lambda: None, Watcher())
        settings = LevelSettings(
            ModelSpec(server.name, "", (), ()),
            batch=1,
            percentile=None,
            rule=Precision(0.02, 10 * NS_PER_S),
            window_ns=NS_PER_S,
        )
        point = (
            LoadPoint("request_rate", load, Open(Constant(load)))
            if by_rate
            else LoadPoint("concurrency", load, Closed(int(load)))
        )
        levels.append(measure_level(instrument, settings, point))
    group = [{"count": server.instances, "kind": "KIND_CPU"}]
    model = {"name": server.name, "config": {"instance_group": group}}
    return replace(sample_result(), model=model, levels=tuple(levels))


# --- what is true

REPEATS = 150
LUCK = 0.02
SETTLING_S = 3.0  # until the queue is stationary


def replicas_it_takes(
    server: PlantedServer, rate: float, seconds: float, limit_ms: float, balancer: str
) -> int:
    """Smallest number of replicas that keeps the p99 below the limit in at least 49 of 50 simulations."""
    count = max(1, int(rate * server.mean_ms / 1000 / server.instances))
    while not _is_kept(server, count, rate, seconds, limit_ms, balancer):
        count += 1
    return count


def _is_kept(
    server: PlantedServer, count: int, rate: float, seconds: float, limit_ms: float, balancer: str
) -> bool:
    broken = 0
    for seed in range(REPEATS):
        source = random.Random(f"{seed} {count}")
        times, now = [], 0.0
        while now < 1000 * (seconds + SETTLING_S):
            now += source.expovariate(rate / 1000)
            times.append(now)
        found = _balanced(server, count, times, source, balancer)
        counted = [latency for time, latency in zip(times, found, strict=True) if time >= 1000 * SETTLING_S]
        broken += float(np.percentile(counted, 99)) >= limit_ms
        if broken > LUCK * REPEATS:
            return False
    return True


def _balanced(
    server: PlantedServer, count: int, times: Sequence[float], source: random.Random, balancer: str
) -> list[float]:
    if balancer == "least-outstanding":
        return _to_the_least(server, count, times, source)
    chosen = [
        source.randrange(count) if balancer == "random" else number % count for number in range(len(times))
    ]
    found = [0.0] * len(times)
    for replica in range(count):
        numbers = [number for number, one in enumerate(chosen) if one == replica]
        latencies = server.latencies_ms([times[number] for number in numbers], source)
        for number, latency in zip(numbers, latencies, strict=True):
            found[number] = latency
    return found


def _to_the_least(
    server: PlantedServer, count: int, times: Sequence[float], source: random.Random
) -> list[float]:
    free = [[0.0] * server.instances for _ in range(count)]
    ends: list[list[float]] = [[] for _ in range(count)]
    found = []
    for time in times:
        for heap in ends:
            while heap and heap[0] <= time:
                heappop(heap)
        least = min(range(count), key=lambda place: (len(ends[place]), source.random()))
        end = max(time, heappop(free[least])) + server.service_ms(source)
        heappush(free[least], end)
        heappush(ends[least], end + server.outside_ms)
        found.append(end - time + server.outside_ms)
    return found
