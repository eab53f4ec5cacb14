"""`--collect-metrics` and the trace options against scripted servers."""

import json
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.servers import Act, FakeTriton, Request, answer, answer_json

DEADLINE_S = 60.0
TWO_GPUS = """\
# HELP nv_gpu_utilization GPU utilization rate [0.0 - 1.0)
# TYPE nv_gpu_utilization gauge
nv_gpu_utilization{gpu_uuid="GPU-bbb"} 0.25
nv_gpu_utilization{gpu_uuid="GPU-aaa"} 0.196154
nv_gpu_power_usage{gpu_uuid="GPU-aaa"} 55.3
nv_gpu_power_usage{gpu_uuid="GPU-bbb"} 123.457
nv_gpu_memory_used_bytes{gpu_uuid="GPU-aaa"} 1000000026
nv_gpu_memory_used_bytes{gpu_uuid="GPU-bbb"} 2097152
nv_gpu_memory_total_bytes{gpu_uuid="GPU-aaa"} 50000000000
nv_gpu_memory_total_bytes{gpu_uuid="GPU-bbb"} 50000000000
"""
NO_GPU = "first 1\nnv_cpu_utilization 0.5\nnv_cpu_memory_total_bytes 2e9\nnv_cpu_memory_used_bytes 1e9\n"
WARNINGS = [
    f"WARNING: Unable to parse 'nv_gpu_{name}' metric."
    for name in ("utilization", "power_usage", "memory_used_bytes", "memory_total_bytes")
]
BLOCK = """\
    Avg GPU Utilization:
      GPU-aaa : 19.6154%
      GPU-bbb : 25%
    Avg GPU Power Usage:
      GPU-aaa : 55.3 watts
      GPU-bbb : 123.457 watts
    Max GPU Memory Usage:
      GPU-aaa : 1000000026 bytes
      GPU-bbb : 2097152 bytes
    Total GPU Memory:
      GPU-aaa : 50000000000 bytes
      GPU-bbb : 50000000000 bytes
"""


class Metrics:
    """A metrics endpoint: the answers one after another, the last for ever."""

    def __init__(self, *answers: Act) -> None:
        self._answers = list(answers)

    def __call__(self, request: Request) -> Act | None:
        if request.path != "/metrics":
            return None
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def collecting(fake: FakeTriton, *words: str) -> tuple[str, ...]:
    url = f"http://{fake.server.address}/metrics"
    return ("-m", "fake", "-u", fake.server.address, "--collect-metrics", "--metrics-url", url, *words)


def test_gpus_are_in_the_report_and_in_the_verbose_csv(run: Callable, tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    with FakeTriton(control=Metrics(answer(TWO_GPUS.encode()))) as fake:
        words = collecting(fake, "--request-count", "20", "-f", str(path), "--verbose-csv")
        ended = run("perf_analyzer", *words)
    assert ended.code == 0, ended.stderr
    assert "\n  Server Prometheus Metrics: \n" + BLOCK in ended.stdout
    assert "Unable to parse" not in ended.stderr
    header, row = path.read_text().splitlines()
    assert header.endswith(",Avg GPU Utilization,Avg GPU Power Usage,Max GPU Memory Usage,Total GPU Memory")
    assert row.endswith(
        ",GPU-aaa:0.196154;GPU-bbb:0.25;,GPU-aaa:55.3;GPU-bbb:123.457;,GPU-aaa:1000000026;GPU-bbb:2097152;,"
        "GPU-aaa:50000000000;GPU-bbb:50000000000;"
    )


def test_without_gpus_there_are_headings_and_each_warning_once(run: Callable) -> None:
    with FakeTriton(control=Metrics(answer(NO_GPU.encode()))) as fake:
        words = collecting(fake, "-p", "50", "-s", "9999", "--concurrency-range", "1:2")
        ended = run("perf_analyzer", *words, "--metrics-interval", "5")
    assert ended.code == 0, ended.stderr
    headings = "\n".join(line for line in BLOCK.splitlines() if "GPU-" not in line)
    assert ended.stdout.count("  Server Prometheus Metrics: \n" + headings) == 2
    assert [line for line in ended.stderr.splitlines() if "parse" in line] == WARNINGS


def test_too_many_gpus_point_to_the_csv(run: Callable) -> None:
    text = "\n".join(f'nv_gpu_utilization{{gpu_uuid="GPU-{number}"}} 0.5' for number in range(17))
    with FakeTriton(control=Metrics(answer(text.encode()))) as fake:
        ended = run("perf_analyzer", *collecting(fake, "--request-count", "5"))
    assert ended.code == 0, ended.stderr
    assert "Too many GPUs on system to print out individual Prometheus metrics, use the CSV" in ended.stdout
    assert "GPU-1" not in ended.stdout


def test_an_unreachable_metrics_endpoint_ends_the_run_before_any_load(run: Callable) -> None:
    with FakeTriton() as fake:
        words = ("-m", "fake", "-u", fake.server.address, "--collect-metrics")
        ended = run("perf_analyzer", *words, "--metrics-url", "127.0.0.1:1/metrics")
    assert ended.code == 99
    assert "Unable to connect to Metrics endpoint URL" in ended.stderr
    assert "127.0.0.1:1/metrics" in ended.stderr
    assert fake.inferences == []


@pytest.mark.parametrize("status", [404, 500])
def test_a_status_other_than_200_ends_the_run_before_any_load(status: int, run: Callable) -> None:
    with FakeTriton(control=Metrics(answer(b"no", status))) as fake:
        ended = run("perf_analyzer", *collecting(fake))
    assert ended.code == 99
    assert "Metrics endpoint curling did not succeed." in ended.stderr
    assert fake.inferences == []


def test_an_endpoint_that_breaks_later_is_said_and_the_run_goes_on(run: Callable) -> None:
    with FakeTriton(control=Metrics(answer(TWO_GPUS.encode()), answer(b"", 503))) as fake:
        ended = run("perf_analyzer", *collecting(fake, "--request-count", "20"))
    assert ended.code == 0, ended.stderr
    assert "WARNING: the server's metrics could not be read" in ended.stderr
    assert "Request count: 20" in ended.stdout
    assert "  Server Prometheus Metrics: \n    Avg GPU Utilization:\n    Avg GPU Power" in ended.stdout


def test_headers_reach_the_metrics_of_the_same_host_and_no_other(run: Callable) -> None:
    with FakeTriton(control=Metrics(answer(TWO_GPUS.encode()))) as fake:
        words = ("--request-count", "2", "-H", "Authorization:Bearer abc")
        assert run("perf_analyzer", *collecting(fake, *words)).code == 0
        same = [request for request in fake.server.requests if request.path == "/metrics"]
        other = ("--metrics-url", f"localhost:{fake.server.port}/metrics")
        assert run("perf_analyzer", *collecting(fake, *words, *other)).code == 0
        all_of_them = [request for request in fake.server.requests if request.path == "/metrics"]
    assert {request.header("Authorization") for request in same} == {"Bearer abc"}
    assert {request.header("Authorization") for request in all_of_them[len(same) :]} == {None}


def test_the_looks_end_with_the_run(run: Callable) -> None:
    with FakeTriton(control=Metrics(answer(NO_GPU.encode()))) as fake:
        run("perf_analyzer", *collecting(fake, "--request-count", "5", "--metrics-interval", "1"))
        assert "server metrics" not in [thread.name for thread in threading.enumerate()]


def test_people_and_the_result_file_get_cpu_and_memory(run: Callable, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    with FakeTriton(control=Metrics(answer(NO_GPU.encode()))) as fake:
        words = collecting(fake, "--request-count", "5", "--json", str(path))
        ended = run("inferometer", "measure", *words)
    assert ended.code == 0, ended.stderr
    assert "CPU 50 %, memory 0.93 of 1.86 GiB" in ended.stdout
    assert "This host: " in ended.stdout
    assert "Unable to parse" not in ended.stderr
    metrics = json.loads(path.read_text())["levels"][0]["measurement"]["metrics"]
    assert metrics["polls"] >= 1
    assert (metrics["cpu_share"], metrics["memory_used_bytes"]) == (0.5, 10**9)
    assert metrics["host"]["memory_used_bytes"] > 0


# --- trace settings

USUAL = {
    "trace_level": ["OFF"],
    "trace_rate": "1000",
    "trace_count": "-1",
    "log_frequency": "0",
    "trace_file": "t.json",
    "trace_mode": "triton",
}
TRACED = ("--trace-level", "TIMESTAMPS", "--trace-rate", "10")


class Traces:
    """A trace endpoint with a memory."""

    def __init__(self, refusal: Act | None = None, **settings: str) -> None:
        self.now = {**USUAL, **settings}
        self._refusal = refusal

    def __call__(self, request: Request) -> Act | None:
        if request.path != "/v2/trace/setting":
            return None
        if request.method == "POST":
            if self._refusal is not None:
                return self._refusal
            self.now |= json.loads(request.body)
        return answer_json(self.now)


def changes(fake: FakeTriton) -> list[dict]:
    requests = [request for request in fake.server.requests if request.path == "/v2/trace/setting"]
    return [json.loads(request.body) for request in requests if request.method == "POST"]


def test_trace_settings_are_sent_before_the_first_inference_and_put_back(run: Callable) -> None:
    traces = Traces()
    with FakeTriton(control=traces) as fake:
        words = ("-m", "fake", "-u", fake.server.address, "--request-count", "5", *TRACED)
        ended = run("perf_analyzer", *words, "--trace-count", "7", "--log-frequency", "3")
    assert ended.code == 0, ended.stderr
    assert changes(fake) == [
        {"trace_level": ["TIMESTAMPS"], "trace_rate": "10", "trace_count": "7", "log_frequency": "3"},
        {"trace_level": ["OFF"], "trace_rate": "1000", "trace_count": "-1", "log_frequency": "0"},
    ]
    assert traces.now == USUAL
    order = [
        "infer" if request.path.endswith("/infer") else request.method
        for request in fake.server.requests
        if request.path.endswith("/infer") or request.path == "/v2/trace/setting"
    ]
    assert order[:3] == ["GET", "POST", "infer"]
    assert order[-1] == "POST"


def test_without_trace_options_the_server_is_not_queried(run: Callable) -> None:
    with FakeTriton() as fake:
        run("perf_analyzer", "-m", "fake", "-u", fake.server.address, "--request-count", "5")
    assert not any("trace" in request.path for request in fake.server.requests)


def test_the_error_says_how_to_start_a_server_that_allows_tracing(run: Callable) -> None:
    words = "Attempting to set invalid trace setting :trace file name is not given"
    with FakeTriton(control=Traces(answer_json({"error": words}, 400), trace_file="")) as fake:
        ended = run("perf_analyzer", "-m", "fake", "-u", fake.server.address, *TRACED)
    assert ended.code == 99
    (sentence,) = ended.stderr.splitlines()
    assert "trace_level=TIMESTAMPS, trace_rate=10" in sentence
    assert words in sentence
    assert "start Triton with --trace-config triton,file=" in sentence
    assert fake.inferences == []


def test_a_server_without_trace_settings_says_so(run: Callable) -> None:
    with FakeTriton() as fake:
        ended = run("perf_analyzer", "-m", "fake", "-u", fake.server.address, *TRACED)
    assert ended.code == 99
    assert "the server has no trace settings" in ended.stderr
    assert fake.inferences == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda n: n.name)
def test_trace_settings_are_put_back_after(number: signal.Signals, start: Callable) -> None:
    traces = Traces()
    with FakeTriton(control=traces) as fake:
        process = start("-m", "fake", "-u", fake.server.address, "-p", "500", *TRACED)
        assert fake.wait_for_inferences(10)
        assert traces.now["trace_level"] == ["TIMESTAMPS"]
        process.send_signal(number)
        process.communicate(timeout=DEADLINE_S)
        assert fake.server.wait_for(lambda: len(changes(fake)) == 2, DEADLINE_S)
        assert traces.now == USUAL


def test_trace_settings_are_put_back_after_leaving_at_once(start: Callable) -> None:
    traces = Traces()
    with FakeTriton(control=traces) as fake:
        process = start("-m", "fake", "-u", fake.server.address, "-p", "60000", *TRACED)
        assert fake.wait_for_inferences(10)
        process.send_signal(signal.SIGINT)
        for line in process.stdout:
            if line.startswith("Waiting for in-flight"):
                break
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0
        assert fake.server.wait_for(lambda: len(changes(fake)) == 2, DEADLINE_S)
        assert traces.now == USUAL


def test_trace_settings_are_put_back_when_the_run_breaks(
    run: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces = Traces()

    def broken(*_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("inferometer.dialects.perf_analyzer.main.drop_output", lambda: 141)
    monkeypatch.setattr("inferometer.dialects.perf_analyzer.main._complaints", broken)
    with FakeTriton(control=traces) as fake:
        ended = run("perf_analyzer", "-m", "fake", "-u", fake.server.address, "--request-count", "5", *TRACED)
        assert ended.code == 141
        assert fake.server.wait_for(lambda: len(changes(fake)) == 2, DEADLINE_S)
    assert traces.now == USUAL
