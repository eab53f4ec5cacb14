"""Requests that are cancelled on purpose, at a Triton built with grpcio: it sees each leave, and both count alike."""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.json_format import ParseDict
from tritonclient.grpc import service_pb2, service_pb2_grpc

from tests.support.grpc_servers import infer_response
from tests.support.servers import DEADLINE_S, FakeModel

MODEL = FakeModel()


class HaltingTriton(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]
    """Answers every third request; the others wait until the client cancels them."""

    def __init__(self) -> None:
        self.begun = self.answered = self.left = 0
        self._news = threading.Condition()

    def count(self, **more: int) -> int:
        """How many requests were begun before."""
        with self._news:
            before = self.begun
            for name, number in more.items():
                setattr(self, name, getattr(self, name) + number)
            self._news.notify_all()
            return before

    def has_left(self, count: int) -> bool:
        with self._news:
            return self._news.wait_for(lambda: self.left >= count, DEADLINE_S)

    def wait(self, context: grpc.ServicerContext) -> None:
        """Until the client cancels the call."""
        gone = threading.Event()
        assert context.add_callback(gone.set)
        assert gone.wait(DEADLINE_S)
        assert not context.is_active()
        self.count(left=1)

    def ModelInfer(self, request: Any, context: grpc.ServicerContext) -> Any:
        if self.count(begun=1) % 3:
            self.wait(context)
        else:
            self.count(answered=1)
        return infer_response(request.id)

    # --- control

    def ServerMetadata(self, request: Any, context: object) -> Any:
        return service_pb2.ServerMetadataResponse(name="triton", version="2.51.0")

    def ServerReady(self, request: Any, context: object) -> Any:
        return service_pb2.ServerReadyResponse(ready=True)

    def ModelMetadata(self, request: Any, context: object) -> Any:
        return ParseDict(MODEL.metadata(), service_pb2.ModelMetadataResponse())

    def ModelConfig(self, request: Any, context: object) -> Any:
        return ParseDict({"config": MODEL.config()}, service_pb2.ModelConfigResponse())

    def ModelStatistics(self, request: Any, context: object) -> Any:
        found = MODEL.statistics(good=self.answered, bad=0)
        return ParseDict(found, service_pb2.ModelStatisticsResponse())


@pytest.fixture
def triton() -> Iterator[tuple[HaltingTriton, str]]:
    found = HaltingTriton()
    server = grpc.server(ThreadPoolExecutor(8))
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(found, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield found, f"127.0.0.1:{port}"
    server.stop(None).wait()


def test_the_server_sees_every_cancelled_call_leave_and_counts_agree(
    triton: tuple[HaltingTriton, str], run: Callable, tmp_path: Path
) -> None:
    server, address = triton
    path = tmp_path / "result.json"
    ended = run(
        *("inferometer", "measure", address, "fake", "--grpc", "-n", "12", "-c", "2"),
        *("--cancel-after", "150ms", "--json", str(path), "-q"),
    )
    assert ended.code == 0, ended.stderr
    assert server.has_left(8)
    assert (server.begun, server.answered, server.left) == (12, 4, 8)
    found = json.loads(path.read_text())["levels"][0]["measurement"]
    assert (found["request_count"], found["failed_count"], found["failures"]) == (4, 0, [])
    cancelled = found["cancelled"]
    assert (cancelled["count"], cancelled["tokens"], cancelled["without_token"]) == (8, 0, 8)
    assert cancelled["ran"]["min_ns"] >= 150_000_000
