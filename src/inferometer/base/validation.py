"""Values out of plain documents."""

from functools import cache
from typing import Any, TypeVar, cast

T = TypeVar("T")


def validated(kind: type[T], document: Any) -> T:
    """A `kind` out of its document, or pydantic's `ValidationError`."""
    return cast(T, _adapter(cast(Any, kind)).validate_python(document))


@cache
def _adapter(kind: type[Any]) -> Any:
    """Made once for every kind: that takes much longer than to read a document with it."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
