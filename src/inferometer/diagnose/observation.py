"""Observation of a pipeline under one load: calls, execution times and configuration of each step."""

from collections.abc import Iterator, Mapping
from typing import Any

from inferometer.base.frozen import frozen
from inferometer.base.notes import CLIENT_LIMITS
from inferometer.base.units import INFERENCES, NS_PER_S, NS_PER_US
from inferometer.model.spec import ModelSpec
from inferometer.observe.statistics import Counters, Executions, ModelStatistics
from inferometer.stats.estimate import Estimate
from inferometer.stats.machine_figures import CROWDED, GpuFigures, HostUse, NetworkFigures
from inferometer.stats.measurement import Level

US_PER_S = 1_000_000


@frozen
class StepSetup:
    """The configuration of a step on the server."""

    instances: int = 1
    device: str = "cpu"
    max_batch: int = 0
    is_batching: bool = False
    preferred: tuple[int, ...] = ()
    delay_s: float = 0.0
    is_sequence: bool = False
    gpus: int = 1  # number of GPUs it runs on, if any


@frozen
class Step:
    """One observed step. `service_s` includes the steps that it calls, `own_s` does not."""

    name: str
    calls: float  # per call of the caller
    service_s: float  # mean of an execution
    own_s: float
    wait_s: float = 0.0  # mean per call
    batch: float = 1.0  # inferences per execution
    setup: StepSetup = StepSetup()
    members: tuple["Step", ...] = ()
    copy_s: float = 0.0  # per execution, moving its tensors in and out
    sizes: tuple[Executions, ...] = ()  # by batch size, if the server reports them

    @property
    def spent_s(self) -> float:
        """Mean execution time per request; a large execution serves more requests."""
        items = sum(row.count * row.size for row in self.sizes)
        if not items:
            return self.service_s
        return sum(row.count * row.size * row.total_ns for row in self.sizes) / items / NS_PER_S


@frozen
class Observation:
    """A level with all data that explains it."""

    concurrency: int
    items: int  # inferences per request
    throughput: float  # infer/s
    latency_s: float
    steps: tuple[Step, ...]
    server_s: float | None = None  # part of the latency spent in the server
    client_share: float = 0.0  # share of a core used by our busiest worker
    client_core_s: float = 0.0  # our own core time per request
    host: HostUse | None = None
    variation: float | None = None  # coefficient of variation of the latency
    gpus: tuple[GpuFigures, ...] = ()  # from the server's metrics, or from NVML on this machine
    rate_unit: str = INFERENCES
    noise: float = 0.0  # relative half-width of the throughput's 95 % interval; 0 if unknown
    trip_s: float | None = None  # round trip of the network; None if unknown, or on this machine
    client_limit: str = ""  # how this tool limits the figures, if it does

    @property
    def rate(self) -> Estimate:
        """The throughput with its interval, if that is known."""
        width = self.throughput * self.noise
        ends = (self.throughput - width, self.throughput + width) if width else ()
        return Estimate(self.throughput, *ends)

    @property
    def gpu(self) -> GpuFigures | None:
        """The busiest GPU with known utilisation."""
        known = [gpu for gpu in self.gpus if gpu.utilization is not None]
        return max(known, key=lambda gpu: gpu.utilization or 0.0, default=None)

    @property
    def gpu_share(self) -> float | None:
        return None if self.gpu is None else self.gpu.utilization

    @property
    def client_cores(self) -> float:
        """Cores used by this program."""
        return self.throughput / self.items * self.client_core_s

    @property
    def other_cores(self) -> float | None:
        """Cores used by other programs; None if the server's processes were not observed."""
        if self.host is None or self.host.server is None:
            return None
        return max(0.0, self.host.busy - self.host.server - max(self.client_cores, self.host.ours.cores))

    @property
    def is_crowded(self) -> bool:
        """Whether no core is free and other programs use many of them."""
        others = self.other_cores
        return (
            self.host is not None
            and others is not None
            and self.host.is_full
            and others > CROWDED * self.host.cores
        )

    def walk(self) -> Iterator[tuple[Step, float, int]]:
        """Yield every step with its calls per request and its depth, members after their caller."""
        return _walk(self.steps, 1.0, 0)


def _walk(steps: tuple[Step, ...], calls: float, depth: int) -> Iterator[tuple[Step, float, int]]:
    for step in steps:
        yield step, calls * step.calls, depth
        yield from _walk(step.members, calls * step.calls, depth + 1)


def inside_s(steps: tuple[Step, ...]) -> float:
    """Return how long the caller waits for these steps and the steps they call."""
    return sum(step.calls * (step.wait_s + step.spent_s) for step in steps)


def step_setup(config: Mapping[str, Any]) -> StepSetup:
    """Read the setup from a model's configuration in the server's JSON form."""
    groups = config.get("instance_group", ())
    batching = config.get("dynamic_batching")
    return StepSetup(
        instances=max(1, sum(_instances(group) for group in groups)),
        device="gpu" if any(group.get("kind") == "KIND_GPU" for group in groups) else "cpu",
        max_batch=int(config.get("max_batch_size", 0)),
        is_batching=batching is not None,
        preferred=tuple(int(size) for size in (batching or {}).get("preferred_batch_size", ())),
        delay_s=int((batching or {}).get("max_queue_delay_microseconds", 0)) / US_PER_S,
        is_sequence="sequence_batching" in config,
        gpus=max(1, len({gpu for group in groups for gpu in group.get("gpus", ())})),
    )


def _instances(group: Mapping[str, Any]) -> int:
    on = len(group.get("gpus", ())) if group.get("kind") == "KIND_GPU" else 1
    return max(1, int(group.get("count", 1))) * max(1, on)


Sizes = Mapping[tuple[str, str], tuple[Executions, ...]]
"""Executions by batch size, for each (model, version)."""


def observation(
    level: Level, model: ModelSpec, sizes: Sizes | None = None, rate_unit: str = INFERENCES
) -> Observation | None:
    """Return the observation of a level; None if no request succeeded. Without statistics it has no steps.

    `sizes` replaces the batch sizes in the level's statistics.
    """
    found = level.measurement
    if found is None or not found.request_count:
        return None
    stats = found.server
    calls = 0 if stats is None else stats.counters.success_count
    host = level.host if level.host is not None and level.host.is_local else None
    return Observation(
        concurrency=max(1, round(level.value)) if level.mode == "concurrency" else 1,
        items=found.batch,
        throughput=found.infer_per_s.value,
        latency_s=found.latency.mean_ns / NS_PER_S,
        steps=tuple(_steps(model, stats, 1.0, sizes or {})) if stats and calls else (),
        server_s=stats.counters.success_ns / calls / NS_PER_S if stats and calls else None,
        client_share=found.client.cpu_share,
        client_core_s=found.client.cpu_us_per_request * NS_PER_US / NS_PER_S,
        host=host,
        variation=(found.latency.std_ns or 0) / found.latency.mean_ns if found.latency.mean_ns else None,
        gpus=(found.metrics.gpus if found.metrics is not None else ()) or (() if host is None else host.gpus),
        rate_unit=rate_unit,
        noise=found.infer_per_s.relative_half_width or 0.0,
        trip_s=_trip_s(level.network),
        client_limit=next((row.text for row in level.remarks if row.note in CLIENT_LIMITS), ""),
    )


def _trip_s(network: NetworkFigures | None) -> float | None:
    return None if network is None or network.is_local else network.round_trip.value / NS_PER_S


def _steps(model: ModelSpec, stats: ModelStatistics, calls: float, sizes: Sizes) -> Iterator[Step]:
    """Yield the steps that are executed; `calls` is the number of calls of the model by its caller."""
    if not (model.is_ensemble and model.composing):
        if stats.counters.compute_infer_count:
            yield _step(model, stats, calls, sizes)
        return
    seen: set[tuple[str, str]] = set()  # the server counts per model, not per position in an ensemble
    for member, member_stats, places in _in_order(model, stats):
        if (member.name, member_stats.version) not in seen:
            seen.add((member.name, member_stats.version))
            yield from _steps(member, member_stats, calls * places, sizes)


def _in_order(model: ModelSpec, stats: ModelStatistics) -> list[tuple[ModelSpec, ModelStatistics, int]]:
    """Return the members in the order of the ensemble's steps, with their number of steps, which is exact, unlike
    counts of a short run."""
    listed = [step.get("model_name") for step in model.config.get("ensemble_scheduling", {}).get("step", ())]
    found = [
        (member, member_stats, max(1, listed.count(member.name)))
        for member, member_stats in zip(model.composing, stats.members, strict=True)
    ]
    return sorted(found, key=lambda row: listed.index(row[0].name) if row[0].name in listed else len(listed))


def _step(model: ModelSpec, stats: ModelStatistics, calls: float, sizes: Sizes) -> Step:
    """Return the step. Times are per execution; without batch sizes they are per request, with more weight on
    large batches."""
    counters = stats.counters
    count = counters.compute_infer_count
    seen = sizes.get((model.name, stats.version), ()) or counters.executions
    runs = sum(row.count for row in seen)
    service_s = counters.compute_ns / count / NS_PER_S
    copy_s = (counters.compute_input_ns + counters.compute_output_ns) / count / NS_PER_S
    batch = counters.inference_count / counters.execution_count if counters.execution_count else 1.0
    if runs:
        service_s = sum(row.count * row.total_ns for row in seen) / runs / NS_PER_S
        copy_s = sum(row.count * (row.input_ns + row.output_ns) for row in seen) / runs / NS_PER_S
        batch = sum(row.count * row.size for row in seen) / runs
    members = tuple(
        step
        for member, member_stats in zip(model.composing, stats.members, strict=True)
        for step in _steps(member, member_stats, _ratio(member_stats, counters), sizes)
    )
    return Step(
        name=model.name,
        calls=calls * count / max(count, counters.success_count),  # cached answers are not executions
        service_s=service_s,
        own_s=max(0.0, service_s - inside_s(members)),
        wait_s=counters.queue_ns / counters.queue_count / NS_PER_S if counters.queue_count else 0.0,
        batch=batch,
        setup=step_setup(model.config),
        members=members,
        copy_s=copy_s,
        sizes=seen,
    )


def _ratio(member: ModelStatistics, caller: Counters) -> float:
    return member.counters.success_count / caller.success_count if caller.success_count else 0.0
