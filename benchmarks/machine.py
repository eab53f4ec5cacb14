"""The machine and the time of the measurements."""

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import psutil

from benchmarks.bar import BenchError
from benchmarks.parts import PERF_ANALYZER_VERSION, program, version_line

QUIET_CORES = 0.1
_LOOK_S = 0.5


@dataclass(frozen=True, slots=True)
class Machine:
    """Facts about the machine that a reader needs for a comparison."""

    date: str
    cpu: str
    cores: int
    memory_gib: float
    system: str
    others_cores: float  # maximum number of cores used by other processes between the bars
    versions: dict[str, str]

    @property
    def line(self) -> str:
        tools = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return (
            f"{self.date}: {self.cpu}, {self.cores} cores, {self.memory_gib:.0f} GiB, {self.system}, "
            f"{self.others_cores:.1f} cores busy with other work; {tools}"
        )

    @property
    def is_quiet(self) -> bool:
        return self.others_cores < QUIET_CORES


def this_machine(others_cores: Sequence[float]) -> Machine:
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Machine(
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        cpu=_cpu(Path("/proc/cpuinfo").read_text()),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=pages / 2**30,
        system=f"{platform.system()} {platform.release()}",
        others_cores=max(others_cores),
        versions={
            "inferometer": _known(lambda: metadata.version("inferometer")),
            "Python": platform.python_version(),
            "perf_analyzer": PERF_ANALYZER_VERSION,
            "tritonserver of nvidia-pytriton": _known(lambda: metadata.version("nvidia-pytriton")),
            "wrk": _known(lambda: version_line([program("wrk", "wrk"), "-v"]).split()[1]),
            "nginx": _known(lambda: version_line([program("nginx", "nginx"), "-v"]).rpartition("/")[2]),
        },
    )


def busy_cores() -> float:
    """Number of cores that are busy now; while no benchmark runs, that is other work."""
    return psutil.cpu_percent(interval=_LOOK_S) / 100 * (os.cpu_count() or 1)


def _cpu(cpuinfo: str) -> str:
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.machine()


def _known(look_up: Callable[[], str]) -> str:
    try:
        return look_up()
    except (BenchError, metadata.PackageNotFoundError, OSError, IndexError):
        return "(missing)"
