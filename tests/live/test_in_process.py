"""`--service-kind triton_c_api`: the real library in a process of ours."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from inferometer import api
from inferometer.server.repository import example_repository
from inferometer.server.wheel import backends_folder, find_wheel, make_backends
from inferometer.stats.measurement import Measurement
from inferometer.stats.result import Result
from tests.support.commands import call, call_script

MODELS = Path(__file__).parent / "models"
DEADLINE_S = 120


def measure(folder: Path, *words: str, repository: Path | None = None) -> Result:
    path = folder / "result.json"
    where = str(repository or example_repository())
    common = ("--service-kind", "triton_c_api", "--model-repository", where, "--json", str(path))
    done = call("inferometer", "measure", *common, *words)
    assert done.code == 0, done.stderr
    return api.load(str(path))


def figures(folder: Path, *words: str) -> Measurement:
    measured = measure(folder, *words).levels[0].measurement
    assert measured is not None
    return measured


def traces(pid: int) -> list[str]:
    """What a process left in the usual places."""
    names = [name for folder in ("/tmp", "/dev/shm") for name in os.listdir(folder)]
    return [name for name in names if name.startswith((f"inferometer-triton-{pid}_", f"inferometer_{pid}_"))]


@pytest.mark.machine(
    reason="a window of 300 ms has requests only where other processes leave the server a core"
)
def test_the_classic_report_of_a_server_in_this_process() -> None:
    done = call_script(
        *("-m", "simple", "--service-kind", "triton_c_api", "--model-repository", str(example_repository())),
        *("-p", "300", "-s", "999999", "--concurrency-range", "2"),
    )
    assert done.code == 0, done.stderr
    assert "  Service Kind: TRITON_C_API\n" in done.stdout
    assert "  Server: \n    Inference count: " in done.stdout


def test_all_requests_are_counted(tmp_path: Path) -> None:
    measured = figures(tmp_path, "-m", "simple", "--request-count", "3000", "--concurrency-range", "4")
    assert measured.request_count == 3000
    assert not measured.failures
    assert measured.server is not None


def wait_for(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.05)


@pytest.mark.parametrize("ending", [None, signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left(ending: signal.Signals | None) -> None:
    words = (
        "-m",
        "simple",
        "--service-kind",
        "triton_c_api",
        "--model-repository",
        str(example_repository()),
    )
    span = ("--duration", "1s") if ending is None else ("--duration", "600s", "-v")
    command = [sys.executable, "-m", "inferometer.cli.main", "measure", *words, *span]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert any("concurrency 1: " in line for line in process.stderr)
        if ending is not None:
            wait_for(lambda: bool(traces(process.pid)))
            process.send_signal(ending)
        process.communicate(timeout=DEADLINE_S)
    wait_for(lambda: not traces(process.pid))  # after a kill the guard cleans up, when it gets to it
    assert not traces(process.pid)


@pytest.mark.parametrize(
    "words",
    [
        ("--concurrency-range", "3"),
        ("--request-rate-range", "300", "--request-distribution", "poisson"),
    ],
    ids=["closed", "open"],
)
def test_replies_are_compared_with_what_was_expected(tmp_path: Path, words: tuple[str, ...]) -> None:
    rows = [{"INPUT0": {"content": list(range(n, n + 16)), "shape": [16]}} for n in range(3)]
    for row in rows:
        row["INPUT1"] = {"content": [1] * 16, "shape": [16]}
    right = [
        {"OUTPUT0": [n + k + 1 for k in range(16)], "OUTPUT1": [n + k - 1 for k in range(16)]}
        for n in range(3)
    ]
    wrong = [*right[:2], {**right[2], "OUTPUT0": [0] * 16}]
    for expected, share in ((right, 0), (wrong, 1 / 3)):
        data = tmp_path / "data.json"
        data.write_text(json.dumps({"data": [rows], "validation_data": [expected]}))
        words_of_run = ("-m", "simple", "--input-data", str(data), "--request-count", "300", *words)
        measured = figures(tmp_path, *words_of_run, "--max-error-rate", "100%")
        assert measured.failed_count == round(300 * share)


def test_a_decoupled_model_has_all_its_responses(tmp_path: Path) -> None:
    data = tmp_path / "data.json"
    tensors = {"IN": [1, 2, 3, 4], "DELAY": [0, 0, 0, 0]}
    row = {name: {"content": values, "shape": [4]} for name, values in tensors.items()}
    data.write_text(json.dumps({"data": [{**row, "WAIT": [0]}]}))
    words = ("-m", "repeat", "--streaming", "--async", "--request-count", "50", "--input-data", str(data))
    measured = figures(tmp_path, *words)
    assert measured.request_count == 50
    assert measured.streaming is not None
    assert measured.streaming.responses == 200


def test_sequences_keep_their_ids_and_order(tmp_path: Path) -> None:
    words = (
        "-m",
        "accumulator",
        "--request-count",
        "400",
        "--concurrency-range",
        "8",
        "--sequence-length",
        "10",
    )
    measured = figures(tmp_path, *words)
    assert measured.request_count >= 400  # and what closes the last sequences
    assert not measured.failures


def test_an_ensemble_shows_its_steps(tmp_path: Path) -> None:
    photo = next(example_repository().parent.rglob("*.jpg"))
    words = ("-m", "ensemble_image", "--input", f"INPUT=@{photo}", "--request-count", "10")
    measured = figures(tmp_path, *words)
    assert measured.server is not None
    assert {row.name for row in measured.server.members} >= {"preprocessing", "classifier"}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("-m", "nothing"), "nothing"),
        (("-m", "simple", "--model-repository", "/no/such/folder"), "/no/such/folder"),
        (("-m", "simple", "--triton-server-directory", "/tmp"), "'/tmp' has no lib/libtritonserver.so"),
        (("-m", "simple", "--workers", "2"), "Triton runs inside a single process"),
        (("-m", "simple", "--shared-memory", "system"), "reads inputs in place"),
    ],
)
def test_impossible_requests_are_rejected_with_one_sentence(words: tuple[str, ...], sentence: str) -> None:
    done = call(
        *(
            "inferometer",
            "measure",
            "--service-kind",
            "triton_c_api",
            "--model-repository",
            str(example_repository()),
            *words,
        ),
        *("--duration", "1s"),
    )
    assert done.code != 0
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_an_installation_laid_out_like_tritons_own_is_used(tmp_path: Path) -> None:
    wheel, place = find_wheel(), tmp_path / "triton"
    make_backends(wheel, tmp_path)
    (place / "lib").mkdir(parents=True)
    (place / "lib" / "libtritonserver.so").symlink_to(next(wheel.libraries.glob("libtritonserver*.so")))
    (place / "backends").symlink_to(backends_folder(tmp_path))
    words = ("-m", "simple", "--request-count", "20", "--triton-server-directory", str(place))
    assert figures(tmp_path, *words).request_count == 20
