"""Check whether a fleet meets an SLO in a stretch of the traffic, and find how many replicas that takes.

Each stretch is simulated many times with random service times, and with random arrivals if individual requests are not
known. The SLO counts as met if at most one simulation in fifty violates it, so that no answer depends on luck. Longer
stretches vary less and are simulated less often; then none of the simulations may violate the SLO. Traffic of the same
kind precedes a stretch, so that it does not start with empty queues.

A latency limit must hold with a margin of 3 %, or of half the slack of a single request if that is less, because real
machines have disturbances that no simulation covers.

More replicas only shorten queues. If requests violate the SLO without ever queueing, no number of replicas meets it,
and the search stops.

Only a part of a large fleet is simulated, with its part of the traffic: the replicas of a smaller fleet see the same
load, slightly less evenly balanced.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.slo import TIMES, Slo, Term
from inferometer.base.units import NS_PER_S
from inferometer.capacity.fleet import AnyReplica, Fleet, FleetRun, alone, simulate
from inferometer.capacity.replica import Replica
from inferometer.capacity.text_replica import TextReplica
from inferometer.capacity.traffic import ExpectedTraffic, Stretch, Times
from inferometer.diagnose.text_lengths import Pair
from inferometer.options.names import option_name
from inferometer.stats.series import Durations, percentile, rank
from inferometer.stats.slo import is_each_within

MOST_REQUESTS = 20_000  # requests per simulation: of a longer stretch, only a part is simulated
ALL_REQUESTS = 40_000  # requests in all simulations of a stretch, approximately,
THOROUGH = 120_000  # and for the final answer
BEYOND = 200  # fewest requests beyond a percentile, if the stretch has that many
MOST_REPEATS = 400
FEWEST_REPEATS = 4
LUCK = 0.02  # share of simulations that may violate the SLO
MARGIN = 0.03  # relative margin of a latency limit
MOST_REPLICAS = 100_000
WHOLE_FLEET = 100  # largest fleet simulated whole, unless individual requests are known
SETTLING = 50  # requests per replica before a stretch
LEAST_SETTLING = 100

TEXT_EFFORT = 4  # divisor of the simulated requests for replicas that generate text

_REMEDY = "limit latency, a percentile such as p99, errors or goodput"
_STREAMED = ("ttft", "tpot")


def check_promise(promise: Slo, *, has_text: bool = False) -> None:
    """Reject limits on figures that are not simulated; those of tokens need replicas that all stream text."""
    for term in promise.terms:
        if term.figure in ("latency", "errors", "goodput") or (has_text and term.figure in _STREAMED):
            continue
        if term.figure in _STREAMED:
            raise UsageError(
                f"'{term.text}': `inferometer capacity` predicts {term.figure} only for results with streamed answers",
                remedy=f"measure a text server with {option_name('--streaming')}, or {_REMEDY}",
            )
        raise UsageError(
            f"'{term.text}': `inferometer capacity` simulates whole requests and cannot predict {term.figure}",
            remedy=f"{_REMEDY}; for text also ttft and tpot" if has_text else _REMEDY,
        )


@frozen
class FleetTrial:
    """Outcome of simulating a stretch with a number of replicas."""

    is_kept: bool
    values: tuple[float, ...]  # of each term, in nanoseconds or as a share; median of all simulations
    inside: int  # 99th percentile of the requests in a replica on arrival, including the new one
    met_share: float  # share of requests that found another one in their replica


class NoNumber(UsageError):
    """No number of replicas meets the SLO; the message is the reason."""


class Simulator:
    """Simulates fleets of one kind of replica under the given traffic, and caches the outcomes."""

    def __init__(
        self,
        replica: AnyReplica,
        traffic: ExpectedTraffic,
        promise: Slo,
        *,
        balancer: str,
        seed: int,
        has_margin: bool = True,
    ) -> None:
        self.replica = replica
        self.traffic = traffic
        self._promise = promise
        self._balancer = balancer
        self._seed = seed
        self._effort = TEXT_EFFORT if isinstance(replica, TextReplica) else 1
        self._known: dict[tuple[int, int, bool], FleetTrial] = {}
        light = alone(replica, MOST_REQUESTS, np.random.default_rng(seed))
        self._alone_values = self._values(light, rate=0.0)
        terms = self._terms(self._alone_values)
        self._tight = tuple(_with_margin(*row) for row in terms) if has_margin else promise.terms
        self._kept_alone: dict[int, bool] = {}  # keyed by the number of requests in a stretch

    def trial(self, place: int, count: int, *, is_thorough: bool = False) -> FleetTrial:
        """Simulate the stretch with this index and `count` replicas."""
        key = place, count, is_thorough
        if key not in self._known:
            total = THOROUGH if is_thorough else ALL_REQUESTS
            self._known[key] = self._run(place, count, total // self._effort)
        return self._known[key]

    def is_kept(self, place: int, count: int) -> bool:
        stretch = self.traffic.stretches[place]
        if stretch.rate == 0:
            return True
        if self.traffic.times_s is None and stretch.rate >= count * self.replica.most_per_s:
            return False
        return self.trial(place, count).is_kept

    def broken_alone(self) -> Term | None:
        """Return a limit that requests violate even without queueing."""
        terms = self._terms(self._alone_values)
        return next((term for term, value in terms if not term.is_within(value)), None)

    def surely_needed(self, place: int, start: int = 0) -> int:
        """Return the replicas that the stretch needs, confirmed with more simulations."""
        count = self.needed(place, start)
        while self.traffic.stretches[place].rate:
            found = self.trial(place, count, is_thorough=True)
            if found.is_kept:
                break
            self._check_reachable(place, count, found)
            count += max(1, count // 50)
        return count

    def needed(self, place: int, start: int = 0) -> int:
        """Return the replicas that the stretch needs; `start` is a guess."""
        rate = self.traffic.stretches[place].rate
        busy = math.ceil(rate / self.replica.most_per_s)
        least = max(1, busy) if self.traffic.times_s is None else 1
        high = max(least, start, busy)
        low = least - 1  # too few
        step = 1
        _check_size(high)
        while not self.is_kept(place, high):
            self._check_reachable(place, high, self._known.get((place, high, False)))
            low, high = high, high + step
            step *= 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.is_kept(place, middle) else (middle, high)
        return high

    # --- no number

    def _check_reachable(self, place: int, count: int, found: FleetTrial | None) -> None:
        """Raise NoNumber if more than `count` replicas would not help to meet the SLO."""
        _check_size(count + 1)
        requests = self._requests(self.traffic.stretches[place])
        if requests not in self._kept_alone:
            self._kept_alone[requests] = self._is_kept_alone(requests)
        shares = [term.share for term in self._promise.terms if term.figure in TIMES and term.share]
        are_apart = found is not None and found.met_share < min(shares, default=0.01) / 10
        if are_apart or not self._kept_alone[requests]:
            raise NoNumber(
                f"even requests without queueing violate '{self._promise.text}' in more than one of fifty stretches of "
                f"{requests:,} requests",
                remedy=f"give a longer {option_name('--stretch')}, or a less strict SLO",
            )

    def _is_kept_alone(self, requests: int) -> bool:
        random = np.random.default_rng((self._seed, requests))
        repeats = _repeats(requests, THOROUGH)
        broken = sum(
            not self._holds(self._values(alone(self.replica, requests, random), rate=0.0))
            for _ in range(repeats)
        )
        return broken <= math.floor(LUCK * repeats)

    # --- one stretch

    def _run(self, place: int, count: int, total: int) -> FleetTrial:
        part = count if self.traffic.times_s is not None else min(count, WHOLE_FLEET)
        fleet = Fleet(self.replica, part, self._balancer)
        random = np.random.default_rng((self._seed, place, count))
        requests = self._requests(self.traffic.stretches[place])
        repeats = _repeats(requests, total)
        allowed, broken = math.floor(LUCK * repeats), 0
        runs: list[tuple[float, ...]] = []
        inside: list[int] = []
        met: list[float] = []
        for _ in range(repeats):
            times, settling, pairs = self._times(place, requests, part / count, part, random)
            counted = simulate(fleet, times, random, pairs).after(settling)
            runs.append(self._values(counted, rate=self.traffic.stretches[place].rate / count))
            inside.append(int(np.partition(counted.inside, at := rank(99, len(counted.inside)))[at]))
            met.append(float((counted.inside > 1).mean()))
            broken += not self._holds(runs[-1])
            if broken > allowed:
                break
        middle = tuple(
            float(np.median([run[term] for run in runs])) for term in range(len(self._promise.terms))
        )
        return FleetTrial(broken <= allowed, middle, max(inside), max(met))

    def _requests(self, stretch: Stretch) -> int:
        """Return the number of requests per simulation."""
        if self.traffic.times_s is not None:
            return max(1, round(stretch.requests))
        shares = [term.share for term in self._promise.terms if term.figure in TIMES and term.share]
        most = max((MOST_REQUESTS, *(round(BEYOND / share) for share in shares)))
        return max(1, min(round(stretch.requests), most // self._effort))

    def _times(
        self, place: int, requests: int, part: float, count: int, random: np.random.Generator
    ) -> tuple[Times, int, Sequence[Pair] | None]:
        """Return the arrival times at this part of the fleet, how many of them precede the stretch, and the lengths of
        individual requests."""
        each = SETTLING if isinstance(self.replica, Replica) else max(SETTLING, self.replica.settling)
        settling = max(LEAST_SETTLING, each * count)
        known, pairs = self.traffic.times_s, self.traffic.pairs
        if known is None:
            rate = self.traffic.stretches[place].rate * part
            return np.cumsum(random.exponential(1 / rate, settling + requests)), settling, None
        first, last = self.traffic.numbers(place)
        begin = max(0, first - settling)
        return known[begin:last], first - begin, None if pairs is None else pairs[begin:last]

    def _holds(self, values: Sequence[float]) -> bool:
        return all(term.is_within(value) for term, value in zip(self._tight, values, strict=True))

    def _terms(self, values: Sequence[float]) -> Iterator[tuple[Term, float]]:
        return zip(self._promise.terms, values, strict=True)

    def _values(self, run: FleetRun, *, rate: float) -> tuple[float, ...]:
        """Return the figure that each term of the SLO limits."""
        failed = self.replica.failed_share(rate)
        if isinstance(self.replica, Replica):
            failed = max(failed, self.replica.failed_inside(run.inside))
        times = {
            "latency": _whole_ns(run.latencies_s),
            "ttft": _whole_ns(run.first_s),
            "tpot": _whole_ns(run.between_s),
        }
        found: list[float] = []
        for term in self._promise.terms:
            if term.figure == "errors":
                found.append(failed)
            elif term.figure == "goodput":
                good = np.ones(len(run.latencies_s), dtype=np.bool_)
                for other in self._promise.terms:
                    if other.figure in TIMES:
                        good &= is_each_within(other, times[other.figure])
                found.append(float(good.mean()) * (1 - failed))
            elif term.percentile is None:
                found.append(float(times[term.figure].mean()))
            else:
                found.append(float(percentile(times[term.figure], term.percentile)))
        return tuple(found)


def _whole_ns(times_s: Times | None) -> Durations:
    return np.zeros(1, dtype=np.int64) if times_s is None else np.round(times_s * NS_PER_S).astype(np.int64)


def _with_margin(term: Term, alone: float) -> Term:
    """Return the term with its margin; `alone` is its value without queueing."""
    if term.figure not in TIMES:
        return term
    room = min(MARGIN * term.limit, (term.limit - alone) / 2)
    return replace(term, limit=term.limit - max(room, 0.0))


def _repeats(requests: int, total: int) -> int:
    return max(FEWEST_REPEATS, min(MOST_REPEATS, total // requests))


def _check_size(count: int) -> None:
    if count > MOST_REPLICAS:
        raise NoNumber(
            f"the traffic needs more than {MOST_REPLICAS:,} replicas", remedy="check the rate of the traffic"
        )
