"""A real Ray cluster whose nodes have separate loopback addresses, as if each were a machine.

It runs in a separate process, `python -m tests.support.ray_machines COUNT`, which takes commands on standard input: Ray
changes signal handlers and writes to arbitrary streams.
"""

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from inferometer.server.guard import end_session

DEADLINE_S = 60.0
STORE_BYTES = 80_000_000
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_enable_metrics_collection": "0",
    "RAY_worker_niceness": "0",
    "RAY_BACKEND_LOG_LEVEL": "error",
}


@dataclass
class RayMachines:
    """A cluster of `count` nodes, each with room for two clients. Use as a context manager."""

    count: int = 4
    address: str = ""
    client_address: str = ""  # for ray://

    def __enter__(self) -> "RayMachines":
        self._folder = Path(
            tempfile.mkdtemp(prefix="imt-", dir="/tmp")
        )  # short, since paths of sockets are limited
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.ray_machines", str(self.count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **QUIET, "RAY_TMPDIR": str(self._folder)},
            start_new_session=True,
        )
        try:
            self.address, self.client_address = self._answer()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        end_session(self._process.pid)
        with self._process:  # closes its pipes
            pass
        shutil.rmtree(self._folder, ignore_errors=True)

    def _answer(self) -> list[str]:
        line = self._process.stdout.readline()
        assert line, "the Ray cluster did not start"
        found: list[str] = json.loads(line)
        return found

    @property
    def head(self) -> str:
        """The head node, which the cluster needs."""
        return self.address.partition(":")[0]

    def tell(self, *words: str) -> None:
        """Send a command: `kill ADDRESS` ends a node like a power failure, `add` starts another one."""
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()
        self._answer()

    def processes(self) -> Iterator[tuple[int, str, str]]:
        """Id, command line and node of every client process."""
        for process in psutil.process_iter():
            with suppress(psutil.Error, ProcessLookupError):
                if os.getsid(process.pid) != self._process.pid:
                    continue
                words = " ".join(process.cmdline())
                if "ray::RayClient" in words or "inferometer.load.worker" in words:
                    yield process.pid, words, _node_of(process)

    def actors(self) -> dict[str, int]:
        """The client process on each node."""
        return {node: pid for pid, words, node in self.processes() if "ray::RayClient" in words}

    def wait_until_free(self) -> None:
        """Wait until no client process is left on any node."""
        deadline = time.monotonic() + DEADLINE_S
        while left := list(self.processes()):
            assert time.monotonic() < deadline, left
            time.sleep(0.1)


def _node_of(process: psutil.Process) -> str:
    """Node of a process, found by its raylet."""
    for parent in process.parents():
        for word in parent.cmdline():
            if word.startswith("--node_ip_address="):
                return word.partition("=")[2]
    return ""


def main(count: int) -> None:
    from ray.cluster_utils import Cluster

    said = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

    def say(*words: str) -> None:
        os.write(said, (json.dumps(words) + "\n").encode())

    network = f"127.{1 + secrets.randbelow(250)}.{secrets.randbelow(250)}"
    cluster = Cluster(shutdown_at_exit=False)
    nodes: dict[str, Any] = {}

    def add() -> None:
        address = f"{network}.{2 + len(nodes)}"
        more = {"ray_client_server_port": 10001, "include_dashboard": False} if not nodes else {}
        nodes[address] = cluster.add_node(
            node_ip_address=address, num_cpus=2, object_store_memory=STORE_BYTES, wait=False, **more
        )

    for _ in range(count):
        add()
    cluster.wait_for_nodes(DEADLINE_S)
    say(cluster.address, f"{network}.2:10001")
    for line in sys.stdin:
        match line.split():
            case ["add"]:
                add()
                cluster.wait_for_nodes(DEADLINE_S)
            case ["kill", address]:
                cluster.remove_node(nodes[address], allow_graceful=False)
        say("done")
    end_session(os.getpid())  # their owner is gone


if __name__ == "__main__":
    main(int(sys.argv[1]))
