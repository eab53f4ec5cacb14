"""A measured level in the tags and units of the metric catalogue."""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence

from inferometer.observe.host import Gpu
from inferometer.stats.figures import MEGA, METRICS, Source
from inferometer.stats.measurement import Estimate, GpuFigures, Level, Measurement
from inferometer.tune.trial import Figures, Trial


def figures(level: Level, pids: Sequence[int]) -> Figures:
    """A level in the catalogue's tags and units; memory is that of the processes that hold models."""
    found = level.measurement
    assert found is not None
    host = ((tag, Estimate(value)) for tag, value in _host(found, pids))
    return Figures((*_of(Source.RUN, found).values, *host))


def _of(source: Source, found: object) -> Figures:
    rows = ((row.tag, row.estimate(found)) for row in METRICS if row.source is source)
    return Figures(tuple((tag, estimate) for tag, estimate in rows if estimate is not None))


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
    return tuple((gpu.uuid, _of(Source.GPU, gpu)) for gpu in rows)


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
    return Trial(-1, (), gpus=tuple((row.uuid, _of(Source.GPU, row)) for row in rows))


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
