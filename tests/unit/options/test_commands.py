"""All commands parse words and print help in the same way."""

import inspect
import shlex
from importlib import import_module

import pytest

from inferometer import api
from inferometer.base.errors import UsageError
from inferometer.cli.main import main
from inferometer.options.command_line import Command, Request, read
from inferometer.options.help import help_text

NAMES = (
    "measure",
    "find",
    "capacity",
    "inspect",
    "view",
    "gate",
    "compare",
    "diagnose",
    "tune",
    "twin",
    "serve",
    "selftest",
    "clients",
    "demo",
)
COMMANDS = [import_module(f"inferometer.cli.{name}").COMMAND for name in NAMES]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("word", ["--help", "-h", "-?", "--hel"])
def test_all_commands_print_help(name: str, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, word]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"Usage: inferometer {name}")
    assert "--version" in shown
    assert "%%" not in shown


@pytest.mark.parametrize("command", COMMANDS, ids=NAMES)
def test_the_help_fits_a_screen_and_a_half_and_the_long_one_has_every_option(command: Command) -> None:
    brief = help_text(command, is_whole=False, width=80).splitlines()
    assert len(brief) <= 60
    assert max(map(len, brief)) <= 80
    short = set(" ".join(brief).replace(",", " ").split())
    assert not command.own or any(short.intersection(row.names) for _, rows in command.own for row in rows)
    assert all(short.intersection(row.names) for _, rows in command.own for row in rows if row.is_required)
    words = help_text(command, is_whole=True, width=80).replace(",", " ").split()
    assert [row.names for _, rows in command.groups for row in rows if row.names[0] not in words] == []


@pytest.mark.parametrize("command", [c for c in COMMANDS if "--model" in c.by_name], ids=lambda c: c.program)
def test_examples_in_the_help_are_understood(command: Command) -> None:
    assert len(command.examples) == 4
    for line, _ in command.examples:
        assert isinstance(read(shlex.split(line), command), Request)


@pytest.mark.parametrize("name", NAMES)
def test_all_commands_print_the_version(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--version"]) == 0
    assert capsys.readouterr().out.startswith("inferometer ")


@pytest.mark.parametrize("command", COMMANDS, ids=NAMES)
def test_an_unknown_option_is_refused_with_a_remedy(command: Command) -> None:
    with pytest.raises(UsageError, match="Invalid long option '--colour'") as caught:
        read(["--colour"], command)
    assert caught.value.remedy


@pytest.mark.parametrize("command", COMMANDS, ids=NAMES)
def test_every_option_has_a_help_text(command: Command) -> None:
    for title, rows in command.groups:
        assert title
        assert all(row.help and row.names for row in rows)
        assert all(row.metavar for row in rows if row.values is not None)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["find", "-m", "m"], "--slo is required"),
        (
            ["find", "-m", "m", "--slo", "p99<1s", "--start", "0"],
            "--start needs a rate or a concurrency above 0",
        ),
        (
            ["find", "-m", "m", "--slo", "p99<1s", "--by", "time"],
            "the available options are 'rate' or 'concurrency'",
        ),
        (["tune"], "No model is given"),
        (
            ["tune", "-m", "m", "--max-batch", "8:4"],
            "the lowest must be at least 1 and not above the highest",
        ),
        (["tune", "-m", "m", "--delays", "soon"], "write whole numbers"),
        (["diagnose", "-m", "m", "--keep"], "--keep requires --apply"),
        (["diagnose", "-m", "m", "--cores", "0"], "give the number of cores"),
        (["view"], "no saved file is given"),
        (["view", "a.json", "b.json"], "2 saved files are given"),
        (["serve", "--http-port", "web"], "--http-port: 'web' is not valid"),
        (["serve", "--models", "basic", "--model-repository", "d"], "give one of them"),
        (["demo", "now"], "Unexpected argument 'now'"),
    ],
)
def test_refusals(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert sentence in capsys.readouterr().err


def test_find_has_the_same_default_duration_in_python() -> None:
    request = read(["--slo", "p99<1s"], import_module("inferometer.cli.find").COMMAND)
    assert isinstance(request, Request)
    in_python = inspect.signature(api.find).parameters["duration_s"].default
    assert request.own.duration_s == in_python == 60.0
