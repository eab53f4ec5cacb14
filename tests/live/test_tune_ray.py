"""The tuner with several servers of its own on a Ray cluster."""

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.support.commands import call

pytestmark = pytest.mark.live

COMMAND = "tune simple --ray local --servers 2 --instances 1:2 --max-batch 1:8"
DOCUMENT = Path(__file__).parents[2] / "docs" / "tune.md"


@pytest.mark.only_sampled
@pytest.mark.machine(reason="both servers must start and measure within the budget of the search")
def test_two_servers_with_cores_of_their_own_measure_at_the_same_time(tmp_path: Path) -> None:
    assert f"inferometer {COMMAND} " in DOCUMENT.read_text()  # test_docs.py leaves it to this test
    study = tmp_path / "study.json"
    words = [
        *COMMAND.split(),
        "--budget",
        "30s",
        "--allow-inconclusive",
        "--journal",
        str(tmp_path / "j"),
        "--json",
        str(study),
    ]
    ended = call("inferometer", *words)
    assert ended.code == 0, ended.stderr
    found = json.loads(study.read_text())
    servers = found["server"]["servers"]
    assert [row["lost"] for row in servers] == ["", ""]
    assert not set(servers[0]["cores"]) & set(servers[1]["cores"])
    assert servers[0]["machine"] == servers[1]["machine"]
    measured = [trial for trial in found["trials"] if trial["status"] == "measured"]
    assert {trial["server"] for trial in measured} == {1, 2}
    assert [row["trials"] for row in servers] == [
        sum(trial["server"] == number for trial in found["trials"]) for number in (1, 2)
    ]


@pytest.mark.only_sampled
def test_a_killed_server_is_named_and_a_killed_command_leaves_nothing(tmp_path: Path) -> None:
    words = [*COMMAND.split(), "--budget", "10m", "--journal", str(tmp_path / "j")]
    command = [sys.executable, "-m", "inferometer.cli.main", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        lines = iter(process.stderr)
        _ = next(line for line in lines if "infer/s, p99" in line)
        family = psutil.Process(process.pid).children(recursive=True)
        actors = [one for one in family if one.name().startswith("ray::RayClient")]
        assert len(actors) == 2
        actors[0].kill()
        said = next(line for line in lines if "was lost" in line)
        assert "its trial is retried on another server" in said
        _ = next(line for line in lines if "infer/s, p99" in line)
        process.kill()
    _, alive = psutil.wait_procs(family, timeout=20)
    assert [one for one in alive if one.status() != psutil.STATUS_ZOMBIE] == []
