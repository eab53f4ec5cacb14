"""Everything a search can be asked, checked: made by the commands, from words or from a file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inferometer.options.options import Options
from inferometer.server.ports import Ports
from inferometer.tune.goal import LISTED_WEIGHT, Constraint, Goal
from inferometer.tune.launch.site import Addresses, Control
from inferometer.tune.metrics import THROUGHPUT
from inferometer.tune.prompts import Prompts
from inferometer.tune.search.scope import OptunaLimits
from inferometer.tune.search.search import Effort
from inferometer.tune.space import Bounds

SEARCHES = ("smart", "brute", "quick", "optuna")
IN_PROCESS = "c_api"
LAUNCH_MODES = ("local", "docker", "remote", IN_PROCESS)


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """One model: what to change, how to load it, what is wanted of it."""

    name: str
    objectives: tuple[tuple[str, float], ...] = ((THROUGHPUT, LISTED_WEIGHT),)
    constraints: tuple[Constraint, ...] = ()
    weight: float = 1.0
    cpu_only: bool | None = None  # None: as the server has it
    batches: tuple[int, ...] = (1,)
    loads: tuple[float, ...] | None = None  # concurrencies or rates the user listed
    swept: Mapping[str, Any] | None = None  # model_config_parameters
    where: str = "model_config_parameters"  # the dotted path to `swept`, for messages
    options: Options | None = None  # what to send; None sends random data
    makes_text: bool = False  # tokens are measured
    prompts: Prompts | None = None  # to send to such a model; None sends the data of the options
    members: tuple["ModelSettings", ...] = ()  # of a BLS model, or settings for those of an ensemble
    is_bls: bool = False
    server_flags: tuple[tuple[str, str], ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def goal(self) -> Goal:
        return Goal(self.name, self.objectives, self.constraints, self.weight)


@dataclass(frozen=True, slots=True)
class LaunchSettings:
    """Where the models run."""

    mode: str = "local"
    repositories: tuple[Path, ...] = ()
    executable: str | None = None  # None: the embedded server
    install_path: str | None = None  # of a library for c_api; None: the usual place, or the embedded one
    ports: Ports = field(default_factory=Ports)  # of a server of ours; 0 is picked
    addresses: Addresses = field(default_factory=Addresses)  # of somebody else's
    control: Control = field(default_factory=Control)
    flags: tuple[tuple[str, str], ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    log: Path | None = None
    timeout_s: float = 60.0
    metrics_interval_ms: int = 1000
    may_load: bool = True
    gpus: tuple[str, ...] | None = None  # UUIDs or numbers; None is all
    docker_image: str = ""
    docker_words: tuple[str, ...] = ()  # of `docker run`, beyond our own
    docker_mounts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """A whole `profile`."""

    models: tuple[ModelSettings, ...]
    launch: LaunchSettings = field(default_factory=LaunchSettings)
    search: str = "smart"
    mode: str = "online"
    together: bool = False
    bounds: Bounds = field(default_factory=Bounds)
    by_rate: bool = False
    intervals: str | None = None
    is_search_on: bool = True
    early_exit: bool = False
    top: int = 3
    binary_steps: int = 5
    sweep_after: bool = True
    optuna: OptunaLimits = field(default_factory=OptunaLimits)
    budget_s: float | None = None
    seed: int | None = None
    effort: Effort = field(default_factory=lambda: Effort(2.5, 0.03))
    journal: Path = Path("inferometer-tune.sqlite")
    cpu_only_members: tuple[str, ...] = ()
    watch_gpus: bool | None = None  # None: when there are any
    idle_s: float = 0.0  # how long the empty server is watched for its own figures
