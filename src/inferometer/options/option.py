"""Options, and how the fields of a dataclass declare them.

A command line is described by dataclasses. Each field that a user can set is declared with `option`, which adds the
spelling, the help and the values to the name, the type and the default: every option is defined in one place.
`rows` returns the options of such a class as a table, from which parsers, help texts and documentation are made.

The scripts with the classic dialects and our own commands share the table. `names` is the classic tool's spelling of
an option, `own` that of our commands; `classic` and `modern` derive the two tables from it.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, overload

from inferometer.base.units import plain_number
from inferometer.options.reach import EVERYTHING, Reach, referenced
from inferometer.options.values import GENERATED, Values

T = TypeVar("T")
Combine = Callable[[Any, Any], Any]  # (the value so far, or None; the new value)
OWN = "own."
"""Prefix for the fields of a command's own options, which may share names with common ones."""
_ROWS = "options"
_GROUP = "group"


class Option(NamedTuple):
    """One way to set a field on a command line."""

    names: tuple[str, ...]  # as shown in the help
    help: str
    values: Values | None = None  # None for a flag
    own: tuple[str, ...] | None = None  # names in our own commands; None: the same; empty: not shown
    own_values: Values | None = None  # values in our own commands, if they accept more
    own_help: str = ""  # help in our own commands, if it differs
    instead: str = ""  # what to use in our own commands, which refuse it
    aliases: tuple[str, ...] = ()  # accepted names that are not shown
    is_main: bool = False  # shown in the short help
    field: str = ""  # with the prefix "data." or "tls." for a part
    value: object = True  # the value that a flag sets
    combine: Combine | None = (
        None  # for options that may be given several times; otherwise the last one counts
    )
    default: str | None = None  # as shown; None shows the field's default
    is_ours: bool = (
        False  # not in perf_analyzer 2.51; if a prefix matches several names, those of 2.51 take precedence
    )
    is_deprecated: bool = False
    is_secret: bool = False  # its value is never shown
    reach: Reach | None = None  # if it differs from that of its values; a flag reaches nothing
    is_required: bool = False

    @property
    def most_reach(self) -> Reach | None:
        """The widest reach of its values; None if not declared."""
        if self.reach is not None:
            return self.reach
        return Reach.NOTHING if self.values is None else self.values.reach

    def reach_of(self, words: Iterable[str]) -> Reach:
        """Return the reach of these words. An option without a declared reach is assumed to reach everything."""
        most = EVERYTHING if self.most_reach is None else self.most_reach
        if self.values is None:
            return most
        found = Reach.NOTHING
        for word in words:
            if not self.values.is_harmless(word):
                found |= most | (Reach.NOTHING if self.values.choices else referenced(word))
        return found

    @property
    def metavar(self) -> str:
        return "" if self.values is None else self.values.metavar

    @property
    def text(self) -> str:
        """The help with the default and the status."""
        notes = [f"default {self.default}"] if self.default else []
        if self.is_deprecated:
            notes.append("deprecated")
        return f"{self.help} ({'; '.join(notes)})" if notes else self.help

    @property
    def brief(self) -> str:
        """The first sentence of the help, with the default."""
        first = self.help.split(". ")[0].rstrip(".")
        return f"{first} (default {self.default})" if self.default not in (None, "", "0") else first


Groups = tuple[tuple[str, tuple[Option, ...]], ...]


def classic(groups: Groups) -> Groups:
    """Return the options of the classic script: those with a classic name."""
    return _converted(groups, lambda row: _as_classic(row) if row.names else None)


def _as_classic(row: Option) -> Option:
    """Return the option limited to the values that the classic script accepts."""
    values = row.values
    if values is not None and values.classic is not None:
        values = dataclasses.replace(values, read=values.classic, classic=None)
    return row._replace(instead="", values=values)


def modern(groups: Groups) -> Groups:
    """Return the options of our own commands; long classic names are accepted but not shown."""
    taken = {name for _, members in groups for row in members for name in row.own or ()}

    def convert(row: Option) -> Option | None:
        if row.own is None:
            names = tuple(name for name in row.names if name not in taken)
            return row._replace(names=names) if names else None
        aliases = tuple(name for name in row.names if name.startswith("--") and name not in row.own)
        return row._replace(
            names=row.own,
            aliases=aliases,
            values=row.own_values or row.values,
            help=row.own_help or row.help,
            default="" if row.own_help else row.default,
        )

    return _converted(groups, convert)


def _converted(groups: Groups, convert: Callable[[Option], Option | None]) -> Groups:
    return tuple(
        (title, tuple(found for row in members if (found := convert(row)) is not None))
        for title, members in groups
    )


def appended(before: Any, value: object) -> tuple[object, ...]:
    """Append a value, keeping the given order."""
    return (*(before or ()), value)


def counted(before: Any, value: object) -> int:
    """Count how often an option was given."""
    return (before or 0) + 1


def named(before: Any, value: Any) -> dict[str, Any]:
    """Collect pairs of a name and a value; the last value of a name wins."""
    return dict([*(before or {}).items(), value])


_EMPTY: Mapping[Combine | None, Any] = {appended: (), counted: 0, named: {}}
"""Initial values of the combining functions."""


@overload
def option(
    names: str, help: str, values: Values | None = None, *, default: T, group: str = "", **more: Any
) -> T: ...
@overload
def option(names: str, help: str, values: Values | None = None, *, group: str = "", **more: Any) -> Any: ...
def option(
    names: str,
    help: str,
    values: Values | None = None,
    *,
    default: Any = None,
    group: str = "",
    shown: str | None = None,
    own: str | None = None,
    also: Sequence[Option] = (),
    **more: Any,
) -> Any:
    """Return the field of an option. The default is None, False for a flag, and empty if values are collected.

    `names` and `own` are separated by spaces; `more` are fields of `Option`. `group` is the title in the help for this
    field and the following ones. `also` are other options that set the field.
    """
    own_names = None if own is None else tuple(own.split())
    row = Option(tuple(names.split()), help, values, own_names, default=shown, **more)
    metadata = {_ROWS: (row, *also), _GROUP: group}
    if default is None:
        default = _EMPTY.get(row.combine, False if values is None else None)
    if isinstance(default, dict):
        return dataclasses.field(default_factory=default.copy, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata, repr=not row.is_secret)


def ours(names: str, help: str, values: Values | None = None, **more: Any) -> Any:
    """Return the field of an option that perf_analyzer 2.51 does not have."""
    return option(names, help, values, is_ours=True, **more)


def only_ours(names: str, help: str, values: Values | None = None, **more: Any) -> Any:
    """Return the field of an option that only our own commands have, not the classic script."""
    return ours("", help, values, own=names, **more)


def part(cls: type[T], *, also: Sequence[Option] = ()) -> T:
    """Return a field that holds a dataclass of options; `also` are options that set several of its fields."""
    return dataclasses.field(default_factory=cls, metadata={_ROWS: tuple(also)})


@cache
def rows(cls: type, *, prefix: str = "") -> Groups:
    """Return the options of a class, by group of the help."""
    found: dict[str, list[Option]] = {}
    for group, row in _rows(cls, "", prefix):
        found.setdefault(group, []).append(row)
    return tuple((group, tuple(members)) for group, members in found.items())


def _rows(cls: type, title: str, prefix: str) -> Iterator[tuple[str, Option]]:
    for field in dataclasses.fields(cls):
        title = field.metadata.get(_GROUP) or title
        made = field.default_factory
        if isinstance(made, type) and dataclasses.is_dataclass(made):
            yield from _rows(made, title, f"{prefix}{field.name}.")
        for number, row in enumerate(field.metadata.get(_ROWS, ())):
            default = row.default
            if default is None:
                default = _shown(field.default) if number == 0 and row.values is not None else ""
            yield title, row._replace(field=row.field or f"{prefix}{field.name}", default=default)


def _shown(default: object) -> str:
    """Format a default as a user would write it; empty if there is none."""
    if isinstance(default, bool):
        return ""
    if isinstance(default, int | float):
        return plain_number(default) if isinstance(default, float) else str(default)
    return str(default) if isinstance(default, str | Path) else ""


# --- refused combinations of options

Given = Mapping[str, Any]
"""Given values by field, without defaults, so that rules can be checked before making `Options`."""


class Rule(NamedTuple):
    """A refused combination of options, with its error message."""

    is_broken: Callable[[Given], bool]
    message: str  # as in the classic script
    remedy: str = ""  # added by our own commands
    ours: str = ""  # the message of our own commands, if it differs


def is_grpc(given: Given) -> bool:
    return bool(given.get("protocol") == "grpc")


def is_async(given: Given) -> bool:
    return "asynchronous" in given or "streaming" in given


def names_data(given: Given) -> bool:
    """Whether a file or a directory of data was given."""
    return any(source not in GENERATED for source in given.get("data.sources", ()))
