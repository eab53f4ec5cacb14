"""The endpoints of OpenAI-style servers: where each is, and how it wants to be asked.

A row of `APIS` is an endpoint. Its functions make the fields of a body out of a prompt, or out of the messages of a
chat.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.base.text import decode_json

Fields = dict[str, Any]
DOCUMENTS = 10  # that a made prompt is cut into for rerank


@dataclass(frozen=True, slots=True)
class Api:
    """An endpoint."""

    name: str  # what --endpoint may say instead of the path
    path: str
    ask: Callable[[str], Fields]  # of a prompt
    chat: Callable[[Sequence[Any]], Fields] | None = None  # of messages, where it takes any
    endings: tuple[str, ...] = ()  # of paths that lead to such an endpoint
    limit: str = ""  # the field for the most tokens of an answer; empty where answers have none
    stream: Fields = field(default_factory=dict)  # what asks for a stream; empty where there is none
    has_sessions: bool = False


def _chat(messages: Sequence[Any]) -> Fields:
    return {"messages": messages}


def _responses(messages: Sequence[Any]) -> Fields:
    return {"input": list(map(_as_input, messages))}


def _as_input(message: Any) -> Any:
    """A message in the form of the responses API, which names the parts differently."""
    if not isinstance(message, dict) or not isinstance(message.get("content"), list):
        return message
    is_answer = message.get("role") == "assistant"
    return {**message, "content": [_input_part(part, is_answer=is_answer) for part in message["content"]]}


def _input_part(part: Any, *, is_answer: bool) -> Any:
    if not isinstance(part, dict):
        return part
    if part.get("type") == "text":
        return {**part, "type": "output_text" if is_answer else "input_text"}
    image = part.get("image_url")
    if part.get("type") == "image_url" and isinstance(image, dict):
        detail = {"detail": image["detail"]} if "detail" in image else {}
        return {"type": "input_image", "image_url": image.get("url"), **detail}
    return part


def _rerank(prompt: str) -> Fields:
    """The first tenth of the words is the query, the rest is cut into documents of about the same length."""
    words = prompt.split()
    first = max(1, len(words) // 10)
    rest = words[first:] or words
    count = min(DOCUMENTS, len(rest))
    edges = [len(rest) * number // count for number in range(count + 1)] if count else []
    documents = [" ".join(rest[start:stop]) for start, stop in pairwise(edges)]
    return {"query": " ".join(words[:first]), "documents": documents}


CHAT = Api(
    name="chat",
    path="v1/chat/completions",
    ask=lambda prompt: {"messages": [{"role": "user", "content": prompt}]},
    chat=_chat,
    endings=("/chat/completions",),
    limit="max_tokens",
    stream={"stream": True, "stream_options": {"include_usage": True}},
    has_sessions=True,
)
COMPLETIONS = Api(
    name="completions",
    path="v1/completions",
    ask=lambda prompt: {"prompt": prompt},
    endings=("/completions",),
    limit="max_tokens",
    stream=CHAT.stream,
)
RERANK = Api(name="rerank", path="v1/rerank", ask=_rerank, endings=("/rerank", "/reranking"))
APIS = (
    CHAT,
    COMPLETIONS,
    Api(
        name="embeddings",
        path="v1/embeddings",
        ask=lambda prompt: {"input": prompt},
        chat=_chat,  # as vLLM takes images to embed
        endings=("/embeddings",),
    ),
    Api(
        name="responses",
        path="v1/responses",
        ask=lambda prompt: {"input": prompt},
        chat=_responses,
        endings=("/responses",),
        limit="max_output_tokens",
        stream={"stream": True},  # usage comes without being asked for
    ),
    RERANK,
)
BY_NAME: Mapping[str, Api] = {api.name: api for api in APIS}


def maybe_api(path: str) -> Api | None:
    """The endpoint that a path leads to, by how it ends."""
    return next((api for api in APIS if path.endswith(api.endings)), None)


def api_at(path: str) -> Api:
    """As `maybe_api`; a path of the server's own is taken for chats if it says so, else for completions."""
    return maybe_api(path) or (CHAT if "chat" in path else COMPLETIONS)


# --- fields of the user's

_FIELD = re.compile(r"[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)*=")


@dataclass(frozen=True, slots=True)
class BodyField:
    """`--body key=value`: a field of every body, in place of one that is there already."""

    keys: tuple[str, ...]  # from the outside in
    value: Any

    def put(self, body: Fields) -> None:
        inner = body
        for depth, key in enumerate(self.keys[:-1], start=1):
            found = inner.setdefault(key, {})
            if not isinstance(found, dict):
                name = ".".join(self.keys)
                raise UsageError(
                    f"--body {name}=... cannot be set in a body whose '{'.'.join(self.keys[:depth])}' is not an object",
                    remedy=f"give the whole object: --body '{self.keys[0]}={{...}}'",
                )
            inner = found
        inner[self.keys[-1]] = self.value


def is_body_field(word: str) -> bool:
    """Whether it is written like a field, so that it cannot be meant as a whole body."""
    return _FIELD.match(word) is not None


def body_field(word: str) -> BodyField:
    """Of `key=value` or `outer.inner=value`; a value that is no JSON is a string."""
    if not is_body_field(word):
        raise UsageError(
            f"--body {word} is not a valid body field",
            remedy="for an OpenAI-style server write key=value, such as temperature=0 or "
            "response_format.type=json_object; give whole bodies with --data, or with --service-kind http",
        )
    key, _, text = word.partition("=")
    value: Any = text
    try:
        value = decode_json(text)
    except ValueError as error:
        if text.lstrip().startswith(("{", "[")):
            raise UsageError(
                f"--body {key}=... begins like JSON, but is invalid: {error}",
                remedy="put the argument in single quotes to protect it from the shell",
            ) from None
    return BodyField(tuple(key.split(".")), value)
