"""Repeated simulation of a load on pipelines, for as long as it would be measured. Pure.

A short measurement does not show the percentiles of a long one: its p99 may be its maximum, and its first requests meet
an idle server. It is therefore simulated as it is measured, from start to end, several times. The median of these
simulations is the prediction, and their spread is the random variation of a measurement.

For a long measurement, or one with unknown random arrivals, a part in the middle is simulated and cut into blocks.
"""

import math
from collections.abc import Mapping, Sequence

from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_S
from inferometer.diagnose.pipeline import Pipeline
from inferometer.diagnose.simulation import EndedRequest, SimulatedTraffic, Simulation
from inferometer.load.plan import Gaps, from_mid_period, schedule_at
from inferometer.stats.series import rank
from inferometer.twin.twin import LATENCIES, THROUGHPUT, LoadPart

REQUESTS = 1600  # simulated requests per load
BLOCKS = 12
_REPEATS = (4, 12)  # fewest and most simulations of a whole measurement, unless
_SURE = 0.03  # the p99 of the first two differ by less than this
_PILOT = 60
_MANY = 3  # factor above REQUESTS from which a measurement counts as long
_BY_CHANCE = 9  # factor for unknown random arrivals, so that a block outlasts a queue,
_MOST_BY_CHANCE = 14_400  # up to this total
_EXCURSION = 100  # multiple of a queue's relaxation time within which percentiles are correlated
_MOST_DUE = 20_000  # maximum number of simulated arrivals; more would only queue on any server
_SETTLING = 6  # multiple of the mean latency
_BEHIND = 0.95  # share of due requests answered below which the queue grows
_GROWING = 1.5  # ratio of the last to the first latencies that shows a growing queue
_PERCENTS = {"p50": 50, "p90": 90, "p99": 99}


@frozen
class PartPlan:
    """A pipeline under its load."""

    pipeline: Pipeline
    load: LoadPart


@frozen
class SimulatedFigures:
    """Figures of one part (infer/s and ns), with the standard deviations of their logarithms."""

    figures: Mapping[str, float]
    chance: Mapping[str, float]
    in_flight: float
    is_overloaded: bool


@frozen
class MeasuredAs:
    """How a load is measured: its duration, the time skipped at its start, and the seed of random arrivals.

    With a seed, the arrivals are those that `measure` generates, and the figures are of exactly those requests. The
    measurement is extended until all parts together have `fewest` requests.
    """

    seconds: float
    seed: int | None = None
    skipped_s: float = 0.0
    fewest: int = 1


def simulate(
    plans: Sequence[PartPlan], measured: MeasuredAs, *, requests: int = REQUESTS, is_even: bool = False
) -> list[SimulatedFigures]:
    """Simulate all parts at the same time; with `is_even` they share the cores evenly."""
    rate, settling_s = _pilot(plans)
    seconds, seed = max(measured.seconds, measured.fewest / rate), measured.seed
    is_by_chance = seed is None and any(_is_random(plan.load) for plan in plans)
    if is_by_chance:
        requests = min(_BY_CHANCE * requests, _MOST_BY_CHANCE)
    # With many requests, neither the start nor the particular arrivals matter.
    is_short = rate * seconds < (requests / BLOCKS if is_by_chance else _MANY * requests)
    if is_short and is_by_chance:
        return _by_chance(plans, _Cut(1, seconds, measured.skipped_s), is_even)
    if is_short:
        cut = _Cut(1, seconds, measured.skipped_s)
        count = min(max(round(requests / rate / seconds), _REPEATS[0]), _REPEATS[1])
        traffic = _all_traffic(plans, cut, [seed or 0] * len(plans))
        repeats = [_blocks(traffic, cut, number, is_even) for number in range(2)]
        # At a rate, queues come and go: two runs may agree by chance.
        is_open = any(plan.load.mode == "request_rate" for plan in plans)
        if is_open or not all(_is_sure([one[place][0] for one in repeats]) for place in range(len(plans))):
            repeats += [_blocks(traffic, cut, number, is_even) for number in range(2, count)]
        return [
            _figures(plan, _Blocks([one[place][0] for one in repeats], cut, traffic[place]), seconds)
            for place, plan in enumerate(plans)
        ]
    block_s = min(seconds, requests / BLOCKS / rate)
    blocks = max(BLOCKS, min(4 * BLOCKS, round(requests / rate / block_s)))
    cut = _Cut(blocks, block_s, settling_s)
    traffic = _all_traffic(plans, cut, range(1, len(plans) + 1))
    found = _blocks(traffic, cut, 1, is_even)
    return [
        _figures(plan, _Blocks(found[place], cut, traffic[place]), seconds)
        for place, plan in enumerate(plans)
    ]


def _is_random(load: LoadPart) -> bool:
    return load.mode == "request_rate" and load.arrivals != "constant"


def _pilot(plans: Sequence[PartPlan]) -> tuple[float, float]:
    """Return the requests per second of all parts together, and the time until they settle."""
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
    schedule = schedule_at(rate, seed, Gaps(load.arrivals, load.burstiness))
    if not _is_random(load):
        schedule = from_mid_period(schedule, rate)
    due: list[float] = []
    while len(due) < count if until_s is None else (not due or due[-1] < until_s):
        due.append(schedule.due_ns(len(due)) / NS_PER_S)
    return SimulatedTraffic(plan.pipeline, due_s=due)


@frozen
class _Cut:
    """Division of the simulated time into blocks, after the settling time."""

    blocks: int
    block_s: float
    settling_s: float = 0.0

    @property
    def end_s(self) -> float:
        return self.settling_s + self.blocks * self.block_s


@frozen
class _Blocks:
    """The requests of one part by the block in which they ended; each repetition is one block."""

    rows: Sequence[Sequence[EndedRequest]]
    cut: _Cut
    traffic: SimulatedTraffic

    @property
    def due_per_s(self) -> float:
        """Actual arrivals per second, which may deviate from the rate if arrivals are random."""
        due = sum(self.cut.settling_s <= at_s < self.cut.end_s for at_s in self.traffic.due_s)
        return due / (self.cut.end_s - self.cut.settling_s)

    def in_a_row(self) -> list[EndedRequest]:
        """Return the requests of one run in order."""
        return [row for block in self.rows[: self.cut.blocks] for row in block]


def _all_traffic(plans: Sequence[PartPlan], cut: _Cut, seeds: Sequence[int]) -> list[SimulatedTraffic]:
    """Return the traffic of each part; `seeds` determine the arrivals."""
    rows = zip(plans, seeds, strict=True)
    return [_traffic(plan, cut.end_s, count=0, seed=seed) for plan, seed in rows]


def _blocks(
    traffic: Sequence[SimulatedTraffic], cut: _Cut, luck: int, is_even: bool
) -> list[list[list[EndedRequest]]]:
    """Return the requests of each part by the block in which they ended."""
    simulation = Simulation(traffic, luck, is_even=is_even)
    simulation.advance_to(cut.settling_s)
    found: list[list[list[EndedRequest]]] = [[] for _ in traffic]
    for number in range(cut.blocks):
        ended = simulation.advance_to(cut.settling_s + (number + 1) * cut.block_s)
        for kind, blocks in enumerate(found):
            blocks.append([row for row in ended if row.kind == kind])
    return found


def _by_chance(plans: Sequence[PartPlan], cut: _Cut, is_even: bool) -> list[SimulatedFigures]:
    """Simulate whole measurements with different arrivals: near saturation a queue outlasts any block."""
    count, seeds = len(plans), range(1, len(plans) + 1)
    traffic = [
        _all_traffic(plans, cut, [number * count + seed for seed in seeds]) for number in range(BLOCKS)
    ]
    repeats = [_blocks(rows, cut, number, is_even) for number, rows in enumerate(traffic)]
    return [
        _figures(plan, _Blocks([one[place][0] for one in repeats], cut, traffic[0][place]), cut.block_s)
        for place, plan in enumerate(plans)
    ]


def _figures(plan: PartPlan, blocks: _Blocks, seconds: float) -> SimulatedFigures:
    items, block_s = plan.pipeline.items, blocks.cut.block_s
    whole = [row for block in blocks.rows for row in block]
    if not whole:
        return SimulatedFigures({}, {}, 0.0, True)
    mean_s = sum(row.latency_s for row in whole) / len(whole)
    per_s = len(whole) / len(blocks.rows) / block_s
    full = [block for block in blocks.rows if block]
    names = [_named(block) for block in full]
    figures = {THROUGHPUT: per_s * items}
    chance = {THROUGHPUT: _deviation([len(block) for block in full])}
    is_short = block_s < seconds  # a block has fewer requests than a measurement: pool all of them
    pooled = _named(whole)
    alike_s = _alike_s(plan, per_s, mean_s) if _is_random(plan.load) else 0.0
    shrink = math.sqrt((block_s + alike_s) / (seconds + alike_s)) if is_short else 1.0
    for name in LATENCIES:
        values = [row[name] for row in names]
        figures[name] = pooled[name] if is_short else _median(values)
        chance[name] = _deviation(values)
    return SimulatedFigures(
        figures,
        {name: value * shrink for name, value in chance.items()},
        per_s * mean_s,
        plan.load.mode != "concurrency" and _is_behind(blocks, per_s, is_random=_is_random(plan.load)),
    )


def _alike_s(plan: PartPlan, per_s: float, mean_s: float) -> float:
    """Return the time over which a queue of random arrivals is correlated.

    The relaxation time of M/M/1 grows with the square of the waiting requests; a p99 depends on rare long queues and is
    correlated for much longer (fitted to simulated M/M/1 measurements of 8 to 120 s at 50, 80 and 90 %).
    """
    pipeline = plan.pipeline
    service_s = sum(station.calls * station.service_s(pipeline.items) for station in pipeline.stations)
    waiting = per_s * max(0.0, mean_s - service_s - pipeline.outside_s)
    return _EXCURSION * waiting**2 / per_s


def _is_sure(runs: Sequence[Sequence[EndedRequest]]) -> bool:
    return all(runs) and _deviation([_named(run)["p99"] for run in runs]) < _SURE


def _is_behind(blocks: _Blocks, per_s: float, *, is_random: bool) -> bool:
    """Return whether fewer requests are answered than are due, so that the queue keeps growing."""
    latencies = [row.latency_s for row in blocks.in_a_row()]
    missing = 1 - _BEHIND
    if is_random and latencies:  # both arrivals and service times vary by chance
        missing = max(missing, 2 * math.sqrt(2 / len(latencies)))
    if per_s > (1 - missing) * blocks.due_per_s:
        return False
    third = max(1, len(latencies) // 3)
    return sum(latencies[-third:]) > _GROWING * sum(latencies[:third])


def _named(rows: Sequence[EndedRequest]) -> dict[str, float]:
    latencies = sorted(row.latency_s * NS_PER_S for row in rows)
    found = {name: latencies[rank(p, len(latencies))] for name, p in _PERCENTS.items()}
    return {"mean": sum(latencies) / len(latencies), **found}


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def _deviation(values: Sequence[float]) -> float:
    """Return the standard deviation of the logarithms."""
    logs = [math.log(value) for value in values if value > 0]
    if len(logs) < 2:
        return 0.0
    mean = sum(logs) / len(logs)
    return math.sqrt(sum((value - mean) ** 2 for value in logs) / (len(logs) - 1))
