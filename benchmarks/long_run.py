"""One level of very many requests: `python -m benchmarks.long_run COUNT [PORT]`.

Without a port the server is simulated; with one, a worker process sends to it. Prints one line of JSON with the total
peak memory of all processes: the kernel's high-water mark of each, which, unlike `ru_maxrss`, does not include the
parent a process was forked from.
"""

import json
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from inferometer.base.units import monotonic_ns
from inferometer.load.plan import Closed
from inferometer.measure.instrument import Instrument, LevelSettings, LoadPoint
from inferometer.measure.level import measure_level
from inferometer.model.spec import ModelSpec
from inferometer.stats.stopping import Stability
from inferometer.stats.watcher import Watcher

CONCURRENCY = 8
_SERVICE_NS = 100_000


@dataclass(frozen=True, slots=True)
class LongRunReport:
    """Figures of the level, and its cost."""

    requests: int
    peak_mib: float
    rate: float  # requests per second of real time


def long_run(count: int, port: int | None) -> LongRunReport:
    level_settings = LevelSettings(
        model=ModelSpec(name="fake", version="", inputs=(), outputs=()),
        batch=1,
        percentile=None,
        rule=Stability(percentage=10, max_trials=1, latency_limit_ms=0, is_lenient=False),
        window_count=count,
        is_whole=True,
    )
    began = time.monotonic()
    with ExitStack() as stack:
        instrument = _simulated() if port is None else _real(port, stack)
        level = measure_level(
            instrument, level_settings, LoadPoint("concurrency", CONCURRENCY, Closed(CONCURRENCY, count))
        )
        peak = _peak_mib()
    found = 0 if level.measurement is None else level.measurement.request_count
    return LongRunReport(found, peak, found / (time.monotonic() - began))


def _simulated() -> Instrument:
    from tests.support.clock import FakeClock
    from tests.support.simulation import FakeServer, Reply, SimulatedLoad

    clock = FakeClock()
    # Latencies with many different values, like real ones.
    server = FakeServer(lambda number, _: Reply(_SERVICE_NS + number * 7919 % 50_021))
    return Instrument(SimulatedLoad(server, clock), clock, lambda: None, Watcher())


def _real(port: int, stack: ExitStack) -> Instrument:
    from benchmarks.drive import get_traffic
    from inferometer.load.workers import Workers

    workers = stack.enter_context(Workers(get_traffic(port), count=1))
    return Instrument(workers, monotonic_ns, lambda: None, Watcher())


def _peak_mib() -> float:
    me = psutil.Process()
    return sum(_high_water_kib(process.pid) for process in (me, *me.children(recursive=True))) / 1024


def _high_water_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    return 0


if __name__ == "__main__":
    print(json.dumps(asdict(long_run(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None))))
