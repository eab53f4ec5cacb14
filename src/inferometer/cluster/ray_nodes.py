"""A Ray cluster on this machine: nodes with their own loopback addresses that end with the process that started them.

Each node is `ray start --block` in a fork of this process, which has already imported Ray: the import takes half of a
node's start time.
"""

import contextlib
import json
import os
import secrets
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from inferometer.base.errors import LocalError
from inferometer.base.processes import maybe_process
from inferometer.base.units import plain_number
from inferometer.options.names import option_name
from inferometer.server.guard import end_session
from inferometer.server.guarded import last_line

START_S = 60.0  # for the head to listen
PORT = 6379
CLIENT_PORT = 10001  # of ray://
STORE_BYTES = 100_000_000
_POLL_S = 0.05
_QUIET = {
    "RAY_worker_niceness": "0",  # load must be sent on time
    "RAY_prestart_worker_first_driver": "0",  # no more processes than clients
    "RAY_enable_metrics_collection": "0",
}


@dataclass(slots=True)
class LocalNodes:
    """Local nodes, each with room for one client. Use as a context manager."""

    count: int
    resources: Mapping[str, float]  # per node
    folder: Path
    _network: tuple[int, int] = field(
        default_factory=lambda: (1 + secrets.randbelow(250), secrets.randbelow(250))
    )
    _pids: list[int] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"{self.ip(0)}:{PORT}"

    def ip(self, number: int) -> str:
        """Return a node's address, unused by other clusters, so all ports are free. Ray would replace 127.0.0.1."""
        high, low = self._network
        return f"127.{high}.{low + number // 250}.{2 + number % 250}"

    def __enter__(self) -> "LocalNodes":
        os.environ.update(_QUIET)
        try:
            head = (
                *("--head", f"--port={PORT}", f"--ray-client-server-port={CLIENT_PORT}"),
                *("--include-dashboard=false", "--no-monitor"),
            )
            self._start(0, head)
            self._wait_for_head()
            for number in range(1, self.count):
                self._start(number, (f"--address={self.address}",))
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def check(self) -> None:
        """Raise if a node has ended."""
        for number, pid in enumerate(self._pids):
            process = maybe_process(pid)
            if process is None or process.is_zombie:
                line = last_line(self._log(number))
                raise LocalError(
                    f"node {number + 1} of the local Ray cluster did not start"
                    + (f"; its last line: {line}" if line else ""),
                    remedy="check whether this machine is out of memory or processes, or use fewer "
                    f"{option_name('--clients')}",
                )

    def _log(self, number: int) -> Path:
        return self.folder / f"{number + 1}.log"

    def _start(self, number: int, words: tuple[str, ...]) -> None:
        from ray.scripts import scripts

        resources = dict(self.resources)
        command = [
            *("start", "--block", *words),
            f"--node-ip-address={self.ip(number)}",
            f"--temp-dir={self.folder / str(number + 1)}",  # with a shared one, nodes may use the same socket
            f"--num-cpus={max(1, round(resources.pop('CPU', 1)))}",
            f"--num-gpus={round(resources.pop('GPU', 0))}",
            f"--object-store-memory={STORE_BYTES}",
            *("--min-worker-port=0", "--max-worker-port=0", "--dashboard-agent-listen-port=0"),
            "--include-log-monitor=false",
            f"--resources={json.dumps(resources)}",
            "--disable-usage-stats",
        ]
        pid = os.fork()
        if pid:
            self._pids.append(pid)
            return
        try:
            log = os.open(self._log(number), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(log, 1)
            os.dup2(log, 2)
            scripts.cli(command)
        finally:
            os._exit(1)

    def _wait_for_head(self) -> None:
        deadline = time.monotonic() + START_S
        while not answers(self.ip(0), PORT, timeout_s=1.0):
            self.check()
            if time.monotonic() >= deadline:
                raise LocalError(
                    f"the local Ray cluster did not start within {plain_number(START_S)} s",
                    remedy=f"this machine may be overloaded; try again with fewer {option_name('--clients')}",
                )
            time.sleep(_POLL_S)

    def _end(self) -> None:
        """Kill the nodes immediately: they hold no results, and would wait for their head node."""
        assert os.getsid(0) == os.getpid(), "nodes are ended with all that this process has started"
        end_session(os.getpid(), but=os.getpid())
        for pid in self._pids:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
        self._pids.clear()


def answers(host: str, port: int, *, timeout_s: float) -> bool:
    """Whether the port accepts connections."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s):
            return True
    except OSError:
        return False
