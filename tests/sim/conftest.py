"""An instrument on a simulated clock."""

from dataclasses import dataclass, field

import pytest

from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.measure.instrument import Instrument, LevelSettings
from inferometer.model.spec import ModelSpec
from inferometer.stats.stopping import Stability
from inferometer.stats.watcher import Watcher
from tests.support.clock import FakeClock
from tests.support.simulation import FakeServer, Reply, SimulatedLoad

MODEL = ModelSpec("fake", "", (), ())


@dataclass
class Log(Watcher):
    """A watcher that remembers, and interrupts after a number of windows."""

    events: list = field(default_factory=list)
    interrupt_after: int = 10**9

    def level_started(self, mode, value):
        self.events.append(("started", value))

    def window_finished(self, number, window):
        self.events.append(("window", number))

    def level_finished(self, level):
        self.events.append(("finished", level.value))

    def is_interrupted(self):
        return sum(kind == "window" for kind, _ in self.events) >= self.interrupt_after


@dataclass
class Rig:
    clock: FakeClock
    server: FakeServer
    instrument: Instrument
    log: Log


@pytest.fixture
def rig():
    def make(script, *, servers=None, timeout_ns=0, requests=1, interrupt_after=10**9, cancellation=None):
        clock = FakeClock()
        server = FakeServer(script, servers)
        load = SimulatedLoad(
            server, clock, requests=requests, timeout_ns=timeout_ns, cancellation=cancellation
        )
        log = Log(interrupt_after=interrupt_after)
        return Rig(clock, server, Instrument(load, clock, lambda: None, log), log)

    return make


@pytest.fixture
def level_settings():
    def make(*, window_ns=NS_PER_S, percentage=10.0, max_trials=10, limit_ms=0, lenient=False, **more):
        rule = more.pop("rule", Stability(percentage, max_trials, limit_ms, lenient))
        if "window_count" not in more:
            more["window_ns"] = window_ns
        return LevelSettings(
            model=MODEL,
            batch=more.pop("batch", 1),
            percentile=more.pop("percentile", None),
            rule=rule,
            latency_limit_ms=limit_ms,
            **more,
        )

    return make


@pytest.fixture
def constant():
    """Every request takes this long."""

    def make(service_ms):
        return lambda number, sent_ns: Reply(round(service_ms * NS_PER_MS))

    return make
