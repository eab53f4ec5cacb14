"""The embedded server as its users meet it: it starts, serves, says why it cannot, and leaves nothing."""

import http.client
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import inferometer.server.embedded as embedded
from inferometer.base.errors import LocalError, UsageError
from inferometer.server.embedded import EmbeddedTriton
from inferometer.server.ports import Ports, choose_ports
from inferometer.server.repository import example_image, example_repository

pytestmark = pytest.mark.live

QUICK = ("--exit-timeout-secs", "0")
CONFIG = """backend: "python"
max_batch_size: 0
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 1 ] } ]
"""

CRASHING = """import os
import signal
from pathlib import Path


class TritonPythonModel:
    def initialize(self, args):
        left = Path({left!r})
        lines = left.read_text().splitlines()
        left.write_text("\\n".join(lines[1:]))
        if lines:
            os.kill(os.getppid(), signal.SIGABRT)
"""


def eventually(holds: Callable[[], bool], deadline_s: float = 60.0) -> bool:
    """Whether the condition came true before the deadline."""
    end = time.monotonic() + deadline_s
    pause = threading.Event()
    while not holds():
        if time.monotonic() >= end:
            return False
        pause.wait(0.02)
    return True


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of our own for every temporary file, so that what stays behind can be seen."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A repository with one model whose code cannot be imported."""
    version = tmp_path / "repository" / "crooked" / "1"
    version.mkdir(parents=True)
    version.parent.joinpath("config.pbtxt").write_text(CONFIG)
    version.joinpath("model.py").write_text("import a_module_nobody_has\n")
    return version.parents[1]


def shared_memory(owner: int) -> list[Path]:
    return list(Path("/dev/shm").glob(f"inferometer_{owner}_*"))


def family(pid: int) -> list[psutil.Process]:
    server = psutil.Process(pid)
    return [server, *server.children(recursive=True)]


def have_ended(processes: list[psutil.Process]) -> bool:
    """Waits for it: the guard says that it is done a moment before it is gone."""
    _, alive = psutil.wait_procs(processes, timeout=20)
    return all(process.status() == psutil.STATUS_ZOMBIE for process in alive)


def call(
    server: EmbeddedTriton, method: str, path: str, body: bytes = b"", **headers: str
) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(server.http_address, timeout=30)
    try:
        connection.request(
            method, path, body, {name.replace("_", "-"): text for name, text in headers.items()}
        )
        reply = connection.getresponse()
        content = reply.read()
    finally:
        connection.close()
    return reply.status, json.loads(content) if content else None


def infer(server: EmbeddedTriton, model: str, **inputs: tuple[str, list[int], list[Any]]) -> tuple[int, Any]:
    tensors = [
        {"name": name, "datatype": datatype, "shape": shape, "data": data}
        for name, (datatype, shape, data) in inputs.items()
    ]
    return call(server, "POST", f"/v2/models/{model}/infer", json.dumps({"inputs": tensors}).encode())


def outputs(reply: Any) -> dict[str, list[Any]]:
    return {tensor["name"]: tensor["data"] for tensor in reply["outputs"]}


def classify(server: EmbeddedTriton, picture: bytes) -> tuple[int, Any]:
    described = {"name": "INPUT", "datatype": "UINT8", "shape": [len(picture)]}
    header = json.dumps({"inputs": [described | {"parameters": {"binary_data_size": len(picture)}}]}).encode()
    path = "/v2/models/ensemble_image/infer"
    return call(server, "POST", path, header + picture, Inference_Header_Content_Length=str(len(header)))


# --- starting and stopping


def test_a_stopped_server_leaves_nothing(temporary: Path) -> None:
    before = set(shared_memory(os.getpid()))
    models = sorted(example_repository().rglob("*"))
    server = EmbeddedTriton(load_models=("simple",))
    with server:
        processes = family(server.pid)
        assert server.is_running()
        assert len(processes) >= 4  # the server, its guard and a stub for each instance
        assert set(shared_memory(os.getpid())) - before
        assert server.log_path.parent == temporary
    assert not server.is_running()
    assert have_ended(processes)
    assert set(shared_memory(os.getpid())) == before
    assert list(temporary.iterdir()) == []
    assert sorted(example_repository().rglob("*")) == models


def test_a_server_can_be_started_again_and_stopped_twice(temporary: Path) -> None:
    server = EmbeddedTriton(load_models=(), extra_args=QUICK)
    for _ in range(2):
        server.start()
        assert call(server, "GET", "/v2/health/live")[0] == 200
        server.stop()
        server.stop()
    assert list(temporary.iterdir()) == []


def test_a_log_file_that_was_asked_for_is_kept(temporary: Path, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    with EmbeddedTriton(load_models=(), log_file=log, extra_args=QUICK) as server:
        assert server.log_path == log
    assert "Started HTTPService" in log.read_text()


def test_each_address_answers(triton: EmbeddedTriton) -> None:
    addresses = (triton.http_address, triton.grpc_address, triton.metrics_address)
    assert len(set(addresses)) == 3
    for address in addresses:
        host, _, port = address.rpartition(":")
        socket.create_connection((host, int(port)), timeout=10).close()


def test_a_server_killed_from_outside_is_noticed_and_cleaned_up(temporary: Path) -> None:
    before = set(shared_memory(os.getpid()))
    with EmbeddedTriton(load_models=("delay",)) as server:
        processes = family(server.pid)
        os.kill(server.pid, signal.SIGKILL)
        assert server.wait() == -signal.SIGKILL
        assert not server.is_running()
        assert eventually(lambda: have_ended(processes))
    assert set(shared_memory(os.getpid())) == before
    assert [path.suffix for path in temporary.iterdir()] == [".log"]  # it may hold the reason


def test_a_server_started_in_a_thread_outlives_the_thread() -> None:
    server = EmbeddedTriton(load_models=(), extra_args=QUICK)
    thread = threading.Thread(target=server.start)
    thread.start()
    thread.join()
    try:
        assert call(server, "GET", "/v2/health/ready")[0] == 200
    finally:
        server.stop()


OWNER = """
import sys
from inferometer.server.embedded import EmbeddedTriton
with EmbeddedTriton(load_models=("delay",)) as server:
    print(server.pid, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def owner(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another process that owns a server until its standard input ends."""
    environment = os.environ | {
        "TMPDIR": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], stdin=pipe, stdout=pipe, text=True, env=environment
    ) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("fatal", [signal.SIGKILL, signal.SIGTERM])
def test_an_owner_that_dies_takes_its_server_along(
    owner: "subprocess.Popen[str]", tmp_path: Path, fatal: signal.Signals
) -> None:
    assert owner.stdout is not None
    processes = family(int(owner.stdout.readline()))
    assert shared_memory(owner.pid)
    owner.send_signal(fatal)
    owner.wait()
    assert eventually(lambda: have_ended(processes))
    assert shared_memory(owner.pid) == []
    assert list(tmp_path.iterdir()) == []


# --- errors


def test_a_given_port_that_is_in_use_is_named(temporary: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=rf"gRPC port {port} .*is used by another process"):
            EmbeddedTriton(grpc_port=port).start()
    assert list(temporary.iterdir()) == []


def test_a_given_port_lost_after_the_check_is_named(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        free = choose_ports(Ports())
        monkeypatch.setattr(embedded, "choose_ports", lambda wish: Ports(free.http, free.grpc, port))
        with pytest.raises(UsageError, match=rf"metrics port {port} .*is used by another process"):
            EmbeddedTriton(metrics_port=port, load_models=()).start()
    assert list(temporary.iterdir()) == []


def test_a_picked_port_lost_to_another_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        lost = Ports(taken.getsockname()[1], *choose_ports(Ports())[1:])
        picks = iter([lost])
        monkeypatch.setattr(embedded, "choose_ports", lambda wish: next(picks, None) or choose_ports(wish))
        with EmbeddedTriton(load_models=(), extra_args=QUICK) as server:
            assert server.http_address != f"127.0.0.1:{lost.http}"
            assert call(server, "GET", "/v2/health/ready")[0] == 200


def test_a_model_that_cannot_load_is_named_with_its_reason(temporary: Path, broken: Path) -> None:
    with pytest.raises(UsageError) as caught:
        EmbeddedTriton(broken).start()
    assert "'crooked'" in caught.value.message
    assert "No module named 'a_module_nobody_has'" in caught.value.message
    (log,) = temporary.iterdir()
    assert str(log) in caught.value.remedy
    assert "a_module_nobody_has" in log.read_text()


@pytest.mark.parametrize("crashes", [1, 2])
def test_a_server_that_crashes_is_started_once_more(temporary: Path, broken: Path, crashes: int) -> None:
    left = "\n".join(map(str, range(crashes)))
    (broken / "left").write_text(left)
    (broken / "crooked" / "1" / "model.py").write_text(CRASHING.format(left=str(broken / "left")))
    server = EmbeddedTriton(broken, extra_args=QUICK)
    if crashes == 1:
        with server:
            assert server.is_running()
        return
    with pytest.raises(LocalError, match="was killed by SIGABRT instead of starting"):
        server.start()


def test_a_model_that_is_not_there_is_named(temporary: Path) -> None:
    with pytest.raises(UsageError, match="'nonesuch': model not found"):
        EmbeddedTriton(load_models=("nonesuch",)).start()


def test_an_argument_the_server_does_not_know_is_quoted(temporary: Path) -> None:
    with pytest.raises(LocalError, match="unrecognized option '--nonesuch'"):
        EmbeddedTriton(load_models=(), extra_args=("--nonesuch",)).start()


def test_a_server_that_is_not_ready_in_time_is_stopped(temporary: Path, tmp_path: Path) -> None:
    version = tmp_path / "repository" / "endless" / "1"
    version.mkdir(parents=True)
    version.parent.joinpath("config.pbtxt").write_text(CONFIG)
    version.joinpath("model.py").write_text("import threading\nthreading.Event().wait()\n")
    with pytest.raises(LocalError, match="not ready within 1 s"):
        EmbeddedTriton(version.parents[1], startup_timeout_s=1.0, extra_args=QUICK).start()
    assert [path.suffix for path in temporary.iterdir()] == [".log"]


def test_a_log_file_that_cannot_be_written_is_named(temporary: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none/server\.log"):
        EmbeddedTriton(log_file=tmp_path / "none" / "server.log").start()
    assert list(temporary.iterdir()) == []


# --- the models

SIXTEEN = list(range(16))


@pytest.mark.parametrize("model", ["simple", "addsub", "addsub_b", "cached", "nobatch"])
def test_sums_and_differences(triton: EmbeddedTriton, model: str) -> None:
    shape = [16] if model == "nobatch" else [1, 16]
    status, reply = infer(triton, model, INPUT0=("INT32", shape, SIXTEEN), INPUT1=("INT32", shape, [1] * 16))
    total, difference = ("OUTPUT0", "OUTPUT1") if model == "simple" else ("OUTPUT1", "OUTPUT0")
    assert status == 200
    assert outputs(reply) == {total: [n + 1 for n in SIXTEEN], difference: [n - 1 for n in SIXTEEN]}


@pytest.mark.parametrize(
    ("model", "first", "second"),
    [
        ("ens", [-2] * 16, [2 * n for n in SIXTEEN]),
        ("ens_nested", [-2 - 2 * n for n in SIXTEEN], [2 * n - 2 for n in SIXTEEN]),
    ],
)
def test_ensembles(triton: EmbeddedTriton, model: str, first: list[int], second: list[int]) -> None:
    ones = ("INT32", [1, 16], [1] * 16)
    status, reply = infer(triton, model, INPUT0=("INT32", [1, 16], SIXTEEN), INPUT1=ones)
    assert status == 200
    assert outputs(reply) == {"OUTPUT0": first, "OUTPUT1": second}


def test_bls_answers_with_the_difference(triton: EmbeddedTriton) -> None:
    ones = ("INT32", [1, 16], [1] * 16)
    status, reply = infer(triton, "bls", INPUT0=("INT32", [1, 16], SIXTEEN), INPUT1=ones)
    assert (status, outputs(reply)) == (200, {"OUTPUT0": [n - 1 for n in SIXTEEN]})


@pytest.mark.parametrize(
    ("model", "datatype", "shape", "data"),
    [
        ("identity_fp32", "FP32", [2, 3], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        ("identity_bytes", "BYTES", [1, 3], ["a", "", "long " * 100]),
        ("str", "BYTES", [1, 2], ["left", "right"]),
        ("varint", "INT32", [1, 2, 3], [1, 2, 3, 4, 5, 6]),
        ("varstr", "BYTES", [2, 1], ["one", "two"]),
        ("delay", "FP32", [1], [0.0]),
    ],
)
def test_identities(
    triton: EmbeddedTriton, model: str, datatype: str, shape: list[int], data: list[Any]
) -> None:
    status, reply = infer(triton, model, INPUT0=(datatype, shape, data))
    assert status == 200
    assert outputs(reply) == {"OUTPUT0": data}
    assert reply["outputs"][0]["shape"] == shape


def test_fail_fails(triton: EmbeddedTriton) -> None:
    status, reply = infer(triton, "fail", INPUT0=("FP32", [1], [0.0]))
    assert status == 500
    assert "boom" in reply["error"]


def test_optional_takes_either_input(triton: EmbeddedTriton) -> None:
    for inputs in ({"INPUT0": 3}, {"INPUT1": 3}, {"INPUT0": 1, "INPUT1": 2}):
        tensors = {name: ("INT32", [1, 1], [number]) for name, number in inputs.items()}
        status, reply = infer(triton, "optional", **tensors)
        assert (status, outputs(reply)) == (200, {"OUTPUT0": [3]})


@pytest.mark.parametrize("name", ["beaker.jpg", "cup.jpg", "mug.jpg"])
def test_the_ensemble_labels_a_picture(triton: EmbeddedTriton, name: str) -> None:
    status, reply = classify(triton, example_image().with_name(name).read_bytes())
    assert status == 200
    scores, labels = zip(*(line.split(":") for line in outputs(reply)["OUTPUT"]), strict=True)
    shares = [float(score) for score in scores]
    assert shares == sorted(shares, reverse=True)
    assert 0 < sum(shares) <= 1
    assert len(set(labels)) == 5
    known = example_repository().joinpath("postprocessing", "1", "labels.txt").read_text().splitlines()
    assert set(labels) <= set(known)


def test_bytes_that_are_not_a_picture_are_rejected_with_the_reason(triton: EmbeddedTriton) -> None:
    status, reply = classify(triton, struct.pack("<64B", *range(64)))
    assert status == 500
    assert "not a picture" in reply["error"]


@pytest.mark.machine(reason="steps are compared by their duration, which other processes lengthen")
def test_preprocessing_is_the_slowest_step_by_the_servers_own_count(triton: EmbeddedTriton) -> None:
    steps = ("preprocessing", "classifier", "postprocessing")

    def spent(step: str) -> int:
        (statistics,) = call(triton, "GET", f"/v2/models/{step}/stats")[1]["model_stats"]
        return int(statistics["inference_stats"]["compute_infer"]["ns"])

    before = {step: spent(step) for step in steps}
    picture = example_image().read_bytes()
    for _ in range(5):
        assert classify(triton, picture)[0] == 200
    times = {step: spent(step) - before[step] for step in steps}
    assert max(times, key=lambda step: times[step]) == "preprocessing"
