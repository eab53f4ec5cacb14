"""The short form of a search: one model, one promise, bounds; everything else is left to the tuner."""

from dataclasses import dataclass, field
from pathlib import Path

from inferometer.base.errors import UsageError
from inferometer.base.units import NS_PER_MS
from inferometer.measure.checks import changed
from inferometer.options.options import Options
from inferometer.server.repository import example_repository
from inferometer.stats.slo import parse_slo
from inferometer.tune.goal import Constraint
from inferometer.tune.launch.site import Addresses, Control
from inferometer.tune.metrics import BY_TAG
from inferometer.tune.settings import LaunchSettings, ModelSettings, Settings
from inferometer.tune.space import Bounds

JOURNAL = Path("inferometer-tune.sqlite")
RESERVE_S = 3.0  # of a budget: for starting and ending the server


@dataclass(frozen=True, slots=True)
class Wish:
    """What is wanted, and where to look for it."""

    options: Options  # of the measurements; its model is the one to tune
    slo: str | None = None
    budget_s: float | None = None
    repositories: tuple[Path, ...] = ()  # of a server of our own; none are the example models
    url: str | None = None  # of a server to tune on instead
    launch_mode: str = "local"  # or c_api: no server, the library in a worker
    install_path: str | None = None  # of that library
    search: str = "smart"
    bounds: Bounds = field(default_factory=Bounds)
    journal: Path = JOURNAL
    seed: int | None = None


def settings(wish: Wish) -> Settings:
    """Everything a search needs to know."""
    options = wish.options
    control = Control(options.protocol, options.headers, options.tls, options.grpc_tls)
    if wish.url is not None and wish.launch_mode != "local":
        raise UsageError(
            f"the launch mode {wish.launch_mode} has no server, and --url names one",
            remedy="give one of them",
        )
    if wish.url is not None:
        addresses = Addresses(http=wish.url, grpc=wish.url)
        launch = LaunchSettings(mode="remote", addresses=addresses, control=control)
    else:
        launch = LaunchSettings(
            mode=wish.launch_mode,
            repositories=wish.repositories or (example_repository(),),
            install_path=wish.install_path,
            control=control,
        )
    constraints = _constraints(wish.slo)
    percentile = 99 if any(row.tag.endswith("p99") for row in constraints) else None
    model = ModelSettings(
        options.model,
        constraints=constraints,
        options=changed(options, duration_s=None, asynchronous=True, percentile=percentile),
        batches=(options.batch or 1,),
    )
    return Settings(
        models=(model,),
        launch=launch,
        search=wish.search,
        bounds=wish.bounds,
        budget_s=None if wish.budget_s is None else max(1.0, wish.budget_s - RESERVE_S),
        seed=wish.seed,
        journal=wish.journal,
    )


def _constraints(slo: str | None) -> tuple[Constraint, ...]:
    if slo is None:
        return ()
    found = []
    for term in parse_slo(slo).terms:
        if term.name == "errors":
            found.append(Constraint("perf_error_rate", high=100 * term.limit))
            continue
        tag = "perf_latency_avg" if term.name == "mean" else f"perf_latency_{term.name}"
        if tag not in BY_TAG:
            raise UsageError(
                f"--slo names {term.name}", remedy="the tuner knows mean, p50, p90, p95, p99, errors"
            )
        found.append(Constraint(tag, high=term.limit / NS_PER_MS))
    return tuple(found)
