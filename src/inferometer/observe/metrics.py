"""The server's Prometheus metrics: from text to lines to a sample for the figures. Pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, NamedTuple

from inferometer.base.frozen import frozen
from inferometer.observe.host import Gpu, HostSample, busiest

if TYPE_CHECKING:
    from inferometer.observe.llm_metrics import LlmReading

GPU_METRICS = {
    "nv_gpu_utilization": "utilization",
    "nv_gpu_power_usage": "power_w",
    "nv_gpu_memory_used_bytes": "memory_used_bytes",
    "nv_gpu_memory_total_bytes": "memory_total_bytes",
}
ENERGY_METRICS = {
    "nv_energy_consumption": ("gpu_uuid", "energy_j", 1.0),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": ("UUID", "energy_j", 0.001),
    "DCGM_FI_DEV_POWER_USAGE": ("UUID", "power_w", 1.0),
}
"""Metrics of Triton and of DCGM's exporter: the label with the GPU, the field, and the factor to joules or watts."""
MODEL_METRICS = {
    "nv_inference_pending_request_count": "pending",
    "nv_inference_queue_duration_us": "queue_us",
    "nv_inference_request_success": "requests",
}
CPU_METRICS = {
    "nv_cpu_utilization": "cpu_share",
    "nv_cpu_memory_used_bytes": "memory_used_bytes",
    "nv_cpu_memory_total_bytes": "memory_total_bytes",
}


class Queue(NamedTuple):
    """State of one model's queue: a gauge and two counters."""

    pending: float | None = None
    queue_us: float | None = None
    requests: float | None = None


@frozen
class Sample:
    """One poll, reduced to the values that figures need, so that a long level stays small."""

    at_ns: int
    gpus: Mapping[str, Gpu] = field(default_factory=dict)
    queues: Mapping[tuple[str, str], Queue] = field(default_factory=dict)  # by (model, version)
    cpu_share: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    host: HostSample | None = None
    llm: "LlmReading | None" = None

    @property
    def waiting(self) -> float | None:
        """Requests in the server's queues; None if not reported."""
        if self.llm is not None and self.llm.waiting is not None:
            return self.llm.waiting
        known = [queue.pending for queue in self.queues.values() if queue.pending is not None]
        return sum(known) if known else None

    @property
    def gpu_share(self) -> float | None:
        """Utilisation of the busiest GPU."""
        return busiest(self.gpus)


MOST_SAMPLES = 1024  # of a level that are kept: each has a row for every model of the server


def thinned(samples: Sequence[Sample]) -> tuple[Sample, ...]:
    """Keep about half of the samples: the first and last, which counters need, the longest queue, and every second
    one."""
    if len(samples) < 3:
        return tuple(samples)
    peak = max(range(len(samples)), key=lambda number: samples[number].waiting or 0)
    last = len(samples) - 1
    return tuple(sample for number, sample in enumerate(samples) if number % 2 == 0 or number in (peak, last))


def sample(text: str, *, at_ns: int, host: HostSample | None = None) -> Sample:
    from inferometer.observe.llm_metrics import maybe_llm_reading
    from inferometer.wire.prometheus import metric_lines

    gpus: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    queues: defaultdict[tuple[str, str], dict[str, Any]] = defaultdict(dict)
    cpu: dict[str, Any] = {}
    lines = tuple(metric_lines(text))
    for row in lines:
        value = round(row.value) if row.name.endswith("_bytes") else row.value
        if row.name in GPU_METRICS and "gpu_uuid" in row.labels:
            gpus[row.labels["gpu_uuid"]][GPU_METRICS[row.name]] = value
        elif row.name in ENERGY_METRICS:
            label, part, factor = ENERGY_METRICS[row.name]
            if label in row.labels:
                gpus[row.labels[label]][part] = row.value * factor
        elif row.name in MODEL_METRICS and "model" in row.labels:
            key = row.labels["model"], row.labels.get("version", "")
            queues[key][MODEL_METRICS[row.name]] = value
        elif row.name in CPU_METRICS:
            cpu[CPU_METRICS[row.name]] = value
    if not cpu.get("memory_total_bytes", 1):  # the server has not read its host's metrics yet
        cpu = {}
    return Sample(
        at_ns=at_ns,
        gpus={uuid: Gpu(**values) for uuid, values in gpus.items()},
        queues={key: Queue(**values) for key, values in queues.items()},
        host=host,
        llm=maybe_llm_reading(lines),
        **cpu,
    )


def missing(found: Sample) -> tuple[str, ...]:
    """Return the GPU metrics that no GPU reports."""
    return tuple(
        name
        for name, part in GPU_METRICS.items()
        if all(getattr(gpu, part) is None for gpu in found.gpus.values())
    )
