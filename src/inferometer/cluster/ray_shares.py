"""Each model server's share of a cluster: a GPU, if there are any, and an equal number of cores."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence

from inferometer.base.system import usable_cores
from inferometer.observe.host import gpu_names, open_nvml

CPU, GPU = "CPU", "GPU"


def share_for(count: int, totals: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the share, the same for each server, of the nodes' `totals`; empty if they do not fit."""
    gpus = 1.0 if any(total.get(GPU, 0) >= 1 for total in totals) else 0.0
    most = int(max((total.get(CPU, 0) for total in totals), default=0))
    for cores in range(most, 0, -1):
        if sum(_room(total, cores, gpus) for total in totals) >= count:
            return {CPU: float(cores), **({GPU: gpus} if gpus else {})}
    return {}


def _room(total: Mapping[str, float], cores: int, gpus: float) -> int:
    """Return how many servers fit on a node."""
    room = int(total.get(CPU, 0) // cores)
    return min(room, int(total.get(GPU, 0) // gpus)) if gpus else room


def this_machine() -> dict[str, float]:
    """Return the resources of this machine as a node."""
    nvml = open_nvml()
    gpus = len(gpu_names() if nvml is None else nvml.names())
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        gpus = min(gpus, len([word for word in visible.split(",") if word.strip()]))
    return {CPU: float(len(usable_cores())), **({GPU: float(gpus)} if gpus else {})}


def sets_of_cores(machines: Sequence[str], cores: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Assign cores to servers: the same number for each, and no core for two servers of a machine.

    `machines` names the machine of each server, `cores` the cores it may use there.
    """
    counts = Counter(machines)
    size = max(1, min(len(set(own)) // counts[machine] for machine, own in zip(machines, cores, strict=True)))
    taken: Counter[str] = Counter()
    found = []
    for machine, own in zip(machines, cores, strict=True):
        first = taken[machine] * size
        taken[machine] += 1
        # With more servers than cores, the last ones get all cores.
        found.append(tuple(sorted(own)[first : first + size] or sorted(own)))
    return found
