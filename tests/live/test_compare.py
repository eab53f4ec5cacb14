"""`inferometer compare` against the real Triton: the vocoders, planted pauses, and broken variants."""

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inferometer import api
from inferometer.base.answer_file import from_json, read, to_json
from inferometer.cli.main import main
from inferometer.compare.comparison import NO_DIFFERENCE, SLOWER, Comparison
from inferometer.server.embedded import EmbeddedTriton
from inferometer.server.repository import vocoder_repository

pytestmark = pytest.mark.live

VOCODERS = ("vocoder_fp32", "vocoder_fp16", "vocoder_int8", "vocoder_numpy")
CONFIG = """backend: "python"
max_batch_size: 0
input [ {{ name: "INPUT0" data_type: {datatype} dims: [ 4 ] }} ]
output [ {{ name: "{output}" data_type: TYPE_FP32 dims: [ -1 ] }} ]
instance_group [ {{ kind: KIND_CPU count: 1 }} ]
"""
CODE = """import time
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.respond(request.inputs()[0].as_numpy().astype(np.float32)) for request in requests]

    def respond(self, x):
        time.sleep({pause_s})
        {before}
        return pb_utils.InferenceResponse([pb_utils.Tensor("{output}", {answer})])
"""


def plant(folder: Path, name: str, **more: object) -> None:
    """A model that pauses, then answers what it was given, or something else."""
    parts = {
        "pause_s": 0.004,
        "answer": "x",
        "output": "OUTPUT0",
        "datatype": "TYPE_FP32",
        "before": "",
        **more,
    }
    version = folder / name / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(CODE.format(**parts))
    (version.parent / "config.pbtxt").write_text(CONFIG.format(**parts))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedTriton]:
    folder = tmp_path_factory.mktemp("planted")
    plant(folder, "quick")
    plant(folder, "slow", pause_s=0.06)
    plant(folder, "half", datatype="TYPE_FP16")
    plant(folder, "cut", answer="x[:2]")
    plant(folder, "renamed", output="OTHER")
    plant(folder, "broken", before='raise ValueError("out of order")')
    plant(folder, "holey", answer="np.array([np.nan, x[1], x[2], np.inf], dtype=np.float32)")
    extra = ("--disable-auto-complete-config", "--exit-timeout-secs", "0")
    with EmbeddedTriton((vocoder_repository(), folder), extra_args=extra) as started:
        yield started


def call(server: EmbeddedTriton, *words: str, protocol: str = "http") -> int:
    address = server.http_address if protocol == "http" else server.grpc_address
    return main(["compare", "-i", protocol, "-u", address, *words])


@pytest.mark.machine(reason="real latencies are compared, and other load in one turn can hide the difference")
def test_a_much_slower_variant_is_a_regression(
    server: EmbeddedTriton, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(tmp_path / name) for name in ("c.json", "c.xml", "c.md")]
    code = call(
        *(server, "-m", "quick", "-m", "slow", "--duration", "1s"),
        *("--fail-if", "throughput < -20%, p50 > +50%, snr < 40"),
        *("--json", files[0], "--junit", files[1], "--markdown", files[2]),
    )
    assert code == 1
    assert "Regression: slow fails on 'throughput < -20%'" in capsys.readouterr().out.replace("\n", " ")
    found = read(Path(files[0]), Comparison)
    assert found.contrasts[0].verdict == SLOWER
    assert found.contrasts[0].outputs[0].is_identical
    assert all(variant.result.levels[0].measurement.server is not None for variant in found.variants)
    assert ET.parse(files[1]).getroot().get("failures") != "0"
    assert "| slow |" in Path(files[2]).read_text()


@pytest.mark.machine(
    reason="real latencies are compared, and other load in one turn can look like a difference"
)
def test_the_same_model_twice_is_not_a_regression(server: EmbeddedTriton, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    code = call(
        *(server, "-m", "quick", "-m", "quick", "--duration", "1s", "--json", str(path)),
        *("--fail-if", "throughput < -50%, exact < 100%"),
    )
    assert code in (0, 2)
    found = read(path, Comparison)
    assert [variant.name for variant in found.variants] == ["quick", "quick (2)"]
    assert to_json(from_json(path.read_text(), "c.json", Comparison)) == path.read_text()
    assert [gate.outcome for gate in found.gates if "exact" in gate.text] == ["passed"]
    counts = [[turn.request_count for turn in variant.turns[0]] for variant in found.variants]
    assert counts[0] == counts[1]


def test_vocoders_sound_as_alike_as_their_arithmetic_lets_them(server: EmbeddedTriton) -> None:
    found = api.compare(*VOCODERS, url=server.http_address, duration_s=0.2, fail_if="snr < 60")
    snr = {contrast.variant: contrast.outputs[0].snr_db or 0.0 for contrast in found.contrasts}
    assert snr["vocoder_numpy"] > 100
    assert 60 < snr["vocoder_fp16"] < 100
    assert 25 < snr["vocoder_int8"] < 60
    assert {contrast.outputs[0].name for contrast in found.contrasts} == {"AUDIO"}
    assert all((contrast.outputs[0].cosine or 0) > 0.99 for contrast in found.contrasts)
    assert found.exit_code == 1
    assert [gate.variant for gate in found.gates if gate.outcome == "failed"] == ["vocoder_int8"]


def test_outputs_over_grpc_are_those_over_http(server: EmbeddedTriton) -> None:
    asked: dict[str, Any] = {"duration_s": 0.1, "outputs": 4}
    over_http = api.compare("vocoder_fp32", "vocoder_int8", url=server.http_address, **asked)
    over_grpc = api.compare("vocoder_fp32", "vocoder_int8", url=server.grpc_address, protocol="grpc", **asked)
    assert over_grpc.contrasts[0].outputs == over_http.contrasts[0].outputs


@pytest.mark.parametrize(
    ("variant", "words"),
    [("cut", "shape 4 became 2"), ("renamed", "missing from the variant"), ("holey", "")],
)
def test_outputs_of_another_form_are_said(server: EmbeddedTriton, variant: str, words: str) -> None:
    found = api.compare("quick", variant, url=server.http_address, duration_s=0.2)
    output = found.contrasts[0].outputs[-1]
    assert output.problem == words
    assert found.exit_code == 0
    if variant == "holey":
        assert output.non_finite == 2 * output.requests
        assert output.max_abs == 0


def test_inputs_in_half_precision_are_the_same_values_rounded(server: EmbeddedTriton) -> None:
    found = api.compare("quick", "half", url=server.http_address, duration_s=0.2)
    output = found.contrasts[0].outputs[0]
    assert 0 < (output.max_abs or 0) < 1e-3


def test_a_variant_that_fails_makes_the_run_invalid(
    server: EmbeddedTriton, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(server, "-m", "quick", "-m", "broken", "--duration", "500ms") == 3
    said = " ".join(capsys.readouterr().out.split())
    assert "100 % of the requests failed" in said
    assert "out of order" in said


def test_two_servers_and_several_levels(server: EmbeddedTriton, capsys: pytest.CaptureFixture[str]) -> None:
    words = (
        "-m",
        "quick",
        "-u",
        server.http_address,
        "-u",
        f"localhost:{server.http_address.partition(':')[2]}",
    )
    assert main(["compare", *words, "--duration", "300ms", "--concurrency-range", "1:2"]) == 0
    said = capsys.readouterr().out
    assert "At concurrency 1" in said
    assert "At concurrency 2" in said


def test_saved_results_of_real_runs_are_compared(server: EmbeddedTriton, tmp_path: Path) -> None:
    base, slow = (
        api.measure(model, url=server.http_address, duration_s=0.6, precision=0.001)
        for model in ("quick", "slow")
    )
    found = api.compare(base, slow, fail_if="throughput < -20%")
    assert found.contrasts[0].verdict in (SLOWER, NO_DIFFERENCE)  # intervals of so short runs may be wide
    assert found.contrasts[0].levels[0].differences[0].percent.value < -20
    assert not found.is_live
