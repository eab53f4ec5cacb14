"""Troubles outside the server: resource limits, full disks, signals, killed processes."""

import asyncio
import os
import resource
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.torture.log import Log
from tests.torture.server import FaultServer

KIB, MIB = 1024, 1024 * 1024


@dataclass(frozen=True, slots=True)
class Trouble:
    """An event that happens after a number of requests or seconds, whichever comes first."""

    name: str
    requests: int = 0
    seconds: float = 0.0
    signals: tuple[int, ...] = ()  # in this order, some milliseconds apart
    to_group: bool = False
    to_workers: bool = False
    limits: Mapping[int, int] = field(default_factory=dict)  # by resource
    memory_bytes: int = 0  # allowed beyond the memory at the start; 0 means unlimited
    stdout: str = ""  # destination of the report, if not a regular file
    disk_bytes: int = 0  # size of the output folder; 0 means unlimited
    refuses_s: float = 0.0  # seconds without a listener

    @property
    def kills_worker(self) -> bool:
        return self.to_workers and signal.SIGKILL in self.signals

    @property
    def kills_command(self) -> bool:
        return not self.to_workers and signal.SIGKILL in self.signals

    @property
    def is_interrupting(self) -> bool:
        """Whether the user ends the run."""
        return not self.to_workers and bool({signal.SIGINT, signal.SIGTERM} & set(self.signals))

    @property
    def is_shortage(self) -> bool:
        """Whether the run may lack resources, and then says so."""
        return bool(self.limits or self.memory_bytes or self.disk_bytes or self.stdout)


def draw_trouble(random: Random) -> Trouble:
    """Draw any trouble at any moment."""
    requests = random.choice((0, 1, 5, 20, 60))
    seconds = random.choice((0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5))
    if requests and random.random() < 0.7:
        seconds = 3.0
    kind = random.choices(_KINDS, _SHARES)[0]
    if kind == "signal":
        number = random.choice((signal.SIGINT, signal.SIGTERM))
        signals = (number,) * random.choice((1, 1, 1, 2))
        return Trouble(
            f"{number.name} x{len(signals)}", requests, seconds, signals, to_group=random.random() < 0.5
        )
    if kind == "kill worker":
        return Trouble("kill a worker", requests, seconds, (signal.SIGKILL,), to_workers=True)
    if kind == "stop worker":
        stopped = (signal.SIGSTOP, signal.SIGCONT)
        return Trouble("stop a worker for a while", requests, seconds, stopped, to_workers=True)
    if kind == "stop command":
        return Trouble("stop the command for a while", requests, seconds, (signal.SIGSTOP, signal.SIGCONT))
    if kind == "kill command":
        return Trouble("kill the command", requests, seconds, (signal.SIGKILL,))
    if kind == "files":
        return Trouble("few files", limits={resource.RLIMIT_NOFILE: random.randint(6, 40)})
    if kind == "memory":
        return Trouble("little memory", memory_bytes=random.randint(8, 120) * MIB)
    if kind == "file size":
        return Trouble(
            "small files", limits={resource.RLIMIT_FSIZE: random.choice((0, 1, 20, 400, 5000)) * KIB}
        )
    if kind == "disk":
        return Trouble("full disk", disk_bytes=random.choice((4, 8, 16, 64)) * KIB)
    if kind == "stdout":
        return Trouble("full stdout", stdout="/dev/full")
    return Trouble("nobody listens", requests, seconds, refuses_s=random.choice((0.05, 0.2)))


_KINDS = (
    "signal", "kill worker", "stop worker", "stop command", "kill command", "files", "memory", "file size", "disk",
    "stdout", "refuse",
)  # fmt: skip
_SHARES = (30, 10, 5, 5, 8, 10, 8, 6, 8, 4, 6)


async def happen(trouble: Trouble, group: int, log: Log, server: FaultServer) -> None:
    """Wait for the moment, then apply the trouble to the processes of this group."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + trouble.seconds
    while loop.time() < deadline and not (trouble.requests and len(log.seen) >= trouble.requests):
        await asyncio.sleep(0.002)
    if trouble.refuses_s:
        server.refuse()
        await asyncio.sleep(trouble.refuses_s)
        await server.listen_again()
    for number in trouble.signals:
        _send(number, trouble, group)
        if number == signal.SIGSTOP:
            await asyncio.sleep(0.25)
        else:
            await asyncio.sleep(0.003)


def _send(number: int, trouble: Trouble, group: int) -> None:
    with suppress(ProcessLookupError):
        if trouble.to_workers:
            for pid in workers(group):
                os.kill(pid, number)
                if number == signal.SIGKILL:
                    return
        elif trouble.to_group:
            os.killpg(group, number)
        else:
            os.kill(group, number)


def workers(group: int) -> list[int]:
    """Processes of a group except for its leader."""
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdecimal() or int(entry.name) == group:
            continue
        with suppress(OSError, IndexError):
            fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
            if int(fields[2]) == group and fields[0] != "Z":
                found.append(int(entry.name))
    return sorted(found)


def limit_memory(pid: int, more_bytes: int) -> None:
    """Limit the memory of a process to its current size plus this."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
    size = pages * resource.getpagesize() + more_bytes
    with suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_AS, (size, size))
