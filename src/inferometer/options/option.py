"""What an option is, and how a field of a dataclass carries its own.

A command line is described by dataclasses. Each field that can be asked for is declared with `option`, which puts the
spelling, the help and the values beside the name, the type and the default: an option is said once, in one place.
`rows` gives the options of such a class as a table; readers of words, help texts and documentation are made from it.

The scripts with the classic dialects and our own commands share the table. `names` is how the classic tool spells an
option, `own` how our commands do; `classic` and `modern` make of the table what each of the two knows.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, overload

from inferometer.base.errors import UsageError
from inferometer.base.units import plain_number
from inferometer.options.reach import EVERYTHING, Reach, referenced
from inferometer.options.values import GENERATED, Values

T = TypeVar("T")
Combine = Callable[[Any, Any], Any]  # (what was given before, or None; the new value)
_ROWS = "options"
_GROUP = "group"


class Option(NamedTuple):
    """One way to give a field its value on a command line."""

    names: tuple[str, ...]  # what the help shows
    help: str
    values: Values | None = None  # None for a flag
    own: tuple[str, ...] | None = None  # the names in our own commands; None: the same, none: not shown
    own_values: Values | None = None  # what they take there, where that is more
    own_help: str = ""  # what it does there, where that is more
    instead: str = ""  # why our own commands refuse it, and what to use
    aliases: tuple[str, ...] = ()  # names that are understood and not shown
    is_main: bool = False  # among the few that the short help shows
    field: str = ""  # "data." and the like reach into a part
    value: object = True  # what a flag stands for
    combine: Combine | None = None  # of an option that may be given several times; else the last one counts
    default: str | None = None  # as shown; None shows the field's own
    is_built: bool = True
    meanwhile: str = ""  # what to use until it is built
    is_ours: bool = False  # not in perf_analyzer 2.51; where a prefix fits several names, those of 2.51 win
    is_deprecated: bool = False
    is_secret: bool = False  # its value is never shown
    reach: Reach | None = None  # where it differs from that of its values; a flag reaches nothing
    is_required: bool = False

    @property
    def most_reach(self) -> Reach | None:
        """What its values can reach at most; None where the table does not say."""
        if self.reach is not None:
            return self.reach
        return Reach.NOTHING if self.values is None else self.values.reach

    def reach_of(self, words: Iterable[str]) -> Reach:
        """What these words reach. An option without a declared reach is taken to reach everything."""
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
        """What the option does, its default, and where it stands."""
        notes = [f"default {self.default}"] if self.default else []
        if self.is_deprecated:
            notes.append("deprecated")
        if not self.is_built:
            notes.append("not supported yet")
        return f"{self.help} ({'; '.join(notes)})" if notes else self.help

    @property
    def brief(self) -> str:
        """The first sentence of it, with the default."""
        first = self.help.split(". ")[0].rstrip(".")
        return f"{first} (default {self.default})" if self.default not in (None, "", "0") else first

    def unsupported(self, name: str) -> UsageError | None:
        """The refusal of an option that is not built yet, if this is one."""
        return None if self.is_built else UsageError(f"{name} is not supported yet", remedy=self.meanwhile)


Groups = tuple[tuple[str, tuple[Option, ...]], ...]


def classic(groups: Groups) -> Groups:
    """What the classic script knows: options that have a name there."""
    return _converted(groups, lambda row: _as_classic(row) if row.names else None)


def _as_classic(row: Option) -> Option:
    """The option with the values that the classic script takes, and no others."""
    values = row.values
    if values is not None and values.classic is not None:
        values = dataclasses.replace(values, read=values.classic, classic=None)
    return row._replace(instead="", values=values)


def modern(groups: Groups) -> Groups:
    """What our own commands know: their own names are shown, and long classic names understood."""
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
    """All values, in the order given."""
    return (*(before or ()), value)


def counted(before: Any, value: object) -> int:
    """How often it was given."""
    return (before or 0) + 1


def named(before: Any, value: Any) -> dict[str, Any]:
    """Pairs of a name and a value; the last value of a name counts."""
    return dict([*(before or {}).items(), value])


_EMPTY: Mapping[Combine | None, Any] = {appended: (), counted: 0, named: {}}
"""What was given before the first time."""


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
    """The field of an option; without a default it is None, False for a flag, and empty where values are collected.

    `names` and `own` are separated by blanks; `more` are fields of `Option`. `group` is the title in the help for this
    field and those that follow. `also` are other options that set the field.
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
    """The field of an option that perf_analyzer 2.51 does not have."""
    return option(names, help, values, is_ours=True, **more)


def only_ours(names: str, help: str, values: Values | None = None, **more: Any) -> Any:
    """The field of an option that only our own commands have, not the classic script."""
    return ours("", help, values, own=names, **more)


def part(cls: type[T], *, also: Sequence[Option] = ()) -> T:
    """A field that holds options of its own kind; `also` are options that set several of its fields."""
    return dataclasses.field(default_factory=cls, metadata={_ROWS: tuple(also)})


@cache
def rows(cls: type, *, prefix: str = "") -> Groups:
    """The options of a class, by the groups of the help."""
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
    """A default as one would write it; what is absent is not shown."""
    if isinstance(default, bool):
        return ""
    if isinstance(default, int | float):
        return plain_number(default) if isinstance(default, float) else str(default)
    return str(default) if isinstance(default, str | Path) else ""


# --- combinations of options that are refused

Given = Mapping[str, Any]
"""What was given, from field to value, and nothing else: rules can be checked before `Options` are made of it."""


class Rule(NamedTuple):
    """A combination of options that is refused, and the sentence that says so."""

    is_broken: Callable[[Given], bool]
    message: str  # as the classic script says it
    remedy: str = ""  # what our own commands add, where the sentence does not say it


def is_grpc(given: Given) -> bool:
    return bool(given.get("protocol") == "grpc")


def is_async(given: Given) -> bool:
    return "asynchronous" in given or "streaming" in given


def names_data(given: Given) -> bool:
    """Whether a file or a directory of data was given."""
    return any(source not in GENERATED for source in given.get("data.sources", ()))
