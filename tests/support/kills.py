"""Kill the browser interface, a run, or both with SIGKILL at random moments: finished runs must stay intact.

`python -m tests.support.kills --count 50 --seed 1` takes about three minutes.
"""

import argparse
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from inferometer.store.filter import RunFilter
from inferometer.store.run import FAILED, FINISHED, KILLED, RUNNING
from inferometer.store.store import Store
from tests.support.servers import FakeTriton

DEADLINE_S = 60.0
VICTIMS = ("ui", "run", "both")


@dataclass
class Killed:
    """The killed process, and the state of the runs afterwards."""

    victims: dict[str, int] = field(default_factory=lambda: dict.fromkeys(VICTIMS, 0))
    states: dict[str, int] = field(default_factory=lambda: dict.fromkeys((FINISHED, FAILED, KILLED), 0))


class _Ui:
    """A ui process and one of its pages."""

    def __init__(self, folder: Path) -> None:
        command = (sys.executable, "-m", "inferometer.cli.main", "ui", "--store", str(folder), "--port", "0")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.url, _, self.token = self.process.stdout.readline().split()[-1].partition("/?token=")

    def start(self, address: str) -> None:
        host = self.url.removeprefix("http://")
        fields = {"url": address, "model": "fake", "--concurrency": "1,2", "--duration": "400ms"}
        body = json.dumps({"command": "measure", "fields": fields})
        headers = {
            "cookie": f"inferometer-{host.rpartition(':')[2]}={self.token}",
            "origin": self.url,
            "content-type": "application/json",
        }
        connection = http.client.HTTPConnection(host, timeout=DEADLINE_S)
        connection.request("POST", "/new/start", body, headers)
        reply = connection.getresponse()
        assert reply.status == 200, reply.read()
        connection.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def kills(folder: Path, *, count: int, seed: int) -> Killed:
    """Kill `count` times in one store; raise AssertionError if anything is lost."""
    chance, told = random.Random(seed), Killed()
    finished: dict[str, str] = {}  # digest of the answer by run id
    ui: _Ui | None = None
    try:
        with FakeTriton() as fake:
            for _ in range(count):
                ui = ui or _Ui(folder)
                ui.start(fake.server.address)
                time.sleep(chance.uniform(0.0, 3.0))
                victim = chance.choice(VICTIMS)
                told.victims[victim] += 1
                if victim != "ui":
                    _kill_runs(folder)
                if victim != "run":
                    ui.kill()
                    ui = None
                _check(folder, finished)
                _let_end(folder)
                _check(folder, finished)
    finally:
        if ui is not None:
            ui.kill()
    for run in Store(folder).runs():
        told.states[run.state] += 1
    return told


def _kill_runs(folder: Path) -> None:
    for run in Store(folder).runs(RunFilter(state=RUNNING)):
        with suppress(ProcessLookupError):
            os.kill(run.pid, signal.SIGKILL)


def _let_end(folder: Path) -> None:
    """Wait for a run that continues without its ui."""
    until_s = time.monotonic() + DEADLINE_S
    while Store(folder).runs(RunFilter(state=RUNNING)):
        assert time.monotonic() < until_s, "a run does not end"
        time.sleep(0.1)


def _check(folder: Path, finished: dict[str, str]) -> None:
    store = Store(folder)
    there = {run.id: run for run in store.runs()}
    for run_id, digest in finished.items():
        assert run_id in there, f"the finished run {run_id} is gone"
        assert there[run_id].state == FINISHED
        assert _digest(store.answer_path(there[run_id])) == digest
    for run in there.values():
        if run.state == FINISHED:
            store.answer(run)  # readable, so it is complete
            finished[run.id] = _digest(store.answer_path(run))


def _digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="inferometer-kills-") as place:
        found = kills(Path(place), count=asked.count, seed=asked.seed)
    print(f"killed {found.victims}; runs {found.states}; nothing finished was lost")
