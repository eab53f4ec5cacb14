"""How a controller reaches its clients, whatever lies between."""

from collections.abc import Collection, Sequence
from typing import Protocol

from inferometer.base.errors import LocalError
from inferometer.cluster.messages import ClientAnswer, Question


class ClientLost(LocalError):
    """A client can no longer be reached. A network gives it in place of an answer."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name} was lost: {why}")
        self.name = name
        self.why = why

    def __reduce__(self) -> tuple[type["ClientLost"], tuple[str, str]]:
        return ClientLost, (self.name, self.why)


class Pending(Protocol):
    """A question that may not have been answered yet. May be a key of a dict."""


class Client(Protocol):
    """A client that was started with its job."""

    @property
    def name(self) -> str:
        """Such as `client 1`."""

    @property
    def place(self) -> str:
        """Where it runs, as the user knows the machine."""

    def ask(self, message: Question) -> Pending:
        """Send the question; never waits, and never fails: a client that is gone shows in `Network.wait`."""


class Network(Protocol):
    """The clients and what comes from them. Used by one thread at a time."""

    @property
    def clients(self) -> Sequence[Client]: ...

    @property
    def pids(self) -> Sequence[int]:
        """Processes of theirs on this machine, so that they are not taken for other programs."""

    def wait(
        self, pending: Collection[Pending], timeout_s: float
    ) -> list[tuple[Pending, ClientAnswer | ClientLost]]:
        """Those that were answered, or never will be; returns with the first of them, or none after the time."""

    def close(self) -> None:
        """End all clients, and wait until nothing of them is left."""
