"""What each model server gets of a cluster: a GPU where there are some, and as many cores as all of them can have."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence

from inferometer.observe.host import gpu_names, open_nvml

CPU, GPU = "CPU", "GPU"


def share_for(count: int, totals: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The same for each; `totals` are what the nodes have. Empty where there is no room for so many."""
    gpus = 1.0 if any(total.get(GPU, 0) >= 1 for total in totals) else 0.0
    most = int(max((total.get(CPU, 0) for total in totals), default=0))
    for cores in range(most, 0, -1):
        if sum(_room(total, cores, gpus) for total in totals) >= count:
            return {CPU: float(cores), **({GPU: gpus} if gpus else {})}
    return {}


def _room(total: Mapping[str, float], cores: int, gpus: float) -> int:
    """How many servers a node has room for."""
    room = int(total.get(CPU, 0) // cores)
    return min(room, int(total.get(GPU, 0) // gpus)) if gpus else room


def this_machine() -> dict[str, float]:
    """What a node of this machine alone has."""
    nvml = open_nvml()
    gpus = len(gpu_names() if nvml is None else nvml.names())
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        gpus = min(gpus, len([word for word in visible.split(",") if word.strip()]))
    return {CPU: float(len(os.sched_getaffinity(0))), **({GPU: float(gpus)} if gpus else {})}


def sets_of_cores(machines: Sequence[str], cores: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Which cores each server keeps to: as many for all of them, and none for two servers of a machine.

    `machines` names the machine of each server, `cores` those that it may use there.
    """
    counts = Counter(machines)
    size = max(1, min(len(set(own)) // counts[machine] for machine, own in zip(machines, cores, strict=True)))
    taken: Counter[str] = Counter()
    found = []
    for machine, own in zip(machines, cores, strict=True):
        first = taken[machine] * size
        taken[machine] += 1
        # More servers than cores: the last have all of them.
        found.append(tuple(sorted(own)[first : first + size] or sorted(own)))
    return found
