"""OpenAI-style servers over HTTP, with complete or streamed answers. `openai_api` defines their endpoints."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from inferometer.base.errors import UsageError
from inferometer.base.text import encode_json
from inferometer.model.answers import OPENAI_MODELS
from inferometer.model.spec import ModelSpec, Tensor, TensorSpec
from inferometer.options.options import Options
from inferometer.services.endpoint import Connection
from inferometer.services.http_control import HttpControl
from inferometer.services.kind import RESPONSE, Service
from inferometer.services.openai_api import BY_NAME, CHAT, Api, Fields, api_at, body_field, maybe_api
from inferometer.services.openai_media import (
    Part,
    image_part,
    made_image,
    made_sound,
    parts_of,
    sound_part,
    text_part,
)
from inferometer.services.openai_reply import OpenAiReader
from inferometer.services.shared_memory import Placement
from inferometer.services.traffic import Reply, Steps, Traffic, Wiring, render_http

if TYPE_CHECKING:  # only visits need these
    from inferometer.services.calls import JsonCalls

PAYLOAD = TensorSpec("payload", "JSON", (1,))
"""The only input: the JSON body of a request. Data may instead contain `prompt`, `messages`, or `query` and
`documents`, from which the body is built; `max_tokens` next to them limits the tokens of the answer.
"""


class OpenAi(Service):
    """An OpenAI-style server at one address."""

    def __init__(self, connection: Connection, options: Options) -> None:
        self._connection = connection
        self._options = options
        self._control = HttpControl(connection)

    # --- control calls

    def models(self) -> list[str]:
        """Return the names of the models it lists."""
        prefix = "" if self._connection.endpoint.prefix.endswith("/v1") else "/v1"
        rows = self._control.get(f"{prefix}/models", OPENAI_MODELS).get("data", ())
        return [row["id"] for row in rows if "id" in row]

    def describe(self, name: str, version: str, called: Sequence[tuple[str, str]]) -> ModelSpec:
        """Describe the model without contacting the server: a payload names its own model."""
        return ModelSpec(
            name=name, version=version, inputs=(PAYLOAD,), outputs=(TensorSpec(RESPONSE, "JSON", (1,)),)
        )

    # --- requests

    def traffic(self, model: ModelSpec, steps: Steps, placement: Placement | None = None) -> Traffic:
        has_sessions = self._options.session_concurrency is not None
        api = api_at(self.path)
        if not self._options.is_lenient:
            _check_use(self._options, api)
        bodies = _Bodies(model.name, api, self._options)
        wiring = Wiring(
            self._connection.endpoint,
            reader=OpenAiReader(
                keeps_message=has_sessions,
                keeps_texts=self._options.profile_export is not None,
                key=self._connection.key,
            ),
            conversations=Chats(self._connection, self.path) if has_sessions else None,
        )
        asked = []
        requests = []
        for number, step in enumerate(steps):  # bodies may be large: one at a time
            body = bodies.body(number, step)
            asked.append(asked_tokens(body))
            requests.append(render_http(self._connection, self.path, body))
        return Traffic(wiring, tuple(requests), asked_tokens=tuple(asked))

    def caller(self, model: ModelSpec, sample: Sequence[Tensor]) -> "JsonCalls":
        """Return the caller of the endpoint; a body names its model, and answers are not streamed."""
        from inferometer.services.calls import JsonCalls

        return JsonCalls(self._connection, self.path, {"model": model.name})

    @property
    def path(self) -> str:
        """The endpoint appended to the address, which may already contain it if none is given.

        In the script perf_analyzer an endpoint is always a path, never a name.
        """
        prefix, endpoint = self._connection.endpoint.prefix, self._options.endpoint
        named = None if self._options.is_lenient else BY_NAME.get(endpoint)
        if named is None and endpoint:
            return f"{prefix}/{endpoint.lstrip('/')}"
        if named is None and maybe_api(prefix) is not None:
            return prefix
        path = (named or CHAT).path
        return f"{prefix}/{path.removeprefix('v1/') if prefix.endswith('/v1') else path}"


def _check_use(options: Options, api: Api) -> None:
    """Refuse options that have no effect at this endpoint."""
    if options.streaming and not api.stream:
        raise UsageError(
            f"--streaming requests a stream, but {api.path} does not stream", remedy="leave it out"
        )
    if options.output_tokens is not None and not api.limit:
        raise UsageError(
            f"--output-tokens limits generated text, but {api.path} generates none", remedy="leave it out"
        )
    for option, given in (("--image", options.images), ("--audio", options.audio_s)):
        if given and api.chat is None:
            raise UsageError(
                f"{option} is for chat messages, but {api.path} takes only text", remedy="use --endpoint chat"
            )
    if options.session_concurrency is not None and not api.has_sessions:
        raise UsageError(
            f"--session-concurrency replays chats, but {api.path} is not a chat endpoint",
            remedy="use --endpoint chat",
        )


class _Bodies:
    """Builder of the bodies of requests to one endpoint."""

    def __init__(self, model: str, api: Api, options: Options) -> None:
        self._model = model
        self._api = api
        self._options = options
        self._fields = tuple(map(body_field, options.bodies))

    def body(self, number: int, step: Sequence[Tensor]) -> bytes:
        """Return the given payload, or one built from a prompt; --body fields override both."""
        tensors = {tensor.name: tensor.data for tensor in step}
        if PAYLOAD.name in tensors:
            self._require_prompts()
            if not self._fields:
                return tensors[PAYLOAD.name]
            payload: Fields = json.loads(tensors[PAYLOAD.name])
        else:
            payload = {"model": self._model, **self._asked(number, tensors), **self._wishes(tensors)}
        for one in self._fields:
            one.put(payload)
        return encode_json(payload)

    def _wishes(self, tensors: Mapping[str, bytes]) -> Fields:
        """Return the fields for the length of the answer and for streaming."""
        found: Fields = {}
        limit = int(tensors["max_tokens"]) if "max_tokens" in tensors else self._options.output_tokens
        if self._api.limit and limit is not None:
            found[self._api.limit] = limit
        if self._options.streaming:
            found |= self._api.stream
        return found

    def _asked(self, number: int, tensors: Mapping[str, bytes]) -> Fields:
        if "documents" in tensors:
            query = tensors["query"].decode("utf-8", "replace")
            return {"query": query, "documents": json.loads(tensors["documents"])}
        if "messages" in tensors:
            self._require_prompts()
            return self._chat(json.loads(tensors["messages"]))
        prompt = tensors["prompt"].decode("utf-8", "replace")
        parts = [*self._parts_of(prompt), *self._made(number)]
        if parts:
            return self._chat([{"role": "user", "content": parts}])
        if self._api.name == "rerank" and self._options.data.prompts is not None:
            raise UsageError(
                f"rerank needs a query and documents, but {self._options.data.prompts} has only a prompt",
                remedy='write lines of JSON: {"query": "...", "documents": ["...", "..."]}',
            )
        return self._api.ask(prompt)

    def _chat(self, messages: Sequence[Any]) -> Fields:
        if self._api.chat is None:
            raise UsageError(
                f"the data contains messages, images or sounds, but {self._api.path} takes only text",
                remedy="use --endpoint chat",
            )
        return self._api.chat(messages)

    # --- images and sounds

    def _parts_of(self, prompt: str) -> list[Part]:
        """Return the files named in a prompt; generated prompts name none."""
        found = [] if self._options.data.prompts is None else parts_of(prompt)
        return found or ([text_part(prompt)] if self._has_made else [])

    @property
    def _has_made(self) -> bool:
        return bool(self._options.images) or self._options.audio_s is not None

    def _made(self, number: int) -> list[Part]:
        """Generate images and sounds, different for every request."""
        seed = self._options.data.seed << 32 | number
        images = [
            image_part(made_image(width, height, seed << 8 | place), "image/png")
            for place, (width, height) in enumerate(self._options.images)
        ]
        if self._options.audio_s is None:
            return images
        return [*images, sound_part(made_sound(self._options.audio_s, seed), "wav")]

    def _require_prompts(self) -> None:
        if self._has_made:
            raise UsageError(
                "--image and --audio are added to prompts, but the data contains whole messages or payloads",
                remedy="leave them out, or give --prompts or --prompt-tokens",
            )


_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_HAS_LIMIT = re.compile(rb'"max_(?:completion_|output_)?tokens"')


def asked_tokens(body: bytes) -> int:
    """Return the maximum number of tokens that a request asks for, over all its choices; 0 if not given."""
    if _HAS_LIMIT.search(body) is None:  # avoid parsing long prompts
        return 0
    try:
        payload = json.loads(body)
    except ValueError:
        return 0
    found = [payload[name] for name in _LIMITS if name in payload] if isinstance(payload, dict) else []
    limits = [value for value in found if type(value) is int and value > 0]
    answers = payload.get("n", 1) if limits else 1
    return max(limits) * answers if limits and type(answers) is int and answers > 0 else 0


# --- sessions


class Chats:
    """Chat sessions: each turn carries the whole conversation of its session so far, including answers.

    Every worker has its own sessions, and a slot has one at a time.
    """

    def __init__(self, connection: Connection, path: str) -> None:
        self._connection = connection
        self._path = path
        self._said: dict[int, list[Any]] = {}

    def request(self, slot: int, rendered: bytes | memoryview, *, is_start: bool) -> bytes:
        """Return the turn with the conversation before it, and remember its own messages."""
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
