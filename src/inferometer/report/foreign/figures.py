"""Helpers of the writers: figures in a format's own units, without those that are unknown."""

from collections.abc import Mapping, Sequence
from typing import Any

from inferometer.base.frozen import frozen
from inferometer.stats.estimate import Distribution
from inferometer.stats.foreign.built import StatedRequest
from inferometer.stats.measurement import Level, Measurement
from inferometer.stats.result import Result


@frozen
class Written:
    """One level to write: the result that it belongs to, and its individual requests if they are known."""

    result: Result
    level: Level
    measurement: Measurement
    requests: Sequence[StatedRequest] = ()


def in_unit(ns: int | None, unit: int) -> float | None:
    return None if ns is None else ns / unit


def percentiles(
    found: Distribution, unit: int, names: Sequence[tuple[float, str]]
) -> dict[str, float | None]:
    """Return the known percentiles by their names in the format."""
    known = dict(found.percentiles)
    return {name: known[p] / unit for p, name in names if p in known}


def known(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields without those that are None."""
    return {name: value for name, value in fields.items() if value is not None}
