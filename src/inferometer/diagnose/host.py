"""How busy the server's machine is while a level is measured; all of it only when the server runs here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from inferometer.base.units import NS_PER_S, monotonic_ns
from inferometer.observe.host import HostMeter, HostSample
from inferometer.server.ports import listens_on
from inferometer.stats.watcher import Watcher

if TYPE_CHECKING:
    from inferometer.stats.measurement import Level, WindowFigures

_SERVER = "triton"
_STUB = "python_backend_stub"
_SHORTEST_S = 0.05


@dataclass(frozen=True, slots=True)
class CoreUse:
    """Cores that something kept busy, and how many more it would have if it had not had to wait for them."""

    cores: float = 0.0
    waiting: float = 0.0

    def __add__(self, other: "CoreUse") -> "CoreUse":
        return CoreUse(self.cores + other.cores, self.waiting + other.waiting)


@dataclass(frozen=True, slots=True)
class HostUse:
    """Cores in use while a level was measured, on the machine the server runs on."""

    cores: int
    busy: float  # all of them together
    server: float | None = None  # by the server and its children, when they could be found
    models: Mapping[str, CoreUse] = field(default_factory=dict)  # by processes that run a single model each
    gpu_share: float | None = None


@dataclass(frozen=True, slots=True)
class Used:
    """What one process has had of the cores so far, how long it waited for them, and the one model it runs, if any."""

    core_s: float = 0.0
    wait_s: float = 0.0
    model: str | None = None


def read_processes(pid: int) -> dict[int, Used]:
    """The server and its children."""
    import psutil

    try:
        server = psutil.Process(pid)
        family = [server, *server.children(recursive=True)]
    except psutil.Error:
        return {}
    used = dict[int, Used]()
    for process in family:
        try:
            times, words = process.cpu_times(), process.cmdline()
        except psutil.Error:  # it ended meanwhile
            continue
        used[process.pid] = Used(times.user + times.system, _waited_s(process.pid), _maybe_model(words))
    return used


def _waited_s(pid: int) -> float:
    """Time its threads were ready and had no core; 0 where the kernel does not tell."""
    total_ns = 0
    for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            total_ns += int(file.read_text().split()[1])
        except (OSError, IndexError, ValueError):
            continue
    return total_ns / NS_PER_S


def _maybe_model(words: list[str]) -> str | None:
    """Python models run in a process each: `stub .../NAME/VERSION/model.py ...`."""
    if not words or _STUB not in words[0]:
        return None
    path = next((Path(word) for word in words[1:] if word.endswith(".py")), None)
    return path.parts[-3] if path is not None and len(path.parts) >= 3 else None


def find_server(port: int) -> int | None:
    """The process of the server that listens on a port of this machine, if it can be seen."""
    import psutil

    for process in psutil.process_iter(["name"]):
        if _SERVER not in (process.info["name"] or ""):
            continue
        try:
            if listens_on(process.pid, (port,)):
                return int(process.pid)
        except OSError:  # somebody else's, or it has just ended
            continue
    return None


@dataclass(frozen=True, slots=True)
class _Look:
    at_ns: int
    host: HostSample
    used: dict[int, Used]


class HostWatch(Watcher):
    """Passes on what a watcher is told, and notes how busy the machine was in each level."""

    def __init__(self, inner: Watcher, *, cores: int, server: int | None) -> None:
        self._inner = inner
        self._cores = cores
        self._server = server  # its process, if it was found
        self._meter = HostMeter()
        self._gpu: list[float] = []
        self._before: _Look | None = None
        self.last: HostUse | None = None

    def level_started(self, mode: str, value: float) -> None:
        self._inner.level_started(mode, value)
        self._gpu = []
        self._before = self._look()

    def window_finished(self, number: int, window: "WindowFigures") -> None:
        self._inner.window_finished(number, window)
        gpus = self._meter.read().gpus.values()
        self._gpu += [gpu.utilization for gpu in gpus if gpu.utilization is not None]

    def level_finished(self, level: "Level") -> None:
        if self._before is not None:
            self.last = self._use(self._before, self._look())
        self._inner.level_finished(level)

    def is_interrupted(self) -> bool:
        return self._inner.is_interrupted()

    def _look(self) -> _Look:
        used = {} if self._server is None else read_processes(self._server)
        return _Look(monotonic_ns(), self._meter.read(), used)

    def _use(self, before: _Look, after: _Look) -> HostUse | None:
        elapsed_s = (after.at_ns - before.at_ns) / NS_PER_S
        total_s = after.host.total_s - before.host.total_s
        if elapsed_s < _SHORTEST_S or total_s <= 0:
            return None
        busy = self._cores * max(0.0, after.host.busy_s - before.host.busy_s) / total_s
        gpu = sum(self._gpu) / len(self._gpu) if self._gpu else None
        if self._server is None:
            return HostUse(self._cores, busy, gpu_share=gpu)
        server = 0.0
        models = dict[str, CoreUse]()
        for pid, now in after.used.items():  # what ended meanwhile, as after a reload, is left out
            then = before.used.get(pid, Used())
            use = CoreUse((now.core_s - then.core_s) / elapsed_s, (now.wait_s - then.wait_s) / elapsed_s)
            server += use.cores
            if now.model is not None:
                models[now.model] = models.get(now.model, CoreUse()) + use
        return HostUse(self._cores, busy, server, models, gpu)
