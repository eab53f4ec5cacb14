"""MLServer: KServe v2 without configurations, statistics and binary tensors."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from inferometer.server.presets import PRESETS
from tests.peers.conftest import environment

SHORT = ("--duration", "500ms")
PROTOCOLS = ["http", "grpc"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(("model", "batch"), [("addsub", 1), ("addsub", 4), ("upper", 1)])
def test_models_are_measured_from_their_metadata(protocol, model, batch, mlserver, run: Callable) -> None:
    address = getattr(mlserver, protocol)
    ended = run(
        "inferometer", "measure", "-m", model, "-u", address, "-i", protocol, "-b", str(batch), *SHORT
    )
    assert ended.code == 0, ended.stderr + ended.stdout
    assert ended.measurement["failed_count"] == 0
    assert ended.measurement["server"] is None
    _, finding = ended.result["server"]["findings"]  # after what the address looks like
    assert finding.startswith("A plain KServe v2 server (mlserver ")
    assert ("sending JSON" in finding) == (protocol == "http")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_address_alone_lists_the_models(protocol, mlserver, run: Callable) -> None:
    ended = run("inferometer", "measure", getattr(mlserver, protocol), *SHORT)
    assert ended.code == 2
    assert "has 2 models: addsub, upper; name one with -m" in ended.stderr


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_address_and_a_name_are_enough(protocol, mlserver, run: Callable) -> None:
    ended = run("inferometer", "measure", getattr(mlserver, protocol), "-m", "addsub", *SHORT)
    assert ended.code == 0, ended.stderr
    assert ended.result["effective"]["protocol"] == protocol


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_replies_are_compared_with_what_they_should_be(
    protocol, mlserver, run: Callable, tmp_path: Path
) -> None:
    numbers, ones = list(range(16)), [1] * 16
    outputs = {"OUTPUT0": [n + 1 for n in numbers], "OUTPUT1": [n - 1 for n in numbers]}
    data = {"data": [{"INPUT0": numbers, "INPUT1": ones}], "validation_data": [outputs]}
    path = tmp_path / "data.json"
    words = ("-m", "addsub", "-u", getattr(mlserver, protocol), "-i", protocol, "--input-data", str(path))
    path.write_text(json.dumps(data))
    ended = run("perf_analyzer", *words, "--request-count", "20")
    assert ended.code == 0, ended.stderr + ended.stdout
    outputs["OUTPUT1"][3] = 99
    path.write_text(json.dumps(data))
    ended = run("perf_analyzer", *words, "--request-count", "20")
    assert ended.code == 99
    assert "output 'OUTPUT1' at index 3: expected 99, got 2" in ended.stdout


def test_the_classic_report_is_the_clients_only(mlserver, run: Callable) -> None:
    ended = run("perf_analyzer", "-m", "addsub", "-u", mlserver.http, "-p", "200", "-s", "99")
    assert ended.code == 0, ended.stderr
    assert "  Server: " not in ended.stdout
    assert "Concurrency: 1, throughput: " in ended.stdout


def test_another_kind_is_named(mlserver, run: Callable) -> None:
    ended = run("inferometer", "measure", "--service-kind", "openai", "-m", "m", "-u", mlserver.http, *SHORT)
    assert ended.code == 2
    assert "looks like a plain KServe v2 server over HTTP" in ended.stderr


def test_the_settings_of_the_preset_exist() -> None:
    code = (
        "import json; from mlserver.settings import ModelSettings, Settings; "
        "print(json.dumps([list(Settings.model_fields), list(ModelSettings.model_fields)]))"
    )
    found = subprocess.run([environment("mlserver"), "-c", code], capture_output=True, text=True, check=True)
    server, model = json.loads(found.stdout.splitlines()[-1])
    preset = PRESETS["mlserver"]
    for name in (*preset.environment, *(knob.option.rstrip("=") for knob in preset.knobs.values())):
        short = name.removeprefix("MLSERVER_").lower()
        assert short in server or short.removeprefix("model_") in model, name
