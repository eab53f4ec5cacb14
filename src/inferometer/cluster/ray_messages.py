"""What a run and the process that speaks to Ray for it say to each other. Messages of clients pass through as bytes."""

from dataclasses import dataclass, field

from inferometer.base.errors import InferometerError

LOCAL = "local"
"""The address of a cluster on this machine that we start and stop."""


@dataclass(frozen=True, slots=True)
class RaySettings:
    """Which cluster, how many clients, and what each of them needs of a node."""

    address: str  # auto, local, host:port or ray://host:port
    clients: int | None = None  # None: one for each node that has room; of a local cluster, two
    resources: dict[str, float] = field(default_factory=dict)  # none: a core


@dataclass(frozen=True, slots=True)
class ConnectRay:
    settings: RaySettings
    folder: str  # for the files of nodes that we start


@dataclass(frozen=True, slots=True)
class ClientsPlaced:
    count: int


@dataclass(frozen=True, slots=True)
class BeginClients:
    jobs: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class ClientsBegun:
    places: tuple[str, ...]
    niceness: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AskClient:
    number: int
    client: int
    message: bytes


@dataclass(frozen=True, slots=True)
class ClientSaid:
    number: int
    answer: bytes = b""
    lost: str = ""  # why there is no answer


@dataclass(frozen=True, slots=True)
class RayFailed:
    """It could not be done: an error for the user, or a bug with its traceback."""

    error: InferometerError | None
    text: str
