"""A server's pipeline: stations with instances and batches, and the cores and GPUs they share."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from inferometer.base.frozen import frozen


@frozen
class Station:
    """One step. An execution of b inferences in r requests takes `fixed_s + b * item_s + (r - 1) * request_s` on an
    otherwise idle machine. It is on a GPU for `gpu_fixed_s + b * gpu_item_s` of that, and uses a core for the share
    `cpu` of the rest, or `threads` cores at the same time.

    With `members` the step calls other steps while it holds its instance, as a BLS model does; its own times exclude
    them.
    """

    name: str
    fixed_s: float
    item_s: float = 0.0
    calls: float = 1.0  # per visit of the caller
    instances: int = 1
    cpu: float = 1.0
    max_batch: int = 1  # maximum inferences per execution
    is_batching: bool = False  # the server batches waiting requests
    preferred: tuple[int, ...] = ()
    delay_s: float = 0.0  # maximum queue delay of the oldest request
    members: tuple["Station", ...] = ()
    request_s: float = 0.0
    gpu_fixed_s: float = 0.0
    gpu_item_s: float = 0.0
    threads: float = 1.0  # cores used by an execution if enough are available

    def service_s(self, batch: float, requests: float = 1) -> float:
        """Return the time of one execution, without members."""
        return self.fixed_s + batch * self.item_s + (requests - 1) * self.request_s

    def gpu_s(self, batch: float) -> float:
        """Return the time of one execution on a GPU."""
        return self.gpu_fixed_s + batch * self.gpu_item_s


@frozen
class Cores:
    """The cores that all steps share; cores held by other programs are not in `count`.

    n busy cores do the work of `n ** scaling`, which is less than n if they share caches, memory, power or
    hyper-threads.
    """

    count: float = math.inf
    scaling: float = 1.0

    def work(self, jobs: float) -> float:
        """Return how many cores' worth of work this many jobs do together."""
        busy = min(jobs, self.count)
        return busy if busy <= 1 else math.pow(busy, self.scaling)

    def speed(self, jobs: float) -> float:
        """Return the speed of each of this many jobs; 1 is the speed of a single job on an idle machine."""
        return self.work(max(jobs, 1.0)) / max(jobs, 1.0)


@frozen
class Devices:
    """The GPUs that all steps share.

    Executions on the same GPU take turns. `turn` is the cost of switching, relative to the work done between switches:
    0 if it is free, -1 if executions run in parallel and none has to wait.
    """

    count: int = 1
    turn: float = 0.0

    def work(self, jobs: float) -> float:
        """Return how many GPUs' worth of work this many executions do together."""
        each = max(1.0, jobs / self.count)
        return min(jobs, self.count) / (
            1 + self.turn * (1 - 1 / each)
        )  # the next execution is usually another one

    def speed(self, jobs: float) -> float:
        """Return the speed of each of this many executions; 1 is the speed of a single one."""
        return self.work(max(jobs, 1.0)) / max(jobs, 1.0)


@frozen
class Pipeline:
    """The sequence of steps that a request passes through."""

    stations: tuple[Station, ...]
    outside_s: float = 0.0  # client, network and server outside its steps: time without queueing
    outside_cpu_s: float = 0.0  # core time within outside_s, on this machine
    cores: Cores = Cores()
    items: int = 1  # inferences per request
    variation: float = 0.1  # coefficient of variation of service times
    devices: Devices = Devices()
    # Equally likely factors for all times of a request, with mean 1. Without any, each service time varies on its own
    # by `variation`.
    spread: tuple[float, ...] = ()

    def walk(self) -> Iterator[Station]:
        """Yield every station, members after their caller."""
        return _walk(self.stations)


def _walk(stations: tuple[Station, ...]) -> Iterator[Station]:
    for station in stations:
        yield station
        yield from _walk(station.members)


def with_station(pipeline: Pipeline, name: str, **changes: Any) -> Pipeline:
    """Return the pipeline with one station changed, at any depth."""
    return replace(
        pipeline, stations=tuple(_changed(station, name, changes) for station in pipeline.stations)
    )


def _changed(station: Station, name: str, changes: dict[str, Any]) -> Station:
    members = tuple(_changed(member, name, changes) for member in station.members)
    return replace(station, members=members, **(changes if station.name == name else {}))
