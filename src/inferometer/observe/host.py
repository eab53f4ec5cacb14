"""This machine: what it is, as far as a reader of the result needs to know it, and how busy it is.

How busy it is matters only when the server runs on it too.
"""

import os
import platform
import resource
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from inferometer.observe.gpu import Gpu, open_nvml

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


@dataclass(frozen=True, slots=True)
class HostSample:
    """Counters of all cores together since the host started, and gauges of the moment."""

    busy_s: float
    total_s: float
    memory_used_bytes: int
    gpus: Mapping[str, Gpu] = field(default_factory=dict)


class HostMeter:
    """Reads this host."""

    def __init__(self) -> None:
        self._nvml = open_nvml()

    def read(self) -> HostSample:
        import psutil

        times = psutil.cpu_times()._asdict()
        # Time given to guests is counted as user time as well.
        total_s = sum(times.values()) - times.get("guest", 0.0) - times.get("guest_nice", 0.0)
        memory = psutil.virtual_memory()
        return HostSample(
            busy_s=total_s - times["idle"] - times.get("iowait", 0.0),
            total_s=total_s,
            memory_used_bytes=int(memory.total - memory.available),
            gpus={} if self._nvml is None else self._nvml.read(),
        )


def is_this_host(host: str) -> bool:
    """Whether the name or address is a loopback one."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
