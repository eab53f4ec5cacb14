"""The cost of trials, learned from those made so far, and the remaining budget.

Seconds are taken from the trials, not from a clock, so that a search can be simulated. Trials from the journal show the
cost of a trial but use no budget: an earlier run paid for them.
"""

from dataclasses import dataclass, field

import numpy as np

from inferometer.tune.search.throughput_model import Array
from inferometer.tune.settings import Effort
from inferometer.tune.trial import Trial

WAITS = 3.0  # latencies that a trial takes beyond its measurement: to warm up, to settle, to drain
FAR = 0.1  # doublings of the instances at which the weight of a known loading time is halved


@dataclass(slots=True)
class SearchClock:
    """Tracks costs. The first trial includes the start of the server, so the cost of later trials is not learned from
    it."""

    budget_s: float | None
    most_waiting_s: float = np.inf  # of a trial, however slow the answers are
    _spent_s: dict[int, float] = field(default_factory=dict)  # by server, including waiting
    _loadings: list[tuple[float, float]] = field(default_factory=list)  # (instances, seconds)
    _changes: list[float] = field(default_factory=list)  # seconds to set values on a running server
    _others: list[float] = field(default_factory=list)  # seconds not loading, measuring or waiting

    def add(
        self,
        trial: Trial,
        instances: float,
        effort: Effort,
        latency_s: float,
        server: int = 0,
        *,
        is_started: bool = True,
    ) -> None:
        """Learn from a trial; `is_started` says whether its configuration needed a start of the server."""
        is_first = server not in self._spent_s
        loading_s = trial.loading_s + trial.warming_s if trial.loading_s else 0.0
        if loading_s and trial.is_measured:
            if is_started:
                self._loadings.append((instances, loading_s))
            else:
                self._changes.append(loading_s)
        if not is_first and trial.is_measured:
            self._others.append(
                trial.cost_s - loading_s - effort.duration_s - float(self._waiting_s(latency_s))
            )
        self._spent_s[server] = self._spent_s.get(server, 0.0) + trial.spent_s

    @property
    def spent_s(self) -> float:
        """The elapsed time: that of the server whose last trial ended last."""
        return max(self._spent_s.values(), default=0.0)

    def loading_s(self, instances: Array) -> Array:
        """Return the loading time for these instance counts, assumed to grow with the count until several are known."""
        if not self._loadings:
            return np.zeros_like(instances)
        known, seconds = (np.array(column) for column in zip(*self._loadings, strict=True))
        apart = np.abs(np.log2(instances[:, None] / known[None, :]))
        weights = 1 / (apart + FAR)
        scaled = seconds * ((1 + instances[:, None]) / (1 + known[None, :])) ** 0.5
        return np.asarray((weights * scaled).sum(axis=1) / weights.sum(axis=1))

    @property
    def changing_s(self) -> float:
        """The time to set other values on a running server."""
        return float(np.median(self._changes)) if self._changes else 0.0

    def measuring_s(self, effort: Effort, latency_s: Array) -> Array:
        other = float(np.median(self._others)) if self._others else 0.0
        return np.asarray(max(effort.duration_s + other, 0.05) + self._waiting_s(latency_s))

    def _waiting_s(self, latency_s: Array | float) -> Array:
        return np.asarray(np.minimum(WAITS * latency_s, self.most_waiting_s))

    def is_over(self, next_s: float, left_for_s: float = 0.0) -> bool:
        """Return whether a trial of this cost no longer fits into the budget, with some time reserved for later."""
        return self.budget_s is not None and self.spent_s + next_s + left_for_s > self.budget_s

    @property
    def left_s(self) -> float:
        return np.inf if self.budget_s is None else max(0.0, self.budget_s - self.spent_s)
