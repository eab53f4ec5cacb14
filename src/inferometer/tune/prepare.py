"""From settings to a search: the models' configurations and members, what may be changed, which search is made."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from inferometer.base.errors import UsageError
from inferometer.tune import model_config
from inferometer.tune.deployment import Deployment
from inferometer.tune.model_config import Fields
from inferometer.tune.scoring import Goal
from inferometer.tune.search.brute import brute
from inferometer.tune.search.quick import quick
from inferometer.tune.search.search import ModelProblem, SearchProblem, SearchSteps
from inferometer.tune.settings import ModelSettings, TuneSettings
from inferometer.tune.space import Space, automatic, manual
from inferometer.tune.variant import VariantNames


def groups(settings: TuneSettings) -> Sequence[tuple[ModelSettings, ...]]:
    return [settings.models] if settings.together else [(model,) for model in settings.models]


def are_whole(settings: TuneSettings) -> bool:
    """Every model that will be loaded has a configuration of its own that leaves nothing to the server."""
    names = [
        member for model in settings.models for member in (model.name, *(row.name for row in model.members))
    ]
    while names:
        found = model_config.read_model(settings.launch.repositories, name := names.pop())
        if found is None or not all(found.get(field) for field in ("input", "output")):
            return False
        is_ensemble = "ensemble_scheduling" in found
        if not is_ensemble and not (found.get("backend") or found.get("platform")):
            return False
        names += [member for member in model_config.members(found) if member != name]
    return True


def own_config(settings: TuneSettings, model: str) -> Fields | None:
    """The model's own file, where there is one that we can see and that says what it takes."""
    found = model_config.read_model(settings.launch.repositories, model)
    if found is None or not (found.get("input") or found.get("ensemble_scheduling")):
        return None
    return {**found, "name": model}


def base_config(settings: TuneSettings, deployment: Deployment, model: str) -> Fields:
    """The model's own file, else what the server makes of it."""
    found = own_config(settings, model)
    return deployment.base_config(model) if found is None else found


def make_problem(
    settings: TuneSettings, group: Sequence[ModelSettings], read: Callable[[str], Fields], has_gpus: bool
) -> SearchProblem:
    """What the search may try."""
    return SearchProblem(tuple(_task(settings, model, read, has_gpus) for model in group), settings.search)


def _task(
    settings: TuneSettings, model: ModelSettings, read: Callable[[str], Fields], has_gpus: bool
) -> ModelProblem:
    base = read(model.name)
    sees_gpus = has_gpus or settings.launch.mode == "remote"
    members = tuple(
        ModelProblem(_space(settings, member, read(member.name), sees_gpus), Goal(member.name))
        for member in _members(settings, model, base, read)
    )
    space = _space(settings, model, base, sees_gpus)
    if members and not model.is_bls and model.swept is None:
        space = replace(space, parameters=())  # an ensemble has no instances of its own
    return ModelProblem(space, model.goal, model.batches, model.loads, members)


def _space(settings: TuneSettings, model: ModelSettings, base: Fields, has_gpus: bool) -> Space:
    cpu_only = _is_cpu_only(model, base, has_gpus)
    if model.swept is not None:
        return manual(model.name, base, model.swept, where=model.where, cpu_only=cpu_only)
    return automatic(model.name, base, settings.search.bounds, cpu_only=cpu_only)


def _members(
    settings: TuneSettings, model: ModelSettings, base: Fields, read: Callable[[str], Fields]
) -> list[ModelSettings]:
    found = list(model.members) if model.is_bls else _ensemble_members(model, base, read)
    return [
        replace(member, cpu_only=True) if member.name in settings.cpu_only_members else member
        for member in found
    ]


def _ensemble_members(
    model: ModelSettings, base: Fields, read: Callable[[str], Fields]
) -> list[ModelSettings]:
    given = {member.name: member for member in model.members}
    found = []
    for name in model_config.members(base):
        if model_config.members(read(name)):
            raise UsageError(
                f"the ensemble '{model.name}' calls '{name}', which is an ensemble itself",
                remedy="tune the inner one on its own",
            )
        found.append(given.get(name, ModelSettings(name)))
    return found


def _is_cpu_only(model: ModelSettings, base: Fields, has_gpus: bool) -> bool:
    """As the user says; else CPU where no GPU is, or where the model's own configuration says so."""
    if model.cpu_only is not None:
        return model.cpu_only
    kinds = {str(group.get("kind", "KIND_AUTO")) for group in base.get("instance_group", ())}
    return not has_gpus or kinds == {"KIND_CPU"}


def choose(asked: str, problem: SearchProblem, names: VariantNames) -> tuple[str, SearchSteps]:
    """The name of the search that is made, and its steps. What consists of several models is never walked whole."""
    if asked == "smart":
        from inferometer.tune.search.smart import smart

        return "smart", smart(problem, names)
    if asked == "optuna":
        from inferometer.tune.search.optuna_search import optuna_search

        return "optuna", optuna_search(problem, names)
    if asked == "quick" or (asked == "brute" and _is_composed(problem)):
        return "quick", quick(problem, names)
    if asked == "brute":
        return "brute", brute(problem, names)
    raise UsageError(f"there is no search '{asked}'", remedy="take smart, brute, quick or optuna")


def _is_composed(problem: SearchProblem) -> bool:
    return len(problem.tasks) > 1 or any(task.members for task in problem.tasks)
