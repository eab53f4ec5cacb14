"""CUDA shared memory, on a machine with a GPU and a Triton: `python -m pytest gpu_tests`.

Not part of the suite, which must pass everywhere.
"""

import base64
import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from inferometer.server.embedded import EmbeddedTriton
from inferometer.server.repository import example_repository
from inferometer.services.shared_memory import device_memory

DEADLINE_S = 120


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedTriton]:
    with EmbeddedTriton((example_repository(),), load_models=("simple", "identity_fp32")) as triton:
        yield triton


def ask(server: EmbeddedTriton, method: str, path: str, *, body: bytes | None = None) -> bytes:
    connection = http.client.HTTPConnection(server.http_address, timeout=DEADLINE_S)
    try:
        connection.request(method, path, body)
        reply = connection.getresponse()
        text = reply.read()
    finally:
        connection.close()
    assert reply.status == 200, text
    return text


def registered(server: EmbeddedTriton) -> list[str]:
    return [row["name"] for row in json.loads(ask(server, "GET", "/v2/cudasharedmemory/status"))]


def eventually(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + DEADLINE_S
    pause = threading.Event()
    while not condition() and time.monotonic() < end:
        pause.wait(0.02)
    return condition()


@pytest.fixture(autouse=True)
def nothing_is_left(server: EmbeddedTriton) -> Iterator[None]:
    yield
    assert registered(server) == []


def command(server: EmbeddedTriton, *words: str) -> list[str]:
    address = server.grpc_address if "grpc" in words else server.http_address
    return [
        sys.executable,
        "-m",
        "inferometer.dialects.perf_analyzer.main",
        "-u",
        address,
        "--shared-memory",
        "cuda",
        *words,
    ]


def test_the_driver_gives_memory_and_a_handle():
    with device_memory(0, 1 << 20) as memory:
        memory.write(64, b"x" * 1000)
        assert len(memory.handle()) == 64
        assert any(memory.handle())


LARGE = ("-m", "identity_fp32", "--shape", "INPUT0:262144", "--output-shared-memory-size", "1048576")


@pytest.mark.parametrize("way", [(), ("-a",), ("--streaming",)], ids=["sync", "async", "streaming"])
@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("model", [("-m", "simple"), LARGE], ids=["simple", "1 MiB"])
def test_it_runs_and_leaves_nothing(
    server: EmbeddedTriton, model: tuple[str, ...], protocol: str, way: tuple[str, ...]
):
    if way == ("--streaming",) and protocol == "http":
        way = ("-a", "--concurrency-range", "4")
    words = command(server, *model, "-i", protocol, *way, "--request-count", "100")
    done = subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0, done.stderr
    assert "Request count: 100" in done.stdout


def test_a_run_that_is_killed_leaves_nothing(server: EmbeddedTriton):
    words = command(server, "-m", "simple", "-p", "100", "-s", "999", "--concurrency-range", "1:1000")
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert eventually(lambda: registered(server) != [])
    finally:
        process.kill()
        process.wait()
    assert eventually(lambda: registered(server) == [])


@pytest.mark.parametrize("mode", [(), ("--streaming",)], ids=["unary", "streaming"])
def test_values_are_read_where_the_request_says(
    server: EmbeddedTriton, mode: tuple[str, ...], tmp_path: Path
):
    """Replies are compared with what was put into the GPU's memory."""
    rows = [
        {
            "b64": base64.b64encode(np.arange(start, start + 1000, dtype="<f4").tobytes()).decode(),
            "shape": [1000],
        }
        for start in (0, 5000)
    ]
    data = tmp_path / "data.json"
    document = {
        "data": [{"INPUT0": row} for row in rows],
        "validation_data": [{"OUTPUT0": row} for row in rows],
    }
    data.write_text(json.dumps(document))
    words = [
        sys.executable,
        "-m",
        "inferometer.dialects.perf_analyzer.main",
        "-u",
        server.grpc_address,
        "-i",
        "grpc",
        *mode,
    ]
    words += [
        "-m",
        "identity_fp32",
        "--shared-memory",
        "cuda",
        "--input-data",
        str(data),
        "--request-count",
        "50",
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0, done.stderr
    assert "Request count: 50" in done.stdout
