"""Positional words: which of them are addresses."""

import re
from collections.abc import Sequence


def addresses_of(words: Sequence[str], *, is_known: bool = False) -> list[str]:
    """Return the positional words that are addresses. A name with a dot counts only if no other word and no option
    (`is_known`) gives the address."""
    sure = [word for word in words if "@" not in word and is_surely_address(word)]
    if sure or is_known or any("@" in word for word in words):
        return sure
    return [word for word in words if is_address(word)]


def is_address(word: str) -> bool:
    """Whether a positional word may be an address."""
    return word == "localhost" or any(mark in word for mark in ":/.")


def is_surely_address(word: str) -> bool:
    """Whether a word is an address, or several."""
    return all(map(_is_surely_one, split_addresses(word)))


def split_addresses(text: str) -> tuple[str, ...]:
    """Split several addresses at their commas; a comma in the path or query of a single address is part of it."""
    parts = tuple(part.strip() for part in text.split(","))
    authority = re.split("[/?#]", text.partition("://")[2] or text)[0]
    if len(parts) > 1 and ("," in authority or all(map(_is_surely_one, parts))):
        return parts
    return (text,)


def _is_surely_one(word: str) -> bool:
    """Whether a word has a scheme or a port, which model names lack; they may look like org/llama-3.1:8b."""
    return word == "localhost" or re.fullmatch(r"\w+://.*|([^/:]*|\[.*\]):\d+([/?].*)?", word) is not None
