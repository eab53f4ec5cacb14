"""Triton over HTTP: the KServe v2 protocol with its binary tensor, configuration and statistics extensions."""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from inferometer.base.errors import PeerError
from inferometer.model.spec import ModelSpec, TensorSpec
from inferometer.model.tensor import Tensor
from inferometer.target.control import HttpControl
from inferometer.target.endpoint import Connection
from inferometer.target.traffic import Traffic
from inferometer.wire.http1 import encode_request


class TritonHttp:
    """A Triton server at one address."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._control = HttpControl(connection)

    def server(self) -> Mapping[str, Any]:
        """Name, version and extensions."""
        return dict(self._control.get("/v2"))

    def model(self, name: str, version: str, called: Sequence[tuple[str, str]] = ()) -> ModelSpec:
        """What the server says of a model and of all it is composed of; `called` are models that its code calls."""
        metadata = self._get("metadata", _path(name, version))
        config = self._get("config", f"{_path(name, version)}/config")
        return _spec(name, version, metadata, config, self._members(config, called))

    def _members(self, config: Mapping[str, Any], called: Sequence[tuple[str, str]]) -> tuple[ModelSpec, ...]:
        steps = config.get("ensemble_scheduling", {}).get("step", ())
        names = {(step["model_name"], _version(step.get("model_version", -1))) for step in steps}
        return tuple(self._member(name, version) for name, version in sorted(names | set(called)))

    def _member(self, name: str, version: str) -> ModelSpec:
        config = self._get("config", f"{_path(name, version)}/config")
        return _spec(name, version, {"inputs": (), "outputs": ()}, config, self._members(config, ()))

    def _get(self, what: str, path: str) -> Mapping[str, Any]:
        try:
            document = self._control.get(path)
        except PeerError as error:
            raise PeerError(f"failed to get model {what}: {error.message}", remedy=error.remedy) from error
        if not isinstance(document, dict):
            raise PeerError(f"failed to get model {what}: the answer is not an object")
        return document

    def statistics(self, model: ModelSpec) -> list[Mapping[str, Any]]:
        """The raw statistics of the model, or of all models when it is composed of others."""
        path = "/v2/models/stats" if model.composing else f"{_path(model.name, model.version)}/stats"
        document = self._control.get(path)
        return list(document.get("model_stats", ()))

    def traffic(self, model: ModelSpec, steps: Sequence[Sequence[Tensor]]) -> Traffic:
        """Every request of the dataset, rendered once."""
        return Traffic(self._connection.endpoint, tuple(self._render(model, step) for step in steps))

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


def _version(number: object) -> str:
    """Configurations write the version as a number or as its digits; -1 leaves it open."""
    text = str(number)
    return "" if text == "-1" else text


def _spec(
    name: str,
    version: str,
    metadata: Mapping[str, Any],
    config: Mapping[str, Any],
    composing: tuple[ModelSpec, ...],
) -> ModelSpec:
    max_batch_size = int(config.get("max_batch_size", 0))
    inputs = {row["name"]: row for row in config.get("input", ())}
    return ModelSpec(
        name=name,
        version=version,
        inputs=_tensors(metadata.get("inputs", ()), inputs, max_batch_size > 0),
        outputs=_tensors(metadata.get("outputs", ()), {}, max_batch_size > 0),
        max_batch_size=max_batch_size,
        is_ensemble=config.get("platform") == "ensemble",
        is_decoupled=bool(config.get("model_transaction_policy", {}).get("decoupled", False)),
        is_sequence="sequence_batching" in config,
        has_cache=bool(config.get("response_cache", {}).get("enable", False)),
        composing=composing,
        config=config,
    )


def _tensors(
    rows: Sequence[Mapping[str, Any]], configs: Mapping[str, Mapping[str, Any]], is_batched: bool
) -> tuple[TensorSpec, ...]:
    return tuple(
        _tensor(row, configs.get(row["name"], {}), is_batched)
        for row in sorted(rows, key=lambda row: row["name"])
    )


def _tensor(row: Mapping[str, Any], config: Mapping[str, Any], is_batched: bool) -> TensorSpec:
    is_shape_tensor = bool(config.get("is_shape_tensor", False))
    shape = tuple(int(dim) for dim in row["shape"])
    return TensorSpec(
        name=row["name"],
        datatype=row["datatype"],
        shape=shape[1:] if is_batched and not is_shape_tensor else shape,
        optional=bool(config.get("optional", False)),
        is_shape_tensor=is_shape_tensor,
    )
