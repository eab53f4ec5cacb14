"""Shared memory and JSON tensors against the real Triton: values arrive, and no way out leaves a region behind."""

import http.client
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import psutil
import pytest
from tritonclient.grpc import service_pb2

from inferometer.base.errors import PeerError
from inferometer.model.spec import ModelSpec, Tensor
from inferometer.options.options import Options
from inferometer.server.embedded import EmbeddedTriton
from inferometer.services.discovery import describe_model
from inferometer.services.endpoint import Connection, Endpoint
from inferometer.services.shared_memory import (
    FOLDER,
    OutputPlaces,
    RegionFields,
    Shared,
    layout,
    region_name,
    shared_region,
)
from inferometer.services.triton_grpc import TritonGrpc
from inferometer.services.triton_http import TritonHttp
from tests.support.commands import Ended, call_script, script

pytestmark = pytest.mark.live

DEADLINE_S = 60
SOMEBODY = "somebody"
SHARED = ("--shared-memory", "system")
COUNTED = ("--request-count", "20")


def ask(server: EmbeddedTriton, method: str, path: str, body: bytes | None = None) -> bytes:
    connection = http.client.HTTPConnection(server.http_address, timeout=DEADLINE_S)
    try:
        connection.request(method, path, body)
        reply = connection.getresponse()
        text = reply.read()
    finally:
        connection.close()
    assert reply.status == 200, text
    return text


def registered(server: EmbeddedTriton) -> set[str]:
    return {row["name"] for row in json.loads(ask(server, "GET", "/v2/systemsharedmemory/status"))}


def eventually(condition: Callable[[], object]) -> bool:
    """Whether it comes true; there is nobody to wait for who could tell."""
    end = time.monotonic() + DEADLINE_S
    pause = threading.Event()
    while not condition() and time.monotonic() < end:
        pause.wait(0.02)
    return bool(condition())


@pytest.fixture(scope="module")
def server(triton: EmbeddedTriton) -> Iterator[EmbeddedTriton]:
    """The server, with a region of another tool registered."""
    path = FOLDER / f"{region_name()}_{SOMEBODY}"
    path.write_bytes(bytes(64))
    region = f"/v2/systemsharedmemory/region/{SOMEBODY}"
    try:
        asked = {"key": f"/{path.name}", "offset": 0, "byte_size": 64}
        ask(triton, "POST", f"{region}/register", json.dumps(asked).encode())
        yield triton
        ask(triton, "POST", f"{region}/unregister")
    finally:
        path.unlink()


@pytest.fixture(autouse=True)
def nothing_is_left(server: EmbeddedTriton) -> Iterator[None]:
    """Whatever the test did: only the other tool's region is known."""
    yield
    assert registered(server) == {SOMEBODY}


def left_by(pid: int) -> list[Path]:
    return list(FOLDER.glob(f"inferometer_run_{pid}_*"))


def start(server: EmbeddedTriton, *words: str) -> subprocess.Popen[str]:
    address = server.grpc_address if "grpc" in words else server.http_address
    return subprocess.Popen(
        script("-u", address, *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process: subprocess.Popen[str]) -> Ended:
    stdout, stderr = process.communicate(timeout=DEADLINE_S)
    assert "Traceback" not in stderr, stderr
    assert left_by(process.pid) == []
    return Ended(process.returncode, stdout, stderr)


def call(server: EmbeddedTriton, *words: str) -> Ended:
    address = server.grpc_address if "grpc" in words else server.http_address
    ended = call_script("-u", address, *words)
    assert left_by(ended.pid) == []
    return ended


# --- the classic command line

RUNS = (
    ("HTTP", ("-m", "addsub")),
    ("HTTP, async", ("-m", "addsub", "-a", "--concurrency-range", "4")),
    ("HTTP, a batch", ("-m", "addsub", "-b", "4")),
    ("HTTP, strings", ("-m", "identity_bytes", "--shape", "INPUT0:3")),
    ("gRPC", ("-m", "addsub", "-i", "grpc")),
    ("gRPC, async", ("-m", "simple", "-i", "grpc", "-a", "--concurrency-range", "4")),
    ("gRPC, streaming", ("-m", "simple", "-i", "grpc", "--streaming")),
    (
        "gRPC, decoupled",
        ("-m", "repeat", "-i", "grpc", "--streaming", "-z", "--shape", "IN:3", "--shape", "DELAY:3"),
    ),
)


@pytest.mark.parametrize("words", [row[1] for row in RUNS], ids=[row[0] for row in RUNS])
def test_57_it_runs_and_leaves_nothing(server: EmbeddedTriton, words: tuple[str, ...]):
    ended = call(server, *words, *COUNTED, *SHARED)
    assert ended.code == 0, ended.stderr
    assert "Request count: 20" in ended.stdout


def test_requests_that_fail_leave_nothing(server: EmbeddedTriton):
    ended = call(server, "-m", "fail", *COUNTED, *SHARED)
    assert ended.code == 99
    assert "boom" in ended.stderr


def test_an_output_that_does_not_fit_is_reported(server: EmbeddedTriton):
    words = ("-m", "str", *COUNTED, *SHARED, "--output-shared-memory-size", "10")
    ended = call(server, *words)
    assert ended.code == 99
    assert "output 'OUTPUT0' (10 bytes) should be at least 264 bytes" in ended.stderr


def test_optional_inputs_without_data_are_refused(server: EmbeddedTriton, tmp_path: Path):
    data = tmp_path / "data.json"
    data.write_text(json.dumps({"data": [{"INPUT0": [1]}]}))
    ended = call(server, "-m", "optional", "--input-data", str(data), *SHARED)
    assert ended.code == 99
    assert "does not support optional inputs at this time" in ended.stderr


# --- ways out


def start_and_wait(server: EmbeddedTriton, *words: str) -> subprocess.Popen[str]:
    """A run that has its region registered and a worker."""
    process = start(server, *words, *SHARED, "-p", "100", "-s", "999999", "-r", "1000000")
    assert eventually(lambda: registered(server) > {SOMEBODY} and worker_of(process))
    return process


def worker_of(process: subprocess.Popen[str]) -> psutil.Process | None:
    workers = [
        child
        for child in psutil.Process(process.pid).children()
        if "inferometer.load.worker" in child.cmdline()
    ]
    return workers[0] if workers else None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_signal_leaves_nothing(server: EmbeddedTriton, protocol: str, number: int):
    process = start_and_wait(server, "-m", "addsub", "-i", protocol, "--concurrency-range", "1:1000")
    process.send_signal(number)
    assert finish(process).code == 0


def test_a_worker_that_is_killed_leaves_nothing(server: EmbeddedTriton):
    process = start_and_wait(server, "-m", "addsub", "--concurrency-range", "1:1000")
    worker = worker_of(process)
    assert worker is not None
    worker.kill()
    finish(process)


@pytest.fixture
def slow(tmp_path: Path) -> tuple[str, ...]:
    """A request that the server works on when its sender is long gone."""
    data = tmp_path / "slow.json"
    data.write_text(json.dumps({"data": [{"INPUT0": [1.0]}]}))
    return ("-m", "delay", "--input-data", str(data))


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_run_that_is_killed_leaves_nothing(server: EmbeddedTriton, slow: tuple[str, ...], protocol: str):
    process = start_and_wait(server, *slow, "-i", protocol)
    process.kill()
    finish(process)
    assert eventually(lambda: registered(server) == {SOMEBODY})


def test_a_second_interrupt_leaves_nothing(server: EmbeddedTriton, slow: tuple[str, ...]):
    process = start_and_wait(server, *slow)
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    assert any("Waiting for in-flight" in line for line in process.stdout)
    process.send_signal(signal.SIGINT)
    finish(process)
    assert eventually(lambda: registered(server) == {SOMEBODY})


# --- values

Service = TritonHttp | TritonGrpc


def endpoint(address: str) -> Connection:
    host, _, port = address.rpartition(":")
    return Connection(Endpoint(host, int(port)))


def http_service(server: EmbeddedTriton, options: Options | None = None) -> TritonHttp:
    return TritonHttp(endpoint(server.http_address), options)


def grpc_service(server: EmbeddedTriton) -> TritonGrpc:
    return TritonGrpc(endpoint(server.grpc_address))


def send_http(server: EmbeddedTriton, request: bytes) -> tuple[dict[str, Any], bytes]:
    """The document and the tensors of the reply."""
    head, _, body = request.partition(b"\r\n\r\n")
    line, *fields = head.decode().split("\r\n")
    connection = http.client.HTTPConnection(server.http_address, timeout=DEADLINE_S)
    try:
        connection.request("POST", line.split()[1], body, dict(field.split(": ", 1) for field in fields))
        reply = connection.getresponse()
        text = reply.read()
    finally:
        connection.close()
    assert reply.status == 200, text
    split = int(reply.headers.get("Inference-Header-Content-Length", len(text)))
    return json.loads(text[:split]), text[split:]


def send_grpc(server: EmbeddedTriton, request: bytes) -> "service_pb2.ModelInferResponse":
    with grpc.insecure_channel(server.grpc_address) as channel:
        method = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        return service_pb2.ModelInferResponse.FromString(method(request, timeout=DEADLINE_S))


def whole(name: str, values: Any) -> Tensor:
    array = np.asarray(values, dtype="<i4")
    return Tensor(name, "INT32", (1, array.size), array.tobytes())


def share(model: ModelSpec, steps: list[list[Tensor]], *, are_inline: bool = False) -> Shared:
    outputs = OutputPlaces(batch=1, unknown_size=4096, are_inline=are_inline)
    return Shared("system", layout(model, steps, outputs, region=region_name()), steps)


def in_region(shared: Shared, output: str) -> bytes:
    """What lies where the output goes. The file has no name any more, but our own descriptor of it is there."""
    path, part = f"{FOLDER}/{shared.placement.region} (deleted)", shared.placement.outputs[output]
    for number in os.listdir("/proc/self/fd"):
        link = Path("/proc/self/fd", number)
        if link.is_symlink() and os.readlink(link) == path:
            return os.pread(int(number), part.size, part.offset)
    raise AssertionError("the region has no descriptor")


ADDSUB_STEPS = [
    [whole("INPUT0", range(16)), whole("INPUT1", range(100, 116))],
    [whole("INPUT0", range(0, 160, 10)), whole("INPUT1", [7] * 16)],
]


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_inputs_are_read_and_outputs_written_where_the_request_says(server: EmbeddedTriton, protocol: str):
    service: Service = http_service(server) if protocol == "http" else grpc_service(server)
    model = describe_model(service, "addsub", "", ())
    shared = share(model, ADDSUB_STEPS)
    requests = service.traffic(model, ADDSUB_STEPS, shared.placement).requests
    with shared_region(shared, service):
        for request, step in zip(requests, ADDSUB_STEPS, strict=True):
            if protocol == "http":
                _, data = send_http(server, request)
                assert data == b""
            else:
                assert list(send_grpc(server, request).raw_output_contents) in ([], [b"", b""])
            first, second = (np.frombuffer(tensor.data, dtype="<i4") for tensor in step)
            found = [np.frombuffer(in_region(shared, name), dtype="<i4") for name in ("OUTPUT0", "OUTPUT1")]
            assert sorted(map(tuple, found)) == sorted([tuple(first - second), tuple(first + second)])


def test_outputs_that_are_read_come_back_in_the_reply(server: EmbeddedTriton):
    service = http_service(server)
    model = describe_model(service, "addsub", "", ())
    shared = share(model, ADDSUB_STEPS, are_inline=True)
    request, *_ = service.traffic(model, ADDSUB_STEPS, shared.placement).requests
    with shared_region(shared, service):
        _, data = send_http(server, request)
    assert len(data) == 2 * 64


class Elsewhere(TritonHttp):
    """The way to a server in a container of its own: what we make it does not see."""

    def register_memory(self, kind: str, region: str, fields: RegionFields) -> None:
        super().register_memory(kind, region, {**fields, "key": f"{fields['key']}_elsewhere"})


def test_the_error_says_how_to_start_a_server_that_sees_the_region(server: EmbeddedTriton):
    service = Elsewhere(endpoint(server.http_address))
    model = describe_model(service, "addsub", "", ())
    with pytest.raises(PeerError) as caught, shared_region(share(model, ADDSUB_STEPS), service):
        raise AssertionError
    assert "Unable to open shared memory region" in caught.value.message
    assert "--ipc=host" in caught.value.remedy


# --- formats

FORMATS = (
    ("--input-tensor-format", "json"),
    ("--output-tensor-format", "json"),
    ("--input-tensor-format", "JSON", "--output-tensor-format", "JSON"),
)


@pytest.mark.parametrize("words", FORMATS, ids=" ".join)
def test_58_json_runs(server: EmbeddedTriton, words: tuple[str, ...]):
    ended = call(server, "-m", "addsub", "-b", "2", *COUNTED, *words)
    assert ended.code == 0, ended.stderr
    assert ended.stderr_apart_from_machine == ""


def test_json_strings_run(server: EmbeddedTriton):
    words = ("-m", "identity_bytes", "--shape", "INPUT0:1000", "--string-data", 'ü"\\\n')
    ended = call(server, *words, *COUNTED, *FORMATS[2])
    assert ended.code == 0, ended.stderr


def test_json_tensors_over_grpc_cause_a_warning(server: EmbeddedTriton):
    ended = call(server, "-m", "addsub", "-i", "grpc", *COUNTED, *FORMATS[0])
    assert ended.code == 0
    assert "WARNING: The tensor formats are only for HTTP" in ended.stderr


VALUES = np.array([0.1, -0.0, 1e-45, 3.4e38, np.inf, -np.inf, np.nan], dtype="<f4")


@pytest.mark.parametrize("input_format", ["binary", "json"])
@pytest.mark.parametrize("output_format", ["binary", "json"])
def test_values_arrive_in_every_format(server: EmbeddedTriton, input_format: str, output_format: str):
    service = http_service(server, Options(input_format=input_format, output_format=output_format))
    model = describe_model(service, "identity_fp32", "", ())
    step = [Tensor("INPUT0", "FP32", (1, VALUES.size), VALUES.tobytes())]
    (request,) = service.traffic(model, [step]).requests
    document, data = send_http(server, request)
    if output_format == "json":
        assert data == b""
        data = np.array(document["outputs"][0]["data"], dtype="<f4").tobytes()
    assert data == VALUES.tobytes()
