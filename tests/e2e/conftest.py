"""The whole command line against servers of our own, inside this process or as a process of its own."""

import json
import ssl
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from inferometer.cli import main
from inferometer.dialects.perf_analyzer import main as perf_analyzer
from tests.support.certificates import write_certificate
from tests.support.commands import Ended, script

COMMANDS = {"perf_analyzer": perf_analyzer.main, "inferometer": main.main}


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Runs a command line here; only its workers are processes."""

    def call(command: str, *words: str) -> Ended:
        capfd.readouterr()
        code = COMMANDS[command](list(words))
        return Ended(code, *capfd.readouterr())

    return call


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts the script as a process in a group of its own, for what only processes can be done to."""
    started: list[subprocess.Popen[str]] = []

    def call(*words: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(script(*words), stdout=pipe, stderr=pipe, text=True, process_group=0))
        return started[-1]

    yield call
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def steps(tmp_path: Path) -> Callable[..., str]:
    """A file of input data for the fake model: one step per number."""

    def write(*numbers: int) -> str:
        path = tmp_path / "steps.json"
        path.write_text(json.dumps({"data": [{"INPUT0": [number]} for number in numbers]}))
        return str(path)

    return write


@pytest.fixture
def certificate(tmp_path: Path) -> Callable[..., tuple[str, ssl.SSLContext]]:
    """A self-signed certificate for loopback: its PEM file and a server's context. The key is in NAME.key beside it."""
    return partial(write_certificate, tmp_path)
