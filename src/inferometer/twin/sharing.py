"""What nobody knows of models beside each other: how the operating system shares the cores among them. Pure.

Runs of one model by itself do not show it. So a mix is simulated in two ways: with a queue for each core, which is
what is predicted, and with all cores shared evenly. What lies between the two is in the interval.

Also, work may be put on a core that is in use although another one is free, until that is noticed. That hardly costs
any throughput, but it happens often enough to matter for one request in a hundred: the p99 lies between that of no such
collision and that of one which lasts for a whole step. Predicted is the middle of the two.

Of very short requests much of the time on the cores goes into waking each other up, and there is less of that on cores
that are busy anyway. How much less, nobody knows: beside such a model a figure lies anywhere between that of all cores
shared and that of the model by itself, and predicted is the middle again.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from inferometer.base.units import NS_PER_S
from inferometer.diagnose.pipeline import Pipeline, Station
from inferometer.twin.simulate import MeasuredAs, PartPlan, SimulatedFigures, simulate
from inferometer.twin.twin import THROUGHPUT

_OFTEN = 0.1  # of the cores kept busy by others: from there on a collision is no rare thing
_SHORT_S = 0.001  # on the cores for a request


class BesideOthers(NamedTuple):
    """Of one model beside others."""

    figures: Mapping[str, float]
    unsure: Mapping[str, float]  # of each figure, as a logarithm, how far it may be off


def sharing(
    plans: Sequence[PartPlan], simulated: Sequence[SimulatedFigures], measured: MeasuredAs
) -> list[BesideOthers]:
    """The figures of each part; what was simulated, where a model is by itself."""
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
    """Whether its requests are on the cores for so short a time that most of it may go into waking each other up."""
    return _core_s(pipeline) < _SHORT_S


def _core_s(pipeline: Pipeline) -> float:
    """On all cores, for a request."""
    each_s = sum(time * threads for time, threads in _core_times(pipeline.stations, pipeline.items))
    return each_s + pipeline.outside_cpu_s


def _core_times(stations: Iterable[Station], items: int) -> Iterator[tuple[float, float]]:
    """Of each step, seconds on a core for a request, and on how many of them."""
    for station in stations:
        own_s = station.service_s(items) - station.gpu_s(items)
        yield station.calls * own_s * station.cpu, station.threads
        yield from ((station.calls * time, threads) for time, threads in _core_times(station.members, items))
