"""The backend of the fault server over gRPC: a Triton with one model."""

from dataclasses import dataclass, field
from typing import Any

from google.protobuf.json_format import ParseDict
from tritonclient.grpc import service_pb2

from tests.support.grpc_servers import infer_response, response
from tests.support.servers import FakeModel
from tests.torture.backends import EXTENSIONS, Counters, statistics
from tests.torture.http2_wire import Call

CALLS = {
    "ServerMetadata": "server",
    "ModelMetadata": "metadata",
    "ModelConfig": "config",
    "ModelStatistics": "stats",
}


@dataclass(slots=True)
class TritonGrpc:
    model: FakeModel
    config: dict[str, Any] = field(default_factory=dict)
    counters: Counters = field(default_factory=Counters)
    regions: set[str] = field(default_factory=set)  # registered shared memory

    def call(self, call: Call) -> str:
        method = call.path.rpartition("/")[2]
        return "" if method in ("ModelInfer", "ModelStreamInfer") else CALLS.get(method, method)

    def step(self, call: Call) -> int:
        asked = service_pb2.ModelInferRequest.FromString(call.data)
        return int.from_bytes(asked.raw_input_contents[0][:4], "little") if asked.raw_input_contents else -1

    def inference(self, call: Call) -> bytes:
        request_id = service_pb2.ModelInferRequest.FromString(call.data).id
        if call.is_stream:
            return response(request_id)
        return bytes(infer_response(request_id).SerializeToString())

    def control(self, call: Call, name: str) -> bytes:
        if name == "server":
            reply: Any = service_pb2.ServerMetadataResponse(
                name="torture", version="2.51.0", extensions=EXTENSIONS
            )
        elif name == "metadata":
            reply = ParseDict(self.model.metadata(), service_pb2.ModelMetadataResponse())
        elif name == "config":
            config = {**self.model.config(), **self.config}
            reply = ParseDict({"config": config}, service_pb2.ModelConfigResponse())
        elif name == "stats":
            reply = ParseDict(statistics(self.model, self.counters), service_pb2.ModelStatisticsResponse())
        else:
            asked = service_pb2.SystemSharedMemoryUnregisterRequest.FromString(call.data)
            if name == "SystemSharedMemoryRegister":
                self.regions.add(asked.name)  # `name` is the first field of both
            elif name == "SystemSharedMemoryUnregister":
                self.regions.discard(asked.name)
            return b""
        return bytes(reply.SerializeToString())
