"""From settings to studies: opens the server, the journal and the meter, and runs a search per model."""

import contextlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import inferometer
from inferometer.base.clock import monotonic_ns
from inferometer.measure.prepare import IN_PROCESS_KIND
from inferometer.observe.gpu import Nvml, open_nvml
from inferometer.observe.host import describe_host
from inferometer.options.options import Options
from inferometer.tune import journal as journals
from inferometer.tune.checks import check_settings
from inferometer.tune.idle import watch_idle
from inferometer.tune.launch.open import open_site
from inferometer.tune.launch.site import Site
from inferometer.tune.meter import EngineMeter, Meter
from inferometer.tune.prompts import Prompts
from inferometer.tune.run import Lab, Watcher, run
from inferometer.tune.scoping import are_whole, base_config, groups, make_scope
from inferometer.tune.search.choose import choose
from inferometer.tune.search.search import Say, Search
from inferometer.tune.settings import IN_PROCESS, ModelSettings, Settings
from inferometer.tune.study import Study
from inferometer.tune.trial import Trial
from inferometer.tune.variant import Names

MakeMeter = Callable[[Settings, Watcher], Meter]


def profile(
    settings: Settings,
    watcher: Watcher,
    *,
    make_meter: MakeMeter | None = None,
) -> Iterator[Study]:
    """A study per model, or one of all models together, each as soon as its search ended."""
    check_settings(settings, sends=make_meter is None)
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
        for group in groups(settings):
            before, site = site, _site_for(settings, group, site, stack)
            if site is not before:
                watcher.said(Say(_where(settings, site), is_detail=True))
            if before is None:
                _warn_of_others(settings, site, watcher)
            if idle is None:
                idle = _idle(settings, nvml)
            lab = Lab(site, meter, journal, names, monotonic_ns, watcher, has_measured)
            scope = make_scope(settings, group, partial(base_config, settings, site), has_gpus)
            scope = replace(scope, seed=_seed(settings, journal))
            name, steps = choose(settings.search, scope, names)
            study = Study(
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


def _where(settings: Settings, site: Site) -> str:
    if settings.launch.mode == IN_PROCESS:
        return "No server is started: the workers load the models"
    verb = "found" if settings.launch.mode == "remote" else "started"
    return f"Triton Server {verb}: HTTP at {site.addresses.http}, gRPC at {site.addresses.grpc}"


def _warn_of_others(settings: Settings, site: Site, watcher: Watcher) -> None:
    names = [
        name for model in settings.models for name in (model.name, *(member.name for member in model.members))
    ]
    for other in site.others(names):
        text = f"The model '{other}' is loaded on the server and is not profiled: it may take part of the machine"
        watcher.said(Say(f"{text}, and so change the figures", is_warning=True))


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


def _engine(settings: Settings, watcher: Watcher) -> Meter:
    return EngineMeter(
        sent_options(settings), _Levels(watcher), settings.effort, sent_prompts(settings.models)
    )


def sent_prompts(models: Sequence[ModelSettings]) -> Mapping[str, Prompts | None]:
    """Of models that make text."""
    return {model.name: model.prompts for model in models if model.makes_text}


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
