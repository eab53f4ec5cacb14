"""Step-by-step simulation of an autoscaler that follows the traffic.

Every 15 seconds the scaler reads the utilisation of the ready replicas, or the requests in each, and computes the
number of replicas that brings this figure back to its target, as Kubernetes does: `wanted = ready * figure / target`,
rounded up, limited to twice the ready replicas or four more. New replicas start immediately and are ready after their
start-up time. The scaler removes replicas after the wanted number has been lower for 5 minutes.

The SLO counts as violated for requests that arrive while fewer replicas are ready than their stretch needs, or while
the ready replicas are still working off a backlog.
"""

import math
import re
from collections import deque
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.slo import TIMES, Slo
from inferometer.base.units import NS_PER_S, plain_number
from inferometer.capacity.fleet import AnyReplica, Fleet, simulate
from inferometer.capacity.traffic import ExpectedTraffic

PERIOD_S = 15.0
FEWEST_PERIODS = 100  # the period is shorter than 15 s if the traffic is short
MOST_PERIODS = 50_000
CALM_S = 300.0  # how long fewer replicas must be wanted before any are removed
TIMES_AS_MANY, MORE = 2, 4  # limits of one scale-up, as in Kubernetes
TOLERANCE = 0.1  # smallest relative deviation from the target that triggers scaling, as in Kubernetes
LOOKS = 2000  # simulated requests per estimate of the queue length
_RULE = re.compile(r"(?P<figure>utili[sz]ation|queue)\s*[:<]\s*(?P<number>\d+(?:\.\d+)?)(?P<percent>\s*%)?")
StartupBasis = Literal["assumed", "given", "measured"]
_EXAMPLE = "write utilisation:60% or queue:2"


@frozen
class ScalingRule:
    """The figure that the scaler watches, and its target value."""

    figure: Literal["utilisation", "queue"]
    target: float  # a share of a replica's capacity, or requests per replica, including those in service

    @property
    def text(self) -> str:
        if self.figure == "queue":
            return f"{plain_number(self.target)} requests in each replica"
        return f"{plain_number(self.target * 100)} % utilisation"


def parse_rule(text: str) -> ScalingRule:
    """Parse a rule such as `utilisation:60%` or `queue:2`."""
    found = _RULE.fullmatch(text.strip().lower())
    if found is None:
        raise UsageError(f"'{text}' is not a scaling rule", remedy=_EXAMPLE)
    number = float(found["number"])
    if found["figure"] == "queue":
        if found["percent"] or number <= 0:
            raise UsageError(
                f"'{text}': the queue target must be a number of requests above 0", remedy=_EXAMPLE
            )
        return ScalingRule("queue", number)
    target = number / 100 if found["percent"] else number
    if not 0 < target <= 1:
        raise UsageError(
            f"'{text}': the utilisation target must be above 0 % and at most 100 %", remedy=_EXAMPLE
        )
    return ScalingRule("utilisation", target)


@frozen
class ScalingStep:
    """The number of ready replicas from this time until the next step."""

    start_s: float
    ready: int


@frozen
class Autoscaling:
    """The simulated behaviour of an autoscaler under the traffic."""

    rule: str
    startup_s: float
    is_kept: bool
    broken_share: float  # share of all requests that arrived while the SLO was violated
    broken: tuple[float, ...]  # start times of the stretches in which it was violated
    fewest: int
    most: int
    replica_hours: float
    steps: tuple[ScalingStep, ...]  # each change in the number of replicas
    startup_basis: StartupBasis = "given"


@frozen
class Scaler:
    """An autoscaler: its rule, the start-up time of a replica, and the number of spare replicas."""

    rule: ScalingRule
    startup_s: float
    spare: int
    startup_basis: StartupBasis = "given"


def autoscale(
    scaler: Scaler,
    replica: AnyReplica,
    traffic: ExpectedTraffic,
    needed: Sequence[int],
    promise: Slo,
    seed: int,
) -> Autoscaling:
    """Simulate the scaler; `needed` is the number of replicas that each stretch needs."""
    period_s = _period_s(traffic)
    counts, places = _arrivals(traffic, period_s, np.random.default_rng(seed))
    queue = _Inside(replica, seed) if scaler.rule.figure == "queue" else None
    slack_s = _slack_s(replica, promise)
    ready, backlog = max(1, needed[0]) + scaler.spare, 0.0
    starting: deque[tuple[float, int]] = deque()  # (time they become ready, number)
    wished: deque[tuple[float, int]] = deque()  # (time, wanted replicas) within CALM_S
    steps, late = [ScalingStep(traffic.stretches[0].start_s, ready)], np.zeros(len(counts))
    hours = 0.0
    for number, (count, place) in enumerate(zip(counts.tolist(), places.tolist(), strict=True)):
        now_s = number * period_s
        while starting and starting[0][0] <= now_s + 1e-9:
            ready += starting.popleft()[1]
        if steps[-1].ready != ready:
            steps.append(ScalingStep(traffic.stretches[0].start_s + now_s, ready))
        able = ready * replica.most_per_s
        piled = backlog
        backlog = max(0.0, backlog + count - able * period_s)
        late[number] = count * (ready < needed[place] or max(piled, backlog) > able * slack_s)
        used = min(1.0, (count + piled) / (able * period_s))
        figure = used if queue is None else queue.at(used) + backlog / ready
        wanted = _wanted(ready, figure, scaler) + scaler.spare
        wished.append((now_s, wanted))
        while wished[0][0] < now_s - CALM_S:
            wished.popleft()
        pending = sum(number for _, number in starting)
        hours += (ready + pending) * period_s / 3600
        if wanted > ready + pending:
            starting.append((now_s + period_s + scaler.startup_s, wanted - ready - pending))
        elif (fewer := max(wish for _, wish in wished)) < ready and not starting:
            ready = fewer
    return _outcome(scaler, traffic, promise, _Course(counts, places, late, tuple(steps), hours))


def _wanted(ready: int, figure: float, scaler: Scaler) -> int:
    """Return the desired number of replicas without the spare ones, although these share the load too."""
    working = max(1, ready - scaler.spare)
    ratio = figure * ready / working / scaler.rule.target
    if abs(ratio - 1) <= TOLERANCE:
        return working
    most = max(TIMES_AS_MANY * working, working + MORE)
    return max(1, min(most, math.ceil(working * ratio - 1e-9)))


@frozen
class _Course:
    counts: NDArray[np.float64]
    places: NDArray[np.int64]
    late: NDArray[np.float64]
    steps: tuple[ScalingStep, ...]
    hours: float


def _outcome(scaler: Scaler, traffic: ExpectedTraffic, promise: Slo, course: _Course) -> Autoscaling:
    total = np.bincount(course.places, course.counts, len(traffic.stretches))
    late = np.bincount(course.places, course.late, len(traffic.stretches))
    shares = [term.share for term in promise.terms if term.figure in TIMES and term.share is not None]
    allowed = min(shares, default=0.01)
    broken = [place for place in range(len(total)) if late[place] > allowed * total[place]]
    numbers = [step.ready for step in course.steps]
    return Autoscaling(
        rule=scaler.rule.text,
        startup_s=scaler.startup_s,
        is_kept=not broken,
        broken_share=float(late.sum() / max(total.sum(), 1.0)),
        broken=tuple(traffic.stretches[place].start_s for place in broken),
        fewest=min(numbers),
        most=max(numbers),
        replica_hours=course.hours,
        steps=course.steps,
        startup_basis=scaler.startup_basis,
    )


def _period_s(traffic: ExpectedTraffic) -> float:
    return max(min(PERIOD_S, traffic.span_s / FEWEST_PERIODS), traffic.span_s / MOST_PERIODS)


def _arrivals(
    traffic: ExpectedTraffic, period_s: float, random: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the number of arrivals in each period, and the index of the stretch in which the period begins."""
    number = math.ceil(traffic.span_s / period_s - 1e-9)
    first_s = traffic.stretches[0].start_s
    starts = first_s + np.arange(number) * period_s
    begins = np.array([row.start_s for row in traffic.stretches])
    places = np.searchsorted(begins, starts + 1e-9, side="right") - 1
    if traffic.times_s is not None:
        inside = np.minimum(((traffic.times_s - first_s) / period_s).astype(np.int64), number - 1)
        return np.bincount(inside, minlength=number).astype(np.float64), places
    rates = np.array([row.rate for row in traffic.stretches])
    return random.poisson(rates[places] * period_s).astype(np.float64), places


def _slack_s(replica: AnyReplica, promise: Slo) -> float:
    """Return how long a request may queue without exceeding the tightest limit."""
    slacks = [
        term.limit / NS_PER_S - (replica.alone_s if term.figure == "latency" else 0.0)
        for term in promise.terms
        if term.figure in ("latency", "ttft")
    ]
    return max(0.0, min(slacks, default=1.0))


class _Inside:
    """Mean number of requests in a replica as a function of its utilisation, under Poisson arrivals."""

    def __init__(self, replica: AnyReplica, seed: int) -> None:
        self._used = np.linspace(0.0, 0.95, 20)
        self._inside = np.zeros(len(self._used))
        for number, used in enumerate(self._used.tolist()):
            if not used:
                continue
            random = np.random.default_rng((seed, number))
            times = np.cumsum(random.exponential(1 / (used * replica.most_per_s), LOOKS))
            inside = simulate(Fleet(replica, 1), times, random).inside[LOOKS // 10 :] - 1
            self._inside[number] = float(inside.mean())  # arrivals see time averages (PASTA)

    def at(self, used: float) -> float:
        return float(np.interp(used, self._used, self._inside))
