"""Cost of merging the records of many simulated clients, in simulated time; only the controller's CPU is counted.

Run it alone with `python -m benchmarks.merge 200 5000 20`: clients, requests per second of each, seconds.
"""

import contextlib
import gc
import json
import sys
import time
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import numpy as np

from benchmarks.bar import BenchError, Contest, Sample, Setting
from benchmarks.children import run
from inferometer.base.units import NS_PER_MS, NS_PER_S, NS_PER_US
from inferometer.cluster.blocks import pack
from inferometer.cluster.by_client import ByClient
from inferometer.cluster.clients import Clients
from inferometer.cluster.messages import (
    ApplyPlan,
    AskTime,
    ClientAnswer,
    ClientFinished,
    ClientReport,
    ClientTime,
    Collect,
    LoadStopped,
    PlanAdjusted,
    PlanApplied,
    Question,
    StopLoad,
)
from inferometer.cluster.network import ClientLost, Pending
from inferometer.load.plan import Constant, Open
from inferometer.load.workers import Cost
from inferometer.measure.instrument import Instrument, LevelSettings, LoadPoint
from inferometer.measure.level import measure_level
from inferometer.model.spec import ModelSpec
from inferometer.records.records import COLUMNS, EMPTY, Records, Totals, from_rows
from inferometer.stats.stopping import Precision
from inferometer.stats.watcher import Watcher

CLIENTS = 200
PER_CLIENT = 5_000  # requests per second
SECONDS = 20
BEGIN_NS = 10**15
WAY_NS = 100 * NS_PER_US  # one-way delay of a question or an answer
WINDOW_NS = NS_PER_S
KIB_PER_MIB = 1024


@dataclass(slots=True)
class SimulatedTime:
    """A clock that advances when something sleeps."""

    now_ns: int = BEGIN_NS

    def __call__(self) -> int:
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.now_ns += max(1, round(seconds * NS_PER_S))


@dataclass(slots=True, eq=False)
class SimulatedClient:
    """A client that ends requests at a constant rate with varying latencies; its clock has an offset and drifts."""

    number: int
    time: SimulatedTime
    per_s: int
    answers: "deque[tuple[Pending, ClientAnswer]]"
    offset_ns: int = 0
    drift: float = 0.0
    ended: int = 0
    start_ns: int = 0  # start of the plan, in its own clock
    spent_s: float = 0.0  # time spent on generating requests, which is not the controller's work
    _draw: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self._draw = np.random.default_rng(self.number)

    @property
    def name(self) -> str:
        return f"client {self.number + 1}"

    @property
    def place(self) -> str:
        return f"10.0.{self.number // 250}.{self.number % 250 + 1}"

    def clock(self, our_ns: int) -> int:
        return our_ns + self.offset_ns + round((our_ns - BEGIN_NS) * self.drift)

    def ask(self, message: Question) -> Pending:
        begun = time.process_time()
        pending: Pending = object()
        self.answers.append((pending, self._answer(message)))
        self.spent_s += time.process_time() - begun
        return pending

    def _answer(self, message: Question) -> ClientAnswer:
        match message:
            case AskTime():
                return ClientTime(self.clock(self.time.now_ns + WAY_NS))
            case ApplyPlan(_, timing):
                self.start_ns, self.ended = timing.start_ns, 0
                return PlanApplied()
            case Collect():
                return self._report(self.clock(self.time.now_ns + WAY_NS))
            case StopLoad():
                return LoadStopped(0, Totals(sent=self.ended, good=self.ended))
            case _:
                return ClientFinished() if type(message).__name__ == "FinishClient" else PlanAdjusted()

    def _report(self, seen_ns: int) -> ClientReport:
        last = max(0, (seen_ns - self.start_ns) * self.per_s // NS_PER_S) if self.start_ns else 0
        records = self._records(self.ended, last)
        self.ended = max(last, self.ended)
        return ClientReport(
            block=pack(records),
            rows=len(records),
            seen_ns=seen_ns,
            cost=Cost((seen_ns // 10,), self.ended, 0, 1, 0),
            is_finished=False,
            loop_lag_ns=20_000,
            outstanding=4,
            heard=0,
            resent=0,
            own_cpu_ns=seen_ns // 100,
        )

    def _records(self, first: int, last: int) -> Records:
        rows = last - first
        if rows <= 0:
            return EMPTY
        end = self.start_ns + (np.arange(first, last) + 1) * NS_PER_S // self.per_s
        end -= self._draw.integers(0, NS_PER_S // self.per_s, rows)
        took = self._draw.integers(300_000, 2_000_000, rows)
        table = np.zeros((rows, len(COLUMNS)), dtype=np.int64)
        columns = {
            "end_ns": end,
            "first_ns": end - 20_000,
            "sent_ns": end - took,
            "wrote_ns": end - took + self._draw.integers(8_000, 9_000, rows),
            "due_ns": end - took - self._draw.integers(0, 50_000, rows),
            "step": np.arange(first, last) % 16,
            "received": np.full(rows, 240),
            "responses": np.ones(rows, dtype=np.int64),
        }
        for name, column in columns.items():
            table[:, COLUMNS.index(name)] = column
        return from_rows(table)


@dataclass(slots=True, eq=False)
class SimulatedNetwork:
    """A network on which every answer arrives after one round trip."""

    time: SimulatedTime
    clients: tuple[SimulatedClient, ...]
    answers: "deque[tuple[Pending, ClientAnswer]]"
    pids: tuple[int, ...] = ()

    def wait(
        self, pending: Collection[Pending], timeout_s: float
    ) -> list[tuple[Pending, ClientAnswer | ClientLost]]:
        if not self.answers:
            self.time.sleep(timeout_s)
            return []
        self.time.now_ns += 2 * WAY_NS
        found: list[tuple[Pending, ClientAnswer | ClientLost]] = list(self.answers)
        self.answers.clear()
        return found

    def close(self) -> None:
        """Do nothing: there are no processes to stop."""


def simulated_network(count: int, per_s: int) -> SimulatedNetwork:
    """Build clients whose clocks are off by up to 50 ms and drift by up to 50 ppm."""
    clock, answers = SimulatedTime(), deque[tuple[Pending, ClientAnswer]]()
    draw = np.random.default_rng(count)
    clients = tuple(
        SimulatedClient(
            number,
            clock,
            per_s,
            answers,
            offset_ns=int(draw.integers(-50 * NS_PER_MS, 50 * NS_PER_MS)),
            drift=float(draw.uniform(-50e-6, 50e-6)),
        )
        for number in range(count)
    )
    return SimulatedNetwork(clock, clients, answers)


@dataclass(slots=True)
class _Growth(Watcher):
    """Memory of the process after each window."""

    mib: list[float] = field(default_factory=list)

    def window_finished(self, number: int, window: object) -> None:
        self.mib.append(_resident_mib())


def _resident_mib() -> float:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / KIB_PER_MIB


def merge(count: int, per_s: int, seconds: int) -> dict[str, float]:
    """Measure a level with `count` clients and return its cost."""
    network = simulated_network(count, per_s)
    figures, growth = ByClient(np.full(16, 300, dtype=np.int64)), _Growth()
    load = Clients(network, figures=figures, clock=network.time, sleep=network.time.sleep)
    settings = LevelSettings(
        model=ModelSpec("simulated", "", (), ()),
        batch=1,
        percentile=None,
        rule=Precision(0.0, seconds * NS_PER_S),
        window_ns=WINDOW_NS,
    )
    plan = Open(Constant(count * per_s))
    with load:
        instrument = Instrument(load, network.time, lambda: None, growth, clients=(figures,))
        gc.collect()
        before_s = sum(client.spent_s for client in network.clients)
        begun = time.process_time()
        level = measure_level(instrument, settings, LoadPoint("request_rate", count * per_s, plan))
        spent_s = time.process_time() - begun
        made_s = sum(client.spent_s for client in network.clients) - before_s
    found = level.measurement
    if found is None or sum(client.request_count for client in level.clients) != found.request_count:
        raise SystemExit("the sum of requests by client differs from the total")
    half = growth.mib[len(growth.mib) // 2 :]
    return {
        "core s per million": (spent_s - made_s) / (found.request_count / 1e6),
        "requests": float(found.request_count),
        "seconds": found.duration_ns / NS_PER_S,
        "MiB": growth.mib[-1],
        "MiB growth in the second half": half[-1] - half[0],
        "clock ± us": max(client.clock.uncertainty_ns for client in level.clients) / NS_PER_US,
    }


@contextlib.contextmanager
def merge_bar(setting: Setting) -> Iterator[Contest]:
    """Run the merge in a separate process, so that its memory can be measured."""

    def measure() -> Sample:
        seconds = setting.count(SECONDS, smoke=2)
        words = [str(setting.count(CLIENTS, smoke=4)), str(PER_CLIENT), str(seconds)]
        ended = run([sys.executable, "-m", "benchmarks.merge", *words], timeout_s=300)
        try:
            found: dict[str, float] = json.loads(ended.output.splitlines()[-1])
        except (IndexError, ValueError):
            raise BenchError(f"no figures came back: {ended.output.strip()[-200:]!r}") from None
        return Sample(found.pop("core s per million"), found)

    yield Contest(measure)


if __name__ == "__main__":
    print(json.dumps(merge(*map(int, sys.argv[1:4]))))
