"""A simulated machine with a run queue per core, running models that sleep or keep a core busy, to judge a twin by.

It is independent of the product's simulation, in which runnable steps share all cores evenly. Here a step runs on one
core for a time slice, then the next one in its queue runs; an idle core takes work from the fullest queue. An instance
stays on its core unless another has less to do, as on Linux. Time is in seconds, and nothing sleeps.
"""

import itertools
import math
import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from inferometer.base.units import NS_PER_S
from inferometer.observe.statistics import Counters, ModelStatistics
from inferometer.options.effective import Effective
from inferometer.stats.estimate import Distribution, Estimate
from inferometer.stats.machine_figures import CoreUse, HostUse
from inferometer.stats.measurement import ClientCost, Level, Measurement
from inferometer.stats.result import Result

SLICE_S = 0.003
LATE_S = 0.0001  # mean delay of a wake-up
WAY_S = 0.0006  # round trip to the client
OWN_S = 0.0004  # CPU time of the server per request
Then = Callable[[], None]


@dataclass(frozen=True, slots=True)
class MachineStep:
    name: str
    sleep_s: float = 0.0
    core_s: float = 0.0  # per thread
    instances: int = 1
    threads: int = 1


@dataclass(frozen=True, slots=True)
class MachineModel:
    name: str
    steps: tuple[MachineStep, ...]


@dataclass(slots=True)
class _Job:
    left_s: float
    then: Then
    place: "_Place | None"
    since_s: float


class _Cores:
    """The cores, with a run queue each."""

    def __init__(self, run: "_Run", count: int) -> None:
        self._run = run
        self._queues = [deque[_Job]() for _ in range(count)]
        self._running: list[_Job | None] = [None] * count
        self.busy_s = 0.0

    def work(self, seconds: float, place: "_Place | None", then: Then) -> None:
        there = [
            len(queue) + (job is not None) for queue, job in zip(self._queues, self._running, strict=True)
        ]
        core = min(range(len(there)), key=lambda number: there[number])
        if place is not None and place.homes:
            home = place.homes.popleft()
            core = home if there[home] <= there[core] else core
        self._queues[core].append(_Job(seconds, then, place, self._run.now_s))
        if self._running[core] is None:
            self._next(core)

    def _next(self, core: int) -> None:
        queue = self._queues[core] or max(self._queues, key=len)
        if not queue:
            self._running[core] = None
            return
        job = self._running[core] = queue.popleft()
        if job.place is not None:
            job.place.waited_s += self._run.now_s - job.since_s
        piece_s = min(job.left_s, SLICE_S)
        self._run.after(piece_s, lambda: self._ran(core, job, piece_s))

    def _ran(self, core: int, job: _Job, piece_s: float) -> None:
        self.busy_s += piece_s
        job.left_s -= piece_s
        if job.place is not None:
            job.place.core_s += piece_s
        self._running[core] = None
        if job.left_s > 1e-9:
            job.since_s = self._run.now_s
            self._queues[core].append(job)
        else:
            if job.place is not None:
                job.place.homes.append(core)
            job.then()
        if self._running[core] is None:
            self._next(core)


@dataclass(slots=True)
class _Place:
    step: MachineStep
    free: int
    queue: deque[tuple[float, Then]] = field(default_factory=deque)
    count: int = 0
    queue_s: float = 0.0
    work_s: float = 0.0
    core_s: float = 0.0
    waited_s: float = 0.0  # time spent waiting for a core
    homes: deque[int] = field(default_factory=deque)  # last cores of the free instances


class _Run:
    def __init__(self, cores: int, seed: int) -> None:
        self.random = random.Random(seed)
        self.now_s = 0.0
        self.cores = _Cores(self, cores)
        self._events: list[tuple[float, int, Then]] = []
        self._order = itertools.count()

    def after(self, seconds: float, then: Then) -> None:
        heappush(self._events, (self.now_s + seconds, next(self._order), then))

    def until(self, end_s: float) -> None:
        while self._events and self._events[0][0] <= end_s:
            self.now_s, _, then = heappop(self._events)
            then()


class _Traffic:
    """A fixed number of requests in flight to one model."""

    def __init__(self, run: _Run, model: MachineModel, concurrency: int) -> None:
        self._run = run
        self.places = [_Place(step, step.instances) for step in model.steps]
        self.latencies_s: list[float] = []
        for _ in range(concurrency):
            self._begin()

    def _begin(self) -> None:
        began_s = self._run.now_s
        enter = lambda: self._run.cores.work(OWN_S, None, lambda: self._enter(0, began_s))  # noqa: E731
        self._run.after(WAY_S / 2, enter)

    def _enter(self, number: int, began_s: float) -> None:
        if number == len(self.places):
            self._run.after(WAY_S / 2, lambda: self._end(began_s))
            return
        place = self.places[number]
        place.queue.append((self._run.now_s, lambda: self._enter(number + 1, began_s)))
        self._dispatch(place)

    def _end(self, began_s: float) -> None:
        self.latencies_s.append(self._run.now_s - began_s)
        self._begin()

    def _dispatch(self, place: _Place) -> None:
        while place.free and place.queue:
            place.free -= 1
            came_s, then = place.queue.popleft()
            self._execute(place, came_s, then)

    def _execute(self, place: _Place, came_s: float, then: Then) -> None:
        run, step, began_s = self._run, place.step, self._run.now_s

        left = step.threads if step.core_s else 1

        def end() -> None:
            nonlocal left
            left -= 1
            if left:
                return
            place.free += 1
            place.count += 1
            place.queue_s += began_s - came_s
            place.work_s += run.now_s - began_s
            self._dispatch(place)
            then()

        def work() -> None:
            for _ in range(step.threads):
                run.cores.work(step.core_s, place, end)

        if not step.sleep_s:  # an instance with another request waiting stays on its core
            work()
            return
        sleep_s = step.sleep_s + run.random.expovariate(1 / LATE_S)
        run.after(sleep_s, work if step.core_s else end)


@dataclass(frozen=True, slots=True)
class KnownMachine:
    """A machine whose cores are used only by the server."""

    cores: int

    def measured(self, model: MachineModel, levels: Sequence[int], seconds: float, seed: int = 1) -> Result:
        """Measure each load on a freshly started server."""
        found = [
            self._level({model: concurrency}, seconds, seed + number)[0]
            for number, concurrency in enumerate(levels)
        ]
        return _result(model, found)

    def together(self, loads: Mapping[MachineModel, int], seconds: float, seed: int = 1) -> list[Result]:
        levels = self._level(loads, seconds, seed)
        return [_result(model, [level]) for model, level in zip(loads, levels, strict=True)]

    def _level(self, loads: Mapping[MachineModel, int], seconds: float, seed: int) -> list[Level]:
        run = _Run(self.cores, seed)
        traffic = {model: _Traffic(run, model, concurrency) for model, concurrency in loads.items()}
        run.until(seconds)
        places = [place for row in traffic.values() for place in row.places]
        host = HostUse(
            cores=self.cores + 2,
            busy=run.cores.busy_s / seconds,
            server=run.cores.busy_s / seconds,
            models={row.step.name: CoreUse(row.core_s / seconds, row.waited_s / seconds) for row in places},
            seconds=seconds,
            server_cores=self.cores,
        )
        return [
            Level(
                "concurrency",
                float(loads[model]),
                _measurement(model, row, seconds),
                (),
                True,
                False,
                host=host,
            )
            for model, row in traffic.items()
        ]


def _measurement(model: MachineModel, traffic: _Traffic, seconds: float) -> Measurement:
    count = len(traffic.latencies_s)
    latency = _distribution(traffic.latencies_s)
    members = tuple(
        ModelStatistics(
            row.step.name,
            "1",
            Counters(
                inference_count=row.count,
                execution_count=row.count,
                success_count=row.count,
                success_ns=round((row.queue_s + row.work_s) * NS_PER_S),
                queue_count=row.count,
                queue_ns=round(row.queue_s * NS_PER_S),
                compute_input_count=row.count,
                compute_infer_count=row.count,
                compute_infer_ns=round(row.work_s * NS_PER_S),
                compute_output_count=row.count,
            ),
        )
        for row in sorted(traffic.places, key=lambda place: place.step.name)
    )
    total_ns = round(sum(traffic.latencies_s) * NS_PER_S)
    own = Counters(success_count=count, success_ns=total_ns, queue_count=count)
    return Measurement(
        batch=1,
        duration_ns=round(seconds * NS_PER_S),
        request_count=count,
        failed_count=0,
        delayed_count=0,
        infer_per_s=Estimate(count / seconds),
        send_per_s=count / seconds,
        latency=latency,
        latency_intervals=(),
        service=latency,
        send_ns=0,
        receive_ns=0,
        received_bytes=0,
        client=ClientCost(1, 0.05, 200.0, 0, 0),
        server=ModelStatistics(model.name, "1", own, is_ensemble=True, members=members),
        failures=(),
    )


def _distribution(latencies_s: Sequence[float]) -> Distribution:
    ordered = sorted(round(value * NS_PER_S) for value in latencies_s)
    count = len(ordered)
    mean = sum(ordered) / count
    squares = sum((value - mean) ** 2 for value in ordered)
    return Distribution(
        count=count,
        mean_ns=round(mean),
        std_ns=round(math.sqrt(squares / max(1, count - 1))),
        min_ns=ordered[0],
        max_ns=ordered[-1],
        percentiles=tuple((float(p), ordered[math.ceil(p * count / 100) - 1]) for p in (50, 90, 95, 99)),
    )


def _result(model: MachineModel, levels: Sequence[Level]) -> Result:
    composing = [
        {
            "name": step.name,
            "version": "1",
            "inputs": (),
            "outputs": (),
            "config": {"instance_group": [{"kind": "KIND_CPU", "count": step.instances}]},
        }
        for step in sorted(model.steps, key=lambda row: row.name)
    ]
    config = {"ensemble_scheduling": {"step": [{"model_name": step.name} for step in model.steps]}}
    return Result(
        tool="inferometer test",
        command="measure",
        started_at="2026-11-17T08:00:00+00:00",
        asked={"model": model.name},
        effective=Effective(),
        host={},
        server={"url": "localhost:8000"},
        model={
            "name": model.name,
            "version": "1",
            "is_ensemble": True,
            "config": config,
            "composing": composing,
        },
        levels=tuple(levels),
    )
