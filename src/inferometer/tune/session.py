"""From settings to studies: opens the server, the journal and the meter, and runs a search per model."""

import contextlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import inferometer
from inferometer.base.clock import monotonic_ns
from inferometer.base.errors import UsageError
from inferometer.dataset.build import build
from inferometer.observe.gpu import Nvml, open_nvml
from inferometer.observe.host import describe_host
from inferometer.profile.checks import check_model
from inferometer.profile.options import Options
from inferometer.profile.points import read_intervals
from inferometer.profile.prepare import IN_PROCESS_KIND
from inferometer.tune import journal as journals
from inferometer.tune import model_config
from inferometer.tune.goal import Goal
from inferometer.tune.idle import watch_idle
from inferometer.tune.launch.open import open_site
from inferometer.tune.launch.site import Site
from inferometer.tune.local_models import described
from inferometer.tune.meter import EngineMeter, Meter
from inferometer.tune.model_config import Fields
from inferometer.tune.run import Lab, Watcher, run
from inferometer.tune.search.choose import choose
from inferometer.tune.search.scope import Scope, Task
from inferometer.tune.search.search import Search
from inferometer.tune.settings import IN_PROCESS, ModelSettings, Settings
from inferometer.tune.space import automatic, manual
from inferometer.tune.study import SCHEMA, Study
from inferometer.tune.trial import Trial
from inferometer.tune.variant import Names
from inferometer.wire.grpc import encode_headers
from inferometer.wire.http1 import encode_request

MakeMeter = Callable[[Settings, Watcher], Meter]


def profile(
    settings: Settings,
    watcher: Watcher,
    *,
    make_meter: MakeMeter | None = None,
) -> Iterator[Study]:
    """A study per model, or one of all models together, each as soon as its search ended."""
    check_models(settings)
    if make_meter is None:
        check_sent(settings)
    nvml = open_nvml()
    has_gpus = nvml is not None
    idle: tuple[Trial, ...] | None = None
    with contextlib.ExitStack() as stack:
        journal = stack.enter_context(journals.opened(settings.journal))
        meter = (make_meter or _engine)(settings, watcher)
        stack.callback(meter.close)
        names = Names.of(journal.variants())
        site: Site | None = None
        has_measured = False
        for group in _groups(settings):
            site = _site_for(settings, group, site, stack)
            if idle is None:
                idle = _idle(settings, nvml)
            lab = Lab(site, meter, journal, names, monotonic_ns, watcher, has_measured)
            scope = make_scope(settings, group, partial(base_config, settings, site), has_gpus)
            scope = replace(scope, seed=_seed(settings, journal))
            name, steps = choose(settings.search, scope, names)
            study = Study(
                schema=SCHEMA,
                tool=f"inferometer {inferometer.__version__}",
                mode=settings.mode,
                search=name,
                goals=scope.goals,
                host=describe_host(),
                server={"launch": settings.launch.mode},
                seed=scope.seed,
                gpus=known_gpus(settings, nvml),
                idle=idle,
            )
            study = run(lab, Search(steps), study)
            has_measured = has_measured or bool(study.measured)
            yield study
            if watcher.is_interrupted():
                return


def known_gpus(settings: Settings, nvml: Nvml | None) -> Mapping[str, Any]:
    """Name and memory by UUID; those of somebody else's server are not ours to see."""
    if nvml is None or settings.watch_gpus is False or settings.launch.mode == "remote":
        return {}
    names = nvml.names()
    return {
        uuid: {"name": names[uuid], "total_memory": gpu.memory_total_bytes or 0}
        for uuid, gpu in nvml.read().items()
    }


def _idle(settings: Settings, nvml: Nvml | None) -> tuple[Trial, ...]:
    if nvml is None or not known_gpus(settings, nvml) or not settings.idle_s:
        return ()
    if settings.launch.mode == IN_PROCESS:
        return ()  # there is no server without a model
    return (watch_idle(nvml.read, settings.idle_s, settings.launch.metrics_interval_ms / 1000),)


def _groups(settings: Settings) -> Sequence[tuple[ModelSettings, ...]]:
    return [settings.models] if settings.together else [(model,) for model in settings.models]


def _site_for(
    settings: Settings, group: Sequence[ModelSettings], site: Site | None, stack: contextlib.ExitStack
) -> Site:
    """Models with server flags of their own get a server of their own."""
    own = group[0]
    launch = settings.launch
    if launch.mode == "local" and launch.executable is None and are_whole(settings):
        # Completing a configuration starts the model once more, at every load.
        launch = replace(launch, flags=(*launch.flags, ("disable-auto-complete-config", "")))
    if site is not None and not own.server_flags and not own.environment and not site.is_special:
        return site
    if site is not None:
        site.close()
    if own.server_flags or own.environment:
        launch = replace(
            launch,
            flags=own.server_flags or launch.flags,
            environment=own.environment or launch.environment,
        )
    fresh = open_site(launch)
    fresh.is_special = bool(own.server_flags or own.environment)
    return stack.enter_context(fresh)


def _seed(settings: Settings, journal: journals.Journal) -> int:
    """The user's, else the one of the search that is resumed, else a new one."""
    if settings.seed is not None:
        return settings.seed
    known = journal.recall("seed")
    if known is None:
        known = random.randrange(10_000)
        journal.remember("seed", known)
    return int(known)


def check_models(settings: Settings) -> None:
    """Names that are not in the repository are said at once, before anything is started."""
    folders = settings.launch.repositories
    if settings.launch.mode == "remote" or not folders:
        return
    for model in settings.models:
        if model_config.find_model(folders, model.name) is None:
            known = sorted(path.name for folder in folders for path in folder.iterdir() if path.is_dir())
            raise UsageError(
                f"the model '{model.name}' is not in the model repository '{folders[0]}'",
                remedy=f"it has {', '.join(known) or 'no models'}",
            )


def check_sent(settings: Settings) -> None:
    """What cannot be sent is refused before anything is started, as far as the models' own files say what they take."""
    if settings.intervals is not None:
        read_intervals(settings.intervals)
    for model in settings.models:
        options = model.options or Options(model=model.name)
        if options.protocol == "grpc":
            encode_headers(
                path="/inference.GRPCInferenceService/ModelInfer", authority="-", metadata=options.headers
            )
        else:
            encode_request("POST", "/", options.headers, 0)
        spec = None if options.service_kind != "triton" else described(settings.launch.repositories, options)
        if spec is not None:
            check_model(options, spec)
            build(spec, options.data, is_scheduled=options.fixed_schedule)


def are_whole(settings: Settings) -> bool:
    """Every model that will be loaded has a configuration of its own that leaves nothing to the server."""
    names = [
        member for model in settings.models for member in (model.name, *(row.name for row in model.members))
    ]
    while names:
        folder = model_config.find_model(settings.launch.repositories, name := names.pop())
        if folder is None or not (folder / "config.pbtxt").exists():
            return False
        found = model_config.read_file(folder / "config.pbtxt")
        is_ensemble = "ensemble_scheduling" in found
        if not all(found.get(field) for field in ("input", "output")):
            return False
        if not is_ensemble and not (found.get("backend") or found.get("platform")):
            return False
        names += [member for member in model_config.members(found) if member != name]
    return True


def base_config(settings: Settings, site: Site, model: str) -> Fields:
    """The model's own file where there is one we can see, else what the server makes of it."""
    folder = model_config.find_model(settings.launch.repositories, model)
    if folder is not None and (folder / "config.pbtxt").exists():
        found = model_config.read_file(folder / "config.pbtxt")
        if found.get("input") or found.get("ensemble_scheduling"):
            return {**found, "name": model}
    return site.base_config(model)


def make_scope(
    settings: Settings, group: Sequence[ModelSettings], read: Callable[[str], Fields], has_gpus: bool
) -> Scope:
    """What the search may try."""
    return Scope(
        tasks=tuple(_task(settings, model, read, has_gpus) for model in group),
        bounds=settings.bounds,
        by_rate=settings.by_rate,
        intervals=settings.intervals,
        is_search_on=settings.is_search_on,
        early_exit=settings.early_exit,
        top=settings.top,
        binary_steps=settings.binary_steps,
        sweep_after=settings.sweep_after and not settings.by_rate,
        budget_s=settings.budget_s,
        optuna=settings.optuna,
    )


def _task(settings: Settings, model: ModelSettings, read: Callable[[str], Fields], has_gpus: bool) -> Task:
    base = read(model.name)
    is_local = settings.launch.mode != "remote"
    cpu_only = _is_cpu_only(model, base, has_gpus if is_local else True)
    members = tuple(
        _member_task(settings, member, read, has_gpus if is_local else True)
        for member in _members(model, base, read)
    )
    if model.swept is not None:
        space = manual(model.name, base, model.swept, where=model.where, cpu_only=cpu_only)
    else:
        space = automatic(model.name, base, settings.bounds, cpu_only=cpu_only)
        if members and not model.is_bls:
            space = replace(space, parameters=())  # an ensemble has no instances of its own
    return Task(space, model.goal, model.batches, model.loads, members)


def _member_task(
    settings: Settings, member: ModelSettings, read: Callable[[str], Fields], has_gpus: bool
) -> Task:
    base = read(member.name)
    cpu_only = member.name in settings.cpu_only_members or _is_cpu_only(member, base, has_gpus)
    if member.swept is not None:
        space = manual(member.name, base, member.swept, where=member.where, cpu_only=cpu_only)
    else:
        space = automatic(member.name, base, settings.bounds, cpu_only=cpu_only)
    return Task(space, Goal(member.name))


def _members(model: ModelSettings, base: Fields, read: Callable[[str], Fields]) -> tuple[ModelSettings, ...]:
    if model.is_bls:
        return model.members
    given = {member.name: member for member in model.members}
    found = []
    for name in model_config.members(base):
        if model_config.members(read(name)):
            raise UsageError(
                f"the ensemble '{model.name}' calls '{name}', which is an ensemble itself",
                remedy="tune the inner one on its own",
            )
        found.append(given.get(name, ModelSettings(name)))
    return tuple(found)


def _is_cpu_only(model: ModelSettings, base: Fields, has_gpus: bool) -> bool:
    """As the user says; else CPU where no GPU is, or where the model's own configuration says so."""
    if model.cpu_only is not None:
        return model.cpu_only
    kinds = {str(group.get("kind", "KIND_AUTO")) for group in base.get("instance_group", ())}
    return not has_gpus or kinds == {"KIND_CPU"}


def _engine(settings: Settings, watcher: Watcher) -> Meter:
    return EngineMeter(sent_options(settings), _Levels(watcher), settings.effort)


def sent_options(settings: Settings) -> Mapping[str, Options]:
    """What is sent to each model, and to a server of which kind."""
    found = {model.name: model.options or Options(model=model.name) for model in settings.models}
    if settings.launch.mode != IN_PROCESS:
        return found
    return {name: replace(options, service_kind=IN_PROCESS_KIND) for name, options in found.items()}


class _Levels:
    """The engine tells more than a search's watcher wants to know."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    def level_started(self, mode: str, value: float) -> None:
        pass

    def window_finished(self, number: int, window: object) -> None:
        pass

    def level_finished(self, level: object) -> None:
        pass

    def is_interrupted(self) -> bool:
        return False  # a trial that runs is finished, so that it counts
