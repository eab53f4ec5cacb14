"""Triton's generate extension: a text model of Triton, with complete or streamed answers.

The fields of the body are the model's inputs, or else parameters of the request: those of the vLLM and TensorRT-LLM
backends are named alike. Streams have no counts and no last event.
"""

from typing import Any

from inferometer.services.text_api import (
    ANSWER,
    NOTHING,
    Api,
    Delta,
    Document,
    EventMeaning,
    ReplyForm,
    WholeMeaning,
    maybe_error,
)


def _event(document: Document, name: bytes) -> EventMeaning:
    if error := maybe_error(document):
        return EventMeaning(error=error)
    text = _text(document)
    return EventMeaning((Delta(ANSWER, text),)) if text else NOTHING


def _text(document: Document) -> str:
    """Return the text, which some models send as a list of one."""
    found: Any = document.get("text_output")
    if isinstance(found, list):
        return "".join(row for row in found if isinstance(row, str))
    return found if isinstance(found, str) else ""


def _whole(document: Document) -> WholeMeaning:
    if error := maybe_error(document):
        return WholeMeaning(error=error)
    text = _text(document)
    return WholeMeaning(is_blank="text_output" in document and not text, answer=text)


GENERATE = Api(
    name="triton-generate",
    path="v2/models/{model}/generate",
    stream_path="v2/models/{model}/generate_stream",
    ask=lambda prompt: {"text_input": prompt},
    form=ReplyForm("Triton", _event, _whole, texts=("text_output",)),
    pattern=r"/v2/models/[^/]+(?:/versions/[^/]+)?/generate(?:_stream)?",
    limit="max_tokens",
    stream={"stream": True},
    names_model=False,
    host_kind="triton",
)
ROWS = (GENERATE,)
