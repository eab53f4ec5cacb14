"""The tables of docs/coming-from.md list every option of other tools, with an option of ours or a reason."""

import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from itertools import chain
from pathlib import Path

import pytest

from inferometer.base.errors import UsageError
from inferometer.options.command_line import Command, read

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/coming-from.md").read_text()
LISTS = ROOT / "tests/data/peer_options"
SECTIONS = {"aiperf": "aiperf and genai-perf", "guidellm": "guidellm", "vllm": "vllm bench serve"}
REASON = re.compile(r"no, because (?:\S+ ){3,}\S+")

Row = tuple[str, str]


def options_of(tool: str) -> list[str]:
    """Names in the list of a tool: an option, or an option with a kind or field as `--option kind=name`."""
    lines = (LISTS / f"{tool}.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def table_rows(page: str, heading: str) -> list[Row]:
    """Both cells of the rows in the tables of a section."""
    (section,) = re.findall(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    lines = [line for line in section.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return [(left, right) for left, right in cells if not set(left) <= set("-:") and right != "Inferometer"]


def names_in(cell: str) -> Iterator[str]:
    """Options in the code of a left cell; `kind=b` belongs to the option before it, as in `--x kind=a`, `kind=b`."""
    option = ""
    for code in re.findall(r"`([^`]+)`", cell):
        for word in re.split(r"[ ,]+", code):
            if re.match(r"--?[A-Za-z]", word):
                option = word
                yield word
            elif option and (field := re.match(r"\w+=", word)):
                yield f"{option} {word if field[0] == 'kind=' else field[0]}"


def missing(tool: str, rows: list[Row]) -> set[str]:
    return set(options_of(tool)) - {name for left, _ in rows for name in names_in(left)}


@cache
def our_options(command: str) -> frozenset[str]:
    described: Command[object] = import_module(f"inferometer.cli.{command}").COMMAND
    return frozenset(name for _, group in described.groups for row in group for name in row.names)


def unknown(right: str) -> list[str]:
    """Options in the code of a right cell that its command (`measure` if not named) does not have."""
    found = []
    for code in re.findall(r"`([^`]+)`", right):
        named = re.match(r"inferometer (\w+)", code)
        known = our_options(named[1] if named else "measure")
        words = re.findall(r"(?<!\S)--?[A-Za-z][\w-]*", re.sub(r"'[^']*'", "", code))
        found += [word for word in words if word not in known]
    return found


@pytest.mark.parametrize("tool", SECTIONS)
def test_every_option_of_the_tool_is_in_a_table(tool: str) -> None:
    rows = table_rows(PAGE, SECTIONS[tool])
    assert not missing(tool, rows)


@pytest.mark.parametrize("tool", SECTIONS)
def test_every_row_names_options_of_ours_or_a_reason(tool: str) -> None:
    for left, right in table_rows(PAGE, SECTIONS[tool]):
        assert right, f"{left}: no answer"
        assert not unknown(right), f"{left}: {unknown(right)} do not exist"
        assert not right.lower().startswith("no") or REASON.match(right), f"{left}: 'no' without a reason"


def test_faults_in_a_table_are_found() -> None:
    assert unknown("`-c 4 --concurency 4`") == ["--concurency"]
    assert unknown("`inferometer find --by rate`") == []
    assert unknown("`--by rate`") == ["--by"]
    assert not REASON.match("no")
    assert not REASON.match("no, because not")
    assert list(names_in("`--data kind=a,path=F`, `kind=b`")) == [
        "--data",
        "--data kind=a",
        "--data path=",
        "--data kind=b",
    ]
    rows = table_rows(PAGE, SECTIONS["vllm"])
    assert missing("vllm", [row for row in rows if "`--goodput" not in row[0]]) == {"--goodput"}


def spelled_otherwise() -> dict[str, str]:
    """Options of other tools that `measure` lacks and that have one counterpart there, each with that counterpart."""
    known: frozenset[str] = our_options("measure")
    found: dict[str, set[str]] = {}
    for left, right in chain.from_iterable(table_rows(PAGE, heading) for heading in SECTIONS.values()):
        ours = re.match(r"`(--?[A-Za-z][\w-]*)", right)
        for name in names_in(left) if ours is not None else ():
            if " " not in name and name not in known:
                found.setdefault(name, set()).add(ours[1])
    return {name: counterparts.pop() for name, counterparts in found.items() if len(counterparts) == 1}


def maybe_refusal(words: list[str], command: Command[object]) -> UsageError | None:
    try:
        read(words, command)
    except UsageError as error:
        return error
    return None


@pytest.mark.parametrize(("name", "ours"), spelled_otherwise().items())
def test_the_error_for_an_option_of_another_tool_names_ours(name: str, ours: str) -> None:
    command: Command[object] = import_module("inferometer.cli.measure").COMMAND
    refusal = maybe_refusal([name, "1"], command)
    if refusal is not None:
        assert set(re.split(r"[ ,:;?]+", refusal.remedy)) & set(command.by_name[ours].names), refusal
