"""Optuna's sampler as a search: it draws, it is told the score against the default."""

import importlib.util
import itertools
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from inferometer.base.errors import LocalError
from inferometer.tune import model_config
from inferometer.tune.client_load import ClientLoad
from inferometer.tune.scoring import passes, rank, score, violation
from inferometer.tune.search.points import default_proposal, formula
from inferometer.tune.search.scope import OptunaLimits, Scope, Task
from inferometer.tune.search.search import Proposal, Say, Step, Steps, load_of
from inferometer.tune.search.sweep import closing_in, illegal
from inferometer.tune.space import BATCH
from inferometer.tune.trial import Trial
from inferometer.tune.variant import Names, Variant

if TYPE_CHECKING:
    import optuna

INSTALL = "pip install 'inferometer[tune]'"
NO_FIGURES = -1.0
SAME_DRAWS = 50  # draws of what is known already before the space counts as used up
MANY = 10**6


@dataclass(frozen=True, slots=True)
class Axis:
    """Something to draw: a parameter of a model, or its load."""

    name: str  # in Optuna's study
    model: str
    noun: str  # as the log shows it
    choices: tuple[Any, ...]


def axes(scope: Scope) -> tuple[Axis, ...]:
    """All that is searched, over all models and members."""
    found: list[Axis] = []
    for task in scope.tasks:
        for part in (*task.members, task):
            if "ensemble_scheduling" not in part.space.base:
                found += [
                    Axis(f"{part.model}/{row.field}", part.model, row.field, row.choices)
                    for row in part.space.parameters
                    if len(row.choices) > 1
                ]
        if len(task.batches) > 1:
            found.append(Axis(f"{task.model}/batch_sizes", task.model, "batch_sizes", task.batches))
        if scope.by_rate or not scope.optuna.use_formula:
            noun = "request_rate" if scope.by_rate else "concurrency"
            found.append(Axis(f"{task.model}/load", task.model, noun, scope.load_values(task)))
    return tuple(found)


def size(found: tuple[Axis, ...]) -> int:
    total = 1
    for axis in found:
        total *= len(axis.choices)
    return total


def limits(given: OptunaLimits, total: int) -> tuple[int, int]:
    """Fewest and most trials. Numbers beat percentages unless both were given: then what is stricter holds."""
    by_percent = max(1, total * given.min_percent // 100), max(1, total * given.max_percent // 100)
    low = given.min_trials if given.min_trials is not None else by_percent[0]
    high = given.max_trials if given.max_trials is not None else by_percent[1]
    if given.is_percent_given and given.min_trials is not None:
        low = max(low, by_percent[0])
    if given.is_percent_given and given.max_trials is not None:
        high = min(high, by_percent[1])
    return min(low, high), high


def require_optuna() -> None:
    if importlib.util.find_spec("optuna") is None:
        raise LocalError("the search optuna needs the package optuna", remedy=INSTALL)


def optuna_search(scope: Scope, names: Names) -> Steps:
    found = axes(scope)
    total = size(found)
    yield Say(f"Number of configs in search space: {total}", is_detail=True)
    for axis in found:
        span = f"{axis.choices[0]} to {axis.choices[-1]}"
        yield Say(f"  {axis.model} {axis.noun}: {span} ({len(axis.choices)})", is_detail=True)
    low, high = limits(scope.optuna, total)
    yield Say(f"Minimum number of trials: {low}", is_detail=True)
    yield Say(f"Maximum number of trials: {high}", is_detail=True)
    first = default_proposal(scope, names)
    base = yield first
    assert base is not None
    if not base.is_measured:
        raise LocalError(
            f"the model's own configuration gave no figures to compare with: {base.reason}",
            remedy="make it work first, or use another search",
        )
    variants = {base.name: first.variants}
    trials = [base]
    reason = yield from _draw(scope, names, found, (low, high), trials, variants)
    if scope.sweep_after and not scope.by_rate:
        best = [row.name for row in rank(scope.goals, trials)][: scope.top]
        for name in dict.fromkeys((*best, base.name)):
            yield from closing_in(scope, variants[name])
    return reason


def _draw(
    scope: Scope,
    names: Names,
    found: tuple[Axis, ...],
    bounds: tuple[int, int],
    trials: list[Trial],
    variants: dict[str, tuple[Variant, ...]],
) -> Generator[Step, Trial | None, str]:
    study = _study(scope.seed)
    base = trials[0]
    known: dict[str, float] = {}
    best_score, best_name, since_best, drawn = float("-inf"), base.name, 0, 0
    low, high = bounds
    for _ in itertools.repeat(None, high * SAME_DRAWS):
        if drawn >= high:
            return f"{high} trials were made"
        if drawn >= low and since_best >= scope.optuna.early_exit:
            return f"{since_best} trials brought nothing better"
        asked = study.ask()
        chosen = {axis.name: axis.choices[_index(asked, axis)] for axis in found}
        proposal = _proposal(scope, names, chosen)
        if proposal.key in known:  # drawn before: it tells the sampler, and costs no trial
            study.tell(asked, known[proposal.key])
            continue
        reason = next((text for part in proposal.parts if (text := illegal(*part))), "")
        if reason:
            known[proposal.key] = NO_FIGURES
            study.tell(asked, NO_FIGURES)
            continue
        drawn += 1
        since_best += 1
        yield Say(f"Trial {drawn} of {high}:", is_detail=True)
        trial = yield proposal
        assert trial is not None
        variants[trial.name] = proposal.variants
        trials.append(trial)
        value = _value(scope, trial, base)
        known[proposal.key] = value
        study.tell(asked, value)
        if trial.is_measured and value > best_score:
            best_score, best_name, since_best = value, trial.name, 0
        yield Say(
            f"Objective score for {trial.name}: {100 * value:.1f} --- Best: {best_name} ({100 * best_score:.1f})",
            is_detail=True,
        )
    return "the sampler draws nothing new"


def _value(scope: Scope, trial: Trial, base: Trial) -> float:
    """Above any failing one when the constraints are kept; of failing ones the closer is better."""
    if not trial.is_measured:
        return NO_FIGURES
    gained = score(scope.goals, trial, base)
    if passes(scope.goals, trial):
        return gained
    return NO_FIGURES - min(violation(scope.goals, trial), MANY) / 100


def _study(seed: int) -> "optuna.Study":
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.TPESampler(seed=seed)
    return optuna.create_study(direction="maximize", sampler=sampler)


def _index(asked: "optuna.Trial", axis: Axis) -> int:
    return asked.suggest_int(axis.name, 0, len(axis.choices) - 1)


def _proposal(scope: Scope, names: Names, chosen: dict[str, Any]) -> Proposal:
    parts = []
    for task in scope.tasks:
        members = tuple(_variant(names, member, chosen) for member in task.members)
        variant = _variant(names, task, chosen, members)
        parts.append((variant, _load(scope, task, variant, chosen)))
    return Proposal(tuple(parts))


def _variant(names: Names, task: Task, chosen: dict[str, Any], members: tuple[Variant, ...] = ()) -> Variant:
    space = task.space
    if "ensemble_scheduling" in space.base and members:
        own: dict[str, Any] = {BATCH: min(model_config.max_batch_size(member.config) for member in members)}
    else:
        own = {
            row.field: value
            for row in space.parameters
            if (value := chosen.get(f"{task.model}/{row.field}", row.choices[0])) is not None
        }
    return names.variant(task.model, space.base, own, cpu_only=space.cpu_only, composing=members)


def _load(scope: Scope, task: Task, variant: Variant, chosen: dict[str, Any]) -> ClientLoad:
    batch = chosen.get(f"{task.model}/batch_sizes", task.batches[0])
    value = chosen.get(f"{task.model}/load")
    if value is None:
        value = formula(scope, variant)
    return load_of(float(value), batch, by_rate=scope.by_rate)
