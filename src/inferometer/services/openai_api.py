"""OpenAI's APIs, which many servers share: chat and text completions, responses, embeddings, transcriptions; and rerank
in the form of Jina, Cohere and vLLM.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from inferometer.base.text import encodable
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

DOCUMENTS = 10  # into which a generated prompt is split for rerank
_PLACES = {
    **dict.fromkeys(("content", "refusal", "audio"), ANSWER),
    **dict.fromkeys(("tool_calls", "function_call"), TOOL),
    **dict.fromkeys(("reasoning_content", "reasoning"), REASONING),
}
"""Content of the fields of a delta or message."""
_FAILED_ENDS = ("error", "abort", "aborted", "cancelled", "canceled")
"""Finish reasons of an answer that the server aborted."""
_ENDS = ("response.completed", "response.incomplete", "response.failed")
"""The last event of a stream of the responses API."""
_CALLS = ("function_call", "custom_tool_call")
_TYPES = ("response.", "transcript.")
"""Beginnings of the types of events that are not chunks of choices."""
_new = tuple.__new__  # makes a named tuple in half the time of a call of its class


# --- events


def _event(document: Document, name: bytes) -> EventMeaning:
    """Read an event. For servers whose events are not alike, this is the most frequent call."""
    kind = document.get("type")
    if document.get("error") or name == b"error" or kind == "error":
        return EventMeaning(error=maybe_error(document) or _words(document))
    if kind is not None and isinstance(kind, str) and kind.startswith(_TYPES):
        return _typed(kind, document)
    choices = document.get("choices")
    deltas: list[Delta] = []
    is_end, failed = False, ""
    for choice in choices if isinstance(choices, list) else ():
        if not isinstance(choice, dict):
            continue
        delta, text, carries = choice.get("delta"), choice.get("text"), 0
        if text:
            carries = ANSWER
        elif isinstance(delta, dict):
            for field, value in delta.items():
                if value and field in _PLACES:
                    carries |= _PLACES[field]
            text = delta.get("content") or delta.get("reasoning_content") or delta.get("reasoning")
        if carries:
            deltas.append(_new(Delta, (carries, text if isinstance(text, str) else "", choice.get("index"))))
        if choice.get("finish_reason"):
            is_end, failed = True, failed or _failed_end(choice)
    return _new(EventMeaning, (deltas, usage(document) if document.get("usage") else None, is_end, failed))


def _failed_end(choice: Document) -> str:
    """Return the error if the server aborted the answer of a choice; empty if it did not."""
    reason = choice.get("finish_reason")
    if isinstance(reason, dict):  # SGLang's form
        reason = reason.get("type")
    if isinstance(reason, str) and reason.lower() in _FAILED_ENDS:
        return f"the server ended the answer with finish_reason '{reason}'"
    return ""


def _typed(kind: str, document: Document) -> EventMeaning:
    """Read an event by its type; types that end in `.delta` carry content."""
    if kind.endswith(".delta"):
        text = document.get("delta")
        if not text:
            return NOTHING
        is_reasoning = kind.startswith("response.reasoning")
        carries = REASONING if is_reasoning else TOOL if "_call" in kind else ANSWER
        return EventMeaning((Delta(carries, text if isinstance(text, str) else "", None),))
    if kind == "transcript.text.done":
        return EventMeaning(usage=usage(document), is_end=True)
    if kind == "response.output_item.added" and part(document, "item").get("type") in _CALLS:
        return EventMeaning(
            (Delta(TOOL, "", None),)
        )  # names the tool, as the first delta of a chat's call does
    if kind not in _ENDS:
        return NOTHING
    whole = part(document, "response")
    error = maybe_error(whole) or ("the response failed" if kind == "response.failed" else "")
    return EventMeaning(usage=usage(whole), is_end=True, error=error)


def _words(document: Document) -> str:
    """Return the message of an event that reports an error."""
    message = document.get("message")
    return encodable(message if isinstance(message, str) and message else str(document))


# --- complete replies


def _whole(document: Document) -> WholeMeaning:
    choices = objects(document, "choices")
    error = maybe_error(document) or next(filter(None, map(_failed_end, choices)), "")
    if error:
        return WholeMeaning(error=error)
    messages = [part(choice, "message") for choice in choices]
    has_content = any(any(map(message.get, _PLACES)) for message in messages)
    is_blank = bool(choices) and not has_content and not any(choice.get("text") for choice in choices)
    message = _message(document, messages)
    answer = texts_in(message.get("content")) if message else _first_text(document, choices)
    return WholeMeaning(usage(document), is_blank, message, answer=answer)


def _first_text(document: Document, choices: Sequence[Document]) -> str:
    """Return the text of a completion or a transcription."""
    return texts_in((choices[0] if choices else document).get("text"))


def _message(document: Document, messages: Sequence[Document]) -> Document | None:
    if messages:
        return messages[0] or None
    said = [
        item for item in objects(document, "output") if item.get("type") == "message"
    ]  # of the responses API
    return {"role": "assistant", "content": said[0].get("content")} if said else None


def usage(document: Document) -> Usage:
    """Read the usage; the responses API says input and output instead of prompt and completion."""
    found = document.get("usage")
    if not isinstance(found, dict):
        return Usage()
    answer, prompt = (
        next((name for name in names if name in found), names[0])
        for names in (("completion_tokens", "output_tokens"), ("prompt_tokens", "input_tokens"))
    )
    is_prompt_alone = answer not in found and prompt not in found  # as some servers report for rerank
    return Usage(
        count(found, answer),
        count(found, "total_tokens" if is_prompt_alone else prompt),
        count(found.get(f"{answer}_details"), "reasoning_tokens"),
        count(found.get(f"{prompt}_details"), "cached_tokens"),
    )


OPENAI = ReplyForm(
    "OpenAI", _event, _whole, texts=("content", "text", "reasoning_content", "reasoning", "delta")
)


# --- requests


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


def split_prompt(prompt: str) -> tuple[str, list[str]]:
    """Use the first tenth of the words as the query, and split the rest into documents of about equal length."""
    words = prompt.split()
    first = max(1, len(words) // 10)
    rest = words[first:] or words
    number = min(DOCUMENTS, len(rest))
    edges = [len(rest) * place // number for place in range(number + 1)] if number else []
    return " ".join(words[:first]), [" ".join(rest[start:stop]) for start, stop in pairwise(edges)]


def rank(query: str, documents: Sequence[Any]) -> Fields:
    return {"query": query, "documents": documents}


CHAT = Api(
    name="chat",
    path="v1/chat/completions",
    ask=lambda prompt: {"messages": [{"role": "user", "content": prompt}]},
    form=OPENAI,
    chat=_chat,
    pattern="/chat/completions",
    limit="max_tokens",
    stream={"stream": True, "stream_options": {"include_usage": True}},
    turns="messages",
)
COMPLETIONS = Api(
    name="completions",
    path="v1/completions",
    ask=lambda prompt: {"prompt": prompt},
    form=OPENAI,
    pattern="/completions",
    limit="max_tokens",
    stream=CHAT.stream,
)
EMBEDDINGS = Api(
    name="embeddings",
    path="v1/embeddings",
    ask=lambda prompt: {"input": prompt},
    form=OPENAI,
    chat=_chat,  # vLLM's form for embedding images
    pattern="/embeddings",
)
RESPONSES = Api(
    name="responses",
    path="v1/responses",
    ask=lambda prompt: {"input": prompt},
    form=OPENAI,
    chat=_responses,
    pattern="/responses",
    limit="max_output_tokens",
    stream={"stream": True},  # usage is always sent
    turns="input",
)
RERANK = Api(
    name="rerank",
    path="v1/rerank",
    ask=lambda prompt: rank(*split_prompt(prompt)),
    form=OPENAI,
    rank=rank,
    pattern="/rerank(ing)?",
)
TRANSCRIPTIONS = Api(
    name="transcriptions",
    path="v1/audio/transcriptions",
    ask=lambda prompt: {"prompt": prompt},
    form=OPENAI,
    pattern="/audio/transcriptions",
    stream={"stream": True},
    takes_sound=True,
)
ROWS = (CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES, RERANK, TRANSCRIPTIONS)
