"""Uncertainty of several models on one machine: how the operating system shares the cores among them. Pure.

Runs of a single model do not show it. A mix is therefore simulated in two ways: with a queue for each core, which is
the prediction, and with all cores shared evenly. The interval covers the difference.

The scheduler may also put work on a busy core although another core is free, until it rebalances. This hardly reduces
throughput, but it is frequent enough to affect one request in a hundred: the p99 lies between its value without such a
collision and its value with one that lasts for a whole step. The prediction is the middle of the two.

Very short requests spend much of their core time on wake-ups, which are rarer on cores that are busy anyway. The size
of this effect is unknown: next to such a model, a figure lies between its value with all cores shared and its value for
the model alone. The prediction is again the middle.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from inferometer.base.units import NS_PER_S
from inferometer.diagnose.pipeline import Pipeline, Station
from inferometer.twin.simulate import MeasuredAs, PartPlan, SimulatedFigures, simulate
from inferometer.twin.twin import THROUGHPUT

_OFTEN = 0.1  # collisions are common if other models use at least this share of the cores
_SHORT_S = 0.001  # core time per request


class BesideOthers(NamedTuple):
    """Figures of one model that runs next to others."""

    figures: Mapping[str, float]
    unsure: Mapping[str, float]  # possible error of each figure, as a logarithm


def sharing(
    plans: Sequence[PartPlan], simulated: Sequence[SimulatedFigures], measured: MeasuredAs
) -> list[BesideOthers]:
    """Return the figures of each part; a single model keeps its simulated figures."""
    if len(plans) == 1 or math.isinf(plans[0].pipeline.cores.count):
        return [BesideOthers(row.figures, {}) for row in simulated]
    even = simulate(plans, measured, is_even=True)
    busy = [_cores_busy(plan, row) for plan, row in zip(plans, simulated, strict=True)]
    is_beside_short = any(
        is_short(plan.pipeline) and own > _OFTEN * plan.pipeline.cores.count
        for plan, own in zip(plans, busy, strict=True)
    )
    found = []
    for plan, row, other, own in zip(plans, simulated, even, busy, strict=True):
        figures, unsure = dict(row.figures), {}
        for name, value in row.figures.items():
            if value > 0 and other.figures.get(name, 0) > 0:
                unsure[name] = abs(math.log(value / other.figures[name]))
        if "p99" in unsure and sum(busy) - own > _OFTEN * plan.pipeline.cores.count:
            times = _core_times(plan.pipeline.stations, plan.pipeline.items)
            longest_ns = max((time for time, _ in times), default=0.0) * NS_PER_S
            half = math.log1p(longest_ns / figures["p99"]) / 2
            figures["p99"] *= math.exp(half)
            unsure["p99"] = math.hypot(unsure["p99"], half)
        if is_beside_short:
            (alone,) = simulate([plan], measured)
            for name, wide in unsure.items():
                half = math.log(alone.figures.get(name, figures[name]) / figures[name]) / 2
                figures[name] *= math.exp(half)
                unsure[name] = math.hypot(wide, half)
        found.append(BesideOthers(figures, unsure))
    return found


def _cores_busy(plan: PartPlan, row: SimulatedFigures) -> float:
    return row.figures.get(THROUGHPUT, 0.0) / plan.pipeline.items * _core_s(plan.pipeline)


def is_short(pipeline: Pipeline) -> bool:
    """Return whether requests use so little core time that most of it may be spent on wake-ups."""
    return _core_s(pipeline) < _SHORT_S


def _core_s(pipeline: Pipeline) -> float:
    """Return the core time of a request, over all cores."""
    each_s = sum(time * threads for time, threads in _core_times(pipeline.stations, pipeline.items))
    return each_s + pipeline.outside_cpu_s


def _core_times(stations: Iterable[Station], items: int) -> Iterator[tuple[float, float]]:
    """Yield for each step the seconds per request on a core, and the number of cores."""
    for station in stations:
        own_s = station.service_s(items) - station.gpu_s(items)
        yield station.calls * own_s * station.cpu, station.threads
        yield from ((station.calls * time, threads) for time, threads in _core_times(station.members, items))
