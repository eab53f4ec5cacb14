"""Whole commands against servers whose control answers are of any shape: an exit code and a sentence, no traceback."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict

from inferometer.services.kserve import load_messages
from tests.support.grpc_servers import FakeGrpcTriton
from tests.support.samples import sample
from tests.support.servers import Act, FakeModel, FakeTriton, Request, ScriptedServer, answer
from tests.support.strange import strange, text_of

service_pb2 = load_messages()

SEEDS = range(sample(5, 12))
CODES = (0, 1, 2, 3, 99)
COUNT = ("--request-count", "4")
SHORT = ("--concurrency-range", "1:2", "--duration", "100ms")


def ended_in_order(ended: Any) -> None:
    assert ended.code in CODES, ended.stderr
    assert "Traceback" not in ended.stderr
    (ended.stdout + ended.stderr).encode()


def strange_half_of_the_time(seed: int) -> Callable[[Any], bytes]:
    """Documents as they are or with odd parts; statistics in the middle of a run change from one to the next."""
    draw = random.Random(seed)
    return lambda document: text_of(strange(document, draw.randrange) if draw.random() < 0.4 else document)


def strange_triton(seed: int) -> FakeTriton:
    changed = strange_half_of_the_time(seed)
    documents: dict[str, Callable[[], Any]] = {
        "/v2": lambda: {"name": "triton", "version": "2", "extensions": ["statistics"]},
        "/v2/models/fake": FakeModel().metadata,
        "/v2/models/fake/config": lambda: {**FakeModel().config(), "instance_group": [{"count": 1}]},
        "/v2/models/fake/stats": fake_statistics,
        "/v2/repository/index": lambda: [{"name": "fake", "state": "READY"}],
    }

    def control(request: Request) -> Any:
        return answer(changed(documents[request.path]())) if request.path in documents else None

    return FakeTriton(control=control)


def fake_statistics() -> dict[str, Any]:
    times = {name: {"count": 5, "ns": 5000} for name in ("success", "queue", "compute_infer")}
    return {"model_stats": [{"name": "fake", "version": "1", "inference_count": 5, "inference_stats": times}]}


COMMANDS = {
    "measure": ("inferometer", "measure", "-m", "fake", *COUNT, "-u"),
    "an address": ("inferometer", "measure", *COUNT),
    "perf_analyzer": ("perf_analyzer", "-m", "fake", *COUNT, "-v", "-u"),
    "diagnose": ("inferometer", "diagnose", "-m", "fake", *SHORT, "-u"),
}


@pytest.mark.sampled
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("command", COMMANDS)
def test_triton_over_http(command: str, seed: int, run: Callable, tmp_path: Path) -> None:
    files = ("--json", str(tmp_path / "it.json"), "--html", str(tmp_path / "it.html"))
    with strange_triton(seed) as fake:
        ended_in_order(
            run(
                *COMMANDS[command],
                fake.server.address,
                *(() if command == "perf_analyzer" else files),
            )
        )


def test_odd_statistics_in_the_middle_of_a_run_are_a_remark(run: Callable) -> None:
    odd = answer(text_of({"model_stats": [{"name": None}]}))
    with FakeTriton(control=lambda request: odd if request.path.endswith("/stats") else None) as fake:
        ended = run("inferometer", "measure", "-m", "fake", "-u", fake.server.address, *COUNT)
    assert ended.code == 0, ended.stderr
    assert "has no 'model_stats[0].name'" in ended.stdout
    assert len(fake.inferences) >= 4


# --- gRPC: the same parts in messages, and bytes that are no message


def config(**fields: Any) -> bytes:
    return ParseDict({"config": fields}, service_pb2.ModelConfigResponse()).SerializeToString()


def damaged(message: bytes, draw: random.Random) -> bytes:
    """Bytes changed, cut out, doubled: other field numbers, lengths, enums, texts that are no UTF-8."""
    found = bytearray(message)
    for _ in range(1 + draw.randrange(3)):
        if not found:
            break
        at = draw.randrange(len(found))
        match draw.randrange(4):
            case 0:
                found[at] = draw.randrange(256)
            case 1:
                del found[at : at + 1 + draw.randrange(4)]
            case 2:
                found[at:at] = found[at : at + 1 + draw.randrange(8)]
            case _:
                found[at] ^= 1 << draw.randrange(8)
    return bytes(found)


@pytest.mark.sampled
@pytest.mark.parametrize("seed", SEEDS)
def test_triton_over_grpc(seed: int, run: Callable) -> None:
    draw = random.Random(seed)

    def control(method: str, message: bytes) -> bytes:
        return damaged(message, draw) if draw.random() < 0.4 else message

    with FakeGrpcTriton(control=control) as fake:
        words = ("-m", "fake", "-i", "grpc", "-u", fake.server.address, *COUNT)
        ended_in_order(run("inferometer", "measure", *words))


BROKEN_NAME = service_pb2.ModelMetadataResponse(name="fake", platform="\u00e9").SerializeToString()


@pytest.mark.parametrize(
    ("method", "message", "says"),
    [
        ("ModelMetadata", BROKEN_NAME.replace(b"\xc3\xa9", b"\xff\xfe"), "is not a ModelMetadataResponse"),
        (
            "ModelConfig",
            config(ensemble_scheduling={"step": [{"model_name": "fake"}]}),
            "composed of fake, which is an endless chain",
        ),
        ("ModelConfig", config(input=[{"dims": [1]}]), "has no 'input[0].name'"),
    ],
    ids=["broken UTF-8", "endless", "no name"],
)
def test_an_unusable_message_is_reported(method: str, message: bytes, says: str, run: Callable) -> None:
    def control(asked: str, usual: bytes) -> bytes:
        return message if asked == method else usual

    with FakeGrpcTriton(control=control) as fake:
        ended = run("inferometer", "measure", "-m", "fake", "-i", "grpc", "-u", fake.server.address, *COUNT)
    assert ended.code == 3
    assert says in ended.stderr


# --- other kinds

TENSOR = {"dtype": "DT_FLOAT", "tensor_shape": {"dim": [{"size": "-1"}, {"size": "4"}]}}
DOCUMENTS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "tfserving": (
        {
            "/v1/models/m/metadata": {
                "metadata": {
                    "signature_def": {
                        "signature_def": {
                            "serving_default": {"inputs": {"x": TENSOR}, "outputs": {"y": TENSOR}}
                        }
                    }
                }
            },
            "/v1/models/m:predict": {"outputs": [[1, 2, 3, 4]]},
        },
        ("-b", "1"),
    ),
    "torchserve": (
        {
            "/models/m": [
                {"modelName": "m", "batchSize": 4, "maxBatchDelay": 5, "workers": [{"status": "READY"}]}
            ],
            "/predictions/m": {},
        },
        ("--body", "x"),
    ),
    "openai": (
        {
            "/v1/models": {"data": [{"id": "m"}]},
            "/v1/chat/completions": {
                "choices": [{"message": {"role": "assistant", "content": "yes"}}],
                "usage": {"completion_tokens": 2, "prompt_tokens": 3},
            },
        },
        ("--prompt-tokens", "3"),
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", DOCUMENTS)
def test_another_kind(kind: str, seed: int, run: Callable, tmp_path: Path) -> None:
    documents, words = DOCUMENTS[kind]
    changed = strange_half_of_the_time(seed)

    def script(request: Request) -> Act:
        found = documents.get(request.path)
        return answer(b"{}", 404) if found is None else answer(changed(found))

    with ScriptedServer(script) as server:
        management = ("--management-url", server.address) if kind == "torchserve" else ()
        asked = ("--service-kind", kind, "-m", "m", "-u", server.address, *words, *management, *COUNT)
        ended_in_order(run("inferometer", "measure", *asked, "--json", str(tmp_path / "it.json")))
