"""Fields that the user sets in every body: `--body key=value`."""

import json
import re
import shlex
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.text import decode_json
from inferometer.options.names import option_name
from inferometer.services.text_api import Fields

_FIELD = re.compile(r"[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)*=")


@frozen
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
                    f"{option_name('--body')} {name}=... cannot be set in a body whose "
                    f"'{'.'.join(self.keys[:depth])}' is not an object",
                    remedy=f"give the whole object: {option_name('--body')} '{self.keys[0]}={{...}}'",
                )
            inner = found
        inner[self.keys[-1]] = self.value


def is_body_field(word: str) -> bool:
    """Return whether the word has the form of a field and is therefore not a whole body."""
    return _FIELD.match(word) is not None


def maybe_fields(body: str) -> str:
    """Return how to write a body as fields if it has only a few: a JSON object without a prompt, or `name:value`."""
    if (pair := re.fullmatch(r"([A-Za-z_][\w-]*):\s*([^\s\"]+)", body)) is not None:
        found: Any = {pair[1]: pair[2]}
    else:
        try:
            found = decode_json(body)
        except ValueError:
            return ""
    if not isinstance(found, dict) or not found or not _WHOLE.isdisjoint(found):
        return ""
    words = [
        f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in found.items()
    ]
    return " ".join(f"{option_name('--body')} {shlex.quote(word)}" for word in words[:3])


_WHOLE = frozenset(("messages", "prompt", "input", "inputs", "text", "query"))


def body_field(word: str) -> BodyField:
    """Parse `key=value` or `outer.inner=value`; a value that is not JSON is a string."""
    if not is_body_field(word):
        raise UsageError(
            f"{option_name('--body')} {word} is not a valid body field",
            remedy="for an OpenAI-style server write key=value, such as temperature=0 or "
            f"response_format.type=json_object; give whole bodies with {option_name('--data')}, or with "
            f"{option_name('--service-kind', 'http')}",
        )
    key, _, text = word.partition("=")
    value: Any = text
    try:
        value = decode_json(text)
    except ValueError as error:
        if text.lstrip().startswith(("{", "[")):
            raise UsageError(
                f"{option_name('--body')} {key}=... begins like JSON, but is invalid: {error}",
                remedy="put the argument in single quotes to protect it from the shell",
            ) from None
        if re.fullmatch(r"-?[0-9]+(,[0-9]+)+", text):
            decimal = f"{key}={text.replace(',', '.')} for a number, " if text.count(",") == 1 else ""
            raise UsageError(
                f"{option_name('--body')} {word} has commas between digits, which would be sent as text",
                remedy=f"write {decimal}{key}=[{text}] for a list, or '{key}=\"{text}\"' for the text",
            ) from None
    return BodyField(tuple(key.split(".")), value)
