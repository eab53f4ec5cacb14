"""The beginning of a search, on one server or on several: its problem, its steps, and the study that it fills."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import inferometer
from inferometer.base.frozen import frozen
from inferometer.tune.journal import Journal
from inferometer.tune.model_config import Fields
from inferometer.tune.prepare import choose, make_problem, with_all_figures, with_gpu_figures
from inferometer.tune.recall import recalled
from inferometer.tune.search.search import SearchProblem, SearchSteps
from inferometer.tune.settings import ModelSettings, TuneSettings
from inferometer.tune.study import Study
from inferometer.tune.trial import Trial
from inferometer.tune.variant import VariantNames


@frozen
class SearchPlace:
    """The server or servers on which a search takes place."""

    read: Callable[[str], Fields]  # a model's own configuration
    key_end: Callable[[Sequence[str]], str]  # the end of the keys of trials of these models
    has_gpus: bool
    servers: int
    host: Mapping[str, Any]
    gpus: Mapping[str, Any]
    idle: tuple[Trial, ...] = field(default=())


@frozen
class SearchStart:
    """A search that is about to begin."""

    problem: SearchProblem
    steps: SearchSteps[str]
    study: Study


def begin(
    settings: TuneSettings,
    group: Sequence[ModelSettings],
    place: SearchPlace,
    journal: Journal,
    names: VariantNames,
) -> SearchStart:
    """Create the search of these models, with the trials in the journal that belong to it."""
    problem = make_problem(settings, group, place.read, place.has_gpus)
    suffix = place.key_end([task.model for task in problem.tasks])
    known = recalled(problem, names, journal.trials(), suffix)
    problem = replace(problem, seed=_seed_of(settings, journal), servers=place.servers, known=known)
    name, steps = choose(settings.search.method, problem, names)
    if settings.must_know_gpus:
        steps = with_gpu_figures(steps, problem.goals)
    if settings.launch.command is not None:
        steps = with_all_figures(steps, problem.goals)
    study = Study(
        tool=f"inferometer {inferometer.__version__}",
        mode=settings.mode,
        search=name,
        goals=problem.goals,
        host=place.host,
        server={"launch": settings.launch.mode},
        seed=problem.seed,
        gpus=place.gpus,
        idle=place.idle,
    )
    return SearchStart(problem, steps, study)


def _seed_of(settings: TuneSettings, journal: Journal) -> int:
    """Return the user's seed, or that of the resumed search, or a new one."""
    if settings.search.seed is not None:
        return settings.search.seed
    known = journal.recall("seed")
    if known is None:
        known = random.randrange(10_000)
        journal.remember("seed", known)
    return int(known)
