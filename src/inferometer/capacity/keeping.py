"""Whether a fleet keeps a promise in a stretch of the traffic, and how many replicas that takes.

A stretch is simulated many times, each with its own random service times, and random arrivals where single requests are
not known. It counts as kept if the promise is broken at most one of fifty times, so that no answer holds by luck only.
Longer stretches are simulated less often, as they are more alike; then none of them may be broken. Before a stretch the
same traffic has gone on for a while: it does not begin with empty queues.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from inferometer.base.errors import UsageError
from inferometer.base.units import NS_PER_S
from inferometer.capacity.fleet import Fleet, FleetRun, simulate
from inferometer.capacity.replica import Replica
from inferometer.capacity.traffic import Stretch, Times, Traffic
from inferometer.stats.series import percentile, rank
from inferometer.stats.slo import TIMES, Slo, Term

MOST_REQUESTS = 20_000  # of a stretch that are simulated at a time: of a longer one, a part
ALL_REQUESTS = 40_000  # of all times together, about,
THOROUGH = 120_000  # and where the answer hangs on it
BEYOND = 200  # requests beyond a percentile, at least, where the stretch has so many
MOST_REPEATS = 400
FEWEST_REPEATS = 4
LUCK = 0.02  # share of the times that may be broken
MOST_REPLICAS = 100_000
SETTLING = 50  # requests of each replica before a stretch
LEAST_SETTLING = 100

_REMEDY = "limit latency, a percentile such as p99, errors or goodput"


def check_promise(promise: Slo) -> None:
    """Refuses limits of what is not simulated."""
    for term in promise.terms:
        if term.figure not in ("latency", "errors", "goodput"):
            raise UsageError(
                f"'{term.text}': `inferometer capacity` simulates whole requests, which have no {term.figure}",
                remedy=_REMEDY,
            )


@dataclass(frozen=True, slots=True)
class Trial:
    """What simulating a stretch with a number of replicas showed."""

    is_kept: bool
    values: tuple[float, ...]  # of each term: nanoseconds or a share; the middle one of all times
    inside: int  # requests that a replica held when a new one came, itself included: 99 of 100 times no more


class Simulator:
    """Asks a fleet of one kind of replica about a traffic; each answer is kept."""

    def __init__(self, replica: Replica, traffic: Traffic, promise: Slo, *, balancer: str, seed: int) -> None:
        self.replica = replica
        self.traffic = traffic
        self._promise = promise
        self._balancer = balancer
        self._seed = seed
        self._known: dict[tuple[int, int, bool], Trial] = {}

    def trial(self, place: int, count: int, *, is_thorough: bool = False) -> Trial:
        """The stretch of this number with so many replicas."""
        key = place, count, is_thorough
        if key not in self._known:
            self._known[key] = self._run(place, count, THOROUGH if is_thorough else ALL_REQUESTS)
        return self._known[key]

    def is_kept(self, place: int, count: int) -> bool:
        stretch = self.traffic.stretches[place]
        if stretch.rate == 0:
            return True
        if self.traffic.times_s is None and stretch.rate >= count * self.replica.most_per_s:
            return False
        return self.trial(place, count).is_kept

    def broken_alone(self) -> Term | None:
        """A limit that not even requests without any company keep."""
        random = np.random.default_rng(self._seed)
        alone = FleetRun(
            self.replica.work(MOST_REQUESTS, random) / self.replica.per_s[0] + self.replica.delay_s,
            np.ones(MOST_REQUESTS, dtype=np.int64),
        )
        values = self._values(alone, rate=0.0)
        return next(
            (
                term
                for term, value in zip(self._promise.terms, values, strict=True)
                if not term.is_within(value)
            ),
            None,
        )

    def surely_needed(self, place: int, start: int = 0) -> int:
        """The same, looked at more thoroughly."""
        count = self.needed(place, start)
        while self.traffic.stretches[place].rate and not self.trial(place, count, is_thorough=True).is_kept:
            count += 1
        return count

    def needed(self, place: int, start: int = 0) -> int:
        """How many replicas the stretch takes; `start` is a guess."""
        rate = self.traffic.stretches[place].rate
        least = max(1, math.ceil(rate / self.replica.most_per_s)) if self.traffic.times_s is None else 1
        high = max(least, start, math.ceil(rate / self.replica.most_per_s))
        low = least - 1  # too few
        step = 1
        while not self.is_kept(place, high):
            low, high = high, high + step
            step *= 2
            if high > MOST_REPLICAS:
                raise UsageError(
                    f"more than {MOST_REPLICAS:,} replicas would be needed",
                    remedy="check the rate of the traffic",
                )
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.is_kept(place, middle) else (middle, high)
        return high

    # --- one stretch

    def _run(self, place: int, count: int, total: int) -> Trial:
        fleet = Fleet(self.replica, count, self._balancer)
        random = np.random.default_rng((self._seed, place, count))
        stretch = self.traffic.stretches[place]
        requests = self._requests(stretch)
        repeats = max(FEWEST_REPEATS, min(MOST_REPEATS, total // requests))
        allowed, broken = math.floor(LUCK * repeats), 0
        runs: list[tuple[float, ...]] = []
        inside: list[int] = []
        for _ in range(repeats):
            times, settling = self._times(stretch, requests, count, random)
            whole = simulate(fleet, times, random)
            counted = FleetRun(whole.latencies_s[settling:], whole.inside[settling:])
            runs.append(self._values(counted, rate=stretch.rate / count))
            inside.append(int(np.partition(counted.inside, at := rank(99, len(counted.inside)))[at]))
            broken += not self._holds(runs[-1])
            if broken > allowed:
                break
        middle = tuple(
            float(np.median([run[term] for run in runs])) for term in range(len(self._promise.terms))
        )
        return Trial(broken <= allowed, middle, max(inside))

    def _requests(self, stretch: Stretch) -> int:
        """How many are simulated at a time."""
        if self.traffic.times_s is not None:
            return max(1, round(stretch.requests))
        shares = [term.share for term in self._promise.terms if term.figure in TIMES and term.share]
        most = max((MOST_REQUESTS, *(round(BEYOND / share) for share in shares)))
        return max(1, min(round(stretch.requests), most))

    def _times(
        self, stretch: Stretch, requests: int, count: int, random: np.random.Generator
    ) -> tuple[Times, int]:
        """When requests come, and how many of them come before the stretch."""
        settling = max(LEAST_SETTLING, SETTLING * count)
        known = self.traffic.times_s
        if known is None:
            return np.cumsum(random.exponential(1 / stretch.rate, settling + requests)), settling
        first, last = np.searchsorted(known, (stretch.start_s, stretch.end_s)).tolist()
        if stretch is self.traffic.stretches[-1]:
            last = len(known)
        begin = max(0, first - settling)
        return known[begin:last], first - begin

    def _holds(self, values: Sequence[float]) -> bool:
        return all(term.is_within(value) for term, value in zip(self._promise.terms, values, strict=True))

    def _values(self, run: FleetRun, *, rate: float) -> tuple[float, ...]:
        """Of each term of the promise."""
        latencies = np.round(run.latencies_s * NS_PER_S).astype(np.int64)
        failed = self.replica.failed_share(rate)
        found: list[float] = []
        for term in self._promise.terms:
            if term.figure == "errors":
                found.append(failed)
            elif term.figure == "goodput":
                good = np.ones(len(latencies), dtype=np.bool_)
                for other in self._promise.terms:
                    if other.figure in TIMES:
                        good &= other.is_each_within(latencies)
                found.append(float(good.mean()) * (1 - failed))
            elif term.percentile is None:
                found.append(float(latencies.mean()))
            else:
                found.append(float(percentile(latencies, term.percentile)))
        return tuple(found)
