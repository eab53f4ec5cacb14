"""A whole diagnosis as one value and one file, from which every report can be produced again."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar

from inferometer.base.answer_file import Answer
from inferometer.base.frozen import frozen
from inferometer.base.notes import CLIENT_LIMITS
from inferometer.base.units import INFERENCES
from inferometer.diagnose.serving import DECODE, KV_CACHE, PREFILL, Serving
from inferometer.stats.estimate import Estimate
from inferometer.stats.intervals import relative_difference
from inferometer.stats.machine_figures import GpuFigures
from inferometer.stats.measurement import Level
from inferometer.stats.result import Result
from inferometer.stats.verdict import INCONCLUSIVE, MATTERS_PERCENT, NOT_SHOWN, Ruling, rule

COMMAND = "diagnose"

CLIENT = "client"  # this tool itself
NETWORK = "network"  # time between client and server
QUEUE = "queue"  # requests wait although no step is busy: bursts, or a queue delay
COMPUTE = "compute"  # one step's instances are all busy
BATCHING = "batching"  # the same, and the step supports batches but gets one request at a time
CPU = "cpu"  # every core is busy
OVERHEAD = "overhead"  # the server's own work outside the steps
LIGHT = "light"  # nothing is exhausted: throughput would grow with more load
UNKNOWN = "unknown"  # the server provides no statistics
SHARED = "shared"  # instances hold each other up, but not on a core: a lock, a queue, an external limit
GPU = "gpu"  # the GPU is busy all the time
LAUNCH = "launch"  # the GPU idles between small executions, one after the other
FEED = "feed"  # the GPU waits for the CPU, in an earlier step or the same one
COPY = "copy"  # the GPU waits for tensors to be copied
GPU_MEMORY = "gpu memory"  # no more instances fit into the memory of the GPU
KINDS = (
    *(CLIENT, NETWORK, QUEUE, COMPUTE, BATCHING, CPU, OVERHEAD, LIGHT, UNKNOWN, SHARED),
    *(GPU, LAUNCH, FEED, COPY, GPU_MEMORY),
    *(PREFILL, DECODE, KV_CACHE),  # of servers that generate text
)

INSTANCES = "instances"
DYNAMIC_BATCHING = "dynamic batching"
TRANSPORT = "transport"
CLIENT_BATCH = "client batch"
THREADS = "server threads"
CONCURRENCY = "concurrency"

SWITCHED_OFF = "off"  # dynamic batching, after a change
WORSE = -0.05  # a measured loss that is more than noise
DEEPEST = 100  # nested calls of steps; the server itself allows fewer


@frozen
class Verdict:
    """What limits the throughput: the kind of limit, the step (if any), and a sentence."""

    kind: str  # one of KINDS
    sentence: str
    step: str | None = None


@frozen
class StepFigures:
    """One step (a model that is executed) at the diagnosed level."""

    name: str
    depth: int  # 0 for a step of the pipeline, 1 for a step called by it, and so on
    calls: float  # per request of the top model
    service_ns: float  # per execution, whatever its batch size
    queue_ns: float  # queueing, per request of the top model
    compute_ns: float  # executing, per request of the top model
    latency_share: float  # of the latency seen by the client, including queueing
    light_share: float  # the same at the lightest load of the sweep, almost without queueing
    compute_share: float  # of the execution time of all steps
    instances: int
    device: str  # cpu or gpu
    batch: float  # inferences per execution, as formed
    max_batch: int  # 0 for a model without batching
    is_batching: bool  # the server forms batches for it
    utilisation: float  # throughput x service time / instances: 1 if all instances are always busy
    bound: float | None  # highest infer/s that this step allows the pipeline; None if it was not called

    def __post_init__(self) -> None:
        if not 0 <= self.depth <= DEEPEST:
            raise ValueError(f"step depth {self.depth} is not between 0 and {DEEPEST}")


@frozen
class Change:
    """A change to make. `settings` replaces parts of the model's configuration; it is empty if the change is
    elsewhere."""

    kind: str  # instances, dynamic batching, transport, client batch, server threads, concurrency
    model: str  # the model to change; the top model for changes to the client
    before: str
    after: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def can_apply(self) -> bool:
        return bool(self.settings)


@frozen
class Suggestion:
    """A change with its expected effect and the reason."""

    change: Change
    text: str  # the change in words
    concurrency: int  # the load of the prediction
    throughput: float  # predicted, infer/s
    latency_ns: float  # predicted mean
    gain: float  # relative gain in throughput: 0.4 is 40 % more
    why: str


@frozen
class ChangeTrial:
    """A suggestion that was tried, with predicted and measured figures."""

    suggestion: Suggestion
    throughput: float  # measured, infer/s; 0 if the configuration could not be loaded
    latency_ns: float
    gain: float  # measured
    is_kept: bool
    result: int | None  # its index in the diagnosis's results
    failure: str = ""  # the server's error message if it rejected the configuration
    lesson: str = ""  # what the model learned from a wrong prediction

    @property
    def ratio(self) -> float:
        """Measured over predicted throughput."""
        return self.throughput / self.suggestion.throughput if self.suggestion.throughput else 0.0

    def rules_out(self, change: Change) -> bool:
        """Return whether the change, or a smaller one of its kind, was tried without success; a loss rules out any
        change in that direction."""
        tried = self.suggestion.change
        if (tried.model, tried.kind) != (change.model, change.kind) or self.is_kept:
            return False
        if change.kind != INSTANCES:
            return (tried.after == SWITCHED_OFF) == (change.after == SWITCHED_OFF)
        before, after, wanted = int(tried.before), int(tried.after), int(change.after)
        is_same_way = (wanted > before) == (after > before)
        is_further = abs(wanted - before) >= abs(after - before)
        return is_same_way and (is_further or self.gain < WORSE)


@frozen
class CurvePoint:
    """The figures of the queueing model for one load, next to the measured ones."""

    concurrency: int
    throughput: float
    latency_ns: float
    measured_throughput: float | None
    measured_latency_ns: float | None


@frozen
class Machine:
    """Observations of the server's host; None for unknown values."""

    cores: int | None
    effective_cores: float | None  # the work that all cores do together, if known
    cpu_share: float | None  # at the diagnosed level, over all cores
    gpu_share: float | None  # of the busiest GPU
    gpus: tuple[GpuFigures, ...] = ()  # at the diagnosed level


@frozen
class Diagnosis(Answer):
    """A diagnosis; `results` holds the sweep first, then one result for each measured trial."""

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
    client_ns: float  # of the latency, outside the server
    overhead_ns: float  # of the latency, in the server but outside all steps
    machine: Machine
    suggestions: tuple[Suggestion, ...]
    curve: tuple[CurvePoint, ...]
    results: tuple[Result, ...]
    trials: tuple[ChangeTrial, ...] = ()
    after: Verdict | None = None  # the limit after all kept changes
    is_restored: bool | None = None  # whether the original configuration is back, after changes
    is_stopped: bool = False  # the command started the server, and stopped it
    notes: tuple[str, ...] = ()  # missing information and its consequences
    serving: Serving | None = None  # only for servers that generate text

    @property
    def rate_unit(self) -> str:
        """The unit of throughput."""
        return self.results[0].effective.rate_unit if self.results else INFERENCES

    @property
    def best(self) -> ChangeTrial | None:
        """The last trial whose change was kept."""
        return next((trial for trial in reversed(self.trials) if trial.is_kept), None)

    @property
    def measured_gain(self) -> Estimate | None:
        """Throughput gain of all kept changes in percent; None if there are none, or without an interval."""
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

    def _levels_of(self, place: int | None) -> list[Level]:
        """Return the levels of one of the results at the diagnosed load."""
        levels = self.results[place].levels if place is not None and place < len(self.results) else ()
        return [row for row in levels if row.value == self.concurrency]

    def _throughput_of(self, place: int) -> Estimate | None:
        rows = (row.measurement for row in self._levels_of(place))
        return next((row.infer_per_s for row in rows if row is not None), None)

    @property
    def is_client_limited(self) -> bool:
        """Whether the figures before or after the kept changes are those of a client at its limit."""
        best = self.best
        compared = [] if best is None else [*self._levels_of(0), *self._levels_of(best.result)]
        return any(level.has_remark(*CLIENT_LIMITS) for level in compared)

    @property
    def ruling(self) -> Ruling:
        """Whether the kept changes helped; not shown if there are none."""
        if self.best is None:
            return NOT_SHOWN
        if self.is_client_limited:
            return INCONCLUSIVE
        gain = self.measured_gain
        return INCONCLUSIVE if gain is None else rule(gain, matters=MATTERS_PERCENT).ruling

    @property
    def untried(self) -> tuple[Suggestion, ...]:
        """Suggestions not yet tried whose predicted throughput exceeds that of the kept changes."""
        best = self.best
        done = {
            (row.suggestion.change.model, row.suggestion.change.kind) for row in self.trials if row.is_kept
        }
        return tuple(
            row
            for row in self.suggestions
            if (row.change.model, row.change.kind) not in done
            and (best is None or row.concurrency != self.concurrency or row.throughput > best.throughput)
            and not any(trial.rules_out(row.change) for trial in self.trials)
        )
