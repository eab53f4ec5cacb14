"""Request-by-request simulation of several replicas behind a load balancer.

The requests in service in a replica share its capacity evenly, so one clock is enough for all of them: it shows the
work that each has received so far. A request ends when the clock has advanced by the request's own work.
"""

import math
from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from inferometer.base.frozen import frozen
from inferometer.capacity.replica import Replica
from inferometer.capacity.text_replica import TextReplica, simulate_replicas
from inferometer.capacity.traffic import Times
from inferometer.diagnose.text_lengths import Pair

AnyReplica = Replica | TextReplica
BALANCERS = ("round-robin", "random", "least-outstanding")


@frozen
class Fleet:
    """A number of identical replicas and the policy of their load balancer."""

    replica: AnyReplica
    count: int
    balancer: str = BALANCERS[0]


@frozen
class FleetRun:
    """The latency of each request, and the number of requests in its replica on arrival, including itself."""

    latencies_s: NDArray[np.float64]
    inside: NDArray[np.int64]
    first_s: NDArray[np.float64] | None = None  # time to the first token; None unless replicas generate text
    between_s: NDArray[np.float64] | None = None  # time per output token

    def after(self, settling: int) -> "FleetRun":
        """Return the run without its first requests."""
        first, between = self.first_s, self.between_s
        return FleetRun(
            self.latencies_s[settling:],
            self.inside[settling:],
            None if first is None else first[settling:],
            None if between is None else between[settling:],
        )


def alone(replica: AnyReplica, requests: int, random: np.random.Generator) -> FleetRun:
    """Return the times of requests that never queue."""
    if isinstance(replica, TextReplica):
        found = replica.alone(requests, random)
        return FleetRun(found.latencies_s, found.inside, found.first_s, found.between_s)
    latencies_s = replica.work(requests, random) / replica.per_s[0] + replica.delay_s
    return FleetRun(latencies_s, np.ones(requests, dtype=np.int64))


def simulate(
    fleet: Fleet, times_s: Times, random: np.random.Generator, pairs: Sequence[Pair] | None = None
) -> FleetRun:
    """Simulate requests that arrive at these times, in ascending order; `pairs` are their lengths in tokens."""
    replica = fleet.replica
    if isinstance(replica, TextReplica):
        run = simulate_replicas(replica, fleet.count, fleet.balancer, (times_s, pairs), random)
        return FleetRun(run.latencies_s, run.inside, run.first_s, run.between_s)
    count = len(times_s)
    queues = [_Queue(replica) for _ in range(fleet.count)]
    arrivals, works = times_s.tolist(), replica.work(count, random).tolist()
    if fleet.balancer == "least-outstanding":
        _to_the_least(queues, arrivals, works)
    else:
        if fleet.balancer == "random":
            chosen = random.integers(fleet.count, size=count).tolist()
        else:
            first = int(random.integers(fleet.count))
            chosen = [(first + number) % fleet.count for number in range(count)]
        for number, place in enumerate(chosen):
            queues[place].take(number, arrivals[number], works[number])
    ends, inside = np.zeros(count), np.zeros(count, dtype=np.int64)
    for queue in queues:
        queue.finish()
        ends[queue.ended] = queue.ends_s
        inside[queue.taken] = queue.inside
    return FleetRun(ends - times_s + replica.delay_s, inside)


def _to_the_least(queues: Sequence["_Queue"], arrivals: Sequence[float], works: Sequence[float]) -> None:
    """Assign each request to the replica with the fewest requests, in round-robin order among equals."""
    turn = 0
    for number, (at_s, work) in enumerate(zip(arrivals, works, strict=True)):
        for queue in queues:
            if queue.next_s <= at_s:
                queue.pass_time(at_s)
        order = (*range(turn, len(queues)), *range(turn))
        least = min(order, key=lambda place: queues[place].count)
        queues[least].take(number, at_s, work)
        turn = (least + 1) % len(queues)


class _Queue:
    """A replica with the requests in it."""

    __slots__ = (
        "_clock", "_last", "_now_s", "_places", "_served", "_speeds", "_waiting", "count", "ended", "ends_s", "inside",
        "next_s", "taken",
    )  # fmt: skip

    def __init__(self, replica: Replica) -> None:
        # Work per second for each request in service, by the number of requests inside.
        self._speeds = (
            0.0, *(rate / min(number, replica.places) for number, rate in enumerate(replica.per_s, start=1))
        )  # fmt: skip
        self._last = len(self._speeds) - 1
        self._places = replica.places
        self._served: list[tuple[float, int]] = []  # (clock at its end, request number)
        self._waiting: deque[tuple[float, int]] = deque()
        self._clock = self._now_s = 0.0
        self.next_s = math.inf  # end of the next request, if none arrives before
        self.count = 0
        self.ended: list[int] = []
        self.ends_s: list[float] = []
        self.taken: list[int] = []
        self.inside: list[int] = []

    def take(self, number: int, at_s: float, work: float) -> None:
        self.pass_time(at_s)
        self.count += 1
        self.taken.append(number)
        self.inside.append(self.count)
        if len(self._served) < self._places:
            heappush(self._served, (self._clock + work, number))
        else:
            self._waiting.append((work, number))
        self._look_ahead()

    def pass_time(self, until_s: float) -> None:
        served = self._served
        while served:
            end_s = self.next_s
            if end_s > until_s:
                self._clock += (until_s - self._now_s) * self._speeds[min(self.count, self._last)]
                break
            self._clock, number = heappop(served)
            self._now_s = end_s
            self.count -= 1
            self.ended.append(number)
            self.ends_s.append(end_s)
            if self._waiting:
                work, waited = self._waiting.popleft()
                heappush(served, (self._clock + work, waited))
            self._look_ahead()
        else:
            self._clock = 0.0
        self._now_s = until_s

    def _look_ahead(self) -> None:
        if self._served:
            left = self._served[0][0] - self._clock
            self.next_s = self._now_s + left / self._speeds[min(self.count, self._last)]
        else:
            self.next_s = math.inf

    def finish(self) -> None:
        """Run until all requests have ended."""
        self.pass_time(float("inf"))
