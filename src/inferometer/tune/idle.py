"""The GPUs while the server holds no model: what it takes by itself."""

import time
from collections.abc import Callable, Mapping, Sequence

from inferometer.observe.gpu import Gpu
from inferometer.stats.measurement import Estimate
from inferometer.tune.trial import Figures, Trial

MEGA = 1_000_000

Read = Callable[[], Mapping[str, Gpu]]


def watch_idle(
    read: Read, duration_s: float, interval_s: float, wait: Callable[[float], None] = time.sleep
) -> Trial:
    """A trial without models; one look at least."""
    samples = [read()]
    for _ in range(int(duration_s / interval_s)):
        wait(interval_s)
        samples.append(read())
    return folded(samples)


def folded(samples: Sequence[Mapping[str, Gpu]]) -> Trial:
    """Memory at its highest, utilization and power on average."""
    uuids = dict.fromkeys(uuid for sample in samples for uuid in sample)
    gpus = tuple((uuid, _figures([sample[uuid] for sample in samples if uuid in sample])) for uuid in uuids)
    return Trial(-1, (), gpus=gpus)


def _figures(rows: Sequence[Gpu]) -> Figures:
    used = [row.memory_used_bytes / MEGA for row in rows if row.memory_used_bytes is not None]
    total = [row.memory_total_bytes / MEGA for row in rows if row.memory_total_bytes is not None]
    busy = [100 * row.utilization for row in rows if row.utilization is not None]
    power = [row.power_w for row in rows if row.power_w is not None]
    found: list[tuple[str, float]] = []
    found += [("gpu_used_memory", max(used))] if used else []
    found += [("gpu_free_memory", min(total) - max(used))] if used and total else []
    found += [("gpu_total_memory", max(total))] if total else []
    found += [("gpu_utilization", sum(busy) / len(busy))] if busy else []
    found += [("gpu_power_usage", sum(power) / len(power))] if power else []
    return Figures(tuple((tag, Estimate(value)) for tag, value in found))
