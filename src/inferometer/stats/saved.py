"""Saved files, ours and those of other load testers: the only module that reads an answer from a file."""

from pathlib import Path
from typing import Any, TypeVar, cast

from inferometer.base import answer_file
from inferometer.base.answer_file import Answer
from inferometer.base.errors import UsageError
from inferometer.base.reading import ANSWER, CONFIG, read_text
from inferometer.base.text import decode_json
from inferometer.base.yaml_text import YamlError, load_yaml
from inferometer.stats.foreign.formats import DOCUMENTS, TEXTS, TOOLS
from inferometer.stats.foreign.part import Part
from inferometer.stats.result import Result

A = TypeVar("A", bound=Answer)
_YAML = (".yaml", ".yml")


def read(path: Path, *types: type[A]) -> A:
    """Read an answer of one of these types. Other tools' files are results."""
    is_yaml = path.suffix.lower() in _YAML
    text = read_text(path, CONFIG if is_yaml else ANSWER, "the saved answer", remedy="check the name")
    return from_text(text, str(path), *types, is_yaml=is_yaml)


def from_text(text: str, origin: str, *types: type[A], is_yaml: bool = False) -> A:
    """Read an answer from the text of a file."""
    if Result in types:
        found: Any = _maybe_foreign(text, origin, is_yaml=is_yaml)
        if isinstance(found, Result):
            return cast(A, found)
        if found is not None:
            return answer_file.from_document(found, origin, *types)
    return answer_file.from_json(text, origin, *types)


def _maybe_foreign(text: str, origin: str, *, is_yaml: bool) -> "Result | dict[str, Any] | None":
    """Return the result in another tool's file, or the JSON object of any other file; None if it has neither."""
    row = next((row for row in TEXTS if row.is_one(text)), None)
    if row is not None:
        return row.read(text, origin)
    document = _yaml(text, origin) if is_yaml else _maybe_json(text)
    if not isinstance(document, dict):
        return None
    if "kind" in document or "schema" in document:  # ours
        return document
    found = next((row for row in DOCUMENTS if row.is_one(document)), None)
    return document if found is None else found.read(Part(document, origin, found.tool))


def _maybe_json(text: str) -> Any:
    try:
        return decode_json(text)
    except ValueError:
        return None


def _yaml(text: str, origin: str) -> Any:
    try:
        return load_yaml(text)
    except YamlError as error:
        raise UsageError(
            f"'{origin}' is not YAML: {error}", remedy=f"give a file of inferometer, {', '.join(TOOLS)}"
        ) from error
