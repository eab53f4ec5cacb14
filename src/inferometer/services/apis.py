"""All APIs for text, by name and by path."""

import re
from collections.abc import Mapping

from inferometer.services import (
    anthropic_api,
    cohere_api,
    generate_api,
    huggingface_api,
    ollama_api,
    openai_api,
)
from inferometer.services.openai_api import CHAT, COMPLETIONS
from inferometer.services.text_api import Api

APIS: tuple[Api, ...] = (
    *cohere_api.ROWS,
    *openai_api.ROWS,
    *anthropic_api.ROWS,
    *ollama_api.ROWS,
    *generate_api.ROWS,
    *huggingface_api.ROWS,
)
"""A path belongs to the first row whose pattern it ends with."""

BY_NAME: Mapping[str, Api] = {api.name: api for api in APIS}


def maybe_api(path: str) -> Api | None:
    """Return the API of a path, by its ending."""
    return next((api for api in APIS if api.pattern and re.search(f"(?:{api.pattern})$", path)), None)


def maybe_requested(endpoint: str) -> Api | None:
    """Return the API of an endpoint given by name or path, or of an address that ends with its path."""
    return BY_NAME.get(endpoint) or maybe_api(f"/{endpoint}".rstrip("/"))


def api_at(path: str) -> Api:
    """Return the API of a path; an unknown path is treated as chat if it contains that word, else as completions."""
    return maybe_api(path) or (CHAT if "chat" in path else COMPLETIONS)
