"""The real TorchServe, with a handler that refuses files that did not arrive whole."""

import hashlib
import json
import os
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from inferometer.server.presets import PRESETS
from tests.peers.conftest import DEADLINE_S, HERE, environment

KIND = ("--service-kind", "torchserve")


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The guide's file, naming one of every byte there is."""
    monkeypatch.chdir(tmp_path)
    content = bytes(range(256)) * 20 + b"\r\n--"
    (tmp_path / "kitten_small.jpg").write_bytes(hashlib.sha256(content).digest() + content)
    (tmp_path / "data.json").write_text(json.dumps({"data": [{"TORCHSERVE_INPUT": ["kitten_small.jpg"]}]}))
    return "data.json"


def test_the_command_of_the_guide(torchserve, run: Callable, data: str) -> None:
    ended = run(
        *("perf_analyzer", "-m", "echo", *KIND, "-i", "http", "-u", torchserve.inference, "-b", "1"),
        *("-p", "300", "-s", "9999", "--input-data", data),
    )
    assert ended.code == 0, ended.stderr + ended.stdout
    assert "  Service Kind: TORCHSERVE\n" in ended.stdout
    assert "  Server: " not in ended.stdout
    assert "Concurrency: 1, throughput: " in ended.stdout
    assert ended.measurement["failed_count"] == 0


def test_bytes_that_are_not_whole_are_refused(torchserve, run: Callable, data: str) -> None:
    Path("kitten_small.jpg").write_bytes(bytes(100))
    ended = run(
        *("perf_analyzer", "-m", "echo", *KIND, "-u", torchserve.inference, "--input-data", data),
        *("--request-count", "3"),
    )
    assert ended.code == 99
    assert "inference failed with error code 503: " in ended.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("--input", "data=@kitten_small.jpg"),
        ("--body", "@kitten_small.jpg"),
        ("--body", '{"a": 1}', "-x", "1.0"),
    ],
)
def test_an_address_alone_finds_the_model_and_its_workers(
    words, torchserve, run: Callable, data: str
) -> None:
    ended = run(
        *("inferometer", "measure", torchserve.inference, "-m", "echo", "--duration", "500ms"),
        *("--management-url", torchserve.management, *words),
    )
    assert ended.code == 0, ended.stderr + ended.stdout
    looks, workers = ended.result["server"]["findings"]
    assert "looks like TorchServe, model 'echo'" in looks
    assert workers == "TorchServe's model 'echo' 1.0 has 1 worker, 1 ready."


def test_its_counters_tell_of_the_queue_and_the_inference(torchserve, run: Callable) -> None:
    ended = run(
        *("inferometer", "measure", "-m", "echo", *KIND, "-u", torchserve.inference, "--body", '{"a": 1}'),
        *("--collect-metrics", "--metrics-url", torchserve.metrics, "--request-count", "20"),
    )
    assert ended.code == 0, ended.stderr + ended.stdout
    counters = ended.measurement["server"]["counters"]
    assert counters["inference_count"] == 20
    assert 0 < counters["queue_ns"] < counters["success_ns"]
    assert counters["queue_ns"] + counters["compute_infer_ns"] == counters["success_ns"]


def test_its_models_are_listed(torchserve, run: Callable) -> None:
    words = ("--management-url", torchserve.management, "--body", "a")
    ended = run("inferometer", "measure", torchserve.inference, *words)
    assert ended.code == 2
    assert "has 2 models: broken, echo; name one with -m" in ended.stderr


def test_a_worker_that_cannot_start_ends_at_the_time_out(torchserve, run: Callable, data: str) -> None:
    ended = run(
        *("inferometer", "measure", "-m", "broken", *KIND, "-u", torchserve.inference, "--body", "a"),
        *("--management-url", torchserve.management, "--request-timeout", "300ms", "--request-count", "2"),
    )
    assert ended.code == 1
    assert ended.measurement["failed_count"] == 2
    assert "0 ready; requests wait until one is ready or --request-timeout expires." in ended.stderr


def test_a_model_that_is_not_there(torchserve, run: Callable, data: str) -> None:
    ended = run(
        *("perf_analyzer", "-m", "nobody", *KIND, "-u", torchserve.inference, "--input-data", data),
        *("--request-count", "3"),
    )
    assert ended.code == 99
    assert "inference failed with error code 404: Model not found: nobody" in ended.stdout


def test_another_kind_is_named(torchserve, run: Callable) -> None:
    ended = run("perf_analyzer", "-m", "echo", "-u", torchserve.inference)
    assert ended.code == 99
    assert "looks like TorchServe: measure it with --service-kind torchserve -i http" in ended.stderr


def test_the_settings_of_the_preset_exist() -> None:
    code = "import ts; print(ts.__file__)"
    stub = str(Path(__file__).parent / "torchserve")  # has the name `torch`
    found = subprocess.run(
        [environment("torchserve"), "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": stub},
    )
    (archive,) = (Path(found.stdout.strip()).parent / "frontend").glob("*.jar")
    with zipfile.ZipFile(archive) as jar:
        manager = jar.read("org/pytorch/serve/util/ConfigManager.class")
    for knob in PRESETS["torchserve"].knobs.values():
        assert knob.option.rstrip("=").encode() in manager, knob.option


CONFIG = """\
inference_address=http://127.0.0.1:{port}
management_address=http://127.0.0.1:{port_management}
metrics_address=http://127.0.0.1:{port_metrics}
grpc_inference_port={port_grpc}
grpc_management_port={port_grpc_management}
default_workers_per_model=1
"""


def test_its_workers_are_tuned_without_a_restart(
    run: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    programs = environment("torchserve").parent
    monkeypatch.setenv("PYTHONPATH", str(HERE / "torchserve"))
    words = ("--model-name", "echo", "--version", "1.0", "--handler", HERE / "torchserve" / "echo_handler.py")
    subprocess.run([programs / "torch-model-archiver", *words], check=True, timeout=DEADLINE_S)
    Path("config.properties").write_text(CONFIG)
    command = "--foreground --disable-token-auth --model-store . --models echo.mar --ts-config {config}"
    call = "PUT http://127.0.0.1:{port_management}/models/echo?min_worker={workers}&max_worker={workers}&synchronous=true"
    ended = run(
        *("inferometer", "tune", "--preset", "torchserve", "--serve", f"{programs / 'torchserve'} {command}"),
        *("--serve-file", "config=config.properties", "--serve-env", "TMPDIR={dir}"),
        *("--serve-env", f"PATH={programs}:{os.environ['PATH']}", "--serve-env", "LOG_LOCATION={dir}"),
        *("--vary", "workers=1:3", "--serve-set", call, "-m", "echo", "--body", '{"a": 1}', "-c", "4"),
        *("--search", "brute", "--no-store", "--allow-inconclusive"),
    )
    assert ended.code == 0, ended.stderr + ended.stdout
    trials = ended.result["trials"]
    assert [trial["status"] for trial in trials] == ["measured"] * 3
    assert len(list(Path("inferometer-tune-logs").iterdir())) == 1  # one start
    assert "curl -fsS -X PUT" in ended.stdout
