"""This machine, as far as a reader of the result needs to know it."""

import os
import platform
from typing import Any


def describe_host() -> dict[str, Any]:
    """Name, processor, cores, memory, system and Python."""
    import psutil

    return {
        "name": platform.node(),
        "processor": _processor(),
        "cores": os.cpu_count() or 0,
        "memory_bytes": int(psutil.virtual_memory().total),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.machine()
