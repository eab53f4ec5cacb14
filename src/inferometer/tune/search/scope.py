"""What a search may try, and what it is to find."""

from dataclasses import dataclass, field

from inferometer.tune.goal import Goal
from inferometer.tune.space import Bounds, Space, doubling


@dataclass(frozen=True, slots=True)
class Task:
    """One model: its variants, its goal, its loads (None: searched); members of an ensemble or BLS model."""

    space: Space
    goal: Goal
    batches: tuple[int, ...] = (1,)
    loads: tuple[float, ...] | None = None
    members: tuple["Task", ...] = ()

    @property
    def model(self) -> str:
        return self.space.model


@dataclass(frozen=True, slots=True)
class OptunaLimits:
    """How many trials; None was not given."""

    min_percent: int = 5
    max_percent: int = 10
    is_percent_given: bool = False
    min_trials: int | None = None
    max_trials: int | None = None
    early_exit: int = 10
    use_formula: bool = False


@dataclass(frozen=True, slots=True)
class Scope:
    """Everything a search knows before its first trial."""

    tasks: tuple[Task, ...]  # several: loaded together
    bounds: Bounds = field(default_factory=Bounds)
    by_rate: bool = False
    intervals: str | None = None  # a file of send times: one run, no sweep
    is_search_on: bool = True
    early_exit: bool = False
    top: int = 3  # variants that are looked at closely
    binary_steps: int = 5
    sweep_after: bool = True
    budget_s: float | None = None
    seed: int = 0
    optuna: OptunaLimits = field(default_factory=OptunaLimits)

    @property
    def goals(self) -> tuple[Goal, ...]:
        return tuple(task.goal for task in self.tasks)

    def load_values(self, task: Task) -> tuple[float, ...]:
        """What the user listed, or powers of two within the bounds."""
        if task.loads is not None:
            return tuple(sorted(task.loads))
        if not self.is_search_on:
            return (1.0,)
        low, high = self.bounds.request_rate if self.by_rate else self.bounds.concurrency
        return tuple(float(value) for value in doubling(low, high))
