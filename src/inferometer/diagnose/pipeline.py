"""A pipeline of steps as the queueing model sees it: stations with instances, batches, and cores they share."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

CORES = "cores"
"""Name of the shared cores where a station's name could stand."""


@dataclass(frozen=True, slots=True)
class Station:
    """One step. An execution of a batch of b inferences takes `fixed_s + b * item_s` on an otherwise idle machine.

    With `members` the step calls other steps while it holds its instance, as a BLS model does; its own times
    are then what is left without them.
    """

    name: str
    fixed_s: float
    item_s: float = 0.0
    calls: float = 1.0  # per visit of the caller
    instances: int = 1
    cpu: float = 1.0  # share of the service time in which it wants a core
    max_batch: int = 1  # inferences that one execution can take
    is_batching: bool = False  # the server puts waiting requests together
    preferred: tuple[int, ...] = ()
    delay_s: float = 0.0  # how long the oldest may wait for company
    members: tuple["Station", ...] = ()

    def service_s(self, batch: float) -> float:
        """Of one execution, members not included."""
        return self.fixed_s + batch * self.item_s

    def largest_batch(self, items: int) -> int:
        """Inferences in the fullest execution, when each request brings `items`."""
        return items * max(1, self.max_batch // items) if self.is_batching else items


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
class Pipeline:
    """What one request goes through, step after step."""

    stations: tuple[Station, ...]
    outside_s: float = 0.0  # client, network, the server around its steps: time without a queue
    outside_cpu_s: float = 0.0  # of that, the time on a core of this machine
    cores: Cores = field(default_factory=Cores)
    items: int = 1  # inferences in a request
    variation: float = 0.1  # of service times: standard deviation over mean

    def walk(self) -> Iterator[tuple[Station, float]]:
        """Every station with its calls per request, members after their caller."""
        for station in self.stations:
            yield from _walk(station, 1.0)


def _walk(station: Station, calls: float) -> Iterator[tuple[Station, float]]:
    yield station, calls * station.calls
    for member in station.members:
        yield from _walk(member, calls * station.calls)


def held_s(station: Station, items: int, speed: float = 1.0) -> float:
    """How long an execution of the fullest batch holds an instance when nobody waits for anything."""
    own_s = station.service_s(station.largest_batch(items))
    return own_s * (1 - station.cpu + station.cpu / speed) + sum(
        member.calls * held_s(member, items, speed) for member in station.members
    )


def station_bound(station: Station, calls: float, pipeline: Pipeline) -> float:
    """Infer/s that no load can exceed because of this station: all its instances busy, at best alone on the cores."""
    speed = pipeline.cores.speed(station.instances * station.cpu)
    seconds = calls * held_s(station, pipeline.items, speed)
    full = station.instances * station.largest_batch(pipeline.items)
    return math.inf if seconds <= 0 else full / seconds


def cores_bound(pipeline: Pipeline) -> float:
    """Infer/s that no load can exceed because of the cores, every batch being full."""
    items = pipeline.items
    per_request_s = pipeline.outside_cpu_s + sum(
        calls
        * items
        * station.cpu
        * station.service_s(station.largest_batch(items))
        / station.largest_batch(items)
        for station, calls in pipeline.walk()
    )
    at_once = sum(station.instances * station.cpu for station, _ in pipeline.walk()) + 1.0
    available = pipeline.cores.work(at_once)
    return math.inf if per_request_s <= 0 else items * available / per_request_s


def bounds(pipeline: Pipeline) -> dict[str, float]:
    """The bound of every station, and of the cores."""
    found = {station.name: station_bound(station, calls, pipeline) for station, calls in pipeline.walk()}
    return {**found, CORES: cores_bound(pipeline)}


def with_station(pipeline: Pipeline, name: str, **changes: Any) -> Pipeline:
    """The pipeline with one station changed, wherever it is."""
    return replace(
        pipeline, stations=tuple(_changed(station, name, changes) for station in pipeline.stations)
    )


def _changed(station: Station, name: str, changes: dict[str, Any]) -> Station:
    members = tuple(_changed(member, name, changes) for member in station.members)
    return replace(station, members=members, **(changes if station.name == name else {}))
