"""What servers say of themselves: JSON documents and gRPC messages, up to the values that the rest of the line uses."""

import json
from functools import partial
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2
from google.protobuf.json_format import ParseDict
from google.protobuf.message import DecodeError

from inferometer.base.errors import MissingError
from inferometer.base.text import decode_json
from inferometer.diagnose.observation import step_setup
from inferometer.model import answers
from inferometer.model.answers import checked
from inferometer.observe.statistics import difference, snapshot
from inferometer.options.options import Options
from inferometer.services.detect import QUESTIONS, ProbeAnswer, recognize
from inferometer.services.discovery import describe_model, plain_sentence
from inferometer.services.dynamic_grpc import method_of_file
from inferometer.services.grpc_control import document
from inferometer.services.http_control import reason_of
from inferometer.services.kserve import load_messages
from inferometer.services.tfserving import message, model_of
from tests.fuzz.fuzz_data import file
from tests.fuzz.fuzz_replies import make_documents
from tests.fuzz.harness import Choices, Family, corpus, damaged, damaged_seeds, each

TENSOR = {"name": "A", "datatype": "INT32", "shape": [-1, 4]}
METADATA = {"name": "m", "versions": ["1"], "platform": "", "inputs": [TENSOR], "outputs": [TENSOR]}
CONFIG = {
    "name": "m",
    "platform": "ensemble",
    "max_batch_size": 8,
    "input": [{"name": "A", "data_type": "TYPE_INT32", "dims": [4], "optional": True}],
    "output": [{"name": "A"}],
    "instance_group": [{"name": "m", "kind": "KIND_GPU", "count": 2, "gpus": [0, 1]}],
    "dynamic_batching": {"preferred_batch_size": [4, 8], "max_queue_delay_microseconds": "100"},
    "model_transaction_policy": {"decoupled": False},
    "response_cache": {"enable": True},
    "ensemble_scheduling": {"step": [{"model_name": "part", "model_version": -1}]},
}
TIMES = {"success": {"count": "5", "ns": 100}, "queue": {"count": 5, "ns": 10}}
STATISTICS = {"model_stats": [{"name": "m", "version": "1", "inference_count": 5, "inference_stats": TIMES}]}
SERVER = {"name": "triton", "version": "2", "extensions": ["statistics"]}
GOOD: dict[str, Any] = {"server": SERVER, "metadata": METADATA, "config": CONFIG, "statistics": STATISTICS}


class Said:
    """A server that has said all this, each read as a control call reads its answer."""

    def __init__(self, documents: dict[str, Any]) -> None:
        self._documents = documents

    def _get(self, name: str, shape: Any) -> Any:
        if name not in self._documents:
            raise MissingError(f"no {name}")
        return checked(self._documents[name], shape, f"the answer to {name}")

    def server(self) -> Any:
        return self._get("server", answers.SERVER)

    def metadata(self, name: str, version: str) -> Any:
        return self._get("metadata", answers.METADATA)

    def config(self, name: str, version: str) -> Any:
        return self._get("config", answers.CONFIG) if name == "m" else {}

    def models(self) -> list[str]:
        return [row["name"] for row in self._get("index", answers.INDEX)]

    def statistics(self) -> Any:
        return self._get("statistics", answers.STATISTICS).get("model_stats", [])


def follow(said: Said) -> None:
    """As a run does, to what is written into a result."""
    service: Any = said
    plain_sentence(service)
    model = describe_model(said, "m", "", ())
    step_setup(model.config)
    difference(model, {}, snapshot(said.statistics()))
    json.dumps(dict(model.config), allow_nan=False).encode()


def read_answers(data: bytes) -> None:
    try:
        found = decode_json(data)
    except ValueError:
        return
    if not isinstance(found, dict):
        found = {"metadata": found}
    follow(Said({**GOOD, **found}))


ERRORS = (
    {"error": "no"},
    {"code": 404, "type": "ModelNotFoundException", "message": "no"},
    SERVER,
    {"data": [{"id": "m"}]},
)


def read_error(data: bytes) -> None:
    reason_of(data).encode()
    try:
        found = decode_json(data)
    except ValueError:
        found = None
    recognize({question: ProbeAnswer(200, found) for question in (*QUESTIONS, "grpc kserve")})


SIGNATURE_TENSOR = {"dtype": "DT_FLOAT", "tensor_shape": {"dim": [{"size": "-1"}, {"size": "4"}]}}
SIGNATURE = {"inputs": {"x": SIGNATURE_TENSOR}, "outputs": {"y": SIGNATURE_TENSOR}}
OTHERS = (
    {"metadata": {"signature_def": {"signature_def": {"serving_default": SIGNATURE}}}},
    {"models": [{"modelName": "m"}], "data": [{"id": "m"}], "trace_level": ["OFF"], "trace_rate": "5"},
)


def read_others(data: bytes) -> None:
    try:
        found = decode_json(data)
    except ValueError:
        return
    if isinstance(found, dict) and "metadata" in found:
        answer = checked(found, answers.TFSERVING_METADATA, "it")
        signatures = answer["metadata"]["signature_def"]["signature_def"]
        model_of(signatures, "m", "", Options(batch=len(data) % 2 or None))
        return
    each(
        partial(checked, found, shape, "it")
        for shape in (
            answers.TORCHSERVE_MODELS,
            answers.TEXT_MODELS,
            answers.TRACE_SETTINGS,
            [answers.SERVER],
        )
    )


# --- gRPC

pb2 = load_messages()
METHODS = (
    ("server", pb2.ServerMetadataResponse, answers.SERVER),
    ("metadata", pb2.ModelMetadataResponse, answers.METADATA),
    ("config", pb2.ModelConfigResponse, {"config": answers.CONFIG}),
    ("statistics", pb2.ModelStatisticsResponse, answers.STATISTICS),
)
BATCHED = {name: part for name, part in CONFIG.items() if name != "ensemble_scheduling"}
SAID: dict[str, Any] = {**GOOD, "config": {"config": BATCHED}}
SEEDS = [
    bytes([place]) + ParseDict(SAID[name], kind()).SerializeToString()
    for place, (name, kind, _) in enumerate(METHODS)
]


def make_messages(choices: Choices) -> bytes:
    """A byte that says which message it is, and the message."""
    seed = choices.pick([*SEEDS, *corpus("control-grpc")])
    return seed[:1] + damaged(seed[1:], choices)


def read_messages(data: bytes) -> None:
    name, kind, shape = METHODS[(data[0] if data else 0) % len(METHODS)]
    try:
        found = kind.FromString(data[1:])
    except DecodeError:
        return
    answer: Any = document(found, shape, name)
    follow(Said({**GOOD, name: answer.get("config", {}) if name == "config" else answer}))


def _signatures() -> bytes:
    made = message("SignatureDefMap")()
    ParseDict({"signature_def": {"serving_default": SIGNATURE}}, made)
    return bytes(made.SerializeToString(deterministic=True))


SIGNATURES = _signatures()


def make_signatures(choices: Choices) -> bytes:
    return damaged(choices.pick([SIGNATURES, *corpus("signatures-grpc")]), choices)


def read_signatures(data: bytes) -> None:
    try:
        found = message("SignatureDefMap").FromString(data)
    except DecodeError:
        return
    signatures = document(found, {"signature_def": answers.SIGNATURES}, "GetModelMetadata").get(
        "signature_def", {}
    )
    model_of(signatures, "m", "", Options())


# --- any service, by its description


def _described() -> bytes:
    """Two files: a service with a unary and a streaming method, and the file that it imports."""
    text = descriptor_pb2.FieldDescriptorProto.TYPE_STRING
    once = descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL
    made = descriptor_pb2.FileDescriptorSet()
    first = made.file.add(name="a.proto", package="p", syntax="proto3")
    first.message_type.add(name="M").field.add(name="x", number=1, type=text, label=once)
    second = made.file.add(name="b.proto", package="p", syntax="proto3", dependency=["a.proto"])
    service = second.service.add(name="S")
    service.method.add(name="U", input_type=".p.M", output_type=".p.M")
    service.method.add(name="T", input_type=".p.M", output_type=".p.M", server_streaming=True)
    return bytes(made.SerializeToString())


DESCRIBED = _described()


def read_described(data: bytes) -> None:
    path = Path(file("set.pb", data))
    for name in ("U", "T"):
        method = method_of_file("p.S", name, path, ())
        method.request().SerializeToString()


FAMILIES = (
    Family(
        "descriptors",
        damaged_seeds(
            "descriptors",
            (DESCRIBED,),
            (b".p.M", b"a.proto", b"google/protobuf/any.proto", b"p.S", b"proto2"),
        ),
        read_described,
        20,
    ),
    Family("control-json", make_documents("control-json", (GOOD,)), read_answers, 30),
    Family("control-errors", make_documents("control-errors", ERRORS), read_error, 30),
    Family("control-others", make_documents("control-others", OTHERS), read_others, 30),
    Family("control-grpc", make_messages, read_messages, 40),
    Family("signatures-grpc", make_signatures, read_signatures, 40),
)
