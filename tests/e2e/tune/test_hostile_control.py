"""`tune` on a server whose control calls stop answering in the middle of a search."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.commands import call
from tests.support.servers import Act, FakeTriton, Request, answer_json, drip, never

EXTENSIONS = ("binary_tensor_data", "model_configuration", "statistics", "model_repository")
DRIP = drip(b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n")
INDEX, LOAD, CONFIG = "/repository/index", "/load", "/config"
# The call, how many of them are answered, what happens then, and whether anything has been measured by then.
STUCK = [(INDEX, 3, never, False), (LOAD, 0, DRIP, False), (CONFIG, 4, never, True)]


def stuck(path: str, answered: int, act: Act) -> tuple[Callable[[Request], Act | None], threading.Event]:
    """Return model control that stops answering this call, and an event that is set when it does."""
    seen, is_stuck = [0], threading.Event()

    def control(request: Request) -> Act | None:
        if request.path.endswith(path):
            seen[0] += 1
            if seen[0] > answered:
                is_stuck.set()
                return act
        if request.path.endswith(INDEX):
            return answer_json([{"name": "fake", "version": "1", "state": "READY"}])
        return answer_json({}) if "/repository/models/" in request.path else None

    return control, is_stuck


@pytest.mark.parametrize(("path", "answered", "act", "has_measured"), STUCK, ids=["index", "load", "config"])
def test_the_budget_ends_a_search_whose_server_stops_answering(path, answered, act, has_measured, tmp_path):
    control, is_stuck = stuck(path, answered, act)
    with FakeTriton(control=control, extensions=EXTENSIONS) as fake:
        ended = call(
            "inferometer",
            *("tune", fake.server.address, "fake", "--budget", "4s", "--json", str(tmp_path / "r.json")),
            folder=tmp_path,
        )
        assert is_stuck.is_set()
    assert ended.code in ((0, 5) if has_measured else (1, 3)), ended.stderr
    if has_measured:
        assert json.loads((tmp_path / "r.json").read_text())["trials"]


def test_a_signal_ends_a_call_that_is_never_answered_as_interrupted(tmp_path: Path) -> None:
    control, is_stuck = stuck(INDEX, 3, never)
    with FakeTriton(control=control, extensions=EXTENSIONS) as fake:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "inferometer.cli.main",
                "tune",
                fake.server.address,
                "fake",
                "--budget",
                "10m",
            ],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert is_stuck.wait(60)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
    assert (process.returncode, output.splitlines()[-1]) == (130, "inferometer tune: interrupted")
