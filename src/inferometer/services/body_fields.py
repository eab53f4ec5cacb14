"""Fields that the user sets in every body: `--body key=value`."""

import re
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
    return BodyField(tuple(key.split(".")), value)
