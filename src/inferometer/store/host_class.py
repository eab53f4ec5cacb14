"""Classes of machines whose figures can be compared."""

import os
import platform

from inferometer.observe.host import gpu_names, processor


def host_class() -> str:
    """Describe this machine: architecture, cores, processor and GPUs."""
    machine = f"{platform.machine()}, {len(os.sched_getaffinity(0))} x {processor()}"
    return " + ".join([machine, *gpu_names()])
