"""This machine: its description for readers of the result, and its load.

The load matters only if the server runs on it too.
"""

import os
import platform
import resource
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from importlib import import_module
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from inferometer.base.frozen import frozen

PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
MILLIWATTS_PER_WATT = 1000
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_IDLE, _IOWAIT = 3, 4
_OPENING_S = 10.0  # to open the GPU library: it takes seconds on a machine with many GPUs


def describe_host() -> dict[str, Any]:
    """Return name, processor, cores, memory, system and Python version."""
    return {
        "name": platform.node(),
        "processor": processor(),
        "cores": os.cpu_count() or 0,
        "memory_bytes": memory_bytes()["MemTotal"],
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "files": resource.getrlimit(resource.RLIMIT_NOFILE)[1],  # limit of open files per process; -1 is none
        "ports": len(local_ports()),
    }


def local_ports() -> range:
    """Return the ports for outgoing connections; each connection to one address takes its own."""
    try:
        low, high = (int(word) for word in PORT_RANGE.read_text().split())
    except (OSError, ValueError):
        return range(0)
    return range(low, high + 1)


def processor() -> str:
    """Return the name of the processor, or else its architecture."""
    try:
        with open("/proc/cpuinfo") as file:
            names = (line.partition(":")[2].strip() for line in file if line.startswith("model name"))
            return next(names, platform.machine())
    except OSError:
        return platform.machine()


def gpu_names() -> tuple[str, ...]:
    """Return the GPU names from the driver's files, without its library."""
    found = []
    for path in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        try:
            lines = path.read_text().splitlines()
        except OSError:
            continue
        found += [line.partition(":")[2].strip() for line in lines if line.startswith("Model")]
    return tuple(found)


# --- GPUs, read through NVML; none without a driver or nvidia-ml-py


@frozen
class Gpu:
    """State of one GPU at one moment; None if unknown."""

    utilization: float | None = None  # share of time, 0 to 1
    power_w: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    memory_share: float | None = None  # share of time spent reading or writing its memory, 0 to 1
    clock_mhz: float | None = None  # of its processors
    held_bytes: Mapping[int, int] = field(default_factory=dict)  # memory by process


def busiest(gpus: Mapping[str, Gpu]) -> float | None:
    """Return the utilisation of the busiest GPU; None if unknown."""
    return max((gpu.utilization for gpu in gpus.values() if gpu.utilization is not None), default=None)


class Nvml:
    """The open NVML library. It is closed with the process, since it holds no shared resources."""

    def __init__(self, library: Any) -> None:
        self._library = library
        library.nvmlInit()
        handles = [library.nvmlDeviceGetHandleByIndex(n) for n in range(library.nvmlDeviceGetCount())]
        self._handles = {_text(library.nvmlDeviceGetUUID(handle)): handle for handle in handles}

    def read(self) -> Mapping[str, Gpu]:
        """Return the state of each GPU by UUID."""
        return {uuid: self._gpu(handle) for uuid, handle in self._handles.items()}

    def names(self) -> Mapping[str, str]:
        """Return the name of each GPU by UUID."""
        return {
            uuid: _text(self._maybe(self._library.nvmlDeviceGetName, handle) or "GPU")
            for uuid, handle in self._handles.items()
        }

    def _gpu(self, handle: object) -> Gpu:
        library = self._library
        utilization = self._maybe(library.nvmlDeviceGetUtilizationRates, handle)
        power = self._maybe(library.nvmlDeviceGetPowerUsage, handle)
        memory = self._maybe(library.nvmlDeviceGetMemoryInfo, handle)
        rows = self._maybe(library.nvmlDeviceGetComputeRunningProcesses, handle) or ()
        clock = self._maybe(library.nvmlDeviceGetClockInfo, handle, library.NVML_CLOCK_SM)
        return Gpu(
            utilization=None if utilization is None else utilization.gpu / 100,
            power_w=None if power is None else power / MILLIWATTS_PER_WATT,
            memory_used_bytes=None if memory is None else int(memory.used),
            memory_total_bytes=None if memory is None else int(memory.total),
            memory_share=None if utilization is None else utilization.memory / 100,
            clock_mhz=None if clock is None else float(clock),
            held_bytes={row.pid: int(row.usedGpuMemory) for row in rows if row.usedGpuMemory},
        )

    def _maybe(self, read: Callable[..., Any], handle: object, *more: object) -> Any:
        try:
            return read(handle, *more)
        except self._library.NVMLError:  # not every GPU supports every query
            return None


def open_nvml() -> Nvml | None:
    """Open NVML; None on a host without GPUs or without the package nvidia-ml-py."""
    try:
        library = import_module("pynvml")
    except ImportError:
        return None
    try:
        return Nvml(library)
    except library.NVMLError:
        return None


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name  # older versions of the package return bytes


# --- load of the machine


@frozen
class HostSample:
    """Counters of all cores together since boot, and current gauges."""

    busy_s: float
    total_s: float
    memory_used_bytes: int
    gpus: Mapping[str, Gpu] = field(default_factory=dict)


class HostMeter:
    """Reads the load of this host: all its cores, or only those with these numbers.

    Opening the GPU library takes longer than starting a command, so a thread does it on first use.
    """

    def __init__(self, cores: Collection[int] = ()) -> None:
        self._nvml: Nvml | None = None
        self._opening: threading.Thread | None = None
        self._chosen = cores

    def choose(self, cores: Collection[int]) -> None:
        """Choose other cores; samples before and after are not comparable."""
        self._chosen = cores

    def read(self, *, waits: bool = False) -> HostSample:
        """Read a sample. GPUs are missing while their library is being opened, unless `waits` is set."""
        self._look_for_gpus(waits)
        rows = _core_times()
        # Offline cores shift the positions of those after them.
        chosen = [rows[n] for n in self._chosen] if self._chosen and max(self._chosen) < len(rows) else rows
        total_s = sum(sum(row) for row in chosen)
        memory = memory_bytes()
        return HostSample(
            busy_s=total_s - sum(row[_IDLE] + row[_IOWAIT] for row in chosen),
            total_s=total_s,
            memory_used_bytes=memory["MemTotal"] - memory["MemAvailable"],
            gpus={} if self._nvml is None else self._nvml.read(),
        )

    def _look_for_gpus(self, waits: bool) -> None:
        if self._opening is None:
            self._opening = threading.Thread(target=self._open, name="inferometer-gpus", daemon=True)
            self._opening.start()
        if waits:
            self._opening.join(_OPENING_S)

    def _open(self) -> None:
        self._nvml = open_nvml()


def _core_times() -> list[list[float]]:
    """Return the seconds of each online core by state: user, nice, system, idle, iowait, irq, softirq, steal.

    The guest time that follows these is already included in user time.
    """
    with open("/proc/stat") as file:
        rows = [line.split() for line in file if line.startswith("cpu") and line[3].isdecimal()]
    return [[int(ticks) / _TICKS_PER_S for ticks in row[1:9]] for row in rows]


def memory_bytes() -> dict[str, int]:
    """Return the contents of `/proc/meminfo` in bytes."""
    with open("/proc/meminfo") as file:
        rows = (line.split() for line in file)
        return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if row[-1] == "kB"}


def is_this_host(host: str) -> bool:
    """Return whether the name or address is loopback, or another one of this machine."""
    if host.lower() in ("localhost", platform.node().lower()):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    if address.is_loopback:
        return True
    import psutil

    own = {row.address for rows in psutil.net_if_addrs().values() for row in rows}
    return str(address) in own
