"""Traffic classes, each with its own workers: starting and measuring them."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from inferometer.base.units import NS_PER_MS, NS_PER_S, monotonic_ns
from inferometer.load.together import Group, Pace, Together
from inferometer.measure.counters import ClassCounters
from inferometer.measure.host import HostWatch, LocalServer
from inferometer.measure.instrument import ClassSettings, Instrument, LevelSettings
from inferometer.measure.mix import has_own_counters
from inferometer.measure.opening import bounded, by_client, start_workers
from inferometer.measure.prepare import SLICES, Setup
from inferometer.observe.host import is_this_host
from inferometer.stats.stopping import Precision
from inferometer.stats.watcher import Watcher

if TYPE_CHECKING:  # needed only by runs on a cluster
    from inferometer.cluster.by_client import ByClient
    from inferometer.cluster.ray_process import RayProcess

SHORTEST_WINDOW_NS = 100 * NS_PER_MS
LONGEST_WINDOW_NS = 5 * NS_PER_S


@contextmanager
def start_groups(
    setups: Sequence[Setup], watcher: Watcher | None = None, *, ray: "RayProcess | None" = None
) -> Iterator[Together]:
    """Start the workers of every class.

    With --ray, every class has its own clients, all on the same nodes of one cluster.
    """
    options = setups[0].options
    steps = [len(setup.traffic.requests) for setup in setups]
    with ExitStack() as stack:
        pace = Pace()
        if options.ray is not None:
            from inferometer.measure.clients import CLASSES_PACE, open_ray

            ray = stack.enter_context(open_ray(options, watcher or Watcher())) if ray is None else ray
            pace = CLASSES_PACE
        groups = [stack.enter_context(start_workers(setup, watcher, ray=ray)) for setup in setups]
        books = [setup.level_settings.tasks for setup in setups]
        taps = [None if book is None else book.add for book in books]
        yield Together(cast(list[Group], groups), steps, monotonic_ns, pace, taps)


def group_instrument(
    setups: Sequence[Setup], names: Sequence[str], load: Together, watcher: Watcher
) -> Instrument:
    endpoints = [endpoint for setup in setups for endpoint in setup.traffic.wiring.endpoints]
    ports = tuple(dict.fromkeys(row.port for row in endpoints if is_this_host(row.host)))
    server = LocalServer(*ports) if ports else None
    return Instrument(
        load,
        monotonic_ns,
        bounded(ClassCounters(setups), watcher),
        watcher,
        host=HostWatch(server, lambda: load.pids),
        examples_of=load.examples_of,
        clients=_by_client(load, names) if setups[0].options.ray is not None else (),
    )


def _by_client(load: Together, names: Sequence[str]) -> "tuple[ByClient, ...]":
    found = by_client(*load.groups)
    for figures, name in zip(found, names, strict=True):
        figures.class_name = name
    return found


def class_level_settings(setups: Sequence[Setup], names: Sequence[str], length_ns: int) -> LevelSettings:
    """Return the settings for all classes together, each with its own model and SLO, for a fixed time."""
    sizes = [len(setup.traffic.requests) for setup in setups]
    everyone = [part for setup in setups for part in (setup.parts or (setup,))]
    classes = tuple(
        ClassSettings(
            name=name,
            url=str(setup.result.server["url"]),
            level=_with_parts(
                _timed(_numbered(setup, sizes, number), length_ns), setup, everyone, sum(sizes[:number])
            ),
            has_own_counters=has_own_counters(setup, everyone),
        )
        for number, (name, setup) in enumerate(zip(names, setups, strict=True))
    )
    return replace(
        _timed(setups[0].level_settings, length_ns),
        promise=None,
        tasks=None,
        has_tokens=all(setup.level_settings.has_tokens for setup in setups),
        asked_tokens=(),
        classes=classes,
        class_of_step=tuple(number for number, size in enumerate(sizes) for _ in range(size)),
    )


def _with_parts(level: LevelSettings, setup: Setup, everyone: Sequence[Setup], first: int) -> LevelSettings:
    """Also count each address, or each step of visits or tasks, separately. `everyone` has these parts of all classes;
    `first` is the number of the class's first step among all steps."""
    parts = _named_parts(setup)
    if not parts:
        return level
    own = replace(level, promise=None, judges_promise=False, tasks=None, classes=(), class_of_step=())
    classes = tuple(
        ClassSettings(
            name=name,
            url=str(part.result.server["url"]),
            level=replace(own, model=part.model),
            has_own_counters=has_own_counters(part, everyone),
        )
        for name, part in parts
    )
    return replace(
        level,
        has_visits=setup.traffic.visits is not None,
        classes=classes,
        class_of_step=(*(-1,) * first, *(level.class_of_step or range(len(classes)))),
    )


def _named_parts(setup: Setup) -> list[tuple[str, Setup]]:
    visits, tasks = setup.traffic.visits, setup.traffic.tasks
    if tasks is not None:
        return [(name, setup) for name in tasks.kinds]
    names = (
        [part.traffic.wiring.endpoint.authority for part in setup.parts] if visits is None else visits.steps
    )
    return list(zip(names, setup.parts, strict=True))


def _timed(settings: LevelSettings, length_ns: int) -> LevelSettings:
    window_ns = min(max(length_ns // SLICES, SHORTEST_WINDOW_NS), LONGEST_WINDOW_NS)
    return replace(
        settings,
        rule=Precision(precision=0.0, duration_ns=length_ns),
        window_ns=min(window_ns, length_ns),
        window_count=None,
        is_whole=False,
        is_timed=True,
        finds_warm_up=False,
        follows_work=False,
        ramp=None,
    )


def _numbered(setup: Setup, sizes: Sequence[int], number: int) -> LevelSettings:
    """Offset the requested tokens by the number of requests in earlier classes."""
    asked = setup.level_settings.asked_tokens
    if not asked:
        return setup.level_settings
    return replace(setup.level_settings, asked_tokens=(*(0,) * sum(sizes[:number]), *asked))
