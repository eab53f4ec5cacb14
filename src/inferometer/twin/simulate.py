"""A load on pipelines, simulated for as long as it would be measured, again and again. Pure.

A short measurement does not show the percentiles of a long one: its p99 may be its slowest request. So what is
simulated is cut into blocks as long as a measurement. The median of the blocks is what to expect, and their spread is
how far a measurement lies from that by chance.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from inferometer.base.units import NS_PER_S
from inferometer.diagnose.pipeline import Pipeline
from inferometer.diagnose.simulation import EndedRequest, SimulatedTraffic, Simulation
from inferometer.load.plan import Constant, Poisson, Schedule
from inferometer.stats.series import rank
from inferometer.twin.twin import LATENCIES, THROUGHPUT, LoadPart

REQUESTS = 1600  # simulated for a load
BLOCKS = 12
_REPEATS = (2, 5)  # where the due times are known: at least, at most
_PILOT = 60
_MANY = 5  # times as many requests as are simulated otherwise
_MOST_DUE = 20_000  # requests: more than any server answers of them would only queue
_SETTLING = 6  # rounds of all that is in flight
_BEHIND = 0.95  # of what was due: with less answered there is a queue that grows
_GROWING = 1.5  # times the latency of the first blocks
_PERCENTS = {"p50": 50, "p90": 90, "p99": 99}


@dataclass(frozen=True, slots=True)
class PartPlan:
    """One pipeline under its load."""

    pipeline: Pipeline
    load: LoadPart


@dataclass(frozen=True, slots=True)
class SimulatedFigures:
    """Of one part: the figures (infer/s and ns), and the standard deviations of their logarithms by chance."""

    figures: Mapping[str, float]
    chance: Mapping[str, float]
    in_flight: float
    is_overloaded: bool


@dataclass(frozen=True, slots=True)
class MeasuredAs:
    """How a load is measured: for how long, after what is left out at its start, and the seed of random arrivals.

    With the seed the arrivals are those that `measure` would make, and the figures are of those very requests.
    """

    seconds: float
    seed: int | None = None
    skipped_s: float = 0.0


def simulate(
    plans: Sequence[PartPlan], measured: MeasuredAs, *, requests: int = REQUESTS
) -> list[SimulatedFigures]:
    """Of each part, all at the same time."""
    rate, settling_s = _pilot(plans)
    seconds, seed = measured.seconds, measured.seed
    # Of many requests it does not matter which arrivals they are.
    is_short = rate * seconds < _MANY * requests
    if seed is not None and is_short and any(_is_random(plan.load) for plan in plans):
        cut = _Cut(1, seconds, measured.skipped_s)
        count = min(max(round(requests / rate / seconds), _REPEATS[0]), _REPEATS[1])
        repeats = [_blocks(plans, cut, [seed] * len(plans), number) for number in range(count)]
        return [
            _figures(plan, [one[place][0] for one in repeats], seconds, seconds)
            for place, plan in enumerate(plans)
        ]
    block_s = min(seconds, requests / BLOCKS / rate)
    blocks = max(BLOCKS, min(4 * BLOCKS, round(requests / rate / block_s)))
    found = _blocks(plans, _Cut(blocks, block_s, settling_s), range(1, len(plans) + 1), 1)
    return [_figures(plan, found[place], block_s, seconds) for place, plan in enumerate(plans)]


def _is_random(load: LoadPart) -> bool:
    return load.mode == "request_rate" and load.arrivals == "poisson"


def _pilot(plans: Sequence[PartPlan]) -> tuple[float, float]:
    """Requests per second of all parts together, and how long it takes them to settle."""
    waiting = sum(plan.load.value for plan in plans if plan.load.mode == "concurrency")
    wanted = round(_PILOT + 2 * waiting)
    simulation = Simulation([_traffic(plan, None, count=wanted, seed=0) for plan in plans])
    ended = simulation.advance(wanted)
    rate = len(ended) / simulation.now_s
    mean_s = sum(row.latency_s for row in ended) / len(ended)
    return rate, max(_SETTLING * mean_s, 20 / rate)


def _traffic(plan: PartPlan, until_s: float | None, *, count: int, seed: int) -> SimulatedTraffic:
    load = plan.load
    if load.mode == "concurrency":
        return SimulatedTraffic(plan.pipeline, concurrency=round(load.value))
    rate = load.value if until_s is None else min(load.value, _MOST_DUE / until_s)
    schedule: Schedule = Poisson(rate, seed) if _is_random(load) else Constant(rate)
    due: list[float] = []
    while len(due) < count if until_s is None else (not due or due[-1] < until_s):
        due.append(schedule.due_ns(len(due)) / NS_PER_S)
    return SimulatedTraffic(plan.pipeline, due_s=due)


@dataclass(frozen=True, slots=True)
class _Cut:
    """How the simulated time is cut, after what is left out at its start."""

    blocks: int
    block_s: float
    settling_s: float = 0.0


def _blocks(
    plans: Sequence[PartPlan], cut: _Cut, seeds: Sequence[int], luck: int
) -> list[list[list[EndedRequest]]]:
    """Of each part, the requests that ended in each block; `seeds` are of their arrivals."""
    end_s = cut.settling_s + cut.blocks * cut.block_s
    rows = zip(plans, seeds, strict=True)
    simulation = Simulation([_traffic(plan, end_s, count=0, seed=seed) for plan, seed in rows], luck)
    simulation.advance_to(cut.settling_s)
    found: list[list[list[EndedRequest]]] = [[] for _ in plans]
    for number in range(cut.blocks):
        ended = simulation.advance_to(cut.settling_s + (number + 1) * cut.block_s)
        for kind, blocks in enumerate(found):
            blocks.append([row for row in ended if row.kind == kind])
    return found


def _figures(
    plan: PartPlan, blocks: Sequence[Sequence[EndedRequest]], block_s: float, seconds: float
) -> SimulatedFigures:
    items = plan.pipeline.items
    whole = [row for block in blocks for row in block]
    if not whole:
        return SimulatedFigures({}, {}, 0.0, True)
    mean_s = sum(row.latency_s for row in whole) / len(whole)
    per_s = len(whole) / len(blocks) / block_s
    full = [block for block in blocks if block]
    names = [_named(block) for block in full]
    figures = {THROUGHPUT: per_s * items}
    chance = {THROUGHPUT: _deviation([len(block) for block in full])}
    is_short = block_s < seconds  # a block has fewer requests than a measurement: take them all together
    pooled = _named(whole)
    shrink = math.sqrt(block_s / seconds) if is_short else 1.0
    for name in LATENCIES:
        values = [row[name] for row in names]
        figures[name] = pooled[name] if is_short else _median(values)
        chance[name] = _deviation(values)
    return SimulatedFigures(
        figures,
        {name: value * shrink for name, value in chance.items()},
        per_s * mean_s,
        _is_behind(plan.load, full, per_s),
    )


def _is_behind(load: LoadPart, blocks: Sequence[Sequence[EndedRequest]], per_s: float) -> bool:
    """Whether more is due than is answered, so that the queue grows as long as it goes on."""
    if load.mode == "concurrency" or per_s > _BEHIND * load.value:
        return False
    third = max(1, len(blocks) // 3)
    first, last = (
        [row.latency_s for block in part for row in block] for part in (blocks[:third], blocks[-third:])
    )
    return sum(last) / len(last) > _GROWING * sum(first) / len(first) or len(blocks) <= _REPEATS[1]


def _named(rows: Sequence[EndedRequest]) -> dict[str, float]:
    latencies = sorted(row.latency_s * NS_PER_S for row in rows)
    found = {name: latencies[rank(p, len(latencies))] for name, p in _PERCENTS.items()}
    return {"mean": sum(latencies) / len(latencies), **found}


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def _deviation(values: Sequence[float]) -> float:
    """Of the logarithms."""
    logs = [math.log(value) for value in values if value > 0]
    if len(logs) < 2:
        return 0.0
    mean = sum(logs) / len(logs)
    return math.sqrt(sum((value - mean) ** 2 for value in logs) / (len(logs) - 1))
