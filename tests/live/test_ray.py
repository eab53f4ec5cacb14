"""Load from the nodes of a real Ray cluster, measured as if it came from one client, also when some are lost."""

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil
import pytest

from inferometer.api.arguments import asked
from inferometer.cluster.ray_messages import RaySettings
from inferometer.cluster.ray_process import RayProcess
from inferometer.measure.prepare import OWN_HABITS, prepare
from inferometer.measure.run import run
from inferometer.report.export import write_export
from inferometer.server.embedded import EmbeddedTriton
from inferometer.stats.result import Result
from inferometer.stats.watcher import Watcher
from tests.support.commands import call
from tests.support.ray_machines import RayMachines

pytestmark = pytest.mark.live

DEADLINE_S = 120.0
PERCENTILES = (50, 90, 95, 99)


@pytest.fixture(scope="module")
def machines() -> Iterator[RayMachines]:
    with RayMachines(4) as machines:
        yield machines


@pytest.fixture(scope="module")
def ray(machines: RayMachines) -> Iterator[RayProcess]:
    with RayProcess(RaySettings(machines.address)) as ray:
        assert ray.count == 4
        yield ray


def inferences(triton: EmbeddedTriton) -> int:
    with urlopen(f"http://{triton.http_address}/v2/models/simple/stats") as reply:
        return int(json.load(reply)["model_stats"][0]["inference_count"])


def trace(folder: Path) -> str:
    path = folder / "trace.jsonl"
    path.write_text("".join(json.dumps({"timestamp": 7 * number}) + "\n" for number in range(200)))
    return str(path)


LOADS = {
    "concurrency": lambda folder: {"concurrency": 8, "request_count": 400},
    "rate": lambda folder: {"request_rate": 200.0, "request_count": 300},
    "schedule": lambda folder: {"replay": trace(folder)},
}


def exported(path: Path) -> list[int]:
    """How long each request in the file took from the time that it was sent, sorted."""
    (experiment,) = json.loads(path.read_text())["experiments"]
    return sorted(row["response_timestamps"][-1] - row["timestamp"] for row in experiment["requests"])


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("load", LOADS)
def test_four_nodes_measure_as_one_client(
    load: str, protocol: str, ray: RayProcess, triton: EmbeddedTriton, tmp_path: Path
) -> None:
    export = tmp_path / "requests.json"
    before = inferences(triton)
    result = measure(ray, triton, protocol, profile_export=str(export), **LOADS[load](tmp_path))
    (level,), account = result.levels, result.account
    found = level.measurement
    assert found is not None
    assert account is not None
    assert account.sent == account.good == inferences(triton) - before
    assert found.request_count == account.good
    assert found.client.workers == 4
    times, service = exported(export), found.service or found.latency
    for p in PERCENTILES:
        assert times[math.floor(p / 100 * (len(times) - 1) + 0.5)] == service.percentile_ns(p)


def measure(ray: RayProcess, triton: EmbeddedTriton, protocol: str, **given: Any) -> Result:
    """As the command does it, on a cluster that is there already."""
    url = triton.grpc_address if protocol == "grpc" else triton.http_address
    options = asked("measure", {"model": "simple", "url": url, "protocol": protocol, "ray": "auto", **given})
    setup = prepare(options, command="measure", habits=OWN_HABITS)
    *_, result = run(setup, Watcher(), ray=ray)
    if setup.journal is not None:
        write_export(setup.journal.export(), setup.journal.path)
    return result


# --- commands


def test_perf_analyzer_takes_the_cluster(machines: RayMachines, triton: EmbeddedTriton) -> None:
    before = inferences(triton)
    words = ("-m", "simple", "-u", triton.http_address, "--concurrency-range", "4", "--request-count", "200")
    done = call("perf_analyzer", *words, "--ray", machines.address, "--clients", "2")
    assert (done.code, done.stderr) == (0, "")
    assert "Request count: 200" in done.stdout
    assert inferences(triton) - before == 200
    machines.wait_until_free()


def test_find_and_compare_take_the_cluster(
    machines: RayMachines, triton: EmbeddedTriton, tmp_path: Path
) -> None:
    cluster = ("--ray", machines.address, "--clients", "2", "--json", str(tmp_path / "found.json"))
    words = (triton.http_address, "simple", "--slo", "p99<5s", "--by", "concurrency", "-d", "4s")
    done = call("inferometer", "find", *words, *cluster)
    assert done.code in (0, 4), done.stderr
    assert json.loads((tmp_path / "found.json").read_text())["finding"]["low"] > 0
    words = ("-u", triton.http_address, "-m", "simple", "-m", "simple", "-c", "2", "-d", "3s")
    done = call("inferometer", "compare", *words, *cluster)
    assert done.code == 0, done.stderr
    machines.wait_until_free()


# --- what is lost in the middle of a run


class Run:
    """A command that measures by rate, from four nodes."""

    def __init__(self, machines: RayMachines, triton: EmbeddedTriton, folder: Path) -> None:
        self.triton, self.before = triton, inferences(triton)
        self.saved = folder / "result.json"
        words = (triton.http_address, "simple", "-r", "200", "-d", "6s", "--precision", "0.1%")
        command = (sys.executable, "-m", "inferometer.cli.main", "measure", *words, "--ray", machines.address)
        self.process = subprocess.Popen((*command, "--json", str(self.saved)), stdout=subprocess.DEVNULL)
        self.begin(machines)

    def begin(self, machines: RayMachines) -> None:
        """Until every node sends."""
        deadline = time.monotonic() + DEADLINE_S
        while inferences(self.triton) < self.before + 200 or len(machines.actors()) < 4:
            assert self.process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        self.helpers = psutil.Process(self.process.pid).children(recursive=True)

    def result(self) -> dict[str, Any]:
        self.process.wait(DEADLINE_S)
        found: dict[str, Any] = json.loads(self.saved.read_text())
        return found

    def check_nothing_left(self, machines: RayMachines) -> None:
        psutil.wait_procs(self.helpers, DEADLINE_S)
        assert not any(process.is_running() for process in self.helpers)
        machines.wait_until_free()


def check_lost(result: dict[str, Any], server_count: int) -> None:
    """The run has numbers; of what the server counted only a part of the lost client's requests is missing."""
    (level,) = result["levels"]
    assert level["measurement"]["request_count"] > 0
    assert level["measurement"]["failed_count"] == 0
    assert 0 <= server_count - result["account"]["sent"] <= server_count // 4
    remarks = [remark["text"] for row in (level, result) for remark in row["remarks"]]
    assert any(re.search(r"client \d .*lost", text) for text in remarks), remarks


@pytest.mark.parametrize("victim", ["actor", "node"])
def test_a_lost_client_is_named_and_what_it_delivered_counts(
    victim: str, machines: RayMachines, triton: EmbeddedTriton, tmp_path: Path
) -> None:
    run = Run(machines, triton, tmp_path)
    address, pid = max(machines.actors().items())
    if victim == "actor":
        os.kill(pid, signal.SIGKILL)
    else:
        machines.tell("kill", address)
    check_lost(run.result(), inferences(triton) - run.before)
    run.check_nothing_left(machines)
    if victim == "node":
        machines.tell("add")


def test_nothing_keeps_running_when_the_command_is_killed(
    machines: RayMachines, triton: EmbeddedTriton, tmp_path: Path
) -> None:
    run = Run(machines, triton, tmp_path)
    run.process.kill()
    run.process.wait()
    run.check_nothing_left(machines)
