"""Values of --check and --check-python: conditions for a right answer."""

import re
from collections.abc import Callable, Mapping

from inferometer.base.errors import Name, UsageError
from inferometer.options.reach import Reach
from inferometer.options.values import Values, existing_file

EXACT, CHOICE, REGEX, SCHEMA, REFERENCE, PYTHON = "exact", "choice", "regex", "schema", "reference", "python"
"""Kinds of checks; all but the last are words of --check."""

_FILES = (SCHEMA, REFERENCE)
_REMEDY = "write exact, exact:TEXT, choice:A|B, regex:PATTERN, schema:FILE or reference:FILE"
_FUNCTION = re.compile(r"(?P<file>.+):(?P<function>[A-Za-z_][A-Za-z0-9_.]*)")


def parts(word: str) -> tuple[str, str | None]:
    """Return the kind of a check, and its value if it has one."""
    kind, colon, value = word.partition(":")
    return kind.strip().lower(), value if colon else None


def choices(value: str) -> tuple[str, ...]:
    return tuple(filter(None, (one.strip() for one in value.split("|"))))


def function_parts(word: str) -> tuple[str, str]:
    """Return the file and the function of `FILE:FUNCTION`."""
    found = _FUNCTION.fullmatch(word)
    if found is None:
        raise UsageError(
            f"{Name('--check-python', 'check_python')} is '{word}', which does not name a function",
            remedy="write FILE.py:FUNCTION, such as check.py:is_right",
        )
    return found["file"], found["function"]


def _check_choice(name: str, value: str) -> None:
    if len(choices(value)) < 1:
        raise UsageError(f"{name} choice has no choices", remedy="write choice:yes|no")


def _check_regex(name: str, value: str) -> None:
    try:
        re.compile(value)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(
            f"{name} regex: '{value}' is not a regular expression: {error}",
            remedy="use the syntax of Python's re module",
        ) from None


def _check_file(name: str, value: str) -> None:
    existing_file.read(name, value)


_RULES: Mapping[str, Callable[[str, str], None]] = {
    EXACT: lambda name, value: None,
    CHOICE: _check_choice,
    REGEX: _check_regex,
    SCHEMA: _check_file,
    REFERENCE: _check_file,
}


def _read(name: str, word: str) -> str:
    kind, value = parts(word)
    if kind not in _RULES:
        raise UsageError(f"{name} '{word}' is not a kind of check", remedy=_REMEDY)
    if value is None or (not value and kind != EXACT):
        if kind != EXACT:
            raise UsageError(f"{name} {kind} needs a value", remedy=_REMEDY)
        return kind
    _RULES[kind](name, value)
    return f"{kind}:{value}"


def _read_function(name: str, word: str) -> str:
    existing_file.read(name, function_parts(word)[0])
    return word


answer_check = Values(
    _read,
    "CHECK",
    reach=Reach.READS_FILES,
    is_harmless=lambda word: parts(word)[0] not in _FILES,
)
check_function = Values(_read_function, "FILE:FUNCTION", reach=Reach.RUNS_CODE | Reach.READS_FILES)
