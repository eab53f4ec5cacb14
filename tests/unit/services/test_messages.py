"""The official gRPC messages, which only the extras `grpc` and `triton` install."""

import importlib.util
import sys
from importlib.machinery import ModuleSpec

import pytest
from google.protobuf.runtime_version import VersionError

from inferometer.base.errors import UsageError
from inferometer.services import detect, kserve
from inferometer.services.endpoint import Connection, Endpoint
from inferometer.services.grpc_control import GrpcControl
from inferometer.services.kserve import load_messages
from inferometer.tune import model_config


@pytest.fixture
def without_tritonclient(monkeypatch: pytest.MonkeyPatch):
    def find_spec(name: str) -> ModuleSpec | None:
        assert name == "tritonclient"
        return None

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    monkeypatch.delitem(sys.modules, "tritonclient.grpc", raising=False)
    load_messages.cache_clear()
    yield
    load_messages.cache_clear()


@pytest.mark.usefixtures("without_tritonclient")
@pytest.mark.parametrize("use", [load_messages, model_config.message])
def test_without_tritonclient_the_error_names_the_extra(use):
    with pytest.raises(UsageError, match="tritonclient, which is not installed") as caught:
        use()
    assert caught.value.remedy == "pip install 'inferometer[grpc]'"


def test_a_protobuf_of_another_generation_is_an_error_that_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    def refuse() -> None:
        raise VersionError("gencode 6.31.1 runtime 5.26.0")

    monkeypatch.setattr(kserve, "_import_messages", refuse)
    load_messages.cache_clear()
    with pytest.raises(UsageError, match=r"gencode 6\.31\.1 runtime 5\.26\.0") as caught:
        load_messages()
    load_messages.cache_clear()
    assert caught.value.remedy == "pip install 'inferometer[grpc]'"


@pytest.mark.usefixtures("without_tritonclient")
@pytest.mark.parametrize(
    ("reply", "document"),
    [
        (b"\x0a\x06triton\x12\x062.51.0\x1a\x0astatistics\x1a\x05trace",
         {"name": "triton", "extensions": ["statistics", "trace"]}),
        (b"", {"name": "", "extensions": []}),
        (b"\x0a\x06tri", None),
        (b"\x0a\x02\xff\xfe", None),
    ],
    ids=["triton", "empty", "cut off", "not UTF-8"],
)  # fmt: skip
def test_a_grpc_server_is_recognized_without_tritonclient(monkeypatch: pytest.MonkeyPatch, reply, document):
    monkeypatch.setattr(GrpcControl, "call_bytes", lambda *_, **__: reply)
    answers = detect.probe_grpc(Connection(Endpoint("127.0.0.1", 8001)))
    assert answers["grpc kserve"].status == 200
    assert answers["grpc kserve"].document == document
