"""A remote server is as it was found, whatever ends the run: byte for byte, also after SIGKILL."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from inferometer.options.options import Tls
from inferometer.server.embedded import EmbeddedTriton
from inferometer.services.endpoint import Connection, parse_endpoint
from inferometer.services.http_control import HttpControl
from inferometer.services.triton_http import TritonHttp
from inferometer.tune import model_config
from tests.support.commands import call

pytestmark = pytest.mark.live

MODELS = Path(__file__).parent / "models"
MOMENTS = int(os.environ.get("MOMENTS", "4"))
BOUNDS = ("--instances", "1:2", "--max-batch", "4:8", "--load", "1:4", "--seed", "1")


class Remote:
    """A server that is not ours, as its user sees it."""

    def __init__(self, server: EmbeddedTriton) -> None:
        self.address = server.http_address
        self._http = HttpControl(Connection(parse_endpoint(self.address, default_port=8000, tls=Tls())))
        self.control = TritonHttp(Connection(parse_endpoint(self.address, default_port=8000, tls=Tls())))

    def state(self) -> dict[str, bytes]:
        """The configuration of every model that is loaded, as it comes over the wire."""
        ready = sorted(row.name for row in self.control.index() if row.state == "READY")
        return {name: self._http.exchange("GET", f"/v2/models/{name}/config")[1] for name in ready}


def tune(remote: Remote, model: str, folder: Path, *words: str) -> list[str]:
    journal = str(folder / "journal")
    return ["tune", remote.address, model, *BOUNDS, "--budget", "5s", "--journal", journal, *words]


def killed(words: list[str], after_s: float, *, with_guard: bool) -> None:
    """Run it for so long, then end it without a word; where asked, everything that it has started too."""
    import psutil

    program = [sys.executable, "-m", "inferometer.cli.main", *words]
    tool = subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(after_s)
    family = psutil.Process(tool.pid).children(recursive=True) if tool.poll() is None else []
    tool.kill()
    tool.wait()
    for process in family if with_guard else ():
        os.kill(process.pid, signal.SIGKILL)


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


@pytest.mark.parametrize("model", ["addsub", "addsub_b"])
def test_the_original_is_back_after_a_kill_at_any_moment(home, model):
    """One model is loaded with a configuration that its folder does not have, the other one is not loaded."""
    chance = random.Random(MOMENTS)
    with EmbeddedTriton(MODELS, load_models=("addsub",)) as server:
        remote = Remote(server)
        own = model_config.read_file(MODELS / "addsub" / "config.pbtxt")
        remote.control.load_model("addsub", {**own, "name": "addsub", "max_batch_size": 6})
        before = remote.state()
        for number in range(MOMENTS):
            words = tune(remote, model, home, "--fresh")
            killed(words, chance.uniform(0.5, 9.0), with_guard=bool(number % 2))
            done = call("inferometer", *words, timeout_s=300)
            assert done.code in (0, 1), done.stderr
            assert remote.state() == before
            assert not any((home / "state").rglob("*.jsonl"))
