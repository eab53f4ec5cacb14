"""Differences of the energy per request and per token, from the figures of saved levels."""

from collections.abc import Iterator, Sequence

from inferometer.compare.comparison import (
    INCONCLUSIVE,
    INVALID,
    LESS,
    MORE,
    NO_DIFFERENCE,
    EnergyDifference,
)
from inferometer.compare.differences import unpaired_percent
from inferometer.stats.estimate import Estimate
from inferometer.stats.machine_figures import EnergyFigures
from inferometer.stats.measurement import Level
from inferometer.stats.verdict import NOT_SHOWN, SHOWN, rule_either_way

FIGURES = {"energy per request": "per_request", "energy per token": "per_token"}


def energy_differences(
    pairs: Sequence[tuple[Level, Level]], names: tuple[str, str], looks: int
) -> tuple[EnergyDifference, ...]:
    """Return the differences at each load; `looks` intervals must hold jointly. Loads without energy have none."""
    return tuple(row for base, other in pairs for row in _at_load(base, other, names, looks))


def energy_looks(pairs: Sequence[tuple[Level, Level]]) -> int:
    """Return the number of intervals that the differences need."""
    return len(energy_differences(pairs, ("", ""), 1))


def _at_load(base: Level, other: Level, names: tuple[str, str], looks: int) -> Iterator[EnergyDifference]:
    found = (_energy(base), _energy(other))
    for metric, field in FIGURES.items():
        one, two = _figure(found[0], field), _figure(found[1], field)
        if one is None and two is None:
            continue
        reasons = [_why_not(name, row, field) for name, row in zip(names, found, strict=True)]
        if one is None or two is None or any(reasons):
            reason = "; ".join(filter(None, reasons))
            yield EnergyDifference(base.mode, base.value, metric, one, two, None, INVALID, reason)
            continue
        percent = unpaired_percent(one, two, looks)
        reason = "" if percent.limits else "too short for an interval"
        yield EnergyDifference(base.mode, base.value, metric, one, two, percent, _verdict(percent), reason)


def _energy(level: Level) -> EnergyFigures | None:
    return None if level.measurement is None else level.measurement.energy


def _figure(found: EnergyFigures | None, field: str) -> Estimate | None:
    return None if found is None else getattr(found, field)


def _why_not(name: str, found: EnergyFigures | None, field: str) -> str:
    """Return why a variant has no valid figure; empty if it has one."""
    if found is None or _figure(found, field) is None:
        return f"{name} has no such figure"
    return f"{name}: {found.invalid}" if found.invalid else ""


def _verdict(percent: Estimate) -> str:
    ruling = rule_either_way(percent).ruling
    if ruling != SHOWN or percent.low is None:
        return NO_DIFFERENCE if ruling == NOT_SHOWN else INCONCLUSIVE
    return MORE if percent.low > 0 else LESS
