"""A bar: one number of ours, alone or over one of theirs, and where it must lie."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum


class BenchError(Exception):
    """A bar cannot be measured; the text says why and what to do."""


class Direction(Enum):
    """On which side of the target a bar is held."""

    AT_MOST = "<="
    AT_LEAST = ">="


@dataclass(frozen=True, slots=True)
class Sample:
    """What one tool reached in one round; `info` is shown, never judged."""

    value: float
    info: Mapping[str, float] = field(default_factory=dict)


Measure = Callable[[], Sample]


@dataclass(frozen=True, slots=True)
class Contest:
    """What a round consists of; without `theirs` our number is judged by itself."""

    ours: Measure
    theirs: Measure | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    """How long each bar is measured."""

    rounds: int = 3
    seconds: float = 2.0
    is_full: bool = False
    is_smoke: bool = False  # ours only, once, with the shortest load that exercises the code

    def count(self, whole: int, *, smoke: int) -> int:
        """A number of requests, clients or runs that time does not bound."""
        return smoke if self.is_smoke else whole


SMOKE = Setting(rounds=1, seconds=0.2, is_smoke=True)


@dataclass(frozen=True, slots=True)
class Bar:
    """One row of the report. `open` gets everything running that the rounds of the bar need."""

    name: str
    title: str
    unit: str  # of ours and theirs
    open: Callable[[Setting], AbstractContextManager[Contest]]
    direction: Direction = Direction.AT_MOST
    target: float | None = None  # None: shown for information
    rival: str | None = None
    rounds: int | None = None  # when the setting's would be too many, or too few for what is so unsteady
    only_full: bool = False
