"""What models that share a machine cost each other, as one value and one file."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from inferometer.base.answer_file import notebook_html
from inferometer.compare.comparison import SLOWER, Difference
from inferometer.stats.measurement import Measurement

CORES, GPU, BANDWIDTH, QUEUE, FRONT, NOTHING, UNKNOWN = (
    "cores",
    "GPU",
    "memory bandwidth",
    "queue of the server",
    "front end",
    "nothing",
    "unknown",
)
"""What models contend for."""


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
    waiting: float  # cores that the models' processes would have used and did not get
    gpu_share: float | None = None  # of the busiest GPU
    gpu_memory_share: float | None = None  # of the time, reading or writing its memory


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


@dataclass(frozen=True, slots=True)
class Interference:
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
    def failed_count(self) -> int:
        return sum(row.alone.failed_count + row.together.failed_count for row in self.models)

    def _repr_html_(self) -> str:
        return notebook_html(self)
