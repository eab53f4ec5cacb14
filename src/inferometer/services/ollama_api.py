"""Ollama's own API: chats and prompts, streamed as lines of JSON. The last line has `done` and the counts of tokens."""

import json
from collections.abc import Sequence
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.options.names import option_name
from inferometer.services.text_api import (
    ANSWER,
    REASONING,
    TOOL,
    Api,
    Delta,
    Document,
    EventMeaning,
    Fields,
    ReplyForm,
    Usage,
    WholeMeaning,
    count,
    maybe_error,
    objects,
    part,
    texts_in,
)


def _event(document: Document, name: bytes) -> EventMeaning:
    if error := maybe_error(document):
        return EventMeaning(error=error)
    found = _delta(document)
    deltas = () if found is None else (found,)
    if not document.get("done"):
        return EventMeaning(deltas)
    return EventMeaning(deltas, _usage(document), is_end=True)


def _delta(document: Document) -> Delta | None:
    """Return the part of the answer in a line of a chat, or of a prompt's answer."""
    message = part(document, "message")
    answer = message.get("content") or document.get("response")
    reasoning = message.get("thinking") or document.get("thinking")
    carries = ANSWER * bool(answer) | REASONING * bool(reasoning) | TOOL * bool(message.get("tool_calls"))
    if not carries:
        return None
    text = answer or reasoning
    return Delta(carries, text if isinstance(text, str) else "")


def _whole(document: Document) -> WholeMeaning:
    if error := maybe_error(document):
        return WholeMeaning(error=error)
    message = part(document, "message")
    answer = texts_in(message.get("content") or document.get("response"))
    return WholeMeaning(_usage(document), _delta(document) is None, message or None, answer=answer)


def _embedded(document: Document) -> WholeMeaning:
    if error := maybe_error(document):
        return WholeMeaning(error=error)
    return WholeMeaning(_usage(document), is_blank=not document.get("embeddings"))


def _usage(document: Document) -> Usage:
    return Usage(count(document, "eval_count"), count(document, "prompt_eval_count"))


# --- requests


def _chat(messages: Sequence[Any]) -> Fields:
    return {"messages": list(map(_message, messages))}


def _message(message: Any) -> Any:
    """Convert a message of a chat: images become a separate field, arguments of tools become objects."""
    if not isinstance(message, dict):
        return message
    found = dict(message)
    content = message.get("content")
    if isinstance(content, list):
        images = list(map(_image, (row for row in objects(message, "content") if row.get("type") != "text")))
        found |= {"content": texts_in(content), **({"images": images} if images else {})}
    if isinstance(message.get("tool_calls"), list):
        found["tool_calls"] = list(map(_call, objects(message, "tool_calls")))
    if content is None:
        found["content"] = ""
    return found


def _image(found: Document) -> str:
    url = part(found, "image_url").get("url")
    kind, _, data = url.partition(";base64,") if isinstance(url, str) else ("", "", "")
    if not kind.startswith("data:") or not data:
        raise UsageError(
            "Ollama's API accepts images only as data, and no sounds",
            remedy=f"name files in the prompts (@photo.jpg), or use {option_name('--endpoint', 'chat')}",
        )
    return data


def _call(found: Document) -> Fields:
    function = part(found, "function")
    arguments = function.get("arguments")
    try:
        given = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        given = {}
    return {**found, "function": {**function, "arguments": given or {}}}


_OLLAMA = ReplyForm("Ollama", _event, _whole, texts=("content", "response", "thinking"), must_end=True)
CHAT = Api(
    name="ollama",
    path="api/chat",
    ask=lambda prompt: {"messages": [{"role": "user", "content": prompt}]},
    form=_OLLAMA,
    chat=_chat,
    pattern="/api/chat",
    limit="options.num_predict",
    stream={"stream": True},
    whole={"stream": False},  # the server's default is a stream
    turns="messages",
    models_path="/api/tags",
)
GENERATE = Api(
    name="ollama-generate",
    path="api/generate",
    ask=lambda prompt: {"prompt": prompt},
    form=_OLLAMA,
    pattern="/api/generate",
    limit=CHAT.limit,
    stream=CHAT.stream,
    whole=CHAT.whole,
    models_path=CHAT.models_path,
)
EMBED = Api(
    name="ollama-embed",
    path="api/embed",
    ask=lambda prompt: {"input": prompt},
    form=ReplyForm("Ollama", _event, _embedded, texts=("content",)),
    pattern="/api/embed",
    models_path=CHAT.models_path,
)
ROWS = (CHAT, GENERATE, EMBED)
