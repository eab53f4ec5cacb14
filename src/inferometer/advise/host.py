"""How busy the server's machine is while a level is measured; all of it only when the server runs here."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferometer.advise.observation import HostUse
from inferometer.base.clock import Clock
from inferometer.base.units import NS_PER_S
from inferometer.observe.host_load import HostMeter, HostSample
from inferometer.profile.level import Watcher
from inferometer.server.ports import listens_on

if TYPE_CHECKING:
    from inferometer.measure.measurement import Level, WindowFigures

_SERVER = "triton"
_STUB = "python_backend_stub"
_SHORTEST_S = 0.05


class ServerProcess:
    """The server and its children: core seconds they have used, and of those the ones that run a single model."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def read(self) -> tuple[float, dict[str, float]]:
        import psutil

        total_s, models = 0.0, dict[str, float]()
        try:
            server = psutil.Process(self._pid)
            family = [server, *server.children(recursive=True)]
        except psutil.Error:
            return 0.0, {}
        for process in family:
            try:
                times = process.cpu_times()
                words = process.cmdline()
            except psutil.Error:  # it ended meanwhile
                continue
            used_s = times.user + times.system
            total_s += used_s
            name = _maybe_model(words)
            if name is not None:
                models[name] = models.get(name, 0.0) + used_s
        return total_s, models


def _maybe_model(words: list[str]) -> str | None:
    """Python models run in a process each: `stub .../NAME/VERSION/model.py ...`."""
    if not words or _STUB not in words[0]:
        return None
    path = next((Path(word) for word in words[1:] if word.endswith(".py")), None)
    return path.parts[-3] if path is not None and len(path.parts) >= 3 else None


def find_server(port: int) -> ServerProcess | None:
    """The server that listens on a port of this machine, if it can be seen."""
    import psutil

    for process in psutil.process_iter(["name"]):
        if _SERVER not in (process.info["name"] or ""):
            continue
        try:
            if listens_on(process.pid, (port,)):
                return ServerProcess(process.pid)
        except OSError:  # somebody else's, or it has just ended
            continue
    return None


class HostWatch:
    """Passes on what a watcher is told, and notes how busy the machine was in each level."""

    def __init__(self, inner: Watcher, *, cores: int, server: ServerProcess | None, clock: Clock) -> None:
        self._inner = inner
        self._cores = cores
        self._server = server
        self._clock = clock
        self._meter = HostMeter()
        self._gpu: list[float] = []
        self._before: tuple[int, HostSample, tuple[float, dict[str, float]]] | None = None
        self.last: HostUse | None = None
        self.is_interrupted = inner.is_interrupted

    def level_started(self, mode: str, value: float) -> None:
        self._inner.level_started(mode, value)
        self._gpu = []
        self._before = self._look()

    def window_finished(self, number: int, window: "WindowFigures") -> None:
        self._inner.window_finished(number, window)
        self._note_gpus(self._meter.read())

    def level_finished(self, level: "Level") -> None:
        if self._before is not None:
            self.last = self._use(self._before, self._look())
        self._inner.level_finished(level)

    def _look(self) -> tuple[int, HostSample, tuple[float, dict[str, float]]]:
        used: tuple[float, dict[str, float]] = (0.0, {}) if self._server is None else self._server.read()
        return self._clock(), self._meter.read(), used

    def _note_gpus(self, sample: HostSample) -> None:
        self._gpu += [gpu.utilization for gpu in sample.gpus.values() if gpu.utilization is not None]

    def _use(self, before: Any, after: Any) -> HostUse | None:
        elapsed_s = (after[0] - before[0]) / NS_PER_S
        total_s = after[1].total_s - before[1].total_s
        if elapsed_s < _SHORTEST_S or total_s <= 0:
            return None
        busy = self._cores * max(0.0, after[1].busy_s - before[1].busy_s) / total_s
        server = models = None
        if self._server is not None:
            server = max(0.0, after[2][0] - before[2][0]) / elapsed_s
            models = {
                name: max(0.0, used_s - before[2][1].get(name, 0.0)) / elapsed_s
                for name, used_s in after[2][1].items()
            }
        gpu = sum(self._gpu) / len(self._gpu) if self._gpu else None
        return HostUse(self._cores, busy, server, models, gpu)
