"""Simulated servers with a known limit: the load above which they violate an SLO, by theory or long simulation."""

import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from inferometer.base import status
from inferometer.base.slo import parse_slo
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.find.run import SearchGoal, find
from inferometer.measure.instrument import Instrument, LevelSettings
from inferometer.model.spec import ModelSpec
from inferometer.stats.measurement import Level
from inferometer.stats.result import Finding
from inferometer.stats.stopping import Precision
from inferometer.stats.watcher import Watcher
from tests.support.clock import FakeClock
from tests.support.simulation import FakeServer, Reply, SimulatedLoad

MS = NS_PER_MS
Draw = Callable[[random.Random], int]
"""A service time in nanoseconds."""


def fixed(mean_ms: float) -> Draw:
    return lambda source: round(mean_ms * MS)


def exponential(mean_ms: float) -> Draw:
    return lambda source: max(1, round(source.expovariate(1 / mean_ms) * MS))


def lognormal(mean_ms: float, sigma: float) -> Draw:
    centre = math.log(mean_ms) - sigma * sigma / 2
    return lambda source: max(1, round(source.lognormvariate(centre, sigma) * MS))


@dataclass(frozen=True, slots=True)
class Known:
    """A server, an SLO, and the highest load that meets it."""

    name: str
    promise: str
    limit: float
    server: Callable[[int], FakeServer]  # by the seed
    is_rate: bool = True
    distribution: str = "constant"

    def covers(self, finding: Finding) -> bool:
        """Whether the limit is in the interval. By concurrency it is the last load that meets the SLO."""
        if self.is_rate:
            return finding.low <= self.limit and (finding.high is None or self.limit <= finding.high)
        return finding.low <= self.limit and (finding.high is None or self.limit < finding.high)


@dataclass(frozen=True, slots=True)
class Searched:
    finding: Finding
    levels: tuple[Level, ...]
    took_s: float


def search(known: Known, seed: int, duration_s: float) -> Searched:
    """Run a whole search on a simulated clock."""
    clock = FakeClock()
    instrument = Instrument(SimulatedLoad(known.server(seed), clock), clock, lambda: None, Watcher())
    model = ModelSpec(known.name, "", (), ())
    level_settings = LevelSettings(
        model, batch=1, percentile=None, rule=Precision(0.0, NS_PER_S), window_ns=NS_PER_S
    )
    goal = SearchGoal(
        promise=parse_slo(known.promise),
        duration_ns=round(duration_s * NS_PER_S),
        is_rate=known.is_rate,
        distribution=known.distribution,
        seed=1000 * seed,
    )
    begun_ns = clock()
    steps = list(find(instrument, level_settings, goal))
    finding = steps[-1][1]
    assert finding is not None
    levels = tuple(level for level, _ in steps if level is not None)
    return Searched(finding, levels, (clock() - begun_ns) / NS_PER_S)


# --- servers


def queue(draw: Draw, servers: int = 1) -> Callable[[int], FakeServer]:
    """A server that answers in order of arrival."""

    def make(seed: int) -> FakeServer:
        source = random.Random(seed)
        return FakeServer(lambda number, sent_ns: Reply(draw(source)), servers)

    return make


def refusing(draw: Draw, room: int) -> Callable[[int], FakeServer]:
    """One server that refuses a request if there are already `room` others."""

    def make(seed: int) -> FakeServer:
        source, ends = random.Random(seed), deque[int]()

        def script(number: int, sent_ns: int) -> Reply:
            while ends and ends[0] <= sent_ns:
                ends.popleft()
            if len(ends) >= room:
                return Reply(MS // 10, status.HTTP + 503)
            ends.append(max(sent_ns, ends[-1] if ends else 0) + draw(source))
            return Reply(ends[-1] - sent_ns)

        return FakeServer(script)

    return make


def outliers(usual_ms: float, slow_ms: float, share: float) -> Draw:
    """A service time that is long for a share of the requests."""
    return lambda source: round((slow_ms if source.random() < share else usual_ms) * MS)


def batching(most: int, batch_ms: float) -> Callable[[int], FakeServer]:
    """One executor that takes up to `most` waiting requests and the same time for any batch."""

    def make(seed: int) -> FakeServer:
        state = {"start": -NS_PER_S, "size": 0}  # start and size of the last batch
        batch_ns = round(batch_ms * MS)

        def script(number: int, sent_ns: int) -> Reply:
            if sent_ns > state["start"] or state["size"] >= most:
                state["start"], state["size"] = max(sent_ns, state["start"] + batch_ns), 0
            state["size"] += 1
            return Reply(state["start"] + batch_ns - sent_ns)

        return FakeServer(script)

    return make


def stalling(
    draw: Draw, every_s: float, stall_ms: float, *, is_regular: bool = False
) -> Callable[[int], FakeServer]:
    """One server that stalls at random moments, or regularly after half to one and a half times a period."""

    def make(seed: int) -> FakeServer:
        source = random.Random(seed)

        def pause_ns() -> int:
            drawn_s = (
                source.uniform(every_s / 2, 1.5 * every_s) if is_regular else source.expovariate(1 / every_s)
            )
            return round(drawn_s * NS_PER_S)

        state = {"free": 0, "stall": pause_ns()}

        def script(number: int, sent_ns: int) -> Reply:
            begin_ns = max(sent_ns, state["free"])
            while state["stall"] <= begin_ns:
                over_ns = state["stall"] + round(stall_ms * MS)
                begin_ns = max(begin_ns, over_ns)
                state["stall"] = over_ns + pause_ns()
            state["free"] = begin_ns + draw(source)
            return Reply(state["free"] - sent_ns)

        return FakeServer(script)

    return make


# --- limits by theory


def _several_limit(per_s: float, servers: int, limit_s: float, share: float) -> float:
    """Rate at which this share of the requests of an M/M/c queue exceeds the limit; its tail is known exactly."""

    def tail(rate: float) -> float:
        offered = rate / per_s
        full = offered**servers / math.factorial(servers) / (1 - offered / servers)
        waits = full / (sum(offered**number / math.factorial(number) for number in range(servers)) + full)
        spare = servers * per_s - rate - per_s
        longer = (1 - math.exp(-spare * limit_s)) * per_s / spare
        return math.exp(-per_s * limit_s) * (1 + waits * longer)

    return _where(lambda rate: tail(rate) > share, 0.999 * servers * per_s)


def _refusal_limit(per_s: float, room: int, share: float) -> float:
    """Rate at which an M/M/1 queue with limited room refuses this share of the requests."""
    return _where(
        lambda rate: (1 - rate / per_s) * (rate / per_s) ** room / (1 - (rate / per_s) ** (room + 1)) > share,
        per_s * 0.999,
    )


def _where(is_beyond: Callable[[float], bool], high: float) -> float:
    low = 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if is_beyond(middle) else (middle, high)
    return low


def _in_flight_limit(mean_ms: float, limit_ms: float, share: float) -> int:
    """Highest k within the limit: with k in flight at one server, a request takes k exponential times."""
    load, number = limit_ms / mean_ms, 1
    while sum(math.exp(-load) * load**k / math.factorial(k) for k in range(number + 1)) < share:
        number += 1
    return number


_randomly = partial(Known, distribution="poisson")
_EXPONENTIAL = queue(exponential(5))  # the latency of M/M/1 is exponential too, with the rate 200 - load

KNOWN = (
    Known("fixed service", "p99<40ms", 200.0, queue(fixed(5))),
    _randomly("exponential service, p99", "p99<50ms", 200 - math.log(100) / 0.05, _EXPONENTIAL),
    _randomly("exponential service, p95", "p95<50ms", 200 - math.log(20) / 0.05, _EXPONENTIAL),
    _randomly("exponential service, p50", "p50<15ms", 200 - math.log(2) / 0.015, _EXPONENTIAL),
    _randomly("exponential service, mean", "mean<20ms", 200 - 1 / 0.02, _EXPONENTIAL),
    _randomly("four instances", "p99<50ms", _several_limit(200, 4, 0.05, 0.01), queue(exponential(5), 4)),
    _randomly(
        "refuses when five wait",
        "p99<1s, errors<5%",
        _refusal_limit(200, 5, 0.05),
        refusing(exponential(5), 5),
    ),
    # From Pollaczek and Khinchine's formula, Lindley's equation on a grid, and a simulation of 900,000 stalls.
    _randomly("fixed service, random arrivals", "p99<40ms", 143.73, queue(fixed(5))),
    Known("heavy-tailed service", "p99<100ms", 143.92, queue(lognormal(5, 1.0))),
    Known("stalls of 15 ms", "p95<8ms", 339.4, stalling(fixed(2), 0.5, 15)),
    Known("fixed service, in flight", "p99<41ms", 8, queue(fixed(5)), is_rate=False),
    Known(
        "exponential service, in flight",
        "p99<100ms",
        _in_flight_limit(5, 100, 0.01),
        _EXPONENTIAL,
        is_rate=False,
    ),
)

# Queues with other parameters. Limits that have no closed form are from Pollaczek and Khinchine's formula on a grid
# (M/D/1, outliers), the Markov chain at the ends of batches, and a simulation of 130,000 pauses.
_GC = stalling(exponential(4), 2.0, 30, is_regular=True)
_OUTLIERS = queue(outliers(5, 50, 0.01))
QUEUES = (
    _randomly("M/D/1, p99", "p99<60ms", 62.95, queue(fixed(10))),
    _randomly("M/D/1, p95", "p95<60ms", 74.53, queue(fixed(10))),
    _randomly("M/M/1, p99", "p99<150ms", 100 - math.log(100) / 0.15, queue(exponential(10))),
    _randomly("M/M/1, p95", "p95<100ms", 100 - math.log(20) / 0.1, queue(exponential(10))),
    _randomly("M/M/1 near saturation, p99", "p99<300ms", 100 - math.log(100) / 0.3, queue(exponential(10))),
    _randomly("M/M/4, p99", "p99<150ms", _several_limit(50, 4, 0.15, 0.01), queue(exponential(20), 4)),
    _randomly("M/M/4, p95", "p95<100ms", _several_limit(50, 4, 0.1, 0.05), queue(exponential(20), 4)),
    _randomly("batches of 8, p99", "p99<60ms", 330.4, batching(8, 20)),
    _randomly("batches of 8, p95", "p95<45ms", 310.5, batching(8, 20)),
    _randomly("1 % outliers, p99", "p99<80ms", 122.6, _OUTLIERS),
    _randomly("1 % outliers, p95", "p95<40ms", 96.79, _OUTLIERS),
    _randomly("GC pauses, p99", "p99<50ms", 148.6, _GC),
    _randomly("GC pauses, p95", "p95<30ms", 140.2, _GC),
)
