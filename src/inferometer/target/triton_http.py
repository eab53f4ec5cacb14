"""Triton over HTTP: the KServe v2 protocol with its binary tensor, configuration and statistics extensions."""

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from inferometer.base.errors import PeerError
from inferometer.model.spec import ModelSpec
from inferometer.model.tensor import Tensor
from inferometer.target.control import HttpControl
from inferometer.target.discovery import Document
from inferometer.target.endpoint import Connection
from inferometer.target.traffic import Traffic, Wiring
from inferometer.wire.http1 import encode_request


class TritonHttp:
    """A Triton server at one address."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._control = HttpControl(connection)

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

    def statistics(self, model: ModelSpec) -> list[Document]:
        """The raw statistics of the model, or of all models when it is composed of others."""
        path = "/v2/models/stats" if model.composing else f"{_path(model.name, model.version)}/stats"
        return list(self._object(path).get("model_stats", ()))

    def _object(self, path: str) -> Document:
        document: Any = self._control.get(path)
        if not isinstance(document, dict):
            raise PeerError(f"the server's answer to GET {path} is not an object")
        return document

    # --- inference

    def traffic(self, model: ModelSpec, steps: Sequence[Sequence[Tensor]]) -> Traffic:
        """Every request of the dataset, rendered once."""
        wiring = Wiring(self._connection.endpoint)
        return Traffic(wiring, tuple(self._render(model, step) for step in steps))

    def _render(self, model: ModelSpec, step: Sequence[Tensor]) -> bytes:
        header = {
            "id": "",
            "inputs": [
                {
                    "name": tensor.name,
                    "datatype": tensor.datatype,
                    "shape": list(tensor.shape),
                    "parameters": {"binary_data_size": len(tensor.data)},
                }
                for tensor in step
            ],
            "outputs": [
                {"name": output.name, "parameters": {"binary_data": True}} for output in model.outputs
            ],
        }
        document = json.dumps(header, separators=(",", ":")).encode()
        length = len(document) + sum(len(tensor.data) for tensor in step)
        head = encode_request(
            "POST",
            f"{self._connection.endpoint.prefix}{_path(model.name, model.version)}/infer",
            (
                ("Host", self._connection.endpoint.authority),
                ("Content-Type", "application/octet-stream"),
                ("Inference-Header-Content-Length", str(len(document))),
                *self._connection.headers,
            ),
            length,
        )
        return b"".join((head, document, *(tensor.data for tensor in step)))


def _path(name: str, version: str) -> str:
    path = f"/v2/models/{quote(name, safe='')}"
    return f"{path}/versions/{quote(version, safe='')}" if version else path
