"""What makes one configuration better than another: objectives, constraints, weights."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from inferometer.base.errors import UsageError
from inferometer.tune.metrics import BY_TAG, LATENCY_P99, OLD_LATENCY, THROUGHPUT

LISTED_WEIGHT = 10.0


@dataclass(frozen=True, slots=True)
class Constraint:
    """A metric and the bound it must keep; equality keeps it."""

    tag: str
    low: float | None = None
    high: float | None = None

    def violation(self, value: float) -> float:
        """By which share of the bound it is missed; 0 when kept."""
        if self.low is not None and value < self.low:
            return (self.low - value) / self.low
        if self.high is not None and value > self.high:
            return (value - self.high) / self.high if self.high else float("inf")
        return 0.0


@dataclass(frozen=True, slots=True)
class Goal:
    """Of one model."""

    model: str
    objectives: tuple[tuple[str, float], ...] = ((THROUGHPUT, LISTED_WEIGHT),)
    constraints: tuple[Constraint, ...] = ()
    weight: float = 1.0

    @property
    def shares(self) -> tuple[tuple[str, float], ...]:
        """Objectives with weights that sum to 1."""
        total = sum(weight for _, weight in self.objectives)
        return tuple((tag, weight / total) for tag, weight in self.objectives)

    def limit(self, tag: str) -> float | None:
        """The upper bound of a metric, if it has one."""
        return next((row.high for row in self.constraints if row.tag == tag), None)

    @property
    def latency_limit(self) -> tuple[str, float] | None:
        """The constraint on latency that binds a search: its tag and its bound in ms."""
        found = [
            (row.tag, row.high)
            for row in self.constraints
            if row.tag.startswith("perf_latency") and row.high is not None
        ]
        return found[-1] if found else None


def objectives(given: Mapping[str, float] | Sequence[str], where: str) -> tuple[tuple[str, float], ...]:
    """Weights by tag; a list gives every member the same."""
    rows = (
        [(str(tag), float(weight)) for tag, weight in given.items()]
        if isinstance(given, Mapping)
        else [(str(tag), LISTED_WEIGHT) for tag in given]
    )
    for tag, weight in rows:
        if tag not in BY_TAG and tag != OLD_LATENCY:
            raise UsageError(f"{where}.{tag} is not a metric", remedy=f"the metrics are {', '.join(BY_TAG)}")
        if weight <= 0:
            raise UsageError(f"{where}.{tag} has weight {weight:g}", remedy="give a weight above 0")
    if not rows:
        raise UsageError(f"{where} is empty", remedy=f"name a metric, such as {THROUGHPUT}")
    return tuple((LATENCY_P99 if tag == OLD_LATENCY else tag, weight) for tag, weight in rows)


def constraints(given: Mapping[str, object], where: str) -> tuple[Constraint, ...]:
    """From `{metric: {min: n}}` and `{metric: {max: n}}`."""
    return tuple(_constraint(str(tag), bounds, f"{where}.{tag}") for tag, bounds in given.items())


def _constraint(tag: str, bounds: object, where: str) -> Constraint:
    metric = BY_TAG.get(LATENCY_P99 if tag == OLD_LATENCY else tag)
    if metric is None or not (metric.may_min or metric.may_max):
        allowed = ", ".join(row.tag for row in BY_TAG.values() if row.may_min or row.may_max)
        raise UsageError(f"{where} is not a metric with a limit", remedy=f"those are {allowed}")
    allowed_bound = "min" if metric.may_min else "max"
    if not isinstance(bounds, Mapping) or set(bounds) != {allowed_bound}:
        raise UsageError(f"{where} is {bounds!r}", remedy=f"write {{{allowed_bound}: NUMBER}}")
    value = bounds[allowed_bound]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
        raise UsageError(f"{where}.{allowed_bound} is {value!r}", remedy="give a number from 0 up")
    if allowed_bound == "min":
        return Constraint(metric.tag, low=float(value))
    return Constraint(metric.tag, high=float(value))


def with_limit(rows: Sequence[Constraint], added: Constraint) -> tuple[Constraint, ...]:
    """One more constraint; an older one on the same metric gives way."""
    return (*(row for row in rows if row.tag != added.tag), added)
