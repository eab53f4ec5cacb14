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
from typing import Any, NamedTuple

from inferometer.base.frozen import frozen
from inferometer.base.system import has_proc, sysctl, system_name, usable_cores

PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
PORT_SETTINGS = ("net.inet.ip.portrange.first", "net.inet.ip.portrange.last")  # of macOS
MILLI = 1000  # NVML reports milliwatts and millijoules
PACKAGES = Path("/sys/class/powercap")  # energy counters of processors (RAPL), often readable by root only
MICROJOULES = 1_000_000
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_IDLE, _IOWAIT = 3, 4
_OPENING_S = 10.0  # to open the GPU library: it takes seconds on a machine with many GPUs


def describe_host() -> dict[str, Any]:
    """Return name, processor, cores, memory, system and Python version."""
    return {
        "name": platform.node(),
        "processor": processor(),
        "cores": os.cpu_count() or 0,
        "memory_bytes": memory_bytes().total,
        "system": system_name(),
        "python": platform.python_version(),
        "files": resource.getrlimit(resource.RLIMIT_NOFILE)[1],  # limit of open files per process; -1 is none
        "ports": None if (ports := local_ports()) is None else len(ports),
    }


def local_ports() -> range | None:
    """Return the ports for outgoing connections, of which each connection to one address takes one; None if unknown."""
    try:
        words = PORT_RANGE.read_text().split() if has_proc() else [sysctl(name) for name in PORT_SETTINGS]
        low, high = map(int, words)
    except (OSError, ValueError):
        return None
    return range(low, high + 1)


def processor() -> str:
    """Return the name of the processor, or its architecture if it has none."""
    if not has_proc():
        return sysctl("machdep.cpu.brand_string") or platform.machine()
    try:
        with open("/proc/cpuinfo") as file:
            names = (line.partition(":")[2].strip() for line in file if line.startswith("model name"))
            return next(names, platform.machine())
    except OSError:
        return platform.machine()


def has_gpu_driver() -> bool:
    """Whether an NVIDIA driver is loaded."""
    return os.path.exists("/dev/nvidiactl")


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


def host_class() -> str:
    """Return a description that is equal for machines whose figures can be compared."""
    machine = f"{platform.machine()}, {len(usable_cores())} x {processor()}"
    return " + ".join([machine, *gpu_names()])


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
    energy_j: float | None = None  # counter since the driver was loaded
    active: frozenset[int] | None = None  # processes that used its processors since the last reading


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
        self._seen_us: dict[str, int] = {}  # time of the last known use by a process

    def read(self) -> Mapping[str, Gpu]:
        """Return the state of each GPU by UUID."""
        return {uuid: self._gpu(uuid, handle) for uuid, handle in self._handles.items()}

    def names(self) -> Mapping[str, str]:
        """Return the name of each GPU by UUID."""
        return {
            uuid: _text(self._maybe(self._library.nvmlDeviceGetName, handle) or "GPU")
            for uuid, handle in self._handles.items()
        }

    def _gpu(self, uuid: str, handle: object) -> Gpu:
        library = self._library
        utilization = self._maybe(library.nvmlDeviceGetUtilizationRates, handle)
        power = self._maybe(library.nvmlDeviceGetPowerUsage, handle)
        memory = self._maybe(library.nvmlDeviceGetMemoryInfo, handle)
        rows = self._maybe(library.nvmlDeviceGetComputeRunningProcesses, handle) or ()
        clock = self._maybe(library.nvmlDeviceGetClockInfo, handle, library.NVML_CLOCK_SM)
        energy = self._maybe(library.nvmlDeviceGetTotalEnergyConsumption, handle)
        return Gpu(
            utilization=None if utilization is None else utilization.gpu / 100,
            power_w=None if power is None else power / MILLI,
            memory_used_bytes=None if memory is None else int(memory.used),
            memory_total_bytes=None if memory is None else int(memory.total),
            memory_share=None if utilization is None else utilization.memory / 100,
            clock_mhz=None if clock is None else float(clock),
            held_bytes={row.pid: int(row.usedGpuMemory) for row in rows if row.usedGpuMemory},
            energy_j=None if energy is None else energy / MILLI,
            active=self._active(uuid, handle),
        )

    def _active(self, uuid: str, handle: object) -> frozenset[int] | None:
        """Return the processes that used the GPU since the last reading; None if the driver does not report them."""
        library, seen_us = self._library, self._seen_us.get(uuid, 0)
        try:
            rows = library.nvmlDeviceGetProcessUtilization(handle, seen_us)
        except library.NVMLError as error:
            is_idle = getattr(error, "value", None) == library.NVML_ERROR_NOT_FOUND
            return frozenset() if is_idle else None
        self._seen_us[uuid] = max((int(row.timeStamp) for row in rows), default=seen_us)
        return frozenset(row.pid for row in rows if row.smUtil and seen_us)

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
    packages_j: Mapping[str, float] = field(default_factory=dict)  # energy counters of the processors


class HostMeter:
    """Reads the load of this host: all its cores, or only those with these numbers.

    Opening the GPU library takes longer than starting a command, so a thread does it on first use.
    """

    def __init__(self, cores: Collection[int] = ()) -> None:
        self._nvml: Nvml | None = None
        self._opening: threading.Thread | None = None
        self._chosen = cores
        whole = (path for path in sorted(PACKAGES.glob("intel-rapl:*")) if path.name.count(":") == 1)
        self._packages = tuple(map(_Package, whole))

    def choose(self, cores: Collection[int]) -> None:
        """Choose other cores; samples before and after are not comparable."""
        self._chosen = cores

    def read(self, *, waits: bool = False) -> HostSample:
        """Read a sample. GPUs are missing while their library is being opened, unless `waits` is set."""
        self._look_for_gpus(waits)
        rows = _core_times()
        # Offline cores shift the positions of those after them.
        chosen = [rows[n] for n in self._chosen] if self._chosen and max(self._chosen) < len(rows) else rows
        total_s = sum(row.total_s for row in chosen)
        memory = memory_bytes()
        return HostSample(
            busy_s=total_s - sum(row.idle_s for row in chosen),
            total_s=total_s,
            memory_used_bytes=memory.total - memory.available,
            gpus={} if self._nvml is None else self._nvml.read(),
            packages_j={row.name: joules for row in self._packages if (joules := row.read()) is not None},
        )

    def _look_for_gpus(self, waits: bool) -> None:
        if self._opening is None:
            self._opening = threading.Thread(target=self._open, name="inferometer-gpus", daemon=True)
            self._opening.start()
        if waits:
            self._opening.join(_OPENING_S)

    def _open(self) -> None:
        self._nvml = open_nvml()


class _Package:
    """Energy counter of one processor package, continued where it starts again from 0."""

    def __init__(self, path: Path) -> None:
        self.name = path.name.replace("intel-rapl:", "processor ")
        self._path = path
        self._last = self._turned = 0

    def read(self) -> float | None:
        """Return the joules since an arbitrary start; None if not readable."""
        try:
            now = int((self._path / "energy_uj").read_text())
            if now < self._last:
                self._turned += int((self._path / "max_energy_range_uj").read_text())
        except (OSError, ValueError):
            return None
        self._last = now
        return (self._turned + now) / MICROJOULES


class _CoreTime(NamedTuple):
    """Seconds of a core since boot."""

    total_s: float
    idle_s: float  # including waits for disks


def _core_times() -> list[_CoreTime]:
    """Return the times of each online core."""
    if not has_proc():
        import psutil

        return [_CoreTime(sum(row), row.idle) for row in psutil.cpu_times(percpu=True)]
    with open("/proc/stat") as file:
        lines = [line.split() for line in file if line.startswith("cpu") and line[3].isdecimal()]
    # user, nice, system, idle, iowait, irq, softirq, steal; the guest time that follows is included in user time
    rows = [[int(ticks) / _TICKS_PER_S for ticks in line[1:9]] for line in lines]
    return [_CoreTime(sum(row), row[_IDLE] + row[_IOWAIT]) for row in rows]


class Memory(NamedTuple):
    """Bytes of this machine's memory."""

    total: int
    available: int


def memory_bytes() -> Memory:
    """Return the size of this machine's memory, and how much of it is available to new programs."""
    if not has_proc():
        import psutil

        found = psutil.virtual_memory()
        return Memory(found.total, found.available)
    with open("/proc/meminfo") as file:
        sizes = {row[0]: int(row[1]) * 1024 for row in (line.split() for line in file) if row[-1] == "kB"}
    return Memory(sizes["MemTotal:"], sizes["MemAvailable:"])


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
