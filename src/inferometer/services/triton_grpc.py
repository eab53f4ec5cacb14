"""Triton over gRPC, with the official messages; control calls need no HTTP port."""

import json
import re
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.model import answers
from inferometer.model.spec import ModelSpec
from inferometer.model.tensor import Tensor
from inferometer.services.discovery import Document, describe_model, plain_sentence
from inferometer.services.endpoint import Connection
from inferometer.services.grpc_control import GrpcControl, document
from inferometer.services.http_control import LOAD_TIMEOUT_S
from inferometer.services.messages import load_messages
from inferometer.services.shared_memory import CUDA, Part, Placed, Placement, maybe_part, placed
from inferometer.services.trace import Settings
from inferometer.services.traffic import Traffic, Wiring
from inferometer.services.validation import grpc_outputs, grpc_tensors

service_pb2 = load_messages()

SERVICE = "inference.GRPCInferenceService"
_INTEGER = re.compile(r"-?[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class GrpcOptions:
    """What calls carry beyond their tensors."""

    is_streaming: bool = False
    compression: str | None = None
    parameters: tuple[tuple[str, str, str], ...] = ()  # (name, value, bool | int | string)
    connections: int = 0
    has_ids: bool | None = False  # None: requests of sequences


class TritonGrpc:
    """A Triton server at one address."""

    def __init__(self, connection: Connection, options: GrpcOptions) -> None:
        self._connection = connection
        self._options = options
        self._control = GrpcControl(connection, SERVICE)

    # --- control calls

    def server(self) -> Document:
        """Name, version and extensions."""
        reply = self._control.call(
            "ServerMetadata", service_pb2.ServerMetadataRequest(), service_pb2.ServerMetadataResponse
        )
        return {"name": reply.name, "version": reply.version, "extensions": list(reply.extensions)}

    def describe(self, name: str, version: str, called: Sequence[tuple[str, str]]) -> ModelSpec:
        return describe_model(self, name, version, called)

    def metadata(self, name: str, version: str) -> Document:
        asked = service_pb2.ModelMetadataRequest(name=name, version=version)
        reply = self._control.call("ModelMetadata", asked, service_pb2.ModelMetadataResponse)
        return document(reply, answers.METADATA, "ModelMetadata")

    def config(self, name: str, version: str) -> Document:
        asked = service_pb2.ModelConfigRequest(name=name, version=version)
        reply = self._control.call("ModelConfig", asked, service_pb2.ModelConfigResponse)
        return document(reply.config, answers.CONFIG, "ModelConfig")

    def models(self) -> list[str]:
        asked = service_pb2.RepositoryIndexRequest(ready=True)
        reply = self._control.call("RepositoryIndex", asked, service_pb2.RepositoryIndexResponse)
        return [row.name for row in reply.models]

    def load_model(self, name: str, config: Document | None = None) -> None:
        """Load or reload a model, with this configuration instead of the one in the repository."""
        asked = service_pb2.RepositoryModelLoadRequest(model_name=name)
        if config is not None:
            asked.parameters["config"].string_param = json.dumps(config)
        reply = service_pb2.RepositoryModelLoadResponse
        self._control.call("RepositoryModelLoad", asked, reply, timeout_s=LOAD_TIMEOUT_S)

    def statistics(self, model: ModelSpec) -> list[Document]:
        """The raw statistics of the model, or of all models when it is composed of others."""
        name, version = ("", "") if model.composing else (model.name, model.version)
        asked = service_pb2.ModelStatisticsRequest(name=name, version=version)
        reply = self._control.call_again("ModelStatistics", asked, service_pb2.ModelStatisticsResponse)
        return list(document(reply, answers.STATISTICS, "ModelStatistics").get("model_stats", ()))

    def register_system_memory(self, region: str, *, key: str, size: int) -> None:
        asked = service_pb2.SystemSharedMemoryRegisterRequest(name=region, key=key, byte_size=size)
        reply = service_pb2.SystemSharedMemoryRegisterResponse
        self._control.call("SystemSharedMemoryRegister", asked, reply)

    def register_cuda_memory(self, region: str, *, handle: bytes, device: int, size: int) -> None:
        asked = service_pb2.CudaSharedMemoryRegisterRequest(
            name=region, raw_handle=handle, device_id=device, byte_size=size
        )
        self._control.call("CudaSharedMemoryRegister", asked, service_pb2.CudaSharedMemoryRegisterResponse)

    def unregister_memory(self, kind: str, region: str) -> None:
        """Forget a region; one that is not known is no error."""
        name = "CudaSharedMemoryUnregister" if kind == CUDA else "SystemSharedMemoryUnregister"
        asked = getattr(service_pb2, f"{name}Request")(name=region)
        self._control.call(name, asked, getattr(service_pb2, f"{name}Response"))

    def trace_settings(self) -> Settings:
        """What holds for all models that have no settings of their own."""
        return self._trace_setting({})

    def change_trace_settings(self, settings: Settings) -> None:
        self._trace_setting(settings)

    def _trace_setting(self, settings: Settings) -> Settings:
        asked = service_pb2.TraceSettingRequest()
        for name, values in settings.items():
            asked.settings[name].value.extend(values)
        reply = self._control.call("TraceSetting", asked, service_pb2.TraceSettingResponse)
        return {name: tuple(found.value) for name, found in reply.settings.items()}

    # --- inference

    def traffic(
        self, model: ModelSpec, steps: Sequence[Sequence[Tensor]], placement: Placement | None = None
    ) -> Traffic:
        """Every request of the dataset, rendered once; what is placed in shared memory is only pointed at."""
        options = self._options
        method = "ModelStreamInfer" if options.is_streaming else "ModelInfer"
        wiring = Wiring(
            endpoint=self._connection.endpoint,
            protocol="grpc",
            connections=options.connections,
            block=self._control.block(method, compression=options.compression),
            is_streaming=options.is_streaming,
            compression=options.compression,
            has_ids=model.any_sequence if options.has_ids is None else options.has_ids,
        )
        parameters = (*options.parameters, ("triton_enable_empty_final_response", "true", "bool"))
        requests = tuple(
            render_request(model, step, placement, parameters) for step in placed(steps, placement)
        )
        return Traffic(wiring, requests, findings=(plain_sentence(self),) if model.is_plain else ())

    def read_outputs(self, body: bytes, header_length: int | None) -> dict[str, bytes]:
        """The raw values in a ModelInferResponse; those in shared memory are not in it."""
        return grpc_outputs(body)

    def infer(self, request: bytes) -> dict[str, Tensor]:
        """The outputs that come back for a rendered request, by name."""
        asked = service_pb2.ModelInferRequest.FromString(request)
        reply = self._control.call("ModelInfer", asked, service_pb2.ModelInferResponse)
        return grpc_tensors(reply.SerializeToString())


def render_request(
    model: ModelSpec,
    step: Sequence[Placed],
    placement: Placement | None,
    parameters: tuple[tuple[str, str, str], ...],
) -> bytes:
    """A ModelInferRequest; tensors with a part are only pointed at."""
    request = service_pb2.ModelInferRequest(model_name=model.name, model_version=model.version)
    for name, value, kind in parameters:
        _set_parameter(request.parameters[name], name, value, kind)
    for tensor, part in step:
        described = request.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
        if part is None:
            request.raw_input_contents.append(tensor.data)
        else:
            _point(described.parameters, part)
    for output in model.outputs:
        wanted = request.outputs.add(name=output.name)
        part = maybe_part(placement, output.name)
        if part is not None:
            _point(wanted.parameters, part)
    return bytes(request.SerializeToString())


def _point(parameters: MutableMapping[str, Any], part: Part) -> None:
    for name, value in part.parameters().items():
        if isinstance(value, str):
            parameters[name].string_param = value
        else:
            parameters[name].int64_param = value


def _set_parameter(parameter: Any, name: str, value: str, kind: str) -> None:
    if kind == "string":
        parameter.string_param = value
    elif kind == "bool" and value.lower() in ("true", "false"):
        parameter.bool_param = value.lower() == "true"
    elif kind == "int" and _INTEGER.fullmatch(value) and -(2**63) <= int(value) < 2**63:
        parameter.int64_param = int(value)
    else:
        raise UsageError(
            f"the request parameter '{name}' has the value '{value}', which is no {kind}",
            remedy="write true or false for bool, an integer of up to 64 bits for int",
        )
