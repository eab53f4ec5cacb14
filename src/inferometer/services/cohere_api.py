"""Cohere's embeddings and rerank, version 2. Their counts are in `meta`; those of vLLM in `usage`."""

from inferometer.base.text import encodable
from inferometer.services.openai_api import rank, split_prompt, usage
from inferometer.services.text_api import (
    NOTHING,
    Api,
    Document,
    EventMeaning,
    ReplyForm,
    Usage,
    WholeMeaning,
    count,
    maybe_error,
    part,
)


def _event(document: Document, name: bytes) -> EventMeaning:
    return NOTHING  # neither endpoint streams


def _whole(document: Document) -> WholeMeaning:
    results = document.get("embeddings") or document.get("results")
    error = maybe_error(document)
    if not error and not results and "message" in document:
        error = encodable(str(document["message"]))
    if error:
        return WholeMeaning(error=error)
    meta = part(document, "meta")
    tokens = count(part(meta, "tokens"), "input_tokens") or count(part(meta, "billed_units"), "input_tokens")
    return WholeMeaning(Usage(prompt_tokens=tokens).over(usage(document)), is_blank=not results)


_COHERE = ReplyForm("Cohere", _event, _whole, texts=("text",))
EMBED = Api(
    name="cohere-embed",
    path="v2/embed",
    ask=lambda prompt: {"texts": [prompt]},
    form=_COHERE,
    pattern="/v2/embed",
    always={"input_type": "search_document", "embedding_types": ["float"]},
)
RERANK = Api(
    name="cohere-rerank",
    path="v2/rerank",
    ask=lambda prompt: rank(*split_prompt(prompt)),
    form=_COHERE,
    rank=rank,
    pattern="/v2/rerank",
)
ROWS = (EMBED, RERANK)
