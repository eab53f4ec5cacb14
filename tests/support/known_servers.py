"""Servers with known steps on a simulated clock, measured by the real code, to judge a twin by.

They are independent of the product's simulation: each step serves requests in order of arrival with a fixed number of
instances, and the path of a request is known when it is sent.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heapreplace

from inferometer.base.units import NS_PER_S
from inferometer.load.plan import Closed, Constant, Open, Poisson
from inferometer.measure.instrument import Instrument, LevelSettings, LoadPoint
from inferometer.measure.level import measure_level
from inferometer.model.spec import ModelSpec
from inferometer.observe.statistics import Counters, Snapshot
from inferometer.options.effective import Effective
from inferometer.stats.measurement import Level
from inferometer.stats.result import Result
from inferometer.stats.stopping import Precision
from inferometer.stats.watcher import Watcher
from tests.support.clock import FakeClock
from tests.support.simulation import FakeServer, Reply, SimulatedLoad

Draw = Callable[[random.Random], int]
"""A service time in nanoseconds."""


@dataclass(frozen=True, slots=True)
class KnownStep:
    name: str
    draw: Draw
    instances: int = 1

    def spec(self) -> ModelSpec:
        groups = [{"kind": "KIND_CPU", "count": self.instances}]
        return ModelSpec(self.name, "1", (), (), config={"instance_group": groups})


@dataclass(frozen=True, slots=True)
class KnownServer:
    """A model with consecutive steps."""

    name: str
    steps: tuple[KnownStep, ...]

    def spec(self) -> ModelSpec:
        listed = [{"model_name": step.name} for step in self.steps]
        members = tuple(sorted((step.spec() for step in self.steps), key=lambda row: row.name))
        config = {"ensemble_scheduling": {"step": listed}}
        return ModelSpec(self.name, "1", (), (), is_ensemble=True, composing=members, config=config)

    def measured(self, points: Sequence[LoadPoint], seconds: float, seed: int = 1) -> Result:
        """Measure like `inferometer measure`, each load on a freshly started server."""
        levels = tuple(self._level(point, seconds, seed + number) for number, point in enumerate(points))
        spec = self.spec()
        is_random = any(isinstance(getattr(p.plan, "schedule", None), Poisson) for p in points)
        return Result(
            tool="inferometer test",
            command="measure",
            started_at="2026-11-17T08:00:00+00:00",
            asked={"model": self.name, "data": {"seed": SEED}},
            effective=Effective(distribution="poisson" if is_random else "constant"),
            host={},
            server={"url": "localhost:8000"},
            model={
                "name": self.name,
                "version": "1",
                "is_ensemble": True,
                "config": dict(spec.config),
                "composing": [
                    {
                        "name": row.name,
                        "version": "1",
                        "inputs": (),
                        "outputs": (),
                        "config": dict(row.config),
                    }
                    for row in spec.composing
                ],
            },
            levels=levels,
        )

    def _level(self, point: LoadPoint, seconds: float, seed: int) -> Level:
        clock = FakeClock()
        way = _Way(self.steps, random.Random(seed))
        load = SimulatedLoad(FakeServer(way.reply), clock)
        instrument = Instrument(load, clock, lambda: way.counters(self.name, clock()), Watcher())
        rule = Precision(0.0, round(seconds * NS_PER_S), is_enough=lambda: False)
        settings = LevelSettings(self.spec(), 1, None, rule, window_ns=NS_PER_S)
        return measure_level(instrument, settings, point)


@dataclass(slots=True)
class _Way:
    """The path of each request, and the server's counters of finished requests."""

    steps: tuple[KnownStep, ...]
    source: random.Random
    free_ns: list[list[int]] = field(default_factory=list)
    ended: list[tuple[int, tuple[tuple[int, int], ...]]] = field(
        default_factory=list
    )  # (end, (wait, work) per step)

    def __post_init__(self) -> None:
        self.free_ns = [[0] * step.instances for step in self.steps]

    def reply(self, number: int, sent_ns: int) -> Reply:
        now_ns, spent = sent_ns, []
        for step, free in zip(self.steps, self.free_ns, strict=True):
            begin_ns, work_ns = max(now_ns, free[0]), step.draw(self.source)
            heapreplace(free, begin_ns + work_ns)
            spent.append((begin_ns - now_ns, work_ns))
            now_ns = begin_ns + work_ns
        self.ended.append((now_ns, tuple(spent)))
        return Reply(now_ns - sent_ns)

    def counters(self, name: str, now_ns: int) -> Snapshot:
        over = [row for row in self.ended if row[0] <= now_ns]
        count = len(over)
        total_ns = sum(wait + work for _, spent in over for wait, work in spent)
        found = {(name, "1"): Counters(success_count=count, success_ns=total_ns, queue_count=count)}
        for place, step in enumerate(self.steps):
            wait_ns = sum(spent[place][0] for _, spent in over)
            work_ns = sum(spent[place][1] for _, spent in over)
            found[step.name, "1"] = Counters(
                inference_count=count,
                execution_count=count,
                success_count=count,
                success_ns=wait_ns + work_ns,
                queue_count=count,
                queue_ns=wait_ns,
                compute_input_count=count,
                compute_infer_count=count,
                compute_infer_ns=work_ns,
                compute_output_count=count,
            )
        return found


SEED = 0


def in_flight(number: int) -> LoadPoint:
    return LoadPoint("concurrency", number, Closed(number))


def by_rate(per_s: float, *, is_random: bool = False) -> LoadPoint:
    schedule = Poisson(per_s, SEED) if is_random else Constant(per_s)
    return LoadPoint("request_rate", per_s, Open(schedule), per_s)
