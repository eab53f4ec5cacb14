"""The model control API: which models a server has, loading them with a configuration sent along, unloading."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote

from inferometer.base.errors import PeerError
from inferometer.model.answers import CONFIG, INDEX
from inferometer.services.endpoint import Connection
from inferometer.services.http_control import LOAD_TIMEOUT_S, HttpControl

READY = "READY"


@dataclass(frozen=True, slots=True)
class ModelState:
    """A row of the server's index."""

    name: str
    version: str = ""
    state: str = ""  # READY, UNAVAILABLE ...; empty for a model that was never loaded
    reason: str = ""


class Repository(Protocol):
    """Model control at one server."""

    def is_ready(self) -> bool:
        """Whether the server answers and takes requests."""

    def index(self) -> tuple[ModelState, ...]: ...

    def config(self, model: str) -> Mapping[str, Any]:
        """Of a loaded model, completed by the server."""

    def load(self, model: str, config: Mapping[str, Any] | None = None) -> None:
        """With this configuration, or with the one in the server's own folder; returns when it is ready."""

    def unload(self, model: str) -> None: ...


class HttpRepository:
    """Over HTTP."""

    def __init__(self, connection: Connection) -> None:
        self._control = HttpControl(connection)

    def is_ready(self) -> bool:
        try:
            return self._control.exchange("GET", "/v2/health/ready")[0] == 200
        except PeerError:
            return False

    def index(self) -> tuple[ModelState, ...]:
        return tuple(_state(row) for row in self._control.ask("/v2/repository/index", {}, INDEX))

    def config(self, model: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._control.get(f"/v2/models/{quote(model, safe='')}/config", CONFIG)
        return found

    def load(self, model: str, config: Mapping[str, Any] | None = None) -> None:
        body = {} if config is None else {"parameters": {"config": json.dumps(config)}}
        self._control.post(
            f"/v2/repository/models/{quote(model, safe='')}/load", body, timeout_s=LOAD_TIMEOUT_S
        )

    def unload(self, model: str) -> None:
        self._control.post(f"/v2/repository/models/{quote(model, safe='')}/unload", {})


def _state(row: Mapping[str, Any]) -> ModelState:
    return ModelState(row["name"], row.get("version", ""), row.get("state", ""), row.get("reason", ""))


class GrpcRepository:
    """Over gRPC, with the official messages."""

    def __init__(self, connection: Connection) -> None:
        from inferometer.services.grpc_control import GrpcControl
        from inferometer.services.messages import load_messages

        self._messages = load_messages()
        self._control = GrpcControl(connection, "inference.GRPCInferenceService")

    def _call(self, method: str, **fields: Any) -> Any:
        asked = getattr(self._messages, f"{method}Request")(**fields)
        return self._control.call(method, asked, getattr(self._messages, f"{method}Response"))

    def is_ready(self) -> bool:
        try:
            return bool(self._call("ServerReady").ready)
        except PeerError:
            return False

    def index(self) -> tuple[ModelState, ...]:
        return tuple(
            ModelState(row.name, row.version, row.state, row.reason)
            for row in self._call("RepositoryIndex").models
        )

    def config(self, model: str) -> Mapping[str, Any]:
        from inferometer.services.grpc_control import document

        return document(self._call("ModelConfig", name=model).config, CONFIG, "ModelConfig")

    def load(self, model: str, config: Mapping[str, Any] | None = None) -> None:
        asked = self._messages.RepositoryModelLoadRequest(model_name=model)
        if config is not None:
            asked.parameters["config"].string_param = json.dumps(config)
        reply = self._messages.RepositoryModelLoadResponse
        self._control.call("RepositoryModelLoad", asked, reply, timeout_s=LOAD_TIMEOUT_S)

    def unload(self, model: str) -> None:
        self._call("RepositoryModelUnload", model_name=model)
