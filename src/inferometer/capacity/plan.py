"""How many replicas, as one value and one file: every report can be made again from it."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from inferometer.base.answer_file import Answer
from inferometer.capacity.autoscaling import Autoscaling
from inferometer.capacity.traffic import Stretch

Basis = Literal["measured", "interpolated", "extrapolated"]
"""Where a figure comes from: a load that was measured, between such loads, or beyond them."""

HOURS_PER_MONTH = 730.0


@dataclass(frozen=True, slots=True)
class BasedFigure:
    """A value, where it comes from, and the words for that."""

    value: float
    basis: Basis
    source: str


@dataclass(frozen=True, slots=True)
class PlannedTerm:
    """One limit of the promise and what is expected of it: nanoseconds or a share."""

    text: str
    name: str
    figure: str  # latency, errors or goodput
    limit: float
    expected: BasedFigure


@dataclass(frozen=True, slots=True)
class FleetFigures:
    """A number of replicas in the busiest stretch."""

    replicas: int
    per_replica: float  # requests per second
    utilisation: BasedFigure  # share of the most that a replica does
    terms: tuple[PlannedTerm, ...]
    basis: Basis  # of the number itself: the least certain of what it rests on
    source: str


@dataclass(frozen=True, slots=True)
class ReplicaFigures:
    """What one replica does."""

    most_per_s: BasedFigure  # requests
    alone_ns: BasedFigure  # mean latency of a request without company
    places: int  # requests that are worked on at once
    measured: tuple[tuple[float, float], ...]  # (concurrency or rate, requests per second)
    mode: str  # concurrency or request_rate
    is_growing: bool  # more load might have brought more


@dataclass(frozen=True, slots=True)
class PlannedOption:
    """One kind of machine or configuration; `fewest` is None where no number of it keeps the promise."""

    name: str
    model: str
    server: str
    replica: ReplicaFigures
    price_per_h: float | None
    fewest: FleetFigures | None = None  # that keep the promise: what is left after the spare ones are lost
    whole: FleetFigures | None = None  # with the spare ones
    over_time: tuple[int, ...] = ()  # with the spare ones, of each stretch
    over_time_basis: Basis = "interpolated"
    cost_per_h: float | None = None
    following_per_h: float | None = None  # if replicas follow the need of each stretch
    autoscaling: Autoscaling | None = None
    scaled_per_h: float | None = None
    by_balancer: tuple[tuple[str, int], ...] = ()  # the fewest behind each balancer
    reason: str = ""  # why there is none
    remarks: tuple[str, ...] = ()

    @property
    def replicas(self) -> int:
        """With the spare ones; 0 where no number keeps the promise."""
        return 0 if self.whole is None else self.whole.replicas


@dataclass(frozen=True, slots=True)
class CapacityPlan(Answer):
    """`options` are in the order they were given."""

    kind: ClassVar[str] = "capacity"
    schema: ClassVar[int] = 1
    remedy: ClassVar[str] = "run `inferometer capacity` again"

    tool: str
    promise: str
    traffic: str  # as it was given
    form: str  # rate, trace, daily curve or scenario
    stretches: tuple[Stretch, ...]
    arrivals: str  # how requests come within a stretch
    balancer: str
    spare: int
    seed: int
    options: tuple[PlannedOption, ...]
    best: int | None  # which option is the cheapest, or has the fewest replicas where no price is known

    @property
    def peak(self) -> int:
        """Which stretch is the busiest."""
        return max(range(len(self.stretches)), key=lambda number: self.stretches[number].rate)

    @property
    def chosen(self) -> PlannedOption | None:
        return None if self.best is None else self.options[self.best]

    @property
    def span_s(self) -> float:
        return self.stretches[-1].end_s - self.stretches[0].start_s
