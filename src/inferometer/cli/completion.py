"""`inferometer completion`: a script for bash, zsh or fish that completes commands, options and their values.

It is generated from the option tables, and does not call this program when it runs.
"""

import re
from collections.abc import Iterator, Sequence
from shlex import quote
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.options.command_line import Command
from inferometer.options.option import Option

SHELLS = ("bash", "zsh", "fish")
_FILES = ("FILE", "DIR", "SOURCE")


@frozen
class Completed:
    """A command: its summary, its options, and the words that may follow it."""

    name: str
    what: str
    command: Command[Any] | None = None
    words: tuple[str, ...] = ()

    @property
    def rows(self) -> list[Option]:
        groups = () if self.command is None else self.command.groups
        return [row for _, members in groups for row in members if row.names]


Commands = Sequence[Completed]


def script(shell: str, commands: Commands) -> str:
    """Return the completion script for this shell."""
    if shell not in SHELLS:
        what = f"completion for '{shell}' is not supported" if shell else "no shell is given"
        raise UsageError(what, remedy=f"give one of {', '.join(SHELLS)}: inferometer completion bash")
    lines = {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](commands)
    return "\n".join(lines) + "\n"


def _choices(row: Option) -> str:
    return "" if row.values is None else " ".join(row.values.choices)


def _takes_file(row: Option) -> bool:
    return any(mark in row.metavar for mark in _FILES)


def _brief(text: str) -> str:
    """Return the first sentence."""
    return text.partition(". ")[0].rstrip(".")


# --- bash

_BASH = """\
# bash completion for inferometer: source it, or save it as
# ~/.local/share/bash-completion/completions/inferometer
_inferometer() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" words="" files=1
    COMPREPLY=()
    if [[ "$word" == "=" ]]; then
        word=""
    elif [[ "$before" == "=" ]]; then
        before="${{COMP_WORDS[COMP_CWORD-2]}}"
    fi
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{commands} --help --version" -- "$word"))
        return
    fi
    case "${{COMP_WORDS[1]}}:$before" in
{values}
    esac
    case "${{COMP_WORDS[1]}}" in
{options}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    if [[ -n "$files" && "$word" != -* ]]; then
        COMPREPLY+=($(compgen -f -- "$word"))
    fi
}}
complete -o filenames -F _inferometer inferometer"""


def _bash(commands: Commands) -> Iterator[str]:
    values = [line for one in commands for line in _bash_values(one)]
    options = []
    for one in commands:
        words = " ".join(one.words or (name for row in one.rows for name in row.names))
        options.append(f'        {one.name}) words="{words}"{" files=" if one.words else ""} ;;')
    names = " ".join(one.name for one in commands)
    yield _BASH.format(commands=names, values="\n".join(values), options="\n".join(options))


def _bash_values(one: Completed) -> Iterator[str]:
    """Yield a case for each option that takes a value."""
    for row in one.rows:
        if row.values is None:
            continue
        pattern = "|".join(f"{one.name}:{name}" for name in row.names)
        found = f'-W "{_choices(row)}"' if _choices(row) else "-f" if _takes_file(row) else ""
        made = f'COMPREPLY=($(compgen {found} -- "$word")); ' if found else ""
        yield f"        {pattern}) {made}return ;;"


# --- zsh

_ZSH = """\
#compdef inferometer
# zsh completion for inferometer: save it as _inferometer in a folder of $fpath
_inferometer() {{
    local -a commands
    commands=(
{commands}
    )
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    local command=$words[2]
    shift words
    (( CURRENT-- ))
    case $command in
{options}
    esac
}}
_inferometer "$@\""""


def _zsh(commands: Commands) -> Iterator[str]:
    described = [f"        {quote(f'{one.name}:{_brief(one.what)}')}" for one in commands]
    options = []
    for one in commands:
        specs = [spec for row in one.rows for spec in _zsh_specs(row)]
        rest = f"'1:word:({' '.join(one.words)})'" if one.words else "'*:file:_files'"
        words = " \\\n            ".join([*specs, rest])
        options.append(f"        {one.name}) _arguments \\\n            {words} ;;")
    yield _ZSH.format(commands="\n".join(described), options="\n".join(options))


def _zsh_specs(row: Option) -> Iterator[str]:
    """Yield a spec for each spelling; they exclude each other unless the option may be repeated."""
    others = "*" if row.combine is not None else f"({' '.join(row.names)})"
    action = f"({_choices(row)})" if _choices(row) else "_files" if _takes_file(row) else ""
    value = "" if row.values is None else f":{_escaped(row.metavar)}:{action}"
    for name in row.names:
        yield quote(f"{others}{name}[{_escaped(_brief(row.help))}]{value}")


def _escaped(text: str) -> str:
    """Escape the characters that are special in zsh's option specs."""
    return re.sub(r"[\[\]:\\]", r"\\\g<0>", text)


# --- fish


def _fish(commands: Commands) -> Iterator[str]:
    yield "# fish completion for inferometer: save it as ~/.config/fish/completions/inferometer.fish"
    for one in commands:
        yield f"complete -c inferometer -n __fish_use_subcommand -f -a {one.name} -d {quote(_brief(one.what))}"
        begin = f"complete -c inferometer -n '__fish_seen_subcommand_from {one.name}'"
        if one.words:
            yield f"{begin} -f -a {quote(' '.join(one.words))}"
        for row in one.rows:
            names = (f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in row.names)
            value = "" if row.values is None else "-r -F" if _takes_file(row) else "-x"
            choices = f"-a {quote(_choices(row))}" if _choices(row) else ""
            yield " ".join(filter(None, (begin, *names, value, choices, "-d", quote(_brief(row.help)))))
