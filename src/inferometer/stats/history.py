"""Grouping of comparable runs, and the history of their figures.

Only comparable runs form a history: the same command and model on the same class of machine and the same kind of
server, with the same options. Differences that do not affect the figures are ignored: addresses, report files, tags,
other measured loads, and durations.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from inferometer.base.frozen import frozen
from inferometer.options.options import MODERN
from inferometer.stats.estimate import Estimate
from inferometer.stats.figures import named
from inferometer.stats.trend import TrendPoint

FIGURES = ("throughput", "p50", "p90", "p99", "ttft", "tokens")
"""Figures whose history is shown, if a run has them."""
FINISHED = "finished"
_FLAGS = frozenset(name for _, rows in MODERN for row in rows if row.values is None for name in row.names)
_FREE = frozenset(
    (
        *("-u", "--url", "-m", "--model", "--config"),
        *("-c", "--concurrency", "-r", "--rate", "-d", "--duration", "-n", "--warmup", "--time-limit"),
        *("-q", "--quiet", "-v", "--verbose", "--no-store", "--ui"),
        *("--precision", "--slo", "--store", "--tag", "--prometheus", "--otlp"),
        *("--otlp-traces", "--trace-share", "--perfetto"),
        *("--json", "--html", "--markdown", "--junit", "-f", "--csv", "--profile-export"),
    )
)
"""Options that may differ between comparable runs."""


class PastPoint(Protocol):
    """A level of a run."""

    @property
    def mode(self) -> str: ...
    @property
    def value(self) -> float: ...
    @property
    def figures(self) -> Mapping[str, Estimate]: ...
    @property
    def variant(self) -> str: ...


class PastRun(Protocol):
    """The parts of a stored run that its history needs."""

    @property
    def id(self) -> str: ...
    @property
    def command(self) -> str: ...
    @property
    def words(self) -> Sequence[str]: ...
    @property
    def state(self) -> str: ...
    @property
    def started_at(self) -> str: ...
    @property
    def host_class(self) -> str: ...
    @property
    def server(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def tags(self) -> Sequence[str]: ...
    @property
    def points(self) -> Sequence[PastPoint]: ...


R = TypeVar("R", bound=PastRun)


@frozen
class RunSetting:
    """The common properties of comparable runs."""

    command: str
    model: str
    server: str  # kind only; a new version is a change worth seeing
    host_class: str
    options: tuple[str, ...] = ()  # on the command line, that affect the requests


def setting(run: PastRun) -> RunSetting:
    kind = run.server.partition(" ")[0]
    return RunSetting(run.command, run.model, kind, run.host_class, _options(run.words))


def _options(words: Sequence[str]) -> tuple[str, ...]:
    """Return the relevant options with their values, sorted by name."""
    found: list[str] = []
    is_kept = False
    for word in words:
        if word.startswith("-") and len(word) > 1 and not word[1].isdigit():
            name, _, value = word.partition("=")
            is_kept = name not in _FREE
            found += [f"{name} {value}".strip()] if is_kept else []
            is_kept = is_kept and not value and name not in _FLAGS  # its value follows
        elif is_kept:
            found[-1] += f" {word}"
            is_kept = False
    return tuple(sorted(found))


def histories(runs: Iterable[R]) -> dict[RunSetting, tuple[R, ...]]:
    """Group finished runs that are comparable, oldest first; settings are ordered by their latest run, newest first."""
    found: dict[RunSetting, list[R]] = {}
    for run in sorted(runs, key=_moment, reverse=True):
        if run.state == FINISHED and run.points:
            found.setdefault(setting(run), []).append(run)
    return {key: tuple(reversed(group)) for key, group in found.items()}


def _moment(run: PastRun) -> float:
    try:
        return datetime.fromisoformat(run.started_at).timestamp()
    except ValueError:
        return 0.0


@frozen
class FigureHistory:
    """A figure of comparable runs at one load, in run order."""

    figure: str  # short name, such as p99
    mode: str
    value: float  # of the load
    points: tuple[TrendPoint, ...]
    variant: str = ""  # of a comparison

    @property
    def is_higher_better(self) -> bool:
        metric = named(self.figure)
        return metric is not None and metric.is_higher_better


def figure_histories(runs: Sequence[PastRun], figures: Sequence[str] = FIGURES) -> tuple[FigureHistory, ...]:
    """Return one history per load and figure of comparable runs, oldest first. Figures that are 0 are left out."""
    found: dict[tuple[str, str, float, str], list[TrendPoint]] = {}
    for run in runs:
        for point in run.points:
            for name in figures:
                figure = point.figures.get(name)
                if figure is not None and figure.value > 0:
                    key = (point.variant, point.mode, point.value, name)
                    row = TrendPoint(run.id, run.started_at, figure.value, figure.low, figure.high)
                    found.setdefault(key, []).append(row)
    order = sorted(found, key=lambda key: (*key[:3], figures.index(key[3])))
    return tuple(
        FigureHistory(name, mode, value, tuple(found[variant, mode, value, name]), variant)
        for variant, mode, value, name in order
    )
