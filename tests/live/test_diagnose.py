"""`inferometer diagnose` against the real Triton: planted bottlenecks, what is tried out, and the way back."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from inferometer import api
from inferometer.base.answer_file import read
from inferometer.diagnose.diagnosis import CPU, Diagnosis
from inferometer.server.embedded import EmbeddedTriton
from tests.support.commands import Ended, call
from tests.support.planted import PLANTED, SLOW_FIRST, Planted, plant
from tests.support.samples import sample

pytestmark = pytest.mark.live

DEADLINE_S = 90
GENEROUS = 5.0  # how far the two may lie apart in so short a time on a crowded machine; make bench holds the real line


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedTriton]:
    repository = plant(tmp_path_factory.mktemp("planted"))
    arguments = ("--disable-auto-complete-config", "--exit-timeout-secs", "0")
    with EmbeddedTriton(repository, extra_args=arguments) as server:
        yield server


@pytest.fixture(scope="module")
def original(server: EmbeddedTriton) -> dict[str, Any]:
    return {name: config(server, name) for pipeline in PLANTED for name in pipeline.models()}


@pytest.fixture
def planted(server: EmbeddedTriton, original: dict[str, Any]) -> EmbeddedTriton:
    """The server with its models as they were planted, whatever a test before or its guard has left."""
    assert eventually(lambda: not is_being_changed(server))
    for name, wanted in original.items():
        if config(server, name) != wanted:
            load(server, name, wanted)
    return server


def config(server: EmbeddedTriton, name: str) -> Any:
    connection = http.client.HTTPConnection(server.http_address, timeout=DEADLINE_S)
    try:
        connection.request("GET", f"/v2/models/{name}/config")
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def load(server: EmbeddedTriton, name: str, wanted: dict[str, Any]) -> None:
    connection = http.client.HTTPConnection(server.http_address, timeout=DEADLINE_S)
    try:
        body = json.dumps({"parameters": {"config": json.dumps(wanted)}})
        connection.request("POST", f"/v2/repository/models/{name}/load", body)
        assert connection.getresponse().status == 200
    finally:
        connection.close()
    assert config(server, name) == wanted


def is_being_changed(server: EmbeddedTriton) -> bool:
    """Whether a run or its guard still keeps what it has to put back."""
    ports = [address.rpartition(":")[2] for address in (server.http_address, server.grpc_address)]
    kept = Path(os.environ["XDG_STATE_HOME"]).rglob("*.jsonl")
    return any(port in path.name for path in kept for port in ports)


def configs(server: EmbeddedTriton, pipeline: Planted) -> dict[str, Any]:
    return {name: config(server, name) for name in pipeline.models()}


def eventually(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + DEADLINE_S
    pause = threading.Event()
    while not condition() and time.monotonic() < end:
        pause.wait(0.1)
    return condition()


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "inferometer.cli.main", "diagnose", *words]


def diagnose(*words: str) -> Ended:
    return call("inferometer", "diagnose", *words)


@pytest.mark.machine(reason="a predicted throughput is compared with a real one, which other load lowers")
@pytest.mark.sampled
@pytest.mark.parametrize("pipeline", sample(PLANTED[::2], PLANTED), ids=lambda pipeline: pipeline.name)
def test_a_planted_bottleneck_is_found_and_its_cure_predicted(
    planted: EmbeddedTriton, pipeline: Planted
) -> None:
    before = configs(planted, pipeline)
    found: Diagnosis = api.diagnose(
        pipeline.name,
        url=planted.http_address,
        concurrency=(1, 8),
        duration_s=0.7,
        apply=True,
        budget_s=60.0,
    )
    culprit = pipeline.culprit
    if pipeline.kind == CPU and "busy with other programs" in found.verdict.sentence:
        culprit = None  # these tests are not alone on the machine, and that is what is said
    assert (found.verdict.kind, found.verdict.step) == (pipeline.kind, culprit), found.verdict.sentence
    assert {step.name for step in found.steps} == {step.name for step in pipeline.steps}
    assert all(step.calls == 1 for step in found.steps)
    if culprit is None:
        assert found.trials == ()
        return
    trial = found.trials[0]
    assert trial.suggestion.change.model == pipeline.culprit
    assert 1 / GENEROUS < trial.ratio < GENEROUS
    numbers = [row.result for row in found.trials if row.result is not None]
    assert len({0, *numbers}) == 1 + len(numbers)
    assert max(numbers) < len(found.results)
    assert found.is_restored is True
    assert configs(planted, pipeline) == before


@pytest.mark.machine(reason="a step is named only where other programs leave the server a core")
def test_the_command_says_it_in_words_and_files(planted: EmbeddedTriton, tmp_path: Path) -> None:
    done = diagnose(
        *("-m", SLOW_FIRST.name, "-u", planted.grpc_address, "-i", "grpc", "--concurrency-range", "4"),
        *("--duration", "1s", "--apply", "--budget", "20s", "--keep"),
        *("--json", str(tmp_path / "it.json"), "--write-config", str(tmp_path / "configs")),
    )
    assert done.code == 0, done.stderr
    assert "first_fetch limits the throughput: its only instance is busy" in done.stdout
    assert re.search(r"Run \d instances of first_fetch instead of 1", done.stdout), done.stdout
    count = config(planted, "first_fetch")["instance_group"][0]["count"]
    assert count in {3, 4}, "of 4 in flight, whom the later steps keep busy hardly at all"
    assert f"Run {count} instances of first_fetch" in done.stdout
    assert "The server keeps the new configuration" in " ".join(done.stdout.split())
    assert read(tmp_path / "it.json", Diagnosis).best is not None
    assert f"count: {count}" in (tmp_path / "configs" / "first_fetch" / "config.pbtxt").read_text()


@pytest.mark.machine(reason="a change is tried only where other programs leave the server a core")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_the_original_configuration_comes_back_after(
    number: signal.Signals, planted: EmbeddedTriton, tmp_path: Path
) -> None:
    before = configs(planted, SLOW_FIRST)
    words = (
        "-m",
        SLOW_FIRST.name,
        "-u",
        planted.http_address,
        "--concurrency-range",
        "4",
        "--duration",
        "1s",
    )
    process = subprocess.Popen(
        command(*words, "--apply"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        assert any(line.startswith("Trying") for line in process.stderr), "nothing was tried"
        changed = eventually(lambda: configs(planted, SLOW_FIRST) != before)
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=DEADLINE_S)
    finally:
        process.kill()
        process.communicate()
    assert changed
    assert eventually(lambda: configs(planted, SLOW_FIRST) == before)
    if number != signal.SIGKILL:
        assert process.returncode == 130
        # A busy server may get its configuration back only after the command, from its guard.
        back = "The server is back to its original configuration."
        assert back in stdout or "The trials ended early: " in stderr


@pytest.mark.machine(reason="a step is named only where other programs leave the server a core")
def test_a_server_without_explicit_control_is_explained(tmp_path: Path) -> None:
    repository = plant(tmp_path / "models", (SLOW_FIRST,))
    arguments = ("--model-control-mode", "none", "--disable-auto-complete-config", "--exit-timeout-secs", "0")
    with EmbeddedTriton(repository, load_models=(), extra_args=arguments) as server:
        done = diagnose(
            *(
                "-m",
                SLOW_FIRST.name,
                "-u",
                server.http_address,
                "--concurrency-range",
                "2",
                "--duration",
                "500ms",
            ),
            *("--apply", "--json", str(tmp_path / "it.json")),
        )
    assert done.code == 3
    assert "--model-control-mode explicit" in done.stderr
    assert "first_fetch limits the throughput" in done.stdout, "the diagnosis itself is still given"
    assert read(tmp_path / "it.json", Diagnosis).verdict.step == "first_fetch"
