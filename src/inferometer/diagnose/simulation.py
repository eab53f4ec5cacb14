"""Requests walking through a pipeline, event by event: the small machine behind the predictions.

Why not formulas: service times of models hardly vary, batches form from whoever waits, a step that calls others
holds its instance meanwhile, and all of them slow each other down on the same cores. Mean-value formulas assume
the first away and have no place for the rest. A few hundred simulated requests settle it in milliseconds.

Time has two clocks. Waiting and work elsewhere (a sleep, a GPU, the network) run on the real one. Work on the
cores runs on a virtual one that goes slower the more jobs share them, the same for all; so a job on a core ends
at a fixed virtual time, whatever comes and goes until then.

Nothing is random to the outside: the same pipeline gives the same figures.
"""

import math
import random
from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush

from inferometer.diagnose.pipeline import Pipeline, Station

_SEED = 20
_LEAST_S = 1e-9  # no request takes no time at all


@dataclass(slots=True)
class Tally:
    """What happened at one station while it was watched."""

    executions: int = 0
    items: int = 0
    waits: int = 0
    wait_s: float = 0.0
    busy_s: float = 0.0  # instances held, summed over them
    service_s: float = 0.0  # of executions, from start to end


@dataclass(frozen=True, slots=True)
class Run:
    """Of the requests watched."""

    requests: int
    seconds: float
    latency_s: float
    tallies: tuple[Tally, ...]  # in the order of Pipeline.walk


class _Place:
    """A station with its queue."""

    def __init__(self, station: Station, items: int) -> None:
        self.station = station
        self.free = station.instances
        self.queue: deque[tuple[_Token, float]] = deque()
        # Requests in an execution. One that calls others keeps its instance until its own are back.
        self.most = 1 if station.members else station.largest_batch(items) // items
        self.wanted = sorted(
            {max(1, size // items) for size in station.preferred if size // items <= self.most}
        )
        if self.wanted:
            self.most = self.wanted[-1]  # the server sends a preferred batch rather than let it grow past it
        self.tally = Tally()
        self.timer_s = -1.0


@dataclass(frozen=True, slots=True)
class _Visit:
    place: _Place
    is_entering: bool  # else it gives back the instance it held


class _Token:
    """A request on its way."""

    __slots__ = ("began_s", "held_since_s", "path", "position")

    def __init__(self, path: tuple[_Visit, ...], began_s: float) -> None:
        self.path = path
        self.position = 0
        self.began_s = began_s
        self.held_since_s: list[float] = []  # of the instances it holds while it calls others


@dataclass(slots=True)
class _Job:
    """Work under way: first apart from the cores, then on them. `place` is None for what is outside the stations."""

    tokens: list[_Token]
    place: _Place | None
    core_s: float
    started_s: float


class Simulation:
    """A pipeline with requests in it."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._random = random.Random(_SEED)
        self._places: list[_Place] = []
        self._tree = tuple(self._plant(station) for station in pipeline.stations)
        self._plain = self._whole_path()
        self._now_s = 0.0
        self._virtual_s = 0.0
        self._order = 0
        self._real: list[tuple[float, int, _Job | _Place | None]] = []
        self._on_cores: list[tuple[float, int, _Job]] = []
        self._speeds: dict[int, float] = {}
        self._ended: list[_Token] = []

    # --- the two ways of loading it

    def closed(self, concurrency: int, *, warmup: int, requests: int) -> Run:
        """So many requests in flight at any time: whenever one ends the next begins."""
        for _ in range(concurrency):
            self._begin()
        return self._watch(warmup, requests, is_closed=True)

    def open(self, rate: float, *, warmup: int, requests: int, is_poisson: bool) -> Run:
        """Requests at a rate, whatever happens to those before."""
        at_s = 0.0
        for _ in range(warmup + requests):
            at_s += self._random.expovariate(rate) if is_poisson else 1 / rate
            self._push_real(at_s, None)
        return self._watch(warmup, requests, is_closed=False)

    def _watch(self, warmup: int, requests: int, *, is_closed: bool) -> Run:
        self._advance(warmup, is_closed)
        start_s = self._now_s
        for place in self._places:
            place.tally = Tally()
        latencies = self._advance(requests, is_closed)
        return Run(
            requests=len(latencies),
            seconds=self._now_s - start_s,
            latency_s=sum(latencies) / len(latencies),
            tallies=tuple(place.tally for place in self._places),
        )

    def _advance(self, requests: int, is_closed: bool) -> list[float]:
        latencies: list[float] = []
        while len(latencies) < requests:
            self._step()
            for token in self._ended:
                latencies.append(self._now_s - token.began_s)
                if is_closed:
                    self._begin()
            self._ended.clear()
        return latencies

    # --- events

    def _step(self) -> None:
        speed = self._speed()
        real_s = self._real[0][0] if self._real else math.inf
        core_s = (
            self._now_s + (self._on_cores[0][0] - self._virtual_s) / speed if self._on_cores else math.inf
        )
        if core_s < real_s:
            self._virtual_s = self._on_cores[0][0]
            self._now_s = core_s
            self._finish(heappop(self._on_cores)[2])
            return
        self._virtual_s += (real_s - self._now_s) * speed
        self._now_s = real_s
        what = heappop(self._real)[2]
        if what is None:
            self._begin()
        elif isinstance(what, _Place):
            self._dispatch(what)
        elif what.core_s > 0:
            self._push_on_cores(what)
        else:
            self._finish(what)

    def _speed(self) -> float:
        jobs = len(self._on_cores)
        found = self._speeds.get(jobs)
        if found is None:
            found = self._speeds[jobs] = self._pipeline.cores.speed(jobs)
        return found

    def _push_real(self, at_s: float, what: _Job | _Place | None) -> None:
        self._order += 1
        heappush(self._real, (at_s, self._order, what))

    def _push_on_cores(self, job: _Job) -> None:
        self._order += 1
        heappush(self._on_cores, (self._virtual_s + job.core_s, self._order, job))

    def _work(self, tokens: list[_Token], place: _Place | None, total_s: float, core_s: float) -> None:
        job = _Job(tokens, place, core_s, self._now_s)
        if total_s > core_s:
            self._push_real(self._now_s + total_s - core_s, job)
        elif core_s > 0:
            self._push_on_cores(job)
        else:
            self._push_real(self._now_s, job)

    # --- requests

    def _begin(self) -> None:
        token = _Token(self._plain if self._plain is not None else self._drawn_path(), self._now_s)
        total_s = max(self._pipeline.outside_s, _LEAST_S)
        self._work([token], None, total_s, min(self._pipeline.outside_cpu_s, total_s))

    def _go_on(self, token: _Token) -> None:
        while token.position < len(token.path):
            visit = token.path[token.position]
            token.position += 1
            if visit.is_entering:
                visit.place.queue.append((token, self._now_s))
                self._dispatch(visit.place)
                return
            visit.place.tally.busy_s += self._now_s - token.held_since_s.pop()
            self._release(visit.place)
        self._ended.append(token)

    def _finish(self, job: _Job) -> None:
        place = job.place
        if place is not None:
            place.tally.service_s += self._now_s - job.started_s
            if place.station.members:
                job.tokens[0].held_since_s.append(job.started_s)
            else:
                place.tally.busy_s += self._now_s - job.started_s
                self._release(place)
        for token in job.tokens:
            self._go_on(token)

    def _release(self, place: _Place) -> None:
        place.free += 1
        self._dispatch(place)

    def _dispatch(self, place: _Place) -> None:
        while place.free and place.queue:
            count = self._batch(place)
            if not count:
                return
            taken = [place.queue.popleft() for _ in range(count)]
            place.free -= 1
            self._execute(place, taken)

    def _batch(self, place: _Place) -> int:
        """How many requests go into the next execution; 0 to wait for more."""
        waiting = len(place.queue)
        if place.most == 1 or waiting >= place.most:
            return min(waiting, place.most)
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
        station, tally = place.station, place.tally
        items = len(taken) * self._pipeline.items
        tally.executions += 1
        tally.items += items
        tally.waits += len(taken)
        tally.wait_s += sum(self._now_s - since_s for _, since_s in taken)
        total_s = station.service_s(items) * self._luck()
        self._work([token for token, _ in taken], place, total_s, total_s * station.cpu)

    def _luck(self) -> float:
        variation = self._pipeline.variation
        if not variation:
            return 1.0
        shape = 1 / variation**2
        return self._random.gammavariate(shape, 1 / shape)

    # --- paths

    def _plant(self, station: Station) -> tuple[_Place, tuple[object, ...]]:
        place = _Place(station, self._pipeline.items)
        self._places.append(place)
        return place, tuple(self._plant(member) for member in station.members)

    def _whole_path(self) -> tuple[_Visit, ...] | None:
        """The one path of all requests; None where a fraction of a call makes them differ."""
        is_whole = all(station.calls == int(station.calls) for station, _ in self._pipeline.walk())
        return self._drawn_path() if is_whole else None

    def _drawn_path(self) -> tuple[_Visit, ...]:
        return tuple(visit for node in self._tree for visit in self._visits(node))

    def _visits(self, node: tuple[_Place, tuple[object, ...]]) -> list[_Visit]:
        place, members = node
        calls = place.station.calls
        count = int(calls) + (self._random.random() < calls - int(calls))
        visits: list[_Visit] = []
        for _ in range(count):
            visits.append(_Visit(place, True))
            for member in members:
                visits += self._visits(member)  # type: ignore[arg-type]
            if members:
                visits.append(_Visit(place, False))
        return visits
