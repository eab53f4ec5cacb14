"""Tools that call `perf_analyzer` and read what it writes: their own command lines, read the way they read it.

model-analyzer 1.58 takes figures from the CSV by the names of its columns; when the exit code is above 0 it looks for
two sentences in stdout and stderr and measures again with larger windows. genai-perf 0.0.16 reads the export.
"""

import csv
import json
from pathlib import Path

import pytest

from tests.support.commands import call

pytestmark = pytest.mark.live

READ_BY_MODEL_ANALYZER = (
    "Avg latency", "p90 latency", "p95 latency", "p99 latency", "Inferences/Second", "request/response",
    "response wait", "Server Queue", "Server Compute Infer", "Server Compute Input", "Server Compute Output",
    "Avg GPU Utilization", "Avg GPU Power Usage", "Max GPU Memory Usage", "Total GPU Memory",
)  # fmt: skip


def model_analyzer_line(triton, *load: str) -> tuple[str, ...]:
    return (
        *("-m", "simple", "-b", "1", "-u", triton.grpc_address, "-i", "grpc", "-f", "simple-results.csv"),
        *("--verbose-csv", *load, "--collect-metrics"),
        *("--metrics-url", f"http://{triton.metrics_address}/metrics", "--metrics-interval", "1000"),
    )


def test_model_analyzer_finds_its_figures(triton, tmp_path: Path) -> None:
    load = ("--concurrency-range", "2", "--measurement-mode", "count_windows", "-s", "9999")
    done = call("perf_analyzer", *model_analyzer_line(triton, *load), folder=tmp_path)
    assert done.code == 0, done.stdout + done.stderr
    with (tmp_path / "simple-results.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert set(READ_BY_MODEL_ANALYZER) <= set(row)
    for name in READ_BY_MODEL_ANALYZER[:11]:
        assert float(row[name]) >= 0
    for name in READ_BY_MODEL_ANALYZER[11:]:  # UUID:value;UUID:value; or nothing, where there is no GPU
        assert all(len(part.split(":")) == 2 for part in row[name].rstrip(";").split(";") if part)


def test_model_analyzer_retries_with_a_larger_window(triton, tmp_path: Path) -> None:
    load = ("--concurrency-range", "1", "--measurement-mode", "count_windows", "-s", "0", "-r", "3")
    done = call("perf_analyzer", *model_analyzer_line(triton, *load), folder=tmp_path)
    assert done.code == 2
    assert "Failed to obtain stable measurement" in done.stdout + done.stderr
    assert not (tmp_path / "simple-results.csv").exists()


def test_genai_perf_reads_every_answer_of_a_stream(triton, tmp_path: Path) -> None:
    """Its steps name their model; between two answers of a request it divides by the time."""
    many = {"content": [7] * 30, "shape": [30]}
    step = {"model": "repeat", "IN": many, "DELAY": {"content": [0] * 30, "shape": [30]}, "WAIT": [0]}
    (tmp_path / "inputs.json").write_text(json.dumps({"data": [step]}))
    done = call(
        "perf_analyzer",
        *("-m", "repeat", "--async", "--warmup-request-count", "3", "--stability-percentage", "999999"),
        *("--request-count", "20", "-i", "grpc", "--streaming", "-u", triton.grpc_address),
        *("--concurrency-range", "2", "--service-kind", "triton", "--input-data", "inputs.json"),
        *("--profile-export-file", "profile_export.json"),
        folder=tmp_path,
    )
    assert done.code == 0, done.stdout + done.stderr
    document = json.loads((tmp_path / "profile_export.json").read_text())
    assert (document["service_kind"], document["endpoint"]) == ("triton", "")
    (experiment,) = document["experiments"]
    assert (experiment["experiment"]["mode"], str(experiment["experiment"]["value"])) == ("concurrency", "2")
    assert len(experiment["requests"]) == 20
    for request in experiment["requests"]:
        first, *_, last = request["response_timestamps"]
        gap_ns = round((last - first) / 30)
        assert 1 / gap_ns > 0
        assert [row["OUT"] for row in request["response_outputs"]] == [7] * 30 + [""]
