"""A remote server is as it was found, whatever ends the run: byte for byte, also after SIGKILL."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferometer.options.options import Tls
from inferometer.server.embedded import EmbeddedTriton
from inferometer.services.endpoint import Connection, parse_endpoint
from inferometer.services.http_control import HttpControl
from inferometer.services.triton_http import TritonHttp
from inferometer.tune import model_config
from tests.support.commands import call
from tests.support.samples import sample

pytestmark = pytest.mark.live

MODELS = Path(__file__).parent / "models"
MOMENTS = int(os.environ.get("MOMENTS", "1"))  # of each model
QUICK = ("--disable-auto-complete-config", "--exit-timeout-secs", "0")
BOUNDS = ("--instances", "1:2", "--max-batch", "4:8", "--load", "1:4", "--seed", "1", "--allow-inconclusive")


class Remote:
    """A server that is not ours, as its user sees it."""

    def __init__(self, server: EmbeddedTriton) -> None:
        self.address = server.http_address
        self._http = HttpControl(Connection(parse_endpoint(self.address, default_port=8000, tls=Tls())))
        self.control = TritonHttp(Connection(parse_endpoint(self.address, default_port=8000, tls=Tls())))

    def state(self) -> dict[str, object]:
        """The configuration of every model that is loaded, as it comes over the wire; the entries of an ensemble's maps
        have another order with every load."""
        ready = sorted(row.name for row in self.control.index() if row.state == "READY")
        bodies = {name: self._http.exchange("GET", f"/v2/models/{name}/config")[1] for name in ready}
        return {name: json.loads(body) if b"_map" in body else body for name, body in bodies.items()}


def tune(remote: Remote, model: str, folder: Path, *words: str) -> list[str]:
    journal = str(folder / "journal")
    return ["tune", remote.address, model, *BOUNDS, "--budget", "3s", "--journal", journal, *words]


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


@pytest.fixture
def remote() -> Iterator[Remote]:
    """One model is loaded with a configuration that its folder does not have, all others are not loaded."""
    with EmbeddedTriton(MODELS, load_models=("addsub",), extra_args=QUICK) as server:
        found = Remote(server)
        own = model_config.read_file(MODELS / "addsub" / "config.pbtxt")
        found.control.load_model("addsub", {**own, "name": "addsub", "max_batch_size": 9})
        yield found


@pytest.mark.machine(
    reason="a budget of three seconds measures something only where other processes leave a core"
)
@pytest.mark.sampled
@pytest.mark.parametrize(
    ("model", "with_guard"),
    sample([("addsub_b", True), ("ens", False)], [("addsub", False), ("addsub_b", True), ("ens", False)]),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_original_is_back_after_a_kill_at_any_moment(home, remote, model, with_guard):
    """`with_guard` is of the first kill; those after it take turns."""
    chance, before = random.Random(f"{model} {MOMENTS}"), remote.state()
    for number in range(MOMENTS):
        words = tune(remote, model, home, "--fresh")
        killed(words, chance.uniform(0.5, 5.0), with_guard=with_guard != bool(number % 2))
        done = call("inferometer", *words, timeout_s=300)
        assert done.code in (0, 1), done.stderr
        # A command whose budget is over leaves to its guard what takes longer than a moment.
        wait_until(lambda: not any((home / "state").rglob("*.jsonl")), "the guard has put it back")
        assert remote.state() == before


def test_a_diagnosis_that_is_killed_leaves_nothing_behind(home, remote):
    before = remote.state()
    words = ["diagnose", remote.address, "addsub", "--apply", "--budget", "60s", "-c", "1,8", "-d", "1s"]
    tool = subprocess.Popen(
        [sys.executable, "-m", "inferometer.cli.main", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: remote.state() != before or tool.poll() is not None, "it has changed the model")
    finally:
        tool.kill()
        tool.wait()
    wait_until(lambda: not any((home / "state").rglob("*.jsonl")), "the guard has put it back")
    assert remote.state() == before


def wait_until(is_so, what: str) -> None:
    deadline = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)
