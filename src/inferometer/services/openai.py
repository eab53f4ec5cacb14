"""OpenAI-style servers: chat completions, completions and embeddings over HTTP, answered whole or event by event."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from inferometer.base.errors import MissingError
from inferometer.model.answers import OPENAI_MODELS
from inferometer.model.spec import ModelSpec, TensorSpec
from inferometer.model.tensor import Tensor
from inferometer.options.options import Options
from inferometer.services.chat import Chat
from inferometer.services.endpoint import Connection
from inferometer.services.http_control import HttpControl
from inferometer.services.kind import Document
from inferometer.services.openai_reply import OpenAiReader
from inferometer.services.shared_memory import Placement
from inferometer.services.traffic import Traffic, Wiring
from inferometer.wire.http1 import encode_request

PAYLOAD = TensorSpec("payload", "JSON", (1,))
"""The one input: the JSON body of a request. Data may also hold `prompt` or `messages`, of which one is made."""

RESPONSE = TensorSpec("response", "JSON", (1,))
"""What comes back: a document, or one event of a stream."""

_CHAT = "v1/chat/completions"


class OpenAi:
    """An OpenAI-style server at one address."""

    def __init__(self, connection: Connection, options: Options) -> None:
        self._connection = connection
        self._options = options
        self._control = HttpControl(connection)

    # --- control calls

    def server(self) -> Document:
        raise MissingError("such servers say nothing of themselves")

    def models(self) -> list[str]:
        """Names of the models it lists."""
        prefix = "" if self._connection.endpoint.prefix.endswith("/v1") else "/v1"
        rows = self._control.get(f"{prefix}/models", OPENAI_MODELS).get("data", ())
        return [row["id"] for row in rows if "id" in row]

    def describe(self, name: str, version: str, called: Sequence[tuple[str, str]]) -> ModelSpec:
        """Nothing is asked: a payload names its own model."""
        return ModelSpec(name=name, version=version, inputs=(PAYLOAD,), outputs=(RESPONSE,))

    def read_outputs(self, body: bytes, header_length: int | None) -> Mapping[str, bytes]:
        return {RESPONSE.name: body}

    def statistics(self, model: ModelSpec) -> Sequence[Document]:
        return ()

    # --- requests

    def traffic(
        self, model: ModelSpec, steps: Sequence[Sequence[Tensor]], placement: Placement | None = None
    ) -> Traffic:
        has_sessions = self._options.session_concurrency is not None
        wiring = Wiring(
            self._connection.endpoint,
            reader=OpenAiReader(
                keeps_message=has_sessions, keeps_texts=self._options.profile_export is not None
            ),
            dialogue=Chat(self.path, self._headers) if has_sessions else None,
        )
        return Traffic(wiring, tuple(self._render(self._body(model, step)) for step in steps))

    @property
    def path(self) -> str:
        """The endpoint appended to the address, which may name it already when none is given."""
        prefix, endpoint = self._connection.endpoint.prefix, self._options.endpoint.lstrip("/")
        if endpoint:
            return f"{prefix}/{endpoint}"
        if prefix.endswith(("/completions", "/embeddings")):
            return prefix
        return f"{prefix}/{_CHAT.removeprefix('v1/') if prefix.endswith('/v1') else _CHAT}"

    @property
    def _headers(self) -> tuple[tuple[str, str], ...]:
        return (
            ("Host", self._connection.endpoint.authority),
            ("Content-Type", "application/json"),
            *self._connection.headers,
        )

    def _render(self, body: bytes) -> bytes:
        return encode_request("POST", self.path, self._headers, len(body)) + body

    def _body(self, model: ModelSpec, step: Sequence[Tensor]) -> bytes:
        """A payload as it was given, or one made of a prompt."""
        tensors = {tensor.name: tensor.data for tensor in step}
        if PAYLOAD.name in tensors:
            return tensors[PAYLOAD.name]
        if "messages" in tensors:
            given: Mapping[str, Any] = {"messages": json.loads(tensors["messages"])}
        else:
            given = self._asking(tensors["prompt"].decode("utf-8", "replace"))
        return json.dumps(
            self._payload(model.name, given), separators=(",", ":"), ensure_ascii=False
        ).encode()

    def _asking(self, prompt: str) -> Mapping[str, Any]:
        if self.path.endswith("/embeddings"):
            return {"input": prompt}
        return (
            {"messages": [{"role": "user", "content": prompt}]} if "chat" in self.path else {"prompt": prompt}
        )

    def _payload(self, model: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
        options = self._options
        payload: dict[str, Any] = {"model": model, **given}
        if "input" in payload:
            return payload
        if options.output_tokens is not None:
            payload["max_tokens"] = options.output_tokens
        if options.streaming:
            payload |= {"stream": True, "stream_options": {"include_usage": True}}
        return payload
