"""Arbitrary server answers: every control call returns a usable value or raises PeerError."""

import dataclasses
import json
import pickle
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.base.errors import InferometerError, PeerError
from inferometer.diagnose.observation import step_setup
from inferometer.model import answers
from inferometer.observe.statistics import difference, snapshot
from inferometer.options.options import Options, Tls
from inferometer.services.detect import probe, recognize
from inferometer.services.endpoint import Connection, parse_endpoint
from inferometer.services.http_control import HttpControl
from inferometer.services.kind import KINDS, Service
from inferometer.services.triton_http import TritonHttp
from inferometer.services.undo import Tracer
from tests.support.servers import ScriptedServer, answer
from tests.support.strange import ODD, strange, text_of

TENSORS = [{"name": "A", "datatype": "INT32", "shape": [-1, 4]}]
STEP = {"model_name": "part", "model_version": -1, "input_map": {"a": "b"}}
TRITON: dict[str, Any] = {
    "/v2": {"name": "triton", "version": "2.51.0", "extensions": ["statistics", "trace"]},
    "/v2/models/m": {"name": "m", "versions": ["1"], "platform": "", "inputs": TENSORS, "outputs": TENSORS},
    "/v2/models/m/config": {
        "name": "m",
        "platform": "ensemble",
        "max_batch_size": 8,
        "input": [{"name": "A", "data_type": "TYPE_INT32", "dims": [4], "optional": True}],
        "output": [{"name": "A"}],
        "instance_group": [{"name": "m", "kind": "KIND_GPU", "count": 2, "gpus": [0, 1]}],
        "dynamic_batching": {"preferred_batch_size": [4, 8], "max_queue_delay_microseconds": 100},
        "model_transaction_policy": {"decoupled": False},
        "response_cache": {"enable": True},
        "ensemble_scheduling": {"step": [STEP]},
    },
    "/v2/models/part/config": {"name": "part", "max_batch_size": 8, "sequence_batching": {"oldest": {}}},
    "/v2/models/stats": {
        "model_stats": [
            {
                "name": "m",
                "version": "1",
                "inference_count": 10,
                "execution_count": "5",
                "inference_stats": {"success": {"count": 10, "ns": "1000"}, "queue": {"count": 10, "ns": 10}},
            }
        ]
    },
    "/v2/models/m/stats": {"model_stats": [{"name": "m", "version": "1", "inference_stats": {}}]},
    "/v2/repository/index": [{"name": "m", "version": "1", "state": "READY", "reason": ""}],
    "/v2/trace/setting": {"trace_level": ["OFF"], "trace_rate": "1000", "trace_count": "-1"},
}
TENSOR = {
    "dtype": "DT_FLOAT",
    "tensor_shape": {"dim": [{"size": "-1"}, {"size": "4"}], "unknown_rank": False},
}
SIGNATURE = {"inputs": {"x": TENSOR}, "outputs": {"y": TENSOR}, "method_name": "predict"}
OTHERS: dict[str, dict[str, Any]] = {
    "tfserving": {
        "/v1/models/m/metadata": {
            "model_spec": {"name": "m", "version": "1"},
            "metadata": {"signature_def": {"signature_def": {"serving_default": SIGNATURE}}},
        },
        "/v1/models/inferometer-looks-around": {"error": "Servable not found for request"},
    },
    "torchserve": {
        "/models?limit=100": {"models": [{"modelName": "m", "modelUrl": "m.mar"}]},
        "/models/m": [
            {
                "modelName": "m",
                "modelVersion": "1.0",
                "batchSize": 4,
                "maxBatchDelay": 50,
                "workers": [{"id": "9000", "status": "READY"}],
            }
        ],
        "/ping": {"status": "Healthy"},
        "/": {"code": 405, "type": "MethodNotAllowedException", "message": "no"},
    },
    "openai": {"/v1/models": {"object": "list", "data": [{"id": "m", "object": "model"}]}},
}
DOCUMENTS = {"triton": TRITON, **OTHERS}


class StrangeServer:
    """Server that answers GET and POST with these documents, as JSON or as raw bytes."""

    def __init__(self) -> None:
        self.documents: Mapping[str, Any] = {}
        self.server = ScriptedServer(lambda request: self._answer(request.path))

    def _answer(self, path: str) -> Any:
        if path not in self.documents:
            return answer(b'{"error": "no such path"}', 404)
        found = self.documents[path]
        return answer(found if isinstance(found, bytes) else text_of(found))

    @property
    def connection(self) -> Connection:
        return Connection(parse_endpoint(self.server.address, default_port=0, tls=Tls()))


@pytest.fixture(scope="module")
def server() -> Iterator[StrangeServer]:
    found = StrangeServer()
    with found.server:
        yield found


def service(kind: str, server: StrangeServer) -> Service:
    return KINDS[kind].open(server.connection, Options(management_url=server.server.address))


@contextmanager
def only_our_errors() -> Iterator[None]:
    """Allow only errors with a printable message of at most a screen."""
    said = ""
    try:
        yield
    except InferometerError as error:
        said = str(error)
    assert len(said.encode()) < 6000


def usable(value: object) -> None:
    """Check that a value can be copied, written, and sent to a worker."""
    plain = dataclasses.asdict(value) if dataclasses.is_dataclass(value) else value  # type: ignore[arg-type]
    json.dumps(plain, sort_keys=True, allow_nan=False).encode()
    pickle.dumps(value)


def ask_everything(kind: str, server: StrangeServer) -> None:
    asked = service(kind, server)
    with only_our_errors():
        recognize(probe(server.connection))
    with only_our_errors():
        usable(asked.server())
    with only_our_errors():
        assert all(isinstance(name, str) for name in asked.models())
    with only_our_errors():
        model = asked.describe("m", "", ())
        usable(model)
        step_setup(model.config)
        difference(model, {}, snapshot(asked.statistics(model)))
        asked.traffic(model, ())
    if isinstance(asked, Tracer):
        with only_our_errors():
            usable(asked.trace_settings())
    if kind == "triton":
        with only_our_errors():
            TritonHttp(server.connection).index()
        with only_our_errors():
            usable(TritonHttp(server.connection).config("m"))


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_valid_answers_are_accepted(kind: str, server: StrangeServer) -> None:
    server.documents = DOCUMENTS[kind]
    asked = service(kind, server)
    model = asked.describe("m", "", ())
    assert model.name == "m"
    if kind == "triton":
        assert [spec.shape for spec in model.inputs] == [(4,)]
        assert [member.name for member in model.composing] == ["part"]
        assert model.composing[0].is_sequence
        found = difference(model, {}, snapshot(asked.statistics(model)))
        assert (found.counters.execution_count, found.counters.success_ns) == (5, 1000)
        assert isinstance(asked, Tracer)
        assert asked.trace_settings()["trace_level"] == ("OFF",)
    if kind != "tfserving":
        assert asked.models() == ["m"]
    assert recognize(probe(server.connection)).kind == kind


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_any_part_of_any_answer_may_be_anything(kind: str, server: StrangeServer) -> None:
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        good = DOCUMENTS[kind]
        path = data.draw(st.sampled_from(sorted(good)))
        document = strange(good[path], lambda end: data.draw(st.integers(0, end - 1)))
        server.documents = {**good, path: document}
        ask_everything(kind, server)

    holds()


@pytest.mark.parametrize("odd", ODD[1:], ids=lambda value: repr(value)[:20])
@pytest.mark.parametrize("kind", DOCUMENTS)
def test_every_answer_may_be_anything(kind: str, odd: object, server: StrangeServer) -> None:
    server.documents = dict.fromkeys(DOCUMENTS[kind], odd)
    ask_everything(kind, server)


@pytest.mark.parametrize(
    "body", [b"", b"\xff", b"{", b"[" * 100_000, b'{"a":' * 5_000 + b"1" + b"}" * 5_000, b"9" * 10_000]
)
def test_invalid_json_is_reported_with_the_call(body: bytes, server: StrangeServer) -> None:
    for kind, documents in DOCUMENTS.items():
        server.documents = dict.fromkeys(documents, body)
        ask_everything(kind, server)


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("path", "change", "says"),
    [
        (
            "/v2/models/m",
            lambda it: it.update(inputs=5),
            "GET /v2/models/m must have a list as 'inputs', but has 5",
        ),
        ("/v2/models/m", lambda it: it["inputs"][0].pop("name"), "GET /v2/models/m has no 'inputs[0].name'"),
        (
            "/v2/models/m",
            lambda it: it["inputs"][0].update(datatype=["INT32"]),
            "must have a text as 'inputs[0].datatype', but has ['INT32']",
        ),
        (
            "/v2/models/m/config",
            lambda it: it.update(max_batch_size="many"),
            "must have a whole number of up to 64 bits as 'max_batch_size', but has 'many'",
        ),
        (
            "/v2/models/m/config",
            lambda it: it["ensemble_scheduling"]["step"].append(None),
            "must have an object as 'ensemble_scheduling.step[1]', but has null",
        ),
        (
            "/v2/models/part/config",
            lambda it: it.update(ensemble_scheduling={"step": [{"model_name": "m"}]}),
            "the server says that 'm' is composed of part > m, which is an endless chain",
        ),
    ],
    ids=range(6),
)
def test_the_message_names_server_call_part_and_expectation(
    path: str, change: Change, says: str, server: StrangeServer
) -> None:
    documents = json.loads(json.dumps(TRITON))
    change(documents[path])
    server.documents = documents
    with pytest.raises(PeerError) as caught:
        service("triton", server).describe("m", "", ())
    assert says in caught.value.message
    if "which is an endless chain" not in says:
        assert server.server.address in caught.value.remedy


def test_an_endless_answer_is_abandoned(server: StrangeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inferometer.services.http_control.LARGEST_BODY", 1000)
    server.documents = {"/v2": b'{"name": "' + b"x" * 2000 + b'"}'}
    with pytest.raises(PeerError, match="exceeds 1000 bytes"):
        HttpControl(server.connection).get("/v2", answers.SERVER)
