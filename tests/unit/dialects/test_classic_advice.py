"""Advice names only options of the command that prints it."""

import re

import pytest

from inferometer.base.notes import Note
from inferometer.dialects.perf_analyzer.main import advice
from inferometer.dialects.perf_analyzer.options import COMMAND
from inferometer.options.option import modern, rows
from inferometer.options.options import Options

# The script cannot give these: it has no limit for the time of a run.
NEVER_PRINTED = (Note.TIME_LIMIT,)


def options_in(text: str) -> set[str]:
    return set(re.findall(r"--[a-z][a-z-]*", text))


@pytest.mark.parametrize("note", [note for note in Note if note not in NEVER_PRINTED])
def test_the_script_advises_its_own_options(note: Note) -> None:
    known = {name for _, members in COMMAND.groups for row in members for name in row.names}
    assert options_in(advice(note)) <= known


@pytest.mark.parametrize("note", list(Note))
def test_our_commands_advise_their_own_options(note: Note) -> None:
    known = {
        name for _, members in modern(rows(Options)) for row in members for name in (*row.names, *row.aliases)
    }
    assert options_in(note.advice) <= known
