"""A whole diagnosis as one value and one file: every report can be made again from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from inferometer.base.answer_file import Answer
from inferometer.diagnose.serving import DECODE, KV_CACHE, PREFILL, Serving
from inferometer.stats.intervals import relative_difference
from inferometer.stats.measurement import Estimate, GpuFigures
from inferometer.stats.result import Result
from inferometer.stats.verdict import INCONCLUSIVE, MATTERS_PERCENT, NOT_SHOWN, Ruling, rule

COMMAND = "diagnose"

CLIENT = "client"  # the tool itself was the limit
NETWORK = "network"  # time passes between client and server
QUEUE = "queue"  # requests wait though no step is busy: too few arrive to be served at once, or a delay holds them
COMPUTE = "compute"  # one step's instances are all busy
BATCHING = "batching"  # the same, and the step could take several requests at once but does not
CPU = "cpu"  # every core is busy
OVERHEAD = "overhead"  # the server's own work around the steps
LIGHT = "light"  # nothing is: more load would bring more throughput
UNKNOWN = "unknown"  # the server gives no statistics
SHARED = "shared"  # instances hold each other up, and not on a core: a lock, a queue, a limit elsewhere
GPU = "gpu"  # the GPU is busy all the time
LAUNCH = "launch"  # it idles between small executions, one after the other
FEED = "feed"  # it waits for what the CPU does before or beside it
COPY = "copy"  # it waits for tensors to be copied
GPU_MEMORY = "gpu memory"  # no other instance fits into its memory
KINDS = (
    *(CLIENT, NETWORK, QUEUE, COMPUTE, BATCHING, CPU, OVERHEAD, LIGHT, UNKNOWN, SHARED),
    *(GPU, LAUNCH, FEED, COPY, GPU_MEMORY),
    *(PREFILL, DECODE, KV_CACHE),  # of servers that make text
)

INSTANCES = "instances"
DYNAMIC_BATCHING = "dynamic batching"
TRANSPORT = "transport"
CLIENT_BATCH = "client batch"
THREADS = "server threads"
CONCURRENCY = "concurrency"

WORSE = -0.05  # a measured loss beyond noise
DEEPEST = 100  # of steps that call steps; the server itself allows fewer


@dataclass(frozen=True, slots=True)
class Verdict:
    """What limits the throughput: its kind, the step it is about (if any), and one plain sentence."""

    kind: str  # one of KINDS
    sentence: str
    step: str | None = None


@dataclass(frozen=True, slots=True)
class StepFigures:
    """One step (a model that works) at the diagnosed level."""

    name: str
    depth: int  # 0 for a step of the pipeline, 1 for one that such a step calls, and so on
    calls: float  # per request of the top model
    service_ns: float  # of one execution, whatever its batch
    queue_ns: float  # waiting, per request of the top model
    compute_ns: float  # working, per request of the top model
    latency_share: float  # of the latency the client sees, waiting included
    light_share: float  # the same at the lightest load of the sweep, where hardly anything waits
    compute_share: float  # of the work of all steps
    instances: int
    device: str  # cpu or gpu
    batch: float  # inferences per execution, as formed
    max_batch: int  # 0 for a model that takes no batches
    is_batching: bool  # the server forms batches for it
    utilisation: float  # throughput x service time / instances: 1 when all its instances are always busy
    bound: float | None  # infer/s the pipeline cannot exceed because of this step; None if it was not called

    def __post_init__(self) -> None:
        if not 0 <= self.depth <= DEEPEST:
            raise ValueError(f"step depth {self.depth} is not between 0 and {DEEPEST}")


@dataclass(frozen=True, slots=True)
class Change:
    """One thing to change. `settings` is what it replaces in the model's configuration; empty when it is not there."""

    kind: str  # instances, dynamic batching, transport, client batch, server threads, concurrency
    model: str  # whose; the top model for what concerns the client
    before: str
    after: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def can_apply(self) -> bool:
        return bool(self.settings)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change with what it is expected to bring, and why."""

    change: Change
    text: str  # what to do, in words
    concurrency: int  # the load the prediction is for
    throughput: float  # predicted, infer/s
    latency_ns: float  # predicted mean
    gain: float  # of throughput, as a share: 0.4 is 40 % more
    why: str


@dataclass(frozen=True, slots=True)
class ChangeTrial:
    """A suggestion that was tried: predicted against measured."""

    suggestion: Suggestion
    throughput: float  # measured, infer/s; 0 when the configuration could not be loaded
    latency_ns: float
    gain: float  # measured
    is_kept: bool
    result: int | None  # its place in the diagnosis's results
    failure: str = ""  # what the server said when it refused the configuration
    lesson: str = ""  # where the prediction was off: what the model learned from it

    @property
    def ratio(self) -> float:
        """Measured over predicted throughput."""
        return self.throughput / self.suggestion.throughput if self.suggestion.throughput else 0.0

    def rules_out(self, change: Change) -> bool:
        """Whether the change, or less of the same, was tried and did not help; after harm, not even less is tried."""
        tried = self.suggestion.change
        if (tried.model, tried.kind) != (change.model, change.kind) or self.is_kept:
            return False
        if change.kind != INSTANCES:
            return True
        before, after, wanted = int(tried.before), int(tried.after), int(change.after)
        is_same_way = (wanted > before) == (after > before)
        is_further = abs(wanted - before) >= abs(after - before)
        return is_same_way and (is_further or self.gain < WORSE)


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """What the queueing model says for one load, beside what was measured."""

    concurrency: int
    throughput: float
    latency_ns: float
    measured_throughput: float | None
    measured_latency_ns: float | None


@dataclass(frozen=True, slots=True)
class Machine:
    """The host as far as it was seen; None where it was not."""

    cores: int | None
    effective_cores: float | None  # what so many busy instances really got, when that could be seen
    cpu_share: float | None  # at the diagnosed level, all cores together
    gpu_share: float | None  # of the busiest GPU
    gpus: tuple[GpuFigures, ...] = ()  # at the diagnosed level


@dataclass(frozen=True, slots=True)
class Diagnosis(Answer):
    """`results` holds the sweep first, then one result for each trial that was measured."""

    kind: ClassVar[str] = "diagnosis"
    schema: ClassVar[int] = 1
    remedy: ClassVar[str] = "diagnose again"

    tool: str
    command: str
    started_at: str
    model: str
    verdict: Verdict
    concurrency: int  # the diagnosed level
    throughput: float  # measured there
    latency_ns: float
    steps: tuple[StepFigures, ...]
    client_ns: float  # of the latency: outside the server
    overhead_ns: float  # of the latency: in the server, but in no step
    machine: Machine
    suggestions: tuple[Suggestion, ...]
    curve: tuple[CurvePoint, ...]
    results: tuple[Result, ...]
    trials: tuple[ChangeTrial, ...] = ()
    after: Verdict | None = None  # once trials were kept: what limits it now
    is_restored: bool | None = None  # once something was applied: whether the original configuration is back
    notes: tuple[str, ...] = ()  # what could not be seen, and what that means
    serving: Serving | None = None  # only of servers that make text

    @property
    def best(self) -> ChangeTrial | None:
        """The last trial that was kept."""
        return next((trial for trial in reversed(self.trials) if trial.is_kept), None)

    @property
    def measured_gain(self) -> Estimate | None:
        """Of throughput by all changes that were kept, in percent; None where nothing was, or it has no interval."""
        best = self.best
        if best is None or best.result is None:
            return None
        before, after = (self._throughput_of(place) for place in (0, best.result))
        if before is None or after is None:
            return None
        found = relative_difference(before, after)
        if found.limits is None or not self.throughput:
            return None
        change = (best.throughput / self.throughput - 1) * 100
        low, high = (end * 100 for end in found.limits)
        return Estimate(change, min(low, change), max(high, change))

    def _throughput_of(self, place: int) -> Estimate | None:
        """At the diagnosed level of one of the results."""
        levels = self.results[place].levels if place < len(self.results) else ()
        rows = (row.measurement for row in levels if row.value == self.concurrency)
        return next((row.infer_per_s for row in rows if row is not None), None)

    @property
    def ruling(self) -> Ruling:
        """Whether the changes that were kept helped; without any, nothing is claimed."""
        if self.best is None:
            return NOT_SHOWN
        gain = self.measured_gain
        return INCONCLUSIVE if gain is None else rule(gain, matters=MATTERS_PERCENT).ruling

    @property
    def untried(self) -> tuple[Suggestion, ...]:
        """Suggestions that no trial confirmed or disproved."""
        done = {
            (row.suggestion.change.model, row.suggestion.change.kind) for row in self.trials if row.is_kept
        }
        return tuple(
            row
            for row in self.suggestions
            if (row.change.model, row.change.kind) not in done
            and not any(trial.rules_out(row.change) for trial in self.trials)
        )
