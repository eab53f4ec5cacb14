"""What models that share a machine cost each other, as one value and one file."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from inferometer.base.answer_file import Answer
from inferometer.base.units import quantity
from inferometer.compare.comparison import SLOWER, THROUGHPUT, Difference
from inferometer.stats.measurement import CROWDED, Measurement
from inferometer.stats.verdict import INCONCLUSIVE, MATTERS_PERCENT, NOT_SHOWN, SHOWN, Ruling, rule

CORES, GPU, BANDWIDTH, QUEUE, FRONT, NOTHING, UNKNOWN, HIDDEN, CLIENT = (
    "cores",
    "GPU",
    "memory bandwidth",
    "queue of the server",
    "front end",
    "nothing",
    "unknown",
    "something unseen",
    "this tool",
)
"""What models contend for. HIDDEN is a lock or queue that no resource shows, CLIENT that this tool was starved."""


@dataclass(frozen=True, slots=True)
class ServerTimes:
    """What the server said of the requests of a model, on average; None where it does not count them."""

    requests: int
    queue_ns: int
    compute_ns: int


@dataclass(frozen=True, slots=True)
class SharedUse:
    """Of the machine, while one model was loaded alone, or all together. None is what could not be seen."""

    cores: int
    busy: float  # cores
    server_cores: float | None
    waiting: float  # cores that the servers' threads would have used and did not get
    gpu_share: float | None = None  # of the busiest GPU
    gpu_memory_share: float | None = None  # of the time, reading or writing its memory
    others: float | None = None  # cores that other programs kept busy
    client_waiting: float = 0.0  # cores that this tool would have used and did not get


@dataclass(frozen=True, slots=True)
class SharedModel:
    """One model: alone, with the others, and the difference that this makes."""

    name: str
    model: str
    url: str
    alone: Measurement
    together: Measurement
    differences: tuple[Difference, ...]
    use: SharedUse | None  # of the machine, alone
    server_alone: ServerTimes | None
    server_together: ServerTimes | None
    contends_for: str  # one of those above
    reason: str  # the figures that show it

    @property
    def is_slowed(self) -> bool:
        """Sharing costs it something, by any figure."""
        return any(row.verdict == SLOWER for row in self.differences)

    def ruling(self, mode: str) -> Ruling:
        """Whether sharing costs it something: of a load by rate, throughput is given and percentiles decide."""
        if self.is_slowed:
            return SHOWN
        first = self.headline(mode)
        if first is None:
            return INCONCLUSIVE
        loses_below = rule(first.percent, matters=MATTERS_PERCENT, is_above=first.metric != THROUGHPUT).ruling
        return loses_below if loses_below == NOT_SHOWN else INCONCLUSIVE

    def headline(self, mode: str) -> Difference | None:
        """The figure that speaks for the model."""
        rows = [row for row in self.differences if (row.metric == THROUGHPUT) == (mode == "concurrency")]
        return rows[0] if rows else None


@dataclass(frozen=True, slots=True)
class Interference(Answer):
    """`problems` say why it is not whole."""

    kind: ClassVar[str] = "interference"
    schema: ClassVar[int] = 1
    remedy: ClassVar[str] = "measure again"

    tool: str
    started_at: str
    mode: str  # concurrency or request_rate
    value: float  # the load of each
    seconds: float  # for which each was measured alone, and all together
    rounds: int
    confidence: float  # with which all intervals hold together
    host: Mapping[str, Any]
    models: tuple[SharedModel, ...]
    use: SharedUse | None  # of the machine, all together
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def busy_machine(self) -> str:
        """That other programs kept the machine busy; nothing where they did not."""
        others = None if self.use is None else self.use.others
        if self.use is None or others is None or others < CROWDED * self.use.cores:
            return ""
        return f"Other programs kept {quantity(others)} of this machine's {self.use.cores} cores busy."

    @property
    def ruling(self) -> Ruling:
        """Of all models together: one that is slowed is enough, and one that is inconclusive leaves it open."""
        found = [row.ruling(self.mode) for row in self.models]
        return min(found, key=(SHOWN, INCONCLUSIVE, NOT_SHOWN).index, default=INCONCLUSIVE)

    @property
    def failed_count(self) -> int:
        return sum(row.alone.failed_count + row.together.failed_count for row in self.models)
