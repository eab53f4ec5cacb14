"""A visit or a task written in Python, as passed to workers: by its file and function."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
)
from pathlib import Path
from types import ModuleType
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.reading import CONFIG, read_file

_LOADED: dict["VisitFile", Callable[..., Any]] = {}


@frozen
class VisitFile:
    """File and function of a visit or a task. Each process runs the file once, as a module with its own name, not as
    the main program."""

    file: str
    function: str
    source: bytes | None = None  # content of the file, for machines that do not have it

    def __call__(self, given: Any) -> Any:
        return self.load()(given)

    def load(self) -> Callable[..., Any]:
        """Return the function; raise UsageError if the file cannot be imported or has no such function."""
        if self not in _LOADED:
            _LOADED[self] = _function(Path(self.file).resolve(), self.function, self.source)
        return _LOADED[self]

    def carried(self) -> "VisitFile":
        """Return a copy for a process on another machine. Modules next to the file are not included."""
        return replace(self, source=read_file(self.file, CONFIG, "the visit"))


def _function(path: Path, name: str, source: bytes | None) -> Callable[..., Any]:
    try:
        found: Any = _module(path) if source is None or _holds(path, source) else _carried(path, source)
    except Exception as error:  # user code may raise anything
        raise UsageError(
            f"{path} cannot be imported: {type(error).__name__}: {error}",
            remedy=f"run it to see the error: python {path}",
        ) from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise UsageError(f"{path} has no function '{name}'", remedy="check the name")
        found = getattr(found, part)
    return found  # type: ignore[no-any-return]


def _holds(path: Path, source: bytes) -> bool:
    try:
        return path.read_bytes() == source
    except OSError:
        return False


def _carried(path: Path, source: bytes) -> Any:
    """Create the module of a file that is on another machine."""
    module = ModuleType(f"inferometer_visit_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    exec(compile(source, path, "exec"), module.__dict__)
    return module


def _module(path: Path) -> Any:
    """Import the file; inside a package under its package name, so that its relative imports work."""
    folder, parts = path.parent, [path.stem]
    while (folder / "__init__.py").exists():
        parts.insert(0, folder.name)
        folder = folder.parent
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))  # as for a script
        _import_source_from(folder)
    if len(parts) > 1:
        return importlib.import_module(".".join(parts))
    name = f"inferometer_visit_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path, loader=_Source(name, str(path)))
    if spec is None or spec.loader is None or path.suffix not in SOURCE_SUFFIXES:
        raise ImportError("it is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class _Source(SourceFileLoader):
    """Loader that always reads the source, never a compiled file: trust applies to the source, and Python runs some
    compiled files without comparing them with it."""

    def path_stats(self, path: str) -> Mapping[str, Any]:
        raise OSError("compiled files are not used")


def _import_source_from(folder: Path) -> None:
    """Import modules of this folder and its subfolders from source only."""
    loaders = ((ExtensionFileLoader, EXTENSION_SUFFIXES), (_Source, SOURCE_SUFFIXES))
    make = FileFinder.path_hook(*loaders)

    def finder(path: str) -> Any:
        if not Path(path).resolve().is_relative_to(folder):
            raise ImportError("it is not in this folder")
        return make(path)

    sys.path_hooks.insert(0, finder)
    sys.path_importer_cache.clear()
