"""The queueing model of a pipeline: stations with instances and batches on shared cores and GPUs, under load.

pipeline, concurrency -> predict -> Prediction

Requests walk through the stations event by event. Why not formulas: service times of models hardly vary, batches form
from whoever waits, a step that calls others holds its instance meanwhile, and all of them slow each other down on the
same cores. Mean-value formulas assume the first away and have no place for the rest. A few hundred simulated requests
settle it in milliseconds.

Time has three clocks. Waiting and work elsewhere (a sleep, the network) run on the real one. Work on the cores runs
on a virtual one that goes slower the more jobs share them, the same for all; so a job on a core ends at a fixed
virtual time, whatever comes and goes until then. Work on the GPUs has another such clock.

Nothing is random to the outside: the same pipeline gives the same figures.
"""

import math
import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from heapq import heappop, heappush
from itertools import count
from typing import Any

REQUESTS = 300  # watched at least; more with many in flight
_ROUNDS = 12  # watched per request in flight
_SETTLING = 4  # rounds before that
_SEED = 20
_SPREAD = 0.8  # of the time outside the stations: up to so much more or less
_LEAST_S = 1e-9  # no request takes no time at all


@dataclass(frozen=True, slots=True)
class Station:
    """One step. An execution of b inferences in r requests takes `fixed_s + b * item_s + (r - 1) * request_s` on an
    otherwise idle machine. Of that it is on a GPU for `gpu_fixed_s + b * gpu_item_s`, and of the rest it wants a core
    for the share `cpu`.

    With `members` the step calls other steps while it holds its instance, as a BLS model does; its own times
    are then what is left without them.
    """

    name: str
    fixed_s: float
    item_s: float = 0.0
    calls: float = 1.0  # per visit of the caller
    instances: int = 1
    cpu: float = 1.0
    max_batch: int = 1  # inferences that one execution can take
    is_batching: bool = False  # the server puts waiting requests together
    preferred: tuple[int, ...] = ()
    delay_s: float = 0.0  # how long the oldest may wait for company
    members: tuple["Station", ...] = ()
    request_s: float = 0.0
    gpu_fixed_s: float = 0.0
    gpu_item_s: float = 0.0

    def service_s(self, batch: float, requests: float = 1) -> float:
        """Of one execution, members not included."""
        return self.fixed_s + batch * self.item_s + (requests - 1) * self.request_s

    def gpu_s(self, batch: float) -> float:
        """Of one execution, the time on a GPU."""
        return self.gpu_fixed_s + batch * self.gpu_item_s


@dataclass(frozen=True, slots=True)
class Cores:
    """The cores all steps share; what other programs hold of them is not in `count`.

    n busy cores do the work of `n ** scaling`: less than n where they share caches, memory, power or hyper-threads.
    """

    count: float = math.inf
    scaling: float = 1.0

    def work(self, jobs: float) -> float:
        """How many cores' worth of work so many jobs get done together."""
        busy = min(jobs, self.count)
        return busy if busy <= 1 else math.pow(busy, self.scaling)

    def speed(self, jobs: float) -> float:
        """Of each of so many jobs; 1 is the speed of one alone on an idle machine."""
        return self.work(max(jobs, 1.0)) / max(jobs, 1.0)


@dataclass(frozen=True, slots=True)
class Devices:
    """The GPUs all steps share.

    Executions on the same one take turns. `turn` is what it costs to go from one of them to another, as a share of the
    work that is done in between: 0 where it costs nothing, -1 where all fit beside each other and none has to wait.
    """

    count: int = 1
    turn: float = 0.0

    def work(self, jobs: float) -> float:
        """How many GPUs' worth of work so many executions get done together."""
        each = max(1.0, jobs / self.count)
        return min(jobs, self.count) / (1 + self.turn * (1 - 1 / each))  # the next is another one, mostly

    def speed(self, jobs: float) -> float:
        """Of each of so many; 1 is the speed of one alone."""
        return self.work(max(jobs, 1.0)) / max(jobs, 1.0)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What one request goes through, step after step."""

    stations: tuple[Station, ...]
    outside_s: float = 0.0  # client, network, the server around its steps: time without a queue
    outside_cpu_s: float = 0.0  # of that, the time on a core of this machine
    cores: Cores = Cores()
    items: int = 1  # inferences in a request
    variation: float = 0.1  # of service times: standard deviation over mean
    devices: Devices = Devices()

    def walk(self) -> Iterator[Station]:
        """Every station, members after their caller."""
        return _walk(self.stations)


def _walk(stations: tuple[Station, ...]) -> Iterator[Station]:
    for station in stations:
        yield station
        yield from _walk(station.members)


def with_station(pipeline: Pipeline, name: str, **changes: Any) -> Pipeline:
    """The pipeline with one station changed, wherever it is."""
    return replace(
        pipeline, stations=tuple(_changed(station, name, changes) for station in pipeline.stations)
    )


def _changed(station: Station, name: str, changes: dict[str, Any]) -> Station:
    members = tuple(_changed(member, name, changes) for member in station.members)
    return replace(station, members=members, **(changes if station.name == name else {}))


# --- what it does under a load


@dataclass(frozen=True, slots=True)
class Prediction:
    """What is expected of a pipeline under one load."""

    throughput: float  # infer/s
    latency_s: float  # mean
    batches: dict[str, float]  # of each station: inferences per execution


def predict(pipeline: Pipeline, concurrency: int, *, is_in_step: bool = True) -> Prediction:
    """With so many requests in flight at any time.

    They begin all at once, as a load does, or one after the other. That makes a difference where a batcher waits for
    less time than an execution takes: requests that came together stay together, but those that once fell apart never
    meet again, as the first of them has waited long enough whenever an instance is free.
    """
    if concurrency < 1:
        raise ValueError(f"concurrency is {concurrency}, and must be 1 or more")
    return _predicted(pipeline, concurrency, is_in_step)


@lru_cache(maxsize=1024)
def _predicted(pipeline: Pipeline, concurrency: int, is_in_step: bool) -> Prediction:
    """A fit and the suggestions after it ask the same again, and again with the next observation."""
    return _Simulation(pipeline).run(concurrency, is_in_step=is_in_step)


class _Place:
    """A station with its queue, and what happened at it while it was watched."""

    def __init__(self, station: Station, items: int) -> None:
        self.station = station
        self.members = tuple(_Place(member, items) for member in station.members)
        self.free = station.instances
        self.queue: deque[tuple[_Token, float]] = deque()
        # Requests in an execution. One that calls others keeps its instance until its own are back.
        forms_batches = station.is_batching and not station.members
        self.most = max(1, station.max_batch // items) if forms_batches else 1
        self.wanted = sorted(
            {max(1, size // items) for size in station.preferred if size // items <= self.most}
        )
        if self.wanted:
            self.most = self.wanted[-1]  # the server sends a preferred batch rather than let it grow past it
        self.timer_s = -1.0
        self.watch()

    def watch(self) -> None:
        """From now on."""
        self.executions = 0
        self.items = 0

    def walk(self) -> Iterator["_Place"]:
        yield self
        for member in self.members:
            yield from member.walk()

    def batch(self) -> float:
        return self.items / self.executions if self.executions else 0.0


@dataclass(frozen=True, slots=True)
class _Visit:
    place: _Place
    is_entering: bool  # else it gives back the instance it held


@dataclass(slots=True)
class _Token:
    """A request on its way."""

    path: tuple[_Visit, ...]
    began_s: float
    position: int = 0


@dataclass(slots=True)
class _Job:
    """Work under way: first elsewhere, then on a core, then on a GPU. `place` is None for what is outside the
    stations."""

    tokens: list[_Token]
    place: _Place | None
    core_s: float
    gpu_s: float


class _Shared:
    """What several jobs work on at once, each the slower the more there are: its clock, and when they end by it."""

    __slots__ = ("_speed_of", "jobs", "now_s", "speed")

    def __init__(self, speed: Callable[[float], float]) -> None:
        self._speed_of = cache(speed)
        self.now_s = 0.0
        self.jobs: list[tuple[float, int, _Job]] = []
        self.speed = speed(0)  # of each now

    def push(self, job: _Job, seconds: float, order: int) -> None:
        heappush(self.jobs, (self.now_s + seconds, order, job))
        self.speed = self._speed_of(len(self.jobs))

    def pop(self) -> _Job:
        self.now_s, _, job = heappop(self.jobs)
        self.speed = self._speed_of(len(self.jobs))
        return job


class _Simulation:
    """A pipeline with requests in it."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._random = random.Random(_SEED)
        self._roots = [_Place(station, pipeline.items) for station in pipeline.stations]
        self._plain = self._whole_path()
        self._now_s = 0.0
        self._order = count()  # of events at the same time
        self._real: list[tuple[float, int, _Job | _Place]] = []
        self._cores = _Shared(pipeline.cores.speed)
        self._gpus = _Shared(pipeline.devices.speed)
        self._ended: list[_Token] = []

    def run(self, concurrency: int, *, is_in_step: bool) -> Prediction:
        """So many requests in flight at any time: whenever one ends the next begins."""
        places = [place for root in self._roots for place in root.walk()]
        round_s = sum(place.station.service_s(self._pipeline.items) for place in places)
        for number in range(concurrency):
            self._begin(late_s=0.0 if is_in_step else round_s * number / concurrency)
        self._advance(max(_SETTLING * concurrency, 20))
        start_s = self._now_s
        for place in places:
            place.watch()
        latencies = self._advance(max(_ROUNDS * concurrency, REQUESTS))
        seconds = self._now_s - start_s
        return Prediction(
            throughput=len(latencies) * self._pipeline.items / seconds,
            latency_s=sum(latencies) / len(latencies),
            # A step may be in several places; the first of them speaks for it.
            batches={place.station.name: place.batch() for place in reversed(places)},
        )

    def _advance(self, requests: int) -> list[float]:
        """The latencies of so many requests, or a few more that ended together."""
        latencies: list[float] = []
        while len(latencies) < requests:
            self._step()
            for token in self._ended:
                latencies.append(self._now_s - token.began_s)
                self._begin()
            self._ended.clear()
        return latencies

    # --- events

    def _step(self) -> None:
        real, cores, gpus = self._real, self._cores, self._gpus
        # Real time until the next one ends in each of the three, if nothing comes in between.
        real_s = real[0][0] - self._now_s if real else math.inf
        core_s = (cores.jobs[0][0] - cores.now_s) / cores.speed if cores.jobs else math.inf
        gpu_s = (gpus.jobs[0][0] - gpus.now_s) / gpus.speed if gpus.jobs else math.inf
        passed_s = min(real_s, core_s, gpu_s)
        if real_s == passed_s:
            self._now_s = real[0][0]
        else:
            self._now_s += passed_s
        cores.now_s += passed_s * cores.speed
        gpus.now_s += passed_s * gpus.speed
        if passed_s == gpu_s < real_s:
            self._finish(gpus.pop())
        elif passed_s == core_s < real_s:
            self._after_cores(cores.pop())
        else:
            what = heappop(real)[2]
            if isinstance(what, _Place):
                self._dispatch(what)
            elif what.core_s > 0:
                cores.push(what, what.core_s, next(self._order))
            else:
                self._after_cores(what)

    def _after_cores(self, job: _Job) -> None:
        if job.gpu_s > 0:
            self._gpus.push(job, job.gpu_s, next(self._order))
        else:
            self._finish(job)

    def _push_real(self, at_s: float, what: _Job | _Place) -> None:
        heappush(self._real, (at_s, next(self._order), what))

    def _work(self, job: _Job, total_s: float) -> None:
        elsewhere_s = total_s - job.core_s - job.gpu_s
        if elsewhere_s > 0 or not job.core_s:
            self._push_real(self._now_s + max(0.0, elsewhere_s), job)
        else:
            self._cores.push(job, job.core_s, next(self._order))

    # --- requests

    def _begin(self, late_s: float = 0.0) -> None:
        token = _Token(self._plain if self._plain is not None else self._drawn_path(), self._now_s)
        total_s = max(self._pipeline.outside_s, _LEAST_S)
        if (
            self._pipeline.variation
        ):  # replies of a batch are sent, read and asked for again one after the other
            total_s *= self._random.uniform(1 - _SPREAD, 1 + _SPREAD)
        total_s += late_s
        self._work(_Job([token], None, min(self._pipeline.outside_cpu_s, total_s), 0.0), total_s)

    def _go_on(self, token: _Token) -> None:
        while token.position < len(token.path):
            visit = token.path[token.position]
            token.position += 1
            if visit.is_entering:
                visit.place.queue.append((token, self._now_s))
                self._dispatch(visit.place)
                return
            self._release(visit.place)
        self._ended.append(token)

    def _finish(self, job: _Job) -> None:
        if job.place is not None and not job.place.station.members:  # a caller holds its instance
            self._release(job.place)
        for token in job.tokens:
            self._go_on(token)

    def _release(self, place: _Place) -> None:
        place.free += 1
        self._dispatch(place)

    def _dispatch(self, place: _Place) -> None:
        while place.free and place.queue:
            size = self._batch(place)
            if not size:
                return
            taken = [place.queue.popleft() for _ in range(size)]
            place.free -= 1
            self._execute(place, taken)

    def _batch(self, place: _Place) -> int:
        """How many requests go into the next execution; 0 to wait for more."""
        waiting = len(place.queue)
        if waiting >= place.most:
            return place.most
        fitting = [size for size in place.wanted if size <= waiting]
        if fitting:
            return fitting[-1]
        due_s = place.queue[0][1] + place.station.delay_s
        if self._now_s >= due_s:
            return waiting
        if place.timer_s != due_s:
            place.timer_s = due_s
            self._push_real(due_s, place)
        return 0

    def _execute(self, place: _Place, taken: list[tuple[_Token, float]]) -> None:
        items = len(taken) * self._pipeline.items
        place.executions += 1
        place.items += items
        station, luck = place.station, self._luck()
        total_s = station.service_s(items, len(taken)) * luck
        gpu_s = min(station.gpu_s(items) * luck, total_s)
        core_s = (total_s - gpu_s) * station.cpu
        self._work(_Job([token for token, _ in taken], place, core_s, gpu_s), total_s)

    def _luck(self) -> float:
        variation = self._pipeline.variation
        if not variation:
            return 1.0
        shape = 1 / variation**2
        return self._random.gammavariate(shape, 1 / shape)

    # --- paths

    def _whole_path(self) -> tuple[_Visit, ...] | None:
        """The one path of all requests; None where a fraction of a call makes them differ."""
        is_whole = all(station.calls == int(station.calls) for station in self._pipeline.walk())
        return self._drawn_path() if is_whole else None

    def _drawn_path(self) -> tuple[_Visit, ...]:
        return tuple(visit for root in self._roots for visit in self._visits(root))

    def _visits(self, place: _Place) -> list[_Visit]:
        calls = place.station.calls
        visits: list[_Visit] = []
        for _ in range(int(calls) + (self._random.random() < calls - int(calls))):
            visits.append(_Visit(place, True))
            for member in place.members:
                visits += self._visits(member)
            if place.members:
                visits.append(_Visit(place, False))
        return visits
