"""A capacity plan as one value and one file, from which every report can be produced again."""

import math
from typing import ClassVar, Literal

from inferometer.base.answer_file import Answer
from inferometer.base.frozen import frozen
from inferometer.capacity.autoscaling import Autoscaling
from inferometer.capacity.traffic import Stretch
from inferometer.stats.estimate import Estimate
from inferometer.stats.verdict import INCONCLUSIVE, MATTERS_PERCENT, NOT_SHOWN, SHOWN, Ruling

Basis = Literal["measured", "interpolated", "extrapolated"]
"""Origin of a figure: a measured load, a load between measured ones, or a load beyond them."""

HOURS_PER_MONTH = 730.0


@frozen
class BasedFigure:
    """A value, its basis, and a description of the basis."""

    value: float
    basis: Basis
    source: str


@frozen
class PlannedTerm:
    """One limit of the SLO and its expected value, in nanoseconds or as a share."""

    text: str
    name: str
    figure: str  # latency, ttft, tpot, errors or goodput
    limit: float
    expected: BasedFigure

    @property
    def is_beyond(self) -> bool:
        """Whether the expected value violates the limit."""
        value = self.expected.value
        return value < self.limit if self.figure == "goodput" else value >= self.limit


@frozen
class FleetFigures:
    """Expected figures of a number of replicas in the stretch that needs the most."""

    replicas: int
    per_replica: float  # requests per second
    utilisation: BasedFigure  # share of the maximum throughput of a replica
    terms: tuple[PlannedTerm, ...]
    basis: Basis  # of the number of replicas: the least certain basis of its inputs
    source: str


@frozen
class ReplicaFigures:
    """Capacity and latency of one replica."""

    most_per_s: BasedFigure  # maximum requests per second
    alone_ns: BasedFigure  # mean latency of a single request without queueing
    places: int  # requests in service at once
    measured: tuple[tuple[float, float], ...]  # (concurrency or rate, requests per second)
    mode: str  # concurrency or request_rate
    is_growing: bool  # throughput had not saturated


@frozen
class EnergyUse:
    """Energy of all replicas, including spare ones, averaged over the traffic; `invalid` is the reason if there is
    none."""

    kwh_per_h: Estimate | None = None
    kwh_per_day: Estimate | None = None
    kwh_per_million: Estimate | None = None
    million_of: str = "requests"  # or output tokens
    carbon_g_per_million: Estimate | None = None  # with --carbon
    basis: Basis = "interpolated"
    source: str = ""
    invalid: str = ""


@frozen
class NeededRange:
    """Fewest replicas that meet the SLO if every measured figure is at the best or worst end of its interval.

    An end is None if no number meets the SLO there. `doubt` says why the measurement sets no bound, if it does not.
    """

    low: int | None
    high: int | None
    doubt: str = ""

    @property
    def ruling(self) -> Ruling:
        """Whether a number of replicas is shown to meet the SLO, and to be within 10 % of the fewest that do."""
        if self.low is None:
            return INCONCLUSIVE if self.doubt else NOT_SHOWN
        if self.doubt or self.high is None or _is_more(self.high, self.low):
            return INCONCLUSIVE
        return SHOWN


def _is_more(value: float, other: float) -> bool:
    """Return whether a value is larger by a relevant margin."""
    return value > other and value >= other * (1 + MATTERS_PERCENT / 100)


@frozen
class PlannedOption:
    """One kind of machine or configuration; `fewest` is None if no number of replicas meets the SLO."""

    name: str
    model: str
    server: str
    replica: ReplicaFigures
    price_per_h: float | None
    fewest: FleetFigures | None = None  # fewest replicas that meet the SLO, without the spare ones
    fewer: FleetFigures | None = None  # one replica less, which does not meet it; None if one is enough
    whole: FleetFigures | None = None  # including spare replicas
    over_time: tuple[int, ...] = ()  # for each stretch, including spare replicas
    over_time_basis: Basis = "interpolated"
    cost_per_h: float | None = None
    following_per_h: float | None = None  # if the number of replicas follows the need of each stretch
    autoscaling: Autoscaling | None = None
    scaled_per_h: float | None = None
    by_balancer: tuple[tuple[str, int], ...] = ()  # fewest replicas with each load balancer
    reason: str = ""  # why no number of replicas meets the SLO
    remarks: tuple[str, ...] = ()
    lengths: tuple[float, float] | None = (
        None  # mean tokens of prompts and answers, if replicas generate text
    )
    cost_per_million: float | None = None  # output tokens, with all replicas running all the time
    energy: EnergyUse | None = None  # None if the result has no energy figures
    needed: NeededRange | None = None  # None in plans of earlier versions

    @property
    def replicas(self) -> int:
        """Number of replicas including spare ones; 0 if no number meets the SLO."""
        return 0 if self.whole is None else self.whole.replicas

    @property
    def ruling(self) -> Ruling:
        """The ruling on the number of replicas."""
        return INCONCLUSIVE if self.needed is None else self.needed.ruling

    def price_of(self, replicas: int) -> float:
        """Return the cost per hour of this number of replicas, or their number if they have no price."""
        return replicas if self.price_per_h is None else replicas * self.price_per_h


@frozen
class CapacityPlan(Answer):
    """A capacity plan; `options` are in the order in which they were given."""

    kind: ClassVar[str] = "capacity"
    schema: ClassVar[int] = 1
    remedy: ClassVar[str] = "run `inferometer capacity` again"

    tool: str
    promise: str
    traffic: str  # as given
    form: str  # rate, trace, daily curve or scenario
    stretches: tuple[Stretch, ...]
    arrivals: str  # arrival process within a stretch
    balancer: str
    spare: int
    seed: int
    options: tuple[PlannedOption, ...]
    best: int | None  # index of the cheapest option; with the fewest replicas if a price is missing
    carbon: float | None = None  # grams of CO2 per kWh

    @property
    def peak(self) -> int:
        """Index of the busiest stretch."""
        return max(range(len(self.stretches)), key=lambda number: self.stretches[number].rate)

    def hardest(self, option: PlannedOption) -> int:
        """Return the index of the stretch that needs the most replicas of an option, whose figures the option has. In
        a trace it may not be the busiest one: bursts count."""
        if not option.over_time:
            return self.peak
        places = range(len(self.stretches))
        return max(places, key=lambda place: (option.over_time[place], self.stretches[place].rate))

    @property
    def chosen(self) -> PlannedOption | None:
        return None if self.best is None else self.options[self.best]

    @property
    def maybe_better(self) -> PlannedOption | None:
        """An option that may be cheaper than the chosen one by a relevant margin, within the intervals of both."""
        chosen = self.chosen
        if chosen is None:
            return None
        high = None if chosen.needed is None else chosen.needed.high
        most = math.inf if high is None else chosen.price_of(high + self.spare)
        for option in self.options:
            if option is chosen or option.needed is None or option.needed.low is None:
                continue
            if _is_more(most, option.price_of(option.needed.low + self.spare)):
                return option
        return None

    @property
    def ruling(self) -> Ruling:
        """The ruling on the plan: on the number of replicas of the best option, and on its being the best."""
        chosen = self.chosen
        if chosen is None:
            is_settled = all(option.ruling == NOT_SHOWN for option in self.options)
            return NOT_SHOWN if is_settled else INCONCLUSIVE
        return chosen.ruling if self.maybe_better is None else INCONCLUSIVE

    @property
    def span_s(self) -> float:
        return self.stretches[-1].end_s - self.stretches[0].start_s
