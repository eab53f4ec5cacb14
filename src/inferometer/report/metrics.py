"""The server's metrics in lines for people."""

from collections.abc import Iterator, Sequence

from inferometer.base.units import NS_PER_US
from inferometer.report.format import duration, plural, quantity, share
from inferometer.stats.server_metrics import GpuFigures, HostFigures, QueueFigures, ServerMetrics

GIB = 1024**3


def metrics_lines(metrics: ServerMetrics) -> Iterator[str]:
    """One line for the server, and one for each busy model, each GPU and this host."""
    yield f"Server metrics ({plural(metrics.polls, 'look')}): {_server(metrics) or 'nothing about CPU and memory'}"
    yield from (f"  {_queue(row)}" for row in metrics.queues)
    host = metrics.host
    # NVML is asked only where the server says nothing: both see the same GPUs.
    gpus = metrics.gpus if metrics.gpus or host is None else host.gpus
    yield from (f"  {row.uuid}: {_gpu(row)}" for row in gpus)
    if host is not None:
        yield f"  this host: {_host(host)}"


def _server(metrics: ServerMetrics) -> str:
    return _joined(
        [
            _maybe_share("CPU", metrics.cpu_share),
            _memory(metrics.memory_used_bytes, metrics.memory_total_bytes),
        ]
    )


def _queue(row: QueueFigures) -> str:
    words = []
    if row.pending_mean is not None and row.pending_max is not None:
        words.append(f"{quantity(row.pending_mean)} requests pending, {row.pending_max:g} at most")
    if row.queue_us is not None:
        words.append(f"{duration(row.queue_us * NS_PER_US)} in the queue")
    return f"{row.model} version {row.version}: {_joined(words)}"


def _gpu(row: GpuFigures) -> str:
    power = "" if row.power_w is None else f"{quantity(row.power_w)} W"
    memory = _memory(row.memory_used_bytes, row.memory_total_bytes)
    return _joined([_maybe_share("busy", row.utilization), power, memory])


def _host(host: HostFigures) -> str:
    return _joined([_maybe_share("CPU", host.cpu_share), _memory(host.memory_used_bytes, None)])


def _maybe_share(name: str, part: float | None) -> str:
    return "" if part is None else f"{name} {share(part)}"


def _memory(used: int | None, total: int | None) -> str:
    if used is None:
        return ""
    whole = "" if total is None else f" of {quantity(total / GIB)}"
    return f"memory {quantity(used / GIB)}{whole} GiB"


def _joined(words: Sequence[str]) -> str:
    return ", ".join(word for word in words if word)
