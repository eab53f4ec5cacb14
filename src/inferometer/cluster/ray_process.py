"""The run's side of its helper process for Ray (ray_bridge.py explains why it exists)."""

import contextlib
import importlib.util
import os
import secrets
import signal
import socket
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

import inferometer
from inferometer.base.deadline import UNDO_LAST_S, Deadline
from inferometer.base.errors import InferometerError, LocalError, UsageError
from inferometer.base.interpreter import module_command
from inferometer.base.units import plain_number
from inferometer.cluster.ray_messages import ClientSaid, ClientsPlaced, ConnectRay, RayFailed, RaySettings
from inferometer.options.names import option_name
from inferometer.server.guarded import GuardedProcess, ends, last_line

CONNECT_S = 180.0  # the process itself has shorter limits, each with its own message
CLOSE_S = 10.0  # for actors and nodes to end cleanly
_LOOK_S = 0.1  # between checks for an interrupt
_LONGEST_FOLDER = 24  # Ray creates sockets below it, whose paths may have 107 characters
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_SCHEDULER_EVENTS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_BACKEND_LOG_LEVEL": "error",
    "RAY_DEDUP_LOGS": "0",
}

Answer = TypeVar("Answer")


@dataclass(slots=True)
class RayProcess:
    """A connection to a Ray cluster with room for clients. Use as a context manager, which cleans up."""

    settings: RaySettings
    is_interrupted: Callable[[], bool] = lambda: False
    count: int = 0  # clients that fit
    begun: int = 0  # clients started so far
    said: dict[int, ClientSaid] = field(default_factory=dict)  # not yet awaited
    _others: list[object] = field(default_factory=list)  # messages not from clients
    _process: GuardedProcess | None = None
    _bridge: Connection | None = None
    _asked: int = 0
    _dropped: set[int] = field(default_factory=set)  # requests already answered here
    _lock: threading.RLock = field(
        default_factory=threading.RLock
    )  # used by several loads, each in its thread

    def __enter__(self) -> "RayProcess":
        if importlib.util.find_spec("ray") is None:
            raise UsageError(
                f"{option_name('--ray')} requires Ray, which is not installed here",
                remedy="pip install 'inferometer[ray]'",
            )
        try:
            self._start()
            self.count = self.expect(ClientsPlaced, CONNECT_S).count
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self) -> None:
        folder = short_folder()
        self._process = process = GuardedProcess("ray", runtime=folder)
        ours, theirs = socket.socketpair()
        self._bridge = Connection(ours.detach())
        paths = (str(Path(inferometer.__file__).parent.parent), os.environ.get("PYTHONPATH", ""))
        environment = {**os.environ, **_ENVIRONMENT, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        command = module_command("inferometer.cluster.ray_bridge", str(theirs.fileno()))
        with theirs, process.starting(command, environment, (theirs.fileno(),)):
            folder.mkdir(mode=0o700)
            process.log.touch(mode=0o600)
        self.send(ConnectRay(self.settings, str(folder)))

    def __exit__(self, *_: object) -> None:
        self._drop()
        process, self._process = self._process, None
        with contextlib.suppress(LocalError):  # not started
            if process is not None:
                # A process that is still connecting does not listen.
                ends(process.process, Deadline.after(CLOSE_S if self.count else 0, last_s=UNDO_LAST_S))
                process.end()

    @property
    def pids(self) -> tuple[int, ...]:
        return () if self._process is None else (self._process.process.pid,)

    @property
    def is_gone(self) -> bool:
        return self._bridge is None

    def next_number(self) -> int:
        with self._lock:
            self._asked += 1
            return self._asked

    def send(self, message: object) -> None:
        with self._lock, contextlib.suppress(OSError):  # its loss is noticed when awaiting an answer
            if self._bridge is not None:
                self._bridge.send(message)

    def read(self, timeout_s: float) -> None:
        """Read the clients' answers, waiting for the first one up to the timeout.

        May return early, since another thread may have read the answer: check `said` afterwards.
        """
        bridge = self._bridge
        try:
            if bridge is not None and timeout_s > 0:
                bridge.poll(min(timeout_s, _LOOK_S))  # without the lock, so that others can read
            with self._lock:
                while self._bridge is not None and self._bridge.poll(0):
                    self._take(self._bridge.recv())
        except (EOFError, OSError):
            self._drop()

    def answer(self, said: ClientSaid) -> None:
        """Answer in place of a client, whose own answer is dropped."""
        with self._lock:
            self.said[said.number] = said
            self._dropped.add(said.number)

    def _take(self, said: object) -> None:
        if not isinstance(said, ClientSaid):
            self._others.append(said)
        elif said.number in self._dropped:
            self._dropped.discard(said.number)
        else:
            self.said[said.number] = said

    def expect(self, kind: type[Answer], limit_s: float, *, is_end: bool = False) -> Answer:
        """Return the next message of this kind. An interrupt ends the wait, except with `is_end`."""
        deadline = Deadline.after(limit_s, last_s=UNDO_LAST_S)
        while not deadline.has_passed():
            if not is_end and self.is_interrupted():
                raise KeyboardInterrupt(signal.SIGINT)
            self.read(_LOOK_S)
            while self._others:
                said = self._others.pop(0)
                if isinstance(said, RayFailed):
                    raise said.error if isinstance(said.error, InferometerError) else LocalError(said.text)
                if isinstance(said, kind):
                    return said
            if self._bridge is None:
                raise LocalError(self._ended(), remedy="check the state of the cluster: `ray status`")
        raise LocalError(
            f"the Ray cluster did not answer for {plain_number(limit_s)} s",
            remedy="check its state: `ray status`",
        )

    def _drop(self) -> None:
        with self._lock:
            bridge, self._bridge = self._bridge, None
            if bridge is not None:
                bridge.close()

    def _ended(self) -> str:
        line = "" if self._process is None else last_line(self._process.log)
        return "the helper process for Ray has ended" + (f"; its last line: {line}" if line else "")


def short_folder() -> Path:
    """Return a short path that does not exist yet."""
    parent = tempfile.gettempdir()
    return Path(parent if len(parent) <= _LONGEST_FOLDER else "/tmp") / f"imr-{secrets.token_hex(4)}"
