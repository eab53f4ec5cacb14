"""`python -m benchmarks.mlperf`: our verdicts next to loadgen's own, and the errors of the sequential test.

    make mlperf RUNS=10000        every night

Runs of loadgen come from its own library, in an environment of its own (`benchmarks/loadgen_runs.py`). The truth of the
sequential test is known: latencies are exponential, independent or those of an M/M/1 queue.

Beside it runs a test that cannot be had: it knows the true share over the target, and by which factor the counts of
queries over it vary more than those of independent queries, and needs as much evidence (Wald's sequential probability
ratio test). What it needs is how many queries the question takes; our test must find out both.
"""

import argparse
import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from inferometer.stats.mlperf import ERROR, MlperfLog, MlperfTarget, sequential_answer
from tests.support.loadgen import differences, is_borderline

SCRIPT = Path(__file__).with_name("loadgen_runs.py")
SHARES = (0.9, 0.95, 0.99)
UTILIZATIONS = (0.0, 0.5, 0.8)  # 0: independent queries
MOST_REQUESTS = 0.5  # of loadgen's, by the sequential test with independent queries
COLD = 2000  # queries before a queue is in its steady state
LONG_RUN = 2_000_000  # queries that show how their counts vary
SECTION = 20_000  # of it, far longer than a queue's memory
LUCK = 3.0  # standard deviations by which a rate of errors may exceed its limit


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--loadgen", type=Path, help="a Python with mlcommons-loadgen")
    asked = parser.parse_args()
    problems = []
    if asked.loadgen is not None:
        problems += compared(asked.loadgen, asked.runs, asked.seed)
    for utilization in UTILIZATIONS:
        study = sequential_study(utilization, asked.runs, asked.seed)
        print(study)
        problems += study.problems()
    for problem in problems:
        print(f"PROBLEM: {problem}")
    return 1 if problems else 0


def compared(python: Path, runs: int, seed: int) -> list[str]:
    """Return every difference between loadgen's verdicts and ours."""
    command = [str(python), str(SCRIPT), "--runs", str(runs), "--seed", str(seed)]
    counts: Counter[str] = Counter()
    problems = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            run = json.loads(line)
            counts[f"{run['scenario']} {run['loadgen']['result_validity']}"] += 1
            if (found := differences(run)) and not is_borderline(run):
                problems.append(f"{', '.join(found)} of {run['scenario']} {run['settings']}")
    if child.returncode or sum(counts.values()) != runs:
        problems.append(f"loadgen ended with {child.returncode} after {sum(counts.values()):,} runs")
    print(f"loadgen: {dict(sorted(counts.items()))}, {len(problems)} differences")
    return problems


@dataclass(frozen=True, slots=True)
class SequentialStudy:
    """Answers of the sequential test in runs whose truth is known."""

    utilization: float
    runs: int
    wrong: int
    undecided: int
    requests: float  # share of those that loadgen sends
    informed: float  # the same, for a test that knows the truth

    def __str__(self) -> str:
        kind = f"M/M/1 at {self.utilization:.0%}" if self.utilization else "independent"
        return (
            f"sequential, {kind}: {self.wrong / self.runs:.2%} wrong, {self.undecided / self.runs:.1%} undecided, "
            f"{self.requests:.0%} of the requests, {self.informed:.0%} if the truth were known ({self.runs:,} runs)"
        )

    def problems(self) -> list[str]:
        limit = ERROR + LUCK * (ERROR * (1 - ERROR) / self.runs) ** 0.5
        is_long = not self.utilization and self.requests > MOST_REQUESTS
        return [str(self)] if self.wrong > limit * self.runs or is_long else []


def sequential_study(utilization: float, runs: int, seed: int) -> SequentialStudy:
    """Judge runs of 3,000 to 63,000 queries; their share over the target is up to seven times what is allowed, or a
    seventh of it, and in one run of five exactly at the limit."""
    draw = np.random.default_rng(seed)
    excess = Excess.of(draw, utilization)
    wrong = undecided = used = informed = total = 0
    for _ in range(runs):
        share = float(draw.choice(SHARES))
        queries = int(10 ** draw.uniform(3.5, 4.8))
        factor = float(np.exp(draw.uniform(-2, 2))) if draw.random() < 0.8 else 1.0
        limit = -np.log((1 - share) * factor) / (1 - utilization)
        times = (_latencies(draw, queries, utilization) * 1e6).astype(np.int64)
        target = MlperfTarget("latency", round(limit * 1e6))
        found = sequential_answer(MlperfLog({"latency": times}, 1.0, queries), target, share)
        used, total = used + found.queries, total + queries
        informed += queries_if_known(times > target.limit_ns, 1 - share, (1 - share) * factor, excess)
        undecided += found.answer == "undecided"
        wrong += found.answer == ("violated" if factor <= 1 else "met")
    return SequentialStudy(utilization, runs, wrong, undecided, used / total, informed / total)


@dataclass(frozen=True, slots=True)
class Excess:
    """By which factor counts of queries over a target vary more than those of independent queries, by their share."""

    shares: NDArray[np.float64]
    factors: NDArray[np.float64]

    @classmethod
    def of(cls, draw: np.random.Generator, utilization: float) -> "Excess":
        times = _latencies(draw, LONG_RUN, utilization)
        shares = np.geomspace(0.001, 0.7, 16)
        over = times[None, :] > -np.log(shares)[:, None] / (1 - utilization)
        counts = over[:, : LONG_RUN // SECTION * SECTION].reshape(len(shares), -1, SECTION).sum(axis=2)
        return cls(shares, counts.var(axis=1, ddof=1) / SECTION / (shares * (1 - shares)))

    def at(self, share: float) -> float:
        return max(1.0, float(np.interp(np.log(share), np.log(self.shares), self.factors)))


def queries_if_known(over: NDArray[np.bool_], limit: float, share: float, excess: Excess) -> int:
    """Return the queries after which a test that knows the true share is certain enough; all, if never."""
    ratios = np.where(over, np.log(share / limit), np.log((1 - share) / (1 - limit)))
    places = np.flatnonzero(np.cumsum(ratios) / excess.at(share) >= np.log(1 / ERROR))
    return int(places[0]) + 1 if len(places) else len(over)


def _latencies(draw: np.random.Generator, queries: int, utilization: float) -> NDArray[np.float64]:
    """Return response times of a steady M/M/1 queue; with utilization 0, only of its server."""
    if not utilization:
        return draw.exponential(1.0, queries)
    count = queries + COLD
    service, gaps = draw.exponential(1.0, count), draw.exponential(1 / utilization, count)
    steps = np.concatenate(([0.0], np.cumsum((service - gaps)[:-1])))
    found: NDArray[np.float64] = (steps - np.minimum.accumulate(steps) + service)[COLD:]
    return found


if __name__ == "__main__":
    sys.exit(main())
