"""OpenAI-style servers: chat completions, completions and embeddings over HTTP, answered whole or event by event."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from inferometer.base.text import encode_json
from inferometer.model.answers import OPENAI_MODELS
from inferometer.model.spec import ModelSpec, Tensor, TensorSpec
from inferometer.options.options import Options
from inferometer.services.endpoint import Connection
from inferometer.services.http_control import HttpControl
from inferometer.services.kind import RESPONSE, Service
from inferometer.services.openai_reply import OpenAiReader
from inferometer.services.shared_memory import Placement
from inferometer.services.traffic import Reply, Steps, Traffic, Wiring, render_http

PAYLOAD = TensorSpec("payload", "JSON", (1,))
"""The one input: the JSON body of a request. Data may also hold `prompt` or `messages`, of which one is made."""

_CHAT = "v1/chat/completions"


class OpenAi(Service):
    """An OpenAI-style server at one address."""

    def __init__(self, connection: Connection, options: Options) -> None:
        self._connection = connection
        self._options = options
        self._control = HttpControl(connection)

    # --- control calls

    def models(self) -> list[str]:
        """Names of the models it lists."""
        prefix = "" if self._connection.endpoint.prefix.endswith("/v1") else "/v1"
        rows = self._control.get(f"{prefix}/models", OPENAI_MODELS).get("data", ())
        return [row["id"] for row in rows if "id" in row]

    def describe(self, name: str, version: str, called: Sequence[tuple[str, str]]) -> ModelSpec:
        """Nothing is asked: a payload names its own model."""
        return ModelSpec(
            name=name, version=version, inputs=(PAYLOAD,), outputs=(TensorSpec(RESPONSE, "JSON", (1,)),)
        )

    # --- requests

    def traffic(self, model: ModelSpec, steps: Steps, placement: Placement | None = None) -> Traffic:
        has_sessions = self._options.session_concurrency is not None
        wiring = Wiring(
            self._connection.endpoint,
            reader=OpenAiReader(
                keeps_message=has_sessions, keeps_texts=self._options.profile_export is not None
            ),
            conversations=Chats(self._connection, self.path) if has_sessions else None,
        )
        bodies = (self._body(model, step) for step in steps)
        return Traffic(wiring, tuple(render_http(self._connection, self.path, body) for body in bodies))

    @property
    def path(self) -> str:
        """The endpoint appended to the address, which may name it already when none is given."""
        prefix, endpoint = self._connection.endpoint.prefix, self._options.endpoint.lstrip("/")
        if endpoint:
            return f"{prefix}/{endpoint}"
        if prefix.endswith(("/completions", "/embeddings")):
            return prefix
        return f"{prefix}/{_CHAT.removeprefix('v1/') if prefix.endswith('/v1') else _CHAT}"

    def _body(self, model: ModelSpec, step: Sequence[Tensor]) -> bytes:
        """A payload as it was given, or one made of a prompt."""
        tensors = {tensor.name: tensor.data for tensor in step}
        if PAYLOAD.name in tensors:
            return tensors[PAYLOAD.name]
        payload: dict[str, Any] = {"model": model.name}
        if "messages" in tensors:
            payload["messages"] = json.loads(tensors["messages"])
        else:
            payload |= self._asking(tensors["prompt"].decode("utf-8", "replace"))
        asked = int(tensors["max_tokens"]) if "max_tokens" in tensors else self._options.output_tokens
        if "input" not in payload and asked is not None:
            payload["max_tokens"] = asked
        if "input" not in payload and self._options.streaming:
            payload |= {"stream": True, "stream_options": {"include_usage": True}}
        return encode_json(payload)

    def _asking(self, prompt: str) -> Mapping[str, Any]:
        if self.path.endswith("/embeddings"):
            return {"input": prompt}
        if "chat" in self.path:
            return {"messages": [{"role": "user", "content": prompt}]}
        return {"prompt": prompt}


# --- sessions


class Chats:
    """Chat sessions: each turn carries all that was said before it in its session, answers included.

    Every worker has its own, and a slot has one session at a time.
    """

    def __init__(self, connection: Connection, path: str) -> None:
        self._connection = connection
        self._path = path
        self._said: dict[int, list[Any]] = {}

    def request(self, slot: int, rendered: bytes | memoryview, *, is_start: bool) -> bytes:
        """The turn with what was said before it; its own messages are remembered."""
        body = bytes(rendered).partition(b"\r\n\r\n")[2]
        payload: dict[str, Any] = json.loads(body)
        said = self._said[slot] = [] if is_start else self._said.get(slot, [])
        messages = payload.get("messages")
        if isinstance(messages, list):
            said.extend(messages)
            payload["messages"] = said
        return render_http(self._connection, self._path, encode_json(payload))

    def answered(self, slot: int, reply: Reply) -> None:
        if reply.message is not None:
            self._said.setdefault(slot, []).append(reply.message)
