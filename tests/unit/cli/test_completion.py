"""Completion scripts: bash's is run in bash; those of other shells are checked without running them."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from inferometer.cli import main
from inferometer.cli.completion import SHELLS
from inferometer.cli.config import command_named
from inferometer.cli.topics import topics
from tests.support.commands import call_here

ASK = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_inferometer
printf '%s\\n' "${COMPREPLY[@]}"
"""


def script(shell: str) -> str:
    ended = call_here(main.main, "completion", shell)
    assert (ended.code, ended.stderr) == (0, "")
    return ended.stdout


@pytest.fixture(scope="module")
def bash_script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "inferometer.bash"
    path.write_text(script("bash"))
    return path


def bash(command: str, *words: str, folder: Path | None = None) -> str:
    ended = subprocess.run(
        ["bash", "--norc", "-c", command, "bash", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=folder,
    )
    assert ended.stderr == ""
    return ended.stdout


def completed(path: Path, *words: str, folder: Path | None = None) -> set[str]:
    """Return bash's completions of the last word."""
    return set(bash(ASK, str(path), "inferometer", *words, folder=folder).split())


def test_bash_knows_the_command(bash_script: Path) -> None:
    said = bash('source "$1"; complete -p inferometer', str(bash_script))
    assert said.strip() == "complete -o filenames -F _inferometer inferometer"


def test_bash_completes_commands_and_topics(bash_script: Path) -> None:
    assert completed(bash_script, "") == {*main.COMMANDS, "--help", "--version"}
    assert completed(bash_script, "me") == {"measure"}
    assert completed(bash_script, "help", "") == {*main.COMMANDS, *topics()}
    assert completed(bash_script, "completion", "") == set(SHELLS)


@pytest.mark.parametrize("name", main.OURS)
def test_bash_completes_every_option(name: str, bash_script: Path) -> None:
    shown = {
        option for _, rows in command_named(name).groups for row in rows for option in row.names if row.names
    }
    assert completed(bash_script, name, "-") == shown
    assert completed(bash_script, name, "--sh") == {option for option in shown if option.startswith("--sh")}


def test_bash_completes_choices_and_files(bash_script: Path, tmp_path: Path) -> None:
    (tmp_path / "data.json").touch()
    (tmp_path / "models").mkdir()
    assert completed(bash_script, "measure", "-i", "") == {"http", "grpc"}
    assert completed(bash_script, "find", "--by", "c") == {"concurrency"}
    assert completed(bash_script, "measure", "--json", "", folder=tmp_path) == {"data.json", "models"}
    assert completed(bash_script, "view", "da", folder=tmp_path) == {"data.json"}
    assert completed(bash_script, "measure", "-c", "", folder=tmp_path) == set()


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_complete_every_option(shell: str, tmp_path: Path) -> None:
    made = script(shell)
    if found := shutil.which(shell):
        (tmp_path / "script").write_text(made)
        subprocess.run([found, "-n", str(tmp_path / "script")], check=True, timeout=60)
    assert shlex.split(made, comments=True)  # every quote is closed
    for name in main.OURS:
        if shell == "zsh":
            part = re.search(rf"^        {name}\) _arguments \\\n(.*?) ;;$", made, re.DOTALL | re.MULTILINE)
            assert part is not None
            told = set(re.findall(r"'(?:\*|\([^)]*\))(--?[\w-]+)\[", part[1]))
        else:
            lines = [line for line in made.splitlines() if f"seen_subcommand_from {name}'" in line]
            words = [re.findall(r" -([sl]) ([\w-]+)", line.partition(" -d ")[0]) for line in lines]
            told = {f"--{word}" if kind == "l" else f"-{word}" for row in words for kind, word in row}
        shown = {option for _, rows in command_named(name).groups for row in rows for option in row.names}
        assert told == shown


@pytest.mark.parametrize("words", [(), ("csh",)])
def test_an_unknown_shell_is_refused(words: tuple[str, ...]) -> None:
    ended = call_here(main.main, "completion", *words)
    assert (ended.code, ended.stdout) == (2, "")
    assert "give one of bash, zsh, fish" in ended.stderr


def test_bash_completes_a_value_after_an_equals_sign(bash_script: Path) -> None:
    """Bash treats the sign as a separate word."""
    assert completed(bash_script, "find", "--by", "=", "c") == {"concurrency"}
    assert completed(bash_script, "find", "--by", "=") == {"rate", "concurrency"}
