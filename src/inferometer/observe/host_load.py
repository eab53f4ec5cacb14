"""How busy this host is: only of interest when the server runs on it too."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address

from inferometer.observe.gpu import Gpu, open_nvml


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
