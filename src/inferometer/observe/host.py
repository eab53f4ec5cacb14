"""This machine, as far as a reader of the result needs to know it."""

import os
import platform
import resource
from pathlib import Path
from typing import Any

PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


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
        "files": resource.getrlimit(resource.RLIMIT_NOFILE)[1],  # a process may have open; -1 is no limit
        "ports": len(local_ports()),
    }


def local_ports() -> range:
    """Ports the system gives to outgoing connections; each connection to one address takes its own."""
    try:
        low, high = (int(word) for word in PORT_RANGE.read_text().split())
    except (OSError, ValueError):
        return range(0)
    return range(low, high + 1)


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.machine()
