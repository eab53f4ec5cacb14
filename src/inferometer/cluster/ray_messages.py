"""What a run and the process that speaks to Ray for it say to each other. Messages of clients pass through as bytes."""

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from inferometer.base.errors import InferometerError

LOCAL = "local"
"""The address of a cluster on this machine that we start and stop."""

CLIENT, SERVER = "client", "server"
"""What is started: clients that send load, or model servers, which share out cores and GPUs among them."""


def machine() -> str:
    """The same for all processes that see each other and have the same clock, and for no others; empty: not known."""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        spaces = (Path(f"/proc/self/ns/{kind}") for kind in ("pid", "time"))  # old kernels have no second one
        return " ".join((boot, *(os.readlink(space) for space in spaces if space.is_symlink())))
    return ""


@dataclass(frozen=True, slots=True)
class RaySettings:
    """Which cluster, how many clients, and what each of them needs of a node."""

    address: str  # auto, local, host:port or ray://host:port
    clients: int | None = None  # None: one for each node that has room; of a local cluster, two
    resources: dict[str, float] = field(default_factory=dict)  # none: a core
    noun: str = CLIENT  # what is started on the nodes


@dataclass(frozen=True, slots=True)
class ConnectRay:
    """Connect to a cluster, or start one on this machine."""

    settings: RaySettings
    folder: str  # for the files of nodes that we start


@dataclass(frozen=True, slots=True)
class ClientsPlaced:
    """The cluster has room for this number of clients."""

    count: int


@dataclass(frozen=True, slots=True)
class BeginClients:
    """One in each place. Those of several loads may be in the same place: they take turns."""

    jobs: tuple[bytes, ...]
    files: dict[str, bytes]  # that the jobs name


@dataclass(frozen=True, slots=True)
class BegunClient:
    """A client that is ready."""

    place: str  # its node's address
    niceness: int
    machine: str
    pid: int  # there
    cores: int  # that it may use


@dataclass(frozen=True, slots=True)
class ClientsBegun:
    """The clients that `BeginClients` started, in the order of its jobs."""

    clients: tuple[BegunClient, ...]


@dataclass(frozen=True, slots=True)
class EndClients:
    """These, by number."""

    clients: Sequence[int]


@dataclass(frozen=True, slots=True)
class ClientsEnded:
    """The clients that `EndClients` named are gone."""


@dataclass(frozen=True, slots=True)
class AskClient:
    """A question for one client."""

    number: int  # of the question
    client: int  # in the order in which they began
    message: bytes
    is_aside: bool = False  # it is answered while others are worked on; those are in their order


@dataclass(frozen=True, slots=True)
class ClientSaid:
    """The answer to the question with the same number."""

    number: int
    answer: bytes = b""
    lost: str = ""  # why there is no answer


@dataclass(frozen=True, slots=True)
class RayFailed:
    """It could not be done: an error for the user, or a bug with its traceback."""

    error: InferometerError | None
    text: str
