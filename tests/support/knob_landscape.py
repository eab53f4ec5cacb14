"""A simulated server with knobs of a command line: seeded landscapes whose optimum is computed.

    python -m tests.support.knob_landscape [LANDSCAPES]

Prints the share of the best configuration that a search reaches in a tenth of the time of a grid, for several starting
times: how often it is at least 95 %, and the mean.
"""

import math
import random
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from inferometer.options.varying import Vary
from inferometer.stats.measurement import Estimate
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
ROWS = (
    Vary("slots", (1, 2, 4, 8, 16)),
    Vary("batch", (64, 256, 1024, 4096)),
    Vary("policy", ("fifo", "sorted")),
)


@dataclass(frozen=True, slots=True)
class KnobLandscape:
    """Requests in service share a step; the step has a fixed cost, one per slot, and one per chunk of work."""

    fixed_s: float
    slot_s: float
    chunk_s: float
    chunk: float  # best batch
    sorted_gain: float
    memory: float  # largest slots * batch
    noise: float

    @classmethod
    def drawn(cls, seed: int) -> "KnobLandscape":
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
        """Requests per second; None if the configuration does not start."""
        slots, batch = float(values["slots"]), float(values["batch"])
        if slots * batch > self.memory:
            return None
        busy = min(slots, load)
        step_s = self.fixed_s + self.slot_s * busy**1.3 + self.chunk_s * math.log2(batch / self.chunk) ** 2
        gain = 1 + self.sorted_gain if values["policy"] == "sorted" else 1.0
        return gain * busy / step_s


@dataclass(slots=True)
class KnobTrials:
    """Answers proposals from the landscape; a changed configuration costs a start."""

    landscape: KnobLandscape
    start_s: float
    seed: int
    spent_s: float = 0.0
    trials: list[Trial] = field(default_factory=list)
    _running: str = ""

    def answer(self, proposal: Proposal) -> Trial:
        ((variant, load),) = proposal.parts
        number = len(self.trials)
        loading_s = 0.0 if variant.key == self._running else self.start_s
        rate = self.landscape.rate(dict(knobs_of(variant.config) or {}), load.value)
        if rate is None:
            self._running = ""
            trial = proposal.trial(number, Status.FAILED, "exited with status 1: out of memory")
            cost_s = self.start_s / 2
        else:
            self._running = variant.key
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
            cost_s = loading_s + proposal.effort.duration_s + 0.1
        trial = replace(trial, cost_s=cost_s, loading_s=loading_s)
        self.spent_s += cost_s
        self.trials.append(trial)
        return trial


def problem_of(seed: int, budget_s: float, *, loads: tuple[float, ...] | None = None) -> SearchProblem:
    conditions = (parse_condition("slots*batch <= 32768", ("slots", "batch", "policy")),)
    task = ModelProblem(launched("server", ROWS, conditions, {}), Goal("server"), loads=loads)
    bounds = SearchBounds(concurrency=(1, 64))
    return SearchProblem((task,), SearchSettings(bounds=bounds, budget_s=budget_s, ends_at_limit=True), seed)


Reached = tuple[float, KnobTrials, list[SearchMessage | SkippedProposal]]


def reached(seed: int, start_s: float, share: float = 0.1) -> Reached:
    """The share of the best rate that the recommended configuration truly has, in this share of the grid's time."""
    landscape = KnobLandscape.drawn(seed)
    space = problem_of(seed, 1.0).tasks[0].space
    rows = [space.overrides(point)["knobs"] for point in space.points()]
    rates = [rate for row in rows if (rate := landscape.rate(row, 64.0)) is not None]
    budget_s = share * len(rows) * (start_s + GRID_LOOK_S)
    trials = KnobTrials(landscape, start_s, seed)
    names = VariantNames()
    problem = problem_of(seed, budget_s)
    events, _ = driven(smart(problem, names), trials.answer)
    best = rank(problem.goals, trials.trials)[0].best
    found = landscape.rate(dict(knobs_of(names.known[best.name].config) or {}), best.load.value)
    assert found is not None
    return found / max(rates), trials, events


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    for start_s in (0.3, 2.0, 20.0):
        found = [reached(seed, start_s)[0] for seed in range(count)]
        good = sum(one >= 0.95 for one in found)
        print(
            f"start {start_s:g} s: {good} of {count} reach 95 %, mean {sum(found) / count:.3f}, worst {min(found):.2f}"
        )
