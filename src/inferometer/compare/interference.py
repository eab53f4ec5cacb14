"""The mutual slowdown of models that share a machine, as one value and one file."""

from collections.abc import Mapping
from typing import Any, ClassVar

from inferometer.base.answer_file import Answer
from inferometer.base.frozen import frozen
from inferometer.base.units import INFERENCES, quantity
from inferometer.compare.comparison import SLOWER, THROUGHPUT, Difference
from inferometer.stats.machine_figures import CROWDED
from inferometer.stats.measurement import Measurement
from inferometer.stats.verdict import INCONCLUSIVE, MATTERS_PERCENT, NOT_SHOWN, SHOWN, Ruling, rule

CORES, GPU, BANDWIDTH, WORK, QUEUE, FRONT, NOTHING, UNKNOWN, HIDDEN, CLIENT, STRANGER = (
    "cores",
    "GPU",
    "memory bandwidth",
    "CPU time",
    "queue of the server",
    "front end",
    "nothing",
    "unknown",
    "something unseen",
    "this tool",
    "another program",
)
"""Resources that models contend for. WORK: a request takes more CPU time, as with shared caches or a lock that spins;
HIDDEN: a lock or queue not visible in any resource; CLIENT: this tool; STRANGER: another program uses the GPU, so
contention among the models cannot be established."""


@frozen
class ServerTimes:
    """The server's average times for a model's requests; None if it does not count them."""

    requests: int
    queue_ns: int
    compute_ns: int


@frozen
class SharedUse:
    """Use of the machine while one model was loaded alone, or all together; None for figures that could not be
    observed."""

    cores: int
    busy: float  # cores
    server_cores: float | None
    waiting: float | None  # cores that the servers' threads waited for; None if the system does not say
    gpu_share: float | None = None  # utilization of the busiest GPU
    gpu_memory_share: float | None = None  # share of time in which its memory was read or written
    others: float | None = None  # cores used by other programs
    client_waiting: float | None = 0.0  # cores that this tool waited for
    gpu_strangers: tuple[int, ...] = ()  # processes of other programs that used the busiest GPU


@frozen
class SharedModel:
    """The figures of a model alone and with the other models, and their differences."""

    name: str
    model: str
    url: str
    alone: Measurement
    together: Measurement
    differences: tuple[Difference, ...]
    use: SharedUse | None  # of the machine, alone
    server_alone: ServerTimes | None
    server_together: ServerTimes | None
    contends_for: str  # one of the resources above
    reason: str  # the figures that show it

    @property
    def is_slowed(self) -> bool:
        """Whether any figure shows that sharing slows the model."""
        return any(row.verdict == SLOWER for row in self.differences)

    def ruling(self, mode: str) -> Ruling:
        """Return whether sharing slows the model; at a rate, the percentiles decide, since throughput is given."""
        if self.is_slowed:
            return SHOWN
        first = self.headline(mode)
        if first is None:
            return INCONCLUSIVE
        loses_below = rule(first.percent, matters=MATTERS_PERCENT, is_above=first.metric != THROUGHPUT).ruling
        return loses_below if loses_below == NOT_SHOWN else INCONCLUSIVE

    def headline(self, mode: str) -> Difference | None:
        """Return the main figure of the model."""
        rows = [row for row in self.differences if (row.metric == THROUGHPUT) == (mode == "concurrency")]
        return rows[0] if rows else None


@frozen
class Interference(Answer):
    """The interference among models; `problems` explain why it is incomplete."""

    kind: ClassVar[str] = "interference"
    schema: ClassVar[int] = 1
    remedy: ClassVar[str] = "measure again"

    tool: str
    started_at: str
    mode: str  # concurrency or request_rate
    value: float  # the load of each model
    seconds: float  # of measurement for each model alone, and for all together
    rounds: int
    confidence: float  # with which all intervals hold jointly
    host: Mapping[str, Any]
    models: tuple[SharedModel, ...]
    use: SharedUse | None  # of the machine, all together
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    rate_unit: str = INFERENCES  # of throughput

    @property
    def busy_machine(self) -> str:
        """A sentence saying that other programs kept the machine busy; empty if they did not."""
        others = None if self.use is None else self.use.others
        if self.use is None or others is None or others < CROWDED * self.use.cores:
            return ""
        return f"Other programs kept {quantity(others)} of this machine's {self.use.cores} cores busy."

    @property
    def ruling(self) -> Ruling:
        """The overall ruling: one slowed model is enough; otherwise one inconclusive model leaves it open."""
        found = [row.ruling(self.mode) for row in self.models]
        return min(found, key=(SHOWN, INCONCLUSIVE, NOT_SHOWN).index, default=INCONCLUSIVE)

    @property
    def failed_count(self) -> int:
        return sum(row.alone.failed_count + row.together.failed_count for row in self.models)
