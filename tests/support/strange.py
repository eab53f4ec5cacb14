"""Malformed answers: a valid document with one or more parts replaced."""

import json
from collections.abc import Callable, Iterator
from typing import Any

Path = tuple[str | int, ...]
Choose = Callable[[int], int]
"""A number from 0 to below the one given."""

GONE = object()
LONG = "<an integer of 5,000 digits>"
_DEEP: Any = "end"
for _ in range(80):
    _DEEP = [_DEEP]

ODD: tuple[Any, ...] = (
    GONE,
    None,
    True,
    0,
    -1,
    7,
    2**31,
    2**63,
    2**64,
    10**40,
    LONG,
    1.5,
    -0.0,
    1e300,
    float("inf"),
    float("-inf"),
    float("nan"),
    "",
    "5",
    "²",
    "a text",
    "\ud800",
    "\x00\x1b[31m",
    "[red]x[/red]",
    "../../etc",
    "x" * 5000,
    [],
    [None],
    [[1]],
    ["a", 5],
    {},
    {"a": 1},
    {"": None},
    _DEEP,
)


def paths(document: Any, above: Path = ()) -> Iterator[Path]:
    """Yield the path of every part of a document, starting with the whole."""
    yield above
    parts: Any = ()
    if isinstance(document, dict):
        parts = document.items()
    elif isinstance(document, list):
        parts = enumerate(document)
    for name, part in parts:
        yield from paths(part, (*above, name))


def replaced(document: Any, path: Path, value: Any) -> Any:
    """Return the document with the value at the path replaced or removed."""
    if not path:
        return None if value is GONE else value
    first, *rest = path
    copy: Any = dict(document) if isinstance(document, dict) else list(document)
    if value is GONE and not rest:
        del copy[first]
    else:
        copy[first] = replaced(copy[first], tuple(rest), value)
    return copy


def strange(document: Any, choose: Choose) -> Any:
    """Replace one to three parts of a document."""
    for _ in range(1 + choose(3)):
        found = list(paths(document))
        document = replaced(document, found[choose(len(found))], ODD[choose(len(ODD))])
    return document


def text_of(document: Any) -> bytes:
    """Render as JSON, including values that JSON does not allow."""
    return json.dumps(document).replace(f'"{LONG}"', "1" + "0" * 5000).encode()
