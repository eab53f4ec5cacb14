"""Text servers over HTTP, with complete or streamed answers. `apis` lists the APIs that they may have."""

import json
import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from inferometer.base.errors import PeerError, UsageError
from inferometer.base.text import encode_json
from inferometer.model.answers import TEXT_MODELS
from inferometer.model.spec import ModelSpec, Tensor, TensorSpec
from inferometer.options.names import option_name
from inferometer.options.options import Options
from inferometer.services.apis import BY_NAME, api_at, maybe_api
from inferometer.services.body_fields import body_field
from inferometer.services.endpoint import Connection
from inferometer.services.http_control import HttpControl
from inferometer.services.kind import RESPONSE, Service
from inferometer.services.openai_api import CHAT, rank
from inferometer.services.openai_media import (
    Part,
    image_part,
    made_image,
    made_sound,
    parts_of,
    sound_part,
    text_part,
)
from inferometer.services.shared_memory import Placement
from inferometer.services.template_api import fill, template_api
from inferometer.services.text_api import Api, Fields, part, put
from inferometer.services.text_reply import TextReader
from inferometer.services.traffic import Reply, Steps, Traffic, Wiring, render_http
from inferometer.services.upload import MULTIPART, SoundUpload, upload

if TYPE_CHECKING:  # only visits and tasks need these
    from inferometer.services.calls import JsonCalls
    from inferometer.services.task_plan import Frame

PAYLOAD = TensorSpec("payload", "JSON", (1,))
"""The only input: the JSON body of a request. Data may instead contain `prompt`, `messages`, or `query` and
`documents`, from which the body is built; `max_tokens` next to them limits the tokens of the answer.
"""


_GAP = "inferometer-messages"


class OpenAi(Service):
    """A text server at one address."""

    def __init__(self, connection: Connection, options: Options) -> None:
        self._options = options
        self.path, self.api, self._template = _requested(connection.endpoint.prefix, options)
        given = {name.lower() for name, _ in connection.headers}
        own = tuple(header for header in self.api.headers if header[0] not in given)
        self._connection = connection._replace(headers=(*connection.headers, *own))
        self._control = HttpControl(self._connection)

    @property
    def api_name(self) -> str:
        return self.api.name

    @property
    def can_stream(self) -> bool:
        """Whether the API streams text; transcriptions do so only with some models."""
        return self.api.can_stream and not self.api.takes_sound and self._template is None

    # --- control calls

    def models(self) -> list[str]:
        """Return the names of the models that the server lists; for an API whose requests name none, at least the
        API's name."""
        if self.api.host_kind:
            return []  # another API lists them
        try:
            return self._listed()
        except PeerError:
            if self.api.names_model:
                raise
            return [self.api.name]

    def _listed(self) -> list[str]:
        usual = "/models" if self._connection.endpoint.prefix.endswith("/v1") else "/v1/models"
        found = self._control.get(self.api.models_path or usual, TEXT_MODELS)
        ids = [row["id"] for row in found.get("data", ()) if "id" in row]
        names = [row["name"] for row in found.get("models", ()) if "name" in row]
        return ids or names or ([found["model_id"]] if "model_id" in found else [])

    @property
    def names_model(self) -> bool:
        """Whether requests name the model; otherwise its name is only a label."""
        return self.api.names_model

    @property
    def host_kind(self) -> str:
        """The kind as which a server with this API may be detected, if that is another one."""
        return self.api.host_kind

    def describe(self, name: str, version: str, called: Sequence[tuple[str, str]]) -> ModelSpec:
        """Describe the model without contacting the server: a payload names its own model."""
        return ModelSpec(
            name=name, version=version, inputs=(PAYLOAD,), outputs=(TensorSpec(RESPONSE, "JSON", (1,)),)
        )

    # --- requests

    def traffic(self, model: ModelSpec, steps: Steps, placement: Placement | None = None) -> Traffic:
        has_sessions = self._options.session_concurrency is not None
        if not self._options.is_lenient:
            _check_use(self._options, self.api)
        bodies = _Bodies(model.name, self.api, self._options, self._template)
        wiring = Wiring(
            self._connection.endpoint,
            reader=TextReader(
                keeps_message=has_sessions,
                keeps_texts=self._options.profile_export is not None,
                key=self._connection.key,
                form=self.api.form,
            ),
            conversations=Chats(self._connection, self.path, self.api.turns) if has_sessions else None,
        )
        asked = []
        requests = []
        for number, step in enumerate(steps):  # bodies may be large: one at a time
            body = bodies.body(number, step)
            asked.append(0 if bodies.is_limited_by_default(step) else asked_tokens(body))
            content_type = MULTIPART if self.api.takes_sound else "application/json"
            requests.append(render_http(self._connection, self.path, body, (("Content-Type", content_type),)))
        return Traffic(wiring, tuple(requests), asked_tokens=tuple(asked))

    def caller(self, model: ModelSpec, sample: Sequence[Tensor]) -> "JsonCalls":
        """Return the caller of the endpoint; a body names its model, and answers are not streamed."""
        from inferometer.services.calls import JsonCalls

        fixed: Fields = {"model": model.name} if self.api.names_model else {}
        fixed |= self.api.whole
        if self.api.default_limit:
            put(fixed, self.api.limit, self.api.default_limit)
        return JsonCalls(self._connection, self.path, fixed)

    def task_frame(self, model: ModelSpec, system: str, max_tokens: int) -> "Frame":
        """Return the request of a task's call with a gap for its messages."""
        from inferometer.services.task_plan import Frame

        bodies = _Bodies(model.name, self.api, self._options, self._template)
        message = {"role": "user", "content": _GAP}
        if self.api.chat is None:
            content = Tensor("prompt", "JSON", (1,), f"{system}\n{_GAP}".lstrip().encode())
        else:
            said = [{"role": "system", "content": system}] if system else []
            content = Tensor("messages", "JSON", (1,), encode_json([*said, message]))
        limit = [Tensor("max_tokens", "JSON", (1,), b"%d" % max_tokens)] if max_tokens else []
        whole = render_http(self._connection, self.path, bodies.body(0, (content, *limit)))
        head, _, body = whole.partition(b"\r\n\r\n")
        before, gap, after = body.partition(encode_json(message))
        is_chat = bool(gap)
        if not is_chat:
            before, gap, after = body.partition(_GAP.encode())
        if not gap or self.api.takes_sound or self.api.rank is not None:
            raise UsageError(
                f"{self.api.path} does not take prompts, which tasks send",
                remedy=f"use {option_name('--endpoint', 'chat')}",
            )
        first, length, rest = re.split(rb"(?i)(content-length: *)\d+", head, maxsplit=1)
        return Frame(first + length, rest + b"\r\n\r\n", before, after, is_chat)


def _requested(prefix: str, options: Options) -> tuple[str, Api, Fields | None]:
    """Return the path and its API, with the template of bodies if there is one.

    The endpoint is appended to the address, which may already contain it if none is given. In the script perf_analyzer
    an endpoint is always a path, never a name.
    """
    endpoint = options.endpoint
    named = None if options.is_lenient else BY_NAME.get(endpoint)
    if options.body_template is not None:
        own = endpoint.lstrip("/") if named is None else named.path
        path = f"{prefix}/{own}" if own else prefix or "/"
        api, template = template_api(
            options.body_template, options.reply_paths, path, is_streaming=options.streaming
        )
        return path, api, template
    if named is None and endpoint:
        path = f"{prefix}/{endpoint.lstrip('/')}"
        return path, api_at(path), None
    if named is None and (found := maybe_api(prefix)) is not None:
        return prefix, found, None
    api = named or CHAT
    path = (options.streaming and api.stream_path) or api.path
    path = path.replace("{model}", quote(options.model, safe=""))
    return f"{prefix}/{path.removeprefix('v1/') if prefix.endswith('/v1') else path}", api, None


def _check_use(options: Options, api: Api) -> None:
    """Refuse options that have no effect at this endpoint."""
    if options.streaming and not api.can_stream:
        raise UsageError(
            f"{option_name('--streaming')} requests a stream, but {api.path} does not stream",
            remedy="leave it out",
        )
    if options.output_tokens is not None and not api.limit:
        raise UsageError(
            f"{option_name('--output-tokens')} limits generated text, but {api.path} generates none",
            remedy="leave it out",
        )
    for option, given in (
        (option_name("--image"), options.images),
        (option_name("--audio"), options.audio_s),
    ):
        if given and api.chat is None and not (api.takes_sound and option == "--audio"):
            raise UsageError(
                f"{option} is for chat messages, but {api.path} takes only text",
                remedy=f"use {option_name('--endpoint', 'chat')}",
            )
    if options.session_concurrency is not None and not api.turns:
        raise UsageError(
            f"{option_name('--session-concurrency')} replays chats, but {api.path} is not a chat endpoint",
            remedy=f"use {option_name('--endpoint', 'chat')}",
        )


class _Bodies:
    """Builder of the bodies of requests to one endpoint."""

    def __init__(self, model: str, api: Api, options: Options, template: Fields | None = None) -> None:
        self._model = model
        self._template = template
        self._api = api
        self._options = options
        self._fields = tuple(map(body_field, options.bodies))
        # A copy, since fields of the user may be set inside it.
        self._usual = deepcopy({**api.always, **(api.stream if options.streaming else api.whole)})

    def body(self, number: int, step: Sequence[Tensor]) -> bytes:
        """Return the given payload, or a payload built from a prompt; --body fields override both."""
        tensors = {tensor.name: tensor.data for tensor in step}
        if PAYLOAD.name in tensors:
            self._require_prompts()
            if self._api.takes_sound:
                raise UsageError(
                    f"{self._api.path} takes an upload, but the data contains JSON payloads",
                    remedy=f"give {option_name('--audio')} 5s, or prompts that name a file each: @speech.wav",
                )
            if not self._fields:
                return tensors[PAYLOAD.name]
            payload: Fields = json.loads(tensors[PAYLOAD.name])
        else:
            named = {"model": self._model} if self._api.names_model else {}
            payload = {**named, **self._asked(number, tensors)}
            self._add_wishes(payload, tensors)
            if self._template is not None:
                payload = fill(self._template, payload)
        for one in self._fields:
            one.put(payload)
        return upload(payload) if self._api.takes_sound else encode_json(payload)

    def is_limited_by_default(self, step: Sequence[Tensor]) -> bool:
        """Return whether the API requires a limit of the answer's tokens that the user did not give."""
        is_built = not any(tensor.name in (PAYLOAD.name, "max_tokens") for tensor in step)
        is_unset = self._options.output_tokens is None and (self._api.limit,) not in (
            one.keys for one in self._fields
        )
        return bool(self._api.default_limit) and is_built and is_unset

    def _add_wishes(self, payload: Fields, tensors: Mapping[str, bytes]) -> None:
        """Add the fields for the length of the answer, for streaming, and those of every body."""
        limit = int(tensors["max_tokens"]) if "max_tokens" in tensors else self._options.output_tokens
        if limit is None and self._api.default_limit:
            limit = self._api.default_limit
        if self._api.limit and limit is not None:
            put(payload, self._api.limit, limit)
        payload |= self._usual

    def _asked(self, number: int, tensors: Mapping[str, bytes]) -> Fields:
        if "documents" in tensors:
            query = tensors["query"].decode("utf-8", "replace")
            return (self._api.rank or rank)(query, json.loads(tensors["documents"]))
        if "messages" in tensors:
            self._require_prompts()
            return self._chat(json.loads(tensors["messages"]))
        prompt = tensors["prompt"].decode("utf-8", "replace")
        parts = [*self._parts_of(prompt), *self._made(number)]
        if self._api.takes_sound:
            return self._sound(parts)
        if parts:
            return self._chat([{"role": "user", "content": parts}])
        if self._api.rank is not None and self._options.data.prompts is not None:
            raise UsageError(
                f"rerank needs a query and documents, but {self._options.data.prompts} has only a prompt",
                remedy='write lines of JSON: {"query": "...", "documents": ["...", "..."]}',
            )
        return self._api.ask(prompt)

    def _chat(self, messages: Sequence[Any]) -> Fields:
        if self._api.chat is None:
            raise UsageError(
                f"the data contains messages, images or sounds, but {self._api.path} takes only text",
                remedy=f"use {option_name('--endpoint', 'chat')}",
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

    def _sound(self, parts: Sequence[Part]) -> Fields:
        """Return the fields of an upload: the sound, and the text of the user's own prompt as a hint."""
        sounds = [part["input_audio"] for part in parts if part["type"] == "input_audio"]
        if len(sounds) != 1:
            raise UsageError(
                f"{self._api.path} takes one sound per request, but got {len(sounds) or 'none'}",
                remedy=f"give {option_name('--audio')} 5s, or name one file in each prompt: @speech.wav",
            )
        hint = " ".join(part["text"] for part in parts if part["type"] == "text")
        is_own = self._options.data.prompts is not None and bool(hint)
        return {
            "file": SoundUpload(b64decode(sounds[0]["data"]), sounds[0]["format"]),
            **({"prompt": hint} if is_own else {}),
        }

    def _require_prompts(self) -> None:
        if self._has_made:
            raise UsageError(
                f"{option_name('--image')} and {option_name('--audio')} are added to prompts, but the data "
                "contains whole messages or payloads",
                remedy=f"leave them out, or give {option_name('--prompts')} or "
                f"{option_name('--prompt-tokens')}",
            )


_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens", "num_predict")
_HAS_LIMIT = re.compile(rb'"(?:max_(?:completion_|output_|new_)?tokens|num_predict)"')
_INSIDE = ("parameters", "options")  # objects that may hold the limit


def asked_tokens(body: bytes) -> int:
    """Return the maximum number of tokens that a request asks for, over all its choices; 0 if not given."""
    if _HAS_LIMIT.search(body) is None:  # avoid parsing long prompts
        return 0
    try:
        payload = json.loads(body)
    except ValueError:
        return 0
    if not isinstance(payload, dict):
        return 0
    objects = (payload, *(part(payload, name) for name in _INSIDE))
    found = [fields[name] for fields in objects for name in _LIMITS if name in fields]
    limits = [value for value in found if type(value) is int and value > 0]
    answers = payload.get("n", 1) if limits else 1
    return max(limits) * answers if limits and type(answers) is int and answers > 0 else 0


# --- sessions


_KEPT = ("system",)  # fields of the first turn that later turns repeat


class Chats:
    """Chat sessions: each turn carries the whole conversation of its session so far, including answers.

    Every worker has its own sessions, and a slot has one at a time. `turns` is the field with the messages.
    """

    def __init__(self, connection: Connection, path: str, turns: str = "messages") -> None:
        self._connection = connection
        self._path = path
        self._turns = turns
        self._said: dict[int, list[Any]] = {}
        self._kept: dict[int, Fields] = {}

    def request(self, slot: int, rendered: bytes | memoryview, *, is_start: bool) -> bytes:
        """Return the turn with the preceding conversation, and remember its own messages."""
        body = bytes(rendered).partition(b"\r\n\r\n")[2]
        payload: Fields = json.loads(body)
        said = self._said[slot] = [] if is_start else self._said.get(slot, [])
        kept = {} if is_start else self._kept.get(slot, {})
        self._kept[slot] = kept | {name: payload[name] for name in _KEPT if name in payload}
        messages = payload.get(self._turns)
        if isinstance(messages, str):  # a prompt of the responses API
            messages = [{"role": "user", "content": messages}]
        if isinstance(messages, list):
            said.extend(messages)
            payload[self._turns] = said
        return render_http(self._connection, self._path, encode_json({**self._kept[slot], **payload}))

    def answered(self, slot: int, reply: Reply) -> None:
        if reply.message is not None:
            self._said.setdefault(slot, []).append(reply.message)
