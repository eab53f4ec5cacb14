"""Phrases listed under "Words we do not use" in docs/glossary.md are used neither in the pages nor in the code."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
GLOSSARY = ROOT / "docs/glossary.md"
HEADING = "## Words we do not use"

# One regular expression for each row of the table, by its first cell.
PATTERNS = {
    '"is no X"': (
        r"(?<!\bthere )(?<!\bThere )\b(?:is|are|was|were) no "
        r"(?!longer\b|one\b|such\b|more\b|less\b|fewer\b|worse\b|better\b|\w+er than\b|different\b)"
    ),
    'a sentence that starts with a dangling "Of"': (
        r"\bOf (?!course\b)(?!(?:\d[\d,]*|the|these|those|all)\b[^.]*,)"
    ),
    '"so many" for an unspecified number': r"\b[Ss]o many\b(?![^.;:]*\b(?:that|as)\b)",
    '"stands"': r"\b(?:[Ss]tands?|stood)\b(?!-)(?! (?:for|out|by|still|up)\b)",
    '"told", "tells"': r"\b(?:told|tells)\b",
    '"promise"': r"\b[Pp]romise[sd]?\b",
    '"keeps the SLO", "breaks the SLO"': (
        r"\b(?:keeps?|kept|breaks?|broke|broken) (?:\w+ )?SLOs?\b|\bSLOs? (?:is|are|was|were) (?:kept|broken)\b"
    ),
    '"brings no more"': r"\b(?:bring|brings|brought|bringing) (?:no|nothing|any) more\b",
    '"the most load"': r"\b[Tt]he most load\b",
    '"whoever"': r"\b[Ww]ho(?:so)?ever\b",
    '"of before"': r"\bof before\b",
    '"has no place"': r"\b(?:has|have|had) no place\b",
    '"wants to know"': r"\b(?:wants?|wanted) to know\b",
    '"what is to go"': r"\b[Ww]hat is to (?:go|come)\b",
    '"is said" without an actor': r"\b(?:that|That|it|It|this|This|which) (?:is|was) said\b(?! to\b)",
    '"talks nonsense"': r"\b(?:talk|speak|answer)(?:s|ed|ing)? nonsense\b",
    '"server of text"': r"\b[Ss]ervers? of text\b",
    '"single requests"': (
        r"\b[Ss]ingle (?:answers|calls|commands|figures|gaps|levels|models|requests|rounds|runs|tasks|tokens|values)\b"
    ),
    '"from the send on"': r"\bfrom (?!now\b|then\b|there\b)(?:the )?[\w.%]+ on(?=[,.;:)]|$)",
    '"in no figure"': r"\bin no (?:other )?figures?\b",
}

EXAMPLES = {  # by row: a sentence that must be found, and a legitimate one
    '"is no X"': ("'simple' is no address", "there is no such file, and it is no longer used"),
    'a sentence that starts with a dangling "Of"': (
        "Of twice as many in service.",
        "Of 500 histories, one shows a change.",
    ),
    '"so many" for an unspecified number': ("with so many in flight", "so many requests that it fails"),
    '"stands"': ("the name stands in the table", "the letter n stands for the number; a stand-alone tool"),
    '"told", "tells"': ("the worker is told the plan", "too few requests to tell"),
    '"promise"': ("within the promise", "a promising result"),
    '"keeps the SLO", "breaks the SLO"': ("a load that keeps the SLO", "a load that meets the SLO"),
    '"brings no more"': ("more load brings no more", "more load brings more errors"),
    '"the most load"': ("the most load it can take", "the highest load it can take"),
    '"whoever"': ("whoever asks", "however"),
    '"of before"': ("names of before", "as before"),
    '"has no place"': ("--x has no place here", "--x has no effect"),
    '"wants to know"': ("it wants to know who asks", "you want to measure"),
    '"what is to go"': ("what is to go is marked", "what is left"),
    '"is said" without an actor': ("which is said", "it is said to be fast by its author"),
    '"talks nonsense"': ("a server that talks nonsense", "a server that sends nonsense"),
    '"server of text"': ("the API of a server of text", "a text server"),
    '"single requests"': ("figures of single requests", "a single request; individual requests"),
    '"from the send on"': (
        "timed from the send on, and percentiles from p90 on",
        "from now on, and based on it",
    ),
    '"in no figure"': ("they are in no other figure", "they are excluded from all figures"),
}

# Hits in the docstrings, string literals and help pages of a package that stay: help of classic options that
# `perf_analyzer` shows, titles of CSV columns, and a sentence that does say of how many.
ALLOWED = {"options": 4, "report": 3}

PAGES = sorted(
    [
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("changes/*.md"),
        *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
    ]
)
PACKAGES = {path.parent.name: path.parent for path in sorted(ROOT.glob("src/inferometer/*/__init__.py"))}
FILES = {
    "inferometer": sorted(ROOT.glob("src/inferometer/*.py")),
    **{name: sorted([*folder.rglob("*.py"), *folder.rglob("*.md")]) for name, folder in PACKAGES.items()},
    **{
        name: sorted((ROOT / name).rglob("*.py"))
        for name in ("tools", "benchmarks", "tests/support", "tests/torture")
    },
}


def prose_of_page(text: str) -> str:
    """The sentences of a page: without code, sample output, and the table of these words itself."""
    before, _, after = text.partition(HEADING)
    text = before + (after.partition("\n## ")[2] if after else "")
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"(?<=\n\n)(?: {4}(?![-*] ).*\n)+", "", text)
    return re.sub(r"`[^`\n]*`", "`code`", text)


def prose_of_code(source: str) -> Iterator[str]:
    """Docstrings and string literals that are sentences: those with a blank between two words."""
    tree = ast.parse(source)
    inner = {
        id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
            text = "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            text = node.value
        else:
            continue
        if re.search(r"\w[,.:;]? +\w", text):
            yield re.sub(r"`[^`\n]*`", "`code`", text)


def hits(text: str) -> list[str]:
    """Each hit with the row it belongs to and a few words around it."""
    return [
        f"{row}: ...{text[max(0, found.start() - 30) : found.end() + 30]}...".replace("\n", " ")
        for row, pattern in PATTERNS.items()
        for found in re.finditer(pattern, text)
    ]


@cache
def rows_of_glossary() -> list[str]:
    section = GLOSSARY.read_text().partition(HEADING)[2].partition("\n## ")[0]
    return re.findall(r"^\| (?!not \||--)(.+?) \| .+ \|$", section, re.MULTILINE)


def test_every_row_of_the_table_has_a_pattern():
    assert rows_of_glossary() == [*PATTERNS] == [*EXAMPLES]


@pytest.mark.parametrize("row", PATTERNS)
def test_a_pattern_finds_the_phrase_and_not_a_legitimate_use(row: str):
    bad, good = EXAMPLES[row]
    assert re.search(PATTERNS[row], bad)
    assert not re.search(PATTERNS[row], good)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_uses_none_of_the_phrases(page: Path):
    assert hits(prose_of_page(page.read_text())) == []


def test_code_and_sample_output_of_a_page_are_not_checked():
    page = "Sent.\n\n```\nmore load brings no more\n```\n\n    a promise\n\nSee `level.promise`.\n"
    assert hits(prose_of_page(page)) == []
    assert hits(prose_of_page("- a list item\n  with a promise\n"))


def test_sentences_of_code_are_docstrings_messages_and_formatted_strings():
    source = 'def f():\n    """Of a server."""\n    x = {"promise": 1}\n    y = f"{x} is no address: {x!r}"\n'
    assert [*prose_of_code(source)] == ["Of a server.", "{} is no address: {}"]


@pytest.mark.parametrize("name", FILES)
def test_code_has_no_more_of_the_phrases_than_allowed(name: str):
    found = [
        f"{path.relative_to(ROOT)}: {hit}"
        for path in FILES[name]
        for text in _prose(path)
        for hit in hits(text)
    ]
    assert len(found) <= ALLOWED.get(name, 0), "\n".join(found)


def _prose(path: Path) -> Iterator[str]:
    text = path.read_text()
    return iter([prose_of_page(text)]) if path.suffix == ".md" else prose_of_code(text)
