"""A pipeline of a server: stations with instances and batches, and the cores and GPUs they share."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Station:
    """One step. An execution of b inferences in r requests takes `fixed_s + b * item_s + (r - 1) * request_s` on an
    otherwise idle machine. Of that it is on a GPU for `gpu_fixed_s + b * gpu_item_s`, and of the rest it wants a core
    for the share `cpu`, or `threads` cores at the same time.

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
    threads: float = 1.0  # cores that an execution keeps busy where there are enough of them

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
    # What all times of a request are multiplied with, one as likely as the other; their mean is 1. Without any, the
    # service times vary by themselves, as much as `variation` says.
    spread: tuple[float, ...] = ()

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
