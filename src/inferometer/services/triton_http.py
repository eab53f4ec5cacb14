"""Triton over HTTP: the KServe v2 protocol with its binary tensor, configuration and statistics extensions."""

import base64
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from inferometer.base.errors import MissingError, PeerError, UsageError
from inferometer.base.frozen import frozen
from inferometer.model import answers
from inferometer.model.spec import ModelSpec, Tensor, TensorSpec
from inferometer.options.names import option_name
from inferometer.options.options import Options
from inferometer.services.discovery import READY, ModelState, describe_model, plain_sentence
from inferometer.services.endpoint import Connection
from inferometer.services.http_control import LOAD_TIMEOUT_S, HttpControl, reason_of
from inferometer.services.kind import Document, Service
from inferometer.services.kserve import ID_PLACE, PLACE, http_outputs, http_tensors
from inferometer.services.shared_memory import Placed, Placement, RegionFields, RegionPart, maybe_part, placed
from inferometer.services.traffic import Steps, Traffic, Wiring, render_http
from inferometer.services.undo import TraceSettings

if TYPE_CHECKING:  # only visits need these
    from inferometer.services.calls import TensorCalls

BINARY, JSON = "binary", "json"
_TRACE_PATH = "/v2/trace/setting"
_NOT_IN_JSON = ("FP16", "BF16")  # Triton: "receiving FP16 data via JSON is not supported"


class TritonHttp(Service):
    """A Triton server at one address."""

    def __init__(self, connection: Connection, options: Options | None = None) -> None:
        self._connection = connection
        self._options = Options() if options is None else options
        self._control = HttpControl(connection)
        self._taken: dict[str, tuple[Options, tuple[str, ...]]] = {}  # by model: formats, and findings

    # --- control calls

    def server(self) -> Document:
        """Return name, version and extensions of the server."""
        return self._get("/v2", answers.SERVER)

    def describe(self, name: str, version: str, called: Sequence[tuple[str, str]]) -> ModelSpec:
        return describe_model(self, name, version, called)

    def metadata(self, name: str, version: str) -> Document:
        return self._get(_path(name, version), answers.METADATA)

    def config(self, name: str, version: str = "") -> Document:
        return self._get(f"{_path(name, version)}/config", answers.CONFIG)

    def is_ready(self) -> bool:
        try:
            return self._control.exchange("GET", "/v2/health/ready")[0] == 200
        except PeerError:
            return False

    def index(self) -> tuple[ModelState, ...]:
        rows = self._control.post("/v2/repository/index", {}, answers.INDEX)
        return tuple(ModelState(row["name"], row.get("state", "")) for row in rows)

    def models(self) -> list[str]:
        try:
            return [row.name for row in self.index() if row.state == READY]
        except MissingError:  # some servers without a repository still list their models
            return list(self._get("/v2/models", answers.MODELS).get("models", ()))

    def load_model(self, name: str, config: Document | None = None) -> None:
        parameters = {} if config is None else {"parameters": {"config": json.dumps(config)}}
        self._control.post(_repository_path(name, "load"), parameters, timeout_s=LOAD_TIMEOUT_S)

    def unload_model(self, name: str) -> None:
        self._control.post(_repository_path(name, "unload"), {})

    def statistics(self, model: ModelSpec) -> list[Document]:
        """Return the raw statistics of the model, or of all models if it is composed of others."""
        path = "/v2/models/stats" if model.composing else f"{_path(model.name, model.version)}/stats"
        found: list[Document] = self._get(path, answers.STATISTICS).get("model_stats", [])
        return found

    def _get(self, path: str, shape: answers.Shape) -> Document:
        document: Document = self._control.get(path, shape)
        return document

    def register_memory(self, kind: str, region: str, fields: RegionFields) -> None:
        document = {
            name: {"b64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value
            for name, value in fields.items()
        }
        self._control.post(f"/v2/{kind}sharedmemory/region/{region}/register", document)

    def unregister_memory(self, kind: str, region: str) -> None:
        self._control.post(f"/v2/{kind}sharedmemory/region/{region}/unregister", {})

    def trace_settings(self) -> TraceSettings:
        """Return the global trace settings, which apply to all models without their own."""
        return self._get(_TRACE_PATH, answers.TRACE_SETTINGS)

    def change_trace_settings(self, settings: TraceSettings) -> None:
        document = {
            name: list(values) if name == "trace_level" else values[0] for name, values in settings.items()
        }
        self._control.post(_TRACE_PATH, document)

    # --- inference

    def traffic(self, model: ModelSpec, steps: Steps, placement: Placement | None = None) -> Traffic:
        """Render every request of the dataset once; data in shared memory is only referenced."""
        formats, findings = self._options, tuple[str, ...]()
        if model.is_plain and steps and placement is None:
            formats, findings = self._formats_taken(model, steps[0])
        has_ids = model.any_sequence if formats.has_ids is None else formats.has_ids
        rendering = _Rendering(self._connection, model, formats, placement, has_ids)
        requests = tuple(rendering.whole(step) for step in placed(steps, placement))
        wiring = Wiring(self._connection.endpoint, has_ids=has_ids)
        return Traffic(wiring, requests, findings=findings)

    def caller(self, model: ModelSpec, sample: Sequence[Tensor]) -> "TensorCalls":
        """Return the generator of requests under load; inputs not given in a call come from the sample."""
        from inferometer.services.calls import KeptHeads, TensorCalls

        formats = self._formats_taken(model, sample)[0] if model.is_plain else self._options
        chosen = Options(input_format=formats.input_format, output_format=formats.output_format)
        rendering = KeptHeads(_Rendering(self._connection, model, chosen, None), bytes)
        return TensorCalls(model, rendering, {tensor.name: tensor for tensor in sample})

    def read_outputs(self, body: bytes, header_length: int | None) -> dict[str, bytes]:
        """Return the raw values in a reply, without those in shared memory."""
        return http_outputs(body, None if header_length is None else str(header_length))

    def infer(self, request: bytes) -> dict[str, Tensor]:
        """Send a rendered request and return the outputs by name."""
        header_length, body = self._control.infer(request)
        return http_tensors(body, header_length)

    def _formats_taken(self, model: ModelSpec, step: Sequence[Tensor]) -> tuple[Options, tuple[str, ...]]:
        """Return the formats for a server that is not Triton: binary tensors only if it accepts them."""
        if model.name not in self._taken:
            self._taken[model.name] = self._find_formats(model, step)
        return self._taken[model.name]

    def _find_formats(self, model: ModelSpec, step: Sequence[Tensor]) -> tuple[Options, tuple[str, ...]]:
        asked = self._options
        if asked.is_dry:
            return asked, (
                plain_sentence(self, "support for binary tensors unknown until the first inference"),
            )
        if asked.input_format == JSON or _is_good(self._ask(model, step, asked)[0]):
            return asked, (plain_sentence(self),)
        as_json = replace(asked, input_format=JSON, output_format=JSON)
        status, text = self._ask(model, step, as_json)
        if not _is_good(status):
            raise PeerError(
                f"the server accepts tensors of '{model.name}' neither as binary data nor as JSON "
                f"(status {status}): {reason_of(text)}",
                remedy="check the data and its shape",
            )
        return as_json, (plain_sentence(self, "no binary tensors (sending JSON)"),)

    def _ask(self, model: ModelSpec, step: Sequence[Tensor], formats: Options) -> tuple[int, bytes]:
        """Send one inference in these formats before the load."""
        headers, body = _Rendering(self._connection, model, formats, None).parts(
            [(tensor, None) for tensor in step]
        )
        return self._control.exchange(
            "POST", f"{_path(model.name, model.version)}/infer", body, headers=headers
        )


@frozen
class _Rendering:
    """Renderer of requests for one model, with tensors in these formats."""

    connection: Connection
    model: ModelSpec
    formats: Options
    placement: Placement | None
    has_ids: bool = False

    def __call__(self, step: Sequence[Tensor]) -> bytes:
        return self.whole([(tensor, None) for tensor in step])

    def whole(self, step: Sequence[Placed]) -> bytes:
        headers, body = self.parts(step)
        path = f"{self.connection.endpoint.prefix}{_path(self.model.name, self.model.version)}/infer"
        return render_http(self.connection, path, body, headers)

    def parts(self, step: Sequence[Placed]) -> tuple[tuple[tuple[str, str], ...], bytes]:
        """Return the headers that describe the body, and the body."""
        inputs = [self._input(tensor, part) for tensor, part in step]
        outputs = [
            self._output(output, maybe_part(self.placement, output.name)) for output in self.model.outputs
        ]
        tensors = [data for _, data in inputs]
        header: dict[str, Any] = {
            "id": "",
            "inputs": [described for described, _ in inputs],
            "outputs": outputs,
        }
        if not outputs and self.model.is_plain:
            del header["outputs"]
        document = json.dumps(header, separators=(",", ":")).encode()
        if self.model.any_sequence:
            document = document.replace(b'{"id":"",', b'{"id":"","parameters":{' + PLACE + b"},", 1)
        if self.has_ids:
            document = document.replace(b'{"id":""', b'{"id":' + ID_PLACE, 1)
        is_binary = any(tensors)
        headers = [("Content-Type", "application/octet-stream" if is_binary else "application/json")]
        if is_binary or not self.model.is_plain:  # plain servers may not support the extension
            headers.append(("Inference-Header-Content-Length", str(len(document))))
        return tuple(headers), b"".join((document, *tensors))

    def _input(self, tensor: Tensor, part: RegionPart | None) -> tuple[Document, bytes]:
        """Return the header entry of a tensor, and its bytes after the header."""
        described: Document = {
            "name": tensor.name,
            "datatype": tensor.datatype,
            "shape": list(tensor.shape),
        }
        if part is not None:
            return {**described, "parameters": part.parameters()}, b""
        if self.formats.input_format == JSON:
            return {**described, "data": _elements(tensor)}, b""
        return {**described, "parameters": {"binary_data_size": len(tensor.data)}}, tensor.data

    def _output(self, output: TensorSpec, part: RegionPart | None) -> Document:
        if part is not None:
            return {"name": output.name, "parameters": part.parameters()}
        is_binary = self.formats.output_format == BINARY
        if self.model.is_plain and not is_binary:
            return {"name": output.name}
        if not is_binary and output.datatype in _NOT_IN_JSON:
            raise _no_json("output", output.name, output.datatype)
        return {"name": output.name, "parameters": {"binary_data": is_binary}}


def _elements(tensor: Tensor) -> list[Any]:
    """Convert the values of a tensor to JSON: row-major, BYTES as strings."""
    from inferometer.model.numbers import decode

    if tensor.datatype in _NOT_IN_JSON:
        raise _no_json("input", tensor.name, tensor.datatype)
    values = decode(tensor.datatype, tensor.data)
    if tensor.datatype != "BYTES":
        return values
    for number, value in enumerate(values):
        try:
            values[number] = value.decode()
        except UnicodeDecodeError as error:
            raise UsageError(
                f"element {number} of input '{tensor.name}' is not UTF-8 text and cannot be sent as JSON",
                remedy=f"leave out {option_name('--input-tensor-format', 'json')}",
            ) from error
    return values


def _no_json(noun: str, name: str, datatype: str) -> UsageError:
    return UsageError(
        f"{noun} '{name}' is of datatype {datatype}, which Triton does not take or give as JSON",
        remedy=f"leave out --{noun}-tensor-format json",
    )


def _is_good(status: int) -> bool:
    return 200 <= status < 300


def _repository_path(name: str, call: str) -> str:
    return f"/v2/repository/models/{quote(name, safe='')}/{call}"


def _path(name: str, version: str) -> str:
    path = f"/v2/models/{quote(name, safe='')}"
    return f"{path}/versions/{quote(version, safe='')}" if version else path
