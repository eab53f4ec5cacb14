"""Samples of the server's metrics -> figures. Pure; what was not there is None."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeVar

from inferometer.observe.gpu import Gpu
from inferometer.observe.metrics import Queue, Sample

Number = TypeVar("Number", int, float)
Key = TypeVar("Key", str, tuple[str, str])
Row = TypeVar("Row", Gpu, Queue)


@dataclass(frozen=True, slots=True)
class GpuFigures:
    """One GPU: the mean of utilisation and power, the most memory in use, and how much it has."""

    uuid: str
    utilization: float | None  # 0 to 1
    power_w: float | None
    memory_used_bytes: int | None
    memory_total_bytes: int | None


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """The queue of one model that was busy; the times are of the requests that ended between two samples."""

    model: str
    version: str
    pending_mean: float | None
    pending_max: float | None
    requests: int | None
    queue_us: float | None  # mean per request


@dataclass(frozen=True, slots=True)
class HostFigures:
    """This host, when the server runs on it: all cores together, and its GPUs as NVML sees them."""

    cpu_share: float | None
    memory_used_bytes: int
    gpus: tuple[GpuFigures, ...]


@dataclass(frozen=True, slots=True)
class ServerMetrics:
    """What the server's metrics endpoint said over the merged windows."""

    polls: int
    gpus: tuple[GpuFigures, ...]  # in the order of their UUIDs
    cpu_share: float | None
    memory_used_bytes: int | None  # the most
    memory_total_bytes: int | None
    queues: tuple[QueueFigures, ...]
    host: HostFigures | None


def server_metrics(samples: Sequence[Sample]) -> ServerMetrics:
    """The figures of samples in the order they were taken."""
    queues = [_queue(*key, rows) for key, rows in _by_key(sample.queues for sample in samples)]
    return ServerMetrics(
        polls=len(samples),
        gpus=_gpus(sample.gpus for sample in samples),
        cpu_share=_mean(sample.cpu_share for sample in samples),
        memory_used_bytes=_most(sample.memory_used_bytes for sample in samples),
        memory_total_bytes=_first(sample.memory_total_bytes for sample in samples),
        queues=tuple(row for row in queues if row.requests or row.pending_max),
        host=_host(samples),
    )


def _gpus(looks: Iterable[Mapping[str, Gpu]]) -> tuple[GpuFigures, ...]:
    return tuple(
        GpuFigures(
            uuid=uuid,
            utilization=_mean(gpu.utilization for gpu in rows),
            power_w=_mean(gpu.power_w for gpu in rows),
            memory_used_bytes=_most(gpu.memory_used_bytes for gpu in rows),
            memory_total_bytes=_first(gpu.memory_total_bytes for gpu in rows),
        )
        for uuid, rows in _by_key(looks)
    )


def _by_key(looks: "Iterable[Mapping[Key, Row]]") -> "list[tuple[Key, list[Row]]]":
    """What every look has of each key, in the order of the keys."""
    rows: dict[Key, list[Row]] = {}
    for look in looks:
        for key, row in look.items():
            rows.setdefault(key, []).append(row)
    return sorted(rows.items(), key=itemgetter(0))


def _queue(model: str, version: str, rows: Sequence[Queue]) -> QueueFigures:
    requests = _growth([row.requests for row in rows])
    waited_us = _growth([row.queue_us for row in rows])
    return QueueFigures(
        model=model,
        version=version,
        pending_mean=_mean(row.pending for row in rows),
        pending_max=_most(row.pending for row in rows),
        requests=None if requests is None else round(requests),
        queue_us=None if waited_us is None or not requests else waited_us / requests,
    )


def _host(samples: Sequence[Sample]) -> HostFigures | None:
    seen = [sample.host for sample in samples if sample.host is not None]
    if not seen:
        return None
    busy_s, total_s = seen[-1].busy_s - seen[0].busy_s, seen[-1].total_s - seen[0].total_s
    return HostFigures(
        cpu_share=max(0.0, busy_s / total_s) if total_s > 0 else None,
        memory_used_bytes=max(look.memory_used_bytes for look in seen),
        gpus=_gpus(look.gpus for look in seen),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _most(values: Iterable[Number | None]) -> Number | None:
    return max((value for value in values if value is not None), default=None)


def _first(values: Iterable[int | None]) -> int | None:
    return next((value for value in values if value is not None), None)


def _growth(values: Sequence[float | None]) -> float | None:
    """Of a counter; None with fewer than two values, or when the server was restarted."""
    known = [value for value in values if value is not None]
    if len(known) < 2 or known[-1] < known[0]:
        return None
    return known[-1] - known[0]
