"""Every request in a file, whatever happens to the run."""

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from inferometer import api
from tests.support.servers import FakeTriton, answer_json, reply

DEADLINE_S = 60
ANSWER = {"outputs": [{"name": "OUTPUT0", "datatype": "INT32", "shape": [1], "data": [9]}]}


def usual() -> bytes:
    return reply(json.dumps(ANSWER).encode())


def read(path: Path) -> list[dict]:
    document = json.loads(path.read_text())
    assert list(document) == ["experiments", "version", "service_kind", "endpoint"]
    return document["experiments"]


def test_requests_are_what_was_sent_and_answered(run: Callable, steps: Callable, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    with FakeTriton(usual=usual()) as fake:
        words = ("-m", "fake", "-u", fake.server.address, "--input-data", steps(1, 2, 3))
        ended = run(
            "perf_analyzer", *words, "--request-count", "9", "--workers", "2", "--concurrency-range", "3",
            "--warmup-request-count", "4", "--profile-export-file", str(path),
        )  # fmt: skip
    assert ended.code == 0, ended.stderr
    (experiment,) = read(path)
    assert experiment["experiment"] == {"mode": "concurrency", "value": 3}
    requests = experiment["requests"]
    assert len(requests) == 9
    assert {row["request_inputs"]["INPUT0"] for row in requests} == {1, 2, 3}
    assert all(row["response_outputs"] == [{"OUTPUT0": 9}] for row in requests)
    start, end = experiment["window_boundaries"]
    for row in requests:
        assert start <= row["timestamp"] < row["response_timestamps"][0] <= end
    assert list(tmp_path.glob(".x*")) == []


def test_failed_requests_are_left_out_and_the_file_is_written(
    run: Callable, steps: Callable, tmp_path: Path
) -> None:
    path, table = tmp_path / "x.json", tmp_path / "x.parquet"
    with FakeTriton(
        lambda number, request: answer_json({"error": "no"}, 503) if number % 4 == 3 else None, usual=usual()
    ) as fake:
        words = ("-m", "fake", "-u", fake.server.address, "--request-count", "20")
        ended = run("perf_analyzer", *words, "--profile-export-file", str(path))
        again = run("inferometer", "measure", *words, "--profile-export-file", str(table))
    assert (ended.code, again.code) == (99, 1)
    assert len(read(path)[0]["requests"]) == 15
    assert "leaves out 5 failed requests" in ended.stderr
    from pyarrow import parquet

    found = parquet.read_table(table)["status"].to_pylist()
    assert (found.count("ok"), found.count("http 503")) == (15, 5)


def test_unreadable_replies_are_null(run: Callable, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    with FakeTriton() as fake:
        words = ("-m", "fake", "-u", fake.server.address, "--request-count", "3")
        assert run("perf_analyzer", *words, "--profile-export-file", str(path)).code == 0
    assert [row["response_outputs"] for row in read(path)[0]["requests"]] == [[{"OUTPUT0": None}]] * 3


def test_an_unstable_run_writes_no_file(run: Callable, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    with FakeTriton() as fake:
        words = ("-m", "fake", "-u", fake.server.address, "-p", "300", "-s", "0", "-r", "3")
        assert run("perf_analyzer", *words, "--profile-export-file", str(path)).code == 2
    assert not path.exists()


def test_an_interrupted_run_has_what_was_measured(start: Callable, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    with FakeTriton(usual=usual()) as fake:
        process = start(
            *("-m", "fake", "-u", fake.server.address, "-p", "200", "-s", "0", "-r", "1000000"),
            *("--profile-export-file", str(path), "--json", str(tmp_path / "r.json")),
        )
        assert fake.wait_for_inferences(400)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0
    (experiment,) = read(path)
    (level,) = api.load(str(tmp_path / "r.json")).levels
    assert len(experiment["window_boundaries"]) == len(level.windows) + 1
    assert len(experiment["requests"]) == sum(window.request_count for window in level.windows)


def test_the_python_surface_writes_it_too(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    with FakeTriton(usual=usual()) as fake:
        api.measure(
            "fake", url=fake.server.address, request_count=5, duration_s=None, profile_export=str(path)
        )
    assert len(read(path)[0]["requests"]) == 5


@pytest.mark.parametrize("command", [("perf_analyzer",), ("inferometer", "measure"), ("inferometer", "find")])
def test_a_folder_that_is_missing_is_found_before_the_load(
    command: tuple[str, ...], run: Callable, tmp_path: Path
) -> None:
    promise = ("--slo", "p99<1s") if "find" in command else ()
    with FakeTriton() as fake:
        words = (
            "-m",
            "fake",
            "-u",
            fake.server.address,
            "--profile-export-file",
            str(tmp_path / "no/x.json"),
        )
        ended = run(*command, *promise, *words)
        assert fake.inferences == []
    assert ended.code in (2, 99)
    assert "does not exist; create it with: mkdir -p" in ended.stderr
