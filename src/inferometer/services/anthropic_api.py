"""Anthropic's Messages API, which vLLM, SGLang and others also serve.

A stream has typed events: `message_start` with the usage of the prompt, for each block of content a start, deltas and a
stop, `message_delta` with the total usage, `message_stop`. Thinking is reasoning; the start of a block of tool use
names the tool, and its deltas are pieces of the arguments.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.options.names import option_name
from inferometer.services.text_api import (
    ANSWER,
    NOTHING,
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

VERSION = "2023-06-01"
MOST_TOKENS = 4096  # of an answer, unless set: the API requires a limit

_TEXTS = {
    "text_delta": ("text", ANSWER),
    "thinking_delta": ("thinking", REASONING),
    "input_json_delta": ("partial_json", TOOL),
}
"""By type of delta: the field with its text, and what it carries."""
_BLOCKS = {
    "text": ("text", ANSWER),
    "thinking": ("thinking", REASONING),
    "redacted_thinking": ("data", REASONING),
}
"""By type of block: the field with its content, which may be empty at the start of a stream, and what it carries."""
_TOOLS = ("tool_use", "server_tool_use", "mcp_tool_use")


# --- replies


def _event(document: Document, name: bytes) -> EventMeaning:
    kind = document.get("type")
    if kind == "content_block_delta":
        delta = part(document, "delta")
        field, carries = _TEXTS.get(str(delta.get("type")), ("", 0))
        text = delta.get(field)
        return (
            EventMeaning((Delta(carries, text if isinstance(text, str) else ""),))
            if text and carries
            else NOTHING
        )
    if kind == "content_block_start":
        found = _carried(part(document, "content_block"))
        return NOTHING if found is None else EventMeaning((found,))
    if kind == "message_start":
        return EventMeaning(usage=_usage(part(document, "message")))
    if kind == "message_delta":
        return EventMeaning(usage=_usage(document))
    if kind == "message_stop":
        return EventMeaning(is_end=True)
    if kind == "error" or name == b"error" or document.get("error"):
        return EventMeaning(error=maybe_error(document) or str(document))
    return NOTHING


def _carried(block: Document) -> Delta | None:
    kind = block.get("type")
    if kind in _TOOLS:
        return Delta(TOOL)
    field, carries = _BLOCKS.get(str(kind), ("", 0))
    text = block.get(field)
    return Delta(carries, text if isinstance(text, str) else "") if text and carries else None


def _whole(document: Document) -> WholeMeaning:
    if document.get("type") == "error" or document.get("error"):
        return WholeMeaning(error=maybe_error(document) or str(document))
    blocks = objects(document, "content")
    is_blank = not any(map(_carried, blocks))
    answer = "".join(texts_in([block]) for block in blocks if block.get("type") == "text")
    message = {"role": "assistant", "content": blocks} if blocks else None
    return WholeMeaning(_usage(document), is_blank, message, answer=answer)


def _usage(document: Document) -> Usage:
    """Read the usage: `input_tokens` are only those neither read from nor written to the cache."""
    found = part(document, "usage")
    cached = count(found, "cache_read_input_tokens")
    prompt = count(found, "input_tokens") + count(found, "cache_creation_input_tokens") + cached
    reasoning = count(found.get("output_tokens_details"), "thinking_tokens")
    return Usage(count(found, "output_tokens"), prompt, reasoning, cached)


# --- requests


def _chat(messages: Sequence[Any]) -> Fields:
    """Convert messages of a chat: system prompts become a field, images, tool calls and results blocks of content."""
    system = [texts_in(row.get("content")) for row in messages if _role(row) in ("system", "developer")]
    turns = [_turn(row) for row in messages if _role(row) not in ("system", "developer")]
    return {**({"system": "\n\n".join(system)} if system else {}), "messages": turns}


def _role(message: Any) -> Any:
    return message.get("role") if isinstance(message, dict) else None


def _turn(message: Any) -> Any:
    if not isinstance(message, dict):
        return message
    content = message.get("content")
    if message.get("role") == "tool":
        result = {
            "type": "tool_result",
            "tool_use_id": message.get("tool_call_id"),
            "content": texts_in(content),
        }
        return {"role": "user", "content": [result]}
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        said = [{"type": "text", "text": text}] if (text := texts_in(content)) else []
        return {"role": "assistant", "content": [*said, *_tool_uses(calls)]}
    if isinstance(content, list):
        content = list(map(_block, content))
    return {"role": message.get("role"), "content": content}


def _tool_uses(calls: Sequence[Any]) -> Iterator[Fields]:
    for call in calls:
        function = part(call, "function")
        arguments = function.get("arguments")
        try:
            given = json.loads(arguments) if isinstance(arguments, str) else arguments
        except ValueError:
            given = {}
        yield {"type": "tool_use", "id": call.get("id"), "name": function.get("name"), "input": given or {}}


def _block(found: Any) -> Any:
    if not isinstance(found, dict) or found.get("type") not in ("image_url", "input_audio"):
        return found
    url = part(found, "image_url").get("url")
    if not isinstance(url, str):
        raise UsageError(
            "the Messages API does not accept sounds",
            remedy=f"leave out {option_name('--audio')}, or use {option_name('--endpoint', 'chat')}",
        )
    if (data := re.fullmatch(r"data:([^;,]+);base64,(.*)", url, re.DOTALL)) is None:
        return {"type": "image", "source": {"type": "url", "url": url}}
    return {"type": "image", "source": {"type": "base64", "media_type": data[1], "data": data[2]}}


MESSAGES = Api(
    name="anthropic",
    path="v1/messages",
    ask=lambda prompt: {"messages": [{"role": "user", "content": prompt}]},
    form=ReplyForm("Anthropic", _event, _whole, texts=("text", "thinking", "partial_json"), must_end=True),
    chat=_chat,
    pattern="/v1/messages",
    limit="max_tokens",
    default_limit=MOST_TOKENS,
    stream={"stream": True},
    turns="messages",
    headers=(("anthropic-version", VERSION),),
    key_header="x-api-key",
)
ROWS = (MESSAGES,)
