"""The files that an options file refers to, directly or through other files, and the files loaded with them.

A name may appear as a word, in quotes, with escapes, or as a YAML scalar with spaces; all of these are tried, and each
that exists counts. Files that a command finds by itself, such as a Makefile, are not detected.
"""

import glob
import json
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import yaml

from inferometer.base.errors import UsageError
from inferometer.base.reading import CONFIG, read_regular

MOST_FILES = 5_000
_CODE = (".py", ".so", ".pyc")  # importable, next to a file and below
_SKIPPED = ("__pycache__", "node_modules", "site-packages")
_FOLLOWED = (".yaml", ".yml", ".json", ".jsonl", ".sh", ".py", ".proto")
"""Suffixes of files whose text is followed if only their folder is named; a named file is always followed."""
_NOT_YAML = (".py", ".sh", ".jsonl", ".proto")
_MOST_YAML = 64 << 10  # bytes up to which text of unknown format is parsed as YAML
_LONGEST = 1024  # characters of a path
_LETTER = re.compile(r"[^\W\d_]")
_SEPARATORS = re.compile(r"[\s'\"`;|&<>(){}\[\],]+")
_QUOTED = re.compile(r'"((?:[^"\\\n]|\\.)*)"|\'([^\'\n]*)\'')
_PATTERN = re.compile(r"[*?\[]")


class TooManyError(Exception):
    """The options file refers to more files than can be trusted together."""


def led_to(text: bytes, folder: Path) -> set[Path]:
    """Return the files that this text refers to; paths are relative to `folder`."""
    seen: set[Path] = set()
    left = [(text, folder, "")]
    there = cache(_there)
    while left:
        data, start, suffix = left.pop()
        for path, is_named in _named(data, start, suffix, there(start)):
            if path in seen:
                continue
            seen.add(path)
            if len(seen) > MOST_FILES:
                raise TooManyError
            if is_named or path.suffix.lower() in _FOLLOWED:
                left += [
                    (data, one, path.suffix) for data in _maybe_text(path) for one in {path.parent, folder}
                ]
    return seen


def _maybe_text(path: Path) -> Iterator[bytes]:
    with suppress(UsageError):
        data, _ = read_regular(path, CONFIG, "the file")
        if b"\0" not in data:
            yield data


def _named(data: bytes, folder: Path, suffix: str, there: Collection[str]) -> Iterator[tuple[Path, bool]]:
    """Yield the files that a text names, each with whether the text names the file itself or only a folder above it.
    `suffix` is that of the text's own file, and empty for the first file."""
    text = data.decode("utf-8", "replace")
    has_yaml = suffix in ("", ".yaml", ".yml") or (len(data) <= _MOST_YAML and suffix not in _NOT_YAML)
    scalars = set(_scalars(text)) if has_yaml else set[str]()
    written = {*_quoted(text), *scalars}  # each may be a whole command
    names = {*written, *(word for part in (text, *written) for word in _SEPARATORS.split(part))}
    for name in {part for whole in names for part in _parts(whole)}:
        # Numbers count as names only in options files and scenarios: data files are full of them.
        if len(name) <= _LONGEST and (_LETTER.search(name) is not None or name in scalars):
            if name[:1] in ("/", "~", ".") or name.partition("/")[0] in there:
                yield from _files(folder, os.path.expanduser(name))
            if _PATTERN.search(name) is not None and f"@{name}" in text:
                yield from _matching(folder, os.path.expanduser(name))


def _parts(name: str) -> set[str]:
    """Return the possible paths in NAME=@PATH, PATH:FUNCTION, KIND:PATH and OPTION=PATH."""
    first, _, rest = name.partition(":")
    return {name, name.rpartition("@")[2], first, rest, name.rpartition("=")[2]}


def _quoted(text: str) -> Iterator[str]:
    for double, single in _QUOTED.findall(text):
        yield double or single
        if "\\" in double:
            with suppress(ValueError):
                yield str(json.loads(f'"{double}"'))


def _scalars(text: str) -> Iterator[str]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    with suppress(yaml.YAMLError, ValueError, RecursionError):
        for event in yaml.parse(text, loader):
            if isinstance(event, yaml.ScalarEvent):
                yield str(event.value)


def _there(folder: Path) -> frozenset[str]:
    """List a folder: looking names up here is far cheaper than a system call for every word of a text."""
    with suppress(OSError):
        return frozenset(os.listdir(folder))
    return frozenset()


def _files(folder: Path, name: str) -> Iterator[tuple[Path, bool]]:
    with suppress(OSError, ValueError, RuntimeError):
        path = (folder / name).resolve()
        status = path.stat()
        if stat.S_ISREG(status.st_mode):
            yield path, True
            if path.suffix == ".py":
                yield from ((one, True) for one in _tree(_imported_from(path), _CODE))
        elif stat.S_ISDIR(status.st_mode) and _LETTER.search(name) is not None:
            yield from ((one, False) for one in _tree(path, ("",)))


def _matching(folder: Path, pattern: str) -> Iterator[tuple[Path, bool]]:
    for name in glob.iglob(pattern, root_dir=folder, recursive=True):
        with suppress(OSError, RuntimeError):
            path = (folder / name).resolve()
            if path.is_file():
                yield path, False


def _imported_from(path: Path) -> Path:
    """Return the folder from which a Python file imports: the parent folder of its package."""
    folder = path.parent
    while (folder / "__init__.py").exists():
        folder = folder.parent
    return folder


def _tree(top: Path, suffixes: Iterable[str]) -> Iterator[Path]:
    """Yield the files below a folder; for / and the home directory, only the files directly in it."""
    is_deep, ends = top not in (Path("/"), Path.home()), tuple(suffixes)
    for folder, inner, names in os.walk(top):
        inner[:] = [one for one in inner if is_deep and one not in _SKIPPED and not one.startswith(".")]
        yield from (Path(folder, name).resolve() for name in sorted(names) if name.endswith(ends))
