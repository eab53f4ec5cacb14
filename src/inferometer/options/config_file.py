"""`inferometer.yaml`: any options of any command, and what is in force of one.

    url: localhost:8000             # options of every command that has them, named as on the command line
    concurrency: [1, 2, 4]
    header: ["Accept: text/plain"]
    find:                           # those of one command, which win
      slo: p99<50ms

Words are taken as they are written: YAML would make 76 of 1:16, which here is a range. What they mean is read by the
option, as if they stood on the command line.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from inferometer.base.errors import UsageError
from inferometer.base.text import nearest
from inferometer.options.command_line import Command
from inferometer.options.commands import ASIDE
from inferometer.options.option import Option, appended, counted, named

_ON, _OFF = ("true", "yes", "on"), ("false", "no", "off")
_LARGEST = 1 << 20  # bytes


@dataclass(frozen=True, slots=True)
class Setting:
    """An option that is set: in which words, what they mean, and where they stand."""

    row: Option
    words: tuple[str, ...]
    value: Any  # None of a flag that is switched off
    origin: str


Settings = Mapping[str, Setting]
"""By field."""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file of options, and the commands whose options may stand in it."""

    path: Path
    commands: Mapping[str, Callable[[], Command]]  # by name; each is made when it is looked at
    alternatives: Collection[str] = ()  # fields of which one is given at most

    def settings(self, name: str) -> Settings:
        """What it sets for this command."""
        top = self._top()
        command = self.commands[name]()
        found: dict[str, Setting] = {}
        for key, value in top:
            if key.value not in self.commands:
                self._add(found, command, key, value, is_shared=True)
        sections: dict[str, dict[str, Setting]] = {}
        for key, value in top:
            if key.value in self.commands:
                members = sections[key.value] = {}
                for inner, part in self._members(value, f"the section '{key.value}'"):
                    self._add(members, self.commands[key.value](), inner, part, is_shared=False)
        own = sections.get(name, {})
        hidden = hidden_by(own, self.alternatives)
        return {field: one for field, one in found.items() if field not in hidden} | own

    def _top(self) -> list[tuple[yaml.ScalarNode, yaml.Node]]:
        try:
            text = self.path.read_bytes()[: _LARGEST + 1]
            if len(text) > _LARGEST:
                raise UsageError(f"{self.path} has more than {_LARGEST} bytes", remedy="give a smaller file")
            root = yaml.compose(text.decode(), yaml.SafeLoader)
        except OSError as error:
            raise UsageError(
                f"{self.path} cannot be read: {error.strerror or error}",
                remedy="give a file with --config FILE, or --config none",
            ) from error
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise UsageError(
                f"{self.path} is not YAML: {' '.join(str(error).split())[:200] or 'it is nested too deep'}"
            ) from error
        return [] if root is None else self._members(root, "the file")

    def _members(self, node: yaml.Node, what: str) -> list[tuple[yaml.ScalarNode, yaml.Node]]:
        """Names and what they hold, each once."""
        if isinstance(node, yaml.ScalarNode) and _is_null(node):
            return []
        if not isinstance(node, yaml.MappingNode):
            raise self._error(node, f"{what} must hold options", "write lines such as `url: localhost:8000`")
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._error(key, "a name is missing", "write lines such as `url: localhost:8000`")
            if key.value in seen:
                raise self._error(key, f"'{key.value}' stands there twice", "write it once")
            seen.add(key.value)
        return list(node.value)

    def _add(
        self,
        found: dict[str, Setting],
        command: Command,
        key: yaml.ScalarNode,
        node: yaml.Node,
        *,
        is_shared: bool,
    ) -> None:
        """Read one entry; one that is shared may be there for other commands alone."""
        row = maybe_row(command, key.value)
        if is_shared and (row is None or row.field in command.refused):
            if row is None and not self._is_known(key.value):
                raise self._unknown(key, command)
            return
        if row is None:
            raise self._unknown(key, command)
        name = as_option(key.value)
        if row.field in ASIDE:
            raise self._error(key, f"{name} is for the command line", "leave it out of the file")
        if (refusal := command.refusal(name, row)) is not None:
            raise self._error(key, refusal.message, refusal.remedy)
        words = tuple(self._words(row, node))
        try:
            value = _value(row, name, words)
        except UsageError as error:
            raise self._error(node, error.message, error.remedy) from error
        setting = Setting(row, words, value, f"{self.path}:{key.start_mark.line + 1}")
        before = found.get(row.field)
        if before is not None and before.value != value:
            raise self._error(key, f"'{key.value}' says otherwise than {before.origin}", "give one of them")
        found[row.field] = setting

    def _is_known(self, name: str) -> bool:
        return any(maybe_row(make(), name) is not None for make in self.commands.values())

    def _unknown(self, key: yaml.ScalarNode, command: Command) -> UsageError:
        known = {name.lstrip("-") for name in command.by_name if name.startswith("--")} | set(self.commands)
        close = nearest(key.value, sorted(known))
        remedy = (
            f"did you mean '{close}'?" if close else f"see `{command.program} --help-all` for its options"
        )
        return self._error(key, f"there is no option '{key.value}'", remedy)

    def _words(self, row: Option, node: yaml.Node) -> Iterator[str]:
        """A list is several uses of an option that may be given several times, else one with commas."""
        if not isinstance(node, yaml.SequenceNode):
            yield from self._entries(row, node)
        elif row.combine in (appended, named):
            for part in node.value:
                yield from self._entries(row, part)
        elif node.value:
            yield ",".join(self._word(part) for part in node.value)

    def _entries(self, row: Option, node: yaml.Node) -> Iterator[str]:
        """`Accept: text/plain` without quotes is a mapping to YAML; so are several of them."""
        if not isinstance(node, yaml.MappingNode) or row.combine not in (appended, named):
            yield self._word(node)
            return
        mark = "=" if "=" in row.metavar else ":"
        for key, value in node.value:
            parts = value.value if isinstance(value, yaml.SequenceNode) else [value]
            yield f"{self._word(key)}{mark}{','.join(self._word(part) for part in parts)}"

    def _word(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise self._error(node, "a single value must stand here", "write it without braces and brackets")
        if _is_null(node):
            raise self._error(node, "there is no value", "give one, or leave the line out")
        return str(node.value)

    def _error(self, node: yaml.Node, message: str, remedy: str) -> UsageError:
        return UsageError(f"{self.path}:{node.start_mark.line + 1}: {message}", remedy=remedy)


def hidden_by(fields: Iterable[str], alternatives: Collection[str]) -> set[str]:
    """Those that these take the place of: each itself, one of several alternatives all of them."""
    found = set(fields)
    return found if found.isdisjoint(alternatives) else found | set(alternatives)


def _is_null(node: yaml.ScalarNode) -> bool:
    return bool(node.tag == "tag:yaml.org,2002:null")


def maybe_row(command: Command, key: str) -> Option | None:
    """The option that is called so in a file."""
    return command.by_name.get(as_option(key))


def as_option(key: str) -> str:
    """A name in a file as it is written on the command line."""
    written = key.replace("_", "-")
    return f"--{written}" if len(written) > 1 else f"-{written}"


def _value(row: Option, name: str, words: Sequence[str]) -> Any:
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
