"""What a run says about itself while it goes on and at its end: notes, messages, progress."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from inferometer import api
from inferometer.base.signals import INTERRUPTED
from tests.support.commands import ABOUT_MACHINE
from tests.support.grpc_servers import FakeGrpcTriton
from tests.support.servers import FakeTriton, Request, answer_json

DEADLINE_S = 60
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (30, 48))
from inferometer.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def test_server_without_statistics_is_noted(run: Callable, tmp_path: Path) -> None:
    with FakeTriton(extensions=("binary_tensor_data", "model_configuration")) as fake:
        words = ("-m", "fake", "-u", fake.server.address, "--request-count", "20")
        ended = run("inferometer", "measure", *words, "--json", str(tmp_path / "r.json"))
        classic = run("perf_analyzer", *words)
    assert ended.code == classic.code == 0
    assert "! the server does not support the statistics extension" in [
        line.rstrip() for line in ended.stdout.splitlines()
    ]
    (remark,) = [row for row in api.load(str(tmp_path / "r.json")).remarks if row.note not in ABOUT_MACHINE]
    assert remark.note.name == "STATISTICS_MISSING"
    assert "    Request count: 20\n" in classic.stdout
    assert "Server: " not in classic.stdout
    assert classic.stderr_apart_from_machine == ""


def test_model_that_is_listed_and_never_called_is_noted(run: Callable) -> None:
    def control(request: Request):
        if request.path.endswith("/unused/config"):
            return answer_json({"name": "unused", "platform": "python", "max_batch_size": 0})
        if request.path.endswith("/stats"):
            rows = [(name, len(fake.inferences) if name == "fake" else 7) for name in ("fake", "unused")]
            return answer_json({"model_stats": [statistics(*row) for row in rows]})
        return None

    with FakeTriton(control=control) as fake:
        ended = run(
            *("perf_analyzer", "-m", "fake", "-u", fake.server.address, "--request-count", "20"),
            *("--bls-composing-models", "unused"),
        )
    assert ended.code == 0
    assert (
        "WARNING: 'fake' did not call 'unused'; no request reached this model during the measurement"
        in ended.stderr
    )


def statistics(name: str, calls: int) -> dict:
    steps = ("success", "queue", "compute_input", "compute_infer", "compute_output")
    stats = {step: {"count": calls, "ns": calls * 1000} for step in steps}
    return {"name": name, "version": "1", "inference_count": calls, "inference_stats": stats}


def test_a_low_file_limit_is_reported_before_and_after(tmp_path: Path) -> None:
    """The soft limit is raised to the hard one, which is too low for what was asked."""
    with FakeTriton() as fake:
        ended = subprocess.run(
            [
                *(sys.executable, "-c", LIMITED, "measure", "-m", "fake", "-u", fake.server.address),
                *("--concurrency-range", "60", "--duration", "1", "--json", str(tmp_path / "r.json")),
            ],
            capture_output=True,
            check=False,
            text=True,
            timeout=DEADLINE_S,
        )
    assert ended.returncode == 1
    assert "WARNING: a worker will need 76 open files, but the limit is 48; raise the hard" in ended.stderr
    (level,) = api.load(str(tmp_path / "r.json")).levels
    assert level.measurement.client.file_limit == 48
    assert "FEW_FILES" in {remark.note.name for remark in level.remarks}
    assert [group.kind for group in level.measurement.failures] == ["connect"]
    assert "Too many open files" in level.measurement.failures[0].example


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_twice_verbose_shows_every_message_on_stderr(protocol: str, run: Callable) -> None:
    with FakeGrpcTriton() if protocol == "grpc" else FakeTriton() as fake:
        ended = run(
            *(
                "perf_analyzer",
                "-m",
                "fake",
                "-i",
                protocol,
                "-u",
                fake.server.address,
                "--request-count",
                "3",
            ),
            *("-v", "-v", "-H", "authorization:a secret"),
        )
    assert ended.code == 0
    sent = r"^> \[0\] (POST /v2/models/fake/infer HTTP/1.1|gRPC message), \d+ bytes$"
    assert len(re.findall(sent, ended.stderr, re.M)) == 3
    assert len(re.findall(r"^< \[0\] ok, \d+ bytes in 1 response", ended.stderr, re.M)) == 3
    assert re.search(r"^> (GET /v2/models/fake|ModelMetadata), ", ended.stderr, re.M)
    assert "  Pass [1] throughput: " in ended.stdout
    assert "> " not in ended.stdout
    assert "secret" not in ended.stderr


def test_once_verbose_shows_no_message(run: Callable) -> None:
    with FakeTriton() as fake:
        ended = run("perf_analyzer", "-m", "fake", "-u", fake.server.address, "--request-count", "3", "-v")
    assert ended.stderr_apart_from_machine == ""


def measuring(address: str, *words: str) -> list[str]:
    return [sys.executable, "-m", "inferometer.cli.main", "measure", "-m", "fake", "-u", address, *words]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_terminal_shows_a_block_and_a_signal_gives_a_valid_report(
    number: signal.Signals, tmp_path: Path
) -> None:
    ours, theirs = pty.openpty()
    with FakeTriton() as fake:
        process = subprocess.Popen(
            measuring(fake.server.address, "--duration", "1h", "--json", str(tmp_path / "r.json")),
            stdout=subprocess.PIPE,
            stderr=theirs,
            text=True,
        )
        os.close(theirs)
        try:
            shown = block = b""
            while b"outstanding" not in block or b"warming up" in block:
                shown += os.read(ours, 4096)
                block = shown.rpartition("▸".encode())[2]
            assert fake.wait_for_inferences(len(fake.inferences) + 5)  # the level has answers
            process.send_signal(number)
            stdout, _ = process.communicate(timeout=DEADLINE_S)
        finally:
            process.kill()
            os.close(ours)
    assert "▸ concurrency 1" in shown.decode(errors="replace")
    assert process.returncode == INTERRUPTED
    assert "interrupted" in stdout
    (level,) = json.loads((tmp_path / "r.json").read_text())["levels"]
    assert level["measurement"]["request_count"] > 0
    assert level["remarks"][0]["note"] == "INTERRUPTED"


def test_log_gets_a_line_for_every_window_when_asked(run: Callable) -> None:
    with FakeTriton() as fake:
        ended = run(
            "inferometer", "measure", "-m", "fake", "-u", fake.server.address, "--duration", "1", "-v"
        )
    assert "\x1b" not in ended.stderr
    assert "concurrency 1: started\nconcurrency 1: window 1, " in ended.stderr
