"""A search: the problem it is given, and an object to ask and tell.

A search is a generator. It yields a `Proposal` and is sent the `Trial` that came of it; on the way it yields what the
user is told (`SearchMessage`) and what it leaves out (`SkippedProposal`). It has no clock and no server, so told the
same it proposes the same: a search is resumed by telling it again what the journal holds.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field

from inferometer.base.errors import LocalError
from inferometer.stats.figures import THROUGHPUT
from inferometer.tune import model_config
from inferometer.tune.model_config import Fields
from inferometer.tune.scoring import Goal, best_first, passes, score
from inferometer.tune.settings import Effort, SearchSettings
from inferometer.tune.space import BATCH, Space, doubling
from inferometer.tune.trial import ClientLoad, Status, Trial, TrialPart
from inferometer.tune.variant import ModelVariant, VariantNames


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


# --- proposals that several searches make

PLATEAU = 0.05
LOOK_BACK = 4
FLAT = 0.02

Sweep = Generator[SearchEvent, Trial | None, list[Trial]]


def throughput(trial: Trial) -> float:
    found = trial.combined(THROUGHPUT)
    return 0.0 if found is None else found


def has_plateaued(values: Sequence[float]) -> bool:
    """The best of the last four is hardly better than the first of them."""
    recent = values[-LOOK_BACK:]
    if len(recent) < LOOK_BACK:
        return False
    return recent[0] <= 0 or (max(recent) - recent[0]) / recent[0] <= PLATEAU


def illegal(variant: ModelVariant, load: ClientLoad) -> str:
    """Why this variant cannot take this load; empty when it can."""
    most = model_config.max_batch_size(variant.config)
    if load.batch > max(most, 1):
        return f"the client batch size {load.batch} is larger than max_batch_size {most}"
    preferred = variant.config.get("dynamic_batching", {}).get("preferred_batch_size", ())
    if any(int(size) > most for size in preferred):
        return f"a preferred batch size in {list(preferred)} is larger than max_batch_size {most}"
    return ""


def loads(problem: SearchProblem, task: ModelProblem, variant: ModelVariant) -> Sweep:
    """Every client batch size with every load, as long as throughput grows; what was measured."""
    found: list[Trial] = []
    best_by_batch: list[float] = []
    may_stop = task.loads is None or problem.settings.early_exit
    for batch in sorted(task.batches):
        rows: list[Trial] = []
        for load in _loads_of(problem, task, batch):
            proposal = Proposal(((variant, load),))
            reason = illegal(variant, load)
            if reason:
                yield SearchMessage("Skipping illegal run configuration")
                yield SkippedProposal(proposal, reason)
                return found
            trial = yield proposal
            assert trial is not None
            if not trial.is_measured:
                return found
            rows.append(trial)
            found.append(trial)
            if may_stop and has_plateaued([throughput(row) for row in rows]):
                noun = "request rate" if problem.settings.by_rate else "concurrency"
                yield SearchMessage(f"No longer increasing {noun} as throughput has plateaued")
                break
        best_by_batch.append(max(map(throughput, rows), default=0.0))
        if may_stop and has_plateaued(best_by_batch):
            yield SearchMessage("No longer increasing client batch size as throughput has plateaued")
            break
    return found


def _loads_of(problem: SearchProblem, task: ModelProblem, batch: int) -> list[ClientLoad]:
    if problem.settings.intervals is not None:
        return [ClientLoad(intervals=problem.settings.intervals, batch=batch)]
    return [load_of(value, batch, by_rate=problem.settings.by_rate) for value in problem.load_values(task)]


def closing_in(problem: SearchProblem, variants: Sequence[ModelVariant], batch: int = 1) -> Sweep:
    """The load sweep of chosen variants (known trials are not repeated), then bisection around a limit."""
    found: list[Trial] = []

    def make(value: float) -> Proposal:
        load = load_of(value, batch, by_rate=problem.settings.by_rate)
        return Proposal(tuple((variant, load) for variant in variants))

    rows: list[Trial] = []
    for value in problem.load_values(problem.tasks[0]):
        trial = yield make(value)
        assert trial is not None
        if not trial.is_measured:
            break
        rows.append(trial)
        if len(rows) >= LOOK_BACK and _has_stopped_growing(problem, rows):
            break
    found += rows
    bracket = _bracket(problem, rows)
    if bracket is None:
        return found
    low, high = bracket
    for _ in range(problem.settings.binary_steps):
        middle = float((low + high) // 2)
        if middle <= low or middle < 1:
            break
        trial = yield make(middle)
        assert trial is not None
        if not trial.is_measured:
            break
        found.append(trial)
        low, high = (middle, high) if passes(problem.goals, trial) else (low, middle)
    if low == 0:
        yield SearchMessage(f"{variants[0].name} cannot meet the constraints at any load")
    return found


def _has_stopped_growing(problem: SearchProblem, rows: Sequence[Trial]) -> bool:
    """Over the last four loads, or with the last doubling: the server is saturated."""
    return _objective_gain(problem, rows) < PLATEAU or score(problem.goals, rows[-1], rows[-2]) < FLAT


def _objective_gain(problem: SearchProblem, rows: Sequence[Trial]) -> float:
    recent = list(rows[-LOOK_BACK:])
    best = best_first(problem.goals, recent)[0]
    # Two rows that disagree about the constraints are still compared by their objectives alone.
    best = max(recent, key=lambda row: score(problem.goals, row, recent[0])) if best is recent[0] else best
    return score(problem.goals, best, recent[0])


def _bracket(problem: SearchProblem, rows: Sequence[Trial]) -> tuple[float, float] | None:
    """From the top down: the highest load that passes with a neighbour above that does not."""
    for lower, upper in zip(reversed(rows[:-1]), reversed(rows[1:]), strict=True):
        if passes(problem.goals, lower) and not passes(problem.goals, upper):
            return lower.load.value, upper.load.value
    if rows and not passes(problem.goals, rows[0]):
        return 0.0, rows[0].load.value
    return None


def default_variant(task: ModelProblem, names: VariantNames) -> ModelVariant:
    """The model as it is, and what it calls."""
    members = tuple(default_variant(member, names) for member in task.members)
    space = task.space
    return names.variant(task.model, space.base, {}, cpu_only=space.cpu_only, composing=members)


def changed_variant(
    task: ModelProblem, names: VariantNames, overrides: Callable[[ModelProblem], Fields]
) -> ModelVariant:
    """The model and what it calls with these changes. An ensemble takes the batches that all its members take."""
    members = tuple(changed_variant(member, names, overrides) for member in task.members)
    space, own = task.space, dict(overrides(task))
    if task.is_ensemble and members:
        own[BATCH] = min(model_config.max_batch_size(member.config) for member in members)
    return names.variant(task.model, space.base, own, cpu_only=space.cpu_only, composing=members)


def default_proposal(problem: SearchProblem, names: VariantNames) -> Proposal:
    """The models as they are, under the load that suits their own numbers."""
    variants = [default_variant(task, names) for task in problem.tasks]
    return Proposal(tuple((variant, load_for(problem, variant)) for variant in variants))


def load_for(problem: SearchProblem, variant: ModelVariant) -> ClientLoad:
    if problem.settings.intervals is not None:
        return ClientLoad(intervals=problem.settings.intervals)
    if problem.settings.by_rate:
        return load_of(float(problem.settings.bounds.request_rate[0]), 1, by_rate=True)
    return load_of(float(formula(problem, variant)), 1, by_rate=False)


def formula(problem: SearchProblem, variant: ModelVariant) -> int:
    """Twice what all instances can take at once, within the bounds: 2 x batch x instances. An ensemble has no instances
    of its own, and all its members work at the same time."""
    is_ensemble = "ensemble_scheduling" in variant.config and variant.composing
    room = sum(_room(part.config) for part in (variant.composing if is_ensemble else (variant,)))
    low, high = problem.settings.bounds.concurrency
    return min(max(2 * room, low), high)


def _room(config: Fields) -> int:
    return max(1, model_config.max_batch_size(config)) * model_config.total_instances(config)
