"""A measured level in the tags and units of the metric catalogue."""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence

from inferometer.base.units import NS_PER_MS
from inferometer.observe.gpu import Gpu
from inferometer.stats.measurement import Distribution, Estimate, Level, Measurement
from inferometer.stats.server_metrics import GpuFigures
from inferometer.tune.trial import Figures, Trial

MEGA = 1_000_000


def figures(level: Level, pids: Sequence[int]) -> Figures:
    """A level in the metric catalogue's tags and units; memory is that of the processes that hold models."""
    found = level.measurement
    assert found is not None
    rows = [("perf_throughput", found.infer_per_s)]
    names = {"mean": "avg", "p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99"}
    rows += [
        (f"perf_latency_{names[name]}", _scaled(estimate, 1 / NS_PER_MS))
        for name, estimate in found.latency_intervals
        if name in names
    ]
    send_ms = (found.send_ns + found.receive_ns) / NS_PER_MS
    wait_ms = max(0.0, found.service.mean_ns / NS_PER_MS - send_ms)
    rows += [
        ("perf_client_send_recv", Estimate(send_ms)),
        ("perf_client_response_wait", Estimate(wait_ms)),
        ("perf_error_rate", Estimate(100 * found.failed_share)),
    ]
    rows += [(tag, Estimate(value)) for tag, value in _server(found)]
    rows += [(tag, Estimate(value)) for tag, value in _host(found, pids)]
    rows += [(tag, Estimate(value)) for tag, value in _tokens(found)]
    return Figures(tuple(rows))


def _scaled(row: Estimate, factor: float) -> Estimate:
    if row.low is None or row.high is None:
        return Estimate(row.value * factor)
    return Estimate(row.value * factor, row.low * factor, row.high * factor)


def _server(found: Measurement) -> list[tuple[str, float]]:
    server = found.server
    if server is None or not server.counters.success_count:
        return []
    counters = server.counters
    per_request_ms = 1 / counters.success_count / NS_PER_MS
    rows = [
        ("perf_server_queue", counters.queue_ns * per_request_ms),
        ("perf_server_compute_input", counters.compute_input_ns * per_request_ms),
        ("perf_server_compute_infer", counters.compute_infer_ns * per_request_ms),
        ("perf_server_compute_output", counters.compute_output_ns * per_request_ms),
    ]
    if counters.execution_count:
        rows.append(("perf_server_batch", counters.inference_count / counters.execution_count))
    return rows


def _tokens(found: Measurement) -> list[tuple[str, float]]:
    if found.tokens is None:
        return []
    rows = [("output_token_throughput", found.tokens.output_per_s)]
    rows += _spread("inter_token_latency", found.tokens.between)
    if found.streaming is not None:
        rows += _spread("time_to_first_token", found.streaming.first)
    return rows


def _spread(name: str, found: Distribution) -> list[tuple[str, float]]:
    if not found.count:
        return []
    values = {"avg": found.mean_ns, "min": found.min_ns, "max": found.max_ns}
    values |= {f"p{p}": found.percentile_ns(p) for p in (25, 50, 75, 90, 95, 99)}
    return [(f"{name}_{statistic}", value / NS_PER_MS) for statistic, value in values.items()]


def _host(found: Measurement, pids: Sequence[int]) -> list[tuple[str, float]]:
    if not pids:
        return []
    import psutil

    rows = [("cpu_available_ram", psutil.virtual_memory().available / MEGA)]
    used = [size for pid in pids if (size := resident(pid)) is not None]
    if used:
        rows.insert(0, ("cpu_used_ram", sum(used) / MEGA))
    share = None if found.metrics is None else found.metrics.cpu_share
    if share is None and found.metrics is not None and found.metrics.host is not None:
        share = found.metrics.host.cpu_share
    if share is not None:
        rows.append(("cpu_utilization", 100 * share))
    return rows


def resident(pid: int) -> int | None:
    """Memory of the server and everything it started, the python backend's processes included."""
    import psutil

    try:
        server = psutil.Process(pid)
        family = [server, *server.children(recursive=True)]
    except psutil.Error:
        return None
    total = 0
    for process in family:
        with contextlib.suppress(psutil.Error):
            total += process.memory_info().rss
    return total


def gpu_figures(level: Level) -> tuple[tuple[str, Figures], ...]:
    """Of the server's metrics; of the host's own GPUs where the server tells nothing."""
    found = level.measurement
    if found is None or found.metrics is None:
        return ()
    metrics = found.metrics
    rows: Sequence[GpuFigures] = metrics.gpus or (metrics.host.gpus if metrics.host is not None else ())
    return tuple((gpu.uuid, _gpu(gpu)) for gpu in rows)


def _gpu(gpu: GpuFigures) -> Figures:
    used, total = gpu.memory_used_bytes, gpu.memory_total_bytes
    values = (
        ("gpu_used_memory", None if used is None else used / MEGA),
        ("gpu_free_memory", None if used is None or total is None else (total - used) / MEGA),
        ("gpu_total_memory", None if total is None else total / MEGA),
        ("gpu_utilization", None if gpu.utilization is None else 100 * gpu.utilization),
        ("gpu_power_usage", gpu.power_w),
    )
    return Figures(tuple((tag, Estimate(value)) for tag, value in values if value is not None))


# --- the GPUs while the server holds no model: what it takes by itself

Read = Callable[[], Mapping[str, Gpu]]


def watch_idle(
    read: Read, duration_s: float, interval_s: float, wait: Callable[[float], None] = time.sleep
) -> Trial:
    """A trial without models, of at least one sample: memory at its highest, utilization and power on average."""
    samples = [read()]
    for _ in range(int(duration_s / interval_s)):
        wait(interval_s)
        samples.append(read())
    uuids = dict.fromkeys(uuid for sample in samples for uuid in sample)
    rows = [_folded(uuid, [sample[uuid] for sample in samples if uuid in sample]) for uuid in uuids]
    return Trial(-1, (), gpus=tuple((row.uuid, _gpu(row)) for row in rows))


def _folded(uuid: str, samples: Sequence[Gpu]) -> GpuFigures:
    busy = [row.utilization for row in samples if row.utilization is not None]
    power = [row.power_w for row in samples if row.power_w is not None]
    used = [row.memory_used_bytes for row in samples if row.memory_used_bytes is not None]
    total = [row.memory_total_bytes for row in samples if row.memory_total_bytes is not None]
    return GpuFigures(
        uuid,
        utilization=sum(busy) / len(busy) if busy else None,
        power_w=sum(power) / len(power) if power else None,
        memory_used_bytes=max(used, default=None),
        memory_total_bytes=max(total, default=None),
    )
