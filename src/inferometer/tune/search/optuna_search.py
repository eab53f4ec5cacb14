"""Optuna's sampler as a search: it draws configurations and gets their scores relative to the default."""

import importlib.util
import math
from typing import TYPE_CHECKING, Any

from inferometer.base.errors import LocalError
from inferometer.tune.scoring import passes, score, violation
from inferometer.tune.search.search import (
    Knob,
    ModelProblem,
    Proposal,
    SearchMessage,
    SearchProblem,
    SearchSteps,
    ask,
    changed_variant,
    default_proposal,
    formula,
    illegal,
    sweep_best,
)
from inferometer.tune.settings import OptunaLimits
from inferometer.tune.trial import ClientLoad, Trial
from inferometer.tune.variant import ModelVariant, VariantNames

if TYPE_CHECKING:
    import optuna

INSTALL = "pip install 'inferometer[tune]'"
NO_FIGURES = -1.0
SAME_DRAWS = 50  # draws of known configurations before the space counts as exhausted
MANY = 10**6
LOAD = "load"

Choices = dict[tuple[str, str], Any]
"""Choices by model and field."""


def _knobs(problem: SearchProblem) -> list[Knob]:
    """Return all searched parameters over all models and members."""
    found: list[Knob] = []
    for task in problem.tasks:
        found += [
            Knob(part.model, row.field, row.choices)
            for part in task.tunable
            for row in part.space.parameters
            if len(row.choices) > 1
        ]
        if len(task.batches) > 1:
            found.append(Knob(task.model, "batch_sizes", task.batches))
        if problem.settings.by_rate or not problem.settings.optuna.use_formula:
            found.append(Knob(task.model, LOAD, problem.load_values(task)))
    return found


def limits(given: OptunaLimits, total: int) -> tuple[int, int]:
    """Return the fewest and most trials. Counts override percentages unless both were given: then the stricter one
    applies."""
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


def optuna_search(problem: SearchProblem, names: VariantNames) -> SearchSteps[str]:
    knobs = _knobs(problem)
    total = math.prod(len(knob.values) for knob in knobs)
    yield SearchMessage(f"Number of configs in search space: {total}", is_detail=True)
    load_name = "request_rate" if problem.settings.by_rate else "concurrency"
    for knob in knobs:
        name = load_name if knob.field == LOAD else knob.field
        span = f"{knob.values[0]} to {knob.values[-1]}"
        yield SearchMessage(f"  {knob.model} {name}: {span} ({len(knob.values)})", is_detail=True)
    low, high = limits(problem.settings.optuna, total)
    yield SearchMessage(f"Minimum number of trials: {low}", is_detail=True)
    yield SearchMessage(f"Maximum number of trials: {high}", is_detail=True)
    base = yield from ask(default_proposal(problem, names))
    if not base.is_measured:
        raise LocalError(
            f"the model's own configuration could not be measured, so there is no baseline: {base.reason}",
            remedy="fix it first, or use another search",
        )
    trials = [base]
    reason = yield from _draw(problem, names, knobs, (low, high), trials)
    if problem.settings.sweep_after and not problem.settings.by_rate:
        yield from sweep_best(problem, trials, names)
    return reason


def _draw(
    problem: SearchProblem,
    names: VariantNames,
    knobs: list[Knob],
    bounds: tuple[int, int],
    trials: list[Trial],
) -> SearchSteps[str]:
    study = _study(problem.seed)
    base = trials[0]
    known: dict[str, float] = {}
    best_score, best_name, since_best, drawn = float("-inf"), base.name, 0, 0
    low, high = bounds
    for _ in range(high * SAME_DRAWS):
        if drawn >= high:
            return f"all {high} trials are done"
        if drawn >= low and since_best >= problem.settings.optuna.early_exit:
            return f"no improvement in {since_best} trials"
        asked = study.ask()
        chosen = {(knob.model, knob.field): knob.values[_drawn(asked, knob)] for knob in knobs}
        proposal = _proposal(problem, names, chosen)
        if any(illegal(*part) for part in proposal.parts):
            known[proposal.key] = NO_FIGURES
        if proposal.key in known:  # informs the sampler without a trial
            study.tell(asked, known[proposal.key])
            continue
        drawn += 1
        since_best += 1
        yield SearchMessage(f"Trial {drawn} of {high}:", is_detail=True)
        trial = yield from ask(proposal)
        trials.append(trial)
        value = _value(problem, trial, base)
        known[proposal.key] = value
        study.tell(asked, value)
        if trial.is_measured and value > best_score:
            best_score, best_name, since_best = value, trial.name, 0
        yield SearchMessage(
            f"Objective score for {trial.name}: {100 * value:.1f} --- Best: {best_name} ({100 * best_score:.1f})",
            is_detail=True,
        )
    return "the sampler proposes nothing new"


def _value(problem: SearchProblem, trial: Trial, base: Trial) -> float:
    """Return the score; trials that meet the constraints rank above all others, which rank by their violation."""
    if not trial.is_measured:
        return NO_FIGURES
    gained = score(problem.goals, trial, base)
    if passes(problem.goals, trial):
        return gained
    return NO_FIGURES - min(violation(problem.goals, trial), MANY) / 100


def _study(seed: int) -> "optuna.Study":
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.TPESampler(seed=seed)
    return optuna.create_study(direction="maximize", sampler=sampler)


def _drawn(asked: "optuna.Trial", knob: Knob) -> int:
    return asked.suggest_int(f"{knob.model}/{knob.field}", 0, len(knob.values) - 1)


def _proposal(problem: SearchProblem, names: VariantNames, chosen: Choices) -> Proposal:
    overrides = {
        part.model: {
            row.field: value
            for row in part.space.parameters
            if (value := chosen.get((part.model, row.field), row.choices[0])) is not None
        }
        for part in problem.tunable
    }
    parts = []
    for task in problem.tasks:
        variant = changed_variant(task, names, overrides)
        parts.append((variant, _load(problem, task, variant, chosen)))
    return Proposal(tuple(parts))


def _load(problem: SearchProblem, task: ModelProblem, variant: ModelVariant, chosen: Choices) -> ClientLoad:
    batch = chosen.get((task.model, "batch_sizes"), task.batches[0])
    value = chosen.get((task.model, LOAD))
    return problem.load(formula(problem, variant) if value is None else value, batch)
