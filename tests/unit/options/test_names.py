"""Names of options in error messages."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import inferometer
from inferometer.measure import checks, unused
from inferometer.options import comparing, diagnosing, finding, mixing, tuning
from inferometer.options.names import option_name, with_names
from inferometer.options.options import OPTIONS
from inferometer.services.kind import KINDS

ROOT = Path(inferometer.__file__).parent
SURFACES = (
    "cli",
    "dialects",
    "ui",
    "selftest",
    "options/command_line.py",
    "options/config_file.py",
)  # with a single spelling of their own
BELOW = ("base", "wire")  # which do not know the options
OPTION = re.compile(r"(?<![\w'/`-])--?[a-zA-Z][a-z-]*")
LIKE_OPTION = re.compile(r"(?<![\w-])--?[a-zA-Z][a-z-]*")
COMMAND_LINE = re.compile(
    r"(inferometer|mkdir|head|docker|protoc|pip|ffmpeg|ray|ulimit|sh|chromium|mount|COMMAND|it must run with"
    r"|start (it|one) with) "
)
"""What an option of another program follows."""


def _parsed(*below: str) -> Iterator[tuple[str, ast.Module]]:
    """The modules that are not in these places and have a word like an option, with their paths."""
    for path in sorted(ROOT.rglob("*.py")):
        place, text = path.relative_to(ROOT).as_posix(), path.read_text()
        if not place.startswith(below) and any(map(_is_known, LIKE_OPTION.findall(text))):
            yield place, ast.parse(text)


def _errors(module: ast.Module):
    """The expressions that make errors: their calls, remedies of other calls, and variables for remedies."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Error"):
            yield node
        elif isinstance(node, ast.Call):
            yield from (word for word in node.keywords if word.arg == "remedy")
        elif isinstance(node, ast.Assign) and "remed" in ast.unparse(node.targets[0]).lower():
            yield node.value


def test_errors_below_the_interfaces_carry_the_options_they_name():
    found = []
    for place, module in _parsed(*SURFACES, *BELOW):
        for error in _errors(module):
            texts = (node for node in ast.walk(error) if isinstance(node, ast.Constant))
            for node in (node for node in texts if isinstance(node.value, str)):
                text = str(node.value)
                found += [
                    f"{place}:{node.lineno}: {name[0]}"
                    for name in OPTION.finditer(text)
                    if _is_known(name[0]) and text[name.start() - 1 : name.start()] != "{"
                    if not COMMAND_LINE.search(text[: name.start()])
                    if not _is_an_argument(error, node)
                ]
    assert not found


def test_parsers_take_the_names_of_options_with_their_fields():
    found = []
    for place, module in _parsed(*SURFACES, *BELOW, "options/"):
        calls = (node for node in ast.walk(module) if isinstance(node, ast.Call))
        found += [
            f"{place}:{word.lineno}: {word.value!r}"
            for call in calls
            if getattr(call.func, "id", "") not in ("option_name", "Name")
            for word in call.args
            if isinstance(word, ast.Constant)
            and OPTION.fullmatch(str(word.value))
            and _is_known(str(word.value))
        ]
    assert not found


@cache
def _is_known(name: str) -> bool:
    try:
        option_name(name)
    except KeyError:
        return False
    return True


def _is_an_argument(error: ast.AST, constant: ast.AST) -> bool:
    """Whether the text is the name that `option_name` or `Name` takes."""
    calls = (node for node in ast.walk(error) if isinstance(node, ast.Call))
    return any(
        constant in ast.walk(word)
        for call in calls
        if getattr(call.func, "id", "") in ("option_name", "Name")
        for word in call.args
    )


def test_errors_name_known_options():
    for path in ROOT.rglob("*.py"):
        for name in re.findall(r"""option_name\(['"](-[^'"]*)['"]""", path.read_text()):
            assert option_name(name).field, path


@pytest.mark.parametrize(
    "texts",
    [
        [
            text
            for row in (*unused._WITH_OTHERS, *unused._RATES_AND_WORKERS)
            for text in (row.why, row.remedy)
        ],
        [text for row in checks.RULES for text in (row.message, row.remedy, row.ours)],
        [
            text
            for kind in KINDS.values()
            for row in kind.rules
            for text in (row.message, row.remedy, row.ours)
        ],
        [row.instead for _, rows in OPTIONS for row in rows],
        [*diagnosing.DIAGNOSE_REFUSED.values(), *tuning.TUNE_REFUSED.values()],
        [*comparing.COMPARE_REFUSED.values(), *finding.FIND_REFUSED.values()],
        [*mixing.INTERFERE_REFUSED.values(), *mixing.SCENARIO_REFUSED.values()],
    ],
)
def test_tables_of_messages_name_known_options(texts):
    for text in texts:
        rest = re.sub("\0[^\0]*\0", "", with_names(text))
        assert "{" not in rest
        if "deprecated" not in rest and "(-l)" not in rest:  # sentences of the classic tool
            assert not [name for name in OPTION.findall(rest) if _is_known(name)]
