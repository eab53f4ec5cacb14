"""The server's own counters: snapshots, their differences, and the figures per model."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Self

from inferometer.base.frozen import frozen
from inferometer.base.text import is_digits
from inferometer.model.answers import DURATIONS
from inferometer.model.spec import ModelSpec


@frozen
class Counters:
    """Monotonic counters of one model version; they add and subtract field by field."""

    inference_count: int = 0
    execution_count: int = 0
    success_count: int = 0
    success_ns: int = 0
    fail_count: int = 0
    fail_ns: int = 0
    queue_count: int = 0
    queue_ns: int = 0
    compute_input_count: int = 0
    compute_input_ns: int = 0
    compute_infer_count: int = 0
    compute_infer_ns: int = 0
    compute_output_count: int = 0
    compute_output_ns: int = 0
    cache_hit_count: int = 0
    cache_hit_ns: int = 0
    cache_miss_count: int = 0
    cache_miss_ns: int = 0
    # Executions by batch size: (inferences in each, executions, ns of input, infer and output).
    sizes: tuple[tuple[int, int, int, int, int], ...] = ()

    @property
    def executions(self) -> "tuple[Executions, ...]":
        """Executions by batch size, smallest first; empty if the server does not count them."""
        return tuple(
            Executions(size, count, *(ns / count for ns in parts))
            for size, count, *parts in sorted(self.sizes)
            if count > 0 and size > 0
        )

    @property
    def compute_ns(self) -> int:
        return self.compute_input_ns + self.compute_infer_ns + self.compute_output_ns

    def mean_ns(self, part: str) -> int:
        """Return the mean of `queue`, `compute_infer` and so on over the calls that had it; 0 if there are none."""
        count: int = getattr(self, f"{part}_count")
        total: int = getattr(self, f"{part}_ns")
        return total // count if count else 0

    def __add__(self, other: Self) -> "Counters":
        sums = (getattr(self, name) + getattr(other, name) for name in _FIELDS)
        return replace(Counters(*sums), sizes=_sizes(self, other, 1))

    def __sub__(self, other: Self) -> "Counters":
        differences = (getattr(self, name) - getattr(other, name) for name in _FIELDS)
        return replace(Counters(*differences), sizes=_sizes(self, other, -1))


def _sizes(one: Counters, two: Counters, sign: int) -> tuple[tuple[int, int, int, int, int], ...]:
    """Add or subtract the second by size; sizes without executions are left out."""
    rows = {size: (count, given, worked, made) for size, count, given, worked, made in one.sizes}
    for size, *values in two.sizes:
        mine = rows.get(size, (0, 0, 0, 0))
        count, given, worked, made = (was + sign * more for was, more in zip(mine, values, strict=True))
        rows[size] = (count, given, worked, made)
    return tuple((size, *row) for size, row in rows.items() if row[0])


_FIELDS = tuple(row.name for row in fields(Counters) if row.name != "sizes")

Snapshot = Mapping[tuple[str, str], Counters]
"""Counters by (model, version) at one moment."""


@frozen
class ModelStatistics:
    """Activity of one model during a measurement, with its composing models."""

    name: str
    version: str
    counters: Counters
    is_ensemble: bool = False
    has_cache: bool = False
    was_called: bool = True
    also_called: tuple[str, ...] = ()  # other versions, if none was named; their counters are not included
    members: tuple["ModelStatistics", ...] = ()

    @property
    def any_cache(self) -> bool:
        """Whether this model or any composing model uses the response cache."""
        return self.has_cache or any(member.any_cache for member in self.members)

    @property
    def workers(self) -> tuple["ModelStatistics", ...]:
        """The models that do the work: this one, unless it is an ensemble, which only forwards requests."""
        return self.working_members if self.is_ensemble and self.members else (self,)

    @property
    def working_members(self) -> tuple["ModelStatistics", ...]:
        """The composing models that do work, each once: the server counts per model, not per place in an ensemble."""
        found = (row for member in self.members for row in member.workers)
        return tuple({(row.name, row.version): row for row in found}.values())


def snapshot(rows: Sequence[Mapping[str, Any]]) -> Snapshot:
    """Read the counters from the server's statistics document (`model_stats`)."""
    return {(row["name"], row["version"]): _counters(row) for row in rows}


def _counters(row: Mapping[str, Any]) -> Counters:
    values = {name: row.get(name, 0) for name in ("inference_count", "execution_count")}
    stats = row.get("inference_stats", {})
    for name in DURATIONS:
        for part in ("count", "ns"):
            values[f"{name}_{part}"] = stats.get(name, {}).get(part, 0)
    sizes = tuple(_size(batch) for batch in row.get("batch_stats", ()))
    return Counters(**values, sizes=tuple(size for size in sizes if size[1]))


def _size(batch: Mapping[str, Any]) -> tuple[int, int, int, int, int]:
    count = batch.get("compute_infer", {}).get("count", 0)
    given, worked, made = (
        batch.get(f"compute_{part}", {}).get("ns", 0) for part in ("input", "infer", "output")
    )
    return batch["batch_size"], count, given, worked, made


# --- by batch size


@frozen
class Executions:
    """Executions of one batch size: inferences in each, their number, and the mean time of their parts."""

    size: int
    count: int
    input_ns: float
    infer_ns: float
    output_ns: float

    @property
    def total_ns(self) -> float:
        return self.input_ns + self.infer_ns + self.output_ns


def executions(before: Snapshot, after: Snapshot) -> dict[tuple[str, str], tuple[Executions, ...]]:
    """Return the executions between two snapshots, smallest first; models that are new or were reloaded are left
    out."""
    changes = {key: after[key] - before[key] for key in after.keys() & before.keys()}
    return {
        key: change.executions
        for key, change in changes.items()
        if all(min(counts) >= 0 for _, *counts in change.sizes)
    }


def is_reset(before: Snapshot, after: Snapshot) -> bool:
    """Return whether a counter decreased: the server was restarted, or a model was reloaded."""
    return any(
        getattr(after[key], name) < getattr(then, name)
        for key, then in before.items()
        if key in after
        for name in _FIELDS
    )


def difference(model: ModelSpec, before: Snapshot, after: Snapshot) -> ModelStatistics:
    """Return the activity of the model and its composing models between two snapshots."""
    names = {part.name for part in model.family()}
    versions: dict[str, list[str]] = {name: [] for name in names}
    for name, version in after:
        if name in names:
            versions[name].append(version)
    return _difference(model, before, after, versions)


def _difference(
    model: ModelSpec, before: Snapshot, after: Snapshot, versions: Mapping[str, Sequence[str]]
) -> ModelStatistics:
    grown = {
        version: after[model.name, version] - before.get((model.name, version), Counters())
        for version in versions[model.name]
        if model.version in ("", version)
    }
    called = {
        version: counters
        for version, counters in grown.items()
        if counters.success_count or counters.queue_count
    }
    version = max(called or grown, key=_version_order, default=model.version)
    return ModelStatistics(
        name=model.name,
        version=version,
        counters=grown.get(version, Counters()),
        is_ensemble=model.is_ensemble,
        has_cache=model.has_cache,
        was_called=bool(called),
        also_called=tuple(sorted(set(called) - {version}, key=_version_order)),
        members=tuple(_difference(member, before, after, versions) for member in model.composing),
    )


def _version_order(version: str) -> tuple[int, str]:
    return (int(version), "") if is_digits(version) else (-1, version)
