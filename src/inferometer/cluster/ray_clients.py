"""A network of clients on a Ray cluster."""

import contextlib
import pickle
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from inferometer.base.confined import check_path
from inferometer.base.errors import LocalError
from inferometer.base.frozen import frozen
from inferometer.base.processes import family
from inferometer.base.reading import CERTIFICATE, read_file
from inferometer.base.units import monotonic_ns
from inferometer.cluster.messages import AskTime, ClientAnswer, ClientJob, ClientTime, Question
from inferometer.cluster.network import Client, ClientLost, Pending
from inferometer.cluster.ray_messages import (
    AskClient,
    BeginClients,
    BegunClient,
    ClientSaid,
    ClientsBegun,
    ClientsEnded,
    EndClients,
    machine,
)
from inferometer.cluster.ray_process import RayProcess

BEGIN_S = 240.0  # the helper process has shorter limits, each with its own message
END_S = 10.0


@frozen
class _Asked:
    number: int
    name: str  # of the client


@frozen
class _RayClient:
    name: str
    begun: BegunClient
    number: int  # for the helper process
    ray: RayProcess

    @property
    def place(self) -> str:
        return self.begun.place

    @property
    def is_here(self) -> bool:
        """Whether it shares this machine's clock."""
        return self.begun.machine == machine() != ""

    def ask(self, message: Question) -> Pending:
        asked = _Asked(self.ray.next_number(), self.name)
        is_aside = isinstance(message, AskTime)
        if is_aside and self.is_here and not self.ray.is_gone:
            # Serves as a keep-alive message; the client's time is known exactly here.
            self.ray.answer(ClientSaid(asked.number, pickle.dumps(ClientTime(monotonic_ns()))))
        self.ray.send(AskClient(asked.number, self.number, pickle.dumps(message), is_aside))
        return asked


@dataclass(slots=True)
class RayNetwork:
    """Clients on a Ray cluster, one for each job; `close` ends them."""

    ray: RayProcess
    jobs: Sequence[ClientJob]
    _clients: list[_RayClient] = field(default_factory=list)

    def __post_init__(self) -> None:
        jobs, ray = self.jobs, self.ray
        ray.send(BeginClients(tuple(map(pickle.dumps, jobs)), files_of(jobs[0])))
        begun = ray.expect(ClientsBegun, BEGIN_S).clients
        self._clients = [
            _RayClient(f"client {index + 1}", client, ray.begun + index, ray)
            for index, client in enumerate(begun)
        ]
        ray.begun += len(begun)

    # --- Network

    @property
    def clients(self) -> Sequence[Client]:
        return self._clients

    def wait(
        self, pending: Collection[Pending], timeout_s: float
    ) -> list[tuple[Pending, ClientAnswer | ClientLost]]:
        deadline = time.monotonic() + timeout_s
        self.ray.read(0)
        while True:
            found = [
                (asked, answer) for asked in pending if (answer := self._maybe_answer(asked)) is not None
            ]
            left_s = deadline - time.monotonic()
            if found or not pending or left_s <= 0:
                return found
            self.ray.read(left_s)

    def _maybe_answer(self, asked: Pending) -> ClientAnswer | ClientLost | None:
        assert isinstance(asked, _Asked)
        said = self.ray.said.pop(asked.number, None)
        if said is None:
            return (
                ClientLost(asked.name, "the connection to the Ray cluster was lost")
                if self.ray.is_gone
                else None
            )
        if said.lost:
            return ClientLost(asked.name, said.lost)
        answer: ClientAnswer = pickle.loads(said.answer)
        return answer

    def close(self) -> None:
        clients, self._clients = self._clients, []
        if clients and not self.ray.is_gone:
            first = clients[0].number
            self.ray.send(EndClients(range(first, first + len(clients))))
            with contextlib.suppress(LocalError):  # then they end with the helper process
                self.ray.expect(ClientsEnded, END_S, is_end=True)

    # --- about the clients

    @property
    def cores(self) -> tuple[int, ...]:
        """The cores that each client may use."""
        return tuple(client.begun.cores for client in self._clients)

    @property
    def pids(self) -> tuple[int, ...]:
        """Our processes on this machine."""
        return (*self.ray.pids, *family(client.begun.pid for client in self._clients if client.is_here))

    def maybe_elsewhere(self) -> Client | None:
        """Return a client on another machine, if any."""
        return next((client for client in self._clients if not client.is_here), None)


def files_of(job: ClientJob) -> dict[str, bytes]:
    """Return the local files that the job needs."""
    tls = job.traffic.wiring.endpoint.tls
    found = {}
    named = () if tls is None else (tls.ca_file, tls.certificate_file, tls.key_file)
    for path in filter(None, named):
        check_path(path)
        found[path] = read_file(path, CERTIFICATE, "the file", remedy="check its permissions")
    return found
