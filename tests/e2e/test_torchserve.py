"""Whole runs against a stub of TorchServe; the real one is in tests/peers."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.support.servers import Act, Request, ScriptedServer, answer, answer_json, never

KIND = ("--service-kind", "torchserve")
COUNTED = ("--request-count", "6")
PHOTO = bytes(range(256))


def stub(act: Act) -> ScriptedServer:
    """Predictions get the act; the health check is TorchServe's."""

    def script(request: Request) -> Act:
        if request.path == "/ping":
            return answer_json({"status": "Healthy"})
        if request.method == "POST" and request.path.startswith("/predictions/resnet50"):
            return act
        return answer_json({"code": 404, "type": "ResourceNotFoundException", "message": "not found"}, 404)

    return ScriptedServer(script)


def management(documents: Mapping[str, object], status: int = 200) -> ScriptedServer:
    return ScriptedServer(lambda request: answer_json(documents.get(request.path, []), status))


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The guide's file, in the folder where the command runs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kitten_small.jpg").write_bytes(PHOTO)
    (tmp_path / "data.json").write_text(json.dumps({"data": [{"TORCHSERVE_INPUT": ["kitten_small.jpg"]}]}))
    return "data.json"


def test_the_command_of_the_guide_sends_the_file_and_prints_the_clients_report(
    run: Callable, data: str
) -> None:
    with stub(answer(b"tabby")) as server:
        ended = run(
            *("perf_analyzer", "-m", "resnet50", *KIND, "-i", "http", "-u", server.address, "-b", "1"),
            *("-p", "100", "-s", "9999", "--input-data", data),
        )
    assert ended.code == 0, ended.stderr
    assert ended.stdout.startswith(" Successfully read data for 1 stream/streams with 1 step/steps.\n")
    assert "  Batch size: 1\n  Service Kind: TORCHSERVE\n" in ended.stdout
    assert "Avg HTTP time: " in ended.stdout
    assert "\nConcurrency: 1, throughput: " in ended.stdout
    assert "  Server: " not in ended.stdout
    sent = server.requests[-1]
    assert (sent.method, sent.path) == ("POST", "/predictions/resnet50")
    assert (sent.header("Content-Type") or "").startswith("multipart/form-data; boundary=")
    assert b'Content-Disposition: form-data; name="data"; filename="kitten_small.jpg"\r\n' in sent.body
    assert b"\r\n\r\n" + PHOTO + b"\r\n--" in sent.body


def test_a_batch_is_refused(run: Callable, data: str) -> None:
    with stub(answer()) as server:
        ended = run(
            *("perf_analyzer", "-m", "resnet50", *KIND, "-u", server.address, "-b", "2", "--input-data", data)
        )
    assert ended.code == 99
    assert "can not specify batch size > 1" in ended.stderr


@pytest.mark.parametrize("status", [201, 404, 503])
def test_any_status_but_200_is_a_failure(status: int, run: Callable, data: str) -> None:
    refusal = answer_json({"code": status, "type": "T", "message": "no worker"}, status)
    with stub(refusal) as server:
        ended = run(
            *("perf_analyzer", "-m", "resnet50", *KIND, "-u", server.address, "--input-data", data, *COUNTED)
        )
    assert ended.code == 99
    assert "Failed request count: 6 (100.00 %)" in ended.stdout
    assert f"inference failed with error code {status}: no worker" in ended.stdout


def test_each_step_of_the_data_is_a_request(run: Callable, data: str, tmp_path: Path) -> None:
    (tmp_path / "other.bin").write_bytes(b"other")
    steps = [
        {"TORCHSERVE_INPUT": ["kitten_small.jpg"]},
        {"TORCHSERVE_INPUT": ["other.bin"]},
        {"data": ["text"]},
    ]
    (tmp_path / data).write_text(json.dumps({"data": steps}))
    with stub(answer()) as server:
        ended = run(
            *(
                "perf_analyzer",
                "-m",
                "resnet50",
                "-x",
                "1.0",
                *KIND,
                "-u",
                server.address,
                "--input-data",
                data,
            ),
            *COUNTED,
        )
    assert ended.code == 0, ended.stderr
    bodies = [request.body for request in server.requests if request.method == "POST"]
    for number, part in enumerate((PHOTO, b"other", b"text")):
        assert b"\r\n\r\n" + part + b"\r\n--" in bodies[number]
    assert server.requests[-1].path == "/predictions/resnet50/1.0"


def test_files_and_bodies_of_the_command_line(run: Callable, data: str) -> None:
    with stub(answer()) as server:
        address = ("-u", server.address, *COUNTED)
        ended = run(
            "inferometer", "measure", "-m", "resnet50", *KIND, "--input", "data=@kitten_small.jpg", *address
        )
        assert ended.code == 0, ended.stderr
        assert PHOTO in server.requests[-1].body
        ended = run("inferometer", "measure", "-m", "resnet50", *KIND, "--body", '{"a": 1}', *address)
        assert ended.code == 0, ended.stderr
    sent = server.requests[-1]
    assert (sent.header("Content-Type"), sent.body) == ("application/json", b'{"a": 1}')


def test_a_worker_that_never_starts_ends_at_the_time_out(run: Callable, data: str) -> None:
    with stub(never) as server:
        ended = run(
            *("perf_analyzer", "-m", "resnet50", *KIND, "-u", server.address, "--input-data", data),
            *("--request-timeout", "100ms", "--request-count", "2"),
        )
    assert ended.code == 99
    assert "Failed request count: 2 (100.00 %)" in ended.stdout


# --- the management API

RESNET = {
    "modelName": "resnet50",
    "modelVersion": "1.0",
    "batchSize": 4,
    "maxBatchDelay": 50,
    "workers": [{"id": "9000", "status": "READY"}, {"id": "9001", "status": "UNLOADING"}],
}


@pytest.mark.parametrize(
    ("documents", "status", "sentence"),
    [
        (
            {"/models/resnet50": [RESNET]},
            200,
            "TorchServe's model 'resnet50' 1.0 has 2 workers, 1 ready, batches of up to 4 within 50 ms.",
        ),
        (
            {"/models/resnet50": [{**RESNET, "batchSize": 1, "workers": []}]},
            200,
            "has 0 workers, 0 ready; requests fail until one is added.",
        ),
        (
            {"/models/resnet50": [{**RESNET, "workers": [{"id": "9000", "status": "UNLOADING"}]}]},
            200,
            "has 1 worker, 0 ready, batches of up to 4 within 50 ms; requests wait until one is ready or "
            "--request-timeout expires.",
        ),
        (
            {
                "/models/resnet50": {
                    "code": 404,
                    "type": "ModelNotFoundException",
                    "message": "Model not found: m",
                }
            },
            404,
            "says: Model not found: m",
        ),
        ({"/models/resnet50": {"code": 400, "type": "InvalidKeyException", "message": "Token"}}, 400, ""),
        ({"/models/resnet50": "nonsense"}, 200, ""),
    ],
)
def test_what_the_management_api_says_is_shown(
    documents, status: int, sentence: str, run: Callable, data: str, tmp_path: Path
) -> None:
    path = tmp_path / "result.json"
    with stub(answer()) as server, management(documents, status) as other:
        ended = run(
            *(
                "inferometer",
                "measure",
                "-m",
                "resnet50",
                *KIND,
                "-u",
                server.address,
                "--body",
                "x",
                *COUNTED,
            ),
            *("--management-url", other.address, "--json", str(path)),
        )
    assert ended.code == 0, ended.stderr
    findings = json.loads(path.read_text())["server"]["findings"]
    assert (sentence in findings[0]) if sentence else findings == []
    assert sentence in ended.stderr


# --- metrics


def counting(server: ScriptedServer) -> ScriptedServer:
    """Says that each prediction of the server took 5 ms, of which 2 ms were queue."""

    def page(request: Request) -> Act:
        count = sum(one.method == "POST" for one in server.requests)
        label = '{model_name="resnet50",model_version="default",hostname="h",}'
        lines = (
            f"ts_inference_requests_total{label} {count}.0",
            f"ts_inference_latency_microseconds{label} {count * 5000.0}",
            f"ts_queue_latency_microseconds{label} {count * 2000.0}",
        )
        return answer("\n".join(lines).encode() if request.path == "/metrics" else b"")

    return ScriptedServer(page)


def test_the_servers_counters_are_in_the_report(run: Callable, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    with stub(answer()) as server, counting(server) as other:
        ended = run(
            *(
                "inferometer",
                "measure",
                "-m",
                "resnet50",
                *KIND,
                "-u",
                server.address,
                "--body",
                "x",
                *COUNTED,
            ),
            *("--collect-metrics", "--metrics-url", other.address, "--json", str(path)),
        )
    assert ended.code == 0, ended.stderr
    (level,) = json.loads(path.read_text())["levels"]
    counters = level["measurement"]["server"]["counters"]
    assert counters["inference_count"] == 6
    assert counters["queue_ns"] == 6 * 2_000_000
    assert counters["compute_infer_ns"] == 6 * 3_000_000


@pytest.mark.parametrize("act", [answer(b""), answer(b"x", status=404)])
def test_missing_metrics_do_not_stop_a_run(act: Act, run: Callable) -> None:
    with stub(answer()) as server, ScriptedServer(lambda request: act) as other:
        ended = run(
            *(
                "inferometer",
                "measure",
                "-m",
                "resnet50",
                *KIND,
                "-u",
                server.address,
                "--body",
                "x",
                *COUNTED,
            ),
            *("--collect-metrics", "--metrics-url", other.address),
        )
    assert ended.code == 0, ended.stderr
    assert (
        f"TorchServe has no metrics at {other.address}: start it with metrics_mode=prometheus" in ended.stderr
    )


# --- what an address is


def test_an_address_alone_takes_the_only_model(run: Callable, data: str) -> None:
    documents = {"/models?limit=100": {"models": [{"modelName": "resnet50", "modelUrl": "resnet50.mar"}]}}
    with stub(answer()) as server, management(documents) as other:
        ended = run(
            *("inferometer", "measure", server.address, "--management-url", other.address, "--body", "x"),
            *("--duration", "200ms"),
        )
    assert ended.code == 0, ended.stderr
    assert "looks like TorchServe, model 'resnet50' (--service-kind torchserve)." in ended.stderr


def test_a_model_that_the_management_api_does_not_list_is_an_error(run: Callable) -> None:
    first = {
        "models": [{"modelName": f"m{number}", "modelUrl": ""} for number in range(100)],
        "nextPageToken": "100",
    }
    last = {"models": [{"modelName": "resnet50", "modelUrl": ""}]}
    documents = {"/models?limit=100": first, "/models?limit=100&nextPageToken=100": last}
    with stub(answer()) as server, management(documents) as other:
        words = (server.address, "--management-url", other.address, "--body", "x", "--duration", "200ms")
        missing = run("inferometer", "measure", *words, "-m", "nobody")
        assert not any(request.method == "POST" for request in server.requests)
        there = run("inferometer", "measure", *words, "-m", "resnet50")
    assert missing.code == 3
    assert "the server has no model 'nobody'; it has m0, m1" in missing.stderr
    assert there.code == 0, there.stderr


def test_the_wrong_kind_is_named(run: Callable) -> None:
    with stub(answer()) as server:
        ended = run("perf_analyzer", "-m", "resnet50", "-u", server.address)
    assert ended.code == 99
    assert "looks like TorchServe: measure it with --service-kind torchserve -i http" in ended.stderr


def test_the_form_that_carries_a_file_is_shown(run: Callable, data: str) -> None:
    words = ("-m", "resnet50", *KIND, "--data", data, "--show-reply")
    with stub(answer(b"tabby")) as server:
        ended = run("inferometer", "measure", server.address, *words)
    assert ended.code == 0, ended.stderr
    assert 'Content-Disposition: form-data; name="data"; filename="kitten_small.jpg"\n' in ended.stdout
    assert "\n<256 bytes: 00 01 02 03 04 05 06 07 ...>\n" in ended.stdout
    assert ended.stdout.endswith("\n\ntabby\n\n")
