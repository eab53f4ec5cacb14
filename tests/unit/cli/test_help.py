"""`inferometer help`: every page exists, is short, and names existing options."""

import re

import pytest

from inferometer.cli import main
from inferometer.cli.config import command_named
from inferometer.cli.topics import topics
from tests.support.commands import Ended, call_here

HALF_A_SCREEN = 22
OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")
MENTION = re.compile(r"inferometer help ([\w-]+)")


def inferometer(*words: str) -> Ended:
    return call_here(main.main, *words)


def test_without_a_subject_help_shows_the_overview() -> None:
    overview = inferometer("help")
    assert overview.code == 0
    assert overview.stdout == inferometer().stdout == inferometer("--help").stdout
    for name in (*main.COMMANDS, *topics()):
        assert re.search(rf"^  {name} ", overview.stdout, re.MULTILINE), name


@pytest.mark.parametrize("name", main.OURS)
def test_help_on_a_command_equals_its_own_help(name: str) -> None:
    assert inferometer("help", name) == inferometer(name, "--help")


def test_help_and_completion_have_help_too() -> None:
    assert inferometer("help", "help") == inferometer("help", "--help") == inferometer("help")
    assert inferometer("completion", "--help") == inferometer("help", "completion")
    assert inferometer("help", "completion").stdout.startswith("completion: ")


def test_there_are_a_dozen_topics() -> None:
    assert len(topics()) >= 12
    assert {"slo", "load", "data", "exit-codes", "config"} <= set(topics())
    assert set(topics()).isdisjoint((*main.OURS, *main.CLASSIC_TUNER))


@pytest.mark.parametrize("name", topics())
def test_a_page_is_short_and_names_existing_options(name: str) -> None:
    ended = inferometer("help", name)
    assert ended.code == 0
    lines = ended.stdout.splitlines()
    assert lines[0].startswith(f"{name}: ")
    assert len(lines) <= HALF_A_SCREEN
    assert max(map(len, lines)) <= 90
    known = {option for command in main.OURS for option in command_named(command).by_name}
    named = set(OPTION.findall(ended.stdout))
    assert named <= known, named - known
    assert set(MENTION.findall(ended.stdout)) <= set(topics())


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (("sol",), "did you mean 'slo'?"),
        (("exit-code",), "did you mean 'exit-codes'?"),
        (("measur",), "did you mean 'measure'?"),
        (("qqqqqqqq",), "the topics are address, browser, completion,"),
        (("slo", "load"), "write inferometer help WORD"),
        (
            ("coordinated", "omission"),
            "no help on 'coordinated omission'; it is mentioned in `inferometer help load`",
        ),
        (("coordinated-omission",), "it is mentioned in `inferometer help load`"),
        (("percentile",), "it is mentioned in `inferometer help slo`"),
    ],
)
def test_an_unknown_subject_gets_the_nearest(words: tuple[str, ...], remedy: str) -> None:
    ended = inferometer("help", *words)
    assert (ended.code, ended.stdout) == (2, "")
    assert remedy in ended.stderr


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ("mesure localhost:8000", "did you mean 'measure'?"),
        ("bench h:1 m -c 4", "write inferometer measure h:1 m -c 4"),
        ("start h:1", "write inferometer measure h:1"),
        ("ls", "write inferometer runs"),
        ("show ab12", "write inferometer view ab12"),
        ("diff a.json b.json", "write inferometer compare a.json b.json"),
        ("version", "write inferometer --version"),
        ("--versions", "did you mean '--version'?"),
        ("--hlep", "did you mean '--help'?"),
        ("help --all", "the topics are"),
        ("runs rm 7f3a", "write inferometer runs remove 7f3a"),
        ("serve --port 8000", "it is --http-port here: --http-port"),
        ("measure h:1 m --port 8000", "it is --url here"),
        ("measure h:1 m --seconds 2", "it is --duration here"),
        ("measure h:1 m --percentile 99.9", "give a whole number from 1 to 99, or -1 for the mean"),
        ("-V", "write inferometer --version"),
        ("-help", "write inferometer help"),
        ("ui 8080", "write --port 8080"),
        ("serve ./models", "write --model-repository ./models"),
        ("find h:1 m p99<5ms", "write --slo 'p99<5ms'"),
        ("capacity 100rps", "write --traffic '100rps'"),
        ("capacity --rate 9", "it is --traffic here"),
        ("tune m --max-time 60", "it is --budget here"),
        ("measure h:1 m --service-kind triton --connections 9", "set their number with -c"),
    ],
)
def test_a_first_guess_is_answered_with_what_to_write(words: str, remedy: str) -> None:
    ended = inferometer(*words.split())
    assert (ended.code, ended.stdout) == (2, "")
    assert remedy in ended.stderr


def test_every_command_of_other_tools_has_ours() -> None:
    ours = {name.split()[0] for name in main.OTHER_TOOLS.values()}
    assert ours <= {*main.COMMANDS, "--version"}
    assert not set(main.OTHER_TOOLS) & set(main.COMMANDS)


def test_the_classic_command_for_an_address(capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        main.main(["profile", "h:1", "m", "-c", "4"])
    assert ended.value.code == 2
    assert "write inferometer measure h:1 m -c 4" in capsys.readouterr().err


def test_a_topic_of_two_words() -> None:
    assert inferometer("help", "exit", "codes").stdout == inferometer("help", "exit-codes").stdout


def test_the_classic_usage_describes_the_script_and_not_our_commands():
    from inferometer.dialects.perf_analyzer.options import classic_usage

    assert "-m NAME\n        Name of the model to measure.\n" in classic_usage()
    assert "word on the command line" not in classic_usage()
