"""Select the trials in a journal that belong to a repeated search: same contents, same requests, within its bounds."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from inferometer.tune.knobs import KNOBS
from inferometer.tune.model_config import Fields
from inferometer.tune.search.search import ModelProblem, Proposal, SearchProblem, changed_variant
from inferometer.tune.space import BATCH, Space
from inferometer.tune.trial import ClientLoad, Trial
from inferometer.tune.variant import ModelVariant, VariantNames


def recalled(
    problem: SearchProblem, names: VariantNames, trials: Iterable[Trial], suffix: str
) -> tuple[Trial, ...]:
    """Return measured trials that this search could have made itself, including repeats, under current names.

    `suffix` ends the keys of trials with the same requests on the same kind of machine.
    """
    found = []
    for trial in trials:
        proposal = _proposal(problem, names, trial) if trial.is_measured else None
        if proposal is not None and f"{proposal.key}{suffix}" == trial.key:
            found.append(renamed(trial, proposal))
    return tuple(found)


def renamed(trial: Trial, proposal: Proposal) -> Trial:
    """Return a trial from the journal as the answer to a proposal: trials are found by content, and a name may belong
    to another variant by now."""
    parts = tuple(
        replace(part, variant=variant.name)
        for part, variant in zip(trial.parts, proposal.variants, strict=True)
    )
    predicted = proposal.predicted or trial.predicted
    return replace(trial, parts=parts, predicted=predicted, is_recalled=True)


def _proposal(problem: SearchProblem, names: VariantNames, trial: Trial) -> Proposal | None:
    """Return the proposal that this search would make for the trial; None outside its space or its loads."""
    if [part.model for part in trial.parts] != [task.model for task in problem.tasks]:
        return None
    variants = []
    for task, part in zip(problem.tasks, trial.parts, strict=True):
        known = names.known.get(part.variant)
        overrides = None if known is None else _overrides(task, known)
        if overrides is None or not _has_load(problem, task, part.load):
            return None
        variants.append((changed_variant(task, names, overrides), part.load))
    return Proposal(tuple(variants), trial.repeat)


def _overrides(task: ModelProblem, variant: ModelVariant) -> Mapping[str, Fields] | None:
    """Return the overrides of a variant by model; None if the search may not make them."""
    if [part.model for part in variant.composing] != [member.model for member in task.members]:
        return None
    found: dict[str, Fields] = {}
    for own, part in zip((task, *task.members), (variant, *variant.composing), strict=True):
        # The batch size of an ensemble follows from its members.
        changed = {
            name: value for name, value in part.overrides.items() if not (own.is_ensemble and name == BATCH)
        }
        if not _may_change(own.space, changed):
            return None
        found[own.model] = changed
    return found


def _may_change(space: Space, changed: Fields) -> bool:
    choices, values = space.choices, changed
    if space.is_launched:
        values = changed.get(KNOBS, {})
        if not all(condition.holds({**space.base[KNOBS], **values}) for condition in space.conditions):
            return False
    return all(value in choices.get(name, ()) for name, value in values.items())


def _has_load(problem: SearchProblem, task: ModelProblem, load: ClientLoad) -> bool:
    settings = problem.settings
    if settings.intervals is not None or load.intervals is not None:
        return load.intervals == settings.intervals
    if load.batch not in task.batches or settings.by_rate != (load.request_rate is not None):
        return False
    if task.loads is not None or not settings.is_search_on:
        return load.value in problem.load_values(task)
    low, high = settings.load_bounds
    return low <= load.value <= high
