"""Clients as processes on this machine, connected without a network."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from inferometer.cluster.messages import ClientFailed, ClientJob
from inferometer.cluster.network import ClientLost
from tests.support.commands import fork_server_address
from tests.support.fork_client import fork_command

DEADLINE_S = 20.0


@dataclass
class PlantedClock:
    """Offset of a client's clock from the machine's, and its drift."""

    offset_ns: int = 0
    drift: float = 0.0  # 5e-5 is 50 ppm
    since_ns: int = field(default_factory=time.monotonic_ns)  # when its offset was `offset_ns`

    def at(self, machine_ns: int) -> int:
        return machine_ns + self.offset_ns + round((machine_ns - self.since_ns) * self.drift)


@dataclass(eq=False)
class ProcessClient:
    """One client and its process."""

    name: str
    place: str
    process: Any
    connection: Connection
    workers: tuple[int, ...] = ()  # process ids
    asked: int = 0
    is_lost: bool = False
    is_mute: bool = False  # planted fault: it receives questions, but its answers are dropped

    def ask(self, message: Any) -> tuple[str, int]:
        self.asked += 1
        try:
            self.connection.send((self.asked, message))
        except OSError:
            self.is_lost = True
        return self.name, self.asked

    def kill(self) -> None:
        self.process.kill()


@dataclass(eq=False)
class ProcessNetwork:
    """A network of client processes. Use as a context manager, or let `Clients` close it."""

    clients: Sequence[ProcessClient]
    answered: dict[tuple[str, int], Any] = field(default_factory=dict)

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(pid for client in self.clients for pid in (client.process.pid, *client.workers))

    def wait(self, pending: Collection[Any], timeout_s: float) -> list[tuple[Any, Any]]:
        found = self._found(pending)
        if not found:
            live = [client for client in self.clients if not client.is_lost and not client.is_mute]
            for ready in wait([client.connection for client in live], timeout_s):
                self._receive(next(client for client in live if client.connection is ready))
            found = self._found(pending)
        return found

    def _receive(self, client: ProcessClient) -> None:
        try:
            number, answer = client.connection.recv()
            self.answered[client.name, number] = answer
        except (EOFError, OSError):
            client.is_lost = True

    def _found(self, pending: Collection[Any]) -> list[tuple[Any, Any]]:
        found = [(key, self.answered.pop(key)) for key in pending if key in self.answered]
        lost = {client.name for client in self.clients if client.is_lost}
        taken = {key for key, _ in found}
        found += [
            (key, ClientLost(key[0], "its process has ended"))
            for key in pending
            if key not in taken and key[0] in lost
        ]
        return found

    def close(self) -> None:
        for client in self.clients:
            client.connection.close()
        for client in self.clients:
            try:
                client.process.wait(DEADLINE_S)
            except (TimeoutError, subprocess.TimeoutExpired):
                client.process.kill()
                client.process.wait()

    def __enter__(self) -> "ProcessNetwork":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def start_clients(job: ClientJob, clocks: Sequence[PlantedClock | None]) -> ProcessNetwork:
    """Start one client per clock (None is the machine's own), each with the job's number of workers."""
    total = len(clocks) * job.workers
    clients = []
    for number, clock in enumerate(clocks):
        ours, theirs = socket.socketpair()
        process = _start(theirs.fileno(), clock)
        theirs.close()
        connection = Connection(ours.detach())
        connection.send(replace(job, first=number * job.workers, total=total))
        clients.append(ProcessClient(f"client {number + 1}", f"127.0.0.{number + 2}", process, connection))
    for client in clients:
        workers = client.connection.recv()
        if isinstance(workers, ClientFailed):
            raise workers.error or AssertionError(workers.text)
        client.workers = workers
    return ProcessNetwork(clients)


def _start(fd: int, clock: PlantedClock | None) -> Any:
    if clock is None:
        places = {0: 0, 1: 1, 2: 2, fd: fd}
        return fork_command(fork_server_address(), "agent", [str(fd)], fds=places)
    words = ["--clock", str(clock.offset_ns), str(clock.drift), str(clock.since_ns), str(fd)]
    command = [sys.executable, "-m", "tests.support.agent_process", *words]
    root = Path(__file__).parents[2]
    return subprocess.Popen(command, pass_fds=(fd,), cwd=root, env={**os.environ, "PYTHONPATH": _path(root)})


def _path(root: Path) -> str:
    return os.pathsep.join(filter(None, (str(root / "src"), str(root), os.environ.get("PYTHONPATH", ""))))
