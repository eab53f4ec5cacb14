"""Whole runs against the stand-in for TensorFlow Serving, which reads the official messages and doubles its inputs."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inferometer.base.errors import PeerError
from inferometer.model.numbers import encode
from inferometer.model.spec import Tensor
from inferometer.options.options import Options, Tls
from inferometer.services.endpoint import Connection, parse_endpoint
from inferometer.services.kind import KINDS, Answering
from tests.support import grpc_servers as grpc
from tests.support.tfserving import FakeTfServing, ServedModel

KIND = ("--service-kind", "tfserving")
COUNTED = ("--request-count", "12")

EVERY: dict[str, tuple[str, list[Any], list[Any]]] = {
    "float": ("DT_FLOAT", [0.5, -2.0], [1.0, -4.0]),
    "double": ("DT_DOUBLE", [0.1, 1e300], [0.2, 2e300]),
    "half": ("DT_HALF", [0.5, 3.0], [1.0, 6.0]),
    "int8": ("DT_INT8", [-64, 63], [-128, 126]),
    "int16": ("DT_INT16", [-300, 1], [-600, 2]),
    "int32": ("DT_INT32", [-(2**30), 5], [-(2**31), 10]),
    "int64": ("DT_INT64", [2**61, -(2**61) - 1], [2**62, -(2**62) - 2]),
    "uint8": ("DT_UINT8", [127, 0], [254, 0]),
    "uint16": ("DT_UINT16", [32767, 1], [65534, 2]),
    "uint32": ("DT_UINT32", [2**31 - 1, 1], [2**32 - 2, 2]),
    "uint64": ("DT_UINT64", [2**63 - 1, 1], [2**64 - 2, 2]),
    "bool": ("DT_BOOL", [True, False], [False, True]),
    "string": ("DT_STRING", ["a", "ü"], ["aa", "üü"]),
}
"""By name: datatype, what is sent, what must come back."""


SENT = {
    "int64": ("INT64", (1, 2), encode("INT64", EVERY["int64"][1])),
    "string": ("BYTES", (1, 2), encode("BYTES", EVERY["string"][1])),
}
IN_JSON = tuple(name for name in EVERY if name not in ("half", "uint16"))  # the REST API knows no others


def served(*names: str, shape: tuple[int, ...] = (-1, 2)) -> ServedModel:
    return ServedModel(inputs={name: (EVERY[name][0], shape) for name in names})


@pytest.fixture
def data(tmp_path: Path) -> Callable[..., str]:
    """A file of input data for these inputs, with what must come back."""

    def write(*names: str) -> str:
        path = tmp_path / "data.json"
        step = {name: EVERY[name][1] for name in names}
        wanted = {f"twice_{name}": EVERY[name][2] for name in names}
        path.write_text(json.dumps({"data": [step], "validation_data": [wanted]}))
        return str(path)

    return write


# --- the classic script


def test_the_command_of_the_guide_prints_the_clients_report(run: Callable) -> None:
    with FakeTfServing() as fake:
        ended = run(
            *("perf_analyzer", "-m", "resnet50", *KIND, "-i", "grpc", "-b", "1", "-p", "100", "-s", "9999"),
            *("-u", fake.grpc.address),
        )
    assert ended.code == 0, ended.stderr
    assert "  Batch size: 1\n  Service Kind: TENSORFLOW_SERVING\n" in ended.stdout
    assert re.search(r"Avg gRPC time: \d+ usec \(\(un\)marshal request/response \d+ usec \+ ", ended.stdout)
    assert re.search(r"\nConcurrency: 1, throughput: [\d.]+ infer/sec, latency \d+ usec\n$", ended.stdout)
    assert "  Server: " not in ended.stdout


@pytest.mark.parametrize("size", [1, 3])
def test_with_a_batch_size_a_dimension_is_added(size: int, run: Callable) -> None:
    with FakeTfServing() as fake:
        ended = run(
            "perf_analyzer",
            "-m",
            "resnet50",
            *KIND,
            "-i",
            "grpc",
            "-b",
            str(size),
            "-u",
            fake.grpc.address,
            *COUNTED,
        )
        assert ended.code == 0, ended.stderr
        assert [dim.size for dim in fake.predictions[0].inputs["x"].tensor_shape.dim] == [size, 4]


def test_without_a_batch_size_none_is_added(run: Callable) -> None:
    with FakeTfServing(served("float", shape=(3, 2))) as fake:
        ended = run("perf_analyzer", "-m", "resnet50", *KIND, "-i", "grpc", "-u", fake.grpc.address, *COUNTED)
        assert ended.code == 0, ended.stderr
        assert "  Batch size: " not in ended.stdout
        assert [dim.size for dim in fake.predictions[0].inputs["float"].tensor_shape.dim] == [3, 2]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("-b", "1"), "the first dimension of every input must be -1"),
        (("-m", "nobody"), "failed to get model metadata: Servable not found for request: Latest(nobody)"),
        (("-x", "2"), "Specific(resnet50, 2)"),
        (("-x", "canary"), "Unrecognized servable version label: canary"),
        (("--model-signature-name", "train"), "has no signature 'train'; choose one"),
        (("--shared-memory", "system"), "--shared-memory is not supported with --service-kind tfserving"),
    ],
)
def test_what_cannot_be_asked(words: tuple[str, ...], sentence: str, run: Callable) -> None:
    with FakeTfServing(served("float", shape=(3, 2))) as fake:
        ended = run("perf_analyzer", "-m", "resnet50", *KIND, "-i", "grpc", "-u", fake.grpc.address, *words)
    assert ended.code == 99
    assert sentence in ended.stderr
    assert not fake.predictions


def test_failed_predictions_are_counted(run: Callable) -> None:
    def disturb(number: int) -> grpc.Act | None:
        return grpc.refuse(8, "the queue is full") if number % 3 == 0 else None

    with FakeTfServing(disturb=disturb) as fake:
        ended = run(
            "perf_analyzer",
            "-m",
            "resnet50",
            *KIND,
            "-i",
            "grpc",
            "-b",
            "1",
            "-u",
            fake.grpc.address,
            *COUNTED,
        )
    assert ended.code == 99
    assert "Failed request count: 4 (33.33 %)" in ended.stdout
    assert "the queue is full" in ended.stdout


# --- both APIs


@pytest.mark.parametrize("is_typed", [True, False])
def test_every_datatype_goes_there_and_back_over_grpc(is_typed: bool, run: Callable, data: Callable) -> None:
    with FakeTfServing(served(*EVERY), is_typed=is_typed) as fake:
        ended = run(
            *(
                "perf_analyzer",
                "-m",
                "resnet50",
                *KIND,
                "-i",
                "grpc",
                "-b",
                "1",
                "-u",
                fake.grpc.address,
                *COUNTED,
            ),
            *("--input-data", data(*EVERY)),
        )
    assert ended.code == 0, ended.stderr + ended.stdout


@pytest.mark.parametrize("names", [IN_JSON, ("int64",), ("string",)], ids=len)
def test_every_datatype_goes_there_and_back_over_rest(names, run: Callable, data: Callable) -> None:
    with FakeTfServing(served(*names)) as fake:
        ended = run(
            *(
                "inferometer",
                "measure",
                "-m",
                "resnet50",
                *KIND,
                "-i",
                "http",
                "-b",
                "1",
                "-u",
                fake.http.address,
            ),
            *("--input-data", data(*names), *COUNTED),
        )
    assert ended.code == 0, ended.stderr + ended.stdout


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_a_wrong_output_is_a_failed_request(protocol: str, run: Callable, tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    path.write_text(json.dumps({"data": [{"int32": [1, 2]}], "validation_data": [{"twice_int32": [2, 5]}]}))
    with FakeTfServing(served("int32")) as fake:
        ended = run(
            *("inferometer", "measure", "-m", "resnet50", *KIND, "-i", protocol, "-b", "1", *COUNTED),
            *("-u", getattr(fake, protocol).address, "--input-data", str(path)),
        )
    assert ended.code == 1
    assert "output 'twice_int32' at index 1: expected 5, got 4" in " ".join(ended.stdout.split())


@pytest.mark.parametrize(("protocol", "names"), [("grpc", tuple(EVERY)), ("http", IN_JSON)])
def test_generated_data_of_every_datatype_is_taken(protocol: str, names, run: Callable) -> None:
    with FakeTfServing(served(*names)) as fake:
        ended = run(
            *("inferometer", "measure", "-m", "resnet50", *KIND, "-i", protocol, "-b", "2", *COUNTED),
            *("-u", getattr(fake, protocol).address),
        )
    assert ended.code == 0, ended.stderr + ended.stdout


@pytest.mark.parametrize("protocol", ["grpc", "http"])
@pytest.mark.parametrize("names", [("int64",), ("int64", "string")], ids=len)
def test_one_request_can_be_answered_outside_the_load(protocol: str, names) -> None:
    tensors = [Tensor(name, *sent) for name, sent in SENT.items() if name in names]
    with FakeTfServing(served(*names)) as fake:
        endpoint = parse_endpoint(getattr(fake, protocol).address, default_port=1, tls=Tls())
        service = KINDS["tfserving"].open(Connection(endpoint), Options(protocol=protocol))
        assert isinstance(service, Answering)
        model = service.describe("resnet50", "", ())
        found = service.infer(service.traffic(model, [tensors]).requests[0])
        with pytest.raises(PeerError, match="expected the inputs"):
            service.infer(service.traffic(model, [[]]).requests[0])
    for tensor in tensors:
        wanted = encode(tensor.datatype, EVERY[tensor.name][2])
        name = f"twice_{tensor.name}"
        assert found[name] == Tensor(name, tensor.datatype, (1, 2), wanted)


@pytest.mark.parametrize(
    ("version", "choice", "place"),
    [("", None, ""), ("3", "version", "/versions/3"), ("stable", "version_label", "/labels/stable")],
)
def test_a_version_is_a_number_or_a_label(version: str, choice, place: str, run: Callable) -> None:
    with FakeTfServing() as fake:
        for protocol in ("grpc", "http"):
            ended = run(
                *(
                    "inferometer",
                    "measure",
                    "-m",
                    "resnet50",
                    "-x",
                    version,
                    *KIND,
                    "-i",
                    protocol,
                    "-b",
                    "1",
                ),
                *("-u", getattr(fake, protocol).address, *COUNTED),
            )
            assert ended.code == 0, ended.stderr
        assert fake.predictions[-1].model_spec.WhichOneof("version_choice") == choice
    assert fake.paths[0] == f"GET /v1/models/resnet50{place}/metadata"
    assert fake.paths[-1] == f"POST /v1/models/resnet50{place}:predict"


def test_another_signature_is_called_by_its_name(run: Callable) -> None:
    with FakeTfServing(ServedModel(signature="score")) as fake:
        for protocol in ("grpc", "http"):
            ended = run(
                *(
                    "inferometer",
                    "measure",
                    "-m",
                    "resnet50",
                    "--model-signature-name",
                    "score",
                    *KIND,
                    "-b",
                    "1",
                ),
                *("-i", protocol, "-u", getattr(fake, protocol).address, *COUNTED),
            )
            assert ended.code == 0, ended.stderr
    assert fake.predictions[-1].model_spec.signature_name == "score"
    assert fake.documents[-1]["signature_name"] == "score"


# --- what an address is


def test_an_address_and_a_name_are_enough(run: Callable) -> None:
    with FakeTfServing() as fake:
        ended = run("inferometer", "measure", fake.http.address, "-m", "resnet50", "--duration", "200ms")
        assert ended.code == 0, ended.stderr
        assert "looks like TensorFlow Serving's REST API, model 'resnet50'" in ended.stderr
        ended = run(
            "inferometer", "measure", fake.grpc.address, "-i", "grpc", "-m", "resnet50", "--duration", "200ms"
        )
        assert ended.code == 0, ended.stderr
        assert "looks like TensorFlow Serving over gRPC, model 'resnet50'" in ended.stderr


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_its_models_are_not_listed(protocol: str, run: Callable) -> None:
    with FakeTfServing() as fake:
        ended = run("inferometer", "measure", getattr(fake, protocol).address, "-i", protocol)
    assert ended.code == 2
    assert "does not list its models" in ended.stderr
    assert "name one with -m" in ended.stderr


def test_the_wrong_kind_is_named(run: Callable) -> None:
    with FakeTfServing() as fake:
        ended = run("perf_analyzer", "-m", "resnet50", "-u", fake.http.address)
    assert ended.code == 99
    assert (
        "looks like TensorFlow Serving's REST API: measure it with --service-kind tfserving -i http"
        in ended.stderr
    )
