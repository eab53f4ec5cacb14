"""Messages between a run and its helper process for Ray. Messages of clients pass through as bytes."""

import contextlib
import os
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path

from inferometer.base.errors import InferometerError
from inferometer.base.frozen import frozen
from inferometer.base.system import has_proc, sysctl

LOCAL = "local"
"""Address of a cluster on this machine that we start and stop."""

CLIENT, SERVER = "client", "server"
"""What to start: clients that send load, or model servers, which share cores and GPUs."""


def machine() -> str:
    """Return an id shared by exactly those processes that have the same clock and process ids; empty if unknown."""
    if not has_proc():
        return sysctl("kern.bootsessionuuid")
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        spaces = (Path(f"/proc/self/ns/{kind}") for kind in ("pid", "time"))  # old kernels lack the second
        return " ".join((boot, *(os.readlink(space) for space in spaces if space.is_symlink())))
    return ""


@frozen
class RaySettings:
    """The cluster, the number of clients, and the resources of each."""

    address: str  # auto, local, host:port or ray://host:port
    clients: int | None = None  # None: one per node with room, two on a local cluster
    resources: dict[str, float] = field(default_factory=dict)  # empty: one core
    noun: str = CLIENT  # CLIENT or SERVER


@frozen
class ConnectRay:
    """Connect to a cluster, or start one on this machine."""

    settings: RaySettings
    folder: str  # for the files of nodes we start


@frozen
class ClientsPlaced:
    """The cluster has room for this number of clients."""

    count: int


@frozen
class BeginClients:
    """Start one client in each place. Clients of several loads may share a place, since they take turns."""

    jobs: tuple[bytes, ...]
    files: dict[str, bytes]  # named by the jobs


@frozen
class BegunClient:
    """A client that is ready."""

    place: str  # its node's address
    niceness: int
    machine: str
    pid: int  # on its node
    cores: int  # available to it


@frozen
class ClientsBegun:
    """The clients that `BeginClients` started, in the order of its jobs."""

    clients: tuple[BegunClient, ...]


@frozen
class EndClients:
    """End the clients with these numbers."""

    clients: Sequence[int]


@frozen
class ClientsEnded:
    """The clients that `EndClients` named are gone."""


@frozen
class AskClient:
    """A request to one client."""

    number: int  # of the request
    client: int  # in the order of their start
    message: bytes
    is_aside: bool = False  # answered while others are processed, which keep their order


@frozen
class ClientSaid:
    """The answer to the request with the same number."""

    number: int
    answer: bytes = b""
    lost: str = ""  # why there is no answer


@frozen
class RayFailed:
    """A request failed: an error for the user, or a bug with its traceback."""

    error: InferometerError | None
    text: str
