"""Kill clients, nodes and commands with SIGKILL at random moments of runs on a real Ray cluster.

`python -m tests.support.ray_kills --count 50 --seed 1` takes about a quarter of an hour. Each run that loses a client
or a node must end with figures that match the server's counts, and name the lost client; after each kill, none of our
processes may be left on any node.
"""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.support.ray_machines import RayMachines
from tests.support.samples import sample
from tests.support.servers import FakeTriton

DEADLINE_S = 180.0
NODES = sample(2, 3)
VICTIMS = ("client", "node", "command")
LOADS = (("-r", "160"), ("-c", "8"), ("-r", "120", "--arrivals", "poisson"))


@dataclass
class RayRun:
    """A command that measures from a cluster. `counted` returns the number of requests to the server."""

    machines: RayMachines
    words: tuple[str, ...]  # address, model and load
    folder: Path
    counted: Callable[[], int]
    clients: int = NODES
    before: int = 0
    helpers: list[psutil.Process] = field(default_factory=list)  # processes started by the command

    def __post_init__(self) -> None:
        self.before = self.counted()
        command = (
            sys.executable,
            "-m",
            "inferometer.cli.main",
            "measure",
            *self.words,
            "--precision",
            "0.1%",
        )
        outputs = ("--ray", self.machines.address, "--clients", str(self.clients), "--json", str(self.saved))
        with open(self.said, "wb") as said:
            self.process = subprocess.Popen((*command, *outputs), stdout=said, stderr=said)

    @property
    def saved(self) -> Path:
        return self.folder / "result.json"

    @property
    def said(self) -> Path:
        return self.folder / "said.txt"

    def wait_until_loaded(self, requests: int = 100) -> None:
        """Wait until every client sends and the server has received this many requests."""
        deadline = time.monotonic() + DEADLINE_S
        while self.counted() < self.before + requests or len(self.machines.actors()) < self.clients:
            assert self.process.poll() is None, self.said.read_text()
            assert time.monotonic() < deadline, self.said.read_text()
            time.sleep(0.05)
        self.helpers = psutil.Process(self.process.pid).children(recursive=True)

    def kill(self, victim: str, chosen: random.Random) -> str:
        """Kill a victim and return its name."""
        if victim == "command":
            self.process.kill()
            return f"command {self.process.pid}"
        address, pid = chosen.choice(sorted(self.machines.actors().items()))
        if victim == "client":
            os.kill(pid, signal.SIGKILL)
        else:
            if address == self.machines.head:
                address = chosen.choice(sorted(set(self.machines.actors()) - {address}))
            self.machines.tell("kill", address)
        return f"{victim} {address}"

    def check_result(self, lost: int = 1) -> str:
        """Check that the counts of a run that lost clients match the server's, except for the end of those clients."""
        assert self.process.wait(DEADLINE_S) == 70, self.said.read_text()
        result: dict[str, Any] = json.loads(self.saved.read_text())
        (level,) = result["levels"]
        assert level["measurement"]["request_count"] > 0, "no numbers"
        assert level["measurement"]["failed_count"] == 0, "requests failed"
        served = self.counted() - self.before
        assert 0 <= served - result["account"]["sent"] <= lost * served // self.clients, (
            served,
            result["account"],
        )
        remarks = [remark["text"] for row in (level, result) for remark in row["remarks"]]
        named = [text for text in remarks if re.search(r"client \d+\b.*\blost\b", text)]
        assert len(named) == lost, f"not named: {remarks}"
        return f"{'; '.join(named)} ({served} served, {result['account']['sent']} counted)"

    def check_nothing_left(self) -> None:
        _, alive = psutil.wait_procs(self.helpers, DEADLINE_S)
        assert not alive, alive
        self.machines.wait_until_free()


def kill_some(count: int, seed: int) -> None:
    chosen = random.Random(seed)
    with FakeTriton() as server, RayMachines(NODES) as machines:
        for number in range(1, count + 1):
            victim, load = chosen.choice(VICTIMS), chosen.choice(LOADS)
            with tempfile.TemporaryDirectory() as folder:
                words = (server.server.address, "fake", *load, "-d", "5s")
                run = RayRun(machines, words, Path(folder), lambda: len(server.inferences))
                run.wait_until_loaded(100 + chosen.randrange(200))
                who = run.kill(victim, chosen)
                said = "" if victim == "command" else run.check_result()
                run.check_nothing_left()
            print(f"{number:3}  {' '.join(load):28} killed {who:28} {said or 'nothing left'}", flush=True)
            if victim == "node":
                machines.tell("add")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    kill_some(asked.count, asked.seed)
    print(f"{asked.count} kills, seed {asked.seed}: every run ended with numbers, nothing was left")


if __name__ == "__main__":
    main()
