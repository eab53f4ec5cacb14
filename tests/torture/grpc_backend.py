"""What the fault server is over gRPC: a Triton with one model."""

from dataclasses import dataclass, field
from typing import Any, Protocol

from google.protobuf.json_format import ParseDict
from tritonclient.grpc import service_pb2

from tests.support.servers import FakeModel
from tests.torture.backends import EXTENSIONS, Counters, statistics
from tests.torture.http2_wire import Call

CALLS = {
    "ServerMetadata": "server",
    "ModelMetadata": "metadata",
    "ModelConfig": "config",
    "ModelStatistics": "stats",
}


class GrpcBackend(Protocol):
    """One kind of server over gRPC."""

    counters: Counters

    def call(self, call: Call) -> str:
        """The name of a control call; empty for an inference."""

    def step(self, call: Call) -> int: ...

    def inference(self, call: Call) -> bytes:
        """The usual message."""

    def control(self, call: Call, name: str) -> bytes: ...


@dataclass(slots=True)
class TritonGrpc:
    model: FakeModel
    config: dict[str, Any] = field(default_factory=dict)
    counters: Counters = field(default_factory=Counters)
    regions: set[str] = field(default_factory=set)  # shared memory that is registered

    def call(self, call: Call) -> str:
        method = call.path.rpartition("/")[2]
        return "" if method in ("ModelInfer", "ModelStreamInfer") else CALLS.get(method, method)

    def step(self, call: Call) -> int:
        asked = service_pb2.ModelInferRequest.FromString(call.data)
        return int.from_bytes(asked.raw_input_contents[0][:4], "little") if asked.raw_input_contents else -1

    def inference(self, call: Call) -> bytes:
        request_id = service_pb2.ModelInferRequest.FromString(call.data).id
        return stream_response(request_id) if call.is_stream else response(request_id).SerializeToString()

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
                self.regions.add(asked.name)  # the first field of both
            elif name == "SystemSharedMemoryUnregister":
                self.regions.discard(asked.name)
            return b""
        return bytes(reply.SerializeToString())


def response(request_id: str, *, has_data: bool = True) -> Any:
    reply = service_pb2.ModelInferResponse(model_name="m", model_version="1", id=request_id)
    if has_data:
        reply.outputs.add(name="OUTPUT0", datatype="INT32", shape=(1, 1))
        reply.raw_output_contents.append(bytes(4))
    return reply


def stream_response(request_id: str, *, has_data: bool = True, is_final: bool | None = True) -> bytes:
    """A message of ModelStreamInfer; None leaves the flag out."""
    inner = response(request_id, has_data=has_data)
    if is_final is not None:
        inner.parameters["triton_final_response"].bool_param = is_final
    return bytes(service_pb2.ModelStreamInferResponse(infer_response=inner).SerializeToString())


def stream_error(request_id: str, text: str) -> bytes:
    inner = service_pb2.ModelInferResponse(id=request_id)
    return bytes(
        service_pb2.ModelStreamInferResponse(error_message=text, infer_response=inner).SerializeToString()
    )
