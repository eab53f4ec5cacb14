"""Visits that are written in Python: where they stand, checked before the load."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from inferometer.base.confined import check_command
from inferometer.base.errors import UsageError
from inferometer.load.visit_file import VisitFile

_IMPORTABLE = "put it at the top of a file, as `def visit(number):`, so that worker processes find it there"


def open_visit(place: str, written: str, folder: Path | None) -> VisitFile:
    """FILE.py:FUNCTION; the file is looked for beside that of the scenario, too."""
    check_command(place, "Python code")
    name, _, function = written.rpartition(":")
    beside = None if folder is None else folder / name
    path = beside if beside is not None and not Path(name).exists() and beside.exists() else Path(name)
    if not path.is_file():
        raise UsageError(f"{place} is '{written}', and {name} is no file", remedy="check the name")
    found = VisitFile(str(path.resolve()), function)
    made = found.load()
    if not (inspect.isgeneratorfunction(made) or inspect.isasyncgenfunction(made)):
        raise UsageError(
            f"{place}: {function} is no generator function",
            remedy="a visit yields call(...) and pause(...), and gets the answers as the values of yield",
        )
    return found


def with_written_visits(document: Mapping[str, Any]) -> dict[str, Any]:
    """A scenario from Python, with visits that are functions as a file writes them."""
    classes = document.get("classes")
    if not isinstance(classes, Mapping):
        return dict(document)
    written = {
        name: {**row, "visit": _written_visit(f"classes.{name}.visit", row["visit"])}
        if isinstance(row, Mapping) and callable(row.get("visit"))
        else row
        for name, row in classes.items()
    }
    return {**document, "classes": written}


def _written_visit(place: str, function: Callable[..., Any]) -> str:
    """A function as a scenario writes it; refuses one that worker processes cannot find."""
    name = getattr(function, "__qualname__", "")
    code = getattr(function, "__code__", None)
    if not name or "<" in name or code is None:
        words = "a lambda" if "<lambda>" in name else f"'{name or type(function).__name__}'"
        raise UsageError(f"{place} is {words}, which stands inside of other code", remedy=_IMPORTABLE)
    if not Path(code.co_filename).is_file():
        raise UsageError(f"{place} is '{name}', which stands in no file", remedy=_IMPORTABLE)
    return f"{code.co_filename}:{name}"
