"""Find limits of a pipeline that are GPUs, their memory, or the work that feeds them. Pure."""

import math
from collections.abc import Sequence
from dataclasses import replace

from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_S, duration, rough, share, significant
from inferometer.diagnose.diagnosis import COPY, FEED, GPU, GPU_MEMORY, LAUNCH, StepFigures, Verdict
from inferometer.diagnose.fit import GPU_DEVICE, knows_batches, lightest
from inferometer.diagnose.observation import Observation
from inferometer.diagnose.queueing import Devices, Pipeline, Station, predict, with_station

EXHAUSTED = 0.85  # share of time at which a GPU has no capacity left
NEARLY = 0.7  # the same if executions consist almost only of work on the GPU
IDLE = 0.7  # share of time below which the GPU waits for something
BUSY_STEP = 0.8  # share of the time of its instances
WORTHWHILE = 0.1  # smallest gain that counts
COPYING = 0.4  # share of a request's time
BANDWIDTH = 0.6  # share of time reading or writing memory from which bandwidth is the limit
GIB = 1 << 30
_FORMED = 1.5  # ratio of inferences per execution to inferences per request


@frozen
class GpuCase:
    """The diagnosed level with the available GPU data."""

    rows: Sequence[Observation]  # fitted observations; the last one is the diagnosed level
    table: Sequence[StepFigures]
    pipeline: Pipeline
    transfer_s: float = 0.0  # per request on the client; 0 with shared memory

    @property
    def top(self) -> Observation:
        return self.rows[-1]

    def figures(self, name: str) -> StepFigures:
        return next(row for row in self.table if row.name == name)

    def gain(self, pipeline: Pipeline) -> float:
        """Return the predicted throughput gain of another pipeline at the diagnosed load."""
        now = predict(self.pipeline, self.top.concurrency).throughput
        return predict(pipeline, self.top.concurrency).throughput / now - 1


def gpu_shares(top: Observation, pipeline: Pipeline) -> dict[str, float]:
    """Return the modelled share of GPU time of each step that uses a GPU."""
    stations = {station.name: station for station in pipeline.walk()}
    return {
        step.name: top.throughput * calls / step.batch * stations[step.name].gpu_s(step.batch)
        for step, calls, _ in top.walk()
        if step.setup.device == GPU_DEVICE
    }


def room_for_instances(top: Observation) -> int | None:
    """Return how many more instances fit into the memory of the GPU; None if unknown.

    An instance is assumed to need the average memory of the existing instances. If the memory held by the server is
    unknown, all used memory is attributed to it, which is the upper bound.
    """
    each = instance_bytes(top)
    gpu = top.gpu
    if each is None or gpu is None or gpu.memory_total_bytes is None or gpu.memory_used_bytes is None:
        return None
    return max(0, math.floor((gpu.memory_total_bytes - gpu.memory_used_bytes) / each))


def instance_bytes(top: Observation) -> float | None:
    gpu = top.gpu
    there = {step.name: step.setup for step, _, _ in top.walk() if step.setup.device == GPU_DEVICE}
    count = sum(setup.instances / setup.gpus for setup in there.values())
    if gpu is None or not gpu.memory_used_bytes or not count:
        return None
    held = gpu.memory_used_bytes if gpu.memory_server_bytes is None else gpu.memory_server_bytes
    return held / count


def maybe_gpu_verdict(case: GpuCase) -> Verdict | None:
    """Return the verdict if a GPU, or the work that feeds it, is the limit; None if neither is."""
    stations = {station.name: station for station in case.pipeline.walk()}
    # A step that only calls others has no execution time of its own.
    on_gpu = [row for row in case.table if row.device == GPU_DEVICE and stations[row.name].service_s(1)]
    if not on_gpu:
        return None
    busiest = max(on_gpu, key=lambda row: row.utilisation)
    station = stations[busiest.name]
    busy = case.top.gpu_share
    batching_gain = _batching_gain(case, station)
    is_launching = batching_gain >= WORTHWHILE and station.fixed_s > station.item_s
    if busy is not None and _is_full(busy, station, busiest.batch, case.top.items) and not is_launching:
        return _exhausted(case, busy)
    is_idle = busy is None or busy < IDLE
    copying = _maybe_copying(case) if is_idle else None
    if copying is not None:
        return copying
    if busiest.utilisation < BUSY_STEP or busiest.utilisation < max(row.utilisation for row in case.table):
        return None
    if is_launching:
        return _launch(case, station, can_batch=True) if knows_batches(station.name, case.rows) else None
    if busy is None:
        return None
    if knows_batches(station.name, case.rows) and _is_fed_by_cpu(station, busiest.batch, case.top.items):
        return _fed(case, station)
    return _maybe_out_of_memory(case, station) or _launch(case, station, can_batch=False)


def _is_full(busy: float, station: Station, batch: float, items: int) -> bool:
    on_gpu = station.gpu_s(batch) / station.service_s(batch, max(1.0, batch / items))
    return busy >= EXHAUSTED or min(busy, on_gpu) >= NEARLY


def _batching_gain(case: GpuCase, station: Station) -> float:
    if station.max_batch < 2 or station.is_batching or station.members:
        return 0.0
    return case.gain(with_station(case.pipeline, station.name, is_batching=True))


def _gain_of_another(case: GpuCase, station: Station) -> float:
    """Return the gain of one more instance if all instances ran in parallel without loss."""
    free = replace(case.pipeline, devices=Devices(case.pipeline.devices.count))
    return case.gain(with_station(free, station.name, instances=station.instances + 1))


def _is_fed_by_cpu(station: Station, batch: float, items: int) -> bool:
    """Return whether most time outside the GPU grows with the batch, which is work on data and not launch overhead."""
    requests = max(1.0, batch / items)
    beside_s = station.service_s(batch, requests) - station.gpu_s(batch)
    growing_s = batch * max(0.0, station.item_s - station.gpu_item_s) + (requests - 1) * station.request_s
    return beside_s > station.gpu_s(batch) and growing_s > beside_s / 2


# --- sentences


def _exhausted(case: GpuCase, busy: float) -> Verdict:
    top = case.top
    shares = gpu_shares(top, case.pipeline)
    culprit = max(shares, key=lambda name: shares[name])
    part = shares[culprit] / sum(shares.values()) if sum(shares.values()) else 1.0
    words = f"The GPU is exhausted: it is busy {share(busy)} of the time"
    words += f", {share(part)} of that with {culprit}." if len(shares) > 1 else f" with {culprit}."
    gpu = top.gpu
    if gpu is not None and gpu.memory_share is not None and gpu.memory_share >= BANDWIDTH:
        words += f" Its memory is read or written {share(gpu.memory_share)} of the time: memory bandwidth is the limit."
    return Verdict(GPU, f"{words} More instances would only share it.", culprit)


def _launch(case: GpuCase, station: Station, *, can_batch: bool) -> Verdict:
    row = case.figures(station.name)
    instance = "its only instance is" if row.instances == 1 else f"all its {row.instances} instances are"
    words = (
        f"{station.name} leaves the GPU idle: {instance} busy {share(min(row.utilisation, 1.0))} of the time, but "
        f"{_idle_words(case)}. "
    )
    if row.batch > _FORMED * case.top.items:
        part = 1 - station.gpu_s(row.batch) / station.service_s(row.batch, row.batch / case.top.items)
        words += f"It gets batches of {rough(row.batch)}, and {share(part)} of their time is launch overhead."
        return Verdict(LAUNCH, words, station.name)
    words += "It gets one request at a time and launches each separately. "
    if can_batch:
        times = station.service_s(8, 8) / station.service_s(1)
        return Verdict(
            LAUNCH,
            f"{words}A batch of 8 would take {times:.1f} times as long as a single request.",
            station.name,
        )
    more = "Another instance could launch in the meantime." if station.instances == 1 else ""
    return Verdict(LAUNCH, (words + more).strip(), station.name)


def _fed(case: GpuCase, station: Station) -> Verdict:
    row = case.figures(station.name)
    requests = max(1.0, row.batch / case.top.items)
    beside_s = station.service_s(row.batch, requests) - station.gpu_s(row.batch)
    part = beside_s / station.service_s(row.batch, requests)
    return Verdict(
        FEED,
        f"The GPU waits for the CPU: {_idle_words(case)}. {share(part)} of an execution of {station.name} runs "
        f"outside the GPU, and most of that grows with the number of inferences.",
        station.name,
    )


def _maybe_out_of_memory(case: GpuCase, station: Station) -> Verdict | None:
    gpu, each = case.top.gpu, instance_bytes(case.top)
    if gpu is None or each is None or gpu.memory_used_bytes is None or gpu.memory_total_bytes is None:
        return None
    if room_for_instances(case.top) != 0 or _gain_of_another(case, station) < WORTHWHILE:
        return None
    sizes = (gpu.memory_used_bytes, gpu.memory_total_bytes, each)
    used, total, one = (significant(size / GIB, 3) for size in sizes)
    return Verdict(
        GPU_MEMORY,
        f"GPU memory limits the instances of {station.name}: {used} of {total} GiB are used, {one} per instance, so "
        f"no more fit, although {_idle_words(case)}.",
        station.name,
    )


def _maybe_copying(case: GpuCase) -> Verdict | None:
    light = lightest(case.rows)
    outside_s = max(0.0, light.latency_s - sum(calls * step.service_s for step, calls, _ in light.walk()))
    moved_s = min(2 * case.transfer_s, outside_s)  # the server copies as much as we do
    inside_s = sum(calls * step.copy_s for step, calls, _ in light.walk())
    if moved_s + inside_s < COPYING * light.latency_s or moved_s <= inside_s:
        return None
    saved = duration(moved_s * NS_PER_S)
    return Verdict(
        COPY,
        f"The GPU waits for tensors: copying them takes {share((moved_s + inside_s) / light.latency_s)} of a request's "
        f"time. Shared memory would save about {share(moved_s / light.latency_s)} of it, {saved} per request; "
        f"{_idle_words(case)}.",
    )


def _idle_words(case: GpuCase) -> str:
    busy = case.top.gpu_share
    return "the GPU utilisation is unknown" if busy is None else f"the GPU is busy {share(busy)} of the time"
