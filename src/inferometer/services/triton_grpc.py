"""Triton over gRPC, with the official messages; control calls do not need an HTTP port."""

import json
import re
from collections.abc import MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from inferometer.base.errors import PeerError, UsageError
from inferometer.base.frozen import frozen
from inferometer.model import answers
from inferometer.model.spec import ModelSpec, Tensor
from inferometer.options.options import Options
from inferometer.services.discovery import ModelState, describe_model, plain_sentence
from inferometer.services.endpoint import Connection
from inferometer.services.grpc_control import GrpcControl, document
from inferometer.services.http_control import LOAD_TIMEOUT_S
from inferometer.services.kind import Document, Service
from inferometer.services.kserve import grpc_outputs, grpc_tensors, load_messages, raw_input
from inferometer.services.shared_memory import Placed, Placement, RegionFields, RegionPart, maybe_part, placed
from inferometer.services.traffic import Steps, Traffic
from inferometer.services.undo import TraceSettings

if TYPE_CHECKING:  # only visits need these
    from inferometer.services.calls import TensorCalls

service_pb2 = load_messages()

_INTEGER = re.compile(r"-?[0-9]{1,19}")


class TritonGrpc(Service):
    """A Triton server at one address."""

    def __init__(self, connection: Connection, options: Options | None = None) -> None:
        self._options = Options(protocol="grpc") if options is None else options
        self._control = GrpcControl(connection, "inference.GRPCInferenceService")

    # --- control calls

    def _call(self, method: str, timeout_s: float | None = None, **fields: Any) -> Any:
        asked = getattr(service_pb2, f"{method}Request")(**fields)
        reply = getattr(service_pb2, f"{method}Response")
        return self._control.call(method, asked, reply, timeout_s=timeout_s)

    def server(self) -> Document:
        """Return name, version and extensions of the server."""
        reply = self._call("ServerMetadata")
        return {"name": reply.name, "version": reply.version, "extensions": list(reply.extensions)}

    def describe(self, name: str, version: str, called: Sequence[tuple[str, str]]) -> ModelSpec:
        return describe_model(self, name, version, called)

    def metadata(self, name: str, version: str) -> Document:
        reply = self._call("ModelMetadata", name=name, version=version)
        return document(reply, answers.METADATA, "ModelMetadata")

    def config(self, name: str, version: str = "") -> Document:
        reply = self._call("ModelConfig", name=name, version=version)
        return document(reply.config, answers.CONFIG, "ModelConfig")

    def is_ready(self) -> bool:
        try:
            return bool(self._call("ServerReady").ready)
        except PeerError:
            return False

    def index(self) -> tuple[ModelState, ...]:
        rows = self._call("RepositoryIndex").models
        return tuple(ModelState(row.name, row.state) for row in rows)

    def models(self) -> list[str]:
        return [row.name for row in self._call("RepositoryIndex", ready=True).models]

    def load_model(self, name: str, config: Document | None = None) -> None:
        parameters = {}
        if config is not None:
            parameters["config"] = service_pb2.ModelRepositoryParameter(string_param=json.dumps(config))
        self._call("RepositoryModelLoad", LOAD_TIMEOUT_S, model_name=name, parameters=parameters)

    def unload_model(self, name: str) -> None:
        self._call("RepositoryModelUnload", model_name=name)

    def statistics(self, model: ModelSpec) -> list[Document]:
        """Return the raw statistics of the model, or of all models if it is composed of others."""
        name, version = ("", "") if model.composing else (model.name, model.version)
        asked = service_pb2.ModelStatisticsRequest(name=name, version=version)
        reply = self._control.call_again("ModelStatistics", asked, service_pb2.ModelStatisticsResponse)
        return list(document(reply, answers.STATISTICS, "ModelStatistics").get("model_stats", ()))

    def register_memory(self, kind: str, region: str, fields: RegionFields) -> None:
        self._call(f"{kind.capitalize()}SharedMemoryRegister", name=region, **fields)

    def unregister_memory(self, kind: str, region: str) -> None:
        self._call(f"{kind.capitalize()}SharedMemoryUnregister", name=region)

    def trace_settings(self) -> TraceSettings:
        """Return the global trace settings, which apply to all models without their own."""
        return {name: tuple(found.value) for name, found in self._call("TraceSetting").settings.items()}

    def change_trace_settings(self, settings: TraceSettings) -> None:
        value = service_pb2.TraceSettingRequest.SettingValue
        self._call("TraceSetting", settings={name: value(value=values) for name, values in settings.items()})

    # --- inference

    def traffic(self, model: ModelSpec, steps: Steps, placement: Placement | None = None) -> Traffic:
        """Render every request of the dataset once; data in shared memory is only referenced."""
        options = self._options
        wiring = self._control.wiring(
            "ModelStreamInfer" if options.streaming else "ModelInfer",
            options,
            is_streaming=options.streaming,
            has_ids=model.any_sequence if options.has_ids is None else options.has_ids,
        )
        parameters = (*options.request_parameters, ("triton_enable_empty_final_response", "true", "bool"))
        requests = tuple(
            render_request(model, step, placement, parameters) for step in placed(steps, placement)
        )
        return Traffic(wiring, requests, findings=(plain_sentence(self),) if model.is_plain else ())

    def caller(self, model: ModelSpec, sample: Sequence[Tensor]) -> "TensorCalls":
        """Return the generator of requests under load; inputs not given in a call come from the sample."""
        from inferometer.services.calls import KeptHeads, TensorCalls

        rendering = KeptHeads(_Rendering(model, self._options.request_parameters), raw_input)
        return TensorCalls(model, rendering, {tensor.name: tensor for tensor in sample})

    def read_outputs(self, body: bytes, header_length: int | None) -> dict[str, bytes]:
        """Return the raw values in a ModelInferResponse, without those in shared memory."""
        return grpc_outputs(body)

    def infer(self, request: bytes) -> dict[str, Tensor]:
        """Send a rendered request and return the outputs by name."""
        return grpc_tensors(self._control.call_bytes("ModelInfer", request))

    def message_types(self) -> tuple[Any, Any]:
        reply = "ModelStreamInferResponse" if self._options.streaming else "ModelInferResponse"
        return service_pb2.ModelInferRequest, getattr(service_pb2, reply)


@frozen
class _Rendering:
    """Renderer of requests for one model."""

    model: ModelSpec
    parameters: tuple[tuple[str, str, str], ...]

    def __call__(self, step: Sequence[Tensor]) -> bytes:
        return render_request(self.model, [(tensor, None) for tensor in step], None, self.parameters)


def render_request(
    model: ModelSpec,
    step: Sequence[Placed],
    placement: Placement | None,
    parameters: tuple[tuple[str, str, str], ...],
) -> bytes:
    """Render a ModelInferRequest; tensors in shared memory are only referenced."""
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


def _point(parameters: MutableMapping[str, Any], part: RegionPart) -> None:
    for name, value in part.parameters().items():
        setattr(parameters[name], "string_param" if isinstance(value, str) else "int64_param", value)


def _set_parameter(parameter: Any, name: str, value: str, kind: str) -> None:
    if kind == "string":
        parameter.string_param = value
    elif kind == "bool" and value.lower() in ("true", "false"):
        parameter.bool_param = value.lower() == "true"
    elif kind == "int" and _INTEGER.fullmatch(value) and -(2**63) <= int(value) < 2**63:
        parameter.int64_param = int(value)
    else:
        raise UsageError(
            f"the request parameter '{name}' has the value '{value}', which is not a valid {kind}",
            remedy="write true or false for bool, an integer of up to 64 bits for int",
        )
