"""Load from the nodes of a real Ray cluster, measured as if it came from one client, also when some are lost."""

import json
import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from inferometer.api.arguments import asked
from inferometer.cluster.ray_messages import RaySettings
from inferometer.cluster.ray_process import RayProcess
from inferometer.measure.prepare import OWN_HABITS, prepare
from inferometer.measure.run import run as measured
from inferometer.options.options import AUTO
from inferometer.report.export import write_export
from inferometer.scenario.run import ScenarioRequest, prepare_scenario, run_scenario
from inferometer.scenario.spec import checked_scenario
from inferometer.server.embedded import EmbeddedTriton
from inferometer.stats.result import Result
from inferometer.stats.watcher import Watcher
from tests.support.commands import call
from tests.support.ray_kills import NODES, RayRun
from tests.support.ray_machines import RayMachines
from tests.support.samples import sample

pytestmark = pytest.mark.live

PERCENTILES = (50, 90, 95, 99)


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedTriton]:
    """A server of this module's own, so that others need not wait for the cluster."""
    quick = ("--disable-auto-complete-config", "--exit-timeout-secs", "0")
    with EmbeddedTriton(load_models=("simple",), extra_args=quick) as started:
        yield started


@pytest.fixture(scope="module")
def machines() -> Iterator[RayMachines]:
    with RayMachines(NODES) as machines:
        yield machines


@pytest.fixture(scope="module")
def ray(machines: RayMachines) -> Iterator[RayProcess]:
    """One connection for several runs, which share its place on every node."""
    with RayProcess(RaySettings(machines.address)) as ray:
        assert ray.count == NODES
        yield ray


def inferences(server: EmbeddedTriton) -> int:
    with urlopen(f"http://{server.http_address}/v2/models/simple/stats") as reply:
        return int(json.load(reply)["model_stats"][0]["inference_count"])


def trace(folder: Path) -> str:
    path = folder / "trace.jsonl"
    path.write_text("".join(json.dumps({"timestamp": 7 * number}) + "\n" for number in range(200)))
    return str(path)


LOADS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "concurrency": lambda folder: {"concurrency": 8, "request_count": 400},
    "rate": lambda folder: {"request_rate": 200.0, "request_count": 300},
    "schedule": lambda folder: {"replay": trace(folder)},
}


def exported(path: Path) -> list[int]:
    """How long each request in the file took from the time that it was sent, sorted."""
    (experiment,) = json.loads(path.read_text())["experiments"]
    return sorted(row["response_timestamps"][-1] - row["timestamp"] for row in experiment["requests"])


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("load", "protocol"),
    sample(
        [("rate", "grpc")],
        [(load, protocol) for load in LOADS for protocol in ("http", "grpc")],
    ),
)
def test_all_nodes_measure_as_one_client(
    load: str, protocol: str, ray: RayProcess, server: EmbeddedTriton, tmp_path: Path
) -> None:
    export = tmp_path / "requests.json"
    before = inferences(server)
    result = measure(ray, server, protocol, profile_export=str(export), **LOADS[load](tmp_path))
    (level,), account = result.levels, result.account
    found = level.measurement
    assert found is not None
    assert account is not None
    assert account.sent == account.good == inferences(server) - before
    assert found.request_count == account.good
    assert found.client.workers == NODES
    times, service = exported(export), found.service or found.latency
    for p in PERCENTILES:
        assert times[math.floor(p / 100 * (len(times) - 1) + 0.5)] == service.percentile_ns(p)


def measure(ray: RayProcess, server: EmbeddedTriton, protocol: str, **given: Any) -> Result:
    """As the command does it, on a cluster that is there already."""
    url = server.grpc_address if protocol == "grpc" else server.http_address
    options = asked("measure", {"model": "simple", "url": url, "protocol": protocol, "ray": "auto", **given})
    setup = prepare(options, command="measure", habits=OWN_HABITS)
    *_, result = measured(setup, Watcher(), ray=ray)
    if setup.journal is not None:
        write_export(setup.journal.export(), setup.journal.path)
    return result


BUYERS = """
from inferometer.visits import call

def visit(number):
    found = yield call("simple", {"INPUT0": [number % 1000] * 16})
    yield call("simple", {"INPUT0": found["OUTPUT0"]})
"""
PHASES = [{"name": "calm", "for": "500ms"}, {"name": "peak", "for": "500ms", "load": 2}]


@pytest.mark.machine(
    reason="a class whose start is slow on busy cores leaves it out, and its clients count it"
)
def test_classes_of_a_scenario_are_loaded_from_all_nodes(
    ray: RayProcess, server: EmbeddedTriton, tmp_path: Path
) -> None:
    """By rate, by concurrency, and visits whose code only this machine has."""
    (tmp_path / "buyers.py").write_text(BUYERS)
    classes = {
        "steady": {"model": "simple", "rate": 60},
        "users": {"model": "simple", "concurrency": 2},
        "buyers": {"visit": "buyers.py:visit", "steps": ["simple"], "rate": 40},
    }
    scenario = checked_scenario(
        {"server": server.http_address, "classes": classes, "phases": PHASES}, "the scenario"
    )
    options = asked("measure", {"ray": "auto", "service_kind": AUTO})
    before = inferences(server)
    setup = prepare_scenario(ScenarioRequest(scenario, options, folder=tmp_path))
    *_, result = run_scenario(setup, Watcher(), ray=ray)
    account = result.account
    assert account is not None
    assert account.sent == inferences(server) - before
    assert account.good + account.left_out_good == account.sent
    assert [len(level.clients) for level in result.levels] == [NODES * len(classes)] * len(PHASES)
    for level in result.levels:
        rows = {row.name: row for row in level.classes}
        for name, row in rows.items():
            assert row.measurement is not None
            assert not row.measurement.failed_count
            clients = [client for client in level.clients if client.class_name == name]
            assert all(client.request_count for client in clients)
            steps = row.steps or (row,)
            assert sum(client.request_count for client in clients) >= sum(  # they count a cold start, too
                step.measurement.request_count for step in steps if step.measurement is not None
            )
    calm, peak = (level.classes[0].rates for level in result.levels)
    assert calm is not None
    assert peak is not None
    assert (calm.asked_per_s, peak.asked_per_s) == (60, 120)


# --- commands


def test_perf_analyzer_takes_the_cluster(machines: RayMachines, server: EmbeddedTriton) -> None:
    before = inferences(server)
    words = ("-m", "simple", "-u", server.http_address, "--concurrency-range", "4", "--request-count", "200")
    done = call("perf_analyzer", *words, "--ray", machines.address, "--clients", "2")
    assert (done.code, done.stderr) == (0, "")
    assert "Request count: 200" in done.stdout
    assert inferences(server) - before == 200
    machines.wait_until_free()


@pytest.mark.only_sampled
def test_both_variants_of_a_comparison_are_loaded_from_the_same_nodes(
    machines: RayMachines, server: EmbeddedTriton
) -> None:
    words = ("-u", server.http_address, "-m", "simple", "-m", "simple", "-c", "2", "-d", "500ms")
    done = call("inferometer", "compare", *words, "--ray", machines.address, "--clients", "2", "-q")
    assert done.code == 0, done.stderr
    machines.wait_until_free()


# --- what is lost in the middle of a run


@contextmanager
def started(machines: RayMachines, server: EmbeddedTriton, folder: Path, *, clients: int) -> Iterator[RayRun]:
    """A command that measures by rate."""
    words = (server.http_address, "simple", "-r", "200", "-d", "4s")
    run = RayRun(machines, words, folder, lambda: inferences(server), clients)
    try:
        run.wait_until_loaded()
        yield run
    finally:
        run.process.kill()
        run.process.wait()


@pytest.mark.only_sampled
def test_nothing_is_left_when_the_command_is_killed(
    machines: RayMachines, server: EmbeddedTriton, tmp_path: Path
) -> None:
    with started(machines, server, tmp_path, clients=1) as run:
        run.kill("command", random.Random(1))
        run.check_nothing_left()


@pytest.mark.machine(reason="a node is killed within the four seconds that the load lasts")
@pytest.mark.sampled
@pytest.mark.parametrize("victims", sample([["node"]], [["client", "node"]]), ids=" ".join)
def test_who_is_lost_is_named_and_nothing_is_left(
    victims: list[str], machines: RayMachines, server: EmbeddedTriton, tmp_path: Path
) -> None:
    chosen = random.Random(1)
    with started(machines, server, tmp_path, clients=NODES) as run:
        for count, victim in enumerate(victims):
            while len(machines.actors()) > NODES - count:
                assert run.process.poll() is None
            run.kill(victim, chosen)
        run.check_result(lost=len(victims))
        run.check_nothing_left()
