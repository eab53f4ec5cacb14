"""Restoration of a server's original models by the run, by its guard or by the next run."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from inferometer.base.errors import PeerError, UsageError
from inferometer.services.discovery import READY, ModelState
from inferometer.services.originals import Originals, kept_in

ROOT = Path(__file__).parents[3]


class Filed:
    """A server whose models are files, visible to other processes; those in `repository` are not loaded."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def index(self):
        return tuple(ModelState(path.name, READY) for path in self.folder.iterdir())

    def config(self, name, version=""):
        return json.loads((self.folder / name).read_text())

    def load_model(self, name, config=None):
        if config is None:
            raise PeerError("nothing in the repository")
        (self.folder / name).write_text(json.dumps(config))

    def unload_model(self, name):
        (self.folder / name).unlink(missing_ok=True)


A = {"name": "a", "count": 1}
ENSEMBLE = {"name": "e", "ensemble_scheduling": {"step": [{"model_name": "a"}, {"model_name": "b"}]}}


@pytest.fixture
def server(tmp_path, monkeypatch) -> Filed:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "models").mkdir()
    found = Filed(tmp_path / "models")
    found.load_model("a", A)
    return found


def loaded(server) -> dict:
    return {row.name: server.config(row.name) for row in server.index()}


class Lingering(Filed):
    """Server whose models disappear some time after unloading."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.leaving: list[str] = []

    def unload_model(self, name):
        self.leaving += [name, name]

    def index(self):
        found = super().index()
        if self.leaving:
            super().unload_model(self.leaving.pop())
        return found


def test_unloading_is_awaited(server):
    lingering: Any = Lingering(server.folder)
    with Originals(lingering, "here:8000", print) as originals:
        originals.note(["b"])
        lingering.load_model("b", {"name": "b"})
    assert loaded(server) == {"a": A}


def test_loaded_models_are_restored_and_others_unloaded(server):
    with Originals(server, "here:8000", print) as originals:
        originals.note(["e"])
        server.load_model("b", {"name": "b"})  # the server does this itself for an ensemble
        server.load_model("e", ENSEMBLE)
        originals.note(["a", "b"])
        server.load_model("a", {"name": "a", "count": 5})
    assert loaded(server) == {"a": A}
    assert not kept_in("here:8000").exists()


def test_members_loaded_by_an_ensemble_are_unloaded_too(server):
    with Originals(server, "here", print) as originals:
        originals.note(["e"])
        server.load_model("b", {"name": "b"})
        server.load_model("e", ENSEMBLE)
    assert loaded(server) == {"a": A}


KILLED = """
import os, signal, sys
from pathlib import Path
from inferometer.services.originals import Originals
from tests.unit.services.test_originals import Filed
server = Filed(Path(sys.argv[1]))
originals = Originals(server, "here", print).open()
originals.note(["a"])
server.load_model("a", {"name": "a", "count": 5})
if sys.argv[2] == "both":
    originals._guard._process.kill()
    originals._guard._process.wait()
os.kill(os.getpid(), signal.SIGKILL)
"""


def run_and_kill(server, what: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}  # where the guard finds the fake server
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(server.folder), what], check=False, env=environment
    )
    assert done.returncode == -signal.SIGKILL


def wait_until_gone() -> None:
    deadline = time.monotonic() + 60
    while kept_in("here").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_guard_of_a_killed_run_restores_models(server):
    run_and_kill(server, "the run")
    wait_until_gone()
    assert loaded(server) == {"a": A}


def test_the_next_run_restores_models_and_reports_it(server):
    run_and_kill(server, "both")
    assert loaded(server) == {"a": {"name": "a", "count": 5}}
    said: list[str] = []
    with Originals(server, "here", said.append) as originals:
        assert loaded(server) == {"a": A}
        assert originals.has_put_back
    assert len(said) == 1
    assert "killed" in said[0]
    assert loaded(server) == {"a": A}


def test_an_incomplete_row_belongs_to_a_change_not_made(server):
    kept_in("here").write_text('{"process": 1}\n{"loaded": ["a"]}\n{"model": "a", "conf')
    with Originals(server, "here", print) as originals:
        assert not originals.has_put_back


def test_two_runs_do_not_change_one_server(server):
    busy = pytest.raises(UsageError, match=f"process {os.getpid()}")
    with Originals(server, "here", print), busy, Originals(server, "here", print):
        pass


def test_failed_restorations_are_left_to_the_guard(server, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    originals = Originals(server, "here", print).open()
    originals.note(["a"])
    server.load_model("a", {"name": "a", "count": 5})

    def refuse(name, config=None):
        raise PeerError("out of memory")

    monkeypatch.setattr(server, "load_model", refuse)
    with pytest.raises(PeerError, match="cannot restore the original configuration: out of memory"):
        originals.close()
    with Originals(server, "here", print):  # waits for the guard
        assert loaded(server) == {"a": A}
