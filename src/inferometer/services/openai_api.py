"""Endpoints of OpenAI-style servers: their paths and the fields of their requests.

A row of `APIS` is an endpoint. Its functions build the fields of a body from a prompt, or from the messages of a
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
DOCUMENTS = 10  # into which a generated prompt is split for rerank


@dataclass(frozen=True, slots=True)
class Api:
    """An endpoint."""

    name: str  # for --endpoint, instead of the path
    path: str
    ask: Callable[[str], Fields]  # fields from a prompt
    chat: Callable[[Sequence[Any]], Fields] | None = None  # fields from messages, if supported
    endings: tuple[str, ...] = ()  # endings of paths of such an endpoint
    limit: str = ""  # field for the maximum tokens of an answer; empty if answers have none
    stream: Fields = field(default_factory=dict)  # fields that request a stream; empty if not supported
    has_sessions: bool = False


def _chat(messages: Sequence[Any]) -> Fields:
    return {"messages": messages}


def _responses(messages: Sequence[Any]) -> Fields:
    return {"input": list(map(_as_input, messages))}


def _as_input(message: Any) -> Any:
    """Convert a message to the form of the responses API, which names the parts differently."""
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
    """Use the first tenth of the words as the query, and split the rest into documents of about equal length."""
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
        chat=_chat,  # vLLM's form for embedding images
        endings=("/embeddings",),
    ),
    Api(
        name="responses",
        path="v1/responses",
        ask=lambda prompt: {"input": prompt},
        chat=_responses,
        endings=("/responses",),
        limit="max_output_tokens",
        stream={"stream": True},  # usage is always sent
    ),
    RERANK,
)
BY_NAME: Mapping[str, Api] = {api.name: api for api in APIS}


def maybe_api(path: str) -> Api | None:
    """Return the endpoint of a path, by its ending."""
    return next((api for api in APIS if path.endswith(api.endings)), None)


def api_at(path: str) -> Api:
    """Return the endpoint of a path; an unknown path is treated as chat if it contains that word, else as
    completions."""
    return maybe_api(path) or (CHAT if "chat" in path else COMPLETIONS)


# --- fields given by the user

_FIELD = re.compile(r"[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)*=")


@dataclass(frozen=True, slots=True)
class BodyField:
    """`--body key=value`: a field of every body, which replaces an existing one."""

    keys: tuple[str, ...]  # from outer to inner
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
    """Return whether the word has the form of a field, and so is not a whole body."""
    return _FIELD.match(word) is not None


def body_field(word: str) -> BodyField:
    """Parse `key=value` or `outer.inner=value`; a value that is not JSON is a string."""
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
