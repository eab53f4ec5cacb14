"""Event-driven simulation of requests in a server: pipelines under load that share its cores and GPUs.

There are three clocks. Waiting and work elsewhere (a sleep, the network) use real time. Work on the cores uses virtual
clocks that are slower the more cores are busy and the more jobs share one (see `run_queues`). Work on the GPUs uses
another virtual clock, common to all, so a job there ends at a fixed virtual time, whatever starts or ends before.

Several kinds of traffic may run at once. A model that several of them call has one queue and one set of instances.
"""

import math
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from heapq import heappop, heappush
from itertools import count

from inferometer.base.frozen import frozen
from inferometer.diagnose.pipeline import Pipeline, Station
from inferometer.diagnose.run_queues import Core, RunQueues

_SEED = 20
_SPREAD = 0.8  # relative variation of the time outside the stations
_LEAST_S = 1e-9  # shortest time of a request


@frozen
class SimulatedTraffic:
    """Requests of one kind: a constant number in flight, or arrivals at given times."""

    pipeline: Pipeline
    concurrency: int = 0
    due_s: Sequence[float] = ()  # ascending
    is_in_step: bool = True  # requests in flight start all at once


@frozen
class EndedRequest:
    """A completed request; `kind` is the index of its traffic."""

    kind: int
    ended_s: float
    latency_s: float


class _Place:
    """A station with its queue and its counters."""

    def __init__(self, station: Station, items: int, members: "tuple[_Place, ...]") -> None:
        self.station = station
        self.members = members
        self.free = station.instances
        self.homes: list[Core[_Job]] = []  # cores on which free instances last ran
        self.queue: deque[tuple[_Token, float]] = deque()
        # Requests per execution. A step that calls others keeps its instance until they return.
        forms_batches = station.is_batching and not station.members
        self.most = max(1, station.max_batch // items) if forms_batches else 1
        self.wanted = sorted(
            {max(1, size // items) for size in station.preferred if size // items <= self.most}
        )
        if self.wanted:
            self.most = self.wanted[-1]  # the server prefers a preferred batch size over a larger batch
        self.timer_s = -1.0
        self.watch()

    def watch(self) -> None:
        """Reset the counters."""
        self.executions = 0
        self.items = 0

    def walk(self) -> Iterator["_Place"]:
        yield self
        for member in self.members:
            yield from member.walk()

    def batch(self) -> float:
        return self.items / self.executions if self.executions else 0.0


@frozen
class _Visit:
    place: _Place
    is_entering: bool  # otherwise it releases the instance it held


class _Kind:
    """Traffic with its path through the places."""

    def __init__(self, number: int, traffic: SimulatedTraffic, roots: list[_Place]) -> None:
        self.number = number
        self.traffic = traffic
        self.pipeline = traffic.pipeline
        self.roots = roots
        self.plain: tuple[_Visit, ...] | None = None  # the common path of all requests, if they do not differ
        self.sent = 0
        self.lag = 0.0  # how much worse its work scales on the cores than that of others


@dataclass(slots=True)
class _Token:
    """A request in progress."""

    kind: _Kind
    path: tuple[_Visit, ...]
    began_s: float
    luck: float = 1.0  # factor of all its times
    position: int = 0


@dataclass(slots=True)
class _Job:
    """Work in progress: first elsewhere, then on a core, then on a GPU. `place` is None outside the stations."""

    tokens: list[_Token]
    place: _Place | None
    core_s: float  # per thread
    gpu_s: float
    threads: int = 1  # not finished yet


class _Shared:
    """A resource shared by several jobs, each slower the more there are: its clock, and their end times on it."""

    __slots__ = ("_speed_of", "jobs", "now_s", "speed")

    def __init__(self, speed: Callable[[float], float]) -> None:
        self._speed_of = cache(speed)
        self.now_s = 0.0
        self.jobs: list[tuple[float, int, _Job]] = []
        self.speed = speed(0)  # of each job, at present

    def push(self, job: _Job, seconds: float, order: int) -> None:
        heappush(self.jobs, (self.now_s + seconds, order, job))
        self.speed = self._speed_of(len(self.jobs))

    def pop(self) -> _Job:
        self.now_s, _, job = heappop(self.jobs)
        self.speed = self._speed_of(len(self.jobs))
        return job


class Simulation:
    """Pipelines with requests in them; the first pipeline determines the number of cores and GPUs.

    The cores scale as for the traffic that scales best; the work of other traffic grows with the number of busy cores
    when it starts. With `is_even` all jobs share the cores evenly; otherwise as in an operating system.
    """

    def __init__(
        self, traffic: Sequence[SimulatedTraffic], seed: int = _SEED, *, is_even: bool = False
    ) -> None:
        self._random = random.Random(seed)
        self._by_name: dict[str, _Place] = {}
        self._kinds = [_Kind(number, row, self._roots(row.pipeline)) for number, row in enumerate(traffic)]
        self.now_s = 0.0
        self._order = count()  # tie-breaker of simultaneous events
        self._real: list[tuple[float, int, _Job | _Place | _Kind]] = []
        best = max(row.pipeline.cores.scaling for row in traffic)
        cores = replace(traffic[0].pipeline.cores, scaling=best)
        self._core_count = cores.count
        for kind in self._kinds:
            kind.lag = best - kind.pipeline.cores.scaling
        self._cores: RunQueues[_Job] = RunQueues(cores, is_even=is_even)
        self._gpus = _Shared(traffic[0].pipeline.devices.speed)
        self._ended: list[_Token] = []
        for kind in self._kinds:
            kind.plain = self._whole_path(kind)
        for kind in self._kinds:
            self._start(kind)

    def _roots(self, pipeline: Pipeline) -> list[_Place]:
        """Return the places where requests of a pipeline begin; pipelines that call the same model share its place."""
        known = dict(self._by_name)
        roots = [self._place(station, pipeline.items, known) for station in pipeline.stations]
        for root in roots:
            self._by_name |= {place.station.name: place for place in root.walk()}
        return roots

    def _place(self, station: Station, items: int, known: dict[str, _Place]) -> _Place:
        if station.name in known:
            return known[station.name]
        return _Place(station, items, tuple(self._place(row, items, known) for row in station.members))

    def _start(self, kind: _Kind) -> None:
        traffic = kind.traffic
        places = [place for root in kind.roots for place in root.walk()]
        round_s = sum(place.station.service_s(kind.pipeline.items) for place in places)
        for number in range(traffic.concurrency):
            late_s = 0.0 if traffic.is_in_step else round_s * number / traffic.concurrency
            self._begin(kind, late_s)
        if traffic.due_s:
            self._push_real(traffic.due_s[0], kind)

    # --- public operations

    def advance(self, requests: int) -> list[EndedRequest]:
        """Run until this many requests have ended, or a few more that end together, or all that are due."""
        ended: list[EndedRequest] = []
        while len(ended) < requests and self._step():
            if self._ended:
                ended += self._begin_again()
        return ended

    def advance_to(self, at_s: float) -> list[EndedRequest]:
        """Run until this time, and return the requests that ended."""
        ended: list[EndedRequest] = []
        while self.now_s < at_s and self._step():
            if self._ended:
                ended += self._begin_again()
        return ended

    def watch(self) -> None:
        """Start counting batches."""
        for place in self._places():
            place.watch()

    def batches(self) -> dict[str, float]:
        """Return the inferences per execution of each station."""
        # A step may be in several places; the first one is used.
        return {place.station.name: place.batch() for place in reversed(self._places())}

    def _places(self) -> list[_Place]:
        return [place for kind in self._kinds for root in kind.roots for place in root.walk()]

    def _begin_again(self) -> list[EndedRequest]:
        """Return the ended requests, and start new ones to keep the concurrency constant."""
        ended = []
        for token in self._ended:
            ended.append(EndedRequest(token.kind.number, self.now_s, self.now_s - token.began_s))
            if token.kind.traffic.concurrency:
                self._begin(token.kind)
        self._ended.clear()
        return ended

    # --- events

    def _step(self) -> bool:
        """Process the next event; return False if there is none."""
        real, cores, gpus = self._real, self._cores, self._gpus
        # Real time until the next end on each clock, if nothing happens before.
        real_s = real[0][0] - self.now_s if real else math.inf
        core_s = cores.next_s()
        gpu_s = (gpus.jobs[0][0] - gpus.now_s) / gpus.speed if gpus.jobs else math.inf
        passed_s = min(real_s, core_s, gpu_s)
        if passed_s == math.inf:
            return False
        if real_s == passed_s:
            self.now_s = real[0][0]
        else:
            self.now_s += passed_s
        cores.pass_time(passed_s)
        gpus.now_s += passed_s * gpus.speed
        if passed_s == gpu_s < real_s:
            self._finish(gpus.pop())
        elif passed_s == core_s < real_s:
            job, core = cores.pop()
            if job.place is not None:
                job.place.homes.append(core)
            job.threads -= 1
            if not job.threads:
                self._after_cores(job)
            cores.balance(core)  # after the instance's next step: a core that it continues to use is not idle
        else:
            self._happen(heappop(real)[2])
        return True

    def _happen(self, what: _Job | _Place | _Kind) -> None:
        if isinstance(what, _Place):
            self._dispatch(what)
        elif isinstance(what, _Kind):
            self._due(what)
        elif what.core_s > 0:
            self._push_on_cores(what)
        else:
            self._after_cores(what)

    def _due(self, kind: _Kind) -> None:
        self._begin(kind)
        kind.sent += 1
        if kind.sent < len(kind.traffic.due_s):
            self._push_real(kind.traffic.due_s[kind.sent], kind)

    def _after_cores(self, job: _Job) -> None:
        if job.gpu_s > 0:
            self._gpus.push(job, job.gpu_s, next(self._order))
        else:
            self._finish(job)

    def _push_real(self, at_s: float, what: _Job | _Place | _Kind) -> None:
        heappush(self._real, (at_s, next(self._order), what))

    def _work(self, job: _Job, total_s: float) -> None:
        elsewhere_s = total_s - job.core_s - job.gpu_s
        if elsewhere_s > 0 or not job.core_s:
            self._push_real(self.now_s + max(0.0, elsewhere_s), job)
        else:
            self._push_on_cores(job)

    def _push_on_cores(self, job: _Job) -> None:
        core_s, lag = job.core_s, job.tokens[0].kind.lag
        if lag:
            core_s *= min(self._cores.jobs + 1, self._core_count) ** lag
        for _ in range(job.threads):
            home = job.place.homes.pop() if job.place is not None and job.place.homes else None
            self._cores.push(job, core_s, home)

    # --- requests

    def _begin(self, kind: _Kind, late_s: float = 0.0) -> None:
        pipeline = kind.pipeline
        path = kind.plain if kind.plain is not None else self._drawn_path(kind)
        token = _Token(kind, path, self.now_s)
        total_s, core_s = max(pipeline.outside_s, _LEAST_S), pipeline.outside_cpu_s
        if pipeline.spread:
            token.luck = self._random.choice(pipeline.spread)
            total_s, core_s = total_s * token.luck, core_s * token.luck
        elif pipeline.variation:
            # Replies of a batch are sent, read and followed by new requests one after the other.
            total_s *= self._random.uniform(1 - _SPREAD, 1 + _SPREAD)
        total_s += late_s
        self._work(_Job([token], None, min(core_s, total_s), 0.0), total_s)

    def _go_on(self, token: _Token) -> None:
        while token.position < len(token.path):
            visit = token.path[token.position]
            token.position += 1
            if visit.is_entering:
                visit.place.queue.append((token, self.now_s))
                self._dispatch(visit.place)
                return
            self._release(visit.place)
        self._ended.append(token)

    def _finish(self, job: _Job) -> None:
        if job.place is not None and not job.place.station.members:  # a caller keeps its instance
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
            taken = [place.queue.popleft()[0] for _ in range(size)]
            place.free -= 1
            self._execute(place, taken)

    def _batch(self, place: _Place) -> int:
        """Return the number of requests in the next execution; 0 to wait for more."""
        waiting = len(place.queue)
        if waiting >= place.most:
            return place.most
        fitting = [size for size in place.wanted if size <= waiting]
        if fitting:
            return fitting[-1]
        due_s = place.queue[0][1] + place.station.delay_s
        if self.now_s >= due_s:
            return waiting
        if place.timer_s != due_s:
            place.timer_s = due_s
            self._push_real(due_s, place)
        return 0

    def _execute(self, place: _Place, taken: list[_Token]) -> None:
        items = sum(token.kind.pipeline.items for token in taken)
        place.executions += 1
        place.items += items
        station, luck = place.station, self._luck(taken)
        total_s = station.service_s(items, len(taken)) * luck
        gpu_s = min(station.gpu_s(items) * luck, total_s)
        threads = math.ceil(station.threads)
        core_s = (total_s - gpu_s) * station.cpu * station.threads / threads
        self._work(_Job(taken, place, core_s, gpu_s, threads), total_s)

    def _luck(self, taken: list[_Token]) -> float:
        pipeline = taken[0].kind.pipeline
        if pipeline.spread:
            return sum(token.luck for token in taken) / len(taken)
        if not pipeline.variation:
            return 1.0
        shape = 1 / pipeline.variation**2
        return self._random.gammavariate(shape, 1 / shape)

    # --- paths

    def _whole_path(self, kind: _Kind) -> tuple[_Visit, ...] | None:
        """Return the common path of all requests; None if fractional calls make them differ."""
        is_whole = all(station.calls == int(station.calls) for station in kind.pipeline.walk())
        return self._drawn_path(kind) if is_whole else None

    def _drawn_path(self, kind: _Kind) -> tuple[_Visit, ...]:
        return tuple(visit for root in kind.roots for visit in self._visits(root))

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
