"""Energy of planned replicas, from the power that one replica drew at its measured loads.

Power is interpolated linearly over the requests per second of a replica, from its power without load, if known, to that
at its highest measured throughput. If the planned texts differ in length from the measured ones, requests are not the
same amount of work, so power is interpolated over the utilisation instead. All replicas run all the time, including
spare ones.
"""

from collections.abc import Sequence

import numpy as np

from inferometer.base.units import quantity
from inferometer.capacity.fleet import AnyReplica
from inferometer.capacity.plan import Basis, EnergyUse
from inferometer.capacity.replica import NEAR, Draws
from inferometer.capacity.text_replica import TextReplica
from inferometer.capacity.traffic import ExpectedTraffic
from inferometer.stats.estimate import Estimate
from inferometer.stats.machine_figures import EnergyFigures
from inferometer.stats.measurement import Measurement
from inferometer.stats.result import Result

W_PER_KW = 1000
HOURS_PER_DAY = 24
MILLION = 1_000_000


def energy_use(
    result: Result,
    replica: AnyReplica,
    traffic: ExpectedTraffic,
    count: int,
    *,
    output_tokens: float | None = None,
    carbon: float | None = None,
) -> EnergyUse | None:
    """Return the energy that `count` replicas use for the traffic; None if the result has no energy figures.

    `output_tokens` is the mean per request of servers that generate text, by default as measured; `carbon` is the grams
    of CO2 per kWh.
    """
    known = [
        (row, row.energy) for level in result.levels if (row := level.measurement) is not None and row.energy
    ]
    if not known:
        return None
    valid = [(row, energy) for row, energy in known if not energy.invalid]
    if not valid:
        return EnergyUse(invalid=known[-1][1].invalid)
    points = _points(valid)
    tokens = _output_tokens(valid[-1][0]) if output_tokens is None else output_tokens
    unit = points[-1][0] / replica.most_per_s if isinstance(replica, TextReplica) else 1.0
    rates = np.array([row.rate for row in traffic.stretches]) / count * unit
    hours = np.array([row.length_s for row in traffic.stretches]) / 3600
    kwh_per_h = _kwh_per_h(points, rates, hours, count)
    per_h = traffic.requests / float(hours.sum())
    per_million = _scaled(kwh_per_h, MILLION / (per_h * (tokens or 1.0)))
    basis, source = _basis(points, float(rates.min()), float(rates.max()))
    return EnergyUse(
        kwh_per_h=kwh_per_h,
        kwh_per_day=_scaled(kwh_per_h, HOURS_PER_DAY),
        kwh_per_million=per_million,
        million_of="output tokens" if tokens else "requests",
        carbon_g_per_million=None if carbon is None else _scaled(per_million, carbon),
        basis=basis,
        source=source,
    )


def _points(rows: Sequence[tuple[Measurement, EnergyFigures]]) -> list[tuple[float, Estimate]]:
    """Return requests per second and watts in ascending order, from 0 if the power without load is known."""
    idle = [energy.idle_w for _, energy in rows if energy.idle_w is not None]
    found = {0.0: Estimate(min(idle))} if idle else {}
    return sorted((found | {_per_s(row): energy.power_w for row, energy in rows}).items())


def _per_s(found: Measurement) -> float:
    return found.infer_per_s.value / found.batch


def _output_tokens(found: Measurement) -> float | None:
    """Return the mean number of output tokens of a measured request; None for other servers."""
    return None if found.tokens is None or not _per_s(found) else found.tokens.output_per_s / _per_s(found)


def _kwh_per_h(points: Sequence[tuple[float, Estimate]], rates: Draws, hours: Draws, count: int) -> Estimate:
    at = [rate for rate, _ in points]

    def mean(watts: Sequence[float]) -> float:
        return float(np.average(np.interp(rates, at, watts), weights=hours)) * count / W_PER_KW

    limits = [power.limits or (power.value, power.value) for _, power in points]
    has_intervals = any(power.limits for _, power in points)
    ends = [mean([row[side] for row in limits]) for side in (0, 1)] if has_intervals else [None, None]
    return Estimate(mean([power.value for _, power in points]), *ends)


def _scaled(found: Estimate, factor: float) -> Estimate:
    ends = (None if end is None else end * factor for end in (found.low, found.high))
    return Estimate(found.value * factor, *ends)


def _basis(points: Sequence[tuple[float, Estimate]], low: float, high: float) -> tuple[Basis, str]:
    """Return the basis of the power at the lowest and the highest rate of a replica."""
    least, most = points[0][0], points[-1][0]
    between = f"power measured from {quantity(least)} to {quantity(most)} requests/s"
    if high > most * (1 + NEAR) or low < least * (1 - NEAR):
        return "extrapolated", f"{between}, and assumed to be constant beyond"
    if all(any(abs(rate - point) <= NEAR * point for point, _ in points) for rate in (low, high)):
        return "measured", between
    return "interpolated", between
