"""Interface between a controller and its clients, independent of the transport."""

from collections.abc import Collection, Sequence
from typing import Protocol

from inferometer.base.errors import LocalError
from inferometer.cluster.messages import ClientAnswer, Question


class ClientLost(LocalError):
    """A client can no longer be reached; returned by a network in place of an answer."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name} was lost: {why}")
        self.name = name
        self.why = why

    def __reduce__(self) -> tuple[type["ClientLost"], tuple[str, str]]:
        return ClientLost, (self.name, self.why)


class Pending(Protocol):
    """A request that may not have been answered yet; hashable."""


class Client(Protocol):
    """A client that has been started with its job."""

    @property
    def name(self) -> str:
        """The name, such as `client 1`."""

    @property
    def place(self) -> str:
        """The machine it runs on, as the user knows it."""

    def ask(self, message: Question) -> Pending:
        """Send a request without waiting or failing; `Network.wait` reports a lost client."""


class Network(Protocol):
    """The clients and their answers. Only one thread at a time may use it."""

    @property
    def clients(self) -> Sequence[Client]: ...

    @property
    def pids(self) -> Sequence[int]:
        """The clients' processes on this machine, so that they do not count as other programs."""

    def wait(
        self, pending: Collection[Pending], timeout_s: float
    ) -> list[tuple[Pending, ClientAnswer | ClientLost]]:
        """Return the answered or lost requests; wait for the first one, up to the timeout."""

    def close(self) -> None:
        """End all clients and wait for them."""
