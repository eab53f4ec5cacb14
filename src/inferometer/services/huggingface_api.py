"""Hugging Face's servers: Text Generation Inference (TGI) and Text Embeddings Inference (TEI).

A stream of TGI has an event per token; the last one also has the whole text and the counts. Special tokens, such as the
end of the text, are counted but are not part of the answer. TEI reports its counts in headers.
"""

from collections.abc import Sequence
from typing import Any

from inferometer.base.text import encodable, is_digits
from inferometer.services.openai_api import split_prompt
from inferometer.services.text_api import (
    ANSWER,
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
    part,
    texts_in,
)
from inferometer.wire.http1 import Head


def _event(document: Document, name: bytes) -> EventMeaning:
    if error := maybe_error(document):
        return EventMeaning(error=error)
    token = part(document, "token")
    text = token.get("text")
    deltas = (Delta(ANSWER, text),) if isinstance(text, str) and text and not token.get("special") else ()
    details = part(document, "details")
    is_end = isinstance(document.get("generated_text"), str) or bool(details.get("finish_reason"))
    return EventMeaning(deltas, _usage(details) if details else None, is_end)


def _usage(details: Document) -> Usage:
    prefill = details.get("prefill")
    prompt = count(details, "input_length") or (len(prefill) if isinstance(prefill, list) else 0)
    return Usage(count(details, "generated_tokens"), prompt)


def _whole(document: Any) -> WholeMeaning:
    rows = document if isinstance(document, list) else [document]
    found: Document = rows[0] if rows and isinstance(rows[0], dict) else {}
    if error := maybe_error(found):
        return WholeMeaning(error=error)
    text = found.get("generated_text")
    return WholeMeaning(_usage(part(found, "details")), not text, answer=texts_in(text))


def _header_usage(head: Head) -> Usage:
    """Read the counts of a complete reply: those of TGI are for prompt and answer, those of TEI only for the computed
    tokens."""
    prompt = _number(head, "x-prompt-tokens") or _number(head, "x-compute-tokens")
    return Usage(_number(head, "x-generated-tokens"), prompt)


def _number(head: Head, name: str) -> int:
    value = (head.get(name) or "").strip()
    return count({name: int(value)}, name) if is_digits(value) else 0


def _computed(document: Any) -> WholeMeaning:
    """Read embeddings or ranks: a list without counts."""
    if isinstance(document, dict):
        return WholeMeaning(
            error=maybe_error(document) or f"the reply is not a list: {encodable(str(document)[:80])}"
        )
    return WholeMeaning(is_blank=not document)


def _rank(query: str, documents: Sequence[Any]) -> Fields:
    texts = [row.get("text", "") if isinstance(row, dict) else row for row in documents]
    return {"query": query, "texts": texts}


_TEI = ReplyForm("TEI", _event, _computed, texts=("text",), accepts=(list,), head=_header_usage)
TGI = Api(
    name="tgi",
    path="generate",
    stream_path="generate_stream",
    ask=lambda prompt: {"inputs": prompt, "parameters": {"details": True}},
    form=ReplyForm(
        "TGI", _event, _whole, texts=("text",), accepts=(list,), must_end=True, head=_header_usage
    ),
    pattern="/generate_stream",
    limit="parameters.max_new_tokens",
    names_model=False,
    models_path="/info",
)
EMBED = Api(
    name="tei-embed",
    path="embed",
    ask=lambda prompt: {"inputs": prompt},
    form=_TEI,
    pattern="/embed",
    names_model=False,
    models_path="/info",
)
RERANK = Api(
    name="tei-rerank",
    path="rerank",
    ask=lambda prompt: _rank(*split_prompt(prompt)),
    form=_TEI,
    rank=_rank,
    names_model=False,
    models_path="/info",
)
ROWS = (TGI, EMBED, RERANK)
