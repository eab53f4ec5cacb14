"""Placeholders in the command line, the environment and the files of a server that is started.

`{port}` is a free port, `{port_NAME}` another one, and `{dir}` a folder created for this start; every other name is a
value that the user varies, or the path of a rendered file. `{{` and `}}` stand for braces.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from inferometer.base.errors import UsageError

PORT = "port"
FOLDER = "dir"
_NAME = r"[A-Za-z_]\w*"
_PLACE = re.compile(rf"\{{\{{|\}}\}}|\{{({_NAME})\}}")
_ALONE = re.compile(rf"\{{({_NAME})\}}")


def is_name(word: str) -> bool:
    return re.fullmatch(_NAME, word) is not None


def is_port(name: str) -> bool:
    return name == PORT or name.startswith(f"{PORT}_")


def is_built_in(name: str) -> bool:
    return is_port(name) or name == FOLDER


def names_in(texts: Iterable[str]) -> list[str]:
    """Return the placeholders of these texts, each once, in order."""
    return list(dict.fromkeys(match[1] for text in texts for match in _PLACE.finditer(text) if match[1]))


def filled(text: str, values: Mapping[str, Any]) -> str:
    """Replace the placeholders of a text, and doubled braces by single ones."""

    def replaced(match: "re.Match[str]") -> str:
        return written(values[match[1]]) if match[1] else match[0][0]

    return _PLACE.sub(replaced, text)


def filled_file(text: str, values: Mapping[str, Any]) -> str:
    """Replace known placeholders. All other braces of a file are its own, such as those of JSON."""

    def replaced(match: "re.Match[str]") -> str:
        return written(values[match[1]]) if match[1] in values else match[0]

    return _ALONE.sub(replaced, text)


def filled_words(words: Iterable[str], values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the words of a command. A word that is only a placeholder becomes as many words as its value has, so that a
    value may be a whole option, or nothing."""
    for word in words:
        alone = _ALONE.fullmatch(word)
        if alone is None:
            yield filled(word, values)
        elif isinstance(value := values[alone[1]], str) and not is_built_in(alone[1]):
            yield from shlex.split(value)
        else:
            yield written(value)


def written(value: object) -> str:
    """Write a value as it appears in a command."""
    return format(value, ".12g") if isinstance(value, float) else str(value)


def split_command(text: str, name: str) -> tuple[str, ...]:
    """Split a command line into words as a shell does. No shell runs it."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(
            f"{name} '{text}' cannot be split into words: {error}", remedy="close the quote"
        ) from error
    if not words:
        raise UsageError(f"{name} is empty", remedy="give the command that starts the server")
    return words
