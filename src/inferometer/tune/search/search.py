"""The interface of a search: its problem, its events, and steps shared by several searches.

A search is a generator. It yields a `Proposal` and is sent the resulting `Trial`; in between it yields messages for the
user (`SearchMessage`) and skipped proposals (`SkippedProposal`). It has no clock and no server, so the same trials lead
to the same proposals: a search is resumed by sending it the contents of the journal.

A search on several servers assigns each proposal to a server, one at a time on each. It is sent None while the trial is
running, and yields `Wait` when it needs a finished one, which may be any of them.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeVar

from inferometer.base.frozen import frozen
from inferometer.tune import model_config
from inferometer.tune.model_config import Fields
from inferometer.tune.scoring import Goal, best_first, passes, rank, score
from inferometer.tune.settings import Effort, SearchSettings
from inferometer.tune.space import BATCH, Space, doubling
from inferometer.tune.trial import ClientLoad, Setting, Status, Trial, TrialPart
from inferometer.tune.variant import ModelVariant, VariantNames, default_name


@frozen
class ModelProblem:
    """One model: its variants, its goal, its loads (None: searched), and the members of an ensemble or BLS model."""

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
        """The members, and the model itself unless it is an ensemble."""
        return tuple(part for part in (*self.members, self) if not part.is_ensemble)


@frozen
class SearchProblem:
    """Everything a search knows before its first trial."""

    tasks: tuple[ModelProblem, ...]  # several if loaded together
    settings: SearchSettings = field(default_factory=SearchSettings)
    seed: int = 0
    servers: int = 1  # measuring at the same time
    known: tuple[Trial, ...] = ()  # measured by earlier runs of the same search

    @property
    def tunable(self) -> tuple[ModelProblem, ...]:
        return tuple(part for task in self.tasks for part in task.tunable)

    @property
    def goals(self) -> tuple[Goal, ...]:
        return tuple(task.goal for task in self.tasks)

    def load_values(self, task: ModelProblem) -> tuple[float, ...]:
        """Return the loads listed by the user, or powers of two within the bounds."""
        if task.loads is not None:
            return tuple(sorted(task.loads))
        if not self.settings.is_search_on:
            return (1.0,)
        return tuple(float(value) for value in doubling(*self.settings.load_bounds))

    def load(self, value: float, batch: int = 1) -> ClientLoad:
        if self.settings.by_rate:
            return ClientLoad(request_rate=float(value), batch=batch)
        return ClientLoad(concurrency=round(value), batch=batch)


@frozen
class Proposal:
    """The next measurement: a variant and a load for every model."""

    parts: tuple[tuple[ModelVariant, ClientLoad], ...]
    repeat: int = 0
    effort: Effort | None = None  # None: as set by the measurement options
    predicted: tuple[tuple[str, float], ...] = ()
    server: int = 0  # index of the server

    @property
    def setting(self) -> Setting:
        return self.trial(-1, Status.SKIPPED).setting

    @property
    def key(self) -> str:
        """Key that is equal for proposals of the same content and load, whose trials are interchangeable."""
        # A numbered variant that equals the default is still measured separately.
        rows = [
            f"{variant.key}{' default' if variant.is_default else ''} {load}" for variant, load in self.parts
        ]
        return " + ".join([*rows, f"repeat {self.repeat}"] if self.repeat else rows)

    @property
    def variants(self) -> tuple[ModelVariant, ...]:
        return tuple(variant for variant, _ in self.parts)

    def trial(self, number: int, status: Status, reason: str = "") -> Trial:
        """Return a trial of this proposal without figures."""
        parts = tuple(TrialPart(variant.model, variant.name, load) for variant, load in self.parts)
        return Trial(number, parts, status, reason, self.repeat, predicted=self.predicted, key=self.key)


@frozen
class SearchMessage:
    """A message for the user."""

    text: str
    is_warning: bool = False
    is_detail: bool = False
    left_s: float | None = None  # expected remaining time of the search


@frozen
class SkippedProposal:
    """A proposal that is not measured, and the reason."""

    proposal: Proposal
    reason: str


@frozen
class Wait:
    """Event of a search that has nothing to propose until one of the running trials ends."""


SPENT = "the budget is used up"
T = TypeVar("T")
SearchSteps = Generator[Proposal | SearchMessage | SkippedProposal | Wait, Trial | None, T]
"""A whole search returns the reason why it ended."""


def ask(proposal: Proposal) -> SearchSteps[Trial]:
    """Yield a proposal and return its trial."""
    trial = yield proposal
    assert trial is not None
    return trial


# --- steps shared by several searches


@frozen
class Knob:
    """A parameter to vary: a field of a model's configuration, or its load."""

    model: str
    field: str
    values: tuple[Any, ...]


PLATEAU = 0.05
LOOK_BACK = 4
FLAT = 0.02


def illegal(variant: ModelVariant, load: ClientLoad) -> str:
    """Return why this variant cannot take this load; empty if it can."""
    most = model_config.max_batch_size(variant.config)
    if load.batch > max(most, 1):
        return f"the client batch size {load.batch} is larger than max_batch_size {most}"
    preferred = variant.config.get("dynamic_batching", {}).get("preferred_batch_size", ())
    if any(int(size) > most for size in preferred):
        return f"a preferred batch size in {list(preferred)} is larger than max_batch_size {most}"
    return ""


def sweep_best(
    problem: SearchProblem, trials: Sequence[Trial], names: VariantNames, batch: int = 1
) -> SearchSteps[None]:
    """Measure the loads of the best variants and of the default."""
    best = [row.name for row in rank(problem.goals, trials)][: problem.settings.top]
    default = ",".join(default_name(task.model) for task in problem.tasks)
    for name in dict.fromkeys((*best, default)):
        yield from _sweep(problem, tuple(names.known[part] for part in name.split(",")), batch)


def _sweep(problem: SearchProblem, variants: tuple[ModelVariant, ...], batch: int) -> SearchSteps[None]:
    """Measure doubling loads, without repeating known trials, then bisect around a limit."""

    def at(value: float) -> SearchSteps[Trial]:
        load = problem.load(value, batch)
        return ask(Proposal(tuple((variant, load) for variant in variants)))

    rows: list[Trial] = []
    for value in problem.load_values(problem.tasks[0]):
        trial = yield from at(value)
        if not trial.is_measured:
            break
        rows.append(trial)
        is_missed = ends_here(problem, trial)
        if is_missed or (len(rows) >= LOOK_BACK and _has_stopped_growing(problem, rows)):
            break
    bracket = _bracket(problem, rows)
    if bracket is None:
        return
    low, high = bracket
    for _ in range(problem.settings.binary_steps):
        middle = float((low + high) // 2)
        if middle <= low or middle < 1:
            break
        trial = yield from at(middle)
        if not trial.is_measured:
            break
        low, high = (middle, high) if passes(problem.goals, trial) else (low, middle)
    if low == 0:
        yield SearchMessage(f"{variants[0].name} cannot meet the constraints at any load")


def ends_here(problem: SearchProblem, trial: Trial) -> bool:
    """Return whether a limit is already violated, and the settings end a sweep of growing loads there."""
    return problem.settings.ends_at_limit and not passes(problem.goals, trial)


def _has_stopped_growing(problem: SearchProblem, rows: Sequence[Trial]) -> bool:
    """Return whether the server is saturated, over the last four loads or with the last doubling."""
    return _objective_gain(problem, rows) < PLATEAU or score(problem.goals, rows[-1], rows[-2]) < FLAT


def _objective_gain(problem: SearchProblem, rows: Sequence[Trial]) -> float:
    recent = list(rows[-LOOK_BACK:])
    best = best_first(problem.goals, recent)[0]
    # Two rows that differ in meeting the constraints are still compared by their objectives alone.
    best = max(recent, key=lambda row: score(problem.goals, row, recent[0])) if best is recent[0] else best
    return score(problem.goals, best, recent[0])


def _bracket(problem: SearchProblem, rows: Sequence[Trial]) -> tuple[float, float] | None:
    """Return the highest load that passes and the next one above, which does not."""
    for lower, upper in zip(reversed(rows[:-1]), reversed(rows[1:]), strict=True):
        if passes(problem.goals, lower) and not passes(problem.goals, upper):
            return lower.load.value, upper.load.value
    if rows and not passes(problem.goals, rows[0]):
        return 0.0, rows[0].load.value
    return None


def default_variant(task: ModelProblem, names: VariantNames) -> ModelVariant:
    """Return the unchanged model with the models that it calls."""
    members = tuple(default_variant(member, names) for member in task.members)
    space = task.space
    return names.variant(task.model, space.base, {}, cpu_only=space.cpu_only, composing=members)


def changed_variant(task: ModelProblem, names: VariantNames, overrides: Mapping[str, Fields]) -> ModelVariant:
    """Return the model and the models that it calls, with these changes by model. The batch size of an ensemble is the
    smallest of its members."""
    members = tuple(changed_variant(member, names, overrides) for member in task.members)
    space, own = task.space, dict(overrides.get(task.model, {}))
    if task.is_ensemble and members:
        own[BATCH] = min(model_config.max_batch_size(member.config) for member in members)
    return names.variant(task.model, space.base, own, cpu_only=space.cpu_only, composing=members)


def default_proposal(problem: SearchProblem, names: VariantNames) -> Proposal:
    """Return a proposal of the unchanged models under the load that suits their configuration."""
    variants = [default_variant(task, names) for task in problem.tasks]
    return Proposal(tuple((variant, load_for(problem, variant)) for variant in variants))


def load_for(problem: SearchProblem, variant: ModelVariant) -> ClientLoad:
    if problem.settings.intervals is not None:
        return ClientLoad(intervals=problem.settings.intervals)
    by_rate = problem.settings.by_rate
    return problem.load(problem.settings.bounds.request_rate[0] if by_rate else formula(problem, variant))


def formula(problem: SearchProblem, variant: ModelVariant) -> int:
    """Return twice the capacity of all instances, 2 x batch x instances, within the bounds. An ensemble itself has no
    instances, and all its members work at the same time."""
    room = sum(
        max(1, model_config.max_batch_size(part.config)) * model_config.total_instances(part.config)
        for part in variant.working
    )
    low, high = problem.settings.bounds.concurrency
    return min(max(2 * room, low), high)
