"""A bar: one figure of ours, alone or relative to another tool's, and its target."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum


class BenchError(Exception):
    """A bar cannot be measured; the message says why and what to do."""


class Direction(Enum):
    """The side of the target on which a bar is met."""

    AT_MOST = "<="
    AT_LEAST = ">="


@dataclass(frozen=True, slots=True)
class Sample:
    """The figure of one tool in one round; `info` is shown but not judged."""

    value: float
    info: Mapping[str, float] = field(default_factory=dict)


Measure = Callable[[], Sample]


@dataclass(frozen=True, slots=True)
class Contest:
    """The measurements of a round; without `theirs`, our figure is judged by itself."""

    ours: Measure
    theirs: Measure | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    """How long each bar is measured."""

    rounds: int = 3
    seconds: float = 2.0
    is_full: bool = False
    is_smoke: bool = False  # without other tools, once, with the shortest load that exercises the code

    def count(self, whole: int, *, smoke: int) -> int:
        """A number of requests, clients or runs that does not depend on time."""
        return smoke if self.is_smoke else whole


SMOKE = Setting(rounds=1, seconds=0.2, is_smoke=True)


@dataclass(frozen=True, slots=True)
class Bar:
    """One row of the report. `open` starts everything that the rounds of the bar need."""

    name: str
    title: str
    unit: str  # of both figures
    open: Callable[[Setting], AbstractContextManager[Contest]]
    direction: Direction = Direction.AT_MOST
    target: float | None = None  # None: shown for information
    rival: str | None = None
    rounds: int | None = None  # if the number in the setting is too high, or too low for unsteady figures
    only_full: bool = False
