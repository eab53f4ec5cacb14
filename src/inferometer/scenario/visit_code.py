"""Lookup and checks of visits and tasks written in Python, before the load starts."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from inferometer.base.confined import check_command
from inferometer.base.errors import UsageError
from inferometer.load.visit_file import VisitFile

_IMPORTABLE = "define it at the top level of a file, so that worker processes can import it"


def open_visit(place: str, written: str, folder: Path | None) -> VisitFile:
    """Open FILE.py:FUNCTION; the file is also looked up next to the scenario file."""
    found = _opened(place, written, folder)
    made = found.load()
    if not (inspect.isgeneratorfunction(made) or inspect.isasyncgenfunction(made)):
        raise UsageError(
            f"{place}: {found.function} is not a generator function",
            remedy="a visit yields call(...) and pause(...), and receives the answers as the values of yield",
        )
    return found


def open_task(place: str, written: str, folder: Path | None) -> VisitFile:
    """Open the function of a task, which must be a coroutine."""
    found = _opened(place, written, folder)
    if not inspect.iscoroutinefunction(found.load()):
        raise UsageError(
            f"{place}: {found.function} is not a coroutine function",
            remedy=f"write `async def {found.function}(task):`, and await task.call(...) in it",
        )
    return found


def _opened(place: str, written: str, folder: Path | None) -> VisitFile:
    check_command(place, "Python code")
    name, _, function = written.rpartition(":")
    beside = None if folder is None else folder / name
    path = beside if beside is not None and not Path(name).exists() and beside.exists() else Path(name)
    if not path.is_file():
        raise UsageError(
            f"{place} is '{written}', but the file {name} does not exist", remedy="check the name"
        )
    return VisitFile(str(path.resolve()), function)


def with_written_code(document: Mapping[str, Any]) -> dict[str, Any]:
    """Replace functions as visits and tasks with their notation in a scenario file."""
    classes = document.get("classes")
    if not isinstance(classes, Mapping):
        return dict(document)
    return {**document, "classes": {name: _written_row(name, row) for name, row in classes.items()}}


def _written_row(name: str, row: Any) -> Any:
    if not isinstance(row, Mapping):
        return row
    place, task = f"classes.{name}", row.get("task")
    if callable(row.get("visit")):
        row = {**row, "visit": _written(f"{place}.visit", row["visit"])}
    if isinstance(task, Mapping) and callable(task.get("python")):
        row = {**row, "task": {**task, "python": _written(f"{place}.task.python", task["python"])}}
    return row


def _written(place: str, function: Callable[..., Any]) -> str:
    """Return a function's notation in a scenario file; raise if worker processes cannot import it."""
    name = getattr(function, "__qualname__", "")
    code = getattr(function, "__code__", None)
    if not name or "<" in name or code is None:
        words = "a lambda" if "<lambda>" in name else f"'{name or type(function).__name__}'"
        raise UsageError(f"{place} is {words}, which is defined inside other code", remedy=_IMPORTABLE)
    if not Path(code.co_filename).is_file():
        raise UsageError(f"{place} is '{name}', which is not defined in a file", remedy=_IMPORTABLE)
    return f"{code.co_filename}:{name}"
