"""Options files: the settings for a command, and errors."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from inferometer.base.errors import UsageError
from inferometer.base.slo import parse_slo
from inferometer.cli import compare, find, measure, serve, tune
from inferometer.measure.checks import LOAD_MODES
from inferometer.options.command_line import Command
from inferometer.options.config_file import ConfigFile
from inferometer.options.values import Range

COMMANDS: dict[str, Command[Any]] = {
    "measure": measure.COMMAND,
    "find": find.COMMAND,
    "compare": compare.COMMAND,
    "serve": serve.COMMAND,
    "tune": tune.COMMAND,
}


def read(folder: Path, text: str | bytes, name: str = "measure") -> Mapping[str, Any]:
    """Return the file's settings by field."""
    path = folder / "options.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    commands = {known: lambda known=known: COMMANDS[known] for known in COMMANDS}
    settings = ConfigFile(path, commands, LOAD_MODES).settings(name)
    return {field: one.value for field, one in settings.items() if one.value is not None}


SET: tuple[tuple[str, dict[str, Any]], ...] = (
    ("url: localhost:8000", {"url": "localhost:8000"}),
    ("concurrency: 4", {"concurrency": Range(4)}),
    ("concurrency: 1:16", {"concurrency": Range(1, 16)}),  # YAML reads 76
    ("concurrency: [1, 2, 4]", {"concurrency": Range.of((1, 2, 4))}),
    ("c: 2", {"concurrency": Range(2)}),
    ("duration: 10s", {"duration_s": 10.0}),
    ("max_error_rate: 1%", {"max_error_rate": 0.01}),
    ("max-error-rate: 1%", {"max_error_rate": 0.01}),
    ('header: ["A: b", "C: d"]', {"headers": (("A", " b"), ("C", " d"))}),
    ("header: 'A: b'", {"headers": (("A", " b"),)}),
    ("header: [A: b]", {"headers": (("A", "b"),)}),
    ("header: {A: b, C: d}", {"headers": (("A", "b"), ("C", "d"))}),
    ("shape: {IMAGE: [3, 224]}", {"data.shapes": {"IMAGE": (3, 224)}}),
    ("input: {SCALE: 0.5}", {"data.files": (("SCALE", "0.5"),)}),
    ("streaming: true", {"streaming": True}),
    ("streaming: off", {}),
    ("grpc: yes", {"protocol": "grpc"}),
    ("verbose: 2", {"verbose": 2}),
    ("verbose: true", {"verbose": 1}),
    ("seed: 0", {"data.seed": 0}),
    ("model: null_model", {"own.models": ("null_model",)}),
    ("model: 'null'", {"own.models": ("null",)}),
    ("model: 007", {"own.models": ("007",)}),
    ("request-rate-range: 5", {"request_rate": Range(5)}),  # the classic name
    ("", {}),
    ("# nothing", {}),
    ("measure:", {}),
    ("url: a:1\nmeasure: {url: b:2}", {"url": "b:2"}),
    ("streaming: true\nmeasure: {streaming: false}", {}),
    ("concurrency: 4\nmeasure: {rate: 5}", {"request_rate": Range(5)}),  # one load mode, not two
    ("url: a:1\nfind: {slo: p99<5ms}", {"url": "a:1"}),
    ("http-port: 8000\nfail-if: p99 > 5%", {}),  # of other commands
    ("find: {concurrency: 4, duration: ten}", {}),  # other sections are not checked
    ("header: [A: b]\nmeasure: {header: []}", {}),
    ("model: &a x\nurl: *a", {"own.models": ("x",), "url": "x"}),
)


@pytest.mark.parametrize(("text", "expected"), SET)
def test_a_file_sets_options(text: str, expected: dict[str, Any], tmp_path: Path) -> None:
    assert read(tmp_path, text) == expected


def test_each_command_takes_its_own_section(tmp_path: Path) -> None:
    text = "url: a:1\nmodel: m\nfind: {slo: p99<5ms, duration: 20s}\nbudget: 3m"
    assert read(tmp_path, text, "find") == {
        "url": "a:1",
        "model": "m",
        "own.slo": parse_slo("p99<5ms"),
        "own.duration_s": 20.0,
    }
    assert read(tmp_path, text, "compare") == {"own.urls": ("a:1",), "own.models": ("m",)}
    assert read(tmp_path, text, "tune") == {"own.url": "a:1", "own.model": "m", "own.budget_s": 180.0}
    assert read(tmp_path, text, "serve") == {}


REFUSED = (
    ("concurency: 4", 1, "there is no option 'concurency'", "did you mean 'concurrency'?"),
    ("url: a:1\n\nmodell: x", 3, "there is no option 'modell'", "did you mean 'model'?"),
    ('"--url": a:1', 1, "there is no option '--url'", "did you mean 'url'?"),
    ("URL: a:1", 1, "there is no option 'URL'", "did you mean 'url'?"),
    ("fnd: {slo: p99<5ms}", 1, "there is no option 'fnd'", "did you mean 'find'?"),
    ("xyzxyz: 4", 1, "there is no option 'xyzxyz'", "--help-all"),
    ("buget: 3m", 1, "there is no option 'buget'", "did you mean 'budget'?"),  # of other commands
    ("find: {sol: p99<5ms}", 1, "`inferometer find` has no option 'sol'", "did you mean 'slo'?"),
    ("serve:\n  concurrency: 4", 2, "`inferometer serve` has no option 'concurrency'", ""),
    ("measure: {budget: 3m}", 1, "`inferometer measure` has no option 'budget'", ""),
    ("sync: true", 1, "--sync is not supported here", "--max-outstanding"),
    ("duration: ten", 1, "ten", "10s"),
    ("url: a:1\nconcurrency: 0", 2, "must be > 0", ""),
    ("url: [a:1, b:2]\nurl: c:3", 2, "'url' appears twice", ""),
    ("grpc: true\nprotocol: http", 2, "conflicts with", ""),
    ("url:", 1, "--url has no value", ""),
    ("url: {a: b}", 1, "takes a single value", ""),
    ("url: [[a]]", 1, "takes a single value", ""),
    ("streaming: 5", 1, "takes no value", "true or false"),
    ("dry-run: true", 1, "--dry-run can only be given on the command line", ""),
    ("config: x.yaml", 1, "--config can only be given on the command line", ""),
    ("help: true", 1, "--help can only be given on the command line", ""),
    ("find: 5", 1, "the section 'find' must hold options", ""),
    ("- url", 1, "the file must hold options", ""),
    ("? [a]\n: b", 1, "a name is missing", ""),
    ("&a [*a]", 1, "must hold options", ""),
    ("header: &a [*a]", 1, "takes a single value", ""),
    ("header: abc123", 1, "no colon", ""),
)


@pytest.mark.parametrize(("text", "line", "message", "remedy"), REFUSED)
def test_errors_name_file_and_line(text: str, line: int, message: str, remedy: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, text)
    assert caught.value.message.startswith(f"{tmp_path / 'options.yaml'}:{line}: ")
    assert message in caught.value.message
    assert remedy in caught.value.remedy
    assert "abc123" not in str(caught.value)


@pytest.mark.parametrize(
    "text", [b"\xff\xfe\x00", b"a: [", b"a: b: c", b"\0", b"a: 1\n---\nb: 2", b"[" * 5000]
)
def test_invalid_yaml_is_refused(text: bytes, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not YAML"):
        read(tmp_path, text)


def test_a_broken_line_is_not_quoted(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r":2: this is not YAML") as caught:
        read(tmp_path, 'url: a:1\nheader: ["Authorization: abc123", }')
    assert "abc123" not in str(caught.value)


def test_unsupported_options_are_skipped_if_shared_and_refused_in_a_section(tmp_path: Path) -> None:
    assert read(tmp_path, "concurrency: 4\nfind: {slo: p99<5ms}", "find") == {"own.slo": parse_slo("p99<5ms")}
    with pytest.raises(UsageError, match="--concurrency is not supported by `inferometer find`"):
        read(tmp_path, "find: {concurrency: 4}", "find")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        ConfigFile(tmp_path / "none.yaml", {}).settings("measure")
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        ConfigFile(tmp_path, {}).settings("measure")


NAMES = st.sampled_from(
    [name.lstrip("-") for name in measure.COMMAND.by_name] + [*COMMANDS, "x", "", "<<", "1", "null"]
)
LEAVES = st.one_of(st.text(max_size=8), st.integers(), st.booleans(), st.none(), st.floats())
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(document=st.dictionaries(NAMES, VALUES, max_size=5))
def test_any_yaml_gives_options_or_a_usage_error(document: dict[str, Any], tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    with suppress(UsageError):
        assert isinstance(read(folder, yaml.safe_dump(document, allow_unicode=True)), dict)


@given(text=st.binary(max_size=40) | st.text("aurl: -[]{}&*!|>'\"#\n\t,?%@`\\0", max_size=40).map(str.encode))
def test_any_bytes_give_options_or_a_usage_error(text: bytes, tmp_path_factory: Any) -> None:
    with suppress(UsageError):
        assert isinstance(read(tmp_path_factory.mktemp("fuzz"), text), dict)
