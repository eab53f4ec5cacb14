"""inferometer.yaml combined with the command line, and --show-config."""

import re
from pathlib import Path
from typing import Any

import pytest

from inferometer.base.errors import UsageError
from inferometer.cli import config, main
from inferometer.cli.trusted import STATE, read_found, trust
from inferometer.options.command_line import WORDS, Request, read
from inferometer.options.values import Range
from tests.support.commands import Ended, call_here

FILE = """\
url: a:1
model: m
concurrency: [1, 2]
header: ["X-Key: hidden", "Accept: text/plain"]
timeout: 5s
find:
  slo: p99<50ms
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a working directory with a trusted options file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(STATE, str(tmp_path / "state"))
    (tmp_path / "inferometer.yaml").write_text(FILE)
    trust(read_found(Path("inferometer.yaml")))
    return tmp_path


def given(*words: str) -> dict[str, Any]:
    """Return a command's options from the file and the command line."""
    name, *rest = words
    asked = read(rest, config.command_named(name))
    assert isinstance(asked, Request)
    found = config.with_file(name, main.WITH_FILES, rest, asked)
    assert found is not None
    return {field: value for field, value in found.values.items() if field != "config"}


def inferometer(*words: str) -> Ended:
    return call_here(main.main, *words)


def test_the_file_in_the_working_directory_is_read_and_announced(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = given("measure")
    assert (found["url"], found["own.models"], found["request_timeout_s"]) == ("a:1", ("m",), 5.0)
    assert capsys.readouterr().err == "Options are read from inferometer.yaml; --config none ignores them.\n"
    given("measure", "-q")
    assert capsys.readouterr().err == ""


def test_another_file_or_none_is_read_instead(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "other.yaml").write_text("url: b:2")
    assert given("measure", "--config", "other.yaml") == {"url": "b:2"}
    assert given("measure", "--config", "none") == {}
    assert capsys.readouterr().err == ""
    with pytest.raises(UsageError, match=r"the options file 'missing\.yaml' cannot be read"):
        given("measure", "--config", "missing.yaml")


def test_the_environment_names_a_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "other.yaml").write_text("url: b:2")
    monkeypatch.setenv("INFEROMETER_CONFIG", "other.yaml")
    assert given("measure") == {"url": "b:2"}
    assert "Options are read from other.yaml" in capsys.readouterr().err
    assert given("measure", "--config", "none") == {}
    monkeypatch.setenv("INFEROMETER_CONFIG", "none")
    assert given("measure") == {}


WINS = (
    (("measure", "--url", "b:2"), {"url": "b:2"}),
    (("measure", "-c", "8"), {"concurrency": Range(8)}),
    (("measure", "-H", "Y: z"), {"headers": (("Y", " z"),)}),  # a list is replaced
    (("measure", "-r", "9"), {"request_rate": Range(9), "concurrency": None}),  # and so is the load mode
    (("measure", "b:2"), {WORDS: ("b:2",), "url": None, "own.models": ("m",)}),
    (("measure", "other"), {WORDS: ("other",), "url": "a:1", "own.models": None}),
    (("measure", "b:2", "other"), {"url": None, "own.models": None}),
    (("compare", "b:2", "x", "y"), {"own.urls": None, "own.models": None}),
    (("compare", "x@b:2", "y@c:3"), {"own.urls": None, "own.models": None}),
    (("compare", "x.json", "y.json"), {"own.urls": None, "concurrency": None, "request_timeout_s": None}),
    (("tune", "other"), {"own.url": "a:1", "own.model": None}),
)


@pytest.mark.parametrize(("words", "expected"), WINS)
def test_the_command_line_overrides_the_file(
    words: tuple[str, ...], expected: dict[str, Any], folder: Path
) -> None:
    found = given(*words)
    assert {field: found.get(field) for field in expected} == expected


def test_a_required_option_may_be_in_the_file(folder: Path) -> None:
    assert "--slo is required" in inferometer("find", "b:2", "m", "--config", "none").stderr
    assert "own.slo" in given("find")
    ended = inferometer("find", "127.0.0.1:1", "--dry-run")
    assert ended.code == 3  # no server listens there, so the options were accepted
    assert "cannot be reached" in ended.stderr


def test_a_mistake_in_the_file_is_reported_in_one_sentence(folder: Path) -> None:
    (folder / "inferometer.yaml").write_text("model: a\nconcurency: 4")
    ended = inferometer("measure")
    assert (ended.code, ended.stdout) == (2, "")
    assert ended.stderr == (
        "inferometer measure: inferometer.yaml:2: there is no option 'concurency'; did you mean 'concurrency'?\n"
    )


# --- effective options


def test_each_option_is_shown_with_its_origin(folder: Path) -> None:
    ended = inferometer("measure", "--show-config", "b:2", "-c", "4", "-vv")
    assert ended.code == 0
    lines = {line.split(":")[0]: re.sub(r" {2,}", " ", line) for line in ended.stdout.splitlines() if line}
    assert lines["url"] == "url: b:2 # command line"
    assert lines["model"] == "model: m # inferometer.yaml:2"
    assert lines["concurrency"] == "concurrency: 4 # command line"
    assert lines["timeout"] == "timeout: 5s # inferometer.yaml:5"
    assert lines["verbose"] == "verbose: 2 # command line"
    assert lines["# batch"] == "# batch: 1 # default"
    assert "slo" not in lines
    assert "slo: p99<50ms" in inferometer("find", "--show-config").stdout.replace('"', "")


def test_secrets_are_not_shown(folder: Path) -> None:
    for words in ((), ("-H", "X-Key: hidden"), ("-HX-Key:hidden",)):
        ended = inferometer("measure", "--show-config", *words)
        assert "X-Key: ***" in ended.stdout
        assert "hidden" not in ended.stdout + ended.stderr


SHOWN = (
    ("measure", "b:2", "other", "-c", "1:16:4", "--streaming", "--grpc", "-d", "3s", "--shape", "A:1", "-vv"),
    ("measure", "--slo", "p99<5ms, errors<1%", "-n", "0", "--input", "A=@x y.npy", "--input", "B=1,2", "-q"),
    (
        "measure",
        "--shape",
        "A:1,2",
        "--shape",
        "B:3",
        "--body",
        "",
        "--body",
        "# \"'\\ ü: \n",
        "--data",
        "zero",
    ),
    ("find", "-m", "null", "--start", "5", "--by", "rate"),
    ("compare", "b:2", "x", "y", "--fail-if", "p99 > +5%"),
    ("tune", "x", "--instances", "1:2", "--delays", "100,500", "--model-repository", "."),
    ("serve", "--load-model", "a", "--load-model", "b", "--http-port", "0"),
    ("view", "--html", "page.html", "--open"),
)


@pytest.mark.parametrize("words", SHOWN)
def test_the_shown_options_are_equivalent(words: tuple[str, ...], folder: Path) -> None:
    name, *rest = words
    shown = inferometer(name, "--show-config", *rest)
    assert shown.code == 0, shown.stderr
    (folder / "shown.yaml").write_text(shown.stdout)
    expected, found = given(*words), given(name, "--config", "shown.yaml")
    for alone in expected.pop(WORDS, ()):  # a positional word is an option in the file
        option = config.command_named(name).by_name["--url" if ":" in alone else "--model"]
        value = alone if option.combine is None else option.combine(expected.get(option.field), alone)
        expected[option.field] = value
    expected.pop("headers", None)  # secret
    assert found == expected


def test_an_invalid_command_line_is_not_shown(folder: Path) -> None:
    ended = inferometer("measure", "--show-config", "-c", "0")
    assert (ended.code, ended.stdout) == (2, "")


def test_commands_of_the_classic_tuner_read_no_such_file(folder: Path) -> None:
    assert "inferometer.yaml" not in inferometer("profile", "--config-file", "missing.yaml").stderr
