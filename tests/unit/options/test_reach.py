"""Every option declares the reach of its values."""

import pytest

from inferometer.cli.config import command_named
from inferometer.cli.main import OURS
from inferometer.options.option import Option
from inferometer.options.reach import EVERYTHING, Reach
from inferometer.options.values import text

ROWS = {(row.field, name): row for command in OURS for name, row in command_named(command).by_name.items()}


def test_every_option_of_every_command_declares_its_reach() -> None:
    undeclared = sorted(name for (_, name), row in ROWS.items() if row.most_reach is None)
    assert undeclared == [], "give the values of these options a reach (options/reach.py)"


def test_an_option_without_a_declared_reach_reaches_everything() -> None:
    assert Option(("--new",), "", text("WORD")).reach_of(["x"]) == EVERYTHING


REACHES = (
    ("--url", "localhost:8000", Reach.NAMES_HOSTS),
    ("--model", "simple", Reach.NOTHING),
    ("--model", "simple@evil:80", Reach.NAMES_HOSTS),
    ("--data", "zero", Reach.NOTHING),
    ("--data", "x.json", Reach.READS_FILES | Reach.RUNS_CODE),
    ("--input", "SCALE=0.5", Reach.NOTHING),
    ("--input", "A=@x", Reach.READS_FILES),
    ("--prompt-tokens", "normal(5, 1)", Reach.NOTHING),
    ("--prompt-tokens", " @/etc/passwd", Reach.READS_FILES),
    ("--json", "-", Reach.NOTHING),
    ("--json", "x.json", Reach.WRITES_FILES),
    ("--string-data", "@x", Reach.READS_FILES),
    ("--api-key-env", "HOME", Reach.SENDS_SECRETS),
    ("--header", "a: b", Reach.SENDS_SECRETS),
    ("--endpoint", "chat", Reach.NOTHING),
    ("--endpoint", "/admin", Reach.CHOOSES_CALLS),
    ("--endpoint", "anthropic", Reach.NOTHING),
    ("--body-template", '{"q": "{{prompt}}"}', Reach.NOTHING),
    ("--body-template", "body.json", Reach.READS_FILES),
    ("--concurrency", "1:4", Reach.NOTHING),
    ("--before-level", "true", Reach.RUNS_CODE),
    ("--before-level", "reset-prefix-cache", Reach.CHANGES_SERVER),
    ("--after-level", "true", Reach.RUNS_CODE),
    ("--after-level", "stop-profile", Reach.CHANGES_SERVER),
    ("--burstiness", "0.5", Reach.NOTHING),
    ("--think-time", "exponential(2s)", Reach.NOTHING),
    ("--check", "regex:a", Reach.NOTHING),
    ("--check", "schema:answer.json", Reach.READS_FILES),
    ("--check", "reference:run.json", Reach.READS_FILES),
    ("--check-python", "check.py:is_right", Reach.RUNS_CODE),
)


@pytest.mark.parametrize(("name", "word", "reach"), REACHES)
def test_reach_of_words(name: str, word: str, reach: Reach) -> None:
    assert command_named("measure").by_name[name].reach_of([word]) & reach == reach
    assert bool(command_named("measure").by_name[name].reach_of([word])) == bool(reach)


FILES = ("FILE", "DIR", "PATH")


def test_options_that_take_paths_reach_files() -> None:
    """Options with a file in the help must declare file access; this catches a wrong declaration."""
    harmless = [
        name
        for (_, name), row in ROWS.items()
        if not row.most_reach and any(word in row.metavar.split("|") for word in FILES)
    ]
    assert harmless == []
