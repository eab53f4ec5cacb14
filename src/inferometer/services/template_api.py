"""APIs that are not listed: described by a template of the body, and by the paths of the parts of a reply.

In the template, a string such as "{{prompt}}" stands for a value: `prompt`, `messages`, `model`, `max_tokens` or
`stream`. Inside a longer string, it is inserted as text. A field whose whole value is not known, such as `max_tokens`
without a limit, is left out. Paths are keys and indexes separated by dots: `choices.0.text`.
"""

import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from inferometer.base.confined import check_path
from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.reading import DATA, read_file
from inferometer.base.text import decode_json, encodable
from inferometer.options.names import option_name
from inferometer.services.text_api import (
    ANSWER,
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
    texts_in,
)

PLACES = ("prompt", "messages", "model", "max_tokens", "stream")
PARTS = ("text", "reasoning", "tool", *Usage._fields, "end", "error")
_PLACE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_MISSING = object()


# --- replies


@frozen
class ReplyPath:
    """Path of one part of a reply; with a `value`, only an equal part counts as present."""

    keys: tuple[str, ...]
    value: str | None = None

    def get(self, document: Any) -> Any:
        """Return the part; None if it is missing."""
        for key in self.keys:
            if isinstance(document, dict):
                document = document.get(key)
            elif isinstance(document, list) and key.isdecimal() and int(key) < len(document):
                document = document[int(key)]
            else:
                return None
        if self.value is None:
            return document
        return document == self.value or json.dumps(document) == self.value


Paths = Mapping[str, ReplyPath]


def reply_paths(words: Sequence[str]) -> Paths:
    """Parse `NAME=PATH`, and `end=PATH=VALUE`."""
    found = {}
    for word in words:
        name, _, rest = word.partition("=")
        path, equals, value = rest.partition("=")
        if name not in PARTS or not path or (equals and name != "end"):
            raise UsageError(
                f"{option_name('--reply-path')} {word} does not name a part of a reply",
                remedy=f"write NAME=PATH, such as text=choices.0.text; names are {', '.join(PARTS)}; and "
                "end=type=done for an event whose 'type' is 'done'",
            )
        found[name] = ReplyPath(tuple(path.split(".")), value if equals else None)
    return found


def _delta(paths: Paths, document: Document) -> Delta | None:
    values = {name: paths[name].get(document) for name in ("text", "reasoning", "tool") if name in paths}
    carries = (
        ANSWER * bool(values.get("text"))
        | REASONING * bool(values.get("reasoning"))
        | TOOL * bool(values.get("tool"))
    )
    text = values.get("text") or values.get("reasoning")
    return Delta(carries, text if isinstance(text, str) else "") if carries else None


def _usage(paths: Paths, document: Document) -> Usage:
    return Usage(
        **{name: count({"": paths[name].get(document)}, "") for name in Usage._fields if name in paths}
    )


def _error(paths: Paths, document: Document) -> str:
    if "error" not in paths:
        return maybe_error(document)
    return maybe_error({"error": paths["error"].get(document)})


def _event(paths: Paths, document: Document, name: bytes) -> EventMeaning:
    error = _error(paths, document)
    if error or name == b"error":
        return EventMeaning(error=error or encodable(str(document)))
    found, usage = _delta(paths, document), _usage(paths, document)
    is_end = "end" in paths and bool(paths["end"].get(document))
    return EventMeaning(() if found is None else (found,), usage if any(usage) else None, is_end)


def _whole(paths: Paths, document: Document) -> WholeMeaning:
    if error := _error(paths, document):
        return WholeMeaning(error=error)
    text = paths["text"].get(document) if "text" in paths else None
    return WholeMeaning(_usage(paths, document), text in ("", []), answer=texts_in(text))


def _form(paths: Paths, *, has_lines: bool) -> ReplyForm:
    texts = tuple(paths[name].keys[-1] for name in ("text", "reasoning") if name in paths)
    return ReplyForm(
        "the template",
        partial(_event, paths),
        partial(_whole, paths),
        texts or ("text",),
        must_end="end" in paths,
        has_lines=has_lines,
    )


# --- requests


def read_template(word: str) -> Fields:
    """Return the template given as JSON, or as the name of a file that contains it."""
    text: str | bytes = word
    if not word.lstrip().startswith("{"):
        check_path(word)
        text = read_file(
            word, DATA, "the body template", remedy="give the path of a JSON file, or the JSON itself"
        )
    try:
        template = decode_json(text)
    except ValueError as error:
        raise UsageError(f"{option_name('--body-template')} is not JSON: {error}", remedy=_EXAMPLE) from None
    named = set(_PLACE.findall(json.dumps(template)))
    if not isinstance(template, dict) or not named & {"prompt", "messages"}:
        raise UsageError(
            f"{option_name('--body-template')} contains neither '{{{{prompt}}}}' nor '{{{{messages}}}}'",
            remedy=_EXAMPLE,
        )
    if unknown := named - set(PLACES):
        raise UsageError(
            f"{option_name('--body-template')} has the unknown placeholder '{{{{{min(unknown)}}}}}'",
            remedy=f"use {', '.join(PLACES)}",
        )
    return template


_EXAMPLE = """write an object such as '{"inputs": "{{prompt}}", "limit": "{{max_tokens}}"}'"""


def fill(template: Any, values: Mapping[str, Any]) -> Any:
    """Return the template with its placeholders replaced; fields and elements without a value are left out."""
    if isinstance(template, dict):
        filled = ((key, fill(value, values)) for key, value in template.items())
        return {key: value for key, value in filled if value is not _MISSING}
    if isinstance(template, list):
        return [value for value in (fill(row, values) for row in template) if value is not _MISSING]
    if not isinstance(template, str):
        return template
    if (whole := _PLACE.fullmatch(template)) is not None:
        return values.get(whole[1], _MISSING)
    return _PLACE.sub(lambda found: _as_text(values.get(found[1], "")), template)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def template_api(
    word: str, paths: Sequence[str], path: str, *, is_streaming: bool = False
) -> tuple[Api, Fields]:
    """Return the API that a template describes, and the template."""
    template = read_template(word)
    named = set(_PLACE.findall(json.dumps(template)))
    api = Api(
        name="template",
        path=path,
        ask=lambda prompt: {"prompt": prompt, "messages": [{"role": "user", "content": prompt}]},
        form=_form(reply_paths(paths), has_lines=is_streaming),
        chat=(lambda messages: {"messages": messages}) if "messages" in named else None,
        limit="max_tokens" if "max_tokens" in named else "",
        stream={"stream": True},
        whole={"stream": False},
        names_model="model" in named,
    )
    return api, template
