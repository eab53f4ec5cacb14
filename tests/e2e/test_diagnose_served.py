"""`diagnose --serve --apply` on a real process: a restart with the suggested option, and nothing left behind."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferometer import api
from inferometer.cli.main import main
from tests.support.leftovers import left, marked

ROOT = Path(__file__).parents[2]


@pytest.fixture
def token() -> Iterator[str]:
    with marked() as found:
        yield found


@pytest.fixture
def words(token, tmp_path, monkeypatch) -> tuple[str, ...]:
    """A command that starts a text server with two slots, and how to diagnose it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    serve = f"{sys.executable} -m tests.support.llm_server {token} --port {{port}} --max-num-seqs 2"
    lengths = ("--prompt-tokens", "10", "--output-tokens", "8")
    return (
        *("diagnose", "--serve", serve, "--preset", "vllm", "--serve-logs", "logs", "--no-store"),
        *(*lengths, "--apply", "-c", "1,8", "-d", "1s"),
    )


def test_the_suggested_option_is_tried_and_kept(words, token, capfd):
    code = main([*words, "--budget", "60s", "--json", "found.json", "--allow-inconclusive"])
    said = capfd.readouterr()
    assert code == 0, said.err
    found = api.load("found.json")
    assert found.verdict.kind == "queue"
    assert found.trials[0].is_kept
    assert found.trials[0].suggestion.change.after == "4"
    assert found.best.throughput > 1.3 * found.throughput
    assert "--max-num-seqs" in " ".join(found.notes)
    assert len(list(Path("logs").iterdir())) == 1 + len(found.trials)
    assert left(token) == []
    assert "The server was stopped." in " ".join(said.out.split())


def test_a_signal_ends_the_command_and_its_server(words, token):
    running = subprocess.Popen([Path(sys.executable).with_name("inferometer"), *words, "--budget", "60s"])
    try:
        deadline = time.monotonic() + 60
        while not left(token) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert left(token)
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) != 0
    finally:
        running.kill()
        running.wait()
    assert left(token) == []
