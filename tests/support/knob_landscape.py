"""Simulated servers with knobs of a command line: seeded landscapes whose optimum is computed.

    python -m tests.support.knob_landscape [LANDSCAPES]

Prints the share of the best configuration that a search reaches in a tenth of the time of a grid, for several starting
times: how often it is at least 95 %, and the mean.
"""

import math
import random
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

from inferometer.options.varying import Vary
from inferometer.stats.estimate import Estimate
from inferometer.tune.condition import parse_condition
from inferometer.tune.knobs import knobs_of
from inferometer.tune.scoring import Goal, rank
from inferometer.tune.search.search import (
    ModelProblem,
    Proposal,
    SearchMessage,
    SearchProblem,
    SkippedProposal,
)
from inferometer.tune.search.smart import smart
from inferometer.tune.settings import SearchSettings
from inferometer.tune.space import SearchBounds, launched
from inferometer.tune.trial import Figures, Status, Trial
from inferometer.tune.variant import VariantNames
from tests.support.landscape import driven

GRID_LOOK_S = 5.0  # of one configuration of a grid
LOADS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
STEP_S = 0.3  # of a trial, besides starting, warming up and measuring


class KnobLandscape(Protocol):
    rows: ClassVar[tuple[Vary, ...]]
    conditions: ClassVar[tuple[str, ...]]

    @property
    def noise(self) -> float: ...

    def rate(self, values: Mapping[str, Any], load: float) -> float | None:
        """Requests per second; None if the configuration does not start."""


@dataclass(frozen=True, slots=True)
class Slots:
    """Requests in service share a step; the step has a fixed cost, one per slot, and one per chunk of work."""

    rows: ClassVar[tuple[Vary, ...]] = (
        Vary("slots", (1, 2, 4, 8, 16)),
        Vary("batch", (64, 256, 1024, 4096)),
        Vary("policy", ("fifo", "sorted")),
    )
    conditions: ClassVar[tuple[str, ...]] = ("slots*batch <= 32768",)
    fixed_s: float
    slot_s: float
    chunk_s: float
    chunk: float  # best batch
    sorted_gain: float
    memory: float  # largest slots * batch
    noise: float

    @classmethod
    def drawn(cls, seed: int) -> "Slots":
        draw = random.Random(seed)
        fixed_s = 10 ** draw.uniform(-2.5, -1.3)
        return cls(
            fixed_s=fixed_s,
            slot_s=fixed_s * 10 ** draw.uniform(-2.0, -0.3),
            chunk_s=fixed_s * draw.uniform(0.02, 0.3),
            chunk=2 ** draw.uniform(6, 12),
            sorted_gain=draw.uniform(-0.15, 0.25),
            memory=draw.choice((4096, 16384, 1e9)),
            noise=draw.uniform(0.005, 0.03),
        )

    def rate(self, values: Mapping[str, Any], load: float) -> float | None:
        slots, batch = float(values["slots"]), float(values["batch"])
        if slots * batch > self.memory:
            return None
        busy = min(slots, load)
        step_s = self.fixed_s + self.slot_s * busy**1.3 + self.chunk_s * math.log2(batch / self.chunk) ** 2
        gain = 1 + self.sorted_gain if values["policy"] == "sorted" else 1.0
        return gain * busy / step_s


@dataclass(frozen=True, slots=True)
class Batcher:
    """Lanes collect requests into batches, for a limited time, and slow each other down."""

    rows: ClassVar[tuple[Vary, ...]] = (
        Vary("lanes", (1, 2, 4, 8, 16)),
        Vary("batch", (1, 2, 4, 8, 16, 32)),
        Vary("window_ms", (0, 5, 20)),
    )
    conditions: ClassVar[tuple[str, ...]] = ()
    fixed_s: float
    item_s: float
    item_power: float
    lane_s: float
    lane_power: float
    noise: float

    @classmethod
    def drawn(cls, seed: int) -> "Batcher":
        draw = random.Random(1000 + seed)
        fixed_s = 10 ** draw.uniform(-2.3, -1.3)
        return cls(
            fixed_s=fixed_s,
            item_s=fixed_s * 10 ** draw.uniform(-2.0, -0.7),
            item_power=draw.uniform(1.0, 1.4),
            lane_s=fixed_s * 10 ** draw.uniform(-1.5, -0.2),
            lane_power=draw.uniform(1.0, 1.7),
            noise=draw.uniform(0.005, 0.03),
        )

    def rate(self, values: Mapping[str, Any], load: float) -> float | None:
        lanes, most, window_s = (
            float(values["lanes"]),
            float(values["batch"]),
            float(values["window_ms"]) / 1000,
        )
        batch = min(most, max(1.0, load / lanes))
        step_s = (
            self.fixed_s + self.item_s * batch**self.item_power + self.lane_s * (lanes - 1) ** self.lane_power
        )
        wait_s = window_s if batch < most else 0.1 * window_s
        return min(lanes, load) * batch / (step_s + wait_s)


@dataclass(slots=True)
class KnobTrials:
    """Answers proposals from the landscape; a changed configuration costs a start, and a new load a warm-up."""

    landscape: KnobLandscape
    start_s: float
    seed: int
    warm_s: float = 0.0
    patience_s: float = math.inf
    spent_s: float = 0.0
    trials: list[Trial] = field(default_factory=list)
    _running: str = ""
    _warm_for: set[float] = field(default_factory=set)

    def answer(self, proposal: Proposal) -> Trial:
        ((variant, load),) = proposal.parts
        number = len(self.trials)
        loading_s = 0.0 if variant.key == self._running else self.start_s
        rate = self.landscape.rate(dict(knobs_of(variant.config) or {}), load.value)
        if rate is None:
            self._running = ""
            trial = proposal.trial(number, Status.FAILED, "exited with status 1: out of memory")
            cost_s = self.start_s / 2
            warming_s = 0.0
        else:
            if variant.key != self._running:
                self._warm_for.clear()
            self._running = variant.key
            warming_s = min(max(self.warm_s, 2 * load.value / rate), max(self.warm_s, self.patience_s))
            warming_s *= load.value not in self._warm_for
            self._warm_for.add(load.value)
            luck = random.Random(f"{self.seed} {proposal.key}").gauss(0, self.landscape.noise)
            assert proposal.effort is not None
            found = rate * math.exp(luck)
            spread = 2 * self.landscape.noise * found
            latency_ms = 1000 * load.value / found
            figures = Figures(
                (
                    ("perf_throughput", Estimate(found, found - spread, found + spread)),
                    ("perf_latency_avg", Estimate(latency_ms)),
                    ("perf_latency_p99", Estimate(1.4 * latency_ms)),
                )
            )
            trial = proposal.trial(number, Status.MEASURED)
            trial = replace(trial, parts=(replace(trial.parts[0], figures=figures),))
            measuring_s = max(proposal.effort.duration_s, min(3 * latency_ms / 1000, self.patience_s / 2))
            cost_s = loading_s + warming_s + measuring_s + STEP_S
        trial = replace(trial, cost_s=cost_s, loading_s=loading_s, warming_s=warming_s if loading_s else 0.0)
        self.spent_s += cost_s
        self.trials.append(trial)
        return trial


def problem_of(landscape: KnobLandscape, seed: int, budget_s: float) -> SearchProblem:
    names = tuple(row.name for row in landscape.rows)
    conditions = tuple(parse_condition(text, names) for text in landscape.conditions)
    task = ModelProblem(launched("server", landscape.rows, conditions, {}), Goal("server"))
    bounds = SearchBounds(concurrency=(1, round(LOADS[-1])))
    return SearchProblem((task,), SearchSettings(bounds=bounds, budget_s=budget_s, ends_at_limit=True), seed)


Reached = tuple[float, KnobTrials, list[SearchMessage | SkippedProposal]]


def reached(
    landscape: KnobLandscape, seed: int, start_s: float, warm_s: float, share: float = 0.1
) -> Reached:
    """The share of the best rate that the recommended configuration truly has, in this share of the grid's time."""
    space = problem_of(landscape, seed, 1.0).tasks[0].space
    rows = [space.overrides(point)["knobs"] for point in space.points()]
    rates = [rate for row in rows for load in LOADS if (rate := landscape.rate(row, load)) is not None]
    problem = problem_of(landscape, seed, share * len(rows) * (start_s + warm_s + GRID_LOOK_S))
    trials = KnobTrials(landscape, start_s, seed, warm_s, problem.settings.patience_s)
    names = VariantNames()
    events, _ = driven(smart(problem, names), trials.answer)
    best = rank(problem.goals, trials.trials)[0].best
    found = landscape.rate(dict(knobs_of(names.known[best.name].config) or {}), best.load.value)
    assert found is not None
    return found / max(rates), trials, events


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    for kind in (Batcher, Slots):
        for start_s, warm_s in ((0.3, 0.5), (2.0, 1.5), (20.0, 4.0)):
            ends = [reached(kind.drawn(seed), seed, start_s, warm_s) for seed in range(count)]
            found = [share for share, _, _ in ends]
            starts = sum(len({one.name for one in trials.trials}) for _, trials, _ in ends) / count
            print(
                f"{kind.__name__.lower()}, start {start_s:g} s, warm-up {warm_s:g} s: "
                f"{sum(one >= 0.95 for one in found)} of {count} reach 95 %, mean {sum(found) / count:.3f}, "
                f"worst {min(found):.2f}; {starts:.1f} configurations"
            )
