"""The deployment of servers that are started by a command line."""

import sys
from pathlib import Path

import pytest

from inferometer.observe.host import Gpu
from inferometer.server.launcher import ServerCommand, StartError
from inferometer.tune import launched
from inferometer.tune.launched import LaunchedDeployment
from inferometer.tune.variant import VariantNames

TOTAL = 10_000


class Gpus:
    """GPU memory in use, at each reading in turn; the last one stays."""

    def __init__(self, *used: int) -> None:
        self.used, self.reads = list(used), 0

    def read(self) -> dict[str, Gpu]:
        self.reads += 1
        used = self.used.pop(0) if len(self.used) > 1 else self.used[0]
        return {"GPU-a": Gpu(memory_used_bytes=used, memory_total_bytes=TOTAL), "GPU-b": Gpu()}


def variant(slots: int):
    return VariantNames().variant("server", {"knobs": {"slots": 1}}, {"knobs": {"slots": slots}})


@pytest.fixture
def command(tmp_path: Path) -> ServerCommand:
    words = (sys.executable, "-c", "print('no weights for', {slots})")
    return ServerCommand(words, logs=tmp_path / "logs", start_s=60.0)


def test_a_start_waits_until_the_gpu_memory_is_free_again(command, monkeypatch):
    monkeypatch.setattr("inferometer.tune.launched.time.sleep", lambda _: None)
    gpus = Gpus(500, 9_000, 4_000, 600)
    deployment = LaunchedDeployment(command, gpus.read)
    with pytest.raises(StartError):
        deployment.apply([variant(4)])
    assert gpus.reads == 4  # before the search, then until no more than 2 % more is in use


def test_a_start_does_not_wait_for_ever(command, monkeypatch):
    monkeypatch.setattr(launched, "FREEING_S", 0.0)
    deployment = LaunchedDeployment(command, Gpus(0, 9_000).read)
    with pytest.raises(StartError, match="no weights for 4"):
        deployment.apply([variant(4)])


def test_a_failed_start_is_not_a_server_that_died(command):
    deployment = LaunchedDeployment(command)
    for slots in (1, 4):
        with pytest.raises(StartError, match=f"no weights for {slots}"):
            deployment.apply([variant(slots)])
        assert deployment.is_running()  # so that the trial is not repeated
        assert not deployment.revive()
    assert [path.name for path in sorted(command.logs.iterdir())] == ["001-default.log", "002-0.log"]
