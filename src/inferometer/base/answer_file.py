"""How an answer is kept: one JSON file, from which every report can be made again.

An answer is a frozen dataclass that says its `kind` and the version of its file format (`schema`). Both are written
into the file, so the file itself says what it is and who can read it. The format is the dataclass: `json_schema`
describes it, and a value that does not fit is refused with the name of its field.
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
    """What a command found out; the base of every frozen dataclass that can be saved."""

    __slots__ = ()

    kind: ClassVar[str]
    schema: ClassVar[int]  # raised when an earlier version could no longer read the file
    remedy: ClassVar[str]  # what to do about a file that cannot be used
    tool: str  # the version that made it
    in_notebooks: ClassVar[Callable[[Any], str] | None] = (
        None  # makes the HTML; set by a package that knows reports
    )

    def _repr_html_(self) -> str | None:
        """What a notebook shows; None lets it show the plain repr."""
        return None if Answer.in_notebooks is None else Answer.in_notebooks(self)


A = TypeVar("A", bound=Answer)
T = TypeVar("T")
_SCALARS = frozenset((str, int, float, bool, type(None)))


def to_json(answer: Answer) -> str:
    """The file's text; the same answer gives the same bytes."""
    return _indented(plain(answer), "\n") + "\n"


def _indented(value: Any, line: str) -> str:
    """What `json.dumps(value, indent=1, sort_keys=True, allow_nan=False)` gives, in a fraction of the time.

    `line` ends a line and indents the next as far as this one is.
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
    """Any of our values as JSON has it."""
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
    """The names of a dataclass's fields; None of any other."""
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else None


def from_json(text: str, origin: str, *types: type[A]) -> A:
    """The answer in a file's text; a file of another kind or schema is refused."""
    try:
        document = decode_json(text)
    except ValueError as error:
        raise UsageError(
            f"'{origin}' is not JSON: {error}",
            remedy="give a file written by inferometer, such as with --json",
        ) from error
    known = {each.kind: each for each in types}
    answer = known.get(_kind(document))
    if answer is None:
        names = " or ".join(f"a {name}" for name in known)
        raise UsageError(f"'{origin}' is not {names}", remedy="give a file that holds one")
    if document.get("schema") != answer.schema:
        raise UsageError(
            f"'{origin}' has {answer.kind} schema {document.get('schema')}, and this version reads {answer.schema}",
            remedy=answer.remedy,
        )
    return validated(answer, document, f"'{origin}' is not a {answer.kind}", answer.remedy)


def _kind(document: Any) -> str:
    """What a file says it is. Those of 0.1 are told apart by their fields: only comparisons had a kind."""
    if not isinstance(document, dict):
        return ""
    if "kind" in document:
        return str(document["kind"])
    if document.get("command") == "diagnose" and "verdict" in document:
        return "diagnosis"
    return "study" if "goals" in document else "result"


def validated(kind: type[T], document: Any, complaint: str, remedy: str) -> T:
    """A `kind` out of what `plain` made of one; else the complaint with the first field that does not fit."""
    from pydantic import ValidationError

    try:
        return cast(T, _adapter(cast(Any, kind)).validate_python(document))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{complaint}: {where}: {first['msg']}", remedy=remedy) from error


@cache
def _adapter(kind: type[Any]) -> Any:
    """Made once for every kind: that takes much longer than to read a document with it."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def write(answer: Answer, path: Path) -> None:
    """Whole or not at all: a reader never sees half a file."""
    write_file(path, to_json(answer))


def read(path: Path, *types: type[A]) -> A:
    """The answer in a file, which must be of one of these types."""
    text = read_text(path, ANSWER, "the saved answer", remedy="check the name")
    return from_json(text, str(path), *types)


def json_schema(answer: type[Answer]) -> dict[str, Any]:
    """What a file of this type looks like, as JSON Schema. Fields that 0.1 did not have yet are not required."""
    schema: dict[str, Any] = _adapter(cast(Any, answer)).json_schema()
    constants = {"schema": {"const": answer.schema}, "kind": {"const": answer.kind}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "properties": constants | schema["properties"],
        "required": ["schema", *schema["required"]],
    }
