"""Detect executions that hold each other up although neither a core nor a GPU is the reason. Pure.

Two cases are recognized by comparing execution times at the lightest load and under pressure: instances that get slower
the more of them run, although they hardly use a core, and batches that take longer than their parts in sequence.
"""

import math
from collections.abc import Iterator, Sequence

from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_S
from inferometer.diagnose.fit import GPU_DEVICE
from inferometer.diagnose.observation import Observation, Step

_ALONE = 1.2  # concurrent executions that count as one
_SEVERAL = 1.8  # concurrent executions that could hold each other up
STRETCHED = 1.5  # execution time relative to a single request, from which instances hold each other up
_SAME_BATCH = 0.25
_ON_CORES = 0.5  # share of an execution on a core or waiting for one from which the cores may be the reason
_BATCH = 1.5  # inferences per execution from which it is a batch
_CHEAPER = 0.7  # cost per inference in a batch, relative to a batch of one, below which batches pay
_DEARER = 1.2  # cost per inference in a batch, relative to a batch of one
_SPARE = 0.2  # fraction of an instance that does not justify another one
_TELLING = 3  # minimum executions per batch size; the first ones may be slow


@frozen
class SharedLimit:
    """Instances that wait for each other: the number in service, and the number doing useful work."""

    in_service: float
    working: float
    cores: float  # used by them

    @property
    def instances(self) -> int:
        """The number of instances that do useful work."""
        return instances_for(self.working)


@frozen
class SlowBatches:
    """Execution times of a batch and of a single request."""

    batch: float
    batch_s: float
    items: int  # inferences in the single request
    one_s: float


def instances_for(working: float) -> int:
    """The instances needed for this many concurrent executions; a small fraction of one is noise."""
    return max(1, math.ceil(working - _SPARE))


def service_alone_s(rows: Sequence[Observation], name: str) -> float | None:
    """Execution time of a request that shares the server with almost no others; None if no load was that light."""
    seen = [(step.service_s, step.batch) for row, step, count in _seen(rows, name) if count <= _ALONE]
    least = min((batch for _, batch in seen), default=0.0)
    return min((one_s for one_s, batch in seen if batch <= least * (1 + _SAME_BATCH)), default=None)


def maybe_shared(rows: Sequence[Observation], name: str) -> SharedLimit | None:
    """Return the evidence that instances slow each other down; None if there is none, or the cores may be the reason.

    Executions are compared with those of the lightest load: alone, or among the fewest others that were measured.
    """
    crowded = [
        (row, step, count, alone_s)
        for row, step, count in _seen(rows, name)
        if (alone_s := _maybe_less_crowded_s(rows, step, count)) is not None
    ]
    if not crowded:
        return None
    row, step, count, alone_s = max(crowded, key=lambda found: found[2])
    cores = _maybe_cores(row, name)
    is_on_gpu = step.setup.device == GPU_DEVICE or step.members
    if is_on_gpu or cores is None or cores > _ON_CORES * count:
        return None
    stretch = step.service_s / alone_s
    if stretch < STRETCHED:
        return None
    return SharedLimit(count, count / stretch, cores)


def _maybe_less_crowded_s(rows: Sequence[Observation], step: Step, count: float) -> float | None:
    """Return the execution time of batches of this size with far fewer concurrent executions; None if not observed."""
    alike = [
        (other.service_s, others)
        for _, other, others in _seen(rows, step.name)
        if abs(step.batch / other.batch - 1) <= _SAME_BATCH
    ]
    fewest = max(_ALONE, min(others for _, others in alike))
    one_s, base = min(row for row in alike if row[1] <= fewest)
    return one_s if count >= _SEVERAL * max(base, 1.0) else None


def _maybe_cores(row: Observation, name: str) -> float | None:
    """Return the cores that the step's executions hold or wait for; None if unknown."""
    host = row.host
    if host is None:
        return None
    use = host.models.get(name)
    if use is not None:
        return use.cores + use.waiting
    return None if host.server is None or host.is_full else host.server


def is_batch(step: Step, items: int) -> bool:
    """Return whether executions of the step hold several requests of this many inferences."""
    return step.batch >= _BATCH * items


def do_batches_pay(rows: Sequence[Observation], name: str) -> bool:
    """Return whether an inference was measured to cost clearly less in a batch than alone, for any reason."""
    sized = [(size, batch_s) for size, batch_s, _ in _sizes(rows, name)]
    items = min((size for size, _ in sized), default=0.0)
    one_s = min((batch_s for size, batch_s in sized if size <= items * 1.05), default=0.0)
    large = [(size, batch_s) for size, batch_s in sized if size >= _BATCH * items]
    return bool(large and one_s) and max(large)[1] / max(large)[0] < _CHEAPER * one_s / items


def maybe_slow_batches(rows: Sequence[Observation], name: str) -> SlowBatches | None:
    """Return the evidence that batches cost more than their parts; None if there is none, or the cores may be the
    reason."""
    sized = list(_sizes(rows, name))
    items = min((size for size, _, _ in sized), default=0.0)
    ones = [one_s for size, one_s, _ in sized if size <= items * 1.05]
    if not ones or round(items) < 1:
        return None
    one_s = min(ones)
    large = [(size, batch_s) for size, batch_s, is_quiet in sized if size >= _BATCH * items and is_quiet]
    if not large:
        return None
    size, batch_s = max(large)
    if not one_s or batch_s / size < _DEARER * one_s / items:
        return None
    return SlowBatches(size, batch_s, round(items), one_s)


def _sizes(rows: Sequence[Observation], name: str) -> Iterator[tuple[float, float, bool]]:
    """Yield inferences and seconds of an execution, and whether no other cause can have slowed it down."""
    for row, step, count in _seen(rows, name):
        cores = _maybe_cores(row, name)
        is_quiet = count <= _ALONE or (cores is not None and cores <= _ON_CORES * count)
        if step.members or step.setup.device == GPU_DEVICE:
            continue
        frequent = [size for size in step.sizes if size.count >= _TELLING]
        if frequent:
            for size in frequent:
                yield float(size.size), size.total_ns / NS_PER_S, is_quiet
        else:
            yield step.batch, step.service_s, is_quiet


def _seen(rows: Sequence[Observation], name: str) -> Iterator[tuple[Observation, Step, float]]:
    """Yield the step in every row that has it, with its number of concurrent executions."""
    for row in rows:
        for step, calls, _ in row.walk():
            if step.name == name and step.service_s and step.batch:
                yield row, step, row.throughput * calls * step.service_s / step.batch
