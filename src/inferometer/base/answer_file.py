"""Saved answers: one JSON file each, from which every report can be reproduced.

An answer is a frozen dataclass with a `kind` and a file format version (`schema`). Both are written to the file, so
that every reader can recognize it. The dataclass defines the format: `json_schema` describes it, and an invalid value
is rejected with the name of its field.
"""

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from json.encoder import encode_basestring_ascii
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

from inferometer.base.errors import UsageError
from inferometer.base.notes import Note
from inferometer.base.reading import ANSWER, read_text
from inferometer.base.text import decode_json
from inferometer.base.writing import write_file


class Answer:
    """Result of a command; the base of every frozen dataclass that can be saved."""

    __slots__ = ()

    kind: ClassVar[str]
    schema: ClassVar[int]  # raised when earlier versions can no longer read the file
    remedy: ClassVar[str]  # advice for a file that cannot be used
    tool: str  # the version that wrote it
    in_notebooks: ClassVar[Callable[[Any], str] | None] = None  # renders HTML; set by the report package

    def _repr_html_(self) -> str | None:
        """Return the HTML for a notebook, or None to show the plain repr."""
        return None if Answer.in_notebooks is None else Answer.in_notebooks(self)


A = TypeVar("A", bound=Answer)
T = TypeVar("T")
_SCALARS = frozenset((str, int, float, bool, type(None)))


def to_json(answer: Answer) -> str:
    """Return the text of the file; equal answers give equal bytes."""
    return _indented(plain(answer), "\n") + "\n"


def _indented(value: Any, line: str) -> str:
    """Return the same text as `json.dumps(value, indent=1, sort_keys=True, allow_nan=False)`, only much faster.

    `line` is a line break followed by the current indentation.
    """
    if isinstance(value, dict) and value:
        inner = line + " "
        rows = [f"{_key(name)}: {_indented(value[name], inner)}" for name in sorted(value)]
        return f"{{{inner}{f',{inner}'.join(rows)}{line}}}"
    if isinstance(value, list) and value:
        inner = line + " "
        return f"[{inner}{f',{inner}'.join([_indented(item, inner) for item in value])}{line}]"
    return _scalar(value)


def _key(name: Any) -> str:
    return _scalar(name) if isinstance(name, str) else f'"{_scalar(name)}"'


def _scalar(value: Any) -> str:
    kind = type(value)
    if kind is str:
        return encode_basestring_ascii(value)
    if kind is int or (kind is float and math.isfinite(value)):
        return repr(value)
    return json.dumps(value, allow_nan=False)


def plain(value: Any) -> Any:
    """Convert any of our values to plain JSON types."""
    kind: Any = type(value)
    if kind in _SCALARS:
        return value
    names = _fields(kind)
    if names is not None:
        own = {name: plain(getattr(value, name)) for name in names}
        return own | {name: getattr(value, name) for name in ("kind", "schema") if hasattr(value, "schema")}
    if isinstance(value, Note):
        return value.name
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    if isinstance(value, (str, int, float)):
        return value
    raise TypeError(f"{type(value).__name__} does not belong in an answer")


@cache
def _fields(kind: type[Any]) -> tuple[str, ...] | None:
    """Return the names of a dataclass's fields; None for any other type."""
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else None


def from_json(text: str, origin: str, *types: type[A]) -> A:
    """Read an answer from the text of a file; reject other kinds and schemas."""
    try:
        document = decode_json(text)
    except ValueError as error:
        raise UsageError(
            f"'{origin}' is not JSON: {error}",
            remedy="give a JSON file that inferometer wrote",
        ) from error
    return from_document(document, origin, *types)


def from_document(document: Any, origin: str, *types: type[A]) -> A:
    """Read an answer from the decoded JSON of a file; reject other kinds and schemas."""
    known = {each.kind: each for each in types}
    answer = known.get(_kind(document))
    if answer is None:
        names = " or ".join(f"a {name}" for name in known)
        raise UsageError(f"'{origin}' is not {names}", remedy="give a file of that kind")
    if document.get("schema") != answer.schema:
        raise UsageError(
            f"'{origin}' has {answer.kind} schema {document.get('schema')}, but this version reads {answer.schema}",
            remedy=answer.remedy,
        )
    return validated(answer, document, f"'{origin}' is not a {answer.kind}", answer.remedy)


def _kind(document: Any) -> str:
    """Return the kind that a file declares. Files of 0.1 are recognized by their fields: only comparisons had a
    kind."""
    if not isinstance(document, dict):
        return ""
    if "kind" in document:
        return str(document["kind"])
    if document.get("command") == "diagnose" and "verdict" in document:
        return "diagnosis"
    return "study" if "goals" in document else "result"


def validated(kind: type[T], document: Any, complaint: str, remedy: str) -> T:
    """Build a `kind` from the output of `plain`; an error adds the first invalid field to the complaint."""
    from pydantic import ValidationError

    try:
        return cast(T, _adapter(cast(Any, kind)).validate_python(document))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{complaint}: {where}: {first['msg']}", remedy=remedy) from error


@cache
def _adapter(kind: type[Any]) -> Any:
    """Return the validator of a type, cached because building one takes much longer than using it."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def write(answer: Answer, path: Path) -> None:
    """Write an answer atomically: readers never see a partial file."""
    write_file(path, to_json(answer))


def read(path: Path, *types: type[A]) -> A:
    """Read an answer of one of these types from a file."""
    text = read_text(path, ANSWER, "the saved answer", remedy="check the name")
    return from_json(text, str(path), *types)


def json_schema(answer: type[Answer]) -> dict[str, Any]:
    """Return the JSON Schema of an answer's file. Fields added after 0.1 are not required."""
    schema: dict[str, Any] = _adapter(cast(Any, answer)).json_schema()
    constants = {"schema": {"const": answer.schema}, "kind": {"const": answer.kind}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "properties": constants | schema["properties"],
        "required": ["schema", *schema["required"]],
    }
