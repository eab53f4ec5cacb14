"""`--collect-metrics` and the trace options against the real Triton."""

import http.client
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from inferometer import api
from inferometer.dialects.perf_analyzer import main as perf_analyzer
from inferometer.server.embedded import EmbeddedTriton
from inferometer.stats.watcher import Watcher

pytestmark = pytest.mark.live

DEADLINE_S = 60
HEADINGS = """\
  Server Prometheus Metrics:·
    Avg GPU Utilization:
    Avg GPU Power Usage:
    Max GPU Memory Usage:
    Total GPU Memory:
Inferences/Second""".replace("·", " ")


@pytest.fixture
def classic(capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def call(*words: str) -> tuple[int, str, str]:
        code = perf_analyzer.main(list(words))
        return code, *capfd.readouterr()

    return call


def test_a_server_without_gpus_has_headings_and_warnings(triton: EmbeddedTriton, classic: Callable) -> None:
    code, stdout, stderr = classic(
        *("-m", "simple", "-u", triton.http_address, "--request-count", "20"),
        *("--collect-metrics", "--metrics-url", f"{triton.metrics_address}/metrics"),
    )
    assert code == 0, stderr
    if "GPU-" not in stdout:
        assert HEADINGS in stdout
        assert stderr.count("WARNING: Unable to parse 'nv_gpu_") == 4


def test_cpu_memory_queues_and_this_host_are_in_the_result(triton: EmbeddedTriton) -> None:
    # Triton looks at its host every two seconds; three windows of one second see at least one such look.
    result = api.measure(
        "simple",
        url=triton.http_address,
        concurrency=4,
        duration_s=None,
        measurement_interval_ms=1000,
        stability_percentage=1e6,
        collect_metrics=True,
        metrics_url=f"http://{triton.metrics_address}/metrics",
        metrics_interval_ms=100,
    )
    found = result.levels[0].measurement
    assert found is not None
    metrics = found.metrics
    assert metrics is not None
    assert metrics.polls > 1
    assert metrics.cpu_share is not None
    assert 0 <= metrics.cpu_share <= 1
    assert metrics.memory_used_bytes is not None
    assert metrics.memory_total_bytes is not None
    assert 0 < metrics.memory_used_bytes <= metrics.memory_total_bytes
    (queue,) = [row for row in metrics.queues if row.model == "simple"]
    assert queue.requests is not None
    assert queue.requests > 0
    assert queue.queue_us is not None
    assert queue.pending_max is not None
    assert queue.pending_max <= 4
    assert metrics.host is not None
    assert metrics.host.cpu_share is not None
    assert 0 < metrics.host.cpu_share <= 1


def test_the_inference_port_has_no_metrics(triton: EmbeddedTriton, classic: Callable) -> None:
    code, _, stderr = classic(
        *("-m", "simple", "-u", triton.http_address, "--collect-metrics"),
        *("--metrics-url", f"{triton.http_address}/metrics"),
    )
    assert code == 99
    assert "Metrics endpoint curling did not succeed." in stderr


# --- trace settings

TRACE: dict[str, Any] = {
    "trace_level": "TIMESTAMPS",
    "trace_rate": "10",
    "trace_count": 5000,
    "log_frequency": 3,
}


@pytest.fixture(scope="module")
def tracing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EmbeddedTriton, Path]]:
    folder = tmp_path_factory.mktemp("traces")
    config = (
        *("--trace-config", f"triton,file={folder / 'trace.json'}"),
        *("--disable-auto-complete-config", "--exit-timeout-secs", "0"),
    )
    with EmbeddedTriton(load_models=("simple",), extra_args=config) as server:
        yield server, folder


def trace_settings(server: EmbeddedTriton) -> dict[str, Any]:
    connection = http.client.HTTPConnection(server.http_address, timeout=DEADLINE_S)
    try:
        connection.request("GET", "/v2/trace/setting")
        document: dict[str, Any] = json.loads(connection.getresponse().read())
        return document
    finally:
        connection.close()


class Spy(Watcher):
    """Reads the server's settings when a level starts, and may break the run there."""

    def __init__(self, server: EmbeddedTriton, error: BaseException | None = None) -> None:
        self._server = server
        self._error = error
        self.seen: dict[str, Any] = {}

    def level_started(self, mode: str, value: float) -> None:
        self.seen = trace_settings(self._server)
        if self._error is not None:
            raise self._error


def address(server: EmbeddedTriton, protocol: str) -> dict[str, Any]:
    return {"url": server.http_address if protocol == "http" else server.grpc_address, "protocol": protocol}


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_trace_settings_hold_while_measuring_and_not_after(
    protocol: str, tracing: tuple[EmbeddedTriton, Path]
) -> None:
    server, folder = tracing
    before, spy = trace_settings(server), Spy(server)
    for file in folder.iterdir():
        file.unlink()
    api.measure(
        "simple", **address(server, protocol), request_count=100, duration_s=None, watcher=spy, **TRACE
    )
    assert spy.seen == before | {
        "trace_level": ["TIMESTAMPS"],
        "trace_rate": "10",
        "trace_count": "5000",
        "log_frequency": "3",
    }
    assert trace_settings(server) == before
    assert any(folder.iterdir())


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_trace_settings_are_put_back_after_ctrl_c(
    protocol: str, tracing: tuple[EmbeddedTriton, Path]
) -> None:
    server, _ = tracing
    before, spy = trace_settings(server), Spy(server, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        api.measure("simple", **address(server, protocol), watcher=spy, **TRACE)
    assert spy.seen["trace_level"] == ["TIMESTAMPS"]
    assert trace_settings(server) == before


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_value_triton_cannot_take_is_refused(
    protocol: str, tracing: tuple[EmbeddedTriton, Path], classic: Callable
) -> None:
    server, _ = tracing
    before = trace_settings(server)
    words = ("-m", "simple", "-u", address(server, protocol)["url"], "-i", protocol)
    code, _, stderr = classic(*words, "--trace-level", "TIMESTAMPS", "--trace-rate", "often")
    assert code == 99
    assert "trace_rate=often" in stderr
    assert trace_settings(server) == before


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_the_error_says_how_to_start_triton_with_a_trace_file(
    protocol: str, triton: EmbeddedTriton, classic: Callable
) -> None:
    words = ("-m", "simple", "-u", address(triton, protocol)["url"], "-i", protocol)
    code, _, stderr = classic(*words, "--trace-level", "TIMESTAMPS")
    assert code == 99
    assert "the server refuses the trace settings trace_level=TIMESTAMPS" in stderr
    assert "start Triton with --trace-config triton,file=" in stderr
