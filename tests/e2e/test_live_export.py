"""A run that other tools follow: what they see agrees with its result, and they never harm it."""

import json
import socket
import sys
import threading
import urllib.request
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from inferometer.cli.main import KEPT
from tests.support.collector import Collector
from tests.support.servers import FakeTriton


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def attributes(point: Any) -> dict[str, str]:
    return {row.key: row.value.string_value for row in point.attributes}


def test_a_collector_has_the_counts_of_the_result(run: Callable, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    with FakeTriton() as fake, Collector() as collector:
        ended = run(
            *("inferometer", "measure", fake.server.address, "fake", "-c", "1,2", "-n", "150", "-q"),
            *("--warmup-requests", "10", "--otlp", collector.url, "--json", str(path)),
        )
    assert (ended.code, ended.stderr) == (0, "")
    result = json.loads(path.read_text())
    assert sum(level["measurement"]["request_count"] for level in result["levels"]) == 300
    found = collector.metrics
    (point,) = found["inferometer.requests.ended"].sum.data_points
    assert point.as_double == len(fake.inferences) == 320
    assert attributes(point)["model"] == "fake"
    assert attributes(point)["command"] == "measure"
    (load,) = found["inferometer.load"].gauge.data_points
    assert (load.as_double, attributes(load)["mode"]) == (2, "concurrency")
    assert found["inferometer.client.cores"].gauge.data_points[0].as_double > 0


def test_prometheus_sees_a_run_grow(run: Callable, tmp_path: Path) -> None:
    port, pages, is_over = free_port(), [], threading.Event()

    def scrape() -> None:
        while not is_over.wait(0.05):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as reply:
                    pages.append(reply.read().decode())
            except OSError:  # not there yet, or no more
                pass

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        with FakeTriton() as fake:
            ended = run(
                *("inferometer", "measure", fake.server.address, "fake", "-c", "2", "-d", "900ms"),
                *("--prometheus", str(port), "--store", str(tmp_path / "store")),
            )
    finally:
        is_over.set()
        thread.join()
    assert ended.code == 0, ended.stderr
    assert f"Live figures for Prometheus: http://127.0.0.1:{port}/metrics\n" in ended.stderr
    seen = [{row.name: row.samples for row in text_string_to_metric_families(page)} for page in pages]
    counts = [row["inferometer_requests_ended"][0] for row in seen if "inferometer_requests_ended" in row]
    (kept,) = (tmp_path / "store" / "runs").iterdir()
    assert counts[-1].labels == {"model": "fake", "command": "measure", "run": kept.name}
    values = [row.value for row in counts]
    assert values == sorted(values)
    assert 0 <= values[0] < values[-1] <= len(fake.inferences)
    (rate,) = seen[-1]["inferometer_request_throughput_per_second"]
    assert rate.value > 0


def test_a_collector_that_is_not_there_is_one_warning(run: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inferometer.report.otlp.PERIOD_S", 0.05)
    with FakeTriton() as fake:
        url = f"http://127.0.0.1:{free_port()}"
        ended = run(
            "inferometer",
            "measure",
            fake.server.address,
            "fake",
            "-d",
            "900ms",
            "-q",
            "--otlp",
            url,
            "--time-limit",
            "9s",
        )
    assert ended.code == 0
    assert ended.stderr.count("WARNING") <= 1
    assert "Traceback" not in ended.stderr


REFUSED = (
    ("prometheus_client", ("--prometheus", "0"), "pip install 'inferometer[prometheus]'"),
    ("opentelemetry.sdk.metrics", ("--otlp", "http://h:1"), "pip install 'inferometer[otlp]'"),
    ("", ("--otlp", "localhost:4318"), "use a form such as http://localhost:4318"),
    ("", ("--prometheus", "70000"), "Use a free port, or 0 for any"),
    ("", ("--prometheus", "-1"), "must be >= 0"),
)


@pytest.mark.parametrize(("missing", "words", "said"), REFUSED, ids=[row[2] for row in REFUSED])
def test_impossible_exports_are_rejected_before_any_load(
    missing: str,
    words: tuple[str, ...],
    said: str,
    run: Callable,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    if missing:
        monkeypatch.setitem(sys.modules, missing, None)
    with FakeTriton() as fake:
        ended = run(
            "inferometer",
            "measure",
            fake.server.address,
            "fake",
            "-n",
            "5",
            "--store",
            str(tmp_path / "store"),
            *words,
        )
        assert not fake.inferences
    assert ended.code == 2
    assert said in ended.stderr
    assert not list((tmp_path / "store").glob("runs/*"))


@pytest.mark.parametrize("command", KEPT)
def test_every_command_that_sends_load_has_both(command: str) -> None:
    groups = import_module(f"inferometer.cli.{command}").COMMAND.shared
    names = {name for _, rows in groups for row in rows for name in row.names}
    assert {"--prometheus", "--otlp"} <= names


def test_runs_are_exported_to_mlflow(run: Callable, tmp_path: Path) -> None:
    store, target = str(tmp_path / "store"), tmp_path / "mlruns"
    with FakeTriton() as fake:
        for _ in range(2):
            ended = run(
                "inferometer",
                "measure",
                fake.server.address,
                "fake",
                "-c",
                "1,2",
                "-n",
                "40",
                "-q",
                "--store",
                store,
            )
            assert ended.code == 0, ended.stderr
    ids = [path.name for path in (tmp_path / "store" / "runs").iterdir()]
    ended = run("inferometer", "runs", "export", *ids, "--store", store, "--mlflow", str(target))
    assert ended.code == 0, ended.stderr
    folders = [Path(line) for line in ended.stdout.splitlines()]
    assert {folder.name[:8] for folder in folders} == set(ids)
    for folder in folders:
        assert (folder / "params" / "model").read_text() == "fake"
        lines = (folder / "metrics" / "levels" / "throughput_per_s").read_text().splitlines()
        assert [line.split()[2] for line in lines] == ["1", "2"]
        assert (folder / "artifacts" / "report.html").stat().st_size > 1000
    ended = run("inferometer", "runs", "export", "model=fake", "--store", store, "--mlflow", str(target))
    assert {Path(line) for line in ended.stdout.splitlines()} == set(folders)
    ended = run("inferometer", "runs", "export", "model=other", "--store", store, "--mlflow", str(target))
    assert (ended.code, "no run matches model=other" in ended.stderr) == (2, True)
    ended = run("inferometer", "runs", "--store", store, "--mlflow", str(target))
    assert (ended.code, "--mlflow does not apply to `runs list`" in ended.stderr) == (2, True)
