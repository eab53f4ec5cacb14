"""Which machines are alike: figures of runs on them may be compared."""

import os
import platform

from inferometer.observe.host import gpu_names, processor


def host_class() -> str:
    """Architecture, cores, processor and GPUs of this machine, in words."""
    machine = f"{platform.machine()}, {len(os.sched_getaffinity(0))} x {processor()}"
    return " + ".join([machine, *gpu_names()])
