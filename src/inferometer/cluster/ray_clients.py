"""Clients on a Ray cluster, as a network."""

import contextlib
import importlib.util
import os
import pickle
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

import inferometer
from inferometer.base.errors import InferometerError, LocalError, UsageError
from inferometer.base.units import plain_number
from inferometer.cluster.messages import ClientAnswer, ClientJob, Question
from inferometer.cluster.network import Client, ClientLost, Pending
from inferometer.cluster.ray_messages import (
    TLS_FILES,
    AskClient,
    BeginClients,
    BegunClient,
    ClientSaid,
    ClientsBegun,
    ClientsPlaced,
    ConnectRay,
    RayFailed,
    RaySettings,
    machine,
)
from inferometer.server.guarded import GuardedProcess, last_line

CONNECT_S = 180.0  # the process itself has shorter limits, each with its own sentence
BEGIN_S = 240.0
CLOSE_S = 10.0  # for actors and nodes to end in order
_LONGEST_FOLDER = 24  # Ray puts sockets below it, whose paths may have 107 characters
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_SCHEDULER_EVENTS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_BACKEND_LOG_LEVEL": "error",
    "RAY_DEDUP_LOGS": "0",
}

Answer = TypeVar("Answer")
MakeJobs = Callable[[int], Sequence[ClientJob]]
"""The jobs of so many clients."""


@dataclass(frozen=True, slots=True)
class _Asked:
    number: int
    client: int


@dataclass(slots=True)
class _Client:
    index: int
    begun: BegunClient
    network: "RayNetwork"

    @property
    def name(self) -> str:
        return f"client {self.index + 1}"

    @property
    def place(self) -> str:
        return self.begun.place

    def ask(self, message: Question) -> Pending:
        return self.network.ask(self.index, message)


@dataclass(slots=True)
class RayNetwork:
    """Clients on a Ray cluster, started with their jobs. Close it: nothing of them stays behind."""

    settings: RaySettings
    make_jobs: MakeJobs
    _clients: list[_Client] = field(default_factory=list)
    _process: GuardedProcess | None = None
    _bridge: Connection | None = None
    _asked: int = 0
    _said: dict[int, ClientSaid] = field(default_factory=dict)  # that nobody has waited for yet

    def open(self) -> None:
        """Connect, find room and start the clients."""
        if importlib.util.find_spec("ray") is None:
            raise UsageError(
                "--ray needs Ray, which is not installed here", remedy="pip install 'inferometer[ray]'"
            )
        try:
            self._start()
            placed = self._expect(ClientsPlaced, CONNECT_S)
            jobs = self.make_jobs(placed.count)
            self._send(BeginClients(tuple(map(pickle.dumps, jobs)), _files(jobs[0])))
            begun = self._expect(ClientsBegun, BEGIN_S)
        except BaseException:
            self.close()
            raise
        self._clients = [_Client(index, row, self) for index, row in enumerate(begun.clients)]

    def _start(self) -> None:
        folder = _short_folder()
        process = GuardedProcess("ray", runtime=folder)
        ours, theirs = socket.socketpair()
        paths = (str(Path(inferometer.__file__).parent.parent), os.environ.get("PYTHONPATH", ""))
        environment = {**os.environ, **_ENVIRONMENT, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        command = [sys.executable, "-m", "inferometer.cluster.ray_bridge", str(theirs.fileno())]
        self._bridge = Connection(ours.detach())
        self._process = process
        with theirs, process.starting(command, environment, (theirs.fileno(),)):
            folder.mkdir(mode=0o700)
            process.log.touch(mode=0o600)
        self._send(ConnectRay(self.settings, str(folder)))

    # --- Network

    @property
    def clients(self) -> Sequence[Client]:
        return self._clients

    @property
    def niceness(self) -> tuple[int, ...]:
        """Of each client; above 0 it gives way to other programs on its node."""
        return tuple(client.begun.niceness for client in self._clients)

    @property
    def pids(self) -> tuple[int, ...]:
        """Processes of ours that are on this machine."""
        import psutil

        here = machine()
        own = [client.begun.pid for client in self._clients if client.begun.machine == here]
        found = set[int]()
        for pid in own:
            with contextlib.suppress(psutil.Error):
                found |= {pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))}
        return (*found, *(() if self._process is None else (self._process.process.pid,)))

    def ask(self, client: int, message: Question) -> Pending:
        self._asked += 1
        self._send(AskClient(self._asked, client, pickle.dumps(message)))
        return _Asked(self._asked, client)

    def wait(
        self, pending: Collection[Pending], timeout_s: float
    ) -> list[tuple[Pending, ClientAnswer | ClientLost]]:
        deadline = time.monotonic() + timeout_s
        while True:
            self._read_all()
            found = [(asked, self._answer(asked)) for asked in pending if self._is_known(asked)]
            left_s = deadline - time.monotonic()
            if found or not pending or left_s <= 0:
                return found
            assert self._bridge is not None
            self._bridge.poll(left_s)

    def _is_known(self, asked: Pending) -> bool:
        assert isinstance(asked, _Asked)
        return asked.number in self._said or self._bridge is None

    def _answer(self, asked: Pending) -> ClientAnswer | ClientLost:
        assert isinstance(asked, _Asked)
        name = self._clients[asked.client].name
        said = self._said.pop(asked.number, None)
        if said is None:
            return ClientLost(name, "the connection to the Ray cluster was lost")
        if said.lost:
            return ClientLost(name, said.lost)
        answer: ClientAnswer = pickle.loads(said.answer)
        return answer

    def _read_all(self) -> None:
        """What has come; a bridge that is gone is no more asked."""
        try:
            while self._bridge is not None and self._bridge.poll():
                said = self._bridge.recv()
                if isinstance(said, ClientSaid):
                    self._said[said.number] = said
        except (EOFError, OSError):
            self._drop_bridge()

    def close(self) -> None:
        """Also where opening it has failed half-way."""
        self._drop_bridge()
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(subprocess.TimeoutExpired, LocalError):
            process.process.wait(CLOSE_S)
        with contextlib.suppress(LocalError):  # it was not started
            process.end()

    # --- the process

    def _drop_bridge(self) -> None:
        bridge, self._bridge = self._bridge, None
        if bridge is not None:
            bridge.close()

    def _send(self, message: object) -> None:
        with contextlib.suppress(OSError):  # that it is gone shows when an answer is awaited
            if self._bridge is not None:
                self._bridge.send(message)

    def _expect(self, kind: type[Answer], limit_s: float) -> Answer:
        assert self._bridge is not None
        try:
            said = self._bridge.recv() if self._bridge.poll(limit_s) else None
        except (EOFError, OSError) as error:
            raise LocalError(
                self._ended(), remedy="look whether the cluster is well: `ray status`"
            ) from error
        if said is None:
            raise LocalError(
                f"the Ray cluster did not answer for {plain_number(limit_s)} s",
                remedy="look whether it is well: `ray status`",
            )
        if isinstance(said, RayFailed):
            raise said.error if isinstance(said.error, InferometerError) else LocalError(said.text)
        assert isinstance(said, kind)
        return said

    def _ended(self) -> str:
        line = "" if self._process is None else last_line(self._process.log)
        return "the process that speaks to Ray has ended" + (f"; its last line: {line}" if line else "")


def _files(job: ClientJob) -> dict[str, bytes]:
    """What the job needs of this machine's files."""
    tls = job.traffic.wiring.endpoint.tls
    paths = [] if tls is None else filter(None, (getattr(tls, name) for name in TLS_FILES))
    found = {}
    for path in paths:
        try:
            found[path] = Path(path).read_bytes()
        except OSError as error:
            raise UsageError(
                f"the file '{path}' cannot be read: {error.strerror or error}", remedy="check its permissions"
            ) from error
    return found


def _short_folder() -> Path:
    """One that does not exist yet."""
    parent = tempfile.gettempdir()
    return Path(parent if len(parent) <= _LONGEST_FOLDER else "/tmp") / f"imr-{secrets.token_hex(4)}"
