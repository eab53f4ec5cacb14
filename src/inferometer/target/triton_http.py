"""Triton over HTTP: the KServe v2 protocol with its binary tensor, configuration and statistics extensions."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from inferometer.base.errors import PeerError, UsageError
from inferometer.model.numbers import decode
from inferometer.model.spec import ModelSpec, TensorSpec
from inferometer.model.tensor import Tensor
from inferometer.target.control import LOAD_TIMEOUT_S, HttpControl, reason_of
from inferometer.target.discovery import Document
from inferometer.target.endpoint import Connection
from inferometer.target.sequence_marks import PLACE
from inferometer.target.shared_memory import Part, Placed, Placement, maybe_part, placed
from inferometer.target.trace import Settings
from inferometer.target.traffic import Traffic, Wiring
from inferometer.target.validation import http_outputs, http_tensors
from inferometer.wire.http1 import encode_request

BINARY, JSON = "binary", "json"
_TRACE_PATH = "/v2/trace/setting"
_NOT_IN_JSON = ("FP16", "BF16")  # Triton: "receiving FP16 data via JSON is not supported"


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """How tensors travel that are not in shared memory: behind the JSON header, or in it."""

    input_format: str = BINARY
    output_format: str = BINARY


class TritonHttp:
    """A Triton server at one address."""

    def __init__(self, connection: Connection, options: HttpOptions | None = None) -> None:
        self._connection = connection
        self._options = HttpOptions() if options is None else options
        self._control = HttpControl(connection)

    def __reduce__(self) -> tuple[Any, ...]:
        return TritonHttp, (self._connection, self._options)  # the control's TLS context cannot be pickled

    # --- control calls

    def server(self) -> Document:
        """Name, version and extensions."""
        return self._object("/v2")

    def metadata(self, name: str, version: str) -> Document:
        return self._object(_path(name, version))

    def config(self, name: str, version: str) -> Document:
        return self._object(f"{_path(name, version)}/config")

    def models(self) -> list[str]:
        return [
            str(row["name"])
            for row in self._control.post("/v2/repository/index", {})
            if row.get("state") == "READY"
        ]

    def load_model(self, name: str, config: Document | None = None) -> None:
        """Load or reload a model, with this configuration instead of the one in the repository."""
        parameters = {} if config is None else {"parameters": {"config": json.dumps(config)}}
        path = f"/v2/repository/models/{quote(name, safe='')}/load"
        self._control.post(path, parameters, timeout_s=LOAD_TIMEOUT_S)

    def statistics(self, model: ModelSpec) -> list[Document]:
        """The raw statistics of the model, or of all models when it is composed of others."""
        path = "/v2/models/stats" if model.composing else f"{_path(model.name, model.version)}/stats"
        found: list[Document] = self._object(path).get("model_stats", [])
        return found

    def _object(self, path: str) -> Document:
        document: Any = self._control.get(path)
        if not isinstance(document, dict):
            raise PeerError(f"the server's answer to GET {path} is not an object")
        return document

    def register_system_memory(self, region: str, *, key: str, size: int) -> None:
        self._control.post(
            f"/v2/systemsharedmemory/region/{region}/register", {"key": key, "offset": 0, "byte_size": size}
        )

    def register_cuda_memory(self, region: str, *, handle: bytes, device: int, size: int) -> None:
        self._control.post(
            f"/v2/cudasharedmemory/region/{region}/register",
            {
                "raw_handle": {"b64": base64.b64encode(handle).decode()},
                "device_id": device,
                "byte_size": size,
            },
        )

    def unregister_memory(self, kind: str, region: str) -> None:
        """Forget a region; one that is not known is no error."""
        self._control.post(f"/v2/{kind}sharedmemory/region/{region}/unregister", {})

    def trace_settings(self) -> Settings:
        """What holds for all models that have no settings of their own."""
        return {
            name: tuple(map(str, value)) if isinstance(value, list) else (str(value),)
            for name, value in self._object(_TRACE_PATH).items()
        }

    def change_trace_settings(self, settings: Settings) -> None:
        document = {
            name: list(values) if name == "trace_level" else values[0] for name, values in settings.items()
        }
        self._control.post(_TRACE_PATH, document)

    # --- inference

    def traffic(
        self, model: ModelSpec, steps: Sequence[Sequence[Tensor]], placement: Placement | None = None
    ) -> Traffic:
        """Every request of the dataset, rendered once; what is placed in shared memory is only pointed at."""
        outputs = [self._output(output, maybe_part(placement, output.name)) for output in model.outputs]
        requests = tuple(self._render(model, step, outputs) for step in placed(steps, placement))
        return Traffic(Wiring(self._connection.endpoint), requests)

    def read_outputs(self, body: bytes, header_length: int | None) -> dict[str, bytes]:
        """The raw values in a reply; those in shared memory are not in it."""
        return http_outputs(body, None if header_length is None else str(header_length))

    def infer(self, request: bytes) -> dict[str, Tensor]:
        """The outputs that come back for a rendered request, by name."""
        status, header_length, body = self._control.send(request)
        if status != 200:
            raise PeerError(reason_of(body) or f"the server answered with status {status}")
        return http_tensors(body, header_length)

    def _render(self, model: ModelSpec, step: Sequence[Placed], outputs: Sequence[Document]) -> bytes:
        inputs = [self._input(tensor, part) for tensor, part in step]
        tensors = [data for _, data in inputs]
        length = sum(map(len, tensors))
        header = {"id": "", "inputs": [described for described, _ in inputs], "outputs": outputs}
        document = json.dumps(header, separators=(",", ":")).encode()
        if model.any_sequence:
            document = document.replace(b'{"id":"",', b'{"id":"","parameters":{' + PLACE + b"},", 1)
        head = encode_request(
            "POST",
            f"{self._connection.endpoint.prefix}{_path(model.name, model.version)}/infer",
            (
                ("Host", self._connection.endpoint.authority),
                ("Content-Type", "application/octet-stream" if length else "application/json"),
                ("Inference-Header-Content-Length", str(len(document))),
                *self._connection.headers,
            ),
            len(document) + length,
        )
        return b"".join((head, document, *tensors))

    def _input(self, tensor: Tensor, part: Part | None) -> tuple[Document, bytes]:
        """What the header says of a tensor, and the bytes that follow the header for it."""
        described: Document = {
            "name": tensor.name,
            "datatype": tensor.datatype,
            "shape": list(tensor.shape),
        }
        if part is not None:
            return {**described, "parameters": part.parameters()}, b""
        if self._options.input_format == JSON:
            return {**described, "data": _elements(tensor)}, b""
        return {**described, "parameters": {"binary_data_size": len(tensor.data)}}, tensor.data

    def _output(self, output: TensorSpec, part: Part | None) -> Document:
        if part is not None:
            return {"name": output.name, "parameters": part.parameters()}
        is_binary = self._options.output_format == BINARY
        if not is_binary and output.datatype in _NOT_IN_JSON:
            raise _no_json("output", output.name, output.datatype)
        return {"name": output.name, "parameters": {"binary_data": is_binary}}


def _elements(tensor: Tensor) -> list[Any]:
    """The values of a tensor as JSON has them: row-major, BYTES as strings."""
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
                remedy="leave out --input-tensor-format json",
            ) from error
    return values


def _no_json(noun: str, name: str, datatype: str) -> UsageError:
    return UsageError(
        f"{noun} '{name}' is of datatype {datatype}, which Triton does not take or give as JSON",
        remedy=f"leave out --{noun}-tensor-format json",
    )


def _path(name: str, version: str) -> str:
    path = f"/v2/models/{quote(name, safe='')}"
    return f"{path}/versions/{quote(version, safe='')}" if version else path
