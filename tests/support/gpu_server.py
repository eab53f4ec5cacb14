"""A simulated Triton with a GPU, event by event: instances, batcher, cores, and kernels that take turns on the device.

Given the cost of each model, it reports what a real server would: throughput, latency, statistics by batch size,
utilization of cores and GPU, and the GPU's memory. It shares no code with the queueing model under test.
"""

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import heappop, heappush
from typing import Any

from inferometer.diagnose.diagnosis import Change
from inferometer.diagnose.observation import Observation, Step, StepSetup
from inferometer.observe.statistics import Executions
from inferometer.stats.machine_figures import CoreUse, GpuFigures, HostUse

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class SimulatedModel:
    """Seconds on a core and on the GPU: per execution, plus per inference and per request in it."""

    name: str
    core_s: float
    gpu_s: float = 0.0
    core_item_s: float = 0.0
    gpu_item_s: float = 0.0
    request_s: float = 0.0
    copy_s: float = 0.00005  # per request, in and out; part of the compute time in the server's statistics
    kernels: int = 4  # parts of an execution, which alternate between core and GPU
    instances: int = 1
    max_batch: int = 0
    is_batching: bool = False
    preferred: tuple[int, ...] = ()
    delay_s: float = 0.0
    memory_bytes: int = GIB

    @property
    def is_on_gpu(self) -> bool:
        return self.gpu_s + self.gpu_item_s > 0

    def with_change(self, change: Change) -> "SimulatedModel":
        settings: Any = change.settings
        if "instance_group" in settings:
            return replace(self, instances=settings["instance_group"][0]["count"])
        batching = settings["dynamic_batching"]
        return replace(
            self,
            is_batching=True,
            preferred=tuple(batching.get("preferred_batch_size", ())),
            delay_s=batching.get("max_queue_delay_microseconds", 0) / 1e6,
        )

    def setup(self) -> StepSetup:
        return StepSetup(
            instances=self.instances,
            device="gpu" if self.is_on_gpu else "cpu",
            max_batch=self.max_batch,
            is_batching=self.is_batching,
            preferred=self.preferred,
            delay_s=self.delay_s,
        )


class OutOfMemory(Exception):
    """The instances do not fit into the GPU's memory."""


@dataclass(frozen=True, slots=True)
class GpuServer:
    """A chain of models on a machine with `cores` cores and one GPU."""

    models: tuple[SimulatedModel, ...]
    cores: int = 16
    outside_s: float = 0.0003
    switch_s: float = 0.00002  # GPU time to switch between the kernels of two instances
    memory_bytes: int = 80 * GIB
    other_bytes: int = 0  # memory held by other programs
    memory_share: float = 0.1  # memory utilization, as a share of GPU utilization
    has_gpu_figures: bool = True
    noise: float = 0.02
    late_s: float = 0.0  # extra delay of every fortieth request
    seed: int = 1

    def changed(self, change: Change) -> "GpuServer":
        models = tuple(
            model.with_change(change) if model.name == change.model else model for model in self.models
        )
        made = replace(self, models=models)
        if made.used_bytes + self.other_bytes > self.memory_bytes:
            raise OutOfMemory(f"CUDA out of memory: {made.used_bytes} of {self.memory_bytes}")
        return made

    @property
    def used_bytes(self) -> int:
        return sum(model.instances * model.memory_bytes for model in self.models if model.is_on_gpu)

    def observe(self, concurrency: int, items: int = 1) -> Observation:
        run = _Run(self, items)
        run.run(concurrency)
        return run.observation(concurrency)

    def sweep(self, levels: Sequence[int]) -> list[Observation]:
        return [self.observe(level) for level in levels]


class _Fifo:
    """A first-in, first-out queue with a limited number of jobs in service."""

    def __init__(self, run: "_Run", count: int, switch_s: float = 0.0) -> None:
        self._run, self._free, self._switch_s = run, count, switch_s
        self._queue: deque[tuple[float, object, Callable[[], None]]] = deque()
        self._last: object = None
        self.busy_s = 0.0

    def work(self, seconds: float, owner: object, then: Callable[[], None]) -> None:
        self._queue.append((seconds, owner, then))
        self._start()

    def _start(self) -> None:
        while self._free and self._queue:
            seconds, owner, then = self._queue.popleft()
            if self._switch_s and self._last is not None and owner is not self._last:
                seconds += self._switch_s
            self._last = owner
            self._free -= 1
            self.busy_s += seconds
            self._run.after(seconds, partial(self._end, then))

    def _end(self, then: Callable[[], None]) -> None:
        self._free += 1
        self._start()
        then()


@dataclass
class _Queue:
    model: SimulatedModel
    free: list[object]
    waiting: deque[tuple[float, Callable[[], None]]] = field(default_factory=deque)
    sizes: dict[int, list[float]] = field(default_factory=dict)  # count, seconds, copying
    waited_s: float = 0.0
    requests: int = 0
    core_s: float = 0.0
    timer: float = -1.0


class _Run:
    def __init__(self, server: GpuServer, items: int) -> None:
        self.server, self.items = server, items
        self.random = random.Random(server.seed)
        self.now = 0.0
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.order = self.begun = 0
        self.cores = _Fifo(self, server.cores)
        self.gpu = _Fifo(self, 1, server.switch_s)
        self.queues = [_Queue(model, [object() for _ in range(model.instances)]) for model in server.models]
        self.latencies: list[float] = []

    def after(self, seconds: float, then: Callable[[], None]) -> None:
        self.order += 1
        heappush(self.events, (self.now + seconds, self.order, then))

    def run(self, concurrency: int) -> None:
        for _ in range(concurrency):
            self._begin()
        self._until(3 * concurrency + 20)
        self.started = self.now
        self.latencies.clear()
        self.cores.busy_s = self.gpu.busy_s = 0.0
        for queue in self.queues:
            queue.sizes, queue.waited_s, queue.requests, queue.core_s = {}, 0.0, 0, 0.0
        self._until(max(400, 8 * concurrency))

    def _until(self, requests: int) -> None:
        while len(self.latencies) < requests:
            self.now, _, then = heappop(self.events)
            then()

    def _begin(self) -> None:
        began = self.now
        spread = self.random.uniform(0.2, 1.8)  # replies of a batch do not arrive all at once
        self.begun += 1
        late_s = 0.0 if self.begun % 40 else self.server.late_s
        self.after(self.server.outside_s * spread + late_s, lambda: self._enter(0, began))

    def _enter(self, place: int, began: float) -> None:
        if place == len(self.queues):
            self.latencies.append(self.now - began)
            self._begin()
            return
        queue = self.queues[place]
        queue.waiting.append((self.now, lambda: self._enter(place + 1, began)))
        self._dispatch(queue)

    def _dispatch(self, queue: _Queue) -> None:
        while queue.free and queue.waiting:
            count = self._count(queue)
            if not count:
                return
            taken = [queue.waiting.popleft() for _ in range(count)]
            queue.waited_s += sum(self.now - came for came, _ in taken)
            queue.requests += count
            self._execute(queue, queue.free.pop(), [then for _, then in taken])

    def _count(self, queue: _Queue) -> int:
        model, waiting = queue.model, len(queue.waiting)
        if not model.is_batching:
            return 1
        most = max(1, max(model.preferred, default=model.max_batch) // self.items)
        if waiting >= most:
            return most
        due = queue.waiting[0][0] + model.delay_s
        if self.now >= due - 1e-12:
            return waiting
        if queue.timer != due:
            queue.timer = due
            self.after(due - self.now, lambda: self._dispatch(queue))
        return 0

    def _execute(self, queue: _Queue, instance: object, done: list[Callable[[], None]]) -> None:
        model, items, began = queue.model, len(done) * self.items, self.now
        luck = max(0.5, self.random.gauss(1.0, 0.05))
        copy_s = model.copy_s * len(done)
        core_s = (model.core_s + items * model.core_item_s + (len(done) - 1) * model.request_s) * luck
        gpu_s = (model.gpu_s + items * model.gpu_item_s) * luck
        left = model.kernels if model.is_on_gpu else 1

        def part() -> None:
            nonlocal left
            if not left:
                spent = queue.sizes.setdefault(items, [0.0, 0.0, 0.0])
                spent[0] += 1
                spent[1] += self.now - began
                spent[2] += copy_s
                queue.core_s += self.now - began  # it spins while it waits for the GPU
                queue.free.append(instance)
                self._dispatch(queue)
                for then in done:
                    then()
                return
            left -= 1
            pieces = model.kernels if model.is_on_gpu else 1
            self.cores.work(core_s / pieces, None, lambda: on_gpu(gpu_s / pieces))

        def on_gpu(seconds: float) -> None:
            if seconds:
                self.gpu.work(seconds, instance, part)
            else:
                part()

        self.after(copy_s, part)

    def observation(self, concurrency: int) -> Observation:
        elapsed = self.now - self.started
        noisy = lambda value: value * self.random.gauss(1.0, self.server.noise)  # noqa: E731
        rate = noisy(len(self.latencies) / elapsed)
        share = min(1.0, noisy(min(1.0, self.gpu.busy_s / elapsed)))
        gpu = GpuFigures(
            "GPU-0",
            share,
            100.0 + 500 * share,
            self.server.used_bytes + self.server.other_bytes,
            self.server.memory_bytes,
            share * self.server.memory_share,
            1980.0,
            self.server.used_bytes,
        )
        latency_s = sum(self.latencies) / len(self.latencies)
        steps = tuple(self._step(queue) for queue in self.queues)
        models = {queue.model.name: CoreUse(queue.core_s / elapsed, 0.0) for queue in self.queues}
        busy = min(float(self.server.cores), sum(use.cores for use in models.values()) + 0.5)
        return Observation(
            concurrency=concurrency,
            items=self.items,
            throughput=rate * self.items,
            latency_s=latency_s,
            steps=steps,
            server_s=latency_s - self.server.outside_s / 2,
            client_share=0.1,
            client_core_s=0.00005,
            host=HostUse(self.server.cores, busy, busy - 0.2, models),
            variation=0.05,
            gpus=(gpu,) if self.server.has_gpu_figures else (),
        )

    def _step(self, queue: _Queue) -> Step:
        count = sum(row[0] for row in queue.sizes.values())
        seconds = sum(row[1] for row in queue.sizes.values())
        copying = sum(row[2] for row in queue.sizes.values())
        items = sum(size * row[0] for size, row in queue.sizes.items())
        sizes = tuple(
            Executions(
                size,
                int(number),
                copied * 5e8 / number,
                (spent - copied) * 1e9 / number,
                copied * 5e8 / number,
            )
            for size, (number, spent, copied) in sorted(queue.sizes.items())
        )
        return Step(
            name=queue.model.name,
            calls=1.0,
            service_s=seconds / count,
            own_s=seconds / count,
            wait_s=queue.waited_s / queue.requests,
            batch=items / count,
            setup=queue.model.setup(),
            copy_s=copying / count,
            sizes=sizes,
        )
