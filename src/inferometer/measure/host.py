"""This machine during a level: its load, the processes that cause it, and the state of a local server."""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from inferometer.base.notes import Note, Remark
from inferometer.base.processes import Process, command_line, family, maybe_process
from inferometer.base.system import usable_cores
from inferometer.base.units import NS_PER_S, Clock, monotonic_ns, rough, share
from inferometer.observe.host import Gpu, HostMeter, HostSample, busiest, has_gpu_driver
from inferometer.server.ports import listeners
from inferometer.stats.doubts import client_limit
from inferometer.stats.energy import PoweredDevice, PowerReading
from inferometer.stats.machine_figures import CoreUse, GpuFigures, HostUse
from inferometer.stats.measurement import Measurement
from inferometer.stats.merge import gpu_figures

_STUB = "python_backend_stub"
_SHORTEST_S = 0.05  # kernel counters advance in steps of 10 ms
LOOK_S = 0.5
MUCH = 0.2  # share of a level's time in which other programs crowd the machine
WHOLE = 0.99  # share above which the remark says the whole level
WAITING = 0.1  # cores that this tool needed and did not get


class Used(NamedTuple):
    """CPU use of a process so far: core time, time spent waiting for a core, and the one model it runs, if any."""

    core_s: float = 0.0
    wait_s: float = 0.0
    model: str | None = None
    runs: int = 0  # times a thread was scheduled


class ProcessTable:
    """Reads the CPU use of processes."""

    def family(self, pids: Iterable[int]) -> frozenset[int]:
        """Return these processes and all their descendants."""
        return family(pids)

    def allowed(self, pids: Iterable[int]) -> frozenset[int]:
        """Return the numbers of the cores that these processes may run on."""
        found = frozenset[int]()
        for pid in pids:
            with contextlib.suppress(OSError):
                found |= usable_cores(pid)
        return found

    def used(self, pids: Iterable[int]) -> dict[int, Used]:
        """Return the use of each process that is still running."""
        found = dict[int, Used]()
        for pid, row in self.cores(pids).items():
            wait_s, runs = _scheduled(pid)
            found[pid] = Used(row.core_s, wait_s, maybe_stub(command_line(pid)), runs)
        return found

    def cores(self, pids: Iterable[int]) -> dict[int, Used]:
        """Return core times only: a server has hundreds of threads, and waits take one file per thread."""
        processes = filter(None, map(maybe_process, pids))
        return {process.pid: Used(process.core_s) for process in processes}


def _scheduled(pid: int) -> tuple[float, int]:
    """Return how long the threads of a process waited for a core, and how often they were scheduled; zeros if
    unknown."""
    total_ns = runs = 0
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with (
                contextlib.suppress(OSError, IndexError, ValueError),
                open(f"/proc/{pid}/task/{thread}/schedstat", "rb") as file,
            ):
                _, waited_ns, times = map(int, file.read().split())
                total_ns, runs = total_ns + waited_ns, runs + times
    return total_ns / NS_PER_S, runs


def maybe_stub(words: list[str]) -> str | None:
    """Return the model of a process from its command line: Python models run in `stub .../NAME/VERSION/model.py
    ...`."""
    if not words or _STUB not in words[0]:
        return None
    path = next((Path(word) for word in words[1:] if word.endswith(".py")), None)
    return path.parts[-3] if path is not None and len(path.parts) >= 3 else None


# --- a server on this machine


class LocalServer:
    """Processes that listen on these ports of this machine, and the log file they write."""

    def __init__(self, *ports: int) -> None:
        self._ports = ports
        self._processes: tuple[Process, ...] = ()
        self._log: Path | None = None

    def find(self) -> None:
        """Search all processes, which is slow if there are many."""
        pids = dict.fromkeys(pid for port in self._ports for pid in listeners(port))
        self._processes = tuple(filter(None, map(maybe_process, pids)))
        self._log = next(filter(None, (_maybe_log(process.pid) for process in self._processes)), None)

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(process.pid for process in self._processes)

    def ended(self) -> str:
        """Describe how the server ended, with its last log line; empty while it runs, or if it was never found."""
        if not self._processes or any(process.is_running for process in self._processes):
            return ""
        from inferometer.server.guarded import last_line

        pid = self._processes[0].pid
        words = f"the server's process {pid} {_maybe_ending(pid) or 'has ended'}"
        line = "" if self._log is None else last_line(self._log)
        return f"{words}; its last line: {line}" if line else words


def _maybe_ending(pid: int) -> str | None:
    """Describe how a child process ended, without reaping it. None for other processes, or once it was reaped."""
    if not hasattr(os, "waitid"):
        return None
    try:
        found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    if found is None:
        return None
    from inferometer.server.guarded import ending

    return ending(found.si_status if found.si_code == os.CLD_EXITED else -found.si_status)


def _maybe_log(pid: int) -> Path | None:
    """Return the log file of a process, if it exists here under the same name."""
    for number in (2, 1):
        opened = Path(f"/proc/{pid}/fd/{number}")
        with contextlib.suppress(OSError):
            path = opened.readlink()
            if path.is_file() and path.samefile(opened):
                return path
    return None


# --- load of the machine


class _Look(NamedTuple):
    at_ns: int
    host: HostSample
    used: dict[int, Used]

    def busy(self, before: "_Look", cores: int) -> float:
        """Return the cores in use since the previous reading; 0 if no time has passed by the kernel's clock."""
        total_s = self.host.total_s - before.host.total_s
        return cores * max(0.0, self.host.busy_s - before.host.busy_s) / total_s if total_s > 0 else 0.0

    def use(self, before: "_Look", pids: Iterable[int]) -> CoreUse:
        """Return the use by these processes since then, without those that ended meanwhile, as after a reload."""
        elapsed_s = (self.at_ns - before.at_ns) / NS_PER_S
        total = CoreUse()
        for pid in pids:
            now = self.used.get(pid)
            if now is not None:
                then = before.used.get(pid, Used())
                total += CoreUse(
                    (now.core_s - then.core_s) / elapsed_s,
                    (now.wait_s - then.wait_s) / elapsed_s,
                    (now.runs - then.runs) / elapsed_s,
                )
        return total


class HostWatch:
    """Records the load of this machine during each level, separating the server and this tool from other programs."""

    def __init__(
        self,
        server: LocalServer | None,
        workers: Callable[[], tuple[int, ...]],
        *,
        cores: int | None = None,
        meter: HostMeter | None = None,
        table: ProcessTable | None = None,
        clock: Clock = monotonic_ns,
    ) -> None:
        """Without a server, it runs on another machine. This tool is this process and the workers, not all its
        children."""
        self._allowed = usable_cores()
        self._server = server
        self._workers = workers
        self._cores = len(self._allowed) if cores is None else cores
        self._watched = self._allowed
        self._server_cores: int | None = None
        self._meter = HostMeter(self._allowed) if meter is None else meter
        self._table = ProcessTable() if table is None else table
        self._clock = clock
        self._gpus: list[Mapping[str, Gpu]] = []
        self._power = _PowerLog()
        self._ours = self._senders = self._theirs = frozenset[int]()
        self._first: _Look | None = None
        self._last: _Look | None = None
        self._crowded_s = self._crowded_core_s = 0.0

    def begin(self) -> None:
        """Begin a level."""
        if self._server is not None and (self._server.ended() or not self._server.pids):
            self._server.find()
        self._crowded_s, self._crowded_core_s = 0.0, 0.0
        self._find_families()
        self._find_cores()
        self._power.begin()
        self._first = self._last = self._look(
            waits=has_gpu_driver()
        )  # their idle power is read before the load
        self._gpus = []  # their utilisation covers the time before

    def look(self) -> None:
        """Read the use of the processes if at least half a second has passed since the last reading."""
        if self._last is not None and self._clock() - self._last.at_ns >= LOOK_S * NS_PER_S:
            self._take(self._look(self._table.cores))

    @property
    def gpu_share(self) -> float | None:
        """Utilisation of the busiest GPU at the last reading of this level."""
        return busiest(self._gpus[-1]) if self._gpus else None

    def end(self) -> HostUse | None:
        """End the level. Return None if it was too short to observe."""
        first, self._first = self._first, None
        if first is None or self._clock() - first.at_ns < _SHORTEST_S * NS_PER_S:
            return None
        self._find_families()  # models may have been loaded since the start
        last = self._look(waits=True)
        self._take(last)
        models = dict[str, CoreUse]()
        for pid in self._theirs:
            if (row := last.used.get(pid)) is not None and row.model is not None:
                models[row.model] = models.get(row.model, CoreUse()) + last.use(first, (pid,))
        gpus = tuple(self._with_users(gpu, last) for gpu in gpu_figures(self._gpus))
        return HostUse(
            cores=self._cores,
            busy=last.busy(first, self._cores),
            server=self._used_by_server(first, last),
            models=models,
            gpu_share=max((gpu.utilization for gpu in gpus if gpu.utilization is not None), default=None),
            ours=last.use(first, self._ours),
            is_local=self._server is not None,
            seconds=(last.at_ns - first.at_ns) / NS_PER_S,
            crowded_s=self._crowded_s,
            crowded_cores=self._crowded_core_s / self._crowded_s if self._crowded_s else 0.0,
            gpus=gpus,
            server_cores=self._server_cores,
            server_waiting=last.use(first, self._theirs).waiting,
            workers=last.use(first, self._senders) if self._senders else None,
        )

    def _with_users(self, gpu: GpuFigures, last: _Look) -> GpuFigures:
        """Add the other processes that used the GPU, and the server's share of the memory in use. In a container the
        driver may report only unknown processes."""
        gpu = replace(gpu, strangers=self._power.strangers(gpu.uuid, self._theirs))
        held = last.host.gpus.get(gpu.uuid, Gpu()).held_bytes
        ours = [size for pid, size in held.items() if pid in self._theirs]
        return replace(gpu, memory_server_bytes=sum(ours)) if ours else gpu

    @property
    def devices(self) -> tuple[PoweredDevice, ...]:
        """The devices with a power sensor, with their readings since the level began; none for a remote server."""
        return () if self._server is None else self._power.devices(self._theirs)

    def ended(self) -> str:
        """Describe how the server ended; empty while it runs, or if that is unknown."""
        return "" if self._server is None else self._server.ended()

    def _find_families(self) -> None:
        """Assign processes to the server or this tool. A worker that contains the server belongs to the server; this
        tool, if the server started it, does not."""
        servers = () if self._server is None else self._server.pids
        self._theirs = self._table.family(servers)
        if os.getpid() in self._theirs and os.getpid() not in servers:
            self._theirs -= self._table.family((os.getpid(),))
        self._senders = frozenset(self._workers()) - self._theirs
        self._ours = self._senders | (frozenset((os.getpid(),)) - self._theirs)

    def _look(
        self, used: Callable[[Iterable[int]], dict[int, Used]] | None = None, *, waits: bool = False
    ) -> _Look:
        read = self._table.used if used is None else used
        look = _Look(self._clock(), self._meter.read(waits=waits), read((*self._ours, *self._theirs)))
        self._gpus.append(look.host.gpus)
        self._power.add(look.at_ns, look.host)
        return look

    def _find_cores(self) -> None:
        """Watch the server's cores as well if it is restricted to other cores than ours."""
        pids = () if self._server is None else self._server.pids
        theirs = self._table.allowed(pids)
        is_apart = bool(theirs) and theirs != self._allowed
        self._server_cores = len(theirs) if is_apart else None
        if is_apart and self._allowed | theirs != self._watched:
            self._watched = self._allowed | theirs
            self._cores = len(self._watched)
            self._meter.choose(self._watched)

    def _used_by_server(self, before: _Look, after: _Look) -> float | None:
        """Return the server's cores; None once it has ended, since its use until then is unknown."""
        pids = () if self._server is None else self._server.pids
        is_there = self._theirs and all(pid in after.used for pid in pids)
        return after.use(before, self._theirs).cores if is_there else None

    def _take(self, look: _Look) -> None:
        """Add the time since the previous reading if other programs kept the machine busy."""
        before, self._last = self._last, look
        if before is None or look.at_ns <= before.at_ns:
            return
        seconds = (look.at_ns - before.at_ns) / NS_PER_S
        part = HostUse(
            self._cores,
            look.busy(before, self._cores),
            self._used_by_server(before, look),
            ours=look.use(before, self._ours),
            is_local=self._server is not None,
        )
        if part.is_crowded:
            self._crowded_s += seconds
            self._crowded_core_s += (part.others or 0.0) * seconds


class _PowerLog:
    """Readings of the power and energy of GPUs and processors during a level."""

    def __init__(self) -> None:
        self._idle_w: dict[str, float] | None = None  # by GPU, at the first reading of the run
        self.begin()

    def begin(self) -> None:
        self._readings: dict[str, list[PowerReading]] = {}
        self._packages: dict[str, list[PowerReading]] = {}
        self._users: dict[str, set[int]] = {}  # processes that hold memory or were active, by GPU
        self._active: dict[str, set[int]] = {}
        self._busy: set[str] = set()

    def add(self, at_ns: int, host: HostSample) -> None:
        for uuid, gpu in host.gpus.items():
            if gpu.power_w is not None or gpu.energy_j is not None:
                self._readings.setdefault(uuid, []).append(PowerReading(at_ns, gpu.power_w, gpu.energy_j))
            self._users.setdefault(uuid, set()).update(gpu.held_bytes)
            self._active.setdefault(uuid, set()).update(gpu.held_bytes if gpu.active is None else gpu.active)
            if gpu.utilization:
                self._busy.add(uuid)
        for name, joules in host.packages_j.items():
            self._packages.setdefault(name, []).append(PowerReading(at_ns, energy_j=joules))
        if self._idle_w is None and host.gpus:
            self._idle_w = {uuid: gpu.power_w for uuid, gpu in host.gpus.items() if gpu.power_w is not None}

    def strangers(self, uuid: str, servers: frozenset[int]) -> tuple[int, ...]:
        """Return the other processes that used a GPU; none if the driver does not report those of the server."""
        is_known = any(users & servers for users in self._users.values())
        return tuple(sorted(self._active.get(uuid, set()) - servers)) if is_known else ()

    def devices(self, servers: frozenset[int]) -> tuple[PoweredDevice, ...]:
        """Return the GPUs that the server uses, and all other GPUs; without a GPU, the processors."""
        theirs = {uuid for uuid in self._readings if self._users[uuid] & servers}
        # In a container the driver may report only unknown processes.
        used = theirs or self._busy & self._readings.keys()
        gpus = tuple(
            PoweredDevice(
                uuid,
                tuple(rows),
                is_used=uuid in used,
                idle_w=(self._idle_w or {}).get(uuid),
                strangers=self.strangers(uuid, servers),
            )
            for uuid, rows in self._readings.items()
        )
        packages = (
            PoweredDevice(name, tuple(rows), is_used=not used) for name, rows in self._packages.items()
        )
        return (*gpus, *packages)


def together(uses: Iterable[HostUse | None]) -> HostUse | None:
    """Combine the figures of several turns that remarks need."""
    known = [use for use in uses if use is not None]
    seconds = sum(use.seconds for use in known)
    if not seconds:
        return None
    crowded_s = sum(use.crowded_s for use in known)
    servers = [use.server * use.seconds for use in known if use.server is not None]

    def mean(rows: Iterable[CoreUse]) -> CoreUse:
        weighted = [(row, use.seconds / seconds) for row, use in zip(rows, known, strict=True)]
        return CoreUse(
            sum(row.cores * part for row, part in weighted),
            sum(row.waiting * part for row, part in weighted),
            sum(row.runs * part for row, part in weighted),
        )

    return HostUse(
        cores=known[0].cores,
        busy=sum(use.busy * use.seconds for use in known) / seconds,
        server=sum(servers) / seconds if servers else None,
        ours=mean(use.ours for use in known),
        workers=mean(use.senders for use in known),
        is_local=known[0].is_local,
        server_cores=known[0].server_cores,
        seconds=seconds,
        crowded_s=crowded_s,
        crowded_cores=sum(use.crowded_cores * use.crowded_s for use in known) / crowded_s
        if crowded_s
        else 0.0,
    )


def host_remarks(use: HostUse | None, found: Measurement) -> Iterator[Remark]:
    """Remark if other programs kept the server's machine busy, or left this tool too little CPU time."""
    if use is None or use.crowded_s < MUCH * use.seconds:
        return
    is_short = use.ours.waiting > WAITING or client_limit(found) is not None
    if use.is_local or is_short:
        part = use.crowded_s / use.seconds
        text = f"other programs used {rough(use.crowded_cores)} of this machine's {use.cores} cores"
        time = "the whole level" if part > WHOLE else f"{share(part)} of the level"
        yield Remark(Note.HOST_BUSY, f"{text} for {time}")
