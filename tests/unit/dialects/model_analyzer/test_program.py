"""External load generators: command line, table and failures."""

import pytest

from inferometer.dialects.model_analyzer.load_generator import read_table, window_flags
from inferometer.tune.meter import TrialError
from tests.unit.dialects.model_analyzer.analyzer import BOUNDED


def test_the_program_gets_the_classic_options(tool, stub):
    yaml = {
        "perf_analyzer_flags": {
            "shape": ["IN:64", "B:2"],
            "streaming": True,
            "input-data": "a b.json",
            "percentile": 95,
        }
    }
    words = ("--perf-analyzer-path", stub.path, "--run-config-search-disable", "-c", "2")
    assert tool.profile(*words, yaml=yaml) == 0
    (command,) = stub.commands
    assert command[:10] == ["-m", "W", "-b", "1", "-u", "127.0.0.1:2", "-i", "grpc", "-f", command[9]]
    assert command[10:] == [
        "--verbose-csv",
        "--concurrency-range",
        "2",
        "--percentile",
        "95",
        "--input-data",
        "a b.json",
        "--shape",
        "IN:64",
        "--shape",
        "B:2",
        "--measurement-mode",
        "count_windows",
        "--streaming",
        "--collect-metrics",
        "--metrics-url",
        "http://127.0.0.1:3/metrics",
        "--metrics-interval",
        "1000",
    ]
    row = tool.rows()[0]
    assert (row["Throughput (infer/sec)"], row["p99 Latency (ms)"]) == ("200.0", "4.0")


def test_without_a_server_the_program_loads_the_variants(tool, stub, tmp_path):
    library = tmp_path / "triton" / "lib" / "libtritonserver.so"
    library.parent.mkdir(parents=True)
    library.touch()
    place = ("--triton-launch-mode", "c_api", "--triton-install-path", library.parents[1])
    words = ("--perf-analyzer-path", stub.path, "--run-config-search-disable", "-c", "2", *place)
    assert tool.profile(*words) == 0
    (command,) = stub.commands
    assert command[:6] == ["-m", "W_config_default", "-b", "1", "-f", command[5]]
    assert command[6:] == [
        "--verbose-csv",
        "--service-kind",
        "triton_c_api",
        "--concurrency-range",
        "2",
        "--measurement-mode",
        "count_windows",
        "--triton-server-directory",
        str(library.parents[1]),
        "--model-repository",
        "output_model_repository",
    ]


def test_user_flags_take_precedence(tool, stub):
    yaml = {
        "perf_analyzer_flags": {
            "measurement-mode": "time_windows",
            "measurement-interval": 700,
            "batch-size": 4,
        }
    }
    assert tool.profile("--perf-analyzer-path", stub.path, "--run-config-search-disable", yaml=yaml) == 0
    assert stub.given("--measurement-mode") == ["time_windows"]
    assert stub.given("--measurement-interval") == ["700"]
    assert stub.given("-b") == ["4"]


def test_brute_starts_the_program_once_for_each_load(tool, stub):
    assert tool.profile("--perf-analyzer-path", stub.path, *BOUNDED[:3], "1", *BOUNDED[4:5], "1") == 0
    assert stub.given("--concurrency-range") == ["1", "2", "4", "8"] * 2
    assert len(tool.rows()) == 8
    again = ("--override-output-model-repository", "--monitoring-interval", "0.5")
    assert tool.profile("--perf-analyzer-path", stub.path, *BOUNDED[:3], "1", *BOUNDED[4:5], "1", *again) == 0
    assert len(stub.commands) == 8


def test_request_rates_are_passed_on(tool, stub):
    words = ("--request-rate", "64,128", "--run-config-search-disable")
    assert tool.profile("--perf-analyzer-path", stub.path, *words) == 0
    assert stub.given("--request-rate-range") == ["64", "128"]
    assert stub.given("--concurrency-range") == []


def test_composing_models_are_named(tool, stub):
    words = ("--bls-composing-models", "A", *BOUNDED)
    assert tool.profile("--perf-analyzer-path", stub.path, *words, models="L") == 0
    assert set(stub.given("--bls-composing-models")) == {"A"}


def test_a_program_that_always_fails_ends_the_run(tool, stub, monkeypatch, capsys):
    monkeypatch.setenv("STUB_FAILS", "1 2 4 8")
    assert tool.profile("--perf-analyzer-path", stub.path, *BOUNDED) == 1
    assert "first 2 attempts" in capsys.readouterr().err


def test_a_program_that_fails_once_skips_that_load(tool, stub, monkeypatch, capsys):
    monkeypatch.setenv("STUB_FAILS", "4")
    assert tool.profile("--perf-analyzer-path", stub.path, "-c", "1,2,4", "--run-config-search-disable") == 0
    assert [row["Concurrency"] for row in tool.rows()] == ["2", "1"]
    log = (tool.folder / "perf_analyzer_error.log").read_text()
    assert log.count("Command: ") == log.count("Error: ") == 1
    assert "--concurrency-range 4" in log
    assert "cannot do it" in log
    out = capsys.readouterr().out
    assert "ended with exit code 99" in out
    assert "WARNING: 1 run(s) failed: see perf_analyzer_error.log" in out


@pytest.mark.parametrize(
    ("flags", "name", "sizes"),
    [
        ({}, "measurement-request-count", (None, 100, 150)),
        ({"measurement-mode": "time_windows"}, "measurement-interval", (None, 6000, 7000)),
        ({"measurement-request-count": 70}, "measurement-request-count", (None, 120, 170)),
    ],
)
def test_windows_grow_when_they_were_too_small(flags, name, sizes):
    assert tuple(window_flags(flags, start).get(name) for start in range(3)) == sizes


def test_a_user_defined_window_grows_too(tool, stub, monkeypatch):
    monkeypatch.setenv("STUB_UNSTABLE", "2")
    yaml = {"perf_analyzer_flags": {"measurement-mode": "time_windows", "measurement-interval": 700}}
    words = ("--perf-analyzer-path", stub.path, "--run-config-search-disable", "-c", "2")
    assert tool.profile(*words, yaml=yaml) == 0
    assert stub.given("--measurement-interval") == ["700", "1700", "2700"]


def test_figures_are_rounded_as_in_the_table():
    figures, _ = read_table("Concurrency,Inferences/Second,p99 latency\n6,1333.33,5850\n")
    assert figures.get("perf_latency_p99") == 5.85  # exactly, or it would round up


def test_the_table_is_read_in_the_tuners_units():
    text = (
        "Concurrency,Inferences/Second,p99 latency,Avg GPU Utilization,Max GPU Memory Usage,Total GPU Memory\n"
        "1,50,2000,GPU-a:0.5;GPU-b:0.25;,GPU-a:1000000;,GPU-a:4000000;\n"
        "2,100,4000,GPU-a:0.5;GPU-b:0.25;,GPU-a:1000000;,GPU-a:4000000;\n"
    )
    figures, gpus = read_table(text)
    assert (figures.get("perf_throughput"), figures.get("perf_latency_p99")) == (100.0, 4.0)
    assert figures.get("perf_latency_avg") is None
    found = dict(gpus)
    assert (found["GPU-a"].get("gpu_utilization"), found["GPU-a"].get("gpu_free_memory")) == (50.0, 3.0)
    assert found["GPU-b"].get("gpu_used_memory") is None


@pytest.mark.parametrize("text", ["", "Concurrency\n", "Concurrency\n1\n"])
def test_a_table_without_figures_is_a_failed_run(text):
    with pytest.raises(TrialError):
        read_table(text)
