"""Energy of a level, per request, inference and token.

A device is measured in two ways: by its energy counter, and by its power, integrated over the readings. The counter is
the figure and the integral its check. Only devices that the server uses are counted; the power that they draw without
load is reported apart, not subtracted.

The interval of a figure combines that of the mean power, from sections of the measured time, with that of the rate of
requests. It does not cover the error of the sensor itself, which the makers of GPUs put at about 5 %.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_S, share
from inferometer.stats.estimate import Estimate
from inferometer.stats.intervals import student_t
from inferometer.stats.machine_figures import DeviceEnergy, EnergyFigures
from inferometer.stats.measurement import Measurement

SHORTEST_S = 4.0  # counters and power sensors are updated about ten times a second
LEAST_COVERED = 0.9  # share of the measured time between the first and the last reading
DIFFERENT = 0.03  # of the counter and the integral
SECTIONS = 10
FEWEST_SECTIONS = 4


@frozen
class PowerReading:
    """One reading of a device; None for a sensor that it does not have."""

    at_ns: int
    power_w: float | None = None
    energy_j: float | None = None  # counter, from an arbitrary start


@frozen
class PoweredDevice:
    """A device with its readings during a level, before and after it included."""

    name: str
    readings: tuple[PowerReading, ...]
    is_used: bool = True  # by the server
    idle_w: float | None = None  # before any load
    strangers: tuple[int, ...] = ()  # other processes that used it


def energy_figures(
    devices: Sequence[PoweredDevice],
    start_ns: int,
    end_ns: int,
    *,
    requests: Estimate,
    batch: int,
    tokens: Estimate | None = None,
) -> EnergyFigures | None:
    """Return the figures of the measured time; `requests` and `tokens` are per second. None without a sensor."""
    seconds = (end_ns - start_ns) / NS_PER_S
    rows = [(device, _device_energy(device, start_ns, end_ns)) for device in devices]
    known = [(device, row) for device, row in rows if row is not None]
    used = [(device, row) for device, row in known if row.is_used]
    if not used or seconds <= 0:
        return None
    power = _mean_power([device for device, _ in used], start_ns, end_ns)
    idle = [row.idle_w for _, row in used if row.idle_w is not None]
    return EnergyFigures(
        seconds=seconds,
        joules=sum(row.joules for _, row in used),
        power_w=power,
        idle_w=sum(idle) if len(idle) == len(used) else None,
        per_request=_per(power, requests),
        per_inference=_per(power, requests, batch),
        per_token=None if tokens is None else _per(power, tokens),
        devices=tuple(row for _, row in known),
        invalid="; ".join(_objections(used, start_ns, end_ns)),
    )


def energies(found: Measurement) -> dict[str, Estimate]:
    """Return the valid figures of a measurement by their names in SLOs."""
    energy = found.energy
    if energy is None or energy.invalid:
        return {}
    rows = {"request": energy.per_request, "inference": energy.per_inference, "token": energy.per_token}
    return {f"energy per {of}": estimate for of, estimate in rows.items() if estimate is not None}


def _device_energy(device: PoweredDevice, start_ns: int, end_ns: int) -> DeviceEnergy | None:
    counted, integrated = _counted(device, start_ns, end_ns), _integrated(device, start_ns, end_ns)
    joules = integrated if counted is None else counted
    if joules is None:
        return None
    return DeviceEnergy(
        device.name, joules, counted, integrated, device.idle_w, device.is_used, device.strangers
    )


def _counted(device: PoweredDevice, start_ns: float, end_ns: float) -> float | None:
    """Return the growth of the counter between two times, interpolated between readings."""
    rows = [(row.at_ns, row.energy_j) for row in device.readings if row.energy_j is not None]
    if len(rows) < 2:
        return None
    times, joules = np.array(rows, dtype=np.float64).T
    if (np.diff(joules) < 0).any():  # the driver was loaded again
        return None
    covered = np.clip((start_ns, end_ns), times[0], times[-1])
    if covered[1] <= covered[0]:
        return None
    first, last = np.interp(covered, times, joules)
    return float((last - first) * (end_ns - start_ns) / (covered[1] - covered[0])) or None


def _integrated(device: PoweredDevice, start_ns: float, end_ns: float) -> float | None:
    """Return the integral of the power between two times, linear between readings."""
    rows = [(row.at_ns, row.power_w) for row in device.readings if row.power_w is not None]
    if len(rows) < 2:
        return None
    times, watts = np.array(rows, dtype=np.float64).T
    inside = times[(times > start_ns) & (times < end_ns)]
    at = np.concatenate(([start_ns], inside, [end_ns]))
    values = np.interp(at, times, watts)
    return float(((values[1:] + values[:-1]) / 2 * np.diff(at)).sum()) / NS_PER_S


def _mean_power(devices: Sequence[PoweredDevice], start_ns: int, end_ns: int) -> Estimate:
    """Return the mean power of all devices, with an interval from sections of the time."""
    sections = min(SECTIONS, int((end_ns - start_ns) / NS_PER_S))
    edges = np.linspace(start_ns, end_ns, max(1, sections) + 1)
    watts = np.zeros(len(edges) - 1)
    for device in devices:
        for number, (low, high) in enumerate(pairwise(edges)):
            joules = _counted(device, low, high) or _integrated(device, low, high) or 0.0
            watts[number] += joules / ((high - low) / NS_PER_S)
    mean = float(watts.mean())
    if sections < FEWEST_SECTIONS:
        return Estimate(mean)
    reach = student_t(0.975, sections - 1) * float(watts.std(ddof=1)) / math.sqrt(sections)
    return Estimate(mean, max(0.0, mean - reach), mean + reach)


def _per(power: Estimate, rate: Estimate, batch: int = 1) -> Estimate | None:
    """Return the joules for one event of a rate per second; None if none happened."""
    if rate.value <= 0:
        return None
    value = power.value / rate.value / batch
    of_power, of_rate = power.relative_half_width, rate.relative_half_width
    if of_power is None or of_rate is None:
        return Estimate(value)
    reach = math.hypot(of_power, of_rate)
    return Estimate(value, value * max(0.0, 1 - reach), value * (1 + reach))


def _objections(used: Sequence[tuple[PoweredDevice, DeviceEnergy]], start_ns: int, end_ns: int) -> list[str]:
    """Return the reasons for which the figures are invalid."""
    found = []
    seconds = (end_ns - start_ns) / NS_PER_S
    if seconds < SHORTEST_S:
        found.append(f"{seconds:.1f} s are too short for the sensors, which need {SHORTEST_S:.0f} s")
    for device, row in used:
        first, last = device.readings[0].at_ns, device.readings[-1].at_ns
        covered = (min(last, end_ns) - max(first, start_ns)) / (end_ns - start_ns)
        if covered < LEAST_COVERED:
            found.append(f"{row.name} was read for only {share(max(0.0, covered))} of the time")
        if row.counted_j is not None and row.integrated_j is not None:
            difference = abs(row.integrated_j / row.counted_j - 1)
            if difference > DIFFERENT:
                found.append(
                    f"the energy counter of {row.name} says {row.counted_j:.0f} J, but its power adds up to "
                    f"{row.integrated_j:.0f} J, {share(difference)} apart"
                )
        if row.strangers:
            pids = ", ".join(map(str, row.strangers))
            noun = "process" if len(row.strangers) == 1 else "processes"
            found.append(f"other programs used {row.name} ({noun} {pids})")
    return found
