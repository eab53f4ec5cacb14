"""Options files such as `inferometer.yaml`, and the effective settings of a command.

    url: localhost:8000             # for every command that has the option, named as on the command line
    concurrency: [1, 2, 4]
    header: ["x-team: vision"]
    find:                           # for one command; takes precedence
      slo: p99<50ms

Values are taken literally: YAML would read the range 1:16 as 76. Each option parses its value as if it were given on
the command line.

A file that the user did not name may only set options that reach nothing (`options/reach.py`) unless it is trusted.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.reading import CONFIG, read_regular
from inferometer.base.text import nearest
from inferometer.options.asides import ASIDE
from inferometer.options.command_line import Command
from inferometer.options.option import Option, appended, counted, named
from inferometer.options.reach import Reach, reasons

_ON, _OFF = ("true", "yes", "on"), ("false", "no", "off")
_REMEDY = "give a file with --config FILE, or --config none"


@frozen
class Setting:
    """An option that is set: its words, its value, and their origin."""

    row: Option
    words: tuple[str, ...]
    value: Any  # None for a flag that is switched off
    origin: str


Settings = Mapping[str, Setting]
"""Settings by field."""


def read_options(path: Path) -> tuple[bytes, os.stat_result]:
    """Return content and status of an options file. Pipes are refused, since the user may not have named the file."""
    return read_regular(path, CONFIG, "the options file", remedy=_REMEDY)


@frozen
class Need:
    """An entry of an options file that requires the user's trust."""

    key: str
    line: int
    last_line: int
    reach: Reach

    def __str__(self) -> str:
        return f"'{self.key}' in line {self.line} {reasons(self.reach)}"


class UntrustedError(UsageError):
    """An untrusted file sets options that require trust."""

    def __init__(self, path: Path, needs: Sequence[Need]) -> None:
        super().__init__(
            f"{path} was found here, was not named, and is not trusted: {'; '.join(map(str, needs))}",
            remedy=f"review it, then run `inferometer trust` to allow it; --config {path} uses it for this run only, "
            "--config none ignores it",
        )


@frozen
class ConfigFile:
    """An options file, and the commands whose options it may set."""

    path: Path
    commands: Mapping[str, Callable[[], Command[Any]]]  # by name; made on demand
    alternatives: Collection[str] = ()  # mutually exclusive fields
    text: bytes | None = None  # its content, if already read
    is_trusted: bool = True  # otherwise it may only set options that reach nothing

    def settings(self, name: str) -> Settings:
        """Return the settings for this command. UntrustedError lists every entry that requires trust."""
        needs: list[Need] = []
        found = self._settings(name, needs)
        if needs:
            raise UntrustedError(self.path, needs)
        return found

    def needs(self) -> tuple[Need, ...]:
        """Return the entries that require trust, for any command."""
        found: dict[int, Need] = {}
        untrusted = replace(self, is_trusted=False)
        for name in self.commands:
            needs: list[Need] = []
            untrusted._settings(name, needs)
            for need in needs:
                before = found.get(need.line)
                found[need.line] = need if before is None else replace(need, reach=need.reach | before.reach)
        return tuple(found[line] for line in sorted(found))

    def _settings(self, name: str, needs: list[Need]) -> Settings:
        shared: dict[str, Setting] = {}
        own: dict[str, Setting] = {}
        for key, value in self._top():
            if key.value not in self.commands:
                self._add(shared, name, key, value, needs, is_shared=True)
                continue
            for inner, part in self._members(value, f"the section '{key.value}'"):
                if key.value == name:
                    self._add(own, name, inner, part, needs, is_shared=False)
                elif maybe_row(self.commands[key.value](), inner.value) is None:
                    raise self._unknown(inner, key.value)
        hidden = hidden_by(own, self.alternatives)
        return {field: one for field, one in shared.items() if field not in hidden} | own

    def _top(self) -> list[tuple[yaml.ScalarNode, yaml.Node]]:
        root = self._root()
        return [] if root is None else self._members(root, "the file")

    def _root(self) -> yaml.Node | None:
        text = read_options(self.path)[0] if self.text is None else self.text
        try:
            root: yaml.Node | None = yaml.compose(text.decode(), yaml.SafeLoader)
        except RecursionError as error:
            raise UsageError(f"{self.path} is not YAML: it is nested too deep") from error
        except (
            yaml.MarkedYAMLError
        ) as error:  # the full message would quote the line, which may contain a secret
            line = 0 if error.problem_mark is None else error.problem_mark.line
            raise UsageError(f"{self.path}:{line + 1}: this is not YAML: {error.problem}") from error
        except (yaml.YAMLError, ValueError) as error:
            raise UsageError(f"{self.path} is not YAML: {' '.join(str(error).split())}") from error
        return root

    def _members(self, node: yaml.Node, what: str) -> list[tuple[yaml.ScalarNode, yaml.Node]]:
        """Return the entries of a mapping; names must be unique."""
        if isinstance(node, yaml.ScalarNode) and _is_null(node):
            return []
        if not isinstance(node, yaml.MappingNode):
            raise self._error(node, f"{what} must hold options", "write lines such as `url: localhost:8000`")
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._error(key, "a name is missing", "write lines such as `url: localhost:8000`")
            if key.value in seen:
                raise self._error(key, f"'{key.value}' appears twice", "write it once")
            seen.add(key.value)
        return list(node.value)

    def _add(
        self,
        found: dict[str, Setting],
        name: str,
        key: yaml.ScalarNode,
        node: yaml.Node,
        needs: list[Need],
        *,
        is_shared: bool,
    ) -> None:
        """Read one entry; a shared entry may apply only to other commands."""
        command, written = self.commands[name](), as_option(key.value)
        row = maybe_row(command, key.value)
        if row is None:
            if is_shared and any(maybe_row(other(), key.value) for other in self.commands.values()):
                return
            raise self._unknown(key, None if is_shared else name)
        if is_shared and row.field in command.refused:
            return
        if row.field in ASIDE:
            raise self._error(
                key, f"{written} can only be given on the command line", "remove it from the file"
            )
        if (refusal := command.refusal(written, row)) is not None:
            raise self._error(key, refusal.message, refusal.remedy)
        try:
            words = tuple(_words(row, written, node))
            if not self.is_trusted and (reach := _reach(row, words)):
                needs.append(Need(key.value, key.start_mark.line + 1, _last_line(node), reach))
                return  # not parsed: parsing may access files
            value = option_value(row, written, words)
        except UsageError as error:
            raise self._error(node, error.message, error.remedy) from error
        setting = Setting(row, words, value, f"{self.path}:{key.start_mark.line + 1}")
        before = found.get(row.field)
        if before is not None and before.value != value:
            raise self._error(key, f"'{key.value}' conflicts with {before.origin}", "keep one of them")
        found[row.field] = setting

    def _unknown(self, key: yaml.ScalarNode, name: str | None) -> UsageError:
        """Return the error for a name that is not an option of this command, or of any."""
        commands = [self.commands[name]()] if name else [make() for make in self.commands.values()]
        known = {option[2:] for command in commands for option in command.by_name if option.startswith("--")}
        close = nearest(key.value.lstrip("-").lower(), sorted(known if name else known | set(self.commands)))
        what = f"`{commands[0].program}` has no" if name else "there is no"
        remedy = f"did you mean '{close}'?" if close else "see --help-all for the options"
        return self._error(key, f"{what} option '{key.value}'", remedy)

    def _error(self, node: yaml.Node, message: str, remedy: str) -> UsageError:
        return UsageError(f"{self.path}:{node.start_mark.line + 1}: {message}", remedy=remedy)


# --- words


def _words(row: Option, name: str, node: yaml.Node) -> Iterator[str]:
    """Yield the words of an entry. A list repeats an option that may be repeated; otherwise commas join it."""
    if not isinstance(node, yaml.SequenceNode):
        yield from _entries(row, name, node)
    elif row.combine in (appended, named):
        for part in node.value:
            yield from _entries(row, name, part)
    elif node.value:
        yield ",".join(_word(name, part) for part in node.value)


def _entries(row: Option, name: str, node: yaml.Node) -> Iterator[str]:
    """Yield the words of a value. YAML reads an unquoted `Accept: text/plain` as a mapping."""
    if not isinstance(node, yaml.MappingNode) or row.combine not in (appended, named):
        yield _word(name, node)
        return
    mark = "=" if "=" in row.metavar else ":"
    for key, value in node.value:
        parts = value.value if isinstance(value, yaml.SequenceNode) else [value]
        yield f"{_word(name, key)}{mark}{','.join(_word(name, part) for part in parts)}"


def _word(name: str, node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise UsageError(f"{name} takes a single value here", remedy="write it without braces and brackets")
    if _is_null(node):
        raise UsageError(f"{name} has no value", remedy="give one, or remove the line")
    return str(node.value)


def _reach(row: Option, words: Sequence[str]) -> Reach:
    """Return the reach of an entry; a flag that is switched off reaches nothing."""
    is_off = row.values is None and words[:1] and words[0].lower() in (*_OFF, "0")
    return Reach.NOTHING if is_off else row.reach_of(words)


def _last_line(node: yaml.Node) -> int:
    """Return the last line of a node. A block ends in the first column of the line after it."""
    mark = node.end_mark
    return int(mark.line + (1 if mark.column else 0))


def hidden_by(fields: Iterable[str], alternatives: Collection[str]) -> set[str]:
    """Return the fields that the given fields override: themselves and, if one of them is an alternative, all
    alternatives."""
    found = set(fields)
    return found if found.isdisjoint(alternatives) else found | set(alternatives)


def _is_null(node: yaml.ScalarNode) -> bool:
    return bool(node.tag == "tag:yaml.org,2002:null")


def maybe_row(command: Command[Any], key: str) -> Option | None:
    """Return the option with this name in a file, if any."""
    return command.by_name.get(as_option(key))


def as_option(key: str) -> str:
    """Return the command-line spelling of a name in a file."""
    written = key.replace("_", "-")
    return f"--{written}" if len(written) > 1 else f"-{written}"


def option_value(row: Option, name: str, words: Sequence[str]) -> Any:
    """Return the value of an option's words; None for a flag that is switched off."""
    if row.values is None:
        return _flag(row, name, words[0] if words else "")
    value: Any = None
    for word in words:
        read = row.values.read(name, word)
        value = read if row.combine is None else row.combine(value, read)
    return value


def _flag(row: Option, name: str, word: str) -> Any:
    if row.combine is counted and word.isdecimal() and len(word) < 3:
        return int(word) or None
    if word.lower() in _OFF:
        return None
    if word.lower() not in _ON:
        raise UsageError(f"{name} takes no value, but got '{word}'", remedy="write true or false")
    return row.value if row.combine is None else row.combine(None, row.value)
