"""A search: the problem it is given, and an object to ask and tell.

A search is a generator. It yields a `Proposal` and is sent the `Trial` that came of it; on the way it yields what the
user is told (`SearchMessage`) and what it leaves out (`SkippedProposal`). It has no clock and no server, so told the
same it proposes the same: a search is resumed by telling it again what the journal holds.
"""

from collections.abc import Generator
from dataclasses import dataclass, field

from inferometer.base.errors import LocalError
from inferometer.tune.scoring import Goal
from inferometer.tune.settings import Effort, SearchSettings
from inferometer.tune.space import Space, doubling
from inferometer.tune.trial import ClientLoad, Status, Trial, TrialPart
from inferometer.tune.variant import ModelVariant


@dataclass(frozen=True, slots=True)
class ModelProblem:
    """One model: its variants, its goal, its loads (None: searched); members of an ensemble or BLS model."""

    space: Space
    goal: Goal
    batches: tuple[int, ...] = (1,)
    loads: tuple[float, ...] | None = None
    members: tuple["ModelProblem", ...] = ()

    @property
    def model(self) -> str:
        return self.space.model

    @property
    def is_ensemble(self) -> bool:
        return "ensemble_scheduling" in self.space.base

    @property
    def tunable(self) -> tuple["ModelProblem", ...]:
        """The members and the model itself, where it is more than its members."""
        return tuple(part for part in (*self.members, self) if not part.is_ensemble)


@dataclass(frozen=True, slots=True)
class SearchProblem:
    """Everything a search knows before its first trial."""

    tasks: tuple[ModelProblem, ...]  # several: loaded together
    settings: SearchSettings = field(default_factory=SearchSettings)
    seed: int = 0

    @property
    def goals(self) -> tuple[Goal, ...]:
        return tuple(task.goal for task in self.tasks)

    def load_values(self, task: ModelProblem) -> tuple[float, ...]:
        """What the user listed, or powers of two within the bounds."""
        if task.loads is not None:
            return tuple(sorted(task.loads))
        if not self.settings.is_search_on:
            return (1.0,)
        return tuple(float(value) for value in doubling(*self.settings.load_bounds))


@dataclass(frozen=True, slots=True)
class Proposal:
    """What to measure next: a variant and a load for every model."""

    parts: tuple[tuple[ModelVariant, ClientLoad], ...]
    repeat: int = 0
    effort: Effort | None = None  # None: as the measurement options say
    predicted: tuple[tuple[str, float], ...] = ()

    @property
    def key(self) -> str:
        """Equal for proposals of the same content and load: their trials are interchangeable."""
        # A numbered variant that equals the default is measured on its own all the same.
        rows = [
            f"{variant.key}{' default' if variant.is_default else ''} {load}" for variant, load in self.parts
        ]
        return " + ".join([*rows, f"repeat {self.repeat}"] if self.repeat else rows)

    @property
    def variants(self) -> tuple[ModelVariant, ...]:
        return tuple(variant for variant, _ in self.parts)

    def trial(self, number: int, status: Status, reason: str = "") -> Trial:
        """The bare trial of this proposal, without figures."""
        parts = tuple(TrialPart(variant.model, variant.name, load) for variant, load in self.parts)
        return Trial(
            number,
            parts,
            status,
            reason,
            repeat=self.repeat,
            predicted=self.predicted,
            key=self.key,
        )


@dataclass(frozen=True, slots=True)
class SearchMessage:
    """Something the user is told."""

    text: str
    is_warning: bool = False
    is_detail: bool = False


@dataclass(frozen=True, slots=True)
class SkippedProposal:
    """Something that is not measured, and why."""

    proposal: Proposal
    reason: str


SearchEvent = Proposal | SearchMessage | SkippedProposal
SearchSteps = Generator[SearchEvent, Trial | None, str]
"""Ends with the reason."""


class Search:
    """`ask` for the next proposal, `tell` what came of it; `said` and `skipped` grow on the way."""

    def __init__(self, steps: SearchSteps) -> None:
        self._steps = steps
        self._asked: Proposal | None = None
        self._told: Trial | None = None
        self.ended = ""
        self.said: list[SearchMessage] = []
        self.skipped: list[SkippedProposal] = []

    def ask(self) -> Proposal | None:
        """None when there is nothing left to measure; then `ended` has the reason."""
        if self._asked is not None:
            raise LocalError("the search is asked twice in a row", remedy="tell it the trial first")
        while True:
            try:
                step = self._steps.send(self._told)  # None starts it
            except StopIteration as stop:
                self.ended = stop.value
                return None
            self._told = None
            if isinstance(step, SearchMessage):
                self.said.append(step)
            elif isinstance(step, SkippedProposal):
                self.skipped.append(step)
            else:
                self._asked = step
                return step

    def tell(self, trial: Trial) -> None:
        if self._asked is None:
            raise LocalError("the search is told a trial it did not ask for")
        self._asked = None
        self._told = trial

    def take_said(self) -> list[SearchMessage]:
        said, self.said = self.said, []
        return said

    def take_skipped(self) -> list[SkippedProposal]:
        skipped, self.skipped = self.skipped, []
        return skipped


def load_of(value: float, batch: int, *, by_rate: bool) -> ClientLoad:
    if by_rate:
        return ClientLoad(request_rate=value, batch=batch)
    return ClientLoad(concurrency=round(value), batch=batch)
