"""Load as the controller sees it: apply a plan, collect what came back, read the cost, stop."""

from dataclasses import dataclass, field
from typing import Protocol

from inferometer.load.plan import Plan
from inferometer.records.records import Records, Totals


@dataclass(frozen=True, slots=True)
class Cost:
    """What the workers have spent since they started."""

    cpu_ns: tuple[int, ...]  # of each worker
    sent: int  # requests
    reconnects: int
    connects: int
    connect_ns: int
    files: int = 0  # open in the worker that has most, and how many the system lets it have (0 is no limit)
    file_limit: int = 0
    stolen_ns: int = 0  # of this machine's cores, together, that its host has given to others


@dataclass(frozen=True, slots=True)
class Collected:
    """Every request that ended up to `seen_ns` and was not handed out before (later ones may be among them)."""

    records: Records
    seen_ns: int
    cost: Cost
    is_finished: bool  # the plan's count is used up and all its requests have ended
    loop_lag_ns: int = 0  # how long the slowest worker took to attend to us
    outstanding: int = 0  # requests that have begun and not ended
    heard: int = 0  # how much of their replies has come; any change says that the server is at work


class Load(Protocol):
    """Worker processes, or the engine on a simulated clock."""

    def apply(self, plan: Plan) -> int:
        """Change the load; returns when it stands. The time at which an open plan's schedule begins."""

    def wait(self, until_ns: int) -> None:
        """Let the load go on until then; what ends meanwhile is handed out later."""

    def collect(self, until_ns: int) -> Collected:
        """Wait, but not beyond `until_ns`, and hand out what ended meanwhile. May return early."""

    def examples(self) -> dict[int, str]:
        """What was said first, for each failure status."""

    def stop(self, *, is_urgent: bool = False) -> int:
        """End the load, with more or less patience for outstanding requests; how many were cut off."""

    def totals(self) -> Totals:
        """All requests so far; complete after `stop`."""


@dataclass(slots=True)
class Recorded:
    """Load that keeps what it hands out of the plan that was applied last."""

    load: Load
    parts: list[Records] = field(default_factory=list)
    begun_ns: int = 0  # when that plan began

    def __post_init__(self) -> None:
        self.load.collect(0)  # what earlier plans left behind is not ours

    def apply(self, plan: Plan) -> int:
        self.parts.clear()
        self.begun_ns = self.load.apply(plan)
        return self.begun_ns

    def wait(self, until_ns: int) -> None:
        self.load.wait(until_ns)

    def collect(self, until_ns: int) -> Collected:
        collected = self.load.collect(until_ns)
        self.parts.append(collected.records)
        return collected

    def examples(self) -> dict[int, str]:
        return self.load.examples()

    def stop(self, *, is_urgent: bool = False) -> int:
        return self.load.stop(is_urgent=is_urgent)

    def totals(self) -> Totals:
        return self.load.totals()


class ResizableLoad(Load, Protocol):
    """Load whose number of workers can be changed."""

    @property
    def count(self) -> int: ...

    def resize(self, count: int) -> None:
        """Go on with so many; what they were doing ends, and is not collected."""
