"""Read a saved answer of any kind, and convert an answer to any form."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import inferometer
from inferometer.base import answer_file
from inferometer.base.answer_file import Answer
from inferometer.base.errors import Spell, UsageError
from inferometer.base.writing import write_file
from inferometer.options.names import option_name
from inferometer.report.document import Document
from inferometer.report.kinds import TYPES, kind_of
from inferometer.report.markdown import markdown
from inferometer.report.page import render
from inferometer.stats.result import Result
from inferometer.stats.saved import read as read_saved


def read(path: Path) -> Any:
    """Read the answer in a file, of any kind."""
    return read_saved(path, *TYPES)


@contextmanager
def consistent(*origins: str) -> Iterator[None]:
    """Report inconsistent figures in saved files as a usage error: each one alone may be valid."""
    try:
        yield
    except (ArithmeticError, LookupError, ValueError) as error:
        names = " or ".join(f"'{origin}'" for origin in origins)
        raise UsageError(
            f"{names} contains inconsistent figures: {type(error).__name__}: {error}",
            remedy="use the file as it was written, or measure again",
        ) from error


def document(answer: Answer) -> Document:
    """The answer as a document, ready for any form; it includes its source file."""
    found = kind_of(answer).document(answer)
    source = answer_file.to_json(answer)
    is_foreign = isinstance(answer, Result) and bool(answer.source)
    tool = f"inferometer {inferometer.__version__}" if is_foreign else answer.tool
    return replace(found, source=source, source_name=f"{answer.kind}.json", tool=tool)


def to_html(answer: Answer, spell: Spell = str) -> str:
    """The answer as a self-contained page."""
    return render(document(answer), spell)


def to_markdown(answer: Answer, spell: Spell = str) -> str:
    """The answer as Markdown, without charts."""
    return markdown(document(answer), spell)


def to_csv(answer: Answer) -> str:
    """The answer as one table."""
    return kind_of(answer).csv(answer)


def write_page(path: Path, answer: Answer) -> None:
    """Write the answer as a self-contained page."""
    write_file(path, to_html(answer))


def has_junit(answer: Answer) -> bool:
    return kind_of(answer).junit is not None


def to_junit(answer: Answer) -> str:
    """The answer as JUnit XML, for CI."""
    kind = kind_of(answer)
    if kind.junit is None:
        raise UsageError(f"a {answer.kind} has no test cases", remedy=f"use {option_name('--json')} instead")
    return kind.junit(answer, document(answer))
