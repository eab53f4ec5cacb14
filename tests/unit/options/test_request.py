"""A request: what a user asked of a command, as one typed value."""

import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import FrameType

import pytest

import inferometer
from inferometer.base.errors import UsageError
from inferometer.cli.main import main
from inferometer.measure import addresses
from inferometer.options.command_line import Command, Request, Target, read
from inferometer.options.options import Options
from inferometer.options.values import Range

SOURCE = Path(inspect.getfile(inferometer)).parent


def request_of(name: str, *words: str) -> Request[object]:
    command: Command[object] = import_module(f"inferometer.cli.{name}").COMMAND
    found = read(words, command)
    assert isinstance(found, Request)
    return found


def test_the_parts_of_a_command_line_are_separate() -> None:
    line = "h:1 m --slo p99<1s --start 9 --store runs --tag a --timeout 2s"
    found = request_of("find", *line.split())
    assert found.words == ("h:1", "m")
    assert found.load == {"request_timeout_s": 2.0}
    assert (found.asides.store, found.asides.tags, found.asides.config) == (Path("runs"), ("a",), None)
    assert found.given == {"slo", "start"}
    assert found.own.start == 9.0  # type: ignore[attr-defined]
    assert found.own.by == "rate"  # type: ignore[attr-defined]


def test_the_command_line_takes_precedence_over_a_file() -> None:
    found = request_of("measure", "--timeout", "2s").completed({"request_timeout_s": 9.0, "url": "h:1"})
    assert found.load == {"request_timeout_s": 2.0, "url": "h:1"}


def test_a_request_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        request_of("measure", "-c", "4").values["concurrency"] = Range(5)  # type: ignore[index]


@pytest.mark.parametrize(
    ("line", "urls", "models"),
    [
        ("measure h:1 m", ["h:1"], ["m"]),
        ("measure m h:1", ["h:1"], ["m"]),
        ("measure -u h:1 m", ["h:1"], ["m"]),
        ("measure h:1 -m m", ["h:1"], ["m"]),
        ("measure h:1", ["h:1"], []),
        ("measure example.com llama-3.1", ["example.com"], ["llama-3.1"]),
        ("measure server model", ["server"], ["model"]),
        ("find h:1 m", ["h:1"], ["m"]),
        ("diagnose localhost m", ["localhost"], ["m"]),
        ("tune m", [], ["m"]),
        ("tune resnet.v2", [], ["resnet.v2"]),
        ("tune h:1 m", ["h:1"], ["m"]),
        ("tune -m m h:1", ["h:1"], ["m"]),
        ("tune m@h:1", [], ["m@h:1"]),
        ("compare h:1 a b", ["h:1"], ["a", "b"]),
        ("compare h:1 h:2 a", ["h:1", "h:2"], ["a"]),
        ("compare a@h:1 b@h:2", [], ["a@h:1", "b@h:2"]),
        ("interfere h:1 a b -m c", ["h:1"], ["c", "a", "b"]),
        ("interfere h:1 h:2", ["h:1", "h:2"], []),
    ],
)
def test_words_are_addresses_and_models(line: str, urls: list[str], models: list[str]) -> None:
    name, *words = line.split()
    assert request_of(name, *words).target() == Target(tuple(urls), tuple(models))


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("measure m", "'m' is not an address; write the address first: localhost:8000 m"),
        ("measure h:1 a b", "Two models are given: a and b"),
        ("measure h:1 a -m b", "Two models are given: b and a"),
        ("measure h:1 h:2", "Two addresses are given: h:1 and h:2"),
        ("measure -u h:1 h:2 m", "Two addresses are given: h:1 and h:2"),
        ("measure h:1 m -c 1 2 4", "separate levels with commas: -c 1,2,4"),
        ("tune h:1 a b", "Two models are given: a and b"),
        ("tune h:1 h:2 a", "Two addresses are given: h:1 and h:2"),
    ],
)
def test_ambiguous_words_are_refused(line: str, sentence: str) -> None:
    name, *words = line.split()
    with pytest.raises(UsageError) as caught:
        request_of(name, *words).target()
    assert sentence in str(caught.value)


# --- from the command line to the options

LEVEL = 4711


def _holds(value: object) -> bool:
    """Whether a value carries the level: as a word, as a value, or in a request."""
    if isinstance(value, Request):
        return _holds(value.values)
    if isinstance(value, Mapping):
        return any(map(_holds, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_holds, value))
    return value == str(LEVEL) or (isinstance(value, Range) and value.start == LEVEL)


@contextmanager
def files_passed() -> Iterator[list[str]]:
    """Collect the files of the functions that receive the level, until it is in the options."""
    found: list[str] = []

    def see(frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event != "call" or SOURCE not in path.parents or path.parent.name == "base":
            return
        names = frame.f_code.co_varnames[: frame.f_code.co_argcount + frame.f_code.co_kwonlyargcount]
        if any(_holds(frame.f_locals.get(name)) for name in names):
            found.append(str(path.relative_to(SOURCE)))

    sys.setprofile(see)
    try:
        yield found
    finally:
        sys.setprofile(None)


def test_a_level_passes_through_six_files_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[Options] = []

    def stop(options: Options, **_: object) -> None:
        sys.setprofile(None)
        made.append(options)
        raise UsageError("enough")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(addresses, "prepare", stop)
    with files_passed() as found:
        main(["measure", "h:1", "m", "-c", str(LEVEL), "--no-store"])
    assert made[0].concurrency == Range(LEVEL)
    assert 3 <= len(set(found)) <= 6, dict.fromkeys(found)
    assert capsys.readouterr().err.endswith("enough\n")
